// The probability product kernel between HMMs: one model of a against a pack of models of b, one pair per lane.
//
// The recursion F ← [(A^ρ)ᵀ F A'^ρ] ∘ κ is linear, so it runs without logarithms on κ divided by its largest entry, F divided
// by its sum after every step. What that may lose to underflow is bounded as it goes along; a pair for which the bound
// is not negligible (left-right models whose states are far apart) is redone wholly in logs.
#include <cmath>
#include <memory>
#include <vector>

#include "arguments.hpp"
#include "pairs.hpp"

namespace {

// K models as NumPy holds them; probabilities as logs of their powers.
struct Models {
    long K, S, M, d;
    bool diagonal;
    const double *start, *trans, *weights, *means, *covars;
    const int64_t* n_states;

    explicit Models(const GaussianModels& m)
        : K(m.chains.K), S(m.chains.S), M(m.emissions.M), d(m.emissions.d), diagonal(!m.emissions.full),
          start(m.chains.startprob), trans(m.chains.transmat), weights(m.emissions.weights), means(m.emissions.means),
          covars(m.emissions.covars), n_states(m.chains.n_states) {}
    long covar_size() const { return diagonal ? d : d * d; }

    // Whether several variances may be multiplied before a logarithm is taken.
    bool moderate() const {
        const long n = K * S * M * covar_size(), step = diagonal ? 1 : d + 1;
        for (long g = 0; g < n; g += covar_size())
            for (long k = 0; k < covar_size(); k += step)
                if (!(covars[g + k] > kLeastModerate && covars[g + k] < kMostModerate)) return false;
        return diagonal;
    }
};

// kLanes models, field by field, one model per lane. With `shared`, all lanes hold the same one.
class Lanes {
    VecArray memory_;

   public:
    int S = 0;
    vec *start, *trans, *weights, *means, *covars;  // start and trans: powers of probabilities, not their logs

    Lanes(const Models& models, long first, bool shared) {
        long which[kLanes];
        for (int l = 0; l < kLanes; ++l) {
            which[l] = std::min(first + (shared ? 0 : l), models.K - 1);
            S = std::max(S, static_cast<int>(models.n_states[which[l]]));
        }
        const long s = S, G = s * models.M, d = models.d, c = models.covar_size();
        memory_.resize(static_cast<size_t>(s + s * s + G + G * d + G * c));
        vec* p = memory_.data();
        auto fill = [&](vec*& field, const double* from, long rows, long width, long stride, long model_size) {
            field = p;
            for (long r = 0; r < rows; ++r)
                for (long k = 0; k < width; ++k, ++p)
                    for (int l = 0; l < kLanes; ++l) (*p)[l] = from[which[l] * model_size + r * stride + k];
        };
        const long Smax = models.S, M = models.M;
        fill(start, models.start, 1, s, Smax, Smax);
        fill(trans, models.trans, s, s, Smax, Smax * Smax);
        for (vec* e = start; e < p; ++e)
            for (int l = 0; l < kLanes; ++l) (*e)[l] = std::exp((*e)[l]);
        fill(weights, models.weights, s, M, M, Smax * M);
        fill(means, models.means, s, M * d, M * d, Smax * M * d);
        fill(covars, models.covars, s, M * c, M * c, Smax * M * c);
    }
};

// All that one thread needs to compare one model with one pack.
class Comparison {
    const Models &a_, &b_;
    const int T_;
    const double power_;
    const long group_;  // variances multiplied before a logarithm
    Worker& worker_;
    VecArray memory_;
    vec *kappa_, *exp_kappa_, *F_, *G_, *logits_, *matrix_;  // kappa_: log κ less its largest entry

   public:
    Comparison(const Models& a, const Models& b, int T, double power, Worker& worker)
        : a_(a), b_(b), T_(T), power_(power), group_(a.moderate() && b.moderate() ? kVariancesPerLog : 1), worker_(worker) {
        const long SS = a.S * b.S, MM = a.M * b.M, d = a.d;
        memory_.resize(static_cast<size_t>(4 * SS + MM + d * d + d));
        kappa_ = memory_.data(), exp_kappa_ = kappa_ + SS, F_ = exp_kappa_ + SS, G_ = F_ + SS, logits_ = G_ + SS, matrix_ = logits_ + MM;
    }

    // Writes log k of model i against the n models that begin at j.
    void run(const Lanes& a, long i, const Lanes& b, long j, int n, double* out) {
        const vec scale = emissions(a, b);
        vec loss, result = b.S == 2   ? recursion<2>(a, b, loss)
                           : b.S == 3 ? recursion<3>(a, b, loss)
                           : b.S == 4 ? recursion<4>(a, b, loss)
                           : b.S == 5 ? recursion<5>(a, b, loss)
                           : b.S == 6 ? recursion<6>(a, b, loss)
                                      : recursion<0>(a, b, loss);
        for (int l = 0; l < n; ++l)
            out[l] = loss[l] < kNegligibleLoss ? result[l] + T_ * scale[l] : in_logs(i, j + l, b.S, l) + T_ * scale[l];
    }

   private:
    // log κ of all pairs of states, less its largest entry, which is returned.
    vec emissions(const Lanes& a, const Lanes& b) {
        vec top = splat(kBelowAll);
        for (int s = 0; s < a.S; ++s) {
            worker_.checkpoint();
            for (int r = 0; r < b.S; ++r) {
                const vec value = mixture_kernel(a, s * a_.M, b, r * b_.M);
                kappa_[s * b.S + r] = value;
                top = vmax(top, value);
            }
        }
        for (int e = 0; e < a.S * b.S; ++e) kappa_[e] -= top;
        return top;
    }

    // log Σ_mℓ (c_m c_ℓ)^ρ κ_mℓ of two states.
    vec mixture_kernel(const Lanes& a, long first_a, const Lanes& b, long first_b) {
        vec top = splat(kBelowAll), total = {};
        for (long m = 0; m < a_.M; ++m)
            for (long l = 0; l < b_.M; ++l) {
                const long g = first_a + m, h = first_b + l;
                const vec value = a.weights[g] + b.weights[h] + (a_.diagonal ? diagonal(a, g, b, h) : full(a, g, b, h));
                logits_[m * b_.M + l] = value;
                top = vmax(top, value);
            }
        if (a_.M * b_.M == 1) return top;
        for (long e = 0; e < a_.M * b_.M; ++e) total += vexp(logits_[e] - top);
        return top + vlog(total);
    }

    // -½ [ log|Σ| + ρ Δᵀ Σ⁻¹ Δ ] with Σ = Σ_a + Σ_b.
    vec diagonal(const Lanes& a, long g, const Lanes& b, long h) const {
        const long d = a_.d;
        const vec *mean_a = a.means + g * d, *mean_b = b.means + h * d, *var_a = a.covars + g * d, *var_b = b.covars + h * d;
        vec distance = {}, log_det = {};
        for (long k = 0; k < d;) {
            vec product = splat(1.0);
            for (const long end = std::min(d, k + group_); k < end; ++k) {
                const vec spread = var_a[k] + var_b[k], difference = mean_a[k] - mean_b[k];
                distance += difference * difference / spread;
                product *= spread;
            }
            log_det += vlog(product);
        }
        return -0.5 * (log_det + power_ * distance);
    }

    // The same by elimination of the matrix [Σ Δ], one column after the other.
    vec full(const Lanes& a, long g, const Lanes& b, long h) const {
        const long d = a_.d;
        const vec *covar_a = a.covars + g * d * d, *covar_b = b.covars + h * d * d;
        vec *W = matrix_, *y = matrix_ + d * d, distance = {}, log_det = {};
        for (long e = 0; e < d * d; ++e) W[e] = covar_a[e] + covar_b[e];
        for (long k = 0; k < d; ++k) y[k] = a.means[g * d + k] - b.means[h * d + k];
        for (long k = 0; k < d; ++k) {
            const vec inverse = 1.0 / W[k * d + k];
            distance += y[k] * y[k] * inverse;
            log_det += vlog(W[k * d + k]);
            for (long r = k + 1; r < d; ++r) {
                const vec factor = W[r * d + k] * inverse;
                y[r] -= factor * y[k];
                for (long c = k + 1; c <= r; ++c) W[r * d + c] -= factor * W[c * d + k];
            }
        }
        return -0.5 * (log_det + power_ * distance);
    }

    // log Σ F_T, and a bound on what underflow took from it, relative to it.
    template <int RT>
    vec recursion(const Lanes& a, const Lanes& b, vec& loss) {
        const int S = a.S, R = RT ? RT : b.S, n = S * R;
        const vec growth = splat(static_cast<double>(n));  // no step multiplies the sum of F by more
        for (int e = 0; e < n; ++e) exp_kappa_[e] = vexp(kappa_[e]);
        for (int e = 0; e < n; ++e) F_[e] = a.start[e / R] * b.start[e % R] * exp_kappa_[e];
        vec result = {};
        loss = splat(kStepLoss);
        for (int t = 1;; ++t) {
            worker_.checkpoint_at(t);
            vec total = F_[0];
            for (int e = 1; e < n; ++e) total += F_[e];
            result += vlog(vmax(total, splat(kNoDivisor)));
            const vec inverse = 1.0 / total;
            loss = t == 1 ? loss * inverse : (loss + kStepLoss) * growth * inverse;
            if (t == T_) return result;
            for (int s = 0; s < S; ++s)
                combine<RT>(R, R, F_ + s * R, 1, b.trans, R, [](int) { return vec{}; },
                            [&](int c, vec v) { G_[s * R + c] = v * inverse; });
            for (int s = 0; s < S; ++s)
                combine<RT>(R, S, a.trans + s, S, G_, R, [](int) { return vec{}; },
                            [&](int c, vec v) { F_[s * R + c] = v * exp_kappa_[s * R + c]; });
        }
    }

    // The recursion of one pair, every sum by its logarithm; kappa_ is that of the pack, R states wide.
    double in_logs(long i, long j, int R, int lane) const {
        const long S = a_.n_states[i], Q = b_.n_states[j];
        const double *start_a = a_.start + i * a_.S, *trans_a = a_.trans + i * a_.S * a_.S;
        const double *start_b = b_.start + j * b_.S, *trans_b = b_.trans + j * b_.S * b_.S;
        std::vector<double> F(static_cast<size_t>(S * Q)), G(F.size());
        auto kappa = [&](long s, long q) { return static_cast<double>(kappa_[s * R + q][lane]); };
        for (long s = 0; s < S; ++s)
            for (long q = 0; q < Q; ++q) F[s * Q + q] = start_a[s] + start_b[q] + kappa(s, q);
        for (int t = 1; t < T_; ++t) {
            worker_.checkpoint();
            for (long s = 0; s < S; ++s)
                for (long q = 0; q < Q; ++q)
                    G[s * Q + q] = log_sum(Q, [&](long r) { return F[s * Q + r] + trans_b[r * b_.S + q]; });
            for (long s = 0; s < S; ++s)
                for (long q = 0; q < Q; ++q)
                    F[s * Q + q] = kappa(s, q) + log_sum(S, [&](long r) { return G[r * Q + q] + trans_a[r * a_.S + s]; });
        }
        return log_sum(S * Q, [&](long e) { return F[e]; });
    }

    template <class Term>
    static double log_sum(long n, Term term) {
        double top = -INFINITY, total = 0;
        for (long e = 0; e < n; ++e) top = std::max(top, term(e));
        if (!std::isfinite(top)) return top;
        for (long e = 0; e < n; ++e) total += std::exp(term(e) - top);
        return top + std::log(total);
    }
};

// kernel[i,j] = log k(a_i, b_j), (K_a, K_b); with `symmetric`, only where j >= i (and a few more). Of the models, startprob,
// transmat and weights are logs of their powers.
void log_ppk(const GaussianModels& models_a, const GaussianModels& models_b, int length, double power, bool symmetric,
             Output kernel, const Run& run) {
    const Models a(models_a), b(models_b);
    if (a.d != b.d || a.diagonal != b.diagonal)
        refuse("both sets of models must have one dimension and one type of covariances, got covars of shape " +
               shape_of(models_a.emissions.arrays[2]) + " and " + shape_of(models_b.emissions.arrays[2]) + ".");
    if (length < 1) refuse("length must be at least 1, got " + std::to_string(length) + ".");
    if (symmetric && a.K != b.K) refuse("a symmetric kernel needs as many models on both sides.");
    double* to = doubles_out(kernel, "kernel", {a.K, b.K});
    run_call(run, [&](Call& call) {
        std::vector<std::unique_ptr<Lanes>> packs;
        for (long j = 0; j < b.K; j += kLanes) packs.push_back(std::make_unique<Lanes>(b, j, false));
        parallel_for(call, (a.K + kRowsPerTask - 1) / kRowsPerTask, [&](long task, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            Comparison comparison(a, b, length, power, worker);
            for (long i = task * kRowsPerTask; i < std::min(a.K, (task + 1) * kRowsPerTask); ++i) {
                const Lanes row(a, i, true);
                for (long j = symmetric ? i / kLanes * kLanes : 0; j < b.K; j += kLanes)
                    comparison.run(row, i, *packs[j / kLanes], j, static_cast<int>(std::min<long>(kLanes, b.K - j)),
                                   to + i * b.K + j);
            }
        });
    });
}

}  // namespace

void bind_ppk(nb::module_& m) {
    using namespace nb::literals;
    m.def("log_ppk", &log_ppk, nb::kw_only(), "a"_a, "b"_a, "length"_a, "power"_a, "symmetric"_a, "kernel"_a, "run"_a);
}
