// Bounds on J that outlive an E-step: what was too far away stays so until the reduced models have moved.
//
// With v_i the states that base model i visits and C_j above all constants of reduced model j's components, J_ij and its
// bound by emissions alone are v_i C_j - ½ g_ij², where g_ij behaves as a distance: when j moves by `shift`, its precisions
// fall to shrink² of what they were, and logs of its probabilities rise by up to `gain`, then
//
//     g_ij'² ≥ (shrink (g_ij - √v_i shift))² - 2 v_i gain.
//
// The proof is in docs/performance.md. Distances are kept as floats and rounded down, so that a bound stays a bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "arguments.hpp"

namespace {

constexpr double kRoundedDown = 1 - 1e-6, kRoundedUp = 1 + 1e-6;  // more than arithmetic with floats can lose

}  // namespace

namespace VHEM_MODULE {

// What Python keeps from one E-step to the next, which brings it up to date: distances, (K_b, K_r), and each base model's
// nearest cluster, (K_b,); and what is known about the reduced models, (K_r,).
struct Carried {
    Output arrays[2];
    Input moves[4];
    float* distance;
    int64_t* nearest;
    const double *ceiling, *shrink, *shift, *gain;

    Carried(Output distance, Output nearest, Input ceiling, Input shrink, Input shift, Input gain)
        : arrays{distance, nearest}, moves{ceiling, shrink, shift, gain} {}

    void check(long K_b, long K_r) {
        const Output& d = arrays[0];
        if (d.dtype() != nb::dtype<float>() || d.ndim() != 2 || size_of(d, 0) != K_b || size_of(d, 1) != K_r || !is_contiguous(d))
            refuse("distance must be a C-contiguous array of float32, one row per base and one column per reduced model.");
        distance = static_cast<float*>(d.data());
        nearest = integers_out(arrays[1], "nearest", {K_b});
        ceiling = doubles(moves[0], "ceiling", {K_r});
        shrink = doubles(moves[1], "shrink", {K_r});
        shift = doubles(moves[2], "shift", {K_r});
        gain = doubles(moves[3], "gain", {K_r});
    }
};

}  // namespace VHEM_MODULE

namespace {

class CarriedBounds {
    const Carried& from_;
    const std::vector<long>& clusters_;  // of the pass: reduced models that have weight
    const long K_;
    std::vector<float> shrink_, shift_, gain_;  // of every reduced model, rounded so that distances come out too small
    std::vector<double> ceiling_;               // of the clusters
    std::vector<long> place_;                   // where each reduced model stands among the clusters, or -1
    const bool known_;

   public:
    CarriedBounds(const Carried& from, long K_b, long K, const std::vector<long>& clusters)
        : from_(from), clusters_(clusters), K_(K), place_(static_cast<size_t>(K), -1),
          known_(std::all_of(from.nearest, from.nearest + K_b, [&](int64_t j) { return j >= 0 && j < K; })) {
        for (long j = 0; j < K; ++j) {
            const bool moved = from.shrink[j] != 1 || from.shift[j] != 0 || from.gain[j] != 0;
            shrink_.push_back(moved ? static_cast<float>(from.shrink[j] * kRoundedDown) : 1.0f);
            shift_.push_back(static_cast<float>(from.shift[j] * kRoundedUp));
            gain_.push_back(static_cast<float>(2 * from.gain[j] * kRoundedUp));
        }
        for (long j : clusters) ceiling_.push_back(from.ceiling[j]);
        for (size_t c = 0; c < clusters.size(); ++c) place_[clusters[c]] = static_cast<long>(c);
    }

    // Whether there was an E-step before.
    bool is_warm() const { return known_; }
    long nearest(long i) const { return place_[from_.nearest[i]]; }
    void set_nearest(long i, long j) { from_.nearest[i] = j; }

    // Brings the distances of base model i up to date, once per E-step.
    void move(long i, double visits) {
        float* g = from_.distance + i * K_;
        const float root = static_cast<float>(std::sqrt(visits) * kRoundedUp), v = static_cast<float>(visits * kRoundedUp);
        for (long j = 0; j < K_; ++j) {
            const float left = std::max(g[j] - root * shift_[j], 0.0f) * shrink_[j];
            g[j] = gain_[j] > 0 ? std::sqrt(std::max(left * left - v * gain_[j], 0.0f)) : left;
        }
    }

    // Bounds on the J_ij of base model i in all clusters, or in one.
    void bounds(long i, double visits, double* upper) const {
        const float* g = from_.distance + i * K_;
        const long n = static_cast<long>(clusters_.size());
        if (n == K_)  // in their order, so that several can be done at a time
            for (long c = 0; c < n; ++c) upper[c] = bound(g[c], visits, ceiling_[c]);
        else
            for (long c = 0; c < n; ++c) upper[c] = bound(g[clusters_[c]], visits, ceiling_[c]);
    }
    double bound(long i, long c, double visits) const { return bound(from_.distance[i * K_ + clusters_[c]], visits, ceiling_[c]); }

    // J of a pair or a bound on it.
    void keep(long i, long j, double visits, double J) {
        const double squared = 2 * (visits * from_.ceiling[j] - J);
        from_.distance[i * K_ + j] = squared > 0 ? static_cast<float>(std::sqrt(squared) * kRoundedDown) : 0.0f;
    }

   private:
    static double bound(double distance, double visits, double ceiling) { return visits * ceiling - 0.5 * distance * distance; }
};

}  // namespace
