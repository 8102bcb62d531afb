// What one E-step of Baum-Welch leaves of one sequence under one HMM, and the general way to compute it: one sequence at
// a time, in blocks of frames, with the forward probabilities as the only memory that grows with its length.
#pragma once

#include <array>

#include "hmm.hpp"

namespace {

// Where the sums of one sequence and one HMM lie: start (S), trans (S, S), occupancy (S, M), then the family's moments,
// (S, M, width) each.
template <class Family>
struct Layout {
    long S, M;
    std::array<long, Family::kMoments> widths, moments;
    long trans, occupancy, size;

    explicit Layout(const Models<Family>& m)
        : S(m.S), M(m.M), widths(Family::widths(m.components)), trans(S), occupancy(trans + S * S), size(occupancy + S * M) {
        for (int i = 0; i < Family::kMoments; ++i) moments[i] = size, size += S * M * widths[i];
    }
};

// How long HMMs iterate inside the engine, one entry per HMM: what goes in and comes out again, and when each stops.
struct Iterations {
    double* objective;
    int64_t* n_iter;
    const double *least, *tolerance;  // frames of a state that lives, and gain of an HMM that goes on
    int max_iter;
};

// HMMs that learn from their own sequences, arrays with one row per HMM. A family adds its own.
struct Learning : Iterations {
    double *startprob, *transmat;
    const double *start, *trans;  // pseudo-counts
};

// Sums over the frames of one HMM's sequences, one sequence at a time.
template <class Family>
class Accumulator {
  public:
    using Anchors = typename Family::Anchors;

    Accumulator(const Models<Family>& models, long k, const Anchors& anchors, Worker& worker)
        : layout(models), k(k), anchors(anchors), worker(worker), model(models, k), forward(model, worker),
          backward(model), emissions(model, worker), accumulation(model.all), weight(kBlockFrames), u(kBlockFrames) {}

    double log_likelihood(const double* X, long T) {
        double result = 0;
        return forward.scaled(X, T, result, nullptr) ? result : forward.in_logs(X, T, nullptr);
    }

    // Adds w times the sequence's sums to `out`; returns log p(y).
    double add(const double* X, long T, double w, double* out) {
        const int S = model.S;
        alpha.resize(T * S);
        double result = 0;
        const bool in_logs = !forward.scaled(X, T, result, alpha.data());
        if (in_logs) result = forward.in_logs(X, T, alpha.data());
        backward.begin(in_logs, &alpha[(T - 1) * S]);
        add_stretch(X, 0, T, alpha.data(), nullptr, w, out);
        for (int s = 0; s < S; ++s) out[s] += w * alpha[s];
        return result;
    }

    // Rows begin … end - 1 of scaled forward probabilities become posteriors, given that of the frame behind them, unless
    // the sequence ends there. Adds w times their sums, but for the start's, to `out`.
    void add_rows(const double* X, long begin, long end, double* rows, const double* behind, double w, double* out) {
        backward.begin(false, rows + (end - 1 - begin) * model.S);
        add_stretch(X, begin, end, rows, behind, w, out);
    }

  private:
    const Layout<Family> layout;
    const long k;
    const Anchors anchors;
    Worker& worker;
    const Model<Family> model;
    Forward<Family> forward;
    Backward backward;
    Emissions<Family> emissions;
    typename Family::Accumulation accumulation;
    std::vector<double> alpha;      // forward probabilities, then posteriors, [frame][state]
    std::vector<double> weight, u;  // of a block's frames in one state, and in one of its components

    __attribute__((noinline)) void add_stretch(const double* X, long begin, long end, double* rows, const double* behind, double w, double* out) {
        const int S = model.S;
        for (long t0 = begin + (end - 1 - begin) / kBlockFrames * kBlockFrames; t0 >= begin; t0 -= kBlockFrames) {
            const int n = static_cast<int>(std::min<long>(kBlockFrames, end - t0));
            worker.checkpoint();
            for (long t = t0 + n - 1; t >= t0; --t) {
                const double* later = t + 1 < end ? &rows[(t + 1 - begin) * S] : behind;
                if (later) backward.step(&rows[(t - begin) * S], later);
            }
            add_block(X + t0 * model.d, n, &rows[(t0 - begin) * S], w, out);
        }
        backward.add_transitions(w, out + layout.trans, layout.S);
    }

    void add_block(const double* X, int n, const double* gamma, double w, double* out) {
        emissions.frames.load(X, n);
        for (int s = 0; s < model.S; ++s) {
            for (int t = 0; t < n; ++t) weight[t] = w * gamma[t * model.S + s];
            for (int t = n; t < round_up(n); ++t) weight[t] = 0.0;
            const double* share = emissions.shares(s);
            for (int m = model.first[s]; m < model.first[s + 1]; ++m, share += kBlockFrames) {
                for (int t = 0; t < n; t += kLanes) store(&u[t], load(&weight[t]) * load(share + t));
                add_component(model.components[m], out);
            }
        }
    }

    void add_component(const typename Family::Component& c, double* out) {
        const long at = c.index - k * layout.S * layout.M;
        std::array<double*, Family::kMoments> moments;
        for (int m = 0; m < Family::kMoments; ++m) moments[m] = out + layout.moments[m];
        accumulation.add(c, emissions.frames, u.data(), anchors, at, layout.S * layout.M, out[layout.occupancy + at], moments,
                         worker);
    }
};

}  // namespace
