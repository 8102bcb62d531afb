// One HMM made ready, and the recursions on one sequence: emission densities, forward, backward.
//
// Emission densities are computed for blocks of frames, one frame per lane of a register. The forward recursion then
// runs on plain products, scaled frame by frame; where zeros in the transition matrix could make a number that
// matters fall below the smallest double, a running bound on what was dropped tells so, and the sequence is done
// again in logs.
#pragma once

#include <algorithm>
#include <vector>

#include "frames.hpp"
#include "models.hpp"

namespace {

double log_or_zero(double p) { return p > 0 ? std::log(p) : kLogZero; }

// One Markov chain, made ready. Rows over states are padded to whole registers, with probability zero.
struct Chain {
    int S, padded;
    bool ergodic = true;  // every transition above kErgodic
    bool tiny = false;    // some transition so small that products with it may vanish
    std::vector<double> start, trans, log_start, log_trans;

    template <class Family>
    Chain(const Models<Family>& m, long k) : S(static_cast<int>(m.n_states[k])), padded(round_up(S)) {
        start.assign(padded, 0.0);
        trans.assign(S * padded, 0.0);
        log_start.assign(padded, kLogZero);
        log_trans.assign(S * padded, kLogZero);
        for (int s = 0; s < S; ++s) {
            start[s] = m.startprob[k * m.S + s];
            log_start[s] = log_or_zero(start[s]);
            set_transitions(s, m.transmat + (k * m.S + s) * m.S);
        }
    }

    void set_transitions(int s, const double* row) {
        for (int r = 0; r < S; ++r) {
            trans[s * padded + r] = row[r];
            log_trans[s * padded + r] = log_or_zero(row[r]);
            ergodic = ergodic && row[r] >= kErgodic;
            tiny = tiny || (row[r] > 0 && row[r] < kSmallTransition);
        }
    }

    // Whether what was dropped so far cannot matter: the first frame's sum and the bound on the dropped share tell.
    bool trusts(double first_sum, double dropped) const {
        return ergodic ? first_sum >= kErgodic : dropped <= kMostDropped;
    }

    // next_s = Σ_r now_r a_rs: the states one frame ahead.
    void predict(const double* now, double* next) const {
        for (int s = 0; s < padded; s += kLanes) {
            vec even = {}, odd = {};  // two sums, so that neither waits for the other
            int r = 0;
            for (; r + 1 < S; r += 2) {
                even = fma(splat(now[r]), load(&trans[r * padded + s]), even);
                odd = fma(splat(now[r + 1]), load(&trans[(r + 1) * padded + s]), odd);
            }
            if (r < S) even = fma(splat(now[r]), load(&trans[r * padded + s]), even);
            store(next + s, even + odd);
        }
    }

    void predict_in_logs(const double* now, double* next) const {
        for (int s = 0; s < padded; s += kLanes) {
            vec top = splat(kLogZero), total = {};
            for (int r = 0; r < S; ++r) top = vmax(top, now[r] + load(&log_trans[r * padded + s]));
            for (int r = 0; r < S; ++r)
                total += vexp(now[r] + load(&log_trans[r * padded + s]) - top);
            store(next + s, vmax(top + vlog(total), splat(kLogZero)));
        }
    }
};

// One HMM, made ready.
template <class Family>
struct Model : Chain {
    const long d;
    const typename Family::Components all;
    std::vector<typename Family::Component> components;
    std::vector<int> first;  // components[first[s]] … components[first[s + 1] - 1] are those of state s

    Model(const Models<Family>& m, long k) : Chain(m, k), d(m.components.d), all(m.components) {
        for (long state = k * m.S; state < k * m.S + S; ++state) {
            first.push_back(static_cast<int>(components.size()));
            for (long c = state * m.M; c < (state + 1) * m.M; ++c)
                if (m.mix_weights[c] > 0) components.emplace_back(m.components, c);
        }
        first.push_back(static_cast<int>(components.size()));
    }
};

// Log-densities of up to kBlockFrames frames: log Σ_m c_m p_m(y_t), for every state.
template <class Family>
class Emissions {
  public:
    FrameBlock frames;

    Emissions(const Model<Family>& model, Worker& worker)
        : frames(model.d), model(model), worker(worker), densities(model.all), logs(model.S * kBlockFrames),
          mixture(model.components.size() * kBlockFrames) {}

    // out[t·padded + s] = log b_s(y_t), and kLogZero behind the last state.
    void in_logs(const double* X, int n, double* out) {
        compute(X, n);
        for (int t = 0; t < n; ++t) {
            for (int s = 0; s < model.S; ++s) out[t * model.padded + s] = logs[s * kBlockFrames + t];
            for (int s = model.S; s < model.padded; ++s) out[t * model.padded + s] = kLogZero;
        }
    }

    // The same as exp(log b_s - peak), with the frame's largest as its peak: never below 1e-308.
    void scaled(const double* X, int n, double* out, double* peak) {
        compute(X, n);
        for (int t = 0; t < n; t += kLanes) {
            vec top = load(&logs[t]);
            for (int s = 1; s < model.S; ++s) top = vmax(top, load(&logs[s * kBlockFrames + t]));
            store(peak + t, top);
            int lanes = std::min(kLanes, n - t);
            for (int s = 0; s < model.S; ++s) {
                vec e = vexp(load(&logs[s * kBlockFrames + t]) - top);
                for (int l = 0; l < lanes; ++l) out[(t + l) * model.padded + s] = e[l];
            }
        }
    }

    // Each component's share (of frames that are loaded) in the density of state s, c_m p_m(y_t) / b_s(y_t), [component][frame].
    const double* shares(int s) {
        const int n = frames.n;
        const int count = model.first[s + 1] - model.first[s];
        if (count == 1) std::fill_n(mixture.begin(), round_up(n), 1.0);
        if (count == 1) return mixture.data();
        for (int m = 0; m < count; ++m) density(model.components[model.first[s] + m], &mixture[m * kBlockFrames]);
        mix(count, n, &logs[s * kBlockFrames]);
        for (int m = 0; m < count; ++m)
            for (int t = 0; t < n; t += kLanes)
                store(&mixture[m * kBlockFrames + t], vexp(load(&mixture[m * kBlockFrames + t]) - load(&logs[s * kBlockFrames + t])));
        return mixture.data();
    }

  private:
    const Model<Family>& model;
    Worker& worker;
    typename Family::Densities densities;
    std::vector<double> logs;     // [state][frame]
    std::vector<double> mixture;  // [component][frame]

    void compute(const double* X, int n) {
        frames.load(X, n);
        for (int s = 0; s < model.S; ++s) {
            int count = model.first[s + 1] - model.first[s];
            double *state = &logs[s * kBlockFrames], *to = count == 1 ? state : mixture.data();
            for (int m = 0; m < count; ++m) density(model.components[model.first[s] + m], to + m * kBlockFrames);
            if (count > 1) mix(count, n, state);
        }
    }

    void density(const typename Family::Component& component, double* out) {
        worker.checkpoint();
        densities.evaluate(component, frames, out, worker);
    }

    void mix(int count, int n, double* out) const {
        for (int t = 0; t < n; t += kLanes) {
            vec top = load(&mixture[t]), total = {};
            for (int m = 1; m < count; ++m) top = vmax(top, load(&mixture[m * kBlockFrames + t]));
            for (int m = 0; m < count; ++m) total += vexp(load(&mixture[m * kBlockFrames + t]) - top);
            store(out + t, top + vlog(total));
        }
    }
};

// The forward recursion on one sequence. Both forms give log p(y), and leave every frame's normalised forward
// probabilities, or their logs, in rows, [frame][state], where these are wanted.
template <class Family>
class Forward {
  public:
    Forward(const Model<Family>& model, Worker& worker)
        : model(model), emissions(model, worker), block(kBlockFrames * model.padded), peak(kBlockFrames), sums(kBlockFrames),
          now(model.padded), next(model.padded) {}

    // False where numbers were dropped that may matter.
    bool scaled(const double* X, long T, double& log_likelihood, double* rows) { return stretch(X, 0, T, log_likelihood, rows); }

    // The same for frames begin … end - 1, whose rows these are, behind those that went before, or behind a frame of which
    // nothing is known.
    __attribute__((noinline)) bool stretch(const double* X, long begin, long end, double& log_likelihood, double* rows) {
        double total = 0, dropped = 0, first_sum = 1;
        for (long t0 = begin; t0 < end; t0 += kBlockFrames) {
            int n = static_cast<int>(std::min<long>(kBlockFrames, end - t0));
            emissions.scaled(X + t0 * model.d, n, block.data(), peak.data());
            for (int t = 0; t < n; ++t) {
                sums[t] = step(t0 + t == 0, &block[t * model.padded], dropped);
                if (rows) std::copy_n(now.data(), model.S, rows + (t0 - begin + t) * model.S);
            }
            if (t0 == 0) first_sum = sums[0];
            if (!model.trusts(first_sum, dropped)) return false;
            total += log_of_block(n);
        }
        log_likelihood = total;
        return true;
    }

    // Forgets what went before.
    void forget() { std::fill(now.begin(), now.begin() + model.S, 1.0 / model.S); }

    // The forward probabilities of the last frame, or where to put them.
    double* state() { return now.data(); }

    __attribute__((noinline)) double in_logs(const double* X, long T, double* rows) {
        double total = 0;
        for (long t0 = 0; t0 < T; t0 += kBlockFrames) {
            int n = static_cast<int>(std::min<long>(kBlockFrames, T - t0));
            emissions.in_logs(X + t0 * model.d, n, block.data());
            for (int t = 0; t < n; ++t) {
                total += log_step(t0 + t == 0, &block[t * model.padded]);
                if (rows) std::copy_n(now.data(), model.S, rows + (t0 + t) * model.S);
            }
        }
        double share = 0;
        for (int s = 0; s < model.S; ++s) share += std::exp(now[s]);
        return total + std::log(share);
    }

  private:
    const Model<Family>& model;
    Emissions<Family> emissions;
    std::vector<double> block, peak, sums, now, next;

    // One frame: multiply by the densities, drop what is too small, normalise. Returns the sum. What was dropped
    // so far is carried as a share of the sum; it can only shrink against the peaks, so this share is a bound.
    double step(bool first, const double* densities, double& dropped) {
        if (!first) model.predict(now.data(), next.data());
        const double* predicted = first ? model.start.data() : next.data();
        vec total = {}, lost = {};
        for (int s = 0; s < model.padded; s += kLanes) {
            vec p = load(predicted + s), a = p * load(densities + s);
            ivec small = a < kDropped;
            lost += (small & (p > (model.tiny ? -1.0 : 0.0))) ? splat(kDropped) : vec{};
            a = small ? vec{} : a;
            total += a;
            store(&now[s], a);
        }
        double all = sum(total);
        dropped = (dropped + sum(lost)) / all;
        vec scale = splat(1.0 / all);
        for (int s = 0; s < model.padded; s += kLanes) store(&now[s], load(&now[s]) * scale);
        return all;
    }

    double log_of_block(int n) const {
        double total = 0;
        for (int t = 0; t < n; t += kLanes) {
            int lanes = std::min(kLanes, n - t);
            vec logs = vlog(load(&sums[t])) + load(&peak[t]);
            for (int l = 0; l < lanes; ++l) total += logs[l];
        }
        return total;
    }

    // One frame in logs; the largest becomes zero and is returned.
    double log_step(bool first, const double* logs) {
        if (!first) model.predict_in_logs(now.data(), next.data());
        const double* predicted = first ? model.log_start.data() : next.data();
        double top = predicted[0] + logs[0];
        for (int s = 1; s < model.S; ++s) top = std::max(top, predicted[s] + logs[s]);
        for (int s = 0; s < model.padded; ++s) now[s] = std::max(kLogZero, predicted[s] + logs[s] - top);
        return top;
    }
};

// From the last frame to the first, a sequence's rows of forward probabilities (or of their logs) become posteriors:
//   ξ_t(r,s) = [ α_t(r) a_rs / p_{t+1}(s) ] γ_{t+1}(s)  with  p_{t+1}(s) = Σ_r α_t(r) a_rs,   γ_t(r) = Σ_s ξ_t(r,s).
// Every bracket is a probability, so nothing overflows.
class Backward {
  public:
    explicit Backward(const Chain& model)
        : model(model), columns(model.S * model.padded), ahead(model.padded), ratio(model.padded),
          total(model.padded), xi(model.S * model.padded) {
        for (int r = 0; r < model.S; ++r)
            for (int s = 0; s < model.S; ++s) columns[s * model.padded + r] = model.trans[r * model.padded + s];
    }

    // Begins a sequence at the row of its last frame.
    void begin(bool logs, double* last) {
        in_logs = logs;
        std::fill(xi.begin(), xi.end(), 0.0);
        if (!in_logs) return;
        double all = 0;
        for (int s = 0; s < model.S; ++s) all += last[s] = std::exp(last[s]);
        for (int s = 0; s < model.S; ++s) last[s] /= all;
    }

    void step(double* row, const double* later) { in_logs ? log_step(row, later) : scaled_step(row, later); }

    // Adds w Σ_t ξ_t to rows of `width`.
    void add_transitions(double w, double* out, int width) const {
        for (int r = 0; r < model.S; ++r)
            for (int s = 0; s < model.S; ++s) {
                double factor = in_logs ? 1.0 : model.trans[r * model.padded + s];
                out[r * width + s] += w * factor * xi[r * model.padded + s];
            }
    }

  private:
    const Chain& model;
    bool in_logs = false;
    std::vector<double> columns;  // the transition matrix, transposed
    std::vector<double> ahead, ratio, total;
    std::vector<double> xi;  // Σ_t ξ_t, without the factor a_rs where the numbers are no logs

    void scaled_step(double* row, const double* later) {
        const int S = model.S, padded = model.padded;
        model.predict(row, ahead.data());
        for (int s = 0; s < S; ++s) ratio[s] = later[s] > 0 ? later[s] / ahead[s] : 0.0;
        for (int r = 0; r < padded; r += kLanes) {
            vec even = {}, odd = {};
            for (int s = 0; s + 1 < S; s += 2) {
                even = fma(splat(ratio[s]), load(&columns[s * padded + r]), even);
                odd = fma(splat(ratio[s + 1]), load(&columns[(s + 1) * padded + r]), odd);
            }
            if (S % 2) even = fma(splat(ratio[S - 1]), load(&columns[(S - 1) * padded + r]), even);
            store(&total[r], even + odd);
        }
        for (int r = 0; r < S; ++r) {
            for (int s = 0; s < padded; s += kLanes)
                store(&xi[r * padded + s], fma(splat(row[r]), load(&ratio[s]), load(&xi[r * padded + s])));
            row[r] = row[r] > 0 ? row[r] * total[r] : 0.0;
        }
    }

    void log_step(double* row, const double* later) {
        model.predict_in_logs(row, ahead.data());
        for (int r = 0; r < model.S; ++r) {
            double all = 0;
            for (int s = 0; s < model.S; ++s) {
                if (!(later[s] > 0)) continue;
                double share = std::exp(row[r] + model.log_trans[r * model.padded + s] - ahead[s]) * later[s];
                xi[r * model.padded + s] += share;
                all += share;
            }
            row[r] = all;
        }
    }
};

}  // namespace
