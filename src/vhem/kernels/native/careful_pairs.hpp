// The recursions of pairs.hpp in logs, for packs in which products would underflow.
//
// In left-right models some reduced states fall behind others for ever: from them the state that explains the present
// base state best cannot be reached any more. So Y does not come to rest here, but drifts evenly in the end. Then the
// variational distribution φ = exp(log a + Y - T) stands still, which is all that the forward pass needs, and the remaining
// steps are a multiple of the drift.
#pragma once

#include <tuple>

#include "pairs.hpp"

namespace {

// The transitions ρ→σ of the reduced models that are not zero in every lane, row by row.
struct Ways {
    std::vector<int> to;          // σ
    std::vector<int> begin;       // where row ρ begins, (R + 1)
    VecArray log_a, phi;          // per way, with kLogZero for log 0; per way and base state, in the stationary stretch

    void find(const Pack& p) {
        const int R = p.R;
        to.clear(), begin.assign(1, 0);
        for (int c = 0; c < R; ++c) {
            for (int s = 0; s < R; ++s)
                if (largest(p.A_r[c * R + s]) > 0) to.push_back(s);
            begin.push_back(static_cast<int>(to.size()));
        }
        log_a.resize(to.size());
        for (int c = 0; c < R; ++c)
            for (int w = begin[c]; w < begin[c + 1]; ++w) log_a.data()[w] = log_or_zero(p.A_r[c * R + to[w]]);
    }

    static vec log_or_zero(vec a) {
        vec out;
        for (int l = 0; l < kLanes; ++l) out[l] = a[l] > 0 ? std::log(a[l]) : kLogZero;
        return out;
    }
};

struct CarefulPack : Pack {
    Ways ways;

    // In a left-right model few base states may follow one, and they are neighbours.
    void find_followers() {
        for (int b = 0; b < B; ++b) {
            int from = 0, to = B;
            while (from < to - 1 && !(largest(A_b[b * B + from]) > 0)) ++from;
            while (to - 1 > from && !(largest(A_b[b * B + to - 1]) > 0)) --to;
            first[b] = from, beyond[b] = to;
        }
    }
};

constexpr double kNoAddend = -40;  // 1 + exp of this or less is 1

// T(γ,ρ) = logsumexp_σ( log a_ρσ + Y(γ,σ) ) over n ways, with a maximum of its own for every (γ,ρ).
inline vec log_sum(const vec* log_a, const int* to, const vec* y, int n) {
    vec top = log_a[0] + y[to[0]];
    if (n == 1) return top;
    if (n == 2) {
        const vec other = log_a[1] + y[to[1]], high = vmax(top, other), behind = vmin(top, other) - high;
        return largest(behind) < kNoAddend ? high : high + vlog(1.0 + vexp(behind));
    }
    vec sum = {};
    for (int w = 1; w < n; ++w) top = vmax(top, log_a[w] + y[to[w]]);
    for (int w = 0; w < n; ++w) sum += vexp(log_a[w] + y[to[w]] - top);
    return top + vlog(sum);
}

// T of all states from Y, both into a step of the tape.
inline void weigh_logs(CarefulPack& p, Tape::Step step) {
    const int B = p.B, R = p.R;
    const auto& [to, begin] = std::tie(p.ways.to, p.ways.begin);
    for (int b = 0; b < B; ++b)
        for (int c = 0; c < R; ++c) {
            const vec* log_a = p.ways.log_a.data() + begin[c];
            step.first[b * R + c] = p.Y[b * R + c];
            step.second[b * R + c] = p.T[b * R + c] = log_sum(log_a, &to[begin[c]], p.Y + b * R, begin[c + 1] - begin[c]);
        }
}

// What rounding may do to a difference of logs of the size of y.
inline vec unit(vec y) { return 1.0 + vabs(y); }

// Drift = Y_k+1 - Y_k; returns its largest change since the last look.
inline vec watch_drift(const CarefulPack& p, const vec* Y, vec* drift) {
    vec change = {};
    for (int e = 0; e < p.B * p.R; ++e) {
        const vec now = p.Y[e] - Y[e];
        change = vmax(change, vabs(now - drift[e]) / unit(p.Y[e]));
        drift[e] = now;
    }
    return change;
}

// Whether Y will go on drifting like this: nothing catches up, φ stands still, and the drift of T reproduces that of Y, so
// that also the maxima g stand still. `before` holds T of the step before `last`.
inline bool drifts_on(CarefulPack& p, const vec* drift, const vec* before, Tape::Step last) {
    const int B = p.B, R = p.R;
    const double slack = 32 * kStationaryLogs;
    vec worst = {};
    for (int e = 0; e < B * R; ++e) p.r[e] = last.second[e] - before[e], worst = vmax(worst, drift[e] / unit(p.Y[e]));
    for (int b = 0; b < B; ++b)
        combine<0>(R, B, p.A_b + b * B, 1, p.r, R, [](int) { return vec{}; }, [&](int c, vec v) {
            worst = vmax(worst, vabs(v - drift[b * R + c]) / unit(p.Y[b * R + c]));
        });
    for (int b = 0; b < B; ++b)
        for (int c = 0; c < R; ++c)
            for (int w = p.ways.begin[c]; w < p.ways.begin[c + 1]; ++w) {
                const int e = b * R + p.ways.to[w];
                const vec log_a = p.ways.log_a.data()[w], gain = (drift[e] - p.r[b * R + c]) / unit(p.Y[e]);
                const vec moved = vmax(gain, vabs(gain) * vexp(vmin(log_a + p.Y[e] - last.second[b * R + c], vec{})));
                worst = vmax(worst, (vec)((ivec)moved & (log_a > 0.5 * kLogZero)));
            }
    return largest(worst) <= slack;
}

// Backward pass in logs. Leaves J, and the Y of time 1.
inline void backward_careful(CarefulPack& p, int tau, bool early_stop, Worker& worker) {
    const int B = p.B, R = p.R;
    vec *drift = p.N, earlier = splat(1e300);  // N is free until the forward pass
    p.stretch = 0;
    p.tape.begin(B * R, B * R, tau - 1);
    p.ways.find(p);
    p.find_followers();
    for (int e = 0; e < B * R; ++e) drift[e] = vec{};
    for (int b = 0; b < B; ++b) p.m[b] = split_row(p.E + b * R, R, p.Y + b * R);
    int k = 0;
    while (k < tau - 1 && !p.stretch) {
        worker.checkpoint();
        const Tape::Step step = p.tape.record(k++, p.Y);
        weigh_logs(p, step);
        advance<0, false>(p, p.r, p.q);
        if (!early_stop || k % kLookEvery || tau - 1 - k < kLeastStretch) continue;
        const vec change = watch_drift(p, step.first, drift);
        if (settled(change, earlier, kStationaryLogs)) {
            weigh_logs(p, p.tape.last());
            if (drifts_on(p, drift, step.second, p.tape.last())) p.stretch = tau - 1 - k;
        }
        earlier = change;
    }
    p.steps = k;
    p.J = p.stretch ? stationary_share(p, p.stretch) : vec{};
    for (int e = 0; p.stretch && e < B * R; ++e) p.Y[e] = fma(splat(p.stretch), drift[e], p.Y[e]);
    for (int c = 0; c < R; ++c) p.nu1[c] = Ways::log_or_zero(p.pi_r[c]);
    for (int b = 0; b < B; ++b) {
        vec top = p.nu1[0] + p.Y[b * R], sum = {};
        for (int c = 1; c < R; ++c) top = vmax(top, p.nu1[c] + p.Y[b * R + c]);
        for (int c = 0; c < R; ++c) sum += vexp(p.nu1[c] + p.Y[b * R + c] - top);
        p.q[b] = top + vlog(sum);
        p.J = fma(p.pi_b[b], p.stretch ? p.q[b] : p.q[b] + p.m[b], p.J);
    }
}

// exp(x) for any x: a zero probability times it is zero, never NaN.
inline vec bounded_exp(vec x) { return vexp(vmin(x, splat(709.0))); }

// φ of one step of the tape, for every base state and way.
inline void find_phi(CarefulPack& p, Tape::Step step) {
    const int R = p.R, n = static_cast<int>(p.ways.to.size());
    p.ways.phi.resize(static_cast<size_t>(p.B * n));
    for (int b = 0; b < p.B; ++b)
        for (int c = 0; c < R; ++c)
            for (int w = p.ways.begin[c]; w < p.ways.begin[c + 1]; ++w) {
                const int s = p.ways.to[w];
                p.ways.phi.data()[b * n + w] = p.A_r[c * R + s] * bounded_exp(step.first[b * R + s] - step.second[b * R + c]);
            }
}

// ν one time step on; ν and ξ̂ are added to `sums`. Returns max |Δν|.
inline vec forward_logs_step(CarefulPack& p, vec* sums) {
    const int B = p.B, R = p.R, n = static_cast<int>(p.ways.to.size());
    vec change = {}, *old = p.T, *xi = sums + B * R;
    for (int b = 0; b < B; ++b)
        combine<0>(R, B, p.A_b + b, B, p.nu, R, [](int) { return vec{}; }, [&](int c, vec v) { p.r[b * R + c] = v; });
    for (int e = 0; e < B * R; ++e) old[e] = p.nu[e], p.nu[e] = vec{};
    for (int b = 0; b < B; ++b)
        for (int c = 0; c < R; ++c)
            for (int w = p.ways.begin[c]; w < p.ways.begin[c + 1]; ++w) {
                const vec v = p.r[b * R + c] * p.ways.phi.data()[b * n + w];
                p.nu[b * R + p.ways.to[w]] += v;
                xi[c * R + p.ways.to[w]] += v;
            }
    for (int e = 0; e < B * R; ++e) sums[e] += p.nu[e], change = vmax(change, vabs(p.nu[e] - old[e]));
    return change;
}

inline void forward_logs(CarefulPack& p, Tape::Step step) {
    find_phi(p, step);
    forward_logs_step(p, p.N);
}

// Forward pass over the steps that backward_careful made.
inline void forward_careful(CarefulPack& p, Worker& worker) {
    const int B = p.B, R = p.R;
    for (int c = 0; c < R; ++c) p.nu1[c] = vec{};
    for (int b = 0; b < B; ++b)
        for (int c = 0; c < R; ++c) {
            const vec v = p.pi_b[b] * p.pi_r[c] * bounded_exp(p.Y[b * R + c] - p.q[b]);
            p.nu[b * R + c] = p.N[b * R + c] = v;
            p.nu1[c] += v;
        }
    for (int e = 0; e < R * R; ++e) p.xi[e] = vec{};
    if (p.stretch) {
        find_phi(p, p.tape.last());
        forward_stretch(p, worker, [&](vec* sums) { return forward_logs_step(p, sums); });
    }
    retrace<Retraced<CarefulPack, weigh_logs, forward_logs>>(p, worker, [&](Tape::Step step) { forward_logs(p, step); });
}

}  // namespace
