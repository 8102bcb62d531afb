// Sequences under one HMM: posterior probabilities of the states, Viterbi paths.
#include <limits>

#include "families/parts.hpp"
#include "hmm.hpp"

namespace {

template <class Family>
double posterior(const Model<Family>& model, const double* X, long T, double* out, Worker& worker) {
    const int S = model.S;
    Forward<Family> forward(model, worker);
    Backward backward(model);
    double result = 0;
    const bool in_logs = !forward.scaled(X, T, result, out);
    if (in_logs) result = forward.in_logs(X, T, out);
    backward.begin(in_logs, out + (T - 1) * S);
    for (long t = T - 2; t >= 0; --t) {
        worker.checkpoint_at(t);
        backward.step(out + t * S, out + (t + 1) * S);
    }
    return result;
}

// The likeliest path; of equal ones, that through the lower states.
template <class Family>
class Viterbi {
  public:
    Viterbi(const Model<Family>& model, long T, Worker& worker) : model(model), emissions(model, worker), best(model.padded), next(model.padded), from(T * model.S) {}

    double run(const double* X, long T, int64_t* path) {
        std::vector<double> block(kBlockFrames * model.padded);
        double total = 0;
        for (long t0 = 0; t0 < T; t0 += kBlockFrames) {
            int n = static_cast<int>(std::min<long>(kBlockFrames, T - t0));
            emissions.in_logs(X + t0 * model.d, n, block.data());
            for (int t = 0; t < n; ++t) total += step(t0 + t, &block[t * model.padded]);
        }
        path[T - 1] = std::max_element(best.begin(), best.begin() + model.S) - best.begin();
        for (long t = T - 1; t > 0; --t) path[t - 1] = from[t * model.S + path[t]];
        return total;
    }

  private:
    const Model<Family>& model;
    Emissions<Family> emissions;
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

// The states of one HMM over sequences: calls work(model, X, T, first frame, i, worker) for every sequence i.
template <class Given, class Work>
void for_each_sequence(const Given& models, const Sequences& sequences, const Run& run, Work work) {
    models.emissions.check_frames(sequences);
    if (models.chains.K != 1) refuse("models must be one HMM, got " + std::to_string(models.chains.K) + ".");
    run_call(run, [&](Call& call) {
        with_family(models, [&](auto family) {
            const Model<decltype(family)> model(models_of<decltype(family)>(models), 0);
            parallel_for(call, sequences.n, [&](long i, Worker& worker) {
                work(model, sequences.begin(i), sequences.length(i), sequences.offsets[i], i, worker);
            });
        });
    });
}

// log p(y_i) into scores, (n,), and posterior probabilities into gamma, (T, S).
template <class Given>
void posteriors(const Given& models, const Sequences& sequences, Output scores, Output gamma, const Run& run) {
    double* to = doubles_out(scores, "scores", {sequences.n});
    double* rows = doubles_out(gamma, "gamma", {size_of(sequences.arrays[0], 0), models.chains.K ? models.chains.n_states[0] : 0});
    for_each_sequence(models, sequences, run, [&](const auto& model, const double* X, long T, long at, long i, Worker& worker) {
        to[i] = posterior(model, X, T, rows + at * model.S, worker);
    });
}

// max_x log p(x, y_i) into scores, (n,), and the states that reach it into paths, (T,).
template <class Given>
void viterbi(const Given& models, const Sequences& sequences, Output scores, Output paths, const Run& run) {
    double* to = doubles_out(scores, "scores", {sequences.n});
    int64_t* states = integers_out(paths, "paths", {size_of(sequences.arrays[0], 0)});
    for_each_sequence(models, sequences, run, [&](const auto& model, const double* X, long T, long at, long i, Worker& worker) {
        to[i] = Viterbi(model, T, worker).run(X, T, states + at);
    });
}

}  // namespace

namespace {

template <class Given>
void bind_models(nb::module_& m) {
    using namespace nb::literals;
    m.def("posteriors", &posteriors<Given>, nb::kw_only(), "models"_a, "sequences"_a, "scores"_a, "gamma"_a, "run"_a);
    m.def("viterbi", &viterbi<Given>, nb::kw_only(), "models"_a, "sequences"_a, "scores"_a, "paths"_a, "run"_a);
}

}  // namespace

void bind_sequences(nb::module_& m) {
    bind_models<GaussianModels>(m);
    bind_models<PartModels>(m);
}
