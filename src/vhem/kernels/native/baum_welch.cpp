// The E-step of Baum-Welch for many pairs of a sequence and an HMM.
//
// Short sequences are done kLanes at a time, one pair per lane of a register: every lane has its own HMM and its own
// frames, and none of the recursions has to wait for a sum over states. What does not suit (long sequences, packs with
// too few lanes in use, missing values under full covariances, and lanes in which numbers that may matter fell below
// the smallest double) is done one pair at a time. Each pair's sums go to a place of their own and are added up in the
// order of the pairs, so the result has the same bits for any number of threads.
#include <memory>
#include <utility>

#include "baum_welch.hpp"
#include "threads.hpp"

namespace {

constexpr long kPackBytes = 1L << 24;   // the most memory of one pack's frames
constexpr long kSlotDoubles = 1L << 22; // the most sums kept apart at a time

// A sequence, the HMM it is seen under, and how much it counts.
struct Pairs {
    const int64_t *sequence, *model;
    const double* weight;
    long n;
};

// The Gaussians of all HMMs in the form that the densities need, made once a call.
struct Prepared {
    long width;                    // doubles of `scale` per Gaussian
    std::vector<double> factor;    // log c - ½ log|2πΣ|; kLogZero where c = 0
    std::vector<double> scale;     // diagonal: -1/(2σ²), full: the rows of the triangle L⁻¹
    std::vector<double> constant;  // diagonal: -½ log 2πσ²

    Prepared(const Arrays& a, int n_threads)
        : width(a.full ? static_cast<long>(a.d) * (a.d + 1) / 2 : a.d), factor(size(a)), scale(size(a) * width),
          constant(a.full ? 0 : size(a) * width) {
        if (!a.full) prepare_variances(a);
        parallel_for(a.K, a.full ? n_threads : 1, [&](long k, int) {
            std::vector<double> L(a.full ? a.d * a.d : 0), W(L.size());
            std::vector<int> all(a.d);
            for (int j = 0; j < a.d; ++j) all[j] = j;
            for (long g = k * a.S * a.M; g < (k + 1) * a.S * a.M; ++g) {
                factor[g] = log_or_zero(a.mix_weights[g]);
                if (factor[g] == kLogZero) continue;
                factor[g] += a.full ? triangle(a, g, all, L.data(), W.data()) : constants(a, g);
            }
        });
    }

  private:
    static long size(const Arrays& a) { return static_cast<long>(a.K) * a.S * a.M; }

    void prepare_variances(const Arrays& a) {
        const long n = size(a) * a.d;
        for (long i = 0; i < n; i += kLanes) {
            const int lanes = static_cast<int>(std::min<long>(kLanes, n - i));
            vec variance = load_partial(a.covars + i, lanes);
            store_partial(&scale[i], -0.5 / variance, lanes);
            store_partial(&constant[i], -0.5 * (kLogTwoPi + vlog(variance)), lanes);
        }
    }

    double constants(const Arrays& a, long g) const {
        double total = 0;
        for (int j = 0; j < a.d; ++j) total += constant[g * a.d + j];
        return total;
    }

    double triangle(const Arrays& a, long g, const std::vector<int>& all, double* L, double* W) {
        const int d = a.d;
        double total = 0, *to = &scale[g * width];
        cholesky(a.covars + g * d * d, d, all, L);
        invert_triangle(L, d, W);
        for (int i = 0; i < d; ++i) {
            total -= 0.5 * kLogTwoPi + std::log(L[i * d + i]);
            for (int j = 0; j <= i; ++j) *to++ = W[i * d + j];
        }
        return total;
    }
};

// kLanes pairs side by side. Lanes beyond the number of pairs repeat the first, and count for nothing.
template <bool Full, bool Mixture>
class Pack {
  public:
    Pack(const Arrays& arrays, const Prepared& prepared, const double* anchors, const Frames& frames)
        : a(arrays), prepared(prepared), anchors(anchors), frames(frames), layout(arrays), G(a.S * a.M) {
        memory.resize(a.S + a.S * a.S + G * (2 + 3 * a.d + prepared.width + (Full ? 0 : 2 * a.d)) + layout.size +
                      2 * a.d + 2 * a.S);
        vec* at = memory.data();
        auto take = [&](long n) { return std::exchange(at, at + n); };
        start = take(a.S), trans = take(a.S * a.S), factor = take(G), used = take(G), mean = take(G * a.d);
        anchor = take(G * a.d), scale = take(G * prepared.width), sums = take(layout.size), beta = take(a.S);
        ratio = take(a.S), difference = take(a.d);
        if (!Full) constant = take(G * a.d), variance = take(G * a.d);
    }

    static long doubles_per_frame(const Arrays& a) { return kLanes * (a.d + 2L * a.S + (Mixture ? a.S * a.M : 0)); }

    // Writes log p(y) of every lane and, where `slots` is given, its weighted sums. Returns which lanes can be trusted.
    ivec run(const Pairs& pairs, long begin, int lanes, double* scores, double* const* slots) {
        load_models(pairs, begin, lanes);
        load_frames(pairs, begin, lanes);
        ivec trusted = missing && Full ? complete : ~ivec{};
        trusted &= missing ? forward<true>() : forward<false>();
        store_partial(scores, log_likelihood, lanes);
        if (!slots) return trusted;
        missing ? backward<true>() : backward<false>();
        for (long i = 0; i < a.S * a.S; ++i) sums[layout.trans + i] *= trans[i];
        for (int l = 0; l < lanes; ++l)
            if (trusted[l])
                for (long i = 0; i < layout.size; ++i) slots[l][i] = pairs.weight[begin + l] * sums[i][l];
        return trusted;
    }

  private:
    const Arrays& a;
    const Prepared& prepared;
    const double* anchors;
    const Frames& frames;
    const Layout layout;
    const long G;  // Gaussians of one HMM
    VecArray memory, per_frame;
    vec *start, *trans, *factor, *used, *mean, *anchor, *scale, *constant, *variance;  // the lanes' HMMs
    vec *sums, *beta, *ratio, *difference;
    vec *x, *alpha, *gain, *share;  // per frame: values, forward probabilities, b_s / Σ, shares of components
    vec log_likelihood;
    long T;            // of the longest lane
    ivec length;       // of every lane
    ivec ergodic, complete;
    vec least;         // what a probability must exceed to count as lost when it is dropped
    bool missing;

    void load_models(const Pairs& pairs, long begin, int lanes) {
        for (int l = 0; l < kLanes; ++l) {
            const long k = pairs.model[begin + (l < lanes ? l : 0)];
            place(l, a.startprob + k * a.S, a.S, start);
            place(l, a.transmat + k * a.S * a.S, a.S * a.S, trans);
            place(l, &prepared.factor[k * G], G, factor);
            place(l, a.mix_weights + k * G, G, used);
            place(l, a.means + k * G * a.d, G * a.d, mean);
            place(l, anchors + k * G * a.d, G * a.d, anchor);
            place(l, &prepared.scale[k * G * prepared.width], G * prepared.width, scale);
            if (!Full) place(l, &prepared.constant[k * G * a.d], G * a.d, constant);
            if (!Full) place(l, a.covars + k * G * a.d, G * a.d, variance);
            judge_transitions(l, k);
        }
    }

    static void place(int lane, const double* from, long n, vec* to) {
        double* out = reinterpret_cast<double*>(to) + lane;
        for (long i = 0; i < n; ++i) out[i * kLanes] = from[i];
    }

    void judge_transitions(int l, long k) {
        bool all = true, tiny = false;
        for (int r = 0; r < a.n_states[k]; ++r)
            for (int s = 0; s < a.n_states[k]; ++s) {
                double p = a.transmat[(k * a.S + r) * a.S + s];
                all = all && p >= kErgodic;
                tiny = tiny || (p > 0 && p < kTiny);
            }
        ergodic[l] = all ? -1 : 0;
        least[l] = tiny ? -1.0 : 0.0;
    }

    // A lane's last frame is repeated up to the length of the longest.
    void load_frames(const Pairs& pairs, long begin, int lanes) {
        T = 0;
        for (int l = 0; l < kLanes; ++l) {
            length[l] = frames.length(pairs.sequence[begin + (l < lanes ? l : 0)]);
            T = std::max(T, static_cast<long>(length[l]));
        }
        per_frame.resize(T * doubles_per_frame(a) / kLanes);
        x = per_frame.data(), alpha = x + T * a.d, gain = alpha + T * a.S, share = gain + T * a.S;
        for (int l = 0; l < kLanes; ++l) {
            const double* from = frames.begin(pairs.sequence[begin + (l < lanes ? l : 0)], a.d);
            place(l, from, length[l] * a.d, x);
            for (long t = length[l]; t < T; ++t) place(l, from + (length[l] - 1) * a.d, a.d, x + t * a.d);
        }
        complete = ~ivec{};
        for (long i = 0; i < T * a.d; ++i) complete &= x[i] == x[i];
        missing = false;
        for (int l = 0; l < kLanes; ++l) missing = missing || !complete[l];
    }

    template <bool Missing>
    ivec forward() {
        log_likelihood = vec{};
        vec dropped = {}, first_sum = {};
        for (long t = 0; t < T; ++t) {
            vec *now = alpha + t * a.S, *b = gain + t * a.S, total = {}, lost = {};
            const vec peak = densities<Missing>(t);
            for (int s = 0; s < a.S; ++s) {
                vec p = t ? predicted(now - a.S, s) : start[s];
                vec joint = p * b[s];
                ivec small = joint < kDropped;
                lost += (small & (p > least)) ? splat(kDropped) : vec{};
                now[s] = small ? vec{} : joint;
                total += now[s];
            }
            const vec inverse = reciprocal(total);
            for (int s = 0; s < a.S; ++s) now[s] *= inverse, b[s] *= inverse;
            const ivec active = t < length;
            log_likelihood += active ? peak + vlog(total) : vec{};
            dropped = active ? (dropped + lost) * inverse : dropped;
            if (t == 0) first_sum = total;
        }
        return ergodic ? first_sum >= kErgodic : dropped <= kMostDropped;
    }

    vec predicted(const vec* before, int s) const {
        vec p = before[0] * trans[s];
        for (int r = 1; r < a.S; ++r) p = fma(before[r], trans[r * a.S + s], p);
        return p;
    }

    // b_s(y_t) over the frame's largest, whose log is returned; in mixtures also the share of each component.
    template <bool Missing>
    vec densities(long t) {
        vec* b = gain + t * a.S;
        const vec* frame = x + t * a.d;
        vec peak = splat(kLogZero);
        for (int s = 0; s < a.S; ++s) {
            b[s] = Mixture ? mixed<Missing>(s, frame, share + (t * a.S + s) * a.M) : density<Missing>(s, frame);
            peak = vmax(peak, b[s]);
        }
        for (int s = 0; s < a.S; ++s) b[s] = vexp(b[s] - peak);
        return peak;
    }

    template <bool Missing>
    vec mixed(int s, const vec* frame, vec* shares) {
        vec top = splat(kLogZero), total = {};
        for (int m = 0; m < a.M; ++m) {
            shares[m] = density<Missing>(s * a.M + m, frame);
            top = used[s * a.M + m] > 0.0 ? vmax(top, shares[m]) : top;
        }
        for (int m = 0; m < a.M; ++m) {
            shares[m] = used[s * a.M + m] > 0.0 ? vexp(shares[m] - top) : vec{};
            total += shares[m];
        }
        total = total > 0.0 ? total : splat(1.0);  // a state that only pads
        const vec inverse = reciprocal(total);
        for (int m = 0; m < a.M; ++m) shares[m] *= inverse;
        return top + vlog(total);
    }

    template <bool Missing>
    vec density(int g, const vec* frame) {
        vec log = factor[g];
        const vec *mu = mean + g * a.d, *factors = scale + g * prepared.width;
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
        return factor[g] > kLogZero ? vmax(log, splat(kLeastLog)) : splat(kLogZero);
    }

    // β_t(r) = Σ_s a_rs b_s β_{t+1}(s) / Σ, for states that the forward recursion reached; of others nothing is known
    // to be small, and nothing needed.
    template <bool Missing>
    void backward() {
        for (long i = 0; i < layout.size; ++i) sums[i] = vec{};
        for (int s = 0; s < a.S; ++s) beta[s] = splat(1.0);
        for (long t = T - 1; t >= 0; --t) {
            const vec* now = alpha + t * a.S;
            if (t < T - 1) step_back(t, now);
            const ivec active = t < length;
            for (int s = 0; s < a.S; ++s) {
                vec gamma = (active & (now[s] > 0.0)) ? now[s] * beta[s] : vec{};
                if (t == 0) sums[s] = gamma;
                for (int m = 0; m < a.M; ++m)
                    add<Missing>(s * a.M + m, Mixture ? gamma * share[(t * a.S + s) * a.M + m] : gamma, x + t * a.d);
            }
        }
    }

    void step_back(long t, const vec* now) {
        const vec *later = now + a.S, *b = gain + (t + 1) * a.S;
        const ivec goes_on = t + 1 < length;
        for (int s = 0; s < a.S; ++s) ratio[s] = (goes_on & (later[s] > 0.0)) ? b[s] * beta[s] : vec{};
        vec* xi = sums + layout.trans;
        for (int r = 0; r < a.S; ++r) {
            vec total = {}, p = goes_on ? now[r] : vec{};
            for (int s = 0; s < a.S; ++s) {
                total = fma(trans[r * a.S + s], ratio[s], total);
                xi[r * a.S + s] = fma(p, ratio[s], xi[r * a.S + s]);
            }
            beta[r] = goes_on ? total : splat(1.0);
        }
    }

    template <bool Missing>
    void add(int g, vec u, const vec* frame) {
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

// All pairs, in packs of kLanes.
template <bool Full, bool Mixture>
class EStep {
  public:
    EStep(const Arrays& arrays, const Frames& frames, const Pairs& pairs, const double* anchors, int n_threads)
        : a(arrays), frames(frames), pairs(pairs), anchors(anchors), n_threads(n_threads), layout(arrays),
          prepared(arrays, n_threads), packs(n_threads) {}

    void run(double* scores, double* totals) {
        const long n_packs = (pairs.n + kLanes - 1) / kLanes;
        const long round = std::max(1L, kSlotDoubles / (layout.size * kLanes));
        for (long begin = 0; begin < n_packs; begin += round) {
            const long n = std::min(round, n_packs - begin);
            const long first = begin * kLanes, last = std::min(pairs.n, (begin + n) * kLanes);
            const bool wanted = std::any_of(pairs.weight + first, pairs.weight + last, [](double w) { return w > 0; });
            if (wanted) slots.assign((last - first) * layout.size, 0.0);
            parallel_for(n, n_threads, [&](long task, int thread) {
                FlushDenormals flush;
                const long at = (begin + task) * kLanes;
                run_pack(at, wanted ? &slots[(at - first) * layout.size] : nullptr, thread, scores + at);
            });
            if (wanted) add_up(first, last, totals);
        }
    }

  private:
    const Arrays& a;
    const Frames& frames;
    const Pairs& pairs;
    const double* anchors;
    const int n_threads;
    const Layout layout;
    const Prepared prepared;
    std::vector<std::unique_ptr<Pack<Full, Mixture>>> packs;  // one per thread
    std::vector<double> slots;

    void run_pack(long at, double* sums, int thread, double* scores) {
        const int lanes = static_cast<int>(std::min<long>(kLanes, pairs.n - at));
        bool wanted = false;
        double* slot[kLanes];
        for (int l = 0; l < lanes; ++l) {
            slot[l] = sums + l * layout.size;
            wanted = wanted || (sums && pairs.weight[at + l] > 0);
        }
        ivec done = {};
        if (suits(at, lanes)) {
            if (!packs[thread]) packs[thread].reset(new Pack<Full, Mixture>(a, prepared, anchors, frames));
            done = packs[thread]->run(pairs, at, lanes, scores, wanted ? slot : nullptr);
        }
        for (int l = 0; l < lanes; ++l)
            if (!done[l]) scores[l] = run_alone(at + l, wanted ? slot[l] : nullptr);
    }

    // Whether enough lanes are busy long enough, in memory that stays small.
    bool suits(long at, int lanes) const {
        long longest = 0, all = 0;
        for (int l = 0; l < lanes; ++l) {
            const long T = frames.length(pairs.sequence[at + l]);
            longest = std::max(longest, T);
            all += T;
        }
        return longest * kLanes <= 3 * all &&
               longest * Pack<Full, Mixture>::doubles_per_frame(a) * static_cast<long>(sizeof(double)) <= kPackBytes;
    }

    double run_alone(long pair, double* slot) const {
        const long i = pairs.sequence[pair];
        Accumulator accumulator(a, pairs.model[pair], anchors);
        const double* X = frames.begin(i, a.d);
        if (!slot || !(pairs.weight[pair] > 0)) return accumulator.log_likelihood(X, frames.length(i));
        return accumulator.add(X, frames.length(i), pairs.weight[pair], slot);
    }

    void add_up(long first, long last, double* totals) const {
        for (long pair = first; pair < last; ++pair) {
            if (!(pairs.weight[pair] > 0)) continue;
            const double* from = &slots[(pair - first) * layout.size];
            double* to = totals + pairs.model[pair] * layout.size;
            for (long i = 0; i < layout.size; ++i) to[i] += from[i];
        }
    }
};

// The lower triangle of a sum of squares was computed; the upper one is its mirror image.
void mirror(const Layout& layout, double* totals, long K) {
    const int d = layout.d;
    for (long g = 0; g < K * layout.S * layout.M; ++g) {
        const long k = g / (layout.S * layout.M), at = g % (layout.S * layout.M);
        double* second = totals + k * layout.size + layout.second + at * layout.covar;
        for (int i = 0; i < d; ++i)
            for (int j = 0; j < i; ++j) second[j * d + i] = second[i * d + j];
    }
}

template <bool Full, bool Mixture>
void run(const Arrays& arrays, const Frames& frames, const Pairs& pairs, const double* anchors, int n_threads,
         double* scores, double* totals) {
    EStep<Full, Mixture>(arrays, frames, pairs, anchors, n_threads).run(scores, totals);
}

void expectations(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
                  Integers n_states, Doubles anchors, Doubles X, Integers offsets, Integers sequence, Integers model,
                  Doubles weight, int n_threads, DoublesOut scores, DoublesOut totals) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    const Pairs pairs{sequence.data(), model.data(), weight.data(), static_cast<long>(sequence.shape(0))};
    nb::gil_scoped_release release;
    const bool mixture = arrays.M > 1;
    auto chosen = arrays.full ? (mixture ? run<true, true> : run<true, false>)
                              : (mixture ? run<false, true> : run<false, false>);
    chosen(arrays, frames, pairs, anchors.data(), n_threads, scores.data(), totals.data());
    if (arrays.full) mirror(Layout(arrays), totals.data(), arrays.K);
}

}  // namespace

void bind_baum_welch(nb::module_& m) { m.def("expectations", &expectations); }
