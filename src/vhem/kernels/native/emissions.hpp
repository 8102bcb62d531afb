// The emission step of MATH section 1 for a block of base states against all reduced states, and the moments that the
// M-step sums. Both work on differences of means, never on sums of squares, so that data far from the origin or spread
// far wider than a state lose no digits.
#pragma once

#include <vector>

#include "simd.hpp"

namespace {

constexpr double kMinusInfinity = -1e300;  // stands for log 0: finite, so that no NaN can come of it

// Gaussians as the kernels read them: rows of `means` (d doubles) and `covars` (d, or d·d when full).
struct Gaussians {
    const double *means, *covars;
    long d;
    bool diagonal;
    long covar_size() const { return diagonal ? d : d * d; }
};

// The reduced models' Gaussians, kLanes columns (j,ρ) a panel, so that one base state meets kLanes reduced states at once.
// In a panel: per dimension the means, then the coefficients -½P (off-diagonal ones doubled), upper triangle row by row.
class EmissionPanels {
    long d_, panels_, size_;
    bool diagonal_;
    std::vector<double> data_;      // [ℓ][panel][size_][kLanes]
    std::vector<double> constant_;  // [ℓ][panel][kLanes]: log c_ρℓ - ½(d log 2π + log|Σ_ρℓ|)

   public:
    const long M, columns;  // components a state; columns, rounded up to whole panels

    // `constants`, `means` and `precisions` are those of all K·S·M Gaussians; `columns` says which states to take.
    EmissionPanels(const std::vector<long>& states, long n_mix, const double* constants, const Gaussians& precisions)
        : d_(precisions.d),
          panels_((static_cast<long>(states.size()) + kLanes - 1) / kLanes),
          size_(precisions.diagonal ? 2 * d_ : d_ + d_ * (d_ + 1) / 2),
          diagonal_(precisions.diagonal),
          data_(static_cast<size_t>(n_mix * panels_ * size_ * kLanes)),
          constant_(static_cast<size_t>(n_mix * panels_ * kLanes)),
          M(n_mix),
          columns(panels_ * kLanes) {
        for (long l = 0; l < M; ++l)
            for (size_t c = 0; c < states.size(); ++c) {
                const long gaussian = states[c] * M + l, panel = l * panels_ + static_cast<long>(c) / kLanes;
                const long lane = static_cast<long>(c) % kLanes;
                constant_[panel * kLanes + lane] = constants[gaussian];
                fill(&data_[panel * size_ * kLanes + lane], precisions.means + gaussian * d_,
                     precisions.covars + gaussian * precisions.covar_size());
            }
    }

    // log c_ρℓ + g(row; ρ,ℓ) for n ≤ 4 base Gaussians and one panel.
    void evaluate(const Gaussians& base, long row, int n, long l, long panel, vec* out) const {
        const double* p = &data_[(l * panels_ + panel) * size_ * kLanes];
        const vec constant = load(&constant_[(l * panels_ + panel) * kLanes]);
        if (!diagonal_) {
            for (int r = 0; r < n; ++r) out[r] = constant + full(base, row + r, p);
        } else if (n == 4) {
            diagonal<4>(base, row, p, constant, out);
        } else {
            for (int r = 0; r < n; ++r) diagonal<1>(base, row + r, p, constant, out + r);
        }
    }

   private:
    void fill(double* to, const double* mean, const double* precision) const {
        for (long k = 0; k < d_; ++k) *to = mean[k], to += kLanes;
        for (long k = 0; k < d_; ++k)
            if (diagonal_)
                *to = -0.5 * precision[k], to += kLanes;
            else
                for (long l = k; l < d_; ++l)
                    *to = (l == k ? -0.5 : -1.0) * precision[k * d_ + l], to += kLanes;
    }

    template <int N>
    void diagonal(const Gaussians& base, long row, const double* p, vec constant, vec* out) const {
        vec sum[N];
        for (int r = 0; r < N; ++r) sum[r] = constant;
        const double *mean = base.means + row * d_, *var = base.covars + row * d_;
        for (long k = 0; k < d_; ++k) {
            const vec center = load(p + k * kLanes), weight = load(p + (d_ + k) * kLanes);
            for (int r = 0; r < N; ++r) {
                const vec difference = mean[r * d_ + k] - center;
                sum[r] = fma(weight, fma(difference, difference, splat(var[r * d_ + k])), sum[r]);
            }
        }
        for (int r = 0; r < N; ++r) out[r] = sum[r];
    }

    vec full(const Gaussians& base, long row, const double* p) const {
        static thread_local VecArray memory;
        memory.resize(static_cast<size_t>(d_));
        vec *difference = memory.data(), sum = {};
        const double *mean = base.means + row * d_, *covar = base.covars + row * d_ * d_;
        for (long k = 0; k < d_; ++k) difference[k] = mean[k] - load(p + k * kLanes);
        const double* weight = p + d_ * kLanes;
        for (long k = 0; k < d_; ++k) {
            vec even = {}, odd = {};  // two chains, to hide the latency of the additions
            long l = k;
            for (; l + 2 <= d_; l += 2, weight += 2 * kLanes) {
                even = fma(load(weight), fma(difference[k], difference[l], splat(covar[k * d_ + l])), even);
                odd = fma(load(weight + kLanes), fma(difference[k], difference[l + 1], splat(covar[k * d_ + l + 1])), odd);
            }
            if (l < d_) {
                even = fma(load(weight), fma(difference[k], difference[l], splat(covar[k * d_ + l])), even);
                weight += kLanes;
            }
            sum += even + odd;
        }
        return sum;
    }
};

// E(β,ρ) for base states [first, first + n_states) into E (row stride panels.columns), and where either side has mixtures
// η(ℓ|m;β,ρ) into eta, [base Gaussian][ℓ][column]. `mix` holds the base models' weights c_βm.
void emission_step(const EmissionPanels& panels, const Gaussians& base, const double* mix, long M_b, long first,
                   long n_states, double* E, double* eta) {
    const long C = panels.columns;
    if (M_b == 1 && panels.M == 1) {
        vec out[4];
        for (long s = 0; s < n_states; s += 4) {
            const int n = static_cast<int>(std::min<long>(4, n_states - s));
            for (long panel = 0; panel < C / kLanes; ++panel) {
                panels.evaluate(base, first + s, n, 0, panel, out);
                for (int r = 0; r < n; ++r) store(E + (s + r) * C + panel * kLanes, out[r]);
            }
        }
        return;
    }
    for (long s = 0; s < n_states; ++s)
        for (long panel = 0; panel < C / kLanes; ++panel) {
            vec expected = {};
            for (long m = 0; m < M_b; ++m) {
                double* to = eta + (s * M_b + m) * panels.M * C + panel * kLanes;
                vec top = splat(kMinusInfinity), total = {}, g;
                for (long l = 0; l < panels.M; ++l) {
                    panels.evaluate(base, (first + s) * M_b + m, 1, l, panel, &g);
                    store(to + l * C, g);
                    top = vmax(top, g);
                }
                for (long l = 0; l < panels.M; ++l) {
                    const vec logit = load(to + l * C), e = vexp(logit - top);
                    const vec kept = (vec)((ivec)e & (logit > 0.5 * kMinusInfinity));  // c_ρℓ = 0: exactly nothing
                    store(to + l * C, kept);
                    total += kept;
                }
                total = vmax(total, splat(1e-300));  // padding: a state without Gaussians, which nobody will read
                for (long l = 0; l < panels.M; ++l) store(to + l * C, load(to + l * C) / total);
                expected = fma(splat(mix[(first + s) * M_b + m]), top + vlog(total), expected);
            }
            store(E + s * C + panel * kLanes, expected);
        }
}

// One weighted base Gaussian, as the M-step takes it: its row, and its weight for each of a cluster's Gaussians.
struct WeightedRow {
    long row;
    const double* weights;
};

// Sums over rows, for each Gaussian (ρ,ℓ) of one cluster: Σu, Σu(μ_b-a) and Σu[Σ_b + (μ_b-a)(μ_b-a)ᵀ] about anchors a.
class MomentSums {
   public:
    // first[g·d], second[g·d] or second[g·d·d], count[g]: added to.
    static void add(const std::vector<WeightedRow>& rows, const Gaussians& base, long n, const double* anchors,
                    double* count, double* first, double* second) {
        for (const auto& row : rows)
            for (long g = 0; g < n; ++g) count[g] += row.weights[g];
        const long d = base.d;
        for (long k = 0; k < d; k += kLanes) {
            const int width = static_cast<int>(std::min<long>(kLanes, d - k));
            long g = 0;
            for (; g + 4 <= n; g += 4) tile<4>(rows, base, g, k, width, anchors, first, second);
            for (; g < n; ++g) tile<1>(rows, base, g, k, width, anchors, first, second);
        }
        if (!base.diagonal)
            for (long g = 0; g < n; ++g) outer(rows, base, g, anchors, second + g * d * d);
    }

   private:
    // G Gaussians, kLanes dimensions, all rows: the sums stay in registers.
    template <int G>
    static void tile(const std::vector<WeightedRow>& rows, const Gaussians& base, long g, long k, int width,
                     const double* anchors, double* first, double* second) {
        const long d = base.d;
        vec anchor[G], s1[G], s2[G];
        for (int e = 0; e < G; ++e) anchor[e] = load_partial(anchors + (g + e) * d + k, width), s1[e] = s2[e] = vec{};
        for (const auto& row : rows) {
            const vec mean = load_partial(base.means + row.row * d + k, width);
            const vec var = base.diagonal ? load_partial(base.covars + row.row * d + k, width) : vec{};
            for (int e = 0; e < G; ++e) {
                const double u = row.weights[g + e];
                const vec difference = mean - anchor[e];
                s1[e] = fma(splat(u), difference, s1[e]);
                s2[e] = fma(splat(u), fma(difference, difference, var), s2[e]);
            }
        }
        for (int e = 0; e < G; ++e) {
            add_partial(first + (g + e) * d + k, s1[e], width);
            if (base.diagonal) add_partial(second + (g + e) * d + k, s2[e], width);
        }
    }

    static void add_partial(double* to, vec v, int width) { store_partial(to, load_partial(to, width) + v, width); }

    static void outer(const std::vector<WeightedRow>& rows, const Gaussians& base, long g, const double* anchors,
                      double* second) {
        const long d = base.d;
        std::vector<double> difference(static_cast<size_t>(d));
        for (const auto& row : rows) {
            const double u = row.weights[g];
            if (u == 0) continue;
            const double *mean = base.means + row.row * d, *covar = base.covars + row.row * d * d;
            for (long k = 0; k < d; ++k) difference[k] = mean[k] - anchors[g * d + k];
            for (long k = 0; k < d; ++k) {
                const double scaled = u * difference[k];
                for (long l = 0; l < d; ++l) second[k * d + l] += scaled * difference[l] + u * covar[k * d + l];
            }
        }
    }
};

}  // namespace
