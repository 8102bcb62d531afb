// One HMM made ready, and the recursions on one sequence: emission densities, forward, backward.
//
// Emission densities are computed for blocks of frames, one frame per lane of a register. The forward recursion then
// runs on plain products, scaled frame by frame; where zeros in the transition matrix could make a number that
// matters fall below the smallest double, a running bound on what was dropped tells so, and the sequence is done
// again in logs.
#pragma once

#include <algorithm>
#include <vector>

#include "arguments.hpp"
#include "triangles.hpp"

namespace {

// The arrays of K models, and their sizes.
struct Arrays {
    const double *startprob, *transmat, *mix_weights, *means, *covars;
    const int64_t* n_states;
    int K, S, M, d;
    bool full;
    long covar_size() const { return full ? static_cast<long>(d) * d : d; }
};

double log_or_zero(double p) { return p > 0 ? std::log(p) : kLogZero; }

int round_up(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// One Gaussian of one state's mixture: log c + log N(x; μ, Σ).
struct Gaussian {
    double log_weight, log_factor;  // log c, and log c minus half of log|2πΣ|
    const double *mean, *covar;
    long index;  // among all Gaussians of all HMMs
    // Diagonal: -1/(2σ²), then -log(2πσ²)/2, d of each. Full: the triangle L⁻¹ that whitens, d×d.
    std::vector<double> scale;

    Gaussian(const Arrays& a, long index)
        : log_weight(std::log(a.mix_weights[index])), log_factor(log_weight), mean(a.means + index * a.d),
          covar(a.covars + index * a.covar_size()), index(index) {
        a.full ? prepare_full(a.d) : prepare_diagonal(a.d);
    }

    void prepare_diagonal(int d) {
        scale.resize(2 * d);
        for (int j = 0; j < d; ++j) {
            scale[j] = -0.5 / covar[j];
            scale[d + j] = -0.5 * (kLogTwoPi + std::log(covar[j]));
            log_factor += scale[d + j];
        }
    }

    void prepare_full(int d) {
        std::vector<double> L(d * d);
        std::vector<int> all(d);
        for (int j = 0; j < d; ++j) all[j] = j;
        cholesky(covar, d, all, L.data());
        scale.resize(d * d);
        invert_triangle(L.data(), d, scale.data());
        for (int j = 0; j < d; ++j) log_factor -= 0.5 * kLogTwoPi + std::log(L[j * d + j]);
    }
};

// One HMM, made ready. Rows over states are padded to whole registers, with probability zero.
struct Model {
    int S, padded, d;
    bool full;
    bool ergodic = true;  // every transition above kErgodic
    bool tiny = false;    // some transition so small that products with it may vanish
    std::vector<double> start, trans, log_start, log_trans;
    std::vector<Gaussian> gaussians;
    std::vector<int> first;  // gaussians[first[s]] … gaussians[first[s + 1] - 1] are those of state s

    Model(const Arrays& a, long k) : S(static_cast<int>(a.n_states[k])), padded(round_up(S)), d(a.d), full(a.full) {
        start.assign(padded, 0.0);
        trans.assign(S * padded, 0.0);
        log_start.assign(padded, kLogZero);
        log_trans.assign(S * padded, kLogZero);
        for (int s = 0; s < S; ++s) {
            start[s] = a.startprob[k * a.S + s];
            log_start[s] = log_or_zero(start[s]);
            set_transitions(s, a.transmat + (k * a.S + s) * a.S);
            add_gaussians(a, k * a.S + s);
        }
        first.push_back(static_cast<int>(gaussians.size()));
        judge_transitions();
    }

    void set_transitions(int s, const double* row) {
        for (int r = 0; r < S; ++r) {
            trans[s * padded + r] = row[r];
            log_trans[s * padded + r] = log_or_zero(row[r]);
        }
    }

    void add_gaussians(const Arrays& a, long state) {
        first.push_back(static_cast<int>(gaussians.size()));
        for (long g = state * a.M; g < (state + 1) * a.M; ++g)
            if (a.mix_weights[g] > 0) gaussians.emplace_back(a, g);
    }

    void judge_transitions() {
        for (int s = 0; s < S; ++s)
            for (int r = 0; r < S; ++r) {
                double a = trans[s * padded + r];
                ergodic = ergodic && a >= kErgodic;
                tiny = tiny || (a > 0 && a < kSmallTransition);
            }
    }

    // Whether what was dropped so far cannot matter: the first frame's sum and the bound on the dropped share tell.
    bool trusts(double first_sum, double dropped) const {
        return ergodic ? first_sum >= kErgodic : dropped <= kMostDropped;
    }
};

// Log-densities of up to kBlockFrames frames: log Σ_m c_m N(y_t; μ_m, Σ_m), for every state.
class Emissions {
  public:
    Emissions(const Model& model, Worker& worker)
        : columns(model.d * kBlockFrames), model(model), worker(worker), logs(model.S * kBlockFrames), offset(model.d * kLanes),
          mixture(model.gaussians.size() * kBlockFrames) {}

    // out[t·padded + s] = log b_s(y_t), and kLogZero behind the last state.
    void in_logs(const double* X, int n, double* out) {
        compute(X, n);
        for (int t = 0; t < n; ++t) {
            for (int s = 0; s < model.S; ++s) out[t * model.padded + s] = logs[s * kBlockFrames + t];
            for (int s = model.S; s < model.padded; ++s) out[t * model.padded + s] = kLogZero;
        }
    }

    // The same as exp(log b_s - peak), with the frame's largest as its peak: never below 1e-308.
    void scaled(const double* X, int n, double* out, double* peak) {
        compute(X, n);
        for (int t = 0; t < n; t += kLanes) {
            vec top = load(&logs[t]);
            for (int s = 1; s < model.S; ++s) top = vmax(top, load(&logs[s * kBlockFrames + t]));
            store(peak + t, top);
            int lanes = std::min(kLanes, n - t);
            for (int s = 0; s < model.S; ++s) {
                vec e = vexp(load(&logs[s * kBlockFrames + t]) - top);
                for (int l = 0; l < lanes; ++l) out[(t + l) * model.padded + s] = e[l];
            }
        }
    }

    // Takes frames for `shares`, and for whoever reads `columns` and `incomplete`.
    void load_frames(const double* X, int n) {
        incomplete.clear();
        for (int t = 0; t < n; ++t) {
            bool missing = false;
            for (int j = 0; j < model.d; ++j) {
                double x = X[t * model.d + j];
                columns[j * kBlockFrames + t] = x;
                missing = missing || x != x;
            }
            if (missing) incomplete.push_back(t);
        }
        for (int t = n; t < round_up(n); ++t)
            for (int j = 0; j < model.d; ++j) columns[j * kBlockFrames + t] = 0.0;
    }

    // Each component's share in the density of state s, c_m N(y_t; μ_m, Σ_m) / b_s(y_t), [component][frame].
    const double* shares(const double* X, int n, int s) {
        const int count = model.first[s + 1] - model.first[s];
        if (count == 1) std::fill_n(mixture.begin(), round_up(n), 1.0);
        if (count == 1) return mixture.data();
        for (int m = 0; m < count; ++m) density(model.gaussians[model.first[s] + m], X, n, &mixture[m * kBlockFrames]);
        mix(count, n, &logs[s * kBlockFrames]);
        for (int m = 0; m < count; ++m)
            for (int t = 0; t < n; t += kLanes)
                store(&mixture[m * kBlockFrames + t], vexp(load(&mixture[m * kBlockFrames + t]) - load(&logs[s * kBlockFrames + t])));
        return mixture.data();
    }

    std::vector<double> columns;  // the block's frames, [dimension][frame]
    std::vector<int> incomplete;  // frames with missing values

  private:
    const Model& model;
    Worker& worker;
    std::vector<double> logs;     // [state][frame]
    std::vector<double> offset;   // x - μ of one register of frames
    std::vector<double> mixture;  // [component][frame]

    void compute(const double* X, int n) {
        load_frames(X, n);
        for (int s = 0; s < model.S; ++s) {
            int count = model.first[s + 1] - model.first[s];
            double *state = &logs[s * kBlockFrames], *to = count == 1 ? state : mixture.data();
            for (int m = 0; m < count; ++m) density(model.gaussians[model.first[s] + m], X, n, to + m * kBlockFrames);
            if (count > 1) mix(count, n, state);
        }
    }

    void density(const Gaussian& g, const double* X, int n, double* out) {
        worker.checkpoint();
        for (int t = 0; t < n; t += kLanes) {
            vec log = model.full ? full(g, t) : incomplete.empty() ? diagonal<false>(g, t) : diagonal<true>(g, t);
            store(out + t, vmax(log, splat(kLeastLog)));
        }
        if (model.full && !incomplete.empty()) marginals(g, X, out);
    }

    // A missing dimension integrates to one: its factor is left out.
    template <bool Missing>
    vec diagonal(const Gaussian& g, int t) const {
        const int d = model.d;
        vec log = splat(Missing ? g.log_weight : g.log_factor);
        for (int j = 0; j < d; ++j) {
            vec x = load(&columns[j * kBlockFrames + t]), difference = x - g.mean[j];
            if (Missing) {
                vec term = fma(difference * difference, splat(g.scale[j]), splat(g.scale[d + j]));
                log += x == x ? term : vec{};
            } else {
                log = fma(difference * difference, splat(g.scale[j]), log);
            }
        }
        return log;
    }

    vec full(const Gaussian& g, int t) {
        const int d = model.d;
        vec log = splat(g.log_factor);
        for (int i = 0; i < d; ++i) {
            store(&offset[i * kLanes], load(&columns[i * kBlockFrames + t]) - g.mean[i]);
            vec z = {};
            for (int j = 0; j <= i; ++j) z = fma(splat(g.scale[i * d + j]), load(&offset[j * kLanes]), z);
            log = fma(z * splat(-0.5), z, log);
        }
        return log;
    }

    // Frames with missing values under a full covariance, one by one: the density of what was observed. Neighbours
    // often miss the same dimensions, and then share the factor.
    void marginals(const Gaussian& g, const double* X, double* out) const {
        std::vector<int> kept, now;
        std::vector<double> L(model.d * model.d), z(model.d);
        bool fresh = true;
        for (int t : incomplete) {
            worker.checkpoint();
            const double* x = X + t * model.d;
            now.clear();
            for (int j = 0; j < model.d; ++j)
                if (x[j] == x[j]) now.push_back(j);
            if (fresh || now != kept) cholesky(g.covar, model.d, kept = now, L.data());
            fresh = false;
            out[t] = std::max(kLeastLog, g.log_weight + whitened(g, x, kept, L.data(), z.data()));
        }
    }

    static double whitened(const Gaussian& g, const double* x, const std::vector<int>& kept, const double* L,
                           double* z) {
        int n = static_cast<int>(kept.size());
        double log = -0.5 * n * kLogTwoPi;
        for (int i = 0; i < n; ++i) {
            z[i] = x[kept[i]] - g.mean[kept[i]];
            for (int j = 0; j < i; ++j) z[i] -= L[i * n + j] * z[j];
            z[i] /= L[i * n + i];
            log -= 0.5 * z[i] * z[i] + std::log(L[i * n + i]);
        }
        return log;
    }

    void mix(int count, int n, double* out) const {
        for (int t = 0; t < n; t += kLanes) {
            vec top = load(&mixture[t]), total = {};
            for (int m = 1; m < count; ++m) top = vmax(top, load(&mixture[m * kBlockFrames + t]));
            for (int m = 0; m < count; ++m) total += vexp(load(&mixture[m * kBlockFrames + t]) - top);
            store(out + t, top + vlog(total));
        }
    }
};

// The forward recursion on one sequence. Both forms give log p(y), and hand every frame's normalised forward
// probabilities, or their logs, to keep(t, row).
class Forward {
  public:
    Forward(const Model& model, Worker& worker)
        : model(model), emissions(model, worker), block(kBlockFrames * model.padded), peak(kBlockFrames), sums(kBlockFrames),
          now(model.padded), next(model.padded) {}

    // False where numbers were dropped that may matter.
    template <class Keep>
    bool scaled(const double* X, long T, double& log_likelihood, Keep keep) {
        double total = 0, dropped = 0, first_sum = 0;
        for (long t0 = 0; t0 < T; t0 += kBlockFrames) {
            int n = static_cast<int>(std::min<long>(kBlockFrames, T - t0));
            emissions.scaled(X + t0 * model.d, n, block.data(), peak.data());
            for (int t = 0; t < n; ++t) {
                sums[t] = step(t0 + t == 0, &block[t * model.padded], dropped);
                keep(t0 + t, now.data());
            }
            if (t0 == 0) first_sum = sums[0];
            if (!model.trusts(first_sum, dropped)) return false;
            total += log_of_block(n);
        }
        log_likelihood = total;
        return true;
    }

    template <class Keep>
    double in_logs(const double* X, long T, Keep keep) {
        double total = 0;
        for (long t0 = 0; t0 < T; t0 += kBlockFrames) {
            int n = static_cast<int>(std::min<long>(kBlockFrames, T - t0));
            emissions.in_logs(X + t0 * model.d, n, block.data());
            for (int t = 0; t < n; ++t) {
                total += log_step(t0 + t == 0, &block[t * model.padded]);
                keep(t0 + t, now.data());
            }
        }
        double share = 0;
        for (int s = 0; s < model.S; ++s) share += std::exp(now[s]);
        return total + std::log(share);
    }

    // next_s = Σ_r now_r a_rs: the states one frame ahead.
    void predict(const double* now, double* next) const {
        for (int s = 0; s < model.padded; s += kLanes) {
            vec even = {}, odd = {};  // two sums, so that neither waits for the other
            int r = 0;
            for (; r + 1 < model.S; r += 2) {
                even = fma(splat(now[r]), load(&model.trans[r * model.padded + s]), even);
                odd = fma(splat(now[r + 1]), load(&model.trans[(r + 1) * model.padded + s]), odd);
            }
            if (r < model.S) even = fma(splat(now[r]), load(&model.trans[r * model.padded + s]), even);
            store(next + s, even + odd);
        }
    }

    void predict_in_logs(const double* now, double* next) const {
        for (int s = 0; s < model.padded; s += kLanes) {
            vec top = splat(kLogZero), total = {};
            for (int r = 0; r < model.S; ++r) top = vmax(top, now[r] + load(&model.log_trans[r * model.padded + s]));
            for (int r = 0; r < model.S; ++r)
                total += vexp(now[r] + load(&model.log_trans[r * model.padded + s]) - top);
            store(next + s, vmax(top + vlog(total), splat(kLogZero)));
        }
    }

  private:
    const Model& model;
    Emissions emissions;
    std::vector<double> block, peak, sums, now, next;

    // One frame: multiply by the densities, drop what is too small, normalise. Returns the sum. What was dropped
    // so far is carried as a share of the sum; it can only shrink against the peaks, so this share is a bound.
    double step(bool first, const double* densities, double& dropped) {
        if (!first) predict(now.data(), next.data());
        const double* predicted = first ? model.start.data() : next.data();
        vec total = {}, lost = {};
        for (int s = 0; s < model.padded; s += kLanes) {
            vec p = load(predicted + s), a = p * load(densities + s);
            ivec small = a < kDropped;
            lost += (small & (p > (model.tiny ? -1.0 : 0.0))) ? splat(kDropped) : vec{};
            a = small ? vec{} : a;
            total += a;
            store(&now[s], a);
        }
        double all = sum(total);
        dropped = (dropped + sum(lost)) / all;
        vec scale = splat(1.0 / all);
        for (int s = 0; s < model.padded; s += kLanes) store(&now[s], load(&now[s]) * scale);
        return all;
    }

    double log_of_block(int n) const {
        double total = 0;
        for (int t = 0; t < n; t += kLanes) {
            int lanes = std::min(kLanes, n - t);
            vec logs = vlog(load(&sums[t])) + load(&peak[t]);
            for (int l = 0; l < lanes; ++l) total += logs[l];
        }
        return total;
    }

    // One frame in logs; the largest becomes zero and is returned.
    double log_step(bool first, const double* logs) {
        if (!first) predict_in_logs(now.data(), next.data());
        const double* predicted = first ? model.log_start.data() : next.data();
        double top = predicted[0] + logs[0];
        for (int s = 1; s < model.S; ++s) top = std::max(top, predicted[s] + logs[s]);
        for (int s = 0; s < model.padded; ++s) now[s] = std::max(kLogZero, predicted[s] + logs[s] - top);
        return top;
    }
};

// From the last frame to the first, a sequence's rows of forward probabilities (or of their logs) become posteriors:
//   ξ_t(r,s) = [ α_t(r) a_rs / p_{t+1}(s) ] γ_{t+1}(s)  with  p_{t+1}(s) = Σ_r α_t(r) a_rs,   γ_t(r) = Σ_s ξ_t(r,s).
// Every bracket is a probability, so nothing overflows.
class Backward {
  public:
    Backward(const Model& model, const Forward& forward)
        : model(model), forward(forward), columns(model.S * model.padded), ahead(model.padded), ratio(model.padded),
          total(model.padded), xi(model.S * model.padded) {
        for (int r = 0; r < model.S; ++r)
            for (int s = 0; s < model.S; ++s) columns[s * model.padded + r] = model.trans[r * model.padded + s];
    }

    // Begins a sequence at the row of its last frame.
    void begin(bool logs, double* last) {
        in_logs = logs;
        std::fill(xi.begin(), xi.end(), 0.0);
        if (!in_logs) return;
        double all = 0;
        for (int s = 0; s < model.S; ++s) all += last[s] = std::exp(last[s]);
        for (int s = 0; s < model.S; ++s) last[s] /= all;
    }

    void step(double* row, const double* later) { in_logs ? log_step(row, later) : scaled_step(row, later); }

    // Adds w Σ_t ξ_t to rows of `width`.
    void add_transitions(double w, double* out, int width) const {
        for (int r = 0; r < model.S; ++r)
            for (int s = 0; s < model.S; ++s) {
                double factor = in_logs ? 1.0 : model.trans[r * model.padded + s];
                out[r * width + s] += w * factor * xi[r * model.padded + s];
            }
    }

  private:
    const Model& model;
    const Forward& forward;
    bool in_logs = false;
    std::vector<double> columns;  // the transition matrix, transposed
    std::vector<double> ahead, ratio, total;
    std::vector<double> xi;  // Σ_t ξ_t, without the factor a_rs where the numbers are no logs

    void scaled_step(double* row, const double* later) {
        const int S = model.S, padded = model.padded;
        forward.predict(row, ahead.data());
        for (int s = 0; s < S; ++s) ratio[s] = later[s] > 0 ? later[s] / ahead[s] : 0.0;
        for (int r = 0; r < padded; r += kLanes) {
            vec even = {}, odd = {};
            for (int s = 0; s + 1 < S; s += 2) {
                even = fma(splat(ratio[s]), load(&columns[s * padded + r]), even);
                odd = fma(splat(ratio[s + 1]), load(&columns[(s + 1) * padded + r]), odd);
            }
            if (S % 2) even = fma(splat(ratio[S - 1]), load(&columns[(S - 1) * padded + r]), even);
            store(&total[r], even + odd);
        }
        for (int r = 0; r < S; ++r) {
            for (int s = 0; s < padded; s += kLanes)
                store(&xi[r * padded + s], fma(splat(row[r]), load(&ratio[s]), load(&xi[r * padded + s])));
            row[r] = row[r] > 0 ? row[r] * total[r] : 0.0;
        }
    }

    void log_step(double* row, const double* later) {
        forward.predict_in_logs(row, ahead.data());
        for (int r = 0; r < model.S; ++r) {
            double all = 0;
            for (int s = 0; s < model.S; ++s) {
                if (!(later[s] > 0)) continue;
                double share = std::exp(row[r] + model.log_trans[r * model.padded + s] - ahead[s]) * later[s];
                xi[r * model.padded + s] += share;
                all += share;
            }
            row[r] = all;
        }
    }
};

Arrays arrays_of(const GaussianModels& m) {
    const GaussianMixtures& e = m.emissions;
    const auto size = [](long n) { return static_cast<int>(n); };
    return {m.chains.startprob, m.chains.transmat, e.weights, e.means, e.covars, m.chains.n_states,
            size(e.K), size(e.S), size(e.M), size(e.d), e.full};
}

}  // namespace
