// Linear dynamical systems as Python hands them over, and the part of the Kalman filter that observations do not change.
// Symbols and equations are those of reference/lds.py; no matrix has the observations' size squared.
#pragma once

#include "arguments.hpp"
#include "lane_matrices.hpp"

namespace VHEM_MODULE {

// K systems with n-dimensional states and d-dimensional observations.
struct Systems {
    Input arrays[7];
    long K, n, d;
    const double *A, *C, *Q, *R, *mean, *covar, *offset;

    Systems(Input A, Input C, Input Q, Input R, Input mean, Input covar, Input offset)
        : arrays{A, C, Q, R, mean, covar, offset}, K(size_of(C, 0)), n(size_of(C, 2)), d(size_of(C, 1)),
          A(doubles(A, "A", {K, n, n})), C(doubles(C, "C", {kAny, kAny, kAny})), Q(doubles(Q, "Q", {K, n, n})),
          R(doubles(R, "R", {K, d})), mean(doubles(mean, "mean", {K, n})), covar(doubles(covar, "covar", {K, n, n})),
          offset(doubles(offset, "offset", {K, d})) {
        if (K < 1 || n < 1 || d < 1) refuse("C must have at least one system, dimension and state, got shape " + shape_of(C) + ".");
    }
};

// Where an E-step adds up what the M-step divides, one row per system.
struct SystemSums {
    Output arrays[9];
    double *first, *first_second, *x, *xx, *xx_before, *lag, *y, *yx, *yy;

    SystemSums(Output first, Output first_second, Output x, Output xx, Output xx_before, Output lag, Output y, Output yx, Output yy)
        : arrays{first, first_second, x, xx, xx_before, lag, y, yx, yy} {}

    void check(const Systems& s) {
        first = doubles_out(arrays[0], "first", {s.K, s.n});
        first_second = doubles_out(arrays[1], "first_second", {s.K, s.n, s.n});
        x = doubles_out(arrays[2], "x", {s.K, s.n});
        xx = doubles_out(arrays[3], "xx", {s.K, s.n, s.n});
        xx_before = doubles_out(arrays[4], "xx_before", {s.K, s.n, s.n});
        lag = doubles_out(arrays[5], "lag", {s.K, s.n, s.n});
        y = doubles_out(arrays[6], "y", {s.K, s.d});
        yx = doubles_out(arrays[7], "yx", {s.K, s.d, s.n});
        yy = doubles_out(arrays[8], "yy", {s.K, s.d});
    }
};

}  // namespace VHEM_MODULE

namespace {

constexpr double kSteady = 4e-15;  // change in one step, relative to the largest alike, that is rounding
constexpr double kNegligibleShare = 1e-18;  // of a sequence or base system, relative to the average: without effect

// One system, and what follows from it alone.
struct System {
    const long n, d;
    const double *A, *C, *Q, *R, *mean, *covar, *offset;
    std::vector<double> CR;         // (d, n) R⁻¹ C
    std::vector<double> D;          // (n, n) Cᵀ R⁻¹ C
    double log_R = 0;               // log|2π R|

    System(const Systems& s, long k)
        : n(s.n), d(s.d), A(s.A + k * n * n), C(s.C + k * d * n), Q(s.Q + k * n * n), R(s.R + k * d), mean(s.mean + k * n),
          covar(s.covar + k * n * n), offset(s.offset + k * d), CR(d * n), D(n * n) {
        for (long j = 0; j < d; ++j) {
            log_R += kLogTwoPi + std::log(R[j]);
            for (long i = 0; i < n; ++i) CR[j * n + i] = C[j * n + i] / R[j];
            for (long i = 0; i < n; ++i)
                for (long h = 0; h <= i; ++h) D[i * n + h] += CR[j * n + i] * C[j * n + h];
        }
        for (long i = 0; i < n; ++i)
            for (long h = 0; h < i; ++h) D[h * n + i] = D[i * n + h];
    }
};

// The matrices of the filter that belong to one frame, (n, n) each, one after another.
enum Part { kV, kU, kVf, kGain, kL, kUD, kD, kParts };

// From V of a frame to its other matrices and, into `next`, to V of the frame after. Returns log|I + D V|.
template <class E>
vec advance(const E* A, const E* Q, const vec* D, vec* parts, vec* next, vec* scratch, long n) {
    const long size = n * n;
    vec *V = parts + kV * size, *U = parts + kU * size, *Vf = parts + kVf * size, *gain = parts + kGain * size;
    vec *L = parts + kL * size, *UD = parts + kUD * size;
    product(scratch, view(D, n), view(V, n), n);
    for (long i = 0; i < n; ++i) scratch[i * (n + 1)] += 1.0;
    const vec log_det = invert(scratch, U, n);
    product(Vf, view(V, n), view(U, n), n);
    make_symmetric(Vf, n);
    product(UD, view(U, n), view(D, n), n);
    product(gain, view(A, n), view(Vf, n), n);
    for (long i = 0; i < size; ++i) L[i] = wide(A[i]), next[i] = wide(Q[i]), parts[kD * size + i] = D[i];
    product(L, view(gain, n), view(D, n), n, Put::kSubtract);
    product(next, view(gain, n), transposed(A, n), n, Put::kAdd);
    make_symmetric(next, n);
    return log_det;
}

inline bool is_steady(const vec* before, const vec* after, long n) {
    ivec moved = {};
    for (long i = 0; i < n; ++i)
        for (long j = 0; j <= i; ++j) {
            const vec change = after[i * n + j] - before[i * n + j];
            moved |= change * change > kSteady * kSteady * after[i * (n + 1)] * after[j * (n + 1)];
        }
    return !any(moved);
}

// The filter of up to kLanes systems, one per lane, for sequences without gaps. V converges: steps that would change it by
// rounding alone are not made, so that what is left out of T steps is T roundings at most.
class FilterInLanes {
    VecArray parts_, log_det_;
    long kept_ = 0;

  public:
    const long n;

    FilterInLanes(const std::vector<System>& systems, long first, long length, Worker& worker) : n(systems[0].n) {
        const long size = n * n;
        VecArray own;
        own.resize(5 * size);
        vec *A = own.data(), *Q = A + size, *D = Q + size, *next = D + size, *scratch = next + size;
        const double *from_A[kLanes], *from_Q[kLanes], *from_D[kLanes], *from_V[kLanes];
        vec log_R;
        for (int l = 0; l < kLanes; ++l) {
            const System& s = systems[std::min<long>(first + l, systems.size() - 1)];
            from_A[l] = s.A, from_Q[l] = s.Q, from_D[l] = s.D.data(), from_V[l] = s.covar, log_R[l] = s.log_R;
        }
        into_lanes(from_A, size, A), into_lanes(from_Q, size, Q), into_lanes(from_D, size, D), into_lanes(from_V, size, next);
        for (bool steady = false; kept_ < length && !steady; ++kept_) {
            worker.checkpoint_at(kept_);
            parts_.resize((kept_ + 1) * kParts * size), log_det_.resize(kept_ + 1);
            vec* now = parts_.data() + kept_ * kParts * size;
            std::copy_n(next, size, now);
            log_det_.data()[kept_] = log_R + advance(A, Q, D, now, next, scratch, n);
            steady = is_steady(now, next, n);
        }
    }

    long kept() const { return kept_; }
    const vec* part(long t, Part which) { return parts_.data() + (std::min(t, kept_ - 1) * kParts + which) * n * n; }
    vec log_det(long t) { return log_det_.data()[std::min(t, kept_ - 1)]; }
    std::vector<double> of_lane(int lane, long t, Part which) {
        std::vector<double> matrix(n * n);
        scatter_row(lane, part(t, which), n * n, matrix.data());
        return matrix;
    }
};

// One lane of it, for sequences or systems that share it.
class Filter {
    std::vector<double> parts_, log_det_;

  public:
    const long n;

    Filter(FilterInLanes& all, int lane) : parts_(all.kept() * kParts * all.n * all.n), n(all.n) {
        for (long t = 0; t < all.kept(); ++t) {
            scatter_row(lane, all.part(t, kV), kParts * n * n, &parts_[t * kParts * n * n]);
            log_det_.push_back(all.log_det(t)[lane]);
        }
    }

    long kept() const { return static_cast<long>(log_det_.size()); }
    const double* part(long t, Part which) const { return &parts_[(std::min(t, kept() - 1) * kParts + which) * n * n]; }
    double log_det(long t) const { return log_det_[std::min(t, kept() - 1)]; }
};

// w V - V N V
inline void weighted_covariance(vec w, const vec* V, const vec* N, vec* scratch, vec* out, long n) {
    product(scratch, view(N, n), view(V, n), n);
    for (long i = 0; i < n * n; ++i) out[i] = w * V[i];
    product(out, view(V, n), view(scratch, n), n, Put::kSubtract);
}

// Adds the covariances of states, of kLanes systems from `first` on, over sequences without gaps; `ends[k][t]` is the weight
// of those that end at frame t. The sum of N over sequences follows N's own recursion.
inline void add_covariances(FilterInLanes& f, long first, const std::vector<std::vector<double>>& ends, const SystemSums& sums,
                            Worker& worker) {
    const long n = f.n, size = n * n, T = static_cast<long>(ends[0].size()), K = static_cast<long>(ends.size());
    VecArray own;
    own.resize(7 * size);
    vec *N = own.data(), *a = N + size, *b = a + size, *before = b + size, *last = before + size, *lag = last + size;
    vec *second = lag + size, on = {};
    std::fill_n(own.data(), 7 * size, vec{});
    for (long t = T - 1; t >= 0; --t) {
        worker.checkpoint_at(t);
        const vec *V = f.part(t, kV), *L = f.part(t, kL), *UD = f.part(t, kUD);
        vec ending = {};
        for (int l = 0; l < kLanes && first + l < K; ++l) ending[l] = ends[first + l][t];
        if (t + 1 < T) {  // (on I - V_{t+1} N) L V
            product(a, view(L, n), view(V, n), n);
            product(b, view(N, n), view(a, n), n);
            product(lag, view(f.part(t + 1, kV), n), view(b, n), n, Put::kSubtract);
            for (long i = 0; i < size; ++i) lag[i] += on * a[i];
            product(a, view(N, n), view(L, n), n);
            product(N, transposed(L, n), view(a, n), n);
            for (long i = 0; i < size; ++i) N[i] += on * UD[i];
        }
        weighted_covariance(on, V, N, a, second, n);
        for (long i = 0; i < size; ++i) before[i] += second[i];
        if (any(ending > 0.0)) {
            for (long i = 0; i < size; ++i) N[i] += ending * UD[i], last[i] -= second[i];
            on += ending;
            weighted_covariance(on, V, N, a, second, n);
            for (long i = 0; i < size; ++i) last[i] += second[i];
        }
    }
    for (int l = 0; l < kLanes && first + l < K; ++l)
        for (long i = 0; i < size; ++i) {
            const long at = (first + l) * size + i;
            sums.first_second[at] += second[i][l], sums.lag[at] += lag[i][l];
            sums.xx_before[at] += before[i][l], sums.xx[at] += before[i][l] + last[i][l];
        }
}

inline std::vector<System> all_systems(const Systems& s) {
    std::vector<System> all;
    for (long k = 0; k < s.K; ++k) all.emplace_back(s, k);
    return all;
}

}  // namespace
