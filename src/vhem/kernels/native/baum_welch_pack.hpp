// The E-step of Baum-Welch on kLanes pairs of a sequence and an HMM at a time, one pair per lane of a register: every
// lane has its own HMM and its own frames, and no recursion has to wait for a sum over states.
#pragma once

#include <utility>

#include "baum_welch.hpp"

namespace {

// Of full covariances, made once per call: the rows of the triangle L⁻¹ that whitens, and -½ log|2πΣ| behind them.
struct Triangles {
    long width;
    std::vector<double> rows;

    Triangles(const Arrays& a, Call& call) : width(a.full ? static_cast<long>(a.d) * (a.d + 1) / 2 + 1 : 0) {
        const long G = a.S * a.M, d = a.d;
        rows.resize(a.K * G * width);
        std::vector<int> all(d);
        for (int j = 0; j < d; ++j) all[j] = j;
        parallel_for(call, width ? a.K : 0, [&](long k, Worker&) {
            std::vector<double> L(d * d), W(d * d);
            for (long g = k * G; g < (k + 1) * G; ++g) {
                double *to = &rows[g * width], &constant = to[width - 1];
                cholesky(a.covars + g * d * d, a.d, all, L.data());
                invert_triangle(L.data(), a.d, W.data());
                constant = -0.5 * d * kLogTwoPi;
                for (int i = 0; i < d; ++i) {
                    constant -= std::log(L[i * d + i]);
                    for (int j = 0; j <= i; ++j) *to++ = W[i * d + j];
                }
            }
        });
    }
};

// HMMs that learn from one sequence each, arrays with one row per HMM: what goes in and comes out again, and the prior.
struct Learning {
    double *startprob, *transmat, *means, *covars, *objective;
    int64_t* n_iter;
    const double *start, *trans, *scale, *floor;  // imagined counts, imagined variances, smallest variances
    const double *least, *tolerance;              // frames of a state that lives, and gain of an HMM that goes on
    double covar;                                 // imagined frames
    int max_iter;
};

// kLanes pairs side by side. Lanes beyond the number of pairs repeat the first, and count for nothing.
template <bool Full, bool Mixture, int States>
class Pack {
  public:
    Pack(const Arrays& arrays, const Triangles& triangles, const double* anchors, const Sequences& frames, Worker& worker)
        : a(arrays), triangles(triangles), anchors(anchors), frames(frames), worker(worker), layout(arrays), G(S() * a.M) {
        memory.resize(S() + S() * S() + G * (2 + 2 * a.d + (Full ? triangles.width : 3 * a.d)) + layout.size +
                      2 * a.d + 2 * S());
        vec* at = memory.data();
        auto take = [&](long n) { return std::exchange(at, at + n); };
        start = take(S()), trans = take(S() * S()), factor = take(G), used = take(G), mean = take(G * a.d);
        anchor = take(G * a.d), scale = take(G * (Full ? triangles.width : a.d)), sums = take(layout.size);
        beta = take(S()), ratio = take(S()), difference = take(a.d);
        if (!Full) constant = take(G * a.d), variance = take(G * a.d);
    }

    static long doubles_per_frame(const Arrays& a) { return kLanes * (a.d + 2L * a.S + (Mixture ? a.S * a.M : 0)); }

    // Writes log p(y) of every lane and, where `slots` is given, its weighted sums. Returns which lanes can be trusted.
    ivec run(const Pairs& pairs, long begin, int lanes, double* scores, double* const* slots) {
        load_models(pairs, begin, lanes);
        load_frames(pairs, begin, lanes);
        ivec trusted = missing && Full ? complete : ~ivec{};
        trusted &= missing ? run_forward<true>() : run_forward<false>();
        store_partial(scores, log_likelihood, lanes);
        if (!slots) return trusted;
        missing ? backward<true>() : backward<false>();
        for (long i = 0; i < S() * S(); ++i) sums[layout.trans + i] *= trans[i];
        for (int l = 0; l < lanes; ++l)
            if (trusted[l])
                for (long i = 0; i < layout.size; ++i) slots[l][i] = pairs.weight[begin + l] * sums[i][l];
        return trusted;
    }

    // EM in the lanes (one diagonal Gaussian a state) for as long as nothing happens that needs a closer look: an
    // HMM that has settled or gone down, a state that died, a mean that moved far, digits that may be lost.
    void learn(const Pairs& pairs, long begin, int lanes, const Learning& l) {
        load_models(pairs, begin, lanes);
        load_frames(pairs, begin, lanes);
        load_prior(pairs, begin, lanes, l);
        ivec going = ~ivec{};
        while (any(going &= count < l.max_iter)) {
            worker.checkpoint();
            going &= missing ? run_forward<true>() : run_forward<false>();
            const vec value = weight * log_likelihood + log_prior(l.covar), size = vmax(splat(1.0), vabs(objective));
            going &= (vabs(value - objective) >= tolerance) & (value >= objective - kRounding * size);
            if (!any(going)) break;
            missing ? backward<true>() : backward<false>();
            for (int s = 0; s < S(); ++s) going &= weight * sums[layout.occupancy + s] >= least_frames;
            going &= estimate(l.covar);
            objective = going ? value : objective;
            count -= going;
            apply(going);
        }
        keep(pairs, begin, lanes, l);
    }

  private:
    const Arrays& a;
    const Triangles& triangles;
    const double* anchors;
    const Sequences& frames;
    Worker& worker;
    const Layout layout;
    const long G;  // Gaussians of one HMM
    VecArray memory, per_frame;
    vec *start, *trans, *factor, *used, *mean, *anchor, *scale, *constant, *variance;  // the lanes' HMMs
    vec *sums, *beta, *ratio, *difference;
    VecArray learning;
    vec *prior_start, *prior_trans, *imagined, *floor, *fresh;  // of `learn`; fresh: start, trans, mean, variance
    vec weight, objective, tolerance, least_frames;
    ivec count;    // iterations made
    bool counted;  // whether anything is imagined of starts and transitions
    vec *x, *alpha, *gain, *share;  // per frame: values, forward probabilities, b_s / Σ, shares of components
    vec log_likelihood;
    long T;            // of the longest lane
    ivec length;       // of every lane
    ivec ergodic, complete;
    vec least;         // what a probability must exceed to count as lost when it is dropped
    bool missing, padded, uneven;  // values that are missing, states that only pad, lengths that differ

    static constexpr int kKept = States ? States : 1;  // numbers of a frame that fit into registers

    // Known when compiling for the commonest numbers of states: short loops then unroll.
    int S() const { return States ? States : a.S; }
    int M() const { return Mixture ? a.M : 1; }

    void load_models(const Pairs& pairs, long begin, int lanes) {
        ivec k;
        for (int l = 0; l < kLanes; ++l) {
            k[l] = pairs.model[begin + (l < lanes ? l : 0)];
            judge_transitions(l, k[l]);
        }
        place(k, a.startprob, S(), start);
        place(k, a.transmat, S() * S(), trans);
        place(k, a.mix_weights, G, used);
        place(k, a.means, G * a.d, mean);
        place(k, anchors, G * a.d, anchor);
        Full ? place(k, triangles.rows.data(), G * triangles.width, scale) : place(k, a.covars, G * a.d, variance);
        padded = false;
        for (long g = 0; g < G; ++g) {
            padded = padded || any(used[g] <= 0.0);
            factor[g] = Full ? scale[(g + 1) * triangles.width - 1] : from_variances(g);
            if (Mixture) factor[g] += vlog(used[g] > 0.0 ? used[g] : splat(1.0));
            factor[g] = used[g] > 0.0 ? factor[g] : splat(kLogZero);
        }
    }

    // -1/(2σ²) and -½ log 2πσ² of one Gaussian; returns the sum of the latter.
    vec from_variances(long g) {
        vec total = {};
        for (long i = g * a.d; i < (g + 1) * a.d; ++i) {
            scale[i] = -0.5 / variance[i];
            constant[i] = -0.5 * (kLogTwoPi + vlog(variance[i]));
            total += constant[i];
        }
        return total;
    }

    void load_prior(const Pairs& pairs, long begin, int lanes, const Learning& l) {
        const long n = S() + S() * S();
        learning.resize(2 * n + 2 * a.d + 2 * G * a.d);
        prior_start = learning.data(), prior_trans = prior_start + S(), imagined = prior_start + n;
        floor = imagined + a.d, fresh = floor + a.d;
        ivec k;
        for (int i = 0; i < kLanes; ++i) k[i] = pairs.model[begin + (i < lanes ? i : 0)];
        place(k, l.start, S(), prior_start);
        place(k, l.trans, S() * S(), prior_trans);
        counted = false;
        for (long i = 0; i < n; ++i) counted = counted || any(prior_start[i] > 0.0);
        place(k, l.scale, a.d, imagined);
        place(k, l.floor, a.d, floor);
        place(k, l.objective, 1, &objective);
        place(k, l.tolerance, 1, &tolerance);
        place(k, l.least, 1, &least_frames);
        for (int i = 0; i < kLanes; ++i) {
            weight[i] = pairs.weight[begin + (i < lanes ? i : 0)];
            count[i] = l.n_iter[k[i]];
        }
    }

    // Up to a constant: Σ ε_s log π_s + Σ ε_rs log a_rs - ½ κ Σ (log σ² + V/σ²), with -½ log σ² in `constant`.
    vec log_prior(double covar) const {
        vec total = {};
        for (long i = 0; counted && i < S() + S() * S(); ++i) {
            const vec p = i < S() ? start[i] : trans[i - S()];
            total += prior_start[i] > 0.0 ? prior_start[i] * vlog(prior_start[i] > 0.0 ? p : splat(1.0)) : vec{};
        }
        if (covar > 0)
            for (long i = 0; i < G * a.d; ++i)
                total += covar * (constant[i] + 0.5 * kLogTwoPi + imagined[i % a.d] * scale[i]);
        return total;
    }

    // The M-step, into `fresh`. Returns the lanes whose means stayed near their anchors.
    ivec estimate(double covar) {
        for (int r = 0; r <= S(); ++r) {  // the starting states, then the rows of the transition matrix
            vec total = {}, *to = fresh + r * S();
            const vec *old = r ? trans + (r - 1) * S() : start, *more = prior_start + r * S();
            for (int s = 0; s < S(); ++s) {
                to[s] = fma(weight * sums[r * S() + s], r ? old[s] : splat(1.0), more[s]);
                total += to[s];
            }
            const vec inverse = 1.0 / (total > 0.0 ? total : splat(1.0));
            for (int s = 0; s < S(); ++s) to[s] = total > 0.0 ? to[s] * inverse : old[s];
        }
        ivec near = ~ivec{};
        vec *means = fresh + S() + S() * S(), *variances = means + G * a.d;
        for (int s = 0; s < S(); ++s) {
            const vec n = weight * sums[layout.occupancy + s], all = n + covar;
            const ivec known = all > 0.0;
            const vec share = weight / (n > 0.0 ? n : splat(1.0)), per_frame = 1.0 / (known ? all : splat(1.0));
            for (long j = 0, i = s * a.d; j < a.d; ++j, ++i) {
                const vec first = sums[layout.first + i], offset = share * first;
                const vec scatter = weight * (sums[layout.second + i] - first * offset) + covar * imagined[j];
                means[i] = mean[i] + offset;
                variances[i] = vmax(known ? scatter * per_frame : variance[i], floor[j]);
                near &= offset * offset <= kFarShift * variances[i];
            }
        }
        return near;
    }

    void apply(ivec going) {
        const long n = S() * S();
        for (long i = 0; i < S(); ++i) start[i] = going ? fresh[i] : start[i];
        for (long i = 0; i < n; ++i) trans[i] = going ? fresh[S() + i] : trans[i];
        for (long i = 0; i < G * a.d; ++i) {
            mean[i] = anchor[i] = going ? fresh[S() + n + i] : mean[i];
            variance[i] = going ? fresh[S() + n + G * a.d + i] : variance[i];
        }
        for (long g = 0; g < G; ++g) factor[g] = from_variances(g);
        vec low = trans[0];
        ivec tiny = {};
        for (long i = 0; i < n; ++i) {
            low = vmin(low, trans[i]);
            tiny |= (trans[i] > 0.0) & (trans[i] < kSmallTransition);
        }
        ergodic = low >= kErgodic;
        least = tiny ? splat(-1.0) : vec{};
    }

    void keep(const Pairs& pairs, long begin, int lanes, const Learning& l) const {
        for (int i = 0; i < lanes; ++i) {
            const long k = pairs.model[begin + i];
            take_out(i, start, S(), l.startprob + k * S());
            take_out(i, trans, S() * S(), l.transmat + k * S() * S());
            take_out(i, mean, G * a.d, l.means + k * G * a.d);
            take_out(i, variance, G * a.d, l.covars + k * G * a.d);
            l.objective[k] = objective[i];
            l.n_iter[k] = count[i];
        }
    }

    static void take_out(int lane, const vec* from, long n, double* out) {
        for (long i = 0; i < n; ++i) out[i] = from[i][lane];
    }

    // Row k of `rows`, n numbers long, for every lane.
    static void place(ivec k, const double* rows, long n, vec* to) {
        ivec from = reinterpret_cast<int64_t>(rows) + k * static_cast<int64_t>(n * sizeof(double));
        for (long i = 0; i < n; ++i, from += sizeof(double)) to[i] = gather(from);
    }

    void judge_transitions(int l, long k) {
        bool all = true, tiny = false;
        for (int r = 0; r < a.n_states[k]; ++r)
            for (int s = 0; s < a.n_states[k]; ++s) {
                double p = a.transmat[(k * S() + r) * S() + s];
                all = all && p >= kErgodic;
                tiny = tiny || (p > 0 && p < kSmallTransition);
            }
        ergodic[l] = all ? -1 : 0;
        least[l] = tiny ? -1.0 : 0.0;
    }

    // A lane's last frame is repeated up to the length of the longest.
    void load_frames(const Pairs& pairs, long begin, int lanes) {
        T = 0;
        long shortest = 1L << 60;
        for (int l = 0; l < kLanes; ++l) {
            length[l] = frames.length(pairs.sequence[begin + (l < lanes ? l : 0)]);
            T = std::max(T, static_cast<long>(length[l]));
            shortest = std::min(shortest, static_cast<long>(length[l]));
        }
        uneven = shortest < T;
        per_frame.resize(T * doubles_per_frame(a) / kLanes);
        x = per_frame.data(), alpha = x + T * a.d, gain = alpha + T * S(), share = gain + T * S();
        const double* from[kLanes];
        for (int l = 0; l < kLanes; ++l) from[l] = frames.begin(pairs.sequence[begin + (l < lanes ? l : 0)]);
        const long common = shortest * a.d / kLanes * kLanes;
        for (long i = 0; i < common; i += kLanes) transpose(from, i, x + i);
        for (int l = 0; l < kLanes; ++l)
            for (long i = common; i < T * a.d; ++i)
                x[i][l] = from[l][i < length[l] * a.d ? i : (length[l] - 1) * a.d + i % a.d];
        complete = ~ivec{};
        for (long i = 0; i < T * a.d; ++i) complete &= x[i] == x[i];
        missing = false;
        for (int l = 0; l < kLanes; ++l) missing = missing || !complete[l];
    }

    template <bool Missing>
    ivec run_forward() {
        const vec peaks = densities<Missing>();
        return any(~ergodic) ? forward<false>(peaks) : forward<true>(peaks);
    }

    // Where every transition is possible (Ergodic), what falls below the smallest double is forgotten in one step, and
    // two frames may pass between one scaling and the next, for which the recursion has to wait.
    template <bool Ergodic>
    ivec forward(vec score) {
        vec dropped = {}, first_sum = {}, product = splat(1.0);
        vec held[kKept];  // the frame's probabilities stay in registers where there are few states
        const bool by_twos = Ergodic && !uneven;
        for (long t = 0; t < T; ++t) {
            vec *now = alpha + t * S(), *b = gain + t * S(), total = {}, lost = {};
            vec joints[kKept], *to = States ? joints : now;
            const vec* before = States ? held : now - S();
            for (int s = 0; s < S(); ++s) {
                vec p = t ? predicted(before, s) : start[s];
                vec joint = p * b[s];
                if (!Ergodic) {
                    ivec small = joint < kDropped;
                    lost += (small & (p > least)) ? splat(kDropped) : vec{};
                    joint = small ? vec{} : joint;
                }
                to[s] = joint;
                total = s ? total + joint : joint;
            }
            const bool as_it_is = by_twos && t % 2 && t < T - 1;
            const vec inverse = as_it_is ? splat(1.0) : reciprocal(total);
            for (int s = 0; s < S(); ++s) {
                now[s] = as_it_is ? to[s] : to[s] * inverse;
                if (States) held[s] = now[s];
                b[s] = now[s] > 0.0 ? b[s] * inverse : vec{};
            }
            if (as_it_is) continue;
            const ivec active = t < length;
            product *= active ? total : splat(1.0);
            if (any(product < kSmallProduct)) {
                score += vlog(product);
                product = splat(1.0);
            }
            if (!Ergodic) dropped = active ? (dropped + lost) * inverse : dropped;
            if (t == 0) first_sum = total;
        }
        log_likelihood = score + vlog(product);
        return ergodic ? first_sum >= kErgodic : dropped <= kMostDropped;
    }

    vec predicted(const vec* before, int s) const {
        vec p = before[0] * trans[s];
        for (int r = 1; r < S(); ++r) p = fma(before[r], trans[r * S() + s], p);
        return p;
    }

    // b_s(y_t) over the frame's largest, for all frames, and in mixtures the share of each component. Returns the sum
    // of the logs of the largest.
    template <bool Missing>
    vec densities() {
        vec total = {};
        for (long t = 0; t < T; ++t) {
            worker.checkpoint_at(t);
            const vec* frame = x + t * a.d;
            vec logs[kKept], *b = gain + t * S(), *log = States ? logs : b, peak = splat(kLeastLog);
            for (int s = 0; s < S(); ++s) {
                log[s] = Mixture ? mixed<Missing>(s, frame, share + (t * S() + s) * M()) : density<Missing>(s, frame);
                peak = vmax(peak, log[s]);
            }
            for (int s = 0; s < S(); s += kKept) {
                for (int i = 0; i < kKept; ++i) log[s + i] -= peak;
                vexp<kKept>(log + s);
            }
            for (int s = 0; States && s < S(); ++s) b[s] = log[s];
            total += t < length ? peak : vec{};
        }
        return total;
    }

    template <bool Missing>
    vec mixed(int s, const vec* frame, vec* shares) {
        vec top = splat(kLogZero), total = {};
        for (int m = 0; m < M(); ++m) {
            shares[m] = density<Missing>(s * M() + m, frame);
            top = used[s * M() + m] > 0.0 ? vmax(top, shares[m]) : top;
        }
        for (int m = 0; m < M(); ++m) {
            shares[m] = used[s * M() + m] > 0.0 ? vexp(shares[m] - top) : vec{};
            total += shares[m];
        }
        total = total > 0.0 ? total : splat(1.0);  // a state that only pads
        const vec inverse = reciprocal(total);
        for (int m = 0; m < M(); ++m) shares[m] *= inverse;
        return top + vlog(total);
    }

    template <bool Missing>
    __attribute__((always_inline)) vec density(int g, const vec* frame) {
        vec log = factor[g];
        const vec *mu = mean + g * a.d, *factors = scale + g * (Full ? triangles.width : a.d);
        for (int j = 0; j < a.d; ++j) {
            vec z = frame[j] - mu[j];
            if (Full) {
                difference[j] = z;
                z = vec{};
                for (int i = 0; i <= j; ++i) z = fma(*factors++, difference[i], z);
                log = fma(z * -0.5, z, log);
            } else if (Missing) {
                log = frame[j] == frame[j] ? fma(z * z, factors[j], log) : log - constant[g * a.d + j];
            } else {
                log = fma(z * z, factors[j], log);
            }
        }
        return padded ? (used[g] > 0.0 ? log : splat(kLogZero)) : log;
    }

    // β_t(r) = Σ_s a_rs b_s β_{t+1}(s) / Σ, for states that the forward recursion reached (of others nothing is known
    // to be small, and nothing needed: their b_s are zero). The posteriors take the place of the forward probabilities.
    template <bool Missing>
    void backward() {
        for (long i = 0; i < layout.size; ++i) sums[i] = vec{};
        vec betas[kKept], ratios[kKept], counts[kKept * kKept];
        vec *later = States ? betas : beta, *weighted = States ? ratios : ratio;
        vec* xi = States ? counts : sums + layout.trans;
        for (int s = 0; s < S(); ++s) later[s] = splat(1.0);
        for (int i = 0; i < S() * S(); ++i) xi[i] = vec{};
        for (long t = T - 1; t >= 0; --t) {
            vec* now = alpha + t * S();
            if (t < T - 1) {
                const vec* b = gain + (t + 1) * S();
                const ivec goes_on = t + 1 < length;
                for (int s = 0; s < S(); ++s) weighted[s] = goes_on ? b[s] * later[s] : vec{};
                for (int r = 0; r < S(); ++r) {
                    vec total = trans[r * S()] * weighted[0];
                    for (int s = 1; s < S(); ++s) total = fma(trans[r * S() + s], weighted[s], total);
                    for (int s = 0; s < S(); ++s) xi[r * S() + s] = fma(now[r], weighted[s], xi[r * S() + s]);
                    later[r] = goes_on ? total : splat(1.0);
                }
            }
            const ivec active = t < length;
            for (int s = 0; s < S(); ++s) now[s] = active ? now[s] * later[s] : vec{};
        }
        for (int i = 0; States && i < S() * S(); ++i) sums[layout.trans + i] = xi[i];
        for (int s = 0; s < S(); ++s) sums[s] = alpha[s];
        if constexpr (States > 0 && !Mixture && !Full && !Missing)
            add_frames();
        else
            for (long t = 0; t < T; ++t) {
                worker.checkpoint_at(t);
                for (int g = 0; g < G; ++g)
                    add<Missing>(g, alpha[t * S() + g / M()] * (Mixture ? share[t * G + g] : splat(1.0)), x + t * a.d);
            }
    }

    // All frames to the moments of all states, dimension by dimension: sums stay in registers.
    void add_frames() {
        vec occupancy[kKept] = {};
        for (long t = 0; t < T; ++t)
            for (int s = 0; s < S(); ++s) occupancy[s] += alpha[t * S() + s];
        for (int s = 0; s < S(); ++s) sums[layout.occupancy + s] = occupancy[s];
        const long d = a.d;
        for (long j = 0; j < d; ++j) {
            vec first[kKept] = {}, second[kKept] = {}, origin[kKept];
            for (int s = 0; s < S(); ++s) origin[s] = anchor[s * d + j];
            for (long t = 0; t < T; ++t)
                for (int s = 0; s < S(); ++s) {
                    const vec z = x[t * d + j] - origin[s], weighted = alpha[t * S() + s] * z;
                    first[s] += weighted;
                    second[s] = fma(weighted, z, second[s]);
                }
            for (int s = 0; s < S(); ++s) {
                sums[layout.first + s * d + j] = first[s];
                sums[layout.second + s * d + j] = second[s];
            }
        }
    }

    template <bool Missing>
    __attribute__((always_inline)) void add(int g, vec u, const vec* frame) {
        vec *first = sums + layout.first + g * a.d, *second = sums + layout.second + g * layout.covar;
        sums[layout.occupancy + g] += u;
        for (int j = 0; j < a.d; ++j) {
            vec z = frame[j] - anchor[g * a.d + j];
            if (Full) {
                difference[j] = z;
                vec weighted = u * z;
                first[j] += weighted;
                for (int i = 0; i <= j; ++i) second[j * a.d + i] = fma(weighted, difference[i], second[j * a.d + i]);
            } else if (Missing) {
                ivec seen = frame[j] == frame[j];
                z = seen ? z : mean[g * a.d + j] - anchor[g * a.d + j];
                first[j] = fma(u, z, first[j]);
                second[j] = fma(u, fma(z, z, seen ? vec{} : variance[g * a.d + j]), second[j]);
            } else {
                vec weighted = u * z;
                first[j] += weighted;
                second[j] = fma(weighted, z, second[j]);
            }
        }
    }
};

}  // namespace
