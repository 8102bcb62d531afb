// Bounds on J that outlive an E-step: what was too far away stays so until the reduced models have moved.
//
// Σ_β (Σ_t p_t(β)) max_ρ E(β,ρ) = v_i C_j - ½ g_ij², where v_i is how many states base model i visits, C_j is above all
// constants of reduced model j, and g_ij is a distance: when j moves by `shift` and its precisions fall to shrink² of what
// they were, it becomes at least shrink (g_ij - √v_i shift). The proof is in docs/performance.md. Distances are kept as
// floats and rounded down, so that a bound stays a bound.
#pragma once

#include <cmath>
#include <vector>

#include "arguments.hpp"

namespace {

constexpr double kRoundedDown = 1 - 1e-6, kRoundedUp = 1 + 1e-6;  // more than arithmetic with floats can lose

class CarriedBounds {
    const Carried& from_;
    const long K_;
    std::vector<float> shrink_, shift_;  // of every reduced model, rounded so that distances come out too small
    std::vector<long> place_;            // where each reduced model stands among the clusters of the pass, or -1

   public:
    CarriedBounds(const Carried& from, long K, const std::vector<long>& clusters)
        : from_(from), K_(K), place_(static_cast<size_t>(K), -1) {
        for (long j = 0; j < K; ++j) {
            const bool moved = from.shrink[j] != 1 || from.shift[j] != 0;
            shrink_.push_back(moved ? static_cast<float>(from.shrink[j] * kRoundedDown) : 1.0f);
            shift_.push_back(static_cast<float>(from.shift[j] * kRoundedUp));
        }
        for (size_t c = 0; c < clusters.size(); ++c) place_[clusters[c]] = static_cast<long>(c);
    }

    // Whether there was an E-step before, in which base model i was looked at.
    bool knows(long i) const { return from_.nearest[i] >= 0; }
    long nearest(long i) const { return place_[from_.nearest[i]]; }
    void set_nearest(long i, long j) { from_.nearest[i] = j; }

    // Brings the distances of base model i up to date, once per E-step.
    void move(long i, double visits) {
        float* g = from_.distance + i * K_;
        const float root = static_cast<float>(std::sqrt(visits) * kRoundedUp);
        for (long j = 0; j < K_; ++j) {
            const float left = g[j] - root * shift_[j];
            g[j] = left > 0 ? left * shrink_[j] : 0.0f;
        }
    }

    double bound(long i, long j, double visits) const {
        const double g = from_.distance[i * K_ + j];
        return visits * from_.ceiling[j] - 0.5 * g * g;
    }

    void keep(long i, long j, double visits, double bound) {
        const double squared = 2 * (visits * from_.ceiling[j] - bound);
        from_.distance[i * K_ + j] = squared > 0 ? static_cast<float>(std::sqrt(squared) * kRoundedDown) : 0.0f;
    }
};

}  // namespace
