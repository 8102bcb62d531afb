// Gaussians over the frames of one sequence: densities of a block of frames, and the moments that the M-step divides.
#pragma once

#include <algorithm>

#include "../frames.hpp"
#include "gaussian_rows.hpp"

namespace {

// One Gaussian of one state's mixture: log c + log N(x; μ, Σ).
template <bool Full>
struct Gaussian {
    double log_weight, log_factor;  // log c, and log c minus half of log|2πΣ|
    const double *mean, *covar;
    long index;  // among all Gaussians of all HMMs
    // Diagonal: -1/(2σ²), then -log(2πσ²)/2, d of each. Full: the triangle L⁻¹ that whitens, d×d.
    std::vector<double> scale;

    Gaussian(const GaussianRows<Full>& all, long index)
        : log_weight(all.weights ? std::log(all.weights[index]) : 0.0), log_factor(log_weight), mean(all.means + index * all.d),
          covar(all.covars + index * all.covar_size()), index(index) {
        Full ? prepare_full(static_cast<int>(all.d)) : prepare_diagonal(static_cast<int>(all.d));
    }

    void prepare_diagonal(int d) {
        scale.resize(2 * d);
        for (int j = 0; j < d; ++j) {
            scale[j] = -0.5 / covar[j];
            scale[d + j] = -0.5 * (kLogTwoPi + std::log(covar[j]));
            log_factor += scale[d + j];
        }
    }

    void prepare_full(int d) {
        std::vector<double> L(d * d);
        scale.resize(d * d);
        whitening(covar, d, L.data(), scale.data());
        for (int j = 0; j < d; ++j) log_factor -= 0.5 * kLogTwoPi + std::log(L[j * d + j]);
    }
};

// log c + log N(y_t; μ, Σ) of the frames of a block.
template <bool Full>
class GaussianDensities {
    const int d;
    const long first;            // of the frames' columns
    std::vector<double> offset;  // x - μ of one register of frames

   public:
    explicit GaussianDensities(const GaussianRows<Full>& all, long first = 0)
        : d(static_cast<int>(all.d)), first(first), offset(d * kLanes) {}

    void evaluate(const Gaussian<Full>& g, const FrameBlock& frames, double* out, Worker& worker) {
        for (int t = 0; t < frames.n; t += kLanes) {
            vec log;
            if constexpr (Full)
                log = full(g, frames.column(first), t);
            else
                log = frames.incomplete.empty() ? diagonal<false>(g, frames.column(first), t) : diagonal<true>(g, frames.column(first), t);
            store(out + t, vmax(log, splat(kLeastLog)));
        }
        if (Full && !frames.incomplete.empty()) marginals(g, frames, out, worker);
    }

   private:
    // A missing dimension integrates to one: its factor is left out.
    template <bool Missing>
    vec diagonal(const Gaussian<Full>& g, const double* columns, int t) const {
        vec log = splat(Missing ? g.log_weight : g.log_factor);
        for (int j = 0; j < d; ++j) {
            vec x = load(&columns[j * kBlockFrames + t]), difference = x - g.mean[j];
            if (Missing) {
                vec term = fma(difference * difference, splat(g.scale[j]), splat(g.scale[d + j]));
                log += x == x ? term : vec{};
            } else {
                log = fma(difference * difference, splat(g.scale[j]), log);
            }
        }
        return log;
    }

    vec full(const Gaussian<Full>& g, const double* columns, int t) {
        vec log = splat(g.log_factor);
        for (int i = 0; i < d; ++i) {
            store(&offset[i * kLanes], load(&columns[i * kBlockFrames + t]) - g.mean[i]);
            vec z = {};
            for (int j = 0; j <= i; ++j) z = fma(splat(g.scale[i * d + j]), load(&offset[j * kLanes]), z);
            log = fma(z * splat(-0.5), z, log);
        }
        return log;
    }

    // Frames with missing values under a full covariance, one by one: the density of what was observed. Neighbours
    // often miss the same dimensions, and then share the factor.
    void marginals(const Gaussian<Full>& g, const FrameBlock& frames, double* out, Worker& worker) const {
        std::vector<int> kept, now;
        std::vector<double> L(d * d), z(d);
        bool fresh = true;
        for (int t : frames.incomplete) {
            worker.checkpoint();
            const double* x = frames.row(t) + first;
            now.clear();
            for (int j = 0; j < d; ++j)
                if (x[j] == x[j]) now.push_back(j);
            if (fresh || now != kept) cholesky(g.covar, d, kept = now, L.data());
            fresh = false;
            out[t] = std::max(kLeastLog, g.log_weight + whitened(g, x, kept, L.data(), z.data()));
        }
    }

    static double whitened(const Gaussian<Full>& g, const double* x, const std::vector<int>& kept, const double* L,
                           double* z) {
        int n = static_cast<int>(kept.size());
        double log = -0.5 * n * kLogTwoPi;
        for (int i = 0; i < n; ++i) {
            z[i] = x[kept[i]] - g.mean[kept[i]];
            for (int j = 0; j < i; ++j) z[i] -= L[i * n + j] * z[j];
            z[i] /= L[i * n + i];
            log -= 0.5 * z[i] * z[i] + std::log(L[i * n + i]);
        }
        return log;
    }
};

// The mean and covariance of a Gaussian's missing dimensions, given the observed ones.
class Conditional {
  public:
    Conditional(const Gaussian<true>& g, int d) : g(g), d(d), L(d * d), expected(d), covar(d * d), z(d) {}

    // Afterwards `expected` is the frame with its gaps filled, `covar` the covariance of what was filled in.
    void fill(const double* x) {
        now.clear();
        for (int j = 0; j < d; ++j)
            if (x[j] == x[j]) now.push_back(j);
        if (fresh || now != kept) factorise();
        whiten(x);
        for (int i = 0; i < d; ++i) expected[i] = x[i] == x[i] ? x[i] : g.mean[i] + regression(i);
    }

    const double* mean() const { return expected.data(); }
    const double* covariance() const { return covar.data(); }

  private:
    const Gaussian<true>& g;
    int d;
    bool fresh = true;
    std::vector<int> now, kept;
    std::vector<double> L, expected, covar, z;
    std::vector<double> B;  // L⁻¹ Σ_o·, one row per observed dimension

    // Σ_ij - Σ_io Σ_oo⁻¹ Σ_oj, which vanishes where i or j is observed.
    void factorise() {
        fresh = false;
        kept = now;
        const int n = static_cast<int>(kept.size());
        cholesky(g.covar, d, kept, L.data());
        B.assign(static_cast<size_t>(n) * d, 0.0);
        for (int j = 0; j < d; ++j)
            for (int i = 0; i < n; ++i) {
                double rest = g.covar[kept[i] * d + j];
                for (int k = 0; k < i; ++k) rest -= L[i * n + k] * B[k * d + j];
                B[i * d + j] = rest / L[i * n + i];
            }
        for (int i = 0; i < d; ++i)
            for (int j = 0; j < d; ++j) {
                covar[i * d + j] = g.covar[i * d + j];
                for (int k = 0; k < n; ++k) covar[i * d + j] -= B[k * d + i] * B[k * d + j];
            }
        for (int k : kept)
            for (int j = 0; j < d; ++j) covar[k * d + j] = covar[j * d + k] = 0.0;
    }

    void whiten(const double* x) {
        const int n = static_cast<int>(kept.size());
        for (int a = 0; a < n; ++a) {
            z[a] = x[kept[a]] - g.mean[kept[a]];
            for (int b = 0; b < a; ++b) z[a] -= L[a * n + b] * z[b];
            z[a] /= L[a * n + a];
        }
    }

    double regression(int i) const {
        double total = 0;
        for (size_t a = 0; a < kept.size(); ++a) total += B[a * d + i] * z[a];
        return total;
    }
};

// Adds the frames of a block, with weights u, to the moments of one Gaussian about an anchor.
template <bool Full>
class GaussianAccumulation {
    const int d;
    const long column;  // the first of the frames' that is a dimension

   public:
    explicit GaussianAccumulation(const GaussianRows<Full>& all, long column = 0) : d(static_cast<int>(all.d)), column(column) {}

    // To the sums of Gaussian `at` of one HMM. Of full covariances, only the lower triangle of the second moments. Frames
    // with gaps end as weight zero.
    void add(const Gaussian<Full>& g, FrameBlock& frames, double* u, const double* anchors, long at, long, double& count,
             const std::array<double*, 2>& sums, Worker& worker) const {
        const double* anchor = anchors + g.index * d;
        const std::array<double*, 2> moments{sums[0] + at * d, sums[1] + at * (Full ? d * d : d)};
        if (Full && !frames.incomplete.empty()) add_incomplete(g, frames, u, anchor, count, moments, worker);
        vec occupancy = {};
        for (int t = 0; t < frames.n; t += kLanes) occupancy += load(u + t);
        count += sum(occupancy);
        Full ? add_full(frames, u, anchor, moments) : add_diagonal(g, frames, u, anchor, moments);
    }

   private:
    // A missing value stands for its distribution under the model: mean μ, variance σ².
    void add_diagonal(const Gaussian<Full>& g, const FrameBlock& frames, const double* u, const double* anchor,
                      const std::array<double*, 2>& moments) const {
        for (int j = 0; j < d; ++j) {
            vec first = {}, second = {}, filled = splat(g.mean[j] - anchor[j]), variance = splat(g.covar[j]);
            for (int t = 0; t < frames.n; t += kLanes) {
                vec x = load(frames.column(column + j) + t), share = load(u + t);
                vec difference = x == x ? x - anchor[j] : filled;
                first = fma(share, difference, first);
                second = fma(share, fma(difference, difference, x == x ? vec{} : variance), second);
            }
            moments[0][j] += sum(first);
            moments[1][j] += sum(second);
        }
    }

    void add_full(const FrameBlock& frames, const double* u, const double* anchor, const std::array<double*, 2>& moments) const {
        const double* columns = frames.column(column);
        for (int i = 0; i < d; ++i)
            for (int j = 0; j <= i; ++j) {
                vec one = {}, two = {};
                for (int t = 0; t < frames.n; t += kLanes) {
                    vec share = load(u + t) * (load(columns + i * kBlockFrames + t) - anchor[i]);
                    one += share;
                    two = fma(share, load(columns + j * kBlockFrames + t) - anchor[j], two);
                }
                if (i == j) moments[0][i] += sum(one);
                moments[1][i * d + j] += sum(two);
            }
    }

    // Frames with gaps, one by one; they then count for nothing in the block, and hold no NaN.
    void add_incomplete(const Gaussian<Full>& g, FrameBlock& frames, double* u, const double* anchor, double& count,
                        const std::array<double*, 2>& moments, Worker& worker) const {
        if constexpr (Full) {
            Conditional conditional(g, d);
            for (int t : frames.incomplete) {
                worker.checkpoint();
                conditional.fill(frames.row(t) + column);
                const double *mean = conditional.mean(), *covar = conditional.covariance();
                count += u[t];
                for (int i = 0; i < d; ++i) {
                    moments[0][i] += u[t] * (mean[i] - anchor[i]);
                    for (int j = 0; j <= i; ++j)
                        moments[1][i * d + j] += u[t] * ((mean[i] - anchor[i]) * (mean[j] - anchor[j]) + covar[i * d + j]);
                }
                u[t] = 0.0;
                for (int i = 0; i < d; ++i) frames.column(column + i)[t] = anchor[i];
            }
        }
    }
};

}  // namespace
