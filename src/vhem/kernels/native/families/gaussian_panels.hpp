// Gaussians in VHEM: expected log-densities between two sets of models, and the moments that the M-step divides.
//
// All sums are over differences of means, never over squares, so that data far from the origin or spread far wider than a
// state lose no digits; full covariances are whitened by triangles for the same reason.
#pragma once

#include "../emissions.hpp"
#include "gaussian_rows.hpp"

namespace {

// The reduced models' Gaussians, kLanes columns (j,ρ) per panel, so that one base state meets kLanes reduced states at
// once. In a panel: the means; then, of diagonal covariances, -½/σ²; of full ones, the triangle W = L⁻¹ that whitens, row
// by row, and the upper triangle of -½Σ⁻¹ with its off-diagonal numbers doubled.
template <bool Full>
class GaussianPanels {
    long d_, panels_, size_;
    std::vector<double> data_;      // [ℓ][panel][size_][kLanes]
    std::vector<double> constant_;  // [ℓ][panel][kLanes]: log c_ρℓ - ½(d log 2π + log|Σ_ρℓ|)

   public:
    using Rows = GaussianRows<Full>;
    const long M, columns;  // components per state; columns, rounded up to whole panels

    // `all` are the Gaussians of all models; `states` says which states to take.
    GaussianPanels(const std::vector<long>& states, long n_mix, const Rows& all)
        : d_(all.d),
          panels_((static_cast<long>(states.size()) + kLanes - 1) / kLanes),
          size_(Full ? d_ + d_ * (d_ + 1) : 2 * d_),
          data_(static_cast<size_t>(n_mix * panels_ * size_ * kLanes)),
          constant_(static_cast<size_t>(n_mix * panels_ * kLanes)),
          M(n_mix),
          columns(panels_ * kLanes) {
        std::vector<double> room(static_cast<size_t>(Full ? 2 * d_ * d_ : 0));
        for (long l = 0; l < M; ++l)
            for (size_t c = 0; c < states.size(); ++c) {
                const long gaussian = states[c] * M + l, panel = l * panels_ + static_cast<long>(c) / kLanes;
                const long lane = static_cast<long>(c) % kLanes;
                const double weight = all.weights ? all.weights[gaussian] : 1.0, *covar = all.covars + gaussian * all.covar_size();
                double* to = data_.data() + panel * size_ * kLanes + lane;  // of nothing, if d is 0
                for (long k = 0; k < d_; ++k) *to = all.means[gaussian * d_ + k], to += kLanes;
                const double half_log_det = Full ? fill_full(to, covar, room.data()) : fill_diagonal(to, covar);
                constant_[panel * kLanes + lane] =
                    (weight > 0 ? std::log(weight) : kLogZero) - (0.5 * static_cast<double>(d_) * kLogTwoPi + half_log_det);
            }
    }

    long scratch_size() const { return Full ? 4 * d_ : 0; }

    // log c_ρℓ + g(row; ρ,ℓ) for n ≤ 4 base Gaussians and one panel.
    void evaluate(const Rows& base, long row, int n, long l, long panel, vec* out, vec* scratch) const {
        const double* p = data_.data() + (l * panels_ + panel) * size_ * kLanes;
        const vec constant = load(&constant_[(l * panels_ + panel) * kLanes]);
        if (n == 4) return evaluate<4>(base, row, p, constant, out, scratch);
        for (int r = 0; r < n; ++r) evaluate<1>(base, row + r, p, constant, out + r, scratch);
    }

   private:
    double fill_diagonal(double* to, const double* var) const {
        double log_det = 0;
        for (long k = 0; k < d_; ++k) *to = -0.5 * (1.0 / var[k]), to += kLanes, log_det += std::log(var[k]);
        return 0.5 * log_det;
    }

    double fill_full(double* to, const double* covar, double* room) const {
        double* W = room + d_ * d_;
        const double half_log_det = whitening(covar, static_cast<int>(d_), room, W);
        for (long k = 0; k < d_; ++k)
            for (long l = 0; l <= k; ++l) *to = W[k * d_ + l], to += kLanes;
        for (long k = 0; k < d_; ++k)
            for (long l = k; l < d_; ++l) {
                double precision = 0;
                for (long i = l; i < d_; ++i) precision += W[i * d_ + k] * W[i * d_ + l];
                *to = (l == k ? -0.5 : -1.0) * precision, to += kLanes;
            }
        return half_log_det;
    }

    template <int N>
    void evaluate(const Rows& base, long row, const double* p, vec constant, vec* out, vec* scratch) const {
        if constexpr (Full)
            full<N>(base, row, p, constant, out, scratch);
        else
            diagonal<N>(base, row, p, constant, out);
    }

    template <int N>
    void diagonal(const Rows& base, long row, const double* p, vec constant, vec* out) const {
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

    // -½ |W (μ_b - μ)|² - ½ tr(Σ⁻¹ Σ_b): far means enter as a sum of squares, in which no digits cancel.
    template <int N>
    void full(const Rows& base, long row, const double* p, vec constant, vec* out, vec* difference) const {
        const double *mean = base.means + row * d_, *covar = base.covars + row * d_ * d_;
        vec squares[N] = {}, trace[N];
        for (long k = 0; k < d_; ++k)
            for (int r = 0; r < N; ++r) difference[k * N + r] = mean[r * d_ + k] - load(p + k * kLanes);
        const double* weight = p + d_ * kLanes;
        for (long k = 0; k < d_; ++k) {
            vec z[N] = {};
            for (long l = 0; l <= k; ++l, weight += kLanes) {
                const vec w = load(weight);
                for (int r = 0; r < N; ++r) z[r] = fma(w, difference[l * N + r], z[r]);
            }
            for (int r = 0; r < N; ++r) squares[r] = fma(z[r], z[r], squares[r]);
        }
        for (int r = 0; r < N; ++r) trace[r] = constant;
        for (long k = 0; k < d_; ++k)
            for (long l = k; l < d_; ++l, weight += kLanes) {
                const vec w = load(weight);
                for (int r = 0; r < N; ++r) trace[r] = fma(w, splat(covar[r * d_ * d_ + k * d_ + l]), trace[r]);
            }
        for (int r = 0; r < N; ++r) out[r] = fma(squares[r], splat(-0.5), trace[r]);
    }
};

// Sums over rows, for each Gaussian (ρ,ℓ) of one cluster: Σu(μ_b-a) and Σu[Σ_b + (μ_b-a)(μ_b-a)ᵀ] about anchors a.
template <bool Full>
class GaussianMoments {
   public:
    // first[g·d], and second[g·d] or second[g·d·d]: added to.
    static void add(const std::vector<WeightedRow>& rows, const GaussianRows<Full>& base, long n, const double* anchors,
                    double* first, double* second) {
        const long d = base.d;
        for (long k = 0; k < d; k += kLanes) {
            const int width = static_cast<int>(std::min<long>(kLanes, d - k));
            long g = 0;
            for (; g + 4 <= n; g += 4) tile<4>(rows, base, g, k, width, anchors, first, second);
            for (; g < n; ++g) tile<1>(rows, base, g, k, width, anchors, first, second);
        }
        if (Full && d)
            for (long g = 0; g < n; ++g) outer(rows, base, g, anchors, second + g * d * d);
    }

   private:
    // G Gaussians, kLanes dimensions, all rows: the sums stay in registers.
    template <int G>
    static void tile(const std::vector<WeightedRow>& rows, const GaussianRows<Full>& base, long g, long k, int width,
                     const double* anchors, double* first, double* second) {
        const long d = base.d;
        vec anchor[G], s1[G], s2[G];
        for (int e = 0; e < G; ++e) anchor[e] = load_partial(anchors + (g + e) * d + k, width), s1[e] = s2[e] = vec{};
        for (const auto& row : rows) {
            const vec mean = load_partial(base.means + row.row * d + k, width);
            const vec var = !Full ? load_partial(base.covars + row.row * d + k, width) : vec{};
            for (int e = 0; e < G; ++e) {
                const double u = row.weights[g + e];
                const vec difference = mean - anchor[e];
                s1[e] = fma(splat(u), difference, s1[e]);
                s2[e] = fma(splat(u), fma(difference, difference, var), s2[e]);
            }
        }
        for (int e = 0; e < G; ++e) {
            add_partial(first + (g + e) * d + k, s1[e], width);
            if (!Full) add_partial(second + (g + e) * d + k, s2[e], width);
        }
    }

    static void add_partial(double* to, vec v, int width) { store_partial(to, load_partial(to, width) + v, width); }

    static void outer(const std::vector<WeightedRow>& rows, const GaussianRows<Full>& base, long g, const double* anchors,
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
