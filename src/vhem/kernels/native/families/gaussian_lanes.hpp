// Gaussians in Baum-Welch, one HMM per lane of a register: densities, moments, and the M-step of diagonal ones.
#pragma once

#include <algorithm>
#include <utility>

#include "../baum_welch.hpp"
#include "gaussian_rows.hpp"

namespace {

// Of full covariances, made once per call: the rows of the triangle L⁻¹ that whitens, and -½ log|2πΣ| behind them.
template <bool Full>
struct GaussianTriangles {
    long width;
    std::vector<double> rows;

    template <class Family>
    GaussianTriangles(const Models<Family>& m, Call& call) : GaussianTriangles(m.components, m.K, m.S * m.M, call) {}

    // Of K HMMs with G Gaussians each.
    GaussianTriangles(const GaussianRows<Full>& all, long K, long G, Call& call) : width(Full ? all.d * (all.d + 1) / 2 + 1 : 0) {
        const long d = all.d;
        rows.resize(K * G * width);
        parallel_for(call, width ? K : 0, [&](long k, Worker&) {
            std::vector<double> L(d * d), W(d * d);
            for (long g = k * G; g < (k + 1) * G; ++g) {
                double* to = &rows[g * width];
                to[width - 1] =
                    -0.5 * d * kLogTwoPi - whitening(all.covars + g * d * d, static_cast<int>(d), L.data(), W.data());
                for (int i = 0; i < d; ++i)
                    for (int j = 0; j <= i; ++j) *to++ = W[i * d + j];
            }
        });
    }
};

// Diagonal Gaussians that are learned: what goes in and comes out again, and the prior.
struct GaussianLearning : Learning {
    double *means, *covars;
    const double *scale, *floor;  // variances of the pseudo-frames, smallest variances
    double covar;                 // pseudo-frames
};

// The Gaussians of kLanes HMMs.
template <bool Full>
class GaussianLanes {
    const GaussianRows<Full> all;
    const GaussianTriangles<Full>& triangles;
    const double* anchors;
    const long G, d;  // Gaussians per HMM, dimensions
    vec *mean, *anchor, *scale, *constant, *variance, *difference;
    vec *virtual_variance, *floor, *fresh;  // of learning; fresh: means, variances

  public:
    GaussianLanes(const GaussianRows<Full>& all, const GaussianTriangles<Full>& triangles, const double* anchors, long G)
        : all(all), triangles(triangles), anchors(anchors), G(G), d(all.d) {}

    // Registers of working memory.
    long size() const { return G * (2 * d + (Full ? triangles.width : 3 * d)) + d; }
    void place(vec* at) {
        auto take = [&](long n) { return std::exchange(at, at + n); };
        mean = take(G * d), anchor = take(G * d), scale = take(G * (Full ? triangles.width : d)), difference = take(d);
        if (!Full) constant = take(G * d), variance = take(G * d);
    }

    // Takes the HMMs k, one per lane.
    void load(ivec k) {
        gather_rows(k, all.means, G * d, mean);
        gather_rows(k, anchors, G * d, anchor);
        Full ? gather_rows(k, triangles.rows.data(), G * triangles.width, scale) : gather_rows(k, all.covars, G * d, variance);
    }

    // The lanes that can be computed here, of which `complete` ones have no gaps.
    ivec trusted(ivec complete) const { return Full ? complete : ~ivec{}; }

    // -½ log|2πΣ| of one Gaussian; makes it ready for `density`.
    vec log_factor(long g) {
        if (Full) return scale[(g + 1) * triangles.width - 1];
        vec total = {};
        for (long i = g * d; i < (g + 1) * d; ++i) {
            scale[i] = -0.5 / variance[i];
            constant[i] = -0.5 * (kLogTwoPi + vlog(variance[i]));
            total += constant[i];
        }
        return total;
    }

    template <bool Missing>
    __attribute__((always_inline)) vec density(int g, const vec* frame, vec log) {
        const vec *mu = mean + g * d, *factors = scale + g * (Full ? triangles.width : d);
        for (int j = 0; j < d; ++j) {
            vec z = frame[j] - mu[j];
            if (Full) {
                difference[j] = z;
                z = vec{};
                for (int i = 0; i <= j; ++i) z = fma(*factors++, difference[i], z);
                log = fma(z * -0.5, z, log);
            } else if (Missing) {
                log = frame[j] == frame[j] ? fma(z * z, factors[j], log) : log - constant[g * d + j];
            } else {
                log = fma(z * z, factors[j], log);
            }
        }
        return log;
    }

    // Adds a frame with weight u to the moments of one Gaussian, among those of all.
    template <bool Missing>
    __attribute__((always_inline)) void add(int g, vec u, const vec* frame, const std::array<vec*, 2>& sums) {
        vec *first = sums[0] + g * d, *second = sums[1] + g * (Full ? d * d : d);
        for (int j = 0; j < d; ++j) {
            vec z = frame[j] - anchor[g * d + j];
            if (Full) {
                difference[j] = z;
                vec weighted = u * z;
                first[j] += weighted;
                for (int i = 0; i <= j; ++i) second[j * d + i] = fma(weighted, difference[i], second[j * d + i]);
            } else if (Missing) {
                ivec seen = frame[j] == frame[j];
                z = seen ? z : mean[g * d + j] - anchor[g * d + j];
                first[j] = fma(u, z, first[j]);
                second[j] = fma(u, fma(z, z, seen ? vec{} : variance[g * d + j]), second[j]);
            } else {
                vec weighted = u * z;
                first[j] += weighted;
                second[j] = fma(weighted, z, second[j]);
            }
        }
    }

    // All T frames of `width` values x to the moments of S diagonal Gaussians, with weights [frame][state], dimension by
    // dimension: sums stay in registers.
    static constexpr bool adds_frames() { return !Full; }
    template <int S>
    void add_frames(long T, const vec* x, long width, const vec* weights, const std::array<vec*, 2>& sums) const {
        vec *to_first = sums[0], *to_second = sums[1];
        for (long j = 0; j < d; ++j) {
            vec first[S] = {}, second[S] = {}, origin[S];
            for (int s = 0; s < S; ++s) origin[s] = anchor[s * d + j];
            for (long t = 0; t < T; ++t)
                for (int s = 0; s < S; ++s) {
                    const vec z = x[t * width + j] - origin[s], weighted = weights[t * S + s] * z;
                    first[s] += weighted;
                    second[s] = fma(weighted, z, second[s]);
                }
            for (int s = 0; s < S; ++s) to_first[s * d + j] = first[s], to_second[s * d + j] = second[s];
        }
    }

    // Learning, one diagonal Gaussian per state.

    long learning_size() const { return 2 * d + 2 * G * d; }
    void load_prior(ivec k, const GaussianLearning& l, vec* room) {
        virtual_variance = room, floor = room + d, fresh = floor + d;
        gather_rows(k, l.scale, d, virtual_variance);
        gather_rows(k, l.floor, d, floor);
    }

    // -½ κ Σ (log σ² + V/σ²), with -½ log σ² in `constant`, up to a constant.
    vec log_prior(const GaussianLearning& l) const {
        vec total = {};
        if (!(l.covar > 0)) return total;
        for (long i = 0; i < G * d; ++i) total += l.covar * (constant[i] + 0.5 * kLogTwoPi + virtual_variance[i % d] * scale[i]);
        return total;
    }

    // The M-step of Gaussian g from weighted moments, into `fresh`. Returns the lanes whose means stayed near their anchors.
    ivec estimate(long g, vec weight, vec n, const std::array<vec*, 2>& sums, const GaussianLearning& l) {
        const vec *first = sums[0] + g * d, *second = sums[1] + g * d;
        const double covar = l.covar;
        ivec near = ~ivec{};
        vec *means = fresh, *variances = fresh + G * d;
        const vec all = n + covar;
        const ivec known = all > 0.0;
        const vec share = weight / (n > 0.0 ? n : splat(1.0)), per_frame = 1.0 / (known ? all : splat(1.0));
        for (long j = 0, i = g * d; j < d; ++j, ++i) {
            const vec offset = share * first[j];
            const vec scatter = weight * (second[j] - first[j] * offset) + covar * virtual_variance[j];
            means[i] = mean[i] + offset;
            variances[i] = vmax(known ? scatter * per_frame : variance[i], floor[j]);
            near &= offset * offset <= kFarShift * variances[i];
        }
        return near;
    }

    void apply(ivec going) {
        for (long i = 0; i < G * d; ++i) {
            mean[i] = going ? fresh[i] : mean[i];
            variance[i] = going ? fresh[G * d + i] : variance[i];
        }
        moved();
    }

    long n_gaussians() const { return G; }
    long n_dims() const { return d; }
    vec* means() const { return mean; }
    vec* variances() const { return variance; }
    void moved() { std::copy_n(mean, G * d, anchor); }  // moments are about the means

    void keep(int lane, long k, const GaussianLearning& l) const {
        scatter_row(lane, mean, G * d, l.means + k * G * d);
        scatter_row(lane, variance, G * d, l.covars + k * G * d);
    }
};

}  // namespace
