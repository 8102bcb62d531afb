// Small matrices, row by row, one per lane of a register (of vec) or the same for all lanes (of double).
#pragma once

#include <algorithm>

#include "simd.hpp"

namespace {

inline vec wide(double x) { return splat(x); }
inline vec wide(vec x) { return x; }

// How a matrix lies in memory: the distances to the next row and column.
template <class E>
struct View {
    const E* at;
    long row, col;

    View transposed() const { return {at, col, row}; }
};

template <class E>
View<E> view(const E* at, long columns) {
    return {at, columns, 1};
}

template <class E>
View<E> transposed(const E* at, long columns) {
    return {at, 1, columns};
}

enum class Put { kSet, kAdd, kSubtract };

// What a sum does to the place that it is for.
inline vec put_into(vec place, vec sum, Put put) { return put == Put::kAdd ? place + sum : place - sum; }

// I rows and J columns of a product, which stay in registers. (An initialiser `= {}` would be a call to clear memory, which
// takes longer than the product, and leave the sums there; views as arguments would be written to the stack and read back;
// loops that GCC unrolls by its own judgement are 4 % slower.)
template <int I, int J, class A, class B>
void product_block(vec* out, long step, const A* a, const B* b, long a_row, long a_col, long b_row, long b_col, long depth,
                   Put put) {
    vec sums[I][J];
    #pragma GCC unroll 8
    for (int i = 0; i < I; ++i)
        #pragma GCC unroll 8
        for (int j = 0; j < J; ++j) sums[i][j] = vec{};
    for (long l = 0; l < depth; ++l, a += a_col, b += b_row) {
        vec right[J];
        #pragma GCC unroll 8
        for (int j = 0; j < J; ++j) right[j] = wide(b[j * b_col]);
        #pragma GCC unroll 8
        for (int i = 0; i < I; ++i) {
            const vec left = wide(a[i * a_row]);
            #pragma GCC unroll 8
            for (int j = 0; j < J; ++j) sums[i][j] = fma(left, right[j], sums[i][j]);
        }
    }
    if (put == Put::kSet) {
        #pragma GCC unroll 8
        for (int i = 0; i < I; ++i)
            #pragma GCC unroll 8
            for (int j = 0; j < J; ++j) out[i * step + j] = sums[i][j];
    } else {
        #pragma GCC unroll 8
        for (int i = 0; i < I; ++i)
            #pragma GCC unroll 8
            for (int j = 0; j < J; ++j) out[i * step + j] = put_into(out[i * step + j], sums[i][j], put);
    }
}

template <int I, class A, class B>
inline void product_rows(vec* out, long step, const A* a, const View<B>& b, long a_row, long a_col, long depth, long columns,
                         Put put) {
    const B* from = b.at;
    long j = 0;
    for (; j + 4 <= columns; j += 4, from += 4 * b.col)
        product_block<I, 4>(out + j, step, a, from, a_row, a_col, b.row, b.col, depth, put);
    if (columns - j == 3) product_block<I, 3>(out + j, step, a, from, a_row, a_col, b.row, b.col, depth, put);
    if (columns - j == 2) product_block<I, 2>(out + j, step, a, from, a_row, a_col, b.row, b.col, depth, put);
    if (columns - j == 1) product_block<I, 1>(out + j, step, a, from, a_row, a_col, b.row, b.col, depth, put);
}

// out = a b, or added to it, or taken from it; rows of `out` are `step` apart. `out` must be neither a nor b.
template <class A, class B>
__attribute__((noinline)) void product(vec* out, long step, const View<A>& a, const View<B>& b, long rows, long depth,
                                       long columns, Put put = Put::kSet) {
    constexpr int kRows = kLanes == 8 ? 4 : 2;  // as many registers as there are
    const A* from = a.at;
    long i = 0;
    for (; i + kRows <= rows; i += kRows, from += kRows * a.row, out += kRows * step)
        product_rows<kRows>(out, step, from, b, a.row, a.col, depth, columns, put);
    if (kRows > 2 && rows - i == 3) product_rows<kRows == 4 ? 3 : 1>(out, step, from, b, a.row, a.col, depth, columns, put);
    if (kRows > 2 && rows - i == 2) product_rows<kRows == 4 ? 2 : 1>(out, step, from, b, a.row, a.col, depth, columns, put);
    if (rows - i == 1) product_rows<1>(out, step, from, b, a.row, a.col, depth, columns, put);
}

// The same for a product that is symmetric: the lower triangle, and some of what is beside it.
template <class A, class B>
void lower_product(vec* out, long step, View<A> a, View<B> b, long n, long depth) {
    constexpr long kRows = 4;
    for (long i = 0; i < n; i += kRows, a.at += kRows * a.row, out += kRows * step)
        product(out, step, a, b, std::min(kRows, n - i), depth, std::min(i + kRows, n));
}

// Of square matrices.
template <class A, class B>
void product(vec* out, View<A> a, View<B> b, long n, Put put = Put::kSet) {
    product(out, n, a, b, n, n, n, put);
}

template <int I, class M>
__attribute__((always_inline)) inline void times_rows(vec* out, View<M> a, const vec* x, long n, Put put) {
    vec sums[I];
    for (int i = 0; i < I; ++i) sums[i] = vec{};
    for (long j = 0; j < n; ++j, a.at += a.col)
        for (int i = 0; i < I; ++i) sums[i] = fma(wide(a.at[i * a.row]), x[j], sums[i]);
    for (int i = 0; i < I; ++i) out[i] = put == Put::kSet ? sums[i] : put_into(out[i], sums[i], put);
}

// out = a x, or added to it, or taken from it, of a square matrix and a vector. (Clang would leave it a function: where n is
// known, nothing then stays in registers, and the Kalman filter takes 1.7 times as long.)
template <class M>
__attribute__((always_inline)) inline void times(vec* out, View<M> a, const vec* x, long n, Put put = Put::kSet) {
    long i = 0;
    for (; i + 8 <= n; i += 8) times_rows<8>(out + i, View<M>{a.at + i * a.row, a.row, a.col}, x, n, put);
    a.at += i * a.row, out += i;
    switch (n - i) {
        case 7: return times_rows<7>(out, a, x, n, put);
        case 6: return times_rows<6>(out, a, x, n, put);
        case 5: return times_rows<5>(out, a, x, n, put);
        case 4: return times_rows<4>(out, a, x, n, put);
        case 3: return times_rows<3>(out, a, x, n, put);
        case 2: return times_rows<2>(out, a, x, n, put);
        case 1: return times_rows<1>(out, a, x, n, put);
    }
}

// Σ a_ij b_ij of two arrays of n numbers.
inline vec inner(const vec* a, const vec* b, long n) {
    vec sums[4] = {};
    long i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; ++k) sums[k] = fma(a[i + k], b[i + k], sums[k]);
    for (; i < n; ++i) sums[0] = fma(a[i], b[i], sums[0]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The mean of a matrix and its transpose, in place: without the skewness that rounding left.
inline void make_symmetric(vec* a, long n) {
    for (long i = 0; i < n; ++i)
        for (long j = 0; j < i; ++j) a[i * n + j] = a[j * n + i] = 0.5 * (a[i * n + j] + a[j * n + i]);
}

// Exchanges rows k and i in the lanes of `mask`.
inline void swap_rows(vec* a, long columns, long k, long i, ivec mask) {
    for (long j = 0; j < columns; ++j) {
        const vec upper = a[k * columns + j], lower = a[i * columns + j];
        a[k * columns + j] = mask ? lower : upper;
        a[i * columns + j] = mask ? upper : lower;
    }
}

// The inverse of `a`, which is lost, by elimination with the largest pivot of each lane; returns log|det a|.
inline vec invert(vec* a, vec* inverse, long n) {
    vec log_det = {};
    for (long i = 0; i < n * n; ++i) inverse[i] = splat(i % (n + 1) ? 0.0 : 1.0);
    for (long k = 0; k < n; ++k) {
        vec best = vabs(a[k * n + k]);
        ivec pivot = {};
        for (long i = k + 1; i < n; ++i) {
            const vec size = vabs(a[i * n + k]);
            pivot = size > best ? ivec{} + i : pivot;
            best = vmax(best, size);
        }
        for (long i = k + 1; i < n; ++i) {
            const ivec mask = pivot == ivec{} + i;
            if (any(mask)) swap_rows(a, n, k, i, mask), swap_rows(inverse, n, k, i, mask);
        }
        log_det += vlog(best);
        const vec scale = 1.0 / a[k * n + k];
        for (long j = 0; j < n; ++j) a[k * n + j] *= scale, inverse[k * n + j] *= scale;
        for (long i = 0; i < n; ++i) {
            if (i == k) continue;
            const vec factor = a[i * n + k];
            for (long j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
            for (long j = 0; j < n; ++j) inverse[i * n + j] -= factor * inverse[k * n + j];
        }
    }
    return log_det;
}

// to[i][l] = from[l][i]. What is left at the end is done with some of what is done already.
inline void into_lanes(const double* const* from, long n, vec* to) {
    if (n < kLanes) {
        for (long i = 0; i < n; ++i)
            for (int l = 0; l < kLanes; ++l) to[i][l] = from[l][i];
        return;
    }
    for (long i = 0; i < n; i += kLanes) {
        const long at = std::min(i, n - kLanes);
        transpose(from, at, to + at);
    }
}

}  // namespace
