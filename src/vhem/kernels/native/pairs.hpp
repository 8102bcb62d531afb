// The recursions of MATH section 1 for one pack: kLanes pairs (base HMM i, reduced HMM j), one pair per lane.
//
// Two forms of the same equations. The fast one exponentiates once per (γ,σ,t) and multiplies by the transition matrix;
// it is exact unless a product falls below kLeastProduct, and then gives up. The careful one (careful_pairs.hpp) keeps
// everything in logs, one exponential per non-zero transition, and takes the packs that the fast one gave up: left-right
// models, mostly.
#pragma once

#include <type_traits>

#include "tape.hpp"

namespace {

constexpr double kRoundingOfLogs = 4e-16;  // of Y relative to its size: far behind, Y changes by this much for ever

// One pack's inputs, working memory and results. Base states β,γ < B, reduced states ρ,σ < R; matrices are row-major.
// Lanes with fewer states than B or R carry copies of their state 0 that nothing leads to (see Block::load).
struct Pack {
    int B = 0, R = 0;
    vec *pi_b, *A_b, *pi_r, *A_r, *E;            // inputs
    vec *Y, *T, *m, *g, *q, *nu, *r;             // working memory
    vec J, lowest;                               // results of backward(); fast form: valid where lowest >= kLeastProduct
    vec *nu1, *N, *xi;                           // results of forward(): ν̂₁(σ), ν̂(β,ρ), ξ̂(ρ,σ) for one virtual sequence;
    int n_sums = 0;                              // N and xi are one array of so many registers
    int steps = 0;                               // backward steps that were made
    int stretch = 0;                             // steps replaced by the stationary stretch
    Tape tape;                                   // W and Q (in logs: Y and T) of every step
    VecArray scratch;                            // of stationary_share() and forward_stretch()
    std::vector<int> first, beyond;              // of the base states that may follow β: all, unless somebody looked closer

    // With several pieces per base state, ν̂ has a row for each of them.
    void reserve(int b, int r, int pieces = 1) {
        B = b;
        R = r;
        const int bb = b * b, rr = r * r, br = b * r;
        n_sums = pieces * br + rr;
        first.assign(b, 0), beyond.assign(b, b);
        memory_.resize(static_cast<size_t>(4 * b + 2 * r + bb + rr + 5 * br + n_sums));
        vec* p = memory_.data();
        auto take = [&](vec*& field, int n) { field = p, p += n; };
        take(pi_b, b), take(A_b, bb), take(pi_r, r), take(A_r, rr), take(E, br);
        take(Y, br), take(T, br), take(m, b), take(g, b), take(q, b), take(nu, br), take(this->r, br);
        take(nu1, r), take(N, pieces * br), take(xi, rr);
    }

   private:
    VecArray memory_;
};

// y[0..n) = init + Σ_k x[k] M[k*stride + ·]: the inner product all recursions are made of. N > 0 fixes n for the compiler,
// which then keeps the n sums in registers.
template <int N, class Init, class Out>
inline void combine(int n, int count, const vec* x, int x_stride, const vec* M, int stride, Init init, Out out) {
    if constexpr (N > 0) {
        vec sum[N];
        for (int c = 0; c < N; ++c) sum[c] = init(c);
        for (int k = 0; k < count; ++k) {
            const vec factor = x[k * x_stride];
            for (int c = 0; c < N; ++c) sum[c] = fma(factor, M[k * stride + c], sum[c]);
        }
        for (int c = 0; c < N; ++c) out(c, sum[c]);
    } else {
        for (int c = 0; c + 4 <= n; c += 4)
            combine<4>(4, count, x, x_stride, M + c, stride, [&](int e) { return init(c + e); },
                       [&](int e, vec v) { out(c + e, v); });
        for (int c = n & ~3; c < n; ++c)
            combine<1>(1, count, x, x_stride, M + c, stride, [&](int) { return init(c); },
                       [&](int, vec v) { out(c, v); });
    }
}

// Splits rows of E + Λ into m(β) + Y(β,ρ) with max_ρ Y = 0, so that Y keeps its digits however long the sequence.
inline vec split_row(const vec* row, int R, vec* Y) {
    vec top = row[0];
    for (int c = 1; c < R; ++c) top = vmax(top, row[c]);
    for (int c = 0; c < R; ++c) Y[c] = row[c] - top;
    return top;
}

// One step of Y and m from T(γ,ρ) = logsumexp_σ(…) - m(γ): Y_new, m_new = split( E + A_b (T + m) ). Leaves the increment
// of m in g, and returns max |ΔY|, less what rounding may be of it, if somebody watches. `row` is room for R registers.
template <int RT, bool kWatched>
inline vec advance(Pack& p, vec* row, vec* next_m) {
    const int B = p.B, R = RT ? RT : p.R;
    vec change = {};
    for (int b = 0; b < B; ++b) {
        const int from = p.first[b], to = p.beyond[b];
        combine<RT>(R, to - from, p.A_b + b * B + from, 1, p.T + from * R, R, [&](int c) { return p.E[b * R + c]; },
                    [&](int c, vec v) { row[c] = v; });
        vec top = row[0], carried = {};
        for (int c = 1; c < R; ++c) top = vmax(top, row[c]);
        for (int k = from; k < to; ++k) carried = fma(p.A_b[b * B + k], p.m[k], carried);
        for (int c = 0; c < R; ++c) {
            const vec y = row[c] - top;
            if (kWatched) change = vmax(change, fma(splat(kRoundingOfLogs), y, vabs(y - p.Y[b * R + c])));  // y ≤ 0
            p.Y[b * R + c] = y;
        }
        p.g[b] = top;
        next_m[b] = carried + top;
    }
    for (int b = 0; b < B; ++b) p.m[b] = next_m[b];
    return change;
}

// W = exp Y and Q = A_r W for every base state; T = log Q.
template <int RT>
inline void weigh(Pack& p, vec* W, vec* Q) {
    const int B = p.B, R = RT ? RT : p.R;
    vec lowest = p.lowest;
    for (int e = 0; e < B * R; ++e) W[e] = vexp(p.Y[e]);
    for (int b = 0; b < B; ++b)
        for (int c = 0; c < R; ++c) {
            vec sum = p.A_r[c * R] * W[b * R];
            for (int s = 1; s < R; ++s) sum = fma(p.A_r[c * R + s], W[b * R + s], sum);
            Q[b * R + c] = sum;
            lowest = vmin(sum, lowest);
        }
    for (int e = 0; e < B * R; ++e) p.T[e] = vlog(Q[e]);
    p.lowest = lowest;
}

// Whether an iterate has stopped moving: its last change, or what is still to come by the ratio of the last two changes
// (four steps apart), is down at rounding. The shortcut for long sequences rests on it.
inline bool settled(vec change, vec earlier, double rounding) {
    for (int l = 0; l < kLanes; ++l) {
        if (change[l] <= rounding) continue;
        const double ratio = std::sqrt(std::sqrt(change[l] / earlier[l]));  // per step
        if (!(change[l] <= 8 * rounding && change[l] * ratio <= 25 * rounding * (1 - ratio))) return false;
    }
    return true;
}

// J's share of K steps that are not made because Y stands still: p_K·m + P_K·g, where p_K = π_b A_b^K and
// P_K = Σ_{k<K} π_b A_b^k come from the powers A_b^(2^b).
inline vec stationary_share(Pack& p, int K) {
    const int B = p.B, BB = B * B;
    p.scratch.resize(static_cast<size_t>(4 * BB + 3 * B));
    vec *power = p.scratch.data(), *sums = power + BB, *new_power = sums + BB, *new_sums = new_power + BB;
    vec *now = new_sums + BB, *total = now + B, *next = total + B;
    for (int e = 0; e < BB; ++e) power[e] = p.A_b[e], sums[e] = splat(e % (B + 1) == 0 ? 1.0 : 0.0);
    for (int b = 0; b < B; ++b) now[b] = p.pi_b[b], total[b] = vec{};
    for (; K; K >>= 1) {
        if (K & 1) {
            combine<0>(B, B, now, 1, sums, B, [&](int c) { return total[c]; }, [&](int c, vec v) { total[c] = v; });
            combine<0>(B, B, now, 1, power, B, [](int) { return vec{}; }, [&](int c, vec v) { next[c] = v; });
            std::swap(now, next);
        }
        if (K == 1) break;
        for (int b = 0; b < B; ++b) {
            combine<0>(B, B, power + b * B, 1, sums, B, [&](int c) { return sums[b * B + c]; },
                       [&](int c, vec v) { new_sums[b * B + c] = v; });
            combine<0>(B, B, power + b * B, 1, power, B, [](int) { return vec{}; },
                       [&](int c, vec v) { new_power[b * B + c] = v; });
        }
        std::swap(power, new_power);
        std::swap(sums, new_sums);
    }
    vec share = {};
    for (int b = 0; b < B; ++b) share = fma(now[b], p.m[b], fma(total[b], p.g[b], share));
    return share;
}

inline bool lost(const Pack& p) { return !(smallest(p.lowest) >= kLeastProduct); }

// The steps of a backward pass from the Y and m given, until they are all made, Y stands still, or numbers have become too small:
// then it returns false. weigh(step) finds T from Y and leaves on the tape what the forward pass needs.
template <int RT, class Weigh>
bool steps_back(Pack& p, int tau, bool early_stop, Worker& worker, Weigh weigh) {
    p.lowest = splat(1.0);
    p.stretch = 0;
    vec earlier = splat(1e300);
    int k = 0;
    for (;;) {
        const bool more = k < tau - 1 && !p.stretch;  // else it is the turn of time 1, and of every step of the stretch
        worker.checkpoint_at(k);
        weigh(more ? p.tape.record(k, p.Y) : p.tape.last());
        if (!more) break;
        const bool look = ++k % kLookEvery == 0;
        if (look && lost(p)) return false;
        if (!early_stop || !look || tau - 1 - k < kLeastStretch) {
            advance<RT, false>(p, p.r, p.q);
            continue;
        }
        const vec change = advance<RT, true>(p, p.r, p.q);
        if (settled(change, earlier, kStationaryLogs)) p.stretch = tau - 1 - k;
        earlier = change;
    }
    p.steps = k;
    p.J = p.stretch ? stationary_share(p, p.stretch) : vec{};
    return true;
}

// Backward pass, fast form. Leaves J, and in `lowest` the smallest number that a logarithm was taken of; ends early if that
// is too small in any lane.
template <int RT>
void backward_fast(Pack& p, int tau, bool early_stop, Worker& worker) {
    const int B = p.B, R = RT ? RT : p.R;
    p.tape.begin(B * R, B * R, tau - 1);
    for (int b = 0; b < B; ++b) p.m[b] = split_row(p.E + b * R, R, p.Y + b * R);
    if (!steps_back<RT>(p, tau, early_stop, worker, [&](Tape::Step step) { weigh<RT>(p, step.first, step.second); })) return;
    const vec* W = p.tape.last().first;
    for (int b = 0; b < B; ++b) {
        vec sum = {};
        for (int c = 0; c < R; ++c) sum = fma(p.pi_r[c], W[b * R + c], sum);
        p.q[b] = sum;
        p.lowest = vmin(sum, p.lowest);
        p.J = fma(p.pi_b[b], p.stretch ? vlog(sum) : vlog(sum) + p.m[b], p.J);
    }
}

// ν one time step on: r = (A_bᵀ ν)/Q, ν' = W ∘ (A_rᵀ r); ν and the products for ξ̂ are added to `sums` (A_r is multiplied in
// at the end). Returns max |Δν| if somebody watches.
template <int RT, bool kWatched>
inline vec forward_step(Pack& p, const vec* W, const vec* Q, vec* sums) {
    const int B = p.B, R = RT ? RT : p.R;
    vec* xi = sums + B * R;
    for (int b = 0; b < B; ++b)
        combine<RT>(R, B, p.A_b + b, B, p.nu, R, [](int) { return vec{}; },
                    [&](int c, vec v) { p.r[b * R + c] = v * reciprocal(Q[b * R + c]); });
    vec change = {};
    for (int b = 0; b < B; ++b)
        combine<RT>(R, R, p.r + b * R, 1, p.A_r, R, [](int) { return vec{}; }, [&](int c, vec v) {
            v *= W[b * R + c];
            if (kWatched) change = vmax(change, vabs(v - p.nu[b * R + c]));
            p.nu[b * R + c] = v;
            sums[b * R + c] += v;
        });
    for (int c = 0; c < R; ++c)
        combine<RT>(R, B, p.r + c, R, W, R, [&](int s) { return xi[c * R + s]; },
                    [&](int s, vec v) { xi[c * R + s] = v; });
    return change;
}

// The stationary stretch: the same linear map over and over, until ν stands still; the rest is a multiple. step(sums) makes
// one step of ν, adds to sums like N and xi, and returns max |Δν|.
template <class Step>
void forward_stretch(Pack& p, Worker& worker, Step step) {
    vec earlier = splat(1e300);
    for (int k = p.stretch; k > 0; --k) {
        worker.checkpoint_at(k);
        const vec change = step(p.N);
        if (k % kLookEvery || k < kLeastStretch) continue;
        if (settled(change, earlier, kStationaryShares)) {
            p.scratch.resize(static_cast<size_t>(p.n_sums));
            vec* once = p.scratch.data();
            for (int e = 0; e < p.n_sums; ++e) once[e] = vec{};
            step(once);
            for (int e = 0; e < p.n_sums; ++e) p.N[e] += static_cast<double>(k - 1) * once[e];
            return;
        }
        earlier = change;
    }
}

// The way forward along steps that were not kept, of very long recursions: they are made again by weigh(step), and use(step)
// takes a step's part, both for any number of states.
template <class AnyPack, void (*weigh)(AnyPack&, Tape::Step), void (*take_part)(AnyPack&, Tape::Step)>
struct Retraced final : Tape::Way {
    AnyPack& p;
    Worker& worker;

    Retraced(AnyPack& p, Worker& worker) : p(p), worker(worker) {}
    void make(Tape::Step step) override {
        worker.checkpoint();
        weigh(p, step);
        advance<0, false>(p, p.r, p.q);
    }
    void use(long k, Tape::Step step) override {
        worker.checkpoint_at(k);
        take_part(p, step);
    }
};

// The way forward along all steps that steps_back made; use(step) is compiled for the number of states.
template <class Retraced, class AnyPack, class Use>
void retrace(AnyPack& p, Worker& worker, Use use) {
    Retraced far(p, worker);
    for (long k = p.tape.rewind(p.steps, p.Y, far) - 1; k >= 0; --k) {
        worker.checkpoint_at(k);
        use(p.tape.kept(k));
    }
}

inline void weigh_any(Pack& p, Tape::Step step) { weigh<0>(p, step.first, step.second); }
inline void forward_any(Pack& p, Tape::Step step) { forward_step<0, false>(p, step.first, step.second, p.N); }

// Forward pass, fast form, over the steps that backward_fast made.
template <int RT>
void forward_fast(Pack& p, Worker& worker) {
    const int B = p.B, R = RT ? RT : p.R;
    const Tape::Step last = p.tape.last();
    for (int c = 0; c < R; ++c) p.nu1[c] = vec{};
    for (int b = 0; b < B; ++b) {
        const vec scale = p.pi_b[b] * reciprocal(p.q[b]);
        for (int c = 0; c < R; ++c) {
            const vec v = last.first[b * R + c] * p.pi_r[c] * scale;
            p.nu[b * R + c] = p.N[b * R + c] = v;
            p.nu1[c] += v;
        }
    }
    for (int e = 0; e < R * R; ++e) p.xi[e] = vec{};
    if (p.stretch)
        forward_stretch(p, worker, [&](vec* sums) __attribute__((noinline)) {
            return forward_step<RT, true>(p, last.first, last.second, sums);
        });
    retrace<Retraced<Pack, weigh_any, forward_any>>(p, worker, [&](Tape::Step step) {
        forward_step<RT, false>(p, step.first, step.second, p.N);
    });
    for (int e = 0; e < R * R; ++e) p.xi[e] *= p.A_r[e];
}

// Calls call(n) with the number of reduced states as a constant: the fast form is compiled for each small one, and once for
// any (0).
template <class Call>
inline void for_states([[maybe_unused]] int R, Call call) {
#if !defined(VHEM_ANY_SIZE_ONLY)
    switch (R) {
        case 1: return call(std::integral_constant<int, 1>());
        case 2: return call(std::integral_constant<int, 2>());
        case 3: return call(std::integral_constant<int, 3>());
        case 4: return call(std::integral_constant<int, 4>());
        case 5: return call(std::integral_constant<int, 5>());
        case 6: return call(std::integral_constant<int, 6>());
        case 7: return call(std::integral_constant<int, 7>());
        case 8: return call(std::integral_constant<int, 8>());
    }
#endif
    call(std::integral_constant<int, 0>());
}

// Both passes, of a Pack or an ObservedPack.
template <class AnyPack>
inline void backward(AnyPack& p, int tau, bool early_stop, Worker& worker) {
    for_states(p.R, [&](auto n) { backward_fast<n.value>(p, tau, early_stop, worker); });
}

template <class AnyPack>
inline void forward(AnyPack& p, Worker& worker) {
    for_states(p.R, [&](auto n) { forward_fast<n.value>(p, worker); });
}

}  // namespace
