// The basis of a linear system's states in which its filter costs least.
//
// Once V is steady, there is a basis, x = T z, in which V is the identity and D = Cᵀ R⁻¹ C is diagonal: T = G Q with G Gᵀ = V and
// Gᵀ D G = Q diag(δ) Qᵀ. All matrices of the filter but A are then diagonal, and with w = 1 / (1 + δ)
//
//     v = P - δ x̂,  x̂' = A (x̂ + w v),  vᵀ Vf v = Σ w v²,  r = w (v + Aᵀ r'),  x̂_{t|T} = x̂ + r.
//
// Frames before that stay in the system's own basis, because V may be of another size there, with other large directions, of
// which T would leave no digits. A steady V that is nearly singular has no such basis; its system stays in its own throughout.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "lds.hpp"

namespace {

constexpr double kLeastPivot = 1e-6;  // of V, relative to its diagonal: what a state has of its own
constexpr int kMostSweeps = 30;       // of Jacobi's method, which takes about six
constexpr double kDiagonal = 1e-29;   // squares off the diagonal, relative to those on it, that are rounding

// out = a b of a few rows and columns.
inline void small_product(double* out, View<double> a, View<double> b, long rows, long depth, long columns) {
    for (long i = 0; i < rows; ++i)
        for (long j = 0; j < columns; ++j) {
            double sum = 0;
            for (long k = 0; k < depth; ++k) sum += a.at[i * a.row + k * a.col] * b.at[k * b.row + j * b.col];
            out[i * columns + j] = sum;
        }
}

// out = a b c of square matrices.
inline void small_product(double* out, View<double> a, const double* b, View<double> c, long n) {
    std::vector<double> ab(n * n);
    small_product(ab.data(), a, view(b, n), n, n, n);
    small_product(out, view(ab.data(), n), c, n, n, n);
}

// G with G Gᵀ = V, lower triangular, and its inverse. Returns whether V is far enough from singular.
inline bool cholesky(const double* V, long n, double* G, double* inverse) {
    std::fill_n(G, n * n, 0.0), std::fill_n(inverse, n * n, 0.0);
    for (long i = 0; i < n; ++i) {
        for (long j = 0; j <= i; ++j) {
            double left = V[i * n + j];
            for (long k = 0; k < j; ++k) left -= G[i * n + k] * G[j * n + k];
            if (i == j && !(left > kLeastPivot * V[i * n + i])) return false;
            G[i * n + j] = i == j ? std::sqrt(left) : left / G[j * n + j];
        }
        for (long j = 0; j <= i; ++j) {
            double sum = i == j ? 1.0 : 0.0;
            for (long k = j; k < i; ++k) sum -= G[i * n + k] * inverse[k * n + j];
            inverse[i * n + j] = sum / G[i * n + i];
        }
    }
    return true;
}

// Eigenvectors of a symmetric matrix, in the columns of Q, by Jacobi's rotations; M ends as the diagonal of its eigenvalues.
inline void diagonalise(double* M, double* Q, long n) {
    for (long i = 0; i < n * n; ++i) Q[i] = i % (n + 1) ? 0.0 : 1.0;
    const auto turn = [n](double* a, double* b, long step, double c, double s) {
        for (long k = 0; k < n; ++k, a += step, b += step) {
            const double x = *a, y = *b;
            *a = c * x - s * y, *b = s * x + c * y;
        }
    };
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
        double off = 0, on = 0;
        for (long i = 0; i < n * n; ++i) (i % (n + 1) ? off : on) += M[i] * M[i];
        if (off <= kDiagonal * on) return;
        for (long p = 0; p < n; ++p)
            for (long q = p + 1; q < n; ++q) {
                if (M[p * n + q] == 0) continue;
                const double half = 0.5 * (M[q * n + q] - M[p * n + p]) / M[p * n + q];
                const double t = (half < 0 ? -1 : 1) / (std::abs(half) + std::sqrt(1 + half * half)), c = 1 / std::sqrt(1 + t * t);
                turn(M + p, M + q, n, c, t * c), turn(M + p * n, M + q * n, 1, c, t * c), turn(Q + p, Q + q, n, c, t * c);
            }
    }
}

struct SteadyBasis {
    long from = std::numeric_limits<long>::max();  // the first frame in it; behind all frames, if there is no such basis
    std::vector<double> T, inverse, delta, w;
    std::vector<double> A, C, CR;  // the system's, (n, n), (d, n) and (d, n) R⁻¹ C

    bool exists() const { return !T.empty(); }

    // Finds it for a system with this V from frame `first` on.
    void find(const System& s, const std::vector<double>& V, long first) {
        const long n = s.n, d = s.d;
        std::vector<double> G(n * n), G_inverse(n * n), M(n * n), Q(n * n);
        if (!cholesky(V.data(), n, G.data(), G_inverse.data())) return;
        small_product(M.data(), transposed(G.data(), n), s.D.data(), view(G.data(), n), n);
        diagonalise(M.data(), Q.data(), n);
        for (long i = 0; i < n; ++i) delta.push_back(std::max(M[i * (n + 1)], 0.0)), w.push_back(1 / (1 + delta[i]));
        from = first, T.resize(n * n), inverse.resize(n * n), A.resize(n * n), C.resize(d * n), CR.resize(d * n);
        small_product(T.data(), view(G.data(), n), view(Q.data(), n), n, n, n);
        small_product(inverse.data(), transposed(Q.data(), n), view(G_inverse.data(), n), n, n, n);
        small_product(A.data(), view(inverse.data(), n), s.A, view(T.data(), n), n);
        small_product(C.data(), view(s.C, n), view(T.data(), n), d, n, n);
        small_product(CR.data(), view(s.CR.data(), n), view(T.data(), n), d, n, n);
    }
};

}  // namespace
