// Covariance matrices as products of triangles: the way to whiten without losing digits.
#pragma once

#include <cmath>
#include <vector>

namespace {

// The lower triangle L of a matrix Σ = LLᵀ, row by row; rows and columns kept(0) … kept(n - 1) alone are taken.
template <class Kept>
void cholesky(const double* covar, int d, int n, Kept kept, double* L) {
    for (int i = 0; i < n; ++i)
        for (int j = 0; j <= i; ++j) {
            double rest = covar[kept(i) * d + kept(j)];
            for (int k = 0; k < j; ++k) rest -= L[i * n + k] * L[j * n + k];
            L[i * n + j] = i == j ? std::sqrt(rest) : rest / L[j * n + j];
        }
}

inline void cholesky(const double* covar, int d, const std::vector<int>& kept, double* L) {
    cholesky(covar, d, static_cast<int>(kept.size()), [&](int i) { return kept[i]; }, L);
}

// The lower triangle of L⁻¹.
inline void invert_triangle(const double* L, int n, double* W) {
    for (int j = 0; j < n; ++j) {
        W[j * n + j] = 1.0 / L[j * n + j];
        for (int i = j + 1; i < n; ++i) {
            double total = 0;
            for (int k = j; k < i; ++k) total += L[i * n + k] * W[k * n + j];
            W[i * n + j] = -total / L[i * n + i];
        }
    }
}

// W = L⁻¹ with Σ = LLᵀ, lower triangle of d×d numbers; returns ½ log|Σ|. `L` is room for as many.
inline double whitening(const double* covar, int d, double* L, double* W) {
    cholesky(covar, d, d, [](int i) { return i; }, L);
    invert_triangle(L, d, W);
    double half_log_det = 0;
    for (int j = 0; j < d; ++j) half_log_det += std::log(L[j * d + j]);
    return half_log_det;
}

}  // namespace
