// One long sequence under one HMM, in stretches that threads do at the same time.
//
// A chain whose transitions are all possible forgets where it was. The forward recursion of a stretch therefore begins
// some frames before it, knowing nothing, and the backward one some frames behind it. That these were enough is checked:
// what a stretch began with must be, to kForgotten, what its neighbour ended with. Neither recursion can enlarge such a
// difference (the forward one in Hilbert's metric, the backward one in that of total variation). Where the check fails,
// the sequence is done in one piece. Stretches do not depend on the number of threads, so neither does the result; and each
// is done forward and back before the next one, so that its probabilities stay in the second-level cache.
#pragma once

#include "baum_welch.hpp"

namespace {

template <class Family>
class LongSequence {
  public:
    LongSequence(const Models<Family>& models, long k, const typename Family::Anchors& anchors, const double* X, long T, Call& call)
        : models(models), k(k), anchors(anchors), model(models, k), X(X), T(T), call(call), n((T + kStretch - 1) / kStretch),
          S(model.S), began(n * S), ended(n * S), seen(n * S), made(n * S), scores(n), rows(call.n_threads) {}

    // False where the sequence must be done in one piece. `slot` may be null; then only log p(y) is wanted.
    bool run(double w, double* slot, double& log_likelihood) {
        if (!model.ergodic || !(warm_up = frames_to_forget())) return false;
        const Layout<Family> layout(models);
        std::vector<double> sums(slot ? n * layout.size : 0);
        std::vector<char> good(n, false);
        parallel_for(call, n, [&](long i, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            good[i] = run_stretch(i, w, slot ? &sums[i * layout.size] : nullptr, worker);
        });
        if (std::count(good.begin(), good.end(), false) || !equal(began, ended) || !close(seen, made)) return false;
        log_likelihood = 0;
        for (double score : scores) log_likelihood += score;
        if (!slot) return true;
        for (int s = 0; s < S; ++s) slot[s] = w * first_posterior[s];
        std::fill(slot + S, slot + layout.size, 0.0);
        for (long i = 0; i < n; ++i)
            for (long j = layout.trans; j < layout.size; ++j) slot[j] += sums[i * layout.size + j];
        return true;
    }

  private:
    const Models<Family>& models;
    const long k;
    const typename Family::Anchors anchors;
    const Model<Family> model;
    const double* const X;
    const long T;
    Call& call;
    const long n;  // stretches
    const int S;
    long warm_up = 0;
    // [stretch][state]: the forward probabilities before it, as it and as its neighbour have them; the posterior of its first
    // frame, as its neighbour and as it have it. Both are zero for the first stretch.
    std::vector<double> began, ended, seen, made;
    std::vector<double> scores, first_posterior;
    std::vector<std::vector<double>> rows;  // of each thread, [frame][state]: forward probabilities, later posteriors

    long first(long stretch) const { return stretch * kStretch; }
    long last(long stretch) const { return std::min(T, first(stretch + 1)); }

    static bool equal(const std::vector<double>& a, const std::vector<double>& b) {
        for (size_t i = 0; i < a.size(); ++i)
            if (!(std::abs(a[i] - b[i]) <= kForgotten * std::abs(b[i]))) return false;
        return true;
    }

    // Twice the frames after which it made no difference, at the first seam, when the chain began; 0 for too many.
    long frames_to_forget() {
        for (long frames = kBlockFrames; frames <= kStretch / 16; frames *= 4)
            if (equal(after(frames), after(2 * frames))) return 2 * frames;
        return 0;
    }

    // The forward probabilities before the second stretch, of a chain that began some frames earlier.
    std::vector<double> after(long frames) {
        const Denormals flushed(Denormals::kFlush);
        Forward<Family> chain(model, call.caller);
        return warmed(chain, kStretch, frames) ? std::vector<double>(chain.state(), chain.state() + S) : std::vector<double>(S, NAN);
    }

    bool warmed(Forward<Family>& chain, long t, long frames) const {
        double ignored;
        chain.forget();
        return chain.stretch(X, t - frames, t, ignored, nullptr);
    }

    bool run_stretch(long i, double w, double* sums, Worker& worker) {
        Forward<Family> chain(model, worker);
        if (i && !warmed(chain, first(i), warm_up)) return false;
        if (i) std::copy(chain.state(), chain.state() + S, &began[i * S]);
        const long end = i + 1 < n ? std::min(T, last(i) + warm_up + 1) : T;
        std::vector<double>& own = rows[worker.index];
        if (sums) own.resize((kStretch + warm_up + 1) * S);
        if (!chain.stretch(X, first(i), last(i), scores[i], sums ? own.data() : nullptr)) return false;
        if (i + 1 < n) std::copy(chain.state(), chain.state() + S, &ended[(i + 1) * S]);
        if (!sums) return true;
        double ignored, *behind = &own[(last(i) - first(i)) * S];
        if (!chain.stretch(X, last(i), end, ignored, behind)) return false;
        look_behind(behind, end - last(i));
        if (i + 1 < n) std::copy_n(behind, S, &seen[(i + 1) * S]);
        Accumulator<Family> accumulator(models, k, anchors, worker);
        accumulator.add_rows(X, first(i), last(i), own.data(), i + 1 < n ? behind : nullptr, w, sums);
        if (i) std::copy_n(own.data(), S, &made[i * S]);
        if (!i) first_posterior.assign(own.begin(), own.begin() + S);
        return true;
    }

    // From forward probabilities of the frames behind a stretch to the posterior of the first of them, in its place: a chain
    // that knows nothing of what comes later.
    void look_behind(double* rows, long n_frames) const {
        Backward chain(model);
        if (n_frames) chain.begin(false, rows + (n_frames - 1) * S);
        for (long t = n_frames - 2; t >= 0; --t) chain.step(rows + t * S, rows + (t + 1) * S);
    }

    // Posteriors only add to sums, so that absolute differences tell.
    static bool close(const std::vector<double>& a, const std::vector<double>& b) {
        for (size_t i = 0; i < a.size(); ++i)
            if (!(std::abs(a[i] - b[i]) <= kForgotten)) return false;
        return true;
    }
};

}  // namespace
