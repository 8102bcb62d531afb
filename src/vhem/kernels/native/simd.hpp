// One register of doubles, and the few functions on it that the kernels need.
//
// Written with the vector extensions of GCC and Clang, so the same source serves AVX-512, AVX2, SSE2 and NEON; only
// where an instruction set has something better than the plain form is it called by name.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif

typedef double vec __attribute__((vector_size(8 * kLanes)));
typedef int64_t ivec __attribute__((vector_size(8 * kLanes)));

inline vec splat(double x) { return x - vec{}; }

inline vec load(const double* p) {
    vec v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(double* p, vec v) { std::memcpy(p, &v, sizeof v); }

// The first n <= kLanes doubles of p, zeros behind them; reads nothing beyond.
inline vec load_partial(const double* p, int n) {
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
#else
    if (n == kLanes) return load(p);
    vec v = {};
    for (int l = 0; l < n; ++l) v[l] = p[l];
    return v;
#endif
}

inline void store_partial(double* p, vec v, int n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), v);
#else
    for (int l = 0; l < n; ++l) p[l] = v[l];
#endif
}

// The double at each of kLanes addresses.
inline vec gather(ivec address) {
#if defined(__AVX512F__)
    return _mm512_i64gather_pd((__m512i)address, nullptr, 1);
#else
    vec v;
    for (int l = 0; l < kLanes; ++l) v[l] = *reinterpret_cast<const double*>(address[l]);
    return v;
#endif
}

// out[i][l] = from[l][at + i]: kLanes rows of kLanes numbers become columns.
inline void transpose(const double* const* from, long at, vec* out) {
#if defined(__AVX512F__)
    __m512d r[8], s[8];
    for (int l = 0; l < 8; ++l) r[l] = _mm512_loadu_pd(from[l] + at);
    for (int l = 0; l < 8; l += 2) {
        s[l] = _mm512_unpacklo_pd(r[l], r[l + 1]);
        s[l + 1] = _mm512_unpackhi_pd(r[l], r[l + 1]);
    }
    for (int l = 0; l < 8; l += 4)
        for (int h = 0; h < 2; ++h) {
            r[l + h] = _mm512_shuffle_f64x2(s[l + h], s[l + h + 2], 0x88);
            r[l + h + 2] = _mm512_shuffle_f64x2(s[l + h], s[l + h + 2], 0xdd);
        }
    for (int h = 0; h < 4; ++h) {
        out[h] = _mm512_shuffle_f64x2(r[h], r[h + 4], 0x88);
        out[h + 4] = _mm512_shuffle_f64x2(r[h], r[h + 4], 0xdd);
    }
#elif defined(__AVX2__)
    __m256d r[4], s[4];
    for (int l = 0; l < 4; ++l) r[l] = _mm256_loadu_pd(from[l] + at);
    for (int l = 0; l < 4; l += 2) {
        s[l] = _mm256_unpacklo_pd(r[l], r[l + 1]);
        s[l + 1] = _mm256_unpackhi_pd(r[l], r[l + 1]);
    }
    for (int h = 0; h < 2; ++h) {
        out[h] = _mm256_permute2f128_pd(s[h], s[h + 2], 0x20);
        out[h + 2] = _mm256_permute2f128_pd(s[h], s[h + 2], 0x31);
    }
#else
    for (int l = 0; l < kLanes; ++l)
        for (int i = 0; i < kLanes; ++i) out[i][l] = from[l][at + i];
#endif
}

// Lane l of from[l] + at, put together in registers: faster than gathering, or storing one by one, where it is not the
// processor's memory that is waited for.
__attribute__((always_inline)) inline vec pick(const double* const* from, long at) {
#if defined(__AVX512F__)
    return vec{from[0][at], from[1][at], from[2][at], from[3][at], from[4][at], from[5][at], from[6][at], from[7][at]};
#elif defined(__AVX2__)
    return vec{from[0][at], from[1][at], from[2][at], from[3][at]};
#else
    return vec{from[0][at], from[1][at]};
#endif
}

// to[i][l] = rows[k[l]][i]: row k of n numbers for every lane.
__attribute__((noinline)) inline void gather_rows(ivec k, const double* rows, long n, vec* to) {
    const double* from[kLanes];
    for (int l = 0; l < kLanes; ++l) from[l] = rows + k[l] * n;
    long i = 0;
    for (; i + kLanes <= n; i += kLanes) transpose(from, i, to + i);
    for (; i < n; ++i) to[i] = pick(from, i);
}

// The n numbers of one lane.
inline void scatter_row(int lane, const vec* from, long n, double* out) {
    for (long i = 0; i < n; ++i) out[i] = from[i][lane];
}

inline bool any(ivec mask) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)mask);
#elif defined(__AVX2__)
    return _mm256_movemask_pd((__m256d)mask);
#else
    bool found = false;
    for (int l = 0; l < kLanes; ++l) found = found || mask[l];
    return found;
#endif
}

inline vec vmax(vec a, vec b) {
#if defined(__AVX512F__)
    return _mm512_max_pd(a, b);
#elif defined(__AVX2__)
    return _mm256_max_pd(a, b);
#elif defined(__SSE2__)
    return _mm_max_pd(a, b);
#else
    return a > b ? a : b;
#endif
}

inline vec vmin(vec a, vec b) {
#if defined(__AVX512F__)
    return _mm512_min_pd(a, b);
#elif defined(__AVX2__)
    return _mm256_min_pd(a, b);
#elif defined(__SSE2__)
    return _mm_min_pd(a, b);
#else
    return a < b ? a : b;
#endif
}

inline vec vabs(vec a) { return vmax(a, -a); }

inline double largest(vec a) {
    double m = a[0];
    for (int l = 1; l < kLanes; ++l) m = a[l] > m ? a[l] : m;
    return m;
}

inline double smallest(vec a) { return -largest(-a); }

inline double sum(vec a) {
    double s = 0;
    for (int l = 0; l < kLanes; ++l) s += a[l];
    return s;
}

// a*b + c in one rounding where the processor can.
inline vec fma(vec a, vec b, vec c) { return a * b + c; }

// 1/a to the last bit or so, for finite a > 1e-300. AVX-512's division takes 16 cycles, this takes 3.
inline vec reciprocal(vec a) {
#if defined(__AVX512F__)
    vec y = _mm512_rcp14_pd(a);
    const vec e = 1.0 - a * y;
    y = fma(y, e, y);
    return fma(y, e * e, y);
#else
    return 1.0 / a;
#endif
}

// exp(x) of N registers in place, relative error below 3e-16·(1+|x|), for x ≤ 709. What lies below -650 is taken as
// -650: no zero, and room enough below the result (5e-283) that products with probabilities do not fall into the slow
// denormal numbers. Reduction in one step: its error is that of a rounding of x. Polynomials: Chebyshev interpolation
// of (e^r-1-r)/r². Step by step for all N, because no step can begin before the last one's result is there.
template <int N>
__attribute__((always_inline)) inline void vexp(vec* x) {
    const double kShift = 0x1.8p52;  // adding it rounds to an integer and leaves that integer in the low bits
    vec shifted[N], r[N], p[N];
    for (int n = 0; n < N; ++n) x[n] = vmax(x[n], splat(-650.0));
#if defined(__AVX512F__)
    alignas(64) static const int64_t kPowers[16] = {  // the bits of 2^(i/16), less what adding i << 48 adds to them
        0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
        0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
        0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
        0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};
    for (int n = 0; n < N; ++n) shifted[n] = fma(x[n], splat(0x1.71547652b82fep+4), splat(kShift));  // 16 / log 2
    for (int n = 0; n < N; ++n) r[n] = fma(shifted[n] - kShift, splat(-0x1.62e42fefa39efp-5), x[n]);
    for (int n = 0; n < N; ++n) p[n] = fma(r[n], splat(0x1.6c17c057d3d84p-10), splat(0x1.11120ffce45e0p-7));
    for (int n = 0; n < N; ++n) p[n] = fma(r[n], p[n], splat(0x1.5555555516dd1p-5));
    for (int n = 0; n < N; ++n) p[n] = fma(r[n], p[n], splat(0x1.55555554d864cp-3));
    for (int n = 0; n < N; ++n) p[n] = fma(r[n], p[n], splat(0.5));
    for (int n = 0; n < N; ++n) p[n] = fma(r[n] * r[n], p[n], r[n]);
    for (int n = 0; n < N; ++n) {
        const ivec bits = (ivec)_mm512_permutex2var_epi64(_mm512_load_si512(kPowers), (__m512i)shifted[n],
                                                          _mm512_load_si512(kPowers + 8));
        const vec power = (vec)(bits + ((ivec)shifted[n] << 48));
        x[n] = fma(power, p[n], power);
    }
#else
    static const double c[10] = {0.5000000000000001,     0.16666666666666669,    0.041666666666623824,
                                 0.008333333333330039,   0.0013888888917367081,  0.00019841269863171557,
                                 2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07,
                                 2.5100472505694996e-08};
    for (int n = 0; n < N; ++n) shifted[n] = fma(x[n], splat(0x1.71547652b82fep+0), splat(kShift));
    for (int n = 0; n < N; ++n) r[n] = fma(shifted[n] - kShift, splat(-0x1.62e42fefa39efp-1), x[n]);
    for (int n = 0; n < N; ++n) p[n] = splat(c[9]);
    for (int i = 8; i >= 0; --i)
        for (int n = 0; n < N; ++n) p[n] = fma(r[n], p[n], splat(c[i]));
    for (int n = 0; n < N; ++n) p[n] = 1.0 + fma(r[n] * r[n], p[n], r[n]);
    for (int n = 0; n < N; ++n) x[n] = (vec)((ivec)p[n] + ((ivec)shifted[n] << 52));  // high bits of the shift fall off
#endif
}

__attribute__((always_inline)) inline vec vexp(vec x) {
    vexp<1>(&x);
    return x;
}

// log(x) for normal positive x, absolute error about 1e-16·(1+|log x|). Other x give nonsense: callers look first.
inline vec vlog(vec x) {
    const double kLog2 = 0x1.62e42fefa39efp-1;
#if defined(__AVX512F__)
    alignas(64) static const struct Table {
        double inverse[16], log[16];
        Table() {
            for (int i = 0; i < 16; ++i) {
                inverse[i] = 1.0 / (1.0 + (i + 0.5) / 16.0);
                log[i] = -std::log(inverse[i]);
            }
        }
    } table;
    vec exponent = _mm512_getexp_pd(x);
    vec m = _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
    __m512i index = _mm512_srli_epi64((__m512i)m, 48);  // the four leading bits of the mantissa
    vec inverse = _mm512_permutex2var_pd(load(table.inverse), index, load(table.inverse + 8));
    vec offset = _mm512_permutex2var_pd(load(table.log), index, load(table.log + 8));
    vec r = fma(m, inverse, splat(-1.0));
    vec p = fma(r, splat(-0.1251745145719268), splat(0.14305104427658366));
    p = fma(r, p, splat(-0.16666657971463916));
    p = fma(r, p, splat(0.19999990338900672));
    p = fma(r, p, splat(-0.2500000000108287));
    p = fma(r, p, splat(0.3333333333453649));
    p = fma(r, p, splat(-0.5));
    return fma(exponent, splat(kLog2), offset) + fma(r * r, p, r);
#else
    // Mantissa in [√½, √2), then log m = 2 atanh s with s = (m-1)/(m+1).
    ivec bits = (ivec)x - 0x3fe6a09e667f3bcd;
    ivec exponent = bits >> 52;
    vec m = (vec)((bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
    vec k = (vec)(exponent + (ivec)splat(0x1.8p52)) - 0x1.8p52;
    vec s = (m - 1.0) / (m + 1.0), z = s * s;
    static const double c[7] = {0.3333333333333335,  0.19999999999949444, 0.14285714313126918, 0.11111105544689746,
                                0.09091446216268516, 0.07665805861025327, 0.07308903576731414};
    vec p = splat(c[6]);
    for (int n = 5; n >= 0; --n) p = fma(z, p, splat(c[n]));
    return fma(k, splat(kLog2), 2.0 * fma(s * z, p, s));
#endif
}

// While one lives, results too small for a normal double become zero in this thread, or are kept again: on x86 a
// denormal operand costs a hundred cycles, but Python's own code may need them.
class Denormals {
   public:
    enum Mode { kFlush, kKeep };
#if defined(__SSE2__)
    explicit Denormals(Mode mode) { _mm_setcsr(mode == kFlush ? saved_ | 0x8040 : saved_ & ~0x8040u); }
    ~Denormals() { _mm_setcsr(saved_); }

   private:
    unsigned saved_ = _mm_getcsr();
#else
    explicit Denormals(Mode) {}
#endif
    Denormals(const Denormals&) = delete;
    Denormals& operator=(const Denormals&) = delete;
};

// A growing array of registers, aligned as they need.
class VecArray {
    vec* data_ = nullptr;
    size_t size_ = 0;

   public:
    VecArray() = default;
    VecArray(const VecArray&) = delete;
    VecArray& operator=(const VecArray&) = delete;
    ~VecArray() { ::operator delete[](data_, std::align_val_t(sizeof(vec))); }

    // Room for n registers; what was in it is kept.
    void resize(size_t n) {
        if (n <= size_) return;
        n = n > 2 * size_ ? n : 2 * size_;
        vec* bigger = static_cast<vec*>(::operator new[](n * sizeof(vec), std::align_val_t(sizeof(vec))));
        if (size_) std::memcpy(bigger, data_, size_ * sizeof(vec));
        ::operator delete[](data_, std::align_val_t(sizeof(vec)));
        data_ = bigger;
        size_ = n;
    }
    vec* data() { return data_; }
};

}  // namespace
