// The M-step of variational Bayes in the lanes: posterior distributions of HMMs with one diagonal Gaussian per state, and the
// HMMs exp E log made of them, for which Baum-Welch's E-step serves (docs/bayesian.md; vhem/emissions has the same in NumPy).
#pragma once

#include "baum_welch_pack.hpp"

namespace {

struct GammaFunctions {
    vec log_gamma, digamma;
};

// ln Γ(x) and ψ(x) for x > 0: Γ(x) = Γ(x + 8) / (x (x + 1) … (x + 7)), and from 8 on asymptotic series are exact to the
// last digits.
inline GammaFunctions gamma_functions(vec x) {
    static const double kLogGamma[] = {1. / 156, -691. / 360360, 1. / 1188, -1. / 1680, 1. / 1260, -1. / 360, 1. / 12};
    static const double kDigamma[] = {1. / 12, -691. / 32760, 1. / 132, -1. / 240, 1. / 252, -1. / 120, 1. / 12};
    const vec u = x * (x + 7.0);  // x (x+7), (x+1) (x+6), … are u, u + 6, u + 10 and u + 12
    const vec first = u * (u + 6.0), second = (u + 10.0) * (u + 12.0);
    const vec y = x + 8.0, log_y = vlog(y), one = 1.0 / y, square = one * one;
    vec p = splat(kLogGamma[0]), q = splat(kDigamma[0]);
    for (int i = 1; i < 7; ++i) p = fma(p, square, splat(kLogGamma[i])), q = fma(q, square, splat(kDigamma[i]));
    const vec steps = (2.0 * x + 7.0) * ((2.0 * u + 6.0) / first + (2.0 * u + 22.0) / second);  // Σ 1 / (x + k)
    return {p * one + (y - 0.5) * log_y - y + 0.5 * kLogTwoPi - vlog(first) - vlog(second),
            log_y - 0.5 * one - q * square - steps};
}

// What goes in and comes out again of Dirichlet and Normal-Gamma distributions, one row per HMM.
struct VariationalLearning : Iterations {
    struct Posterior {
        double *start, *trans, *beta, *v, *m, *rate;  // (K, S), (K, S, S), (K, S) twice, (K, S, d) twice
    } posterior;
    struct Prior {
        const double *start, *trans, *beta, *v, *m, *rate;  // likewise, but of the Gaussians one for all states
    } prior;
};

// Rows of probabilities that follow Dirichlet distributions; a pseudo-count of zero means that something is impossible.
class DirichletLanes {
  public:
    static long size(long S) { return 3 * (S + S * S); }
    void load(ivec k, long n_states, const VariationalLearning& l, vec* room) {
        S = n_states, n = S + S * S;
        prior = room, alpha = room + n, fresh = alpha + n;
        gather_rows(k, l.prior.start, S, prior), gather_rows(k, l.prior.trans, S * S, prior + S);
        gather_rows(k, l.posterior.start, S, alpha), gather_rows(k, l.posterior.trans, S * S, alpha + S);
        constant = vec{};
        for (long r = 0; r <= S; ++r) constant += expect(prior + r * S, prior + r * S, fresh);
    }

    // Writes E log p = ψ(α) - ψ(Σα) of all rows, and returns their KL[q ‖ prior].
    vec expect(vec* logs) const {
        vec total = -constant;
        for (long r = 0; r <= S; ++r) total += expect(alpha + r * S, prior + r * S, logs + r * S);
        return total;
    }

    void estimate(vec weight, const vec* sums, const vec* rows) {
        for (long i = 0; i < n; ++i) fresh[i] = fma(weight * sums[i], i < S ? splat(1.0) : rows[i], prior[i]);
    }
    void apply(ivec going) {
        for (long i = 0; i < n; ++i) alpha[i] = going ? fresh[i] : alpha[i];
    }
    void keep(int lane, long k, const VariationalLearning& l) const {
        scatter_row(lane, alpha, S, l.posterior.start + k * S);
        scatter_row(lane, alpha + S, S * S, l.posterior.trans + k * S * S);
    }

  private:
    long S, n;
    vec *prior, *alpha, *fresh, constant;

    // The same of one row; its divergence still contains the prior's own ln Γ(Σα0) - Σ ln Γ(α0).
    vec expect(const vec* row, const vec* row0, vec* logs) const {
        vec all = {};
        for (long s = 0; s < S; ++s) all += row[s];
        const GammaFunctions whole = gamma_functions(all > 0.0 ? all : splat(1.0));
        vec total = whole.log_gamma;
        for (long s = 0; s < S; ++s) {
            const ivec possible = row[s] > 0.0;
            const GammaFunctions own = gamma_functions(possible ? row[s] : splat(1.0));
            logs[s] = possible ? own.digamma - whole.digamma : splat(kLogZero);
            total += possible ? (row[s] - row0[s]) * logs[s] - own.log_gamma : vec{};
        }
        return total;
    }
};

// Gaussians that follow Normal-Gamma distributions: m, β, ν and R = W⁻¹ of every dimension.
class NormalGammaLanes {
  public:
    static long size(long G, long d) { return 2 * d + G * (4 + 3 * d); }
    void load(ivec k, GaussianLanes<false>& gaussians, const VariationalLearning& l, vec* room) {
        own = &gaussians, G = own->n_gaussians(), d = own->n_dims(), n_dims = static_cast<double>(d);
        auto take = [&](long n) { return std::exchange(room, room + n); };
        m0 = take(d), rate0 = take(d), beta = take(G), v = take(G), rate = take(G * d);
        fresh_beta = take(G), fresh_v = take(G), fresh_m = take(G * d), fresh_rate = take(G * d);
        gather_rows(k, l.prior.m, d, m0), gather_rows(k, l.prior.rate, d, rate0);
        gather_rows(k, l.prior.beta, 1, &beta0), gather_rows(k, l.prior.v, 1, &v0);
        gather_rows(k, l.posterior.beta, G, beta), gather_rows(k, l.posterior.v, G, v);
        gather_rows(k, l.posterior.m, G * d, own->means()), gather_rows(k, l.posterior.rate, G * d, rate);
        vec log_det = splat(-n_dims * kLog2);
        for (long j = 0; j < d; ++j) log_det += vlog(rate0[j]);
        log_normaliser0 = 0.5 * v0 * log_det - n_dims * gamma_functions(0.5 * v0).log_gamma;
    }

    // The Gaussians N(m, R/ν); returns what of KL[q ‖ prior] belongs to Gaussian g, and in `loss` what its log-density has too
    // much, ½ [E log|Λ| - log|νW|] - ½ d/β.
    vec expect(long g, vec& loss) const {
        const GammaFunctions half = gamma_functions(0.5 * v[g]);
        const vec one = 1.0 / v[g], ratio = beta0 / beta[g];
        vec log_det = splat(-n_dims * kLog2), distance = {}, trace = {};
        for (long j = 0, i = g * d; j < d; ++j, ++i) {
            const vec W = 1.0 / rate[i], away = own->means()[i] - m0[j];
            own->variances()[i] = rate[i] * one;
            log_det += vlog(rate[i]), distance = fma(away * away, W, distance), trace = fma(rate0[j], W, trace);
        }
        loss = 0.5 * n_dims * (half.digamma + kLog2 - vlog(v[g]) - 1.0 / beta[g]);
        const vec means = n_dims * (ratio - 1.0 - vlog(ratio)) + beta0 * v[g] * distance;
        const vec normaliser = 0.5 * v[g] * log_det - n_dims * half.log_gamma;
        const vec wishart = normaliser - log_normaliser0 + 0.5 * (v[g] - v0) * (n_dims * half.digamma - log_det);
        return 0.5 * means + wishart + 0.5 * v[g] * (trace - n_dims);
    }

    // From the moments about m of n weighted frames. Returns the lanes whose means stayed near.
    ivec estimate(long g, vec weight, vec n, const std::array<vec*, 2>& sums) {
        const vec *first = sums[0] + g * d, *second = sums[1] + g * d;
        const vec per_frame = weight / (n > 0.0 ? n : splat(1.0)), all = beta0 + n, share = n / all;
        ivec near = ~ivec{};
        fresh_beta[g] = all, fresh_v[g] = v0 + n;
        for (long j = 0, i = g * d; j < d; ++j, ++i) {
            const vec offset = per_frame * first[j], away = own->means()[i] + offset - m0[j];
            fresh_m[i] = fma(share, away, m0[j]);
            fresh_rate[i] = rate0[j] + (weight * second[j] - n * offset * offset) + beta0 * share * away * away;
            near &= offset * offset * fresh_v[g] <= kFarShift * fresh_rate[i];
        }
        return near;
    }
    void apply(ivec going) {
        for (long g = 0; g < G; ++g) beta[g] = going ? fresh_beta[g] : beta[g], v[g] = going ? fresh_v[g] : v[g];
        for (long i = 0; i < G * d; ++i) {
            own->means()[i] = going ? fresh_m[i] : own->means()[i];
            rate[i] = going ? fresh_rate[i] : rate[i];
        }
    }
    void keep(int lane, long k, const VariationalLearning& l) const {
        scatter_row(lane, beta, G, l.posterior.beta + k * G), scatter_row(lane, v, G, l.posterior.v + k * G);
        scatter_row(lane, own->means(), G * d, l.posterior.m + k * G * d);
        scatter_row(lane, rate, G * d, l.posterior.rate + k * G * d);
    }

  private:
    static constexpr double kLog2 = 0.69314718055994530942;
    GaussianLanes<false>* own;
    long G, d;
    double n_dims;  // d
    vec *m0, *rate0, *beta, *v, *rate, *fresh_beta, *fresh_v, *fresh_m, *fresh_rate;
    vec beta0, v0, log_normaliser0;
};

// In the place of `PointEstimates`.
class Posteriors {
  public:
    using Learning = VariationalLearning;

    Posteriors(HMMLanes<GaussianFamily<false>>& hmms, const Learning& l, ivec k) : hmms(hmms), l(l) {
        const long for_rows = DirichletLanes::size(hmms.S), for_gaussians = NormalGammaLanes::size(hmms.G, hmms.components.n_dims());
        memory.resize(for_rows + for_gaussians + hmms.G);
        rows.load(k, hmms.S, l, memory.data());
        gaussians.load(k, hmms.components, l, memory.data() + for_rows);
        loss = memory.data() + for_rows + for_gaussians;
        expect();
    }

    vec log_prior() const { return -divergence; }

    ivec estimate(vec weight) {
        rows.estimate(weight, hmms.sums, hmms.start);
        ivec near = ~ivec{};
        for (long g = 0; g < hmms.G; ++g)
            near &= gaussians.estimate(g, weight, weight * hmms.sums[hmms.layout.occupancy + g], hmms.all_moments());
        return near;
    }

    void apply(ivec going) {
        rows.apply(going), gaussians.apply(going);
        expect();
    }

    void keep(int lane, long k) const { rows.keep(lane, k, l), gaussians.keep(lane, k, l); }

  private:
    HMMLanes<GaussianFamily<false>>& hmms;
    const Learning& l;
    DirichletLanes rows;
    NormalGammaLanes gaussians;
    VecArray memory;
    vec *loss, divergence;  // KL[q ‖ prior] of all there is

    // The lanes' HMMs become exp E log. The density of a single component has no weight, so a state's loss is put on the ways
    // into it.
    void expect() {
        const long S = hmms.S;
        divergence = rows.expect(hmms.start);
        for (long g = 0; g < S; ++g) divergence += gaussians.expect(g, loss[g]);
        for (long i = 0; i < S + S * S; ++i) {
            const vec log = hmms.start[i];
            hmms.start[i] = log > kLeastLog ? vexp(log + loss[i % S]) : vec{};
        }
        hmms.components.moved();
        hmms.changed();
    }
};

}  // namespace
