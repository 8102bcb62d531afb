// One long sequence under one HMM, in stretches that threads do at the same time.
//
// A chain whose transitions are all possible forgets where it was. The forward recursion of a stretch therefore begins
// some frames before it, knowing nothing, and the backward one some frames behind it. That these were enough is checked:
// what a stretch began with must be, to kForgotten, what its neighbour ended with. Neither recursion can enlarge such a
// difference (the forward one in Hilbert's metric, the backward one in that of total variation). Where the check fails,
// the sequence is done in one piece. Stretches do not depend on the number of threads, so neither does the result.
#pragma once

#include "baum_welch.hpp"

namespace {

template <class Family>
class LongSequence {
  public:
    LongSequence(const Models<Family>& models, long k, const typename Family::Anchors& anchors, const double* X, long T, Call& call)
        : models(models), k(k), anchors(anchors), model(models, k), X(X), T(T), call(call), n((T + kStretch - 1) / kStretch),
          S(model.S), began(n * S), ended(n * S), scores(n) {}

    // False where the sequence must be done in one piece. `slot` may be null; then only log p(y) is wanted.
    bool run(double w, double* slot, double& log_likelihood) {
        if (!model.ergodic || !(warm_up = frames_to_forget())) return false;
        if (slot) rows.resize(T * S);
        if (!forward()) return false;
        log_likelihood = 0;
        for (double score : scores) log_likelihood += score;
        return !slot || backward(w, slot);
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
    std::vector<double> began, ended;  // [stretch][state]: the probabilities at its ends, as it and as its neighbour see them
    std::vector<double> scores, rows;

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

    bool forward() {
        std::vector<char> good(n, false);
        parallel_for(call, n, [&](long i, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            Forward<Family> chain(model, worker);
            if (i && !warmed(chain, first(i), warm_up)) return;
            if (i) std::copy(chain.state(), chain.state() + S, &began[i * S]);
            good[i] = chain.stretch(X, first(i), last(i), scores[i], rows.empty() ? nullptr : rows.data());
            if (i + 1 < n) std::copy(chain.state(), chain.state() + S, &ended[(i + 1) * S]);
        });
        return std::all_of(good.begin(), good.end(), [](char yes) { return yes; }) && equal(began, ended);
    }

    bool backward(double w, double* slot) {
        const Layout<Family> layout(models);
        std::vector<double> sums(n * layout.size);
        parallel_for(call, n - 1, [&](long i, Worker&) { look_behind(i); });
        parallel_for(call, n, [&](long i, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            Accumulator<Family> accumulator(models, k, anchors, worker);
            const double* behind = i + 1 < n ? &began[(i + 1) * S] : nullptr;
            accumulator.add_rows(X, first(i), last(i), rows.data(), behind, w, &sums[i * layout.size]);
        });
        for (long i = 1; i < n; ++i) std::copy_n(&rows[first(i) * S], S, &ended[i * S]);
        for (int s = 0; s < S; ++s) slot[s] = w * rows[s];
        std::fill(slot + S, slot + layout.size, 0.0);
        for (long i = 0; i < n; ++i)
            for (long j = layout.trans; j < layout.size; ++j) slot[j] += sums[i * layout.size + j];
        return close(began, ended);
    }

    // The posterior of the first frame behind a stretch, of a chain that ended some frames later.
    void look_behind(long i) {
        const Denormals flushed(Denormals::kFlush);
        Backward chain(model);
        long t = std::min(T - 1, last(i) + warm_up);
        std::vector<double> later(&rows[t * S], &rows[t * S] + S), now;
        chain.begin(false, later.data());
        while (t-- > last(i)) {
            now.assign(&rows[t * S], &rows[t * S] + S);
            chain.step(now.data(), later.data());
            later.swap(now);
        }
        std::copy(later.begin(), later.end(), &began[(i + 1) * S]);
    }

    // Posteriors only add to sums, so that absolute differences tell.
    static bool close(const std::vector<double>& a, const std::vector<double>& b) {
        for (size_t i = 0; i < a.size(); ++i)
            if (!(std::abs(a[i] - b[i]) <= kForgotten)) return false;
        return true;
    }
};

}  // namespace
