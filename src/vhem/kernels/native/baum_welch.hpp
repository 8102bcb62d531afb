// What one E-step of Baum-Welch leaves of one sequence under one HMM, and the general way to compute it: one sequence at
// a time, in blocks of frames, with the forward probabilities as the only memory that grows with its length.
#pragma once

#include "hmm.hpp"

namespace {

// Where the sums of one sequence and one HMM lie: start (S), trans (S, S), occupancy (S, M), first (S, M, d) and
// second (S, M, d) or (S, M, d, d).
struct Layout {
    int S, M, d;
    long covar, trans, occupancy, first, second, size;
    explicit Layout(const Arrays& a)
        : S(a.S), M(a.M), d(a.d), covar(a.covar_size()), trans(S), occupancy(trans + S * S),
          first(occupancy + S * M), second(first + static_cast<long>(S) * M * d), size(second + S * M * covar) {}
};

// The mean and covariance of a Gaussian's missing dimensions, given the observed ones.
class Conditional {
  public:
    Conditional(const Gaussian& g, int d) : g(g), d(d), L(d * d), expected(d), covar(d * d), z(d) {}

    // Afterwards `expected` is the frame with its gaps filled, `covar` the covariance of what was filled in.
    void fill(const double* x) {
        now.clear();
        for (int j = 0; j < d; ++j)
            if (x[j] == x[j]) now.push_back(j);
        if (fresh || now != kept) factorise();
        whiten(x);
        for (int i = 0; i < d; ++i) expected[i] = x[i] == x[i] ? x[i] : g.mean[i] + regression(i);
    }

    const double* mean() const { return expected.data(); }
    const double* covariance() const { return covar.data(); }

  private:
    const Gaussian& g;
    int d;
    bool fresh = true;
    std::vector<int> now, kept;
    std::vector<double> L, expected, covar, z;
    std::vector<double> B;  // L⁻¹ Σ_o·, one row per observed dimension

    // Σ_ij - Σ_io Σ_oo⁻¹ Σ_oj, which vanishes where i or j is observed.
    void factorise() {
        fresh = false;
        kept = now;
        const int n = static_cast<int>(kept.size());
        cholesky(g.covar, d, kept, L.data());
        B.assign(static_cast<size_t>(n) * d, 0.0);
        for (int j = 0; j < d; ++j)
            for (int i = 0; i < n; ++i) {
                double rest = g.covar[kept[i] * d + j];
                for (int k = 0; k < i; ++k) rest -= L[i * n + k] * B[k * d + j];
                B[i * d + j] = rest / L[i * n + i];
            }
        for (int i = 0; i < d; ++i)
            for (int j = 0; j < d; ++j) {
                covar[i * d + j] = g.covar[i * d + j];
                for (int k = 0; k < n; ++k) covar[i * d + j] -= B[k * d + i] * B[k * d + j];
            }
        for (int k : kept)
            for (int j = 0; j < d; ++j) covar[k * d + j] = covar[j * d + k] = 0.0;
    }

    void whiten(const double* x) {
        const int n = static_cast<int>(kept.size());
        for (int a = 0; a < n; ++a) {
            z[a] = x[kept[a]] - g.mean[kept[a]];
            for (int b = 0; b < a; ++b) z[a] -= L[a * n + b] * z[b];
            z[a] /= L[a * n + a];
        }
    }

    double regression(int i) const {
        double total = 0;
        for (size_t a = 0; a < kept.size(); ++a) total += B[a * d + i] * z[a];
        return total;
    }
};

// Sums over the frames of one HMM's sequences, one sequence at a time.
class Accumulator {
  public:
    Accumulator(const Arrays& arrays, long k, const double* anchors, Worker& worker)
        : layout(arrays), k(k), anchors(anchors), worker(worker), model(arrays, k), forward(model, worker),
          backward(model, forward), emissions(model, worker), weight(kBlockFrames), u(kBlockFrames) {}

    double log_likelihood(const double* X, long T) {
        auto forget = [](long, const double*) {};
        double result = 0;
        return forward.scaled(X, T, result, forget) ? result : forward.in_logs(X, T, forget);
    }

    // Adds w times the sequence's sums to `out`; returns log p(y).
    double add(const double* X, long T, double w, double* out) {
        const int S = model.S;
        alpha.resize(T * S);
        auto keep = [&](long t, const double* row) { std::copy(row, row + S, &alpha[t * S]); };
        double result = 0;
        const bool in_logs = !forward.scaled(X, T, result, keep);
        if (in_logs) result = forward.in_logs(X, T, keep);
        backward.begin(in_logs, &alpha[(T - 1) * S]);
        for (long t0 = (T - 1) / kBlockFrames * kBlockFrames; t0 >= 0; t0 -= kBlockFrames) {
            const int n = static_cast<int>(std::min<long>(kBlockFrames, T - t0));
            worker.checkpoint();
            for (long t = std::min(t0 + n, T - 1) - 1; t >= t0; --t) backward.step(&alpha[t * S], &alpha[(t + 1) * S]);
            add_block(X + t0 * model.d, n, &alpha[t0 * S], w, out);
        }
        for (int s = 0; s < S; ++s) out[s] += w * alpha[s];
        backward.add_transitions(w, out + layout.trans, layout.S);
        return result;
    }

  private:
    const Layout layout;
    const long k;
    const double* anchors;
    Worker& worker;
    const Model model;
    Forward forward;
    Backward backward;
    Emissions emissions;
    std::vector<double> alpha;      // forward probabilities, then posteriors, [frame][state]
    std::vector<double> weight, u;  // of a block's frames in one state, and in one of its components

    void add_block(const double* X, int n, const double* gamma, double w, double* out) {
        emissions.load_frames(X, n);
        for (int s = 0; s < model.S; ++s) {
            for (int t = 0; t < n; ++t) weight[t] = w * gamma[t * model.S + s];
            for (int t = n; t < round_up(n); ++t) weight[t] = 0.0;
            const double* share = emissions.shares(X, n, s);
            for (int m = model.first[s]; m < model.first[s + 1]; ++m, share += kBlockFrames) {
                for (int t = 0; t < n; t += kLanes) store(&u[t], load(&weight[t]) * load(share + t));
                model.full ? add_full(model.gaussians[m], X, n, out) : add_diagonal(model.gaussians[m], n, out);
            }
        }
    }

    long place(const Gaussian& g) const { return g.index - k * layout.S * layout.M; }

    // A missing value stands for its distribution under the model: mean μ, variance σ².
    void add_diagonal(const Gaussian& g, int n, double* out) const {
        const double* anchor = anchors + g.index * layout.d;
        const long at = place(g);
        vec occupancy = {};
        for (int t = 0; t < n; t += kLanes) occupancy += load(&u[t]);
        out[layout.occupancy + at] += sum(occupancy);
        for (int j = 0; j < layout.d; ++j) {
            vec first = {}, second = {}, filled = splat(g.mean[j] - anchor[j]), variance = splat(g.covar[j]);
            for (int t = 0; t < n; t += kLanes) {
                vec x = load(&emissions.columns[j * kBlockFrames + t]), share = load(&u[t]);
                vec difference = x == x ? x - anchor[j] : filled;
                first = fma(share, difference, first);
                second = fma(share, fma(difference, difference, x == x ? vec{} : variance), second);
            }
            out[layout.first + at * layout.d + j] += sum(first);
            out[layout.second + at * layout.d + j] += sum(second);
        }
    }

    // Only the lower triangle of the second moments.
    void add_full(const Gaussian& g, const double* X, int n, double* out) {
        const int d = layout.d;
        const double* anchor = anchors + g.index * d;
        double *first = out + layout.first + place(g) * d, *second = out + layout.second + place(g) * layout.covar;
        if (!emissions.incomplete.empty()) add_incomplete(g, anchor, X, first, second, out[layout.occupancy + place(g)]);
        vec occupancy = {};
        for (int t = 0; t < n; t += kLanes) occupancy += load(&u[t]);
        out[layout.occupancy + place(g)] += sum(occupancy);
        for (int i = 0; i < d; ++i)
            for (int j = 0; j <= i; ++j) {
                vec one = {}, two = {};
                for (int t = 0; t < n; t += kLanes) {
                    vec share = load(&u[t]) * (load(&emissions.columns[i * kBlockFrames + t]) - anchor[i]);
                    one += share;
                    two = fma(share, load(&emissions.columns[j * kBlockFrames + t]) - anchor[j], two);
                }
                if (i == j) first[i] += sum(one);
                second[i * d + j] += sum(two);
            }
    }

    // Frames with gaps, one by one; they then count for nothing in the block, and hold no NaN.
    void add_incomplete(const Gaussian& g, const double* anchor, const double* X, double* first, double* second,
                        double& occupancy) {
        const int d = layout.d;
        Conditional conditional(g, d);
        for (int t : emissions.incomplete) {
            worker.checkpoint();
            conditional.fill(X + t * d);
            const double *mean = conditional.mean(), *covar = conditional.covariance();
            occupancy += u[t];
            for (int i = 0; i < d; ++i) {
                first[i] += u[t] * (mean[i] - anchor[i]);
                for (int j = 0; j <= i; ++j)
                    second[i * d + j] += u[t] * ((mean[i] - anchor[i]) * (mean[j] - anchor[j]) + covar[i * d + j]);
            }
            u[t] = 0.0;
            for (int i = 0; i < d; ++i) emissions.columns[i * kBlockFrames + t] = anchor[i];
        }
    }
};

}  // namespace
