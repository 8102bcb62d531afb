// Base systems in lanes, and how they look to a reduced system: what scores and sums of pairs share.
//
// Equations are those of reference/lds_pairs.py. There s = [x^b; x̂^r; 1]; here the constant is one more state of the base
// system, so that s = [z; x̂] with z = [x^b; 1] of p = n_b + 1 dimensions and x̂ of n, and H = [C, -C_r] with C = [C_b, h].
#pragma once

#include "lds.hpp"

namespace {

// The base systems of a pack, with the constant as their last state.
struct Bases {
    const long d, p, tau;
    VecArray A, Q, C, R, seconds;  // (p, p), (p, p), (d, p), (d,), (tau, p, p) E[z_t z_tᵀ]
    VecArray totals;               // (tau + 1, p, p) their sums over all frames before t
    VecArray for_pairs;            // memory of the packs that they are in

    Bases(const Systems& s, long tau) : d(s.d), p(s.n + 1), tau(tau) {
        A.resize(p * p), Q.resize(p * p), C.resize(d * p), R.resize(d), seconds.resize((tau + 1) * p * p);
        totals.resize((tau + 1) * p * p);
    }

    vec* second(long t) { return seconds.data() + t * p * p; }
    vec* total(long t) { return totals.data() + t * p * p; }

    // What belongs to the base systems alone.
    void load(const Systems& s, const long* chosen) {
        const long n = s.n;
        for (int l = 0; l < kLanes; ++l) {
            const long k = chosen[l];
            auto mean = [&](long i) { return i < n ? s.mean[k * n + i] : 1.0; };
            for (long i = 0; i < p; ++i)
                for (long j = 0; j < p; ++j) {
                    const bool inner = i < n && j < n;
                    const long from = k * n * n + i * n + j, to = i * p + j;
                    A.data()[to][l] = inner ? s.A[from] : i == j;
                    Q.data()[to][l] = inner ? s.Q[from] : 0.0;
                    seconds.data()[to][l] = mean(i) * mean(j) + (inner ? s.covar[from] : 0.0);
                }
            for (long j = 0; j < d; ++j) {
                for (long i = 0; i < n; ++i) C.data()[j * p + i][l] = s.C[(k * d + j) * n + i];
                R.data()[j][l] = s.R[k * d + j];
            }
        }
        advance_seconds();
    }

    // Observations are taken about the reduced system's ȳ.
    void compare_with(const Systems& s, const System& reduced, const long* chosen) {
        for (int l = 0; l < kLanes; ++l)
            for (long j = 0; j < d; ++j) C.data()[j * p + p - 1][l] = s.offset[chosen[l] * d + j] - reduced.offset[j];
    }

    // B = C_rᵀ R_r⁻¹ C, (n, p) with rows `step` apart, and the noise C_rᵀ R_r⁻¹ R_b R_r⁻¹ C_r, (n, n).
    void seen_by(const System& r, vec* B, long step, vec* noise) {
        const long n = r.n;
        VecArray scaled;
        scaled.resize(d * n);
        for (long j = 0; j < d; ++j)
            for (long i = 0; i < n; ++i) scaled.data()[j * n + i] = R.data()[j] * r.CR[j * n + i];
        const View<double> W = transposed(r.CR.data(), n);
        product(B, step, W, view(C.data(), p), n, d, p);
        product(noise, n, W, view(scaled.data(), n), n, d, n);
    }

  private:
    void advance_seconds() {
        vec* scratch = second(tau);
        std::fill_n(total(0), p * p, vec{});
        for (long t = 0; t < tau; ++t) {
            for (long i = 0; i < p * p; ++i) total(t + 1)[i] = total(t)[i] + second(t)[i];
            if (t + 1 == tau) return;
            vec* next = second(t + 1);
            product(scratch, view(A.data(), p), view(second(t), p), p);
            lower_product(next, p, view(scratch, p), transposed(A.data(), p), p, p);
            for (long i = 0; i < p; ++i)
                for (long j = 0; j <= i; ++j) next[j * p + i] = next[i * p + j] += Q.data()[i * p + j];
        }
    }
};

// Registers under names, in one piece of memory.
class Registers {
    VecArray all_;
    long used_ = 0;

  public:
    explicit Registers(long size) { all_.resize(size); }
    vec* take(long size) {
        vec* at = all_.data() + used_;
        used_ += size;
        std::fill_n(at, size, vec{});
        return at;
    }
};

// Whether a map (n, m) of a vector with second moments S (m, m) has changed by rounding alone, in the scale of the vector.
inline bool is_steady_map(const vec* before, const vec* after, const vec* S, long n, long m) {
    for (long i = 0; i < n; ++i) {
        vec most = {}, change = {};
        for (long j = 0; j < m; ++j) {
            const vec now = after[i * m + j], by = now - before[i * m + j], scale = S[j * (m + 1)];
            most = vmax(most, now * now * scale), change = vmax(change, by * by * scale);
        }
        if (any(~(change <= kSteady * kSteady * most))) return false;
    }
    return true;
}

}  // namespace
