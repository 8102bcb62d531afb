// Gaussian emissions: the policy that VHEM, sequence and Baum-Welch kernels are templates of. docs/extending.md says how a
// further family is added.
#pragma once

#include "gaussian_frames.hpp"
#include "gaussian_lanes.hpp"
#include "gaussian_panels.hpp"

namespace {

// Diagonal or full Gaussians, as all kernels take them.
template <bool Full>
struct GaussianFamily {
    using Models = GaussianModels;
    using Components = GaussianRows<Full>;
    using Anchors = const double*;                    // means that moments are taken about
    using Panels = GaussianPanels<Full>;              // VHEM
    using Component = Gaussian<Full>;                 // sequences, one at a time
    using Densities = GaussianDensities<Full>;
    using Accumulation = GaussianAccumulation<Full>;
    using Prepared = GaussianTriangles<Full>;         // Baum-Welch, kLanes sequences at a time
    using Lanes = GaussianLanes<Full>;
    using Learning = GaussianLearning;
    static constexpr bool kFullMoments = Full;        // second moments are lower triangles, still to be mirrored
    static constexpr int kMostStates = Full ? 3 : 5;  // numbers of states that Baum-Welch is compiled for, besides any
    static constexpr bool kMayHaveChances = false;    // whether densities may be times probabilities from a table
    static constexpr Gaps kGaps = Full ? Gaps::kAlone : Gaps::kBeside;
    static constexpr int kMoments = 2;  // arrays of sums besides the counts: first and second moments

    static Components components(const GaussianModels& models) {
        const GaussianMixtures& e = models.emissions;
        return {e.weights, e.means, e.covars, e.d};
    }
    // Numbers per component in each array of moments.
    static std::array<long, kMoments> widths(const Components& c) { return {c.d, c.covar_size()}; }

    // To the moments of n components, of which the anchors have `first` before them.
    static void add_moments(const std::vector<WeightedRow>& rows, const Components& base, long n, Anchors anchors, long first,
                            const std::array<double*, kMoments>& to) {
        GaussianMoments<Full>::add(rows, base, n, anchors + first * base.d, to[0], to[1]);
    }
};

// Calls use(family) with the family that these models belong to.
template <class Use>
void with_family(const GaussianModels& models, Use use) {
    models.emissions.full ? use(GaussianFamily<true>()) : use(GaussianFamily<false>());
}

}  // namespace
