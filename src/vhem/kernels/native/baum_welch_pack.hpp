// The E-step of Baum-Welch on kLanes pairs of a sequence and an HMM at a time, one pair per lane of a register: every
// lane has its own HMM and its own frames, and no recursion has to wait for a sum over states.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "families/gaussian.hpp"

namespace {

// A pair for every lane. Lanes beyond the number of pairs repeat the first, and count for nothing.
using Chosen = std::array<long, kLanes>;

inline Chosen neighbours(long begin, int lanes) {
    Chosen chosen;
    for (int l = 0; l < kLanes; ++l) chosen[l] = begin + (l < lanes ? l : 0);
    return chosen;
}

// HMMs side by side, and all pairs of each, which are neighbours.
struct Household {
    Chosen first;
    std::array<long, kLanes> n;
    int lanes;

    long most() const { return *std::max_element(n.begin(), n.begin() + lanes); }
    bool has(int lane, long q) const { return q < n[lane]; }
    Chosen member(long q) const {  // the q-th pair of each; its first, of those that have fewer
        Chosen chosen = first;
        for (int l = 0; l < kLanes; ++l) chosen[l] += has(l, q) ? q : 0;
        return chosen;
    }
};

// States begin … end - 1.
struct Range {
    int begin, end;
};

// The HMMs of kLanes pairs, and the sums that an E-step makes for them.
template <class Family>
struct HMMLanes {
    const Models<Family>& a;
    const int S, M;
    const Layout<Family> layout;
    const long G;  // components of one HMM
    typename Family::Lanes components;
    vec *start, *trans, *factor, *used;  // trans behind start
    vec *sums, *beta, *ratio;            // the last two for recursions
    ivec ergodic;
    vec least;    // what a probability must exceed to count as lost when it is dropped
    bool padded;  // whether there are states that only pad
    std::vector<Range> into, out_of;  // of every state: the states before and after it, in any lane

    HMMLanes(const Models<Family>& models, const typename Family::Prepared& prepared, const typename Family::Anchors& anchors)
        : a(models), S(static_cast<int>(a.S)), M(static_cast<int>(a.M)), layout(models), G(S * M),
          components(models.components, prepared, anchors, G) {
        memory.resize(S + S * S + 2 * G + components.size() + layout.size + 2 * S);
        vec* at = memory.data();
        auto take = [&](long n) { return std::exchange(at, at + n); };
        start = take(S), trans = take(S * S), factor = take(G), used = take(G), sums = take(layout.size);
        beta = take(S), ratio = take(S);
        into.resize(S), out_of.resize(S);
        components.place(at);
    }

    // Takes the HMMs k, one per lane.
    void load(ivec k) {
        for (int l = 0; l < kLanes; ++l) judge_transitions(l, k[l]);
        gather_rows(k, a.startprob, S, start);
        gather_rows(k, a.transmat, S * S, trans);
        gather_rows(k, a.mix_weights, G, used);
        components.load(k);
        padded = false;
        for (long g = 0; g < G; ++g) {
            padded = padded || any(used[g] <= 0.0);
            factor[g] = components.log_factor(g);
            if (M > 1) factor[g] += vlog(used[g] > 0.0 ? used[g] : splat(1.0));
            factor[g] = used[g] > 0.0 ? factor[g] : splat(kLogZero);
        }
        find_neighbours();
    }

    // To be called after parameters were changed (one component per state).
    void changed() {
        for (long g = 0; g < G; ++g) factor[g] = components.log_factor(g);
        vec low = trans[0];
        ivec tiny = {};
        for (long i = 0; i < S * S; ++i) {
            low = vmin(low, trans[i]);
            tiny |= (trans[i] > 0.0) & (trans[i] < kSmallTransition);
        }
        ergodic = low >= kErgodic;
        least = tiny ? splat(-1.0) : vec{};
        find_neighbours();
    }

    std::array<vec*, Family::kMoments> all_moments() {
        std::array<vec*, Family::kMoments> all;
        for (int m = 0; m < Family::kMoments; ++m) all[m] = sums + layout.moments[m];
        return all;
    }

  private:
    VecArray memory;

    // In left-right models these are few.
    __attribute__((noinline)) void find_neighbours() {
        for (int s = 0; s < S; ++s) {
            into[s] = narrowed([&](int r) { return any(trans[r * S + s] > 0.0); });
            out_of[s] = narrowed([&](int r) { return any(trans[s * S + r] > 0.0); });
        }
    }

    template <class Leads>
    Range narrowed(Leads leads) const {
        Range all{0, S};
        while (all.begin < all.end - 1 && !leads(all.begin)) ++all.begin;
        while (all.begin < all.end - 1 && !leads(all.end - 1)) --all.end;
        return all;
    }

    void judge_transitions(int l, long k) {
        bool all = true, tiny = false;
        for (int r = 0; r < a.n_states[k]; ++r)
            for (int s = 0; s < a.n_states[k]; ++s) {
                double p = a.transmat[(k * S + r) * S + s];
                all = all && p >= kErgodic;
                tiny = tiny || (p > 0 && p < kSmallTransition);
            }
        ergodic[l] = all ? -1 : 0;
        least[l] = tiny ? -1.0 : 0.0;
    }
};

// kLanes pairs side by side. What is here is compiled once per family; the recursions over frames, below, for the commonest
// numbers of states as well.
template <class Family>
class Pack : protected HMMLanes<Family> {
    using Base = HMMLanes<Family>;

  public:
    using Base::a, Base::S, Base::M, Base::layout, Base::G, Base::components, Base::trans, Base::sums;

    Pack(const Models<Family>& models, const typename Family::Prepared& prepared, const typename Family::Anchors& anchors,
         const Sequences& frames, Worker& worker)
        : Base(models, prepared, anchors), d(models.components.d), frames(frames), worker(worker) {}

    virtual ~Pack() = default;

    static long doubles_per_frame(const Models<Family>& m) {
        return kLanes * (m.components.d + 2 * m.S + (m.M > 1 ? m.S * m.M : 0));
    }

    // Writes log p(y) of every lane and, where `slots` is given, its weighted sums. Returns which lanes can be trusted.
    ivec run(const Pairs& pairs, long begin, int lanes, double* scores, double* const* slots) {
        const Chosen chosen = neighbours(begin, lanes);
        this->load(models_of_pairs(pairs, chosen));
        load_frames(pairs, chosen);
        const ivec trusted = components.trusted(complete) & run_forward();
        store_partial(scores, log_likelihood, lanes);
        if (!slots) return trusted;
        backward();
        for (long i = 0; i < S * S; ++i) sums[layout.trans + i] *= trans[i];
        for (int l = 0; l < lanes; ++l)
            if (trusted[l])
                for (long i = 0; i < layout.size; ++i) slots[l][i] = pairs.weight[begin + l] * sums[i][l];
        return trusted;
    }

    // EM in the lanes (one component per state) for as long as nothing happens that needs a closer look: an
    // HMM that has converged or gone down, a state that died, a mean that moved far, digits that may be lost. What becomes
    // of the sums is the business of `Estimates` (learning.hpp, variational_lanes.hpp).
    template <class Estimates>
    void learn(const Pairs& pairs, const Household& house, const typename Estimates::Learning& l) {
        const ivec k = models_of_pairs(pairs, house.first);
        this->load(k);
        load_frames(pairs, house.first);
        load_limits(pairs, house.first, k, l);
        Estimates estimates(*this, l, k);
        const long most = house.most();
        ivec going = ~ivec{};
        while (any(going &= count < l.max_iter)) {
            worker.checkpoint();
            vec value = estimates.log_prior();
            for (long q = 0; q < most && any(going); ++q) {
                if (most > 1) load_member(pairs, house, q);
                going &= run_forward() | (weight == 0.0);
                value += weight * log_likelihood;
                if (q == most - 1) going &= rises(value);
                if (!any(going)) break;
                backward();
                if (most > 1) add_member(q == 0, q == most - 1);
            }
            if (!any(going)) break;
            for (int s = 0; s < S; ++s) going &= weight * sums[layout.occupancy + s] >= least_frames;
            going &= estimates.estimate(weight);
            objective = going ? value : objective;
            count -= going;
            estimates.apply(going);
        }
        for (int i = 0; i < house.lanes; ++i) {
            estimates.keep(i, k[i]);
            l.objective[k[i]] = objective[i];
            l.n_iter[k[i]] = count[i];
        }
    }

  protected:
    const long d;
    const Sequences& frames;
    Worker& worker;
    VecArray per_frame, added;
    vec weight, objective, tolerance, least_frames;  // of `learn`
    ivec count;                                      // iterations made
    vec *x, *alpha, *gain, *share;  // per frame: values, forward probabilities, b_s / Σ, shares of components
    vec log_likelihood;
    ivec held = ~ivec{};  // the sequences whose frames are here
    long T;               // of the longest lane
    ivec length;          // of every lane
    ivec complete;
    bool missing, uneven;  // values that are missing, lengths that differ

    // Frame by frame forward, and back: log p(y) and sums. Forward returns which lanes can be trusted.
    virtual ivec run_forward() = 0;
    virtual void backward() = 0;

  private:
    static ivec models_of_pairs(const Pairs& pairs, const Chosen& chosen) {
        ivec k;
        for (int l = 0; l < kLanes; ++l) k[l] = pairs.model[chosen[l]];
        return k;
    }

    void load_limits(const Pairs& pairs, const Chosen& chosen, ivec k, const Iterations& l) {
        gather_rows(k, l.objective, 1, &objective);
        gather_rows(k, l.tolerance, 1, &tolerance);
        gather_rows(k, l.least, 1, &least_frames);
        for (int i = 0; i < kLanes; ++i) {
            weight[i] = pairs.weight[chosen[i]];
            count[i] = l.n_iter[k[i]];
        }
    }

    // The q-th sequence of every HMM; of weight zero where there are fewer.
    void load_member(const Pairs& pairs, const Household& house, long q) {
        const Chosen chosen = house.member(q);
        load_frames(pairs, chosen);
        for (int i = 0; i < kLanes; ++i) weight[i] = house.has(i, q) ? pairs.weight[chosen[i]] : 0.0;
    }

    // Adds up weighted sums over the sequences, which after the last one take the place of its own.
    void add_member(bool first, bool last) {
        added.resize(layout.size);
        vec* to = added.data();
        for (long i = 0; i < layout.size; ++i) to[i] = first ? weight * sums[i] : fma(weight, sums[i], to[i]);
        if (!last) return;
        std::copy_n(to, layout.size, sums);
        weight = splat(1.0);
    }

    // Which HMMs have neither converged nor gone down.
    ivec rises(vec value) const {
        const vec size = vmax(splat(1.0), vabs(objective));
        return (vabs(value - objective) >= tolerance) & (value >= objective - kRounding * size);
    }

    // A lane's last frame is repeated up to the length of the longest. Sequences that are there already stay.
    __attribute__((noinline)) void load_frames(const Pairs& pairs, const Chosen& chosen) {
        ivec wanted;
        for (int l = 0; l < kLanes; ++l) wanted[l] = pairs.sequence[chosen[l]];
        if (!any(wanted != held)) return;
        held = wanted;
        T = 0;
        long shortest = 1L << 60;
        for (int l = 0; l < kLanes; ++l) {
            length[l] = frames.length(pairs.sequence[chosen[l]]);
            T = std::max(T, static_cast<long>(length[l]));
            shortest = std::min(shortest, static_cast<long>(length[l]));
        }
        uneven = shortest < T;
        per_frame.resize(T * doubles_per_frame(a) / kLanes);
        x = per_frame.data(), alpha = x + T * d, gain = alpha + T * S, share = gain + T * S;
        const double* from[kLanes];
        for (int l = 0; l < kLanes; ++l) from[l] = frames.begin(pairs.sequence[chosen[l]]);
        const long common = shortest * d / kLanes * kLanes;
        for (long i = 0; i < common; i += kLanes) transpose(from, i, x + i);
        for (int l = 0; l < kLanes; ++l)
            for (long i = common; i < T * d; ++i)
                x[i][l] = from[l][i < length[l] * d ? i : (length[l] - 1) * d + i % d];
        complete = ~ivec{};
        for (long i = 0; i < T * d; ++i) complete &= x[i] == x[i];
        missing = false;
        for (int l = 0; l < kLanes; ++l) missing = missing || !complete[l];
    }
};

// The same with loops over states that unroll, for a number of states known when compiling (0: any).
template <class Family, bool Mixture, int States>
class PackOfSize final : public Pack<Family> {
    using Base = Pack<Family>;
    using Base::a, Base::d, Base::worker, Base::layout, Base::G, Base::components, Base::all_moments;
    using Base::start, Base::trans, Base::factor, Base::used, Base::sums, Base::beta, Base::ratio;
    using Base::x, Base::alpha, Base::gain, Base::share, Base::T, Base::length, Base::log_likelihood;
    using Base::ergodic, Base::least, Base::missing, Base::padded, Base::uneven, Base::into, Base::out_of;

  public:
    using Base::Base;

  private:
    static constexpr int kKept = States ? States : 1;  // numbers of a frame that fit into registers

    int S() const { return States ? States : static_cast<int>(a.S); }
    int M() const { return Mixture ? static_cast<int>(a.M) : 1; }

    static constexpr bool kMayHaveChances = Family::kMayHaveChances && !Mixture;

    // Frames in which every state's density may be too small, by lane. Where nothing but probabilities of a table is
    // multiplied, that is without looking for the largest first, nothing is taken from it and given back.
    ivec doubtful;

    ivec run_forward() override {
        doubtful = ivec{};
        const vec peaks = is_direct() ? vec{} : by_gaps([&](auto missing) { return densities<decltype(missing)::value>(); });
        if (any(~ergodic)) return forward<false, false>(peaks) & ~doubtful;
        return by_lengths([&](auto even) { return forward<true, decltype(even)::value>(peaks); }) & ~doubtful;
    }

    // Calls work(true_type) for sequences of one length, whose frames need not be asked if they are still within it.
    template <class Work>
    auto by_lengths(Work work) {
        if constexpr (States > 0)
            if (!uneven) return work(std::true_type());
        return work(std::false_type());
    }

    bool is_direct() const {
        if constexpr (kMayHaveChances) return components.is_direct() && !padded;
        return false;
    }

    // The tables that probabilities are read from and counted in; of no use unless `is_direct`.
    auto chances() const {
        if constexpr (kMayHaveChances) return components.chances_table();
        else return nullptr;
    }
    auto counts() {
        if constexpr (kMayHaveChances) return components.counts_table(0, 0, all_moments());
        else return nullptr;
    }

    // Calls work(true_type) for frames that may have gaps, where the family computes them differently.
    template <class Work>
    auto by_gaps(Work work) {
        if constexpr (Family::kGaps == Gaps::kAlike) {
            return work(std::true_type());
        } else {
            if constexpr (Family::kGaps == Gaps::kBeside)
                if (missing) return work(std::true_type());
            return work(std::false_type());
        }
    }

    // Where every transition is possible (Ergodic), what falls below the smallest double is forgotten in one step, and
    // two frames may pass between one scaling and the next, for which the recursion has to wait.
    template <bool Ergodic, bool Even>
    ivec forward(vec score) {
        vec dropped = {}, first_sum = {}, product = splat(1.0);
        vec held[kKept];  // the frame's probabilities stay in registers where there are few states
        const bool by_twos = Ergodic && (Even || !uneven), direct = is_direct();
        const auto table = chances();
        for (long t = 0; t < T; ++t) {
            vec *now = alpha + t * S(), *b = gain + t * S(), total = {}, lost = {};
            vec joints[kKept], *to = States ? joints : now;
            const vec* before = States ? held : now - S();
            if constexpr (kMayHaveChances)  // here rather than before: it takes no time while the recursion waits
                if (direct) doubtful |= table.read(x + t * d, S(), b) < kLeastBest;
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
            const ivec active = Even ? ~ivec{} : t < length;
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
        const auto [begin, end] = States ? Range{0, States} : into[s];
        vec p = before[begin] * trans[begin * S() + s];
        for (int r = begin + 1; r < end; ++r) p = fma(before[r], trans[r * S() + s], p);
        return p;
    }

    // b_s(y_t) over the frame's largest, for all frames, and in mixtures the share of each component. Returns the sum
    // of the logs of the largest.
    template <bool Missing>
    vec densities() {
        vec total = {};
        for (long t = 0; t < T; ++t) {
            worker.checkpoint_at(t);
            const vec* frame = x + t * d;
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
            if constexpr (kMayHaveChances)
                if (components.has_chances()) multiply(frame, b);
            total += t < length ? peak : vec{};
        }
        return total;
    }

    void multiply(const vec* frame, vec* b) {
        vec factors[kKept], top = {}, *by = States ? factors : ratio;
        chances().read(frame, S(), by);
        for (int s = 0; s < S(); ++s) top = vmax(top, b[s] *= by[s]);
        doubtful |= top < kLeastBest;
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
        const vec log = components.template density<Missing>(g, frame, factor[g]);
        return padded ? (used[g] > 0.0 ? log : splat(kLogZero)) : log;
    }

    // β_t(r) = Σ_s a_rs b_s β_{t+1}(s) / Σ, for states that the forward recursion reached (of others nothing is known
    // to be small, and nothing needed: their b_s are zero). The posteriors take the place of the forward probabilities.
    void backward() override {
        by_lengths([&](auto even) { return back<decltype(even)::value>(); });
        for (int s = 0; s < S(); ++s) sums[s] = alpha[s];
        by_gaps([&](auto missing) { add_all<decltype(missing)::value>(); });
    }

    template <bool Even>
    void back() {
        for (long i = 0; i < layout.size; ++i) sums[i] = vec{};
        vec betas[kKept], ratios[kKept], moves[kKept * kKept];
        vec *later = States ? betas : beta, *weighted = States ? ratios : ratio;
        vec* xi = States ? moves : sums + layout.trans;
        const auto table = counts();
        for (int s = 0; s < S(); ++s) later[s] = splat(1.0);
        for (int i = 0; i < S() * S(); ++i) xi[i] = vec{};
        const bool direct = is_direct();
        for (long t = T - 1; t >= 0; --t) {
            vec* now = alpha + t * S();
            if (t < T - 1) {
                const vec* b = gain + (t + 1) * S();
                const ivec goes_on = Even ? ~ivec{} : t + 1 < length;
                for (int s = 0; s < S(); ++s) weighted[s] = goes_on ? b[s] * later[s] : vec{};
                for (int r = 0; r < S(); ++r) {
                    const auto [begin, end] = States ? Range{0, States} : out_of[r];
                    vec total = trans[r * S() + begin] * weighted[begin];
                    for (int s = begin + 1; s < end; ++s) total = fma(trans[r * S() + s], weighted[s], total);
                    for (int s = begin; s < end; ++s) xi[r * S() + s] = fma(now[r], weighted[s], xi[r * S() + s]);
                    later[r] = goes_on ? total : splat(1.0);
                }
            }
            const ivec active = Even ? ~ivec{} : t < length;
            for (int s = 0; s < S(); ++s) now[s] = active ? now[s] * later[s] : vec{};
            if constexpr (kMayHaveChances)  // as in `forward`
                if (direct) table.add(x + t * d, S(), now);
        }
        for (int i = 0; States && i < S() * S(); ++i) sums[layout.trans + i] = xi[i];
    }

    template <bool Missing>
    void add_all() {
        if (is_direct()) return add_occupancy();
        if constexpr (States > 0 && !Mixture && (!Missing || Family::kGaps == Gaps::kAlike))
            if (!missing && components.adds_frames()) return add_frames();
        for (long t = 0; t < T; ++t) {
            worker.checkpoint_at(t);
            for (int g = 0; g < G; ++g)
                add<Missing>(g, alpha[t * S() + g / M()] * (Mixture ? share[t * G + g] : splat(1.0)), x + t * d);
        }
    }

    void add_occupancy() {
        vec totals[kKept] = {}, *total = States ? totals : sums + layout.occupancy;
        for (long t = 0; t < T; ++t)
            for (int s = 0; s < S(); ++s) total[s] += alpha[t * S() + s];
        for (int s = 0; States && s < S(); ++s) sums[layout.occupancy + s] = total[s];
    }

    // All frames to the sums of all states at once.
    void add_frames() {
        add_occupancy();
        if constexpr (!Family::kFullMoments) components.template add_frames<kKept>(T, x, d, alpha, all_moments());
    }

    template <bool Missing>
    __attribute__((always_inline)) void add(int g, vec u, const vec* frame) {
        sums[layout.occupancy + g] += u;
        components.template add<Missing>(g, u, frame, all_moments());
    }
};

}  // namespace
