// The M-step of Baum-Welch in the lanes: point estimates of HMMs with one component per state, under a prior.
#pragma once

#include "baum_welch_pack.hpp"

namespace {

template <class Family>
class PointEstimates {
  public:
    using Learning = typename Family::Learning;

    PointEstimates(HMMLanes<Family>& hmms, const Learning& l, ivec k)
        : hmms(hmms), l(l), S(hmms.S), n(S + S * S), counted(false) {
        memory.resize(2 * n + hmms.components.learning_size());
        prior = memory.data(), fresh = prior + n;
        gather_rows(k, l.start, S, prior);
        gather_rows(k, l.trans, S * S, prior + S);
        hmms.components.load_prior(k, l, fresh + n);
        for (long i = 0; i < n; ++i) counted = counted || any(prior[i] > 0.0);
    }

    // Up to a constant: Σ ε_s log π_s + Σ ε_rs log a_rs, and the components' share.
    vec log_prior() const {
        vec total = {};
        for (long i = 0; counted && i < n; ++i)
            total += prior[i] > 0.0 ? prior[i] * vlog(prior[i] > 0.0 ? hmms.start[i] : splat(1.0)) : vec{};
        return total + hmms.components.log_prior(l);
    }

    // From sums without their weight. Returns the lanes whose means stayed near their anchors.
    ivec estimate(vec weight) {
        for (int r = 0; r <= S; ++r) {  // the starting states, then the rows of the transition matrix
            vec total = {}, *to = fresh + r * S;
            const vec *old = hmms.start + r * S, *more = prior + r * S;
            for (int s = 0; s < S; ++s) {
                to[s] = fma(weight * hmms.sums[r * S + s], r ? old[s] : splat(1.0), more[s]);
                total += to[s];
            }
            const vec by = total > 0.0 ? total : splat(1.0);  // divided by: a state that is never left stays at exactly 1
            for (int s = 0; s < S; ++s) to[s] = total > 0.0 ? to[s] / by : old[s];
        }
        ivec near = ~ivec{};
        for (long g = 0; g < hmms.G; ++g)
            near &= hmms.components.estimate(g, weight, weight * hmms.sums[hmms.layout.occupancy + g], hmms.all_moments(), l);
        return near;
    }

    void apply(ivec going) {
        for (long i = 0; i < n; ++i) hmms.start[i] = going ? fresh[i] : hmms.start[i];
        hmms.components.apply(going);
        hmms.changed();
    }

    void keep(int lane, long k) const {
        scatter_row(lane, hmms.start, S, l.startprob + k * S);
        scatter_row(lane, hmms.trans, S * S, l.transmat + k * S * S);
        hmms.components.keep(lane, k, l);
    }

  private:
    HMMLanes<Family>& hmms;
    const Learning& l;
    const long S, n;  // starts and transitions
    bool counted;     // whether there are pseudo-counts of these
    VecArray memory;
    vec *prior, *fresh;
};

}  // namespace
