// Sequences under HMMs: log-likelihoods, posterior probabilities of the states, Viterbi paths.
//
// Emission densities are computed for blocks of frames, one frame per lane of a register. The forward recursion then
// runs on plain products, scaled frame by frame; where zeros in the transition matrix could make a number that
// matters fall below the smallest double, a running bound on what was dropped tells so, and the sequence is done
// again in logs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <limits>
#include <vector>

#include "simd.hpp"
#include "threads.hpp"

namespace nb = nanobind;

namespace {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>;
using DoublesOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using IntegersOut = nb::ndarray<int64_t, nb::c_contig, nb::device::cpu>;

constexpr int kBlock = 64;             // frames whose densities are computed together
constexpr double kLogZero = -1e300;    // stands for log 0: adds up without ever giving inf - inf
constexpr double kLeastLog = -1e290;   // a density's log is kept above this, far from kLogZero
constexpr double kDropped = 1e-280;    // forward probabilities below this are set to zero, and counted
constexpr double kMostDropped = 1e-13; // the share of the likelihood that dropping may cost
constexpr double kErgodic = 1e-100;    // transitions all above this forget what was dropped in one step
constexpr double kLogTwoPi = 1.8378770664093454836;

// The arrays of `Parameters`, and their sizes.
struct Arrays {
    const double *startprob, *transmat, *mix_weights, *means, *covars;
    const int64_t* n_states;
    int K, S, M, d;
    bool full;
};

struct Frames {
    const double* X;
    const int64_t* offsets;
    long n;
    const double* begin(long i, int d) const { return X + offsets[i] * d; }
    long length(long i) const { return offsets[i + 1] - offsets[i]; }
};

double log_or_zero(double p) { return p > 0 ? std::log(p) : kLogZero; }

int round_up(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The lower triangle L of a matrix Σ = LLᵀ, row by row; only rows and columns in `kept` are taken.
void cholesky(const double* covar, int d, const std::vector<int>& kept, double* L) {
    int n = static_cast<int>(kept.size());
    for (int i = 0; i < n; ++i)
        for (int j = 0; j <= i; ++j) {
            double rest = covar[kept[i] * d + kept[j]];
            for (int k = 0; k < j; ++k) rest -= L[i * n + k] * L[j * n + k];
            L[i * n + j] = i == j ? std::sqrt(rest) : rest / L[j * n + j];
        }
}

// The lower triangle of L⁻¹.
void invert_triangle(const double* L, int n, double* W) {
    for (int j = 0; j < n; ++j) {
        W[j * n + j] = 1.0 / L[j * n + j];
        for (int i = j + 1; i < n; ++i) {
            double total = 0;
            for (int k = j; k < i; ++k) total += L[i * n + k] * W[k * n + j];
            W[i * n + j] = -total / L[i * n + i];
        }
    }
}

// One Gaussian of one state's mixture: log c + log N(x; μ, Σ).
struct Gaussian {
    double log_weight, log_factor;  // log c, and log c minus half of log|2πΣ|
    const double *mean, *covar;
    // Diagonal: -1/(2σ²), then -log(2πσ²)/2, d of each. Full: the triangle L⁻¹ that whitens, d×d.
    std::vector<double> scale;

    Gaussian(double weight, const double* mean, const double* covar, int d, bool full)
        : log_weight(std::log(weight)), log_factor(log_weight), mean(mean), covar(covar) {
        full ? prepare_full(d) : prepare_diagonal(d);
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
        std::vector<int> all(d);
        for (int j = 0; j < d; ++j) all[j] = j;
        cholesky(covar, d, all, L.data());
        scale.resize(d * d);
        invert_triangle(L.data(), d, scale.data());
        for (int j = 0; j < d; ++j) log_factor -= 0.5 * kLogTwoPi + std::log(L[j * d + j]);
    }
};

// One HMM, made ready. Rows over states are padded to whole registers, with probability zero.
struct Model {
    int S, padded, d;
    bool full;
    bool ergodic = true;  // every transition above kErgodic
    bool tiny = false;    // some transition so small that products with it may vanish
    std::vector<double> start, trans, log_start, log_trans;
    std::vector<Gaussian> gaussians;
    std::vector<int> first;  // gaussians[first[s]] … gaussians[first[s + 1] - 1] are those of state s

    Model(const Arrays& a, long k) : S(static_cast<int>(a.n_states[k])), padded(round_up(S)), d(a.d), full(a.full) {
        start.assign(padded, 0.0);
        trans.assign(S * padded, 0.0);
        log_start.assign(padded, kLogZero);
        log_trans.assign(S * padded, kLogZero);
        for (int s = 0; s < S; ++s) {
            start[s] = a.startprob[k * a.S + s];
            log_start[s] = log_or_zero(start[s]);
            set_transitions(s, a.transmat + (k * a.S + s) * a.S);
            add_gaussians(a, k * a.S + s);
        }
        first.push_back(static_cast<int>(gaussians.size()));
        judge_transitions();
    }

    void set_transitions(int s, const double* row) {
        for (int r = 0; r < S; ++r) {
            trans[s * padded + r] = row[r];
            log_trans[s * padded + r] = log_or_zero(row[r]);
        }
    }

    void add_gaussians(const Arrays& a, long state) {
        first.push_back(static_cast<int>(gaussians.size()));
        long size = full ? d * d : d;
        for (int m = 0; m < a.M; ++m) {
            long g = state * a.M + m;
            if (a.mix_weights[g] > 0)
                gaussians.emplace_back(a.mix_weights[g], a.means + g * d, a.covars + g * size, d, full);
        }
    }

    void judge_transitions() {
        for (int s = 0; s < S; ++s)
            for (int r = 0; r < S; ++r) {
                double a = trans[s * padded + r];
                ergodic = ergodic && a >= kErgodic;
                tiny = tiny || (a > 0 && a < 1e-20);
            }
    }

    // Whether what was dropped so far cannot matter: the first frame's sum and the bound on the dropped share tell.
    bool trusts(double first_sum, double dropped) const {
        return ergodic ? first_sum >= kErgodic : dropped <= kMostDropped;
    }
};

// Log-densities of up to kBlock frames: log Σ_m c_m N(y_t; μ_m, Σ_m), for every state.
class Emissions {
  public:
    explicit Emissions(const Model& model)
        : model(model), columns(model.d * kBlock), logs(model.S * kBlock), offset(model.d * kLanes),
          mixture(model.gaussians.size() * kBlock) {}

    // out[t·padded + s] = log b_s(y_t), and kLogZero behind the last state.
    void in_logs(const double* X, int n, double* out) {
        compute(X, n);
        for (int t = 0; t < n; ++t) {
            for (int s = 0; s < model.S; ++s) out[t * model.padded + s] = logs[s * kBlock + t];
            for (int s = model.S; s < model.padded; ++s) out[t * model.padded + s] = kLogZero;
        }
    }

    // The same as exp(log b_s - peak), with the frame's largest as its peak: never below 1e-308.
    void scaled(const double* X, int n, double* out, double* peak) {
        compute(X, n);
        for (int t = 0; t < n; t += kLanes) {
            vec top = load(&logs[t]);
            for (int s = 1; s < model.S; ++s) top = vmax(top, load(&logs[s * kBlock + t]));
            store(peak + t, top);
            int lanes = std::min(kLanes, n - t);
            for (int s = 0; s < model.S; ++s) {
                vec e = vexp(load(&logs[s * kBlock + t]) - top);
                for (int l = 0; l < lanes; ++l) out[(t + l) * model.padded + s] = e[l];
            }
        }
    }

  private:
    const Model& model;
    std::vector<double> columns;  // the block's frames, [dimension][frame]
    std::vector<double> logs;     // [state][frame]
    std::vector<double> offset;   // x - μ of one register of frames
    std::vector<double> mixture;  // [component][frame]
    std::vector<int> incomplete;  // frames with missing values

    void compute(const double* X, int n) {
        transpose(X, n);
        for (int s = 0; s < model.S; ++s) {
            int count = model.first[s + 1] - model.first[s];
            double *state = &logs[s * kBlock], *to = count == 1 ? state : mixture.data();
            for (int m = 0; m < count; ++m) density(model.gaussians[model.first[s] + m], X, n, to + m * kBlock);
            if (count > 1) mix(count, n, state);
        }
    }

    void transpose(const double* X, int n) {
        incomplete.clear();
        for (int t = 0; t < n; ++t) {
            bool missing = false;
            for (int j = 0; j < model.d; ++j) {
                double x = X[t * model.d + j];
                columns[j * kBlock + t] = x;
                missing = missing || x != x;
            }
            if (missing) incomplete.push_back(t);
        }
        for (int t = n; t < round_up(n); ++t)
            for (int j = 0; j < model.d; ++j) columns[j * kBlock + t] = 0.0;
    }

    void density(const Gaussian& g, const double* X, int n, double* out) {
        for (int t = 0; t < n; t += kLanes) {
            vec log = model.full ? full(g, t) : incomplete.empty() ? diagonal<false>(g, t) : diagonal<true>(g, t);
            store(out + t, vmax(log, splat(kLeastLog)));
        }
        if (model.full && !incomplete.empty()) marginals(g, X, out);
    }

    // A missing dimension integrates to one: its factor is left out.
    template <bool Missing>
    vec diagonal(const Gaussian& g, int t) const {
        const int d = model.d;
        vec log = splat(Missing ? g.log_weight : g.log_factor);
        for (int j = 0; j < d; ++j) {
            vec x = load(&columns[j * kBlock + t]), difference = x - g.mean[j];
            if (Missing) {
                vec term = fma(difference * difference, splat(g.scale[j]), splat(g.scale[d + j]));
                log += x == x ? term : vec{};
            } else {
                log = fma(difference * difference, splat(g.scale[j]), log);
            }
        }
        return log;
    }

    vec full(const Gaussian& g, int t) {
        const int d = model.d;
        vec log = splat(g.log_factor);
        for (int i = 0; i < d; ++i) {
            store(&offset[i * kLanes], load(&columns[i * kBlock + t]) - g.mean[i]);
            vec z = {};
            for (int j = 0; j <= i; ++j) z = fma(splat(g.scale[i * d + j]), load(&offset[j * kLanes]), z);
            log = fma(z * splat(-0.5), z, log);
        }
        return log;
    }

    // Frames with missing values under a full covariance, one by one: the density of what was observed. Neighbours
    // often miss the same dimensions, and then share the factor.
    void marginals(const Gaussian& g, const double* X, double* out) const {
        std::vector<int> kept, now;
        std::vector<double> L(model.d * model.d), z(model.d);
        bool fresh = true;
        for (int t : incomplete) {
            const double* x = X + t * model.d;
            now.clear();
            for (int j = 0; j < model.d; ++j)
                if (x[j] == x[j]) now.push_back(j);
            if (fresh || now != kept) cholesky(g.covar, model.d, kept = now, L.data());
            fresh = false;
            out[t] = std::max(kLeastLog, g.log_weight + whitened(g, x, kept, L.data(), z.data()));
        }
    }

    static double whitened(const Gaussian& g, const double* x, const std::vector<int>& kept, const double* L,
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

    void mix(int count, int n, double* out) const {
        for (int t = 0; t < n; t += kLanes) {
            vec top = load(&mixture[t]), total = {};
            for (int m = 1; m < count; ++m) top = vmax(top, load(&mixture[m * kBlock + t]));
            for (int m = 0; m < count; ++m) total += vexp(load(&mixture[m * kBlock + t]) - top);
            store(out + t, top + vlog(total));
        }
    }
};

// The forward recursion on one sequence. Both forms give log p(y), and hand every frame's normalised forward
// probabilities, or their logs, to keep(t, row).
class Forward {
  public:
    explicit Forward(const Model& model)
        : model(model), emissions(model), block(kBlock * model.padded), peak(kBlock), sums(kBlock),
          now(model.padded), next(model.padded) {}

    // False where numbers were dropped that may matter.
    template <class Keep>
    bool scaled(const double* X, long T, double& log_likelihood, Keep keep) {
        double total = 0, dropped = 0, first_sum = 0;
        for (long t0 = 0; t0 < T; t0 += kBlock) {
            int n = static_cast<int>(std::min<long>(kBlock, T - t0));
            emissions.scaled(X + t0 * model.d, n, block.data(), peak.data());
            for (int t = 0; t < n; ++t) {
                sums[t] = step(t0 + t == 0, &block[t * model.padded], dropped);
                keep(t0 + t, now.data());
            }
            if (t0 == 0) first_sum = sums[0];
            if (!model.trusts(first_sum, dropped)) return false;
            total += log_of_block(n);
        }
        log_likelihood = total;
        return true;
    }

    template <class Keep>
    double in_logs(const double* X, long T, Keep keep) {
        double total = 0;
        for (long t0 = 0; t0 < T; t0 += kBlock) {
            int n = static_cast<int>(std::min<long>(kBlock, T - t0));
            emissions.in_logs(X + t0 * model.d, n, block.data());
            for (int t = 0; t < n; ++t) {
                total += log_step(t0 + t == 0, &block[t * model.padded]);
                keep(t0 + t, now.data());
            }
        }
        double share = 0;
        for (int s = 0; s < model.S; ++s) share += std::exp(now[s]);
        return total + std::log(share);
    }

    // next_s = Σ_r now_r a_rs: the states one frame ahead.
    void predict(const double* now, double* next) const {
        for (int s = 0; s < model.padded; s += kLanes) {
            vec p = {};
            for (int r = 0; r < model.S; ++r) p = fma(splat(now[r]), load(&model.trans[r * model.padded + s]), p);
            store(next + s, p);
        }
    }

    void predict_in_logs(const double* now, double* next) const {
        for (int s = 0; s < model.padded; s += kLanes) {
            vec top = splat(kLogZero), total = {};
            for (int r = 0; r < model.S; ++r) top = vmax(top, now[r] + load(&model.log_trans[r * model.padded + s]));
            for (int r = 0; r < model.S; ++r)
                total += vexp(now[r] + load(&model.log_trans[r * model.padded + s]) - top);
            store(next + s, vmax(top + vlog(total), splat(kLogZero)));
        }
    }

  private:
    const Model& model;
    Emissions emissions;
    std::vector<double> block, peak, sums, now, next;

    // One frame: multiply by the densities, drop what is too small, normalise. Returns the sum. What was dropped
    // so far is carried as a share of the sum; it can only shrink against the peaks, so this share is a bound.
    double step(bool first, const double* densities, double& dropped) {
        if (!first) predict(now.data(), next.data());
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
        if (!first) predict_in_logs(now.data(), next.data());
        const double* predicted = first ? model.log_start.data() : next.data();
        double top = predicted[0] + logs[0];
        for (int s = 1; s < model.S; ++s) top = std::max(top, predicted[s] + logs[s]);
        for (int s = 0; s < model.padded; ++s) now[s] = std::max(kLogZero, predicted[s] + logs[s] - top);
        return top;
    }
};

double log_likelihood(Forward& forward, const double* X, long T) {
    auto forget = [](long, const double*) {};
    double result = 0;
    if (!forward.scaled(X, T, result, forget)) result = forward.in_logs(X, T, forget);
    return result;
}

// Rows of `out` hold the forward probabilities (or their logs) and become the posteriors, from the last frame to the
// first:  γ_t(r) = Σ_s [ α_t(r) a_rs / p_{t+1}(s) ] γ_{t+1}(s)  with  p_{t+1}(s) = Σ_r α_t(r) a_rs.  Every bracket is
// a probability, so nothing overflows.
void smooth(const Model& model, const Forward& forward, long T, double* out) {
    const int S = model.S;
    std::vector<double> ahead(model.padded), ratio(S);
    for (long t = T - 2; t >= 0; --t) {
        double *row = out + t * S, *later = row + S;
        forward.predict(row, ahead.data());
        for (int s = 0; s < S; ++s) ratio[s] = later[s] > 0 ? later[s] / ahead[s] : 0.0;
        for (int r = 0; r < S; ++r) {
            double total = 0;
            for (int s = 0; s < S; ++s) total += model.trans[r * model.padded + s] * ratio[s];
            row[r] = row[r] > 0 ? row[r] * total : 0.0;
        }
    }
}

void smooth_in_logs(const Model& model, const Forward& forward, long T, double* out) {
    const int S = model.S;
    std::vector<double> ahead(model.padded);
    double* last = out + (T - 1) * S;
    double all = 0;
    for (int s = 0; s < S; ++s) all += last[s] = std::exp(last[s]);
    for (int s = 0; s < S; ++s) last[s] /= all;
    for (long t = T - 2; t >= 0; --t) {
        double *row = out + t * S, *later = row + S;
        forward.predict_in_logs(row, ahead.data());
        for (int r = 0; r < S; ++r) {
            double total = 0;
            for (int s = 0; s < S; ++s)
                if (later[s] > 0) total += std::exp(row[r] + model.log_trans[r * model.padded + s] - ahead[s]) * later[s];
            row[r] = total;
        }
    }
}

double posterior(const Model& model, const double* X, long T, double* out) {
    Forward forward(model);
    auto keep = [&](long t, const double* row) { std::copy(row, row + model.S, out + t * model.S); };
    double result = 0;
    if (forward.scaled(X, T, result, keep)) {
        smooth(model, forward, T, out);
    } else {
        result = forward.in_logs(X, T, keep);
        smooth_in_logs(model, forward, T, out);
    }
    return result;
}

// The likeliest path; of equal ones, that through the lower states.
class Viterbi {
  public:
    Viterbi(const Model& model, long T) : model(model), best(model.padded), next(model.padded), from(T * model.S) {}

    double run(const double* X, long T, int64_t* path) {
        Emissions emissions(model);
        std::vector<double> block(kBlock * model.padded);
        double total = 0;
        for (long t0 = 0; t0 < T; t0 += kBlock) {
            int n = static_cast<int>(std::min<long>(kBlock, T - t0));
            emissions.in_logs(X + t0 * model.d, n, block.data());
            for (int t = 0; t < n; ++t) total += step(t0 + t, &block[t * model.padded]);
        }
        path[T - 1] = std::max_element(best.begin(), best.begin() + model.S) - best.begin();
        for (long t = T - 1; t > 0; --t) path[t - 1] = from[t * model.S + path[t]];
        return total;
    }

  private:
    const Model& model;
    std::vector<double> best, next;
    std::vector<int32_t> from;

    // The best scores are kept relative to the frame's best, which is returned, so that long sequences lose nothing.
    double step(long t, const double* logs) {
        const int S = model.S;
        if (t == 0) {
            std::copy(model.log_start.begin(), model.log_start.end(), next.begin());
        } else {
            int32_t* origin = &from[t * S];
            std::fill(next.begin(), next.end(), -std::numeric_limits<double>::infinity());
            for (int r = 0; r < S; ++r)
                for (int s = 0; s < S; ++s) {
                    double score = best[r] + model.log_trans[r * model.padded + s];
                    origin[s] = score > next[s] ? r : origin[s];
                    next[s] = score > next[s] ? score : next[s];
                }
        }
        for (int s = 0; s < S; ++s) next[s] += logs[s];
        double top = *std::max_element(next.begin(), next.begin() + S);
        for (int s = 0; s < S; ++s) best[s] = std::max(kLogZero, next[s] - top);
        return top;
    }
};

Arrays arrays_of(const Doubles& startprob, const Doubles& transmat, const Doubles& mix_weights, const Doubles& means,
                 const Doubles& covars, const Integers& n_states) {
    return {startprob.data(),
            transmat.data(),
            mix_weights.data(),
            means.data(),
            covars.data(),
            n_states.data(),
            static_cast<int>(means.shape(0)),
            static_cast<int>(means.shape(1)),
            static_cast<int>(means.shape(2)),
            static_cast<int>(means.shape(3)),
            covars.ndim() == 5};
}

Frames frames_of(const Doubles& X, const Integers& offsets) {
    return {X.data(), offsets.data(), static_cast<long>(offsets.shape(0)) - 1};
}

// A task is one HMM and a stretch of sequences: the HMM is made ready once a task, and few HMMs still feed all threads.
void log_likelihoods(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
                     Integers n_states, Doubles X, Integers offsets, int n_threads, DoublesOut out) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    const long K = arrays.K, stretches = std::min(frames.n, std::max(1L, 8L * n_threads / K));
    nb::gil_scoped_release release;
    parallel_for(K * stretches, n_threads, [&](long task, int) {
        const long k = task % K, stretch = task / K;
        Model model(arrays, k);
        Forward forward(model);
        for (long i = frames.n * stretch / stretches; i < frames.n * (stretch + 1) / stretches; ++i)
            out.data()[i * K + k] = log_likelihood(forward, frames.begin(i, arrays.d), frames.length(i));
    });
}

void posteriors(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
                Integers n_states, Doubles X, Integers offsets, int n_threads, DoublesOut scores, DoublesOut out) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    nb::gil_scoped_release release;
    const Model model(arrays, 0);
    parallel_for(frames.n, n_threads, [&](long i, int) {
        double* rows = out.data() + frames.offsets[i] * model.S;
        scores.data()[i] = posterior(model, frames.begin(i, arrays.d), frames.length(i), rows);
    });
}

void viterbi(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
             Integers n_states, Doubles X, Integers offsets, int n_threads, DoublesOut scores, IntegersOut out) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    nb::gil_scoped_release release;
    const Model model(arrays, 0);
    parallel_for(frames.n, n_threads, [&](long i, int) {
        Viterbi search(model, frames.length(i));
        scores.data()[i] =
            search.run(frames.begin(i, arrays.d), frames.length(i), out.data() + frames.offsets[i]);
    });
}

}  // namespace

void bind_sequences(nb::module_& m) {
    m.def("log_likelihoods", &log_likelihoods);
    m.def("posteriors", &posteriors);
    m.def("viterbi", &viterbi);
}
