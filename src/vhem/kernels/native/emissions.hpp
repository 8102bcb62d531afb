// The emission step of MATH section 1 for a block of base states against all reduced states, for any family.
#pragma once

#include <algorithm>
#include <vector>

#include "threads.hpp"

namespace {

// E(β,ρ) for base states [first, first + n_states) into E (row stride panels.columns), and where either side has mixtures
// η(ℓ|m;β,ρ) into eta, [base Gaussian][ℓ][column], for the columns of some panels. `mix` holds the base models' weights c_βm.
template <class Family>
void emission_step(const typename Family::Panels& panels, const std::vector<long>& wanted, const typename Family::Components& base,
                   const double* mix, long M_b, long first, long n_states, double* E, double* eta, Worker& worker, VecArray& scratch) {
    const long C = panels.columns;
    scratch.resize(static_cast<size_t>(panels.scratch_size()));
    if (M_b == 1 && panels.M == 1) {
        vec out[4];
        for (long next = 0; next < n_states; next += 4) {
            worker.checkpoint();
            const long s = std::max<long>(0, std::min(next, n_states - 4));  // four at a time, some twice at the end
            const int n = static_cast<int>(std::min<long>(4, n_states));
            for (long panel : wanted) {
                panels.evaluate(base, first + s, n, 0, panel, out, scratch.data());
                for (int r = 0; r < n; ++r) store(E + (s + r) * C + panel * kLanes, out[r]);
            }
        }
        return;
    }
    for (long s = 0; s < n_states; ++s) {
        worker.checkpoint();
        for (long panel : wanted) {
            vec expected = {};
            for (long m = 0; m < M_b; ++m) {
                double* to = eta + (s * M_b + m) * panels.M * C + panel * kLanes;
                vec top = splat(kLogZero), total = {}, g;
                for (long l = 0; l < panels.M; ++l) {
                    panels.evaluate(base, (first + s) * M_b + m, 1, l, panel, &g, scratch.data());
                    store(to + l * C, g);
                    top = vmax(top, g);
                }
                for (long l = 0; l < panels.M; ++l) {
                    const vec logit = load(to + l * C), e = vexp(logit - top);
                    const vec kept = (vec)((ivec)e & (logit > 0.5 * kLogZero));  // c_ρℓ = 0: exactly nothing
                    store(to + l * C, kept);
                    total += kept;
                }
                total = vmax(total, splat(kNoDivisor));  // padding: a state without Gaussians, which nobody will read
                for (long l = 0; l < panels.M; ++l) store(to + l * C, load(to + l * C) / total);
                expected = fma(splat(mix[(first + s) * M_b + m]), top + vlog(total), expected);
            }
            store(E + s * C + panel * kLanes, expected);
        }
    }
}

// One weighted base component, as the M-step takes it: its row, and its weight for each of a cluster's components.
struct WeightedRow {
    long row;
    const double* weights;
};

}  // namespace
