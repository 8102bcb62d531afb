// Gaussians as the kernels of all kinds read them.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "../arguments.hpp"
#include "../triangles.hpp"

namespace {

// Gaussians as the kernels read them, one after the other: `means` (d doubles) and `covars` (d, or d·d when full).
template <bool Full>
struct GaussianRows {
    const double *weights, *means, *covars;
    long d;
    long covar_size() const { return Full ? d * d : d; }
};

}  // namespace
