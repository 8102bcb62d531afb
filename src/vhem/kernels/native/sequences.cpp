// Sequences under HMMs: log-likelihoods, posterior probabilities of the states, Viterbi paths.
#include <limits>

#include "hmm.hpp"
#include "threads.hpp"

namespace {

double log_likelihood(Forward& forward, const double* X, long T) {
    auto forget = [](long, const double*) {};
    double result = 0;
    if (!forward.scaled(X, T, result, forget)) result = forward.in_logs(X, T, forget);
    return result;
}

double posterior(const Model& model, const double* X, long T, double* out) {
    const int S = model.S;
    Forward forward(model);
    Backward backward(model, forward);
    auto keep = [&](long t, const double* row) { std::copy(row, row + S, out + t * S); };
    double result = 0;
    const bool in_logs = !forward.scaled(X, T, result, keep);
    if (in_logs) result = forward.in_logs(X, T, keep);
    backward.begin(in_logs, out + (T - 1) * S);
    for (long t = T - 2; t >= 0; --t) backward.step(out + t * S, out + (t + 1) * S);
    return result;
}

// The likeliest path; of equal ones, that through the lower states.
class Viterbi {
  public:
    Viterbi(const Model& model, long T) : model(model), best(model.padded), next(model.padded), from(T * model.S) {}

    double run(const double* X, long T, int64_t* path) {
        Emissions emissions(model);
        std::vector<double> block(kBlock * model.padded);
        double total = 0;
        for (long t0 = 0; t0 < T; t0 += kBlock) {
            int n = static_cast<int>(std::min<long>(kBlock, T - t0));
            emissions.in_logs(X + t0 * model.d, n, block.data());
            for (int t = 0; t < n; ++t) total += step(t0 + t, &block[t * model.padded]);
        }
        path[T - 1] = std::max_element(best.begin(), best.begin() + model.S) - best.begin();
        for (long t = T - 1; t > 0; --t) path[t - 1] = from[t * model.S + path[t]];
        return total;
    }

  private:
    const Model& model;
    std::vector<double> best, next;
    std::vector<int32_t> from;

    // The best scores are kept relative to the frame's best, which is returned, so that long sequences lose nothing.
    double step(long t, const double* logs) {
        const int S = model.S;
        if (t == 0) {
            std::copy(model.log_start.begin(), model.log_start.end(), next.begin());
        } else {
            int32_t* origin = &from[t * S];
            std::fill(next.begin(), next.end(), -std::numeric_limits<double>::infinity());
            for (int r = 0; r < S; ++r)
                for (int s = 0; s < S; ++s) {
                    double score = best[r] + model.log_trans[r * model.padded + s];
                    origin[s] = score > next[s] ? r : origin[s];
                    next[s] = score > next[s] ? score : next[s];
                }
        }
        for (int s = 0; s < S; ++s) next[s] += logs[s];
        double top = *std::max_element(next.begin(), next.begin() + S);
        for (int s = 0; s < S; ++s) best[s] = std::max(kLogZero, next[s] - top);
        return top;
    }
};

// A task is one HMM and a stretch of sequences: the HMM is made ready once a task, and few HMMs still feed all threads.
void log_likelihoods(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
                     Integers n_states, Doubles X, Integers offsets, int n_threads, DoublesOut out) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    const long K = arrays.K, stretches = std::min(frames.n, std::max(1L, 8L * n_threads / K));
    nb::gil_scoped_release release;
    parallel_for(K * stretches, n_threads, [&](long task, int) {
        const long k = task % K, stretch = task / K;
        Model model(arrays, k);
        Forward forward(model);
        for (long i = frames.n * stretch / stretches; i < frames.n * (stretch + 1) / stretches; ++i)
            out.data()[i * K + k] = log_likelihood(forward, frames.begin(i, arrays.d), frames.length(i));
    });
}

void posteriors(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
                Integers n_states, Doubles X, Integers offsets, int n_threads, DoublesOut scores, DoublesOut out) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    nb::gil_scoped_release release;
    const Model model(arrays, 0);
    parallel_for(frames.n, n_threads, [&](long i, int) {
        double* rows = out.data() + frames.offsets[i] * model.S;
        scores.data()[i] = posterior(model, frames.begin(i, arrays.d), frames.length(i), rows);
    });
}

void viterbi(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
             Integers n_states, Doubles X, Integers offsets, int n_threads, DoublesOut scores, IntegersOut out) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    nb::gil_scoped_release release;
    const Model model(arrays, 0);
    parallel_for(frames.n, n_threads, [&](long i, int) {
        Viterbi search(model, frames.length(i));
        scores.data()[i] =
            search.run(frames.begin(i, arrays.d), frames.length(i), out.data() + frames.offsets[i]);
    });
}

}  // namespace

void bind_sequences(nb::module_& m) {
    m.def("log_likelihoods", &log_likelihoods);
    m.def("posteriors", &posteriors);
    m.def("viterbi", &viterbi);
}
