// The E-step of Baum-Welch for many pairs of a sequence and an HMM.
//
// Short sequences are done kLanes at a time. What does not suit (long sequences, packs with too few lanes in use, missing
// values under full covariances, and lanes in which numbers that may matter fell below the smallest double) is done
// one pair at a time. Each pair's sums go to a place of their own and are added up in the
// order of the pairs, so the result has the same bits for any number of threads.
#include <limits>
#include <memory>

#include "families/parts.hpp"
#include "learning.hpp"
#include "long_sequence.hpp"
#include "variational_lanes.hpp"

namespace {

// Where the sums over all pairs go, HMM by HMM: an array each for start, trans, occupancy and the family's moments.
struct Totals {
    struct Part {
        double* data;
        long size;  // of one HMM
    };
    std::vector<Part> parts;
};

template <class Family>
Totals totals_of(const Layout<Family>& layout, const Sums& sums) {
    const long G = layout.S * layout.M;
    Totals all{{{sums.start, layout.S}, {sums.trans, layout.S * layout.S}, {sums.occupancy, G}}};
    for (int m = 0; m < Family::kMoments; ++m) all.parts.push_back({sums.moments(m), G * layout.widths[m]});
    return all;
}

template <class T>
struct Type {
    using type = T;
};

// The pack compiled for this number of states, where there is one: calls make(type).
template <class Family, class Make>
auto pack_for(const Models<Family>& models, Make make) {
    const auto sized = [&](auto states) {
        static constexpr int n = decltype(states)::value;
        return make(Type<PackOfSize<Family, false, !kAnySizeOnly && n <= Family::kMostStates ? n : 0>>());
    };
    if (models.M > 1) return make(Type<PackOfSize<Family, true, 0>>());
    switch (models.S) {
        case 2: return sized(std::integral_constant<int, 2>());
        case 3: return sized(std::integral_constant<int, 3>());
        case 4: return sized(std::integral_constant<int, 4>());
        case 5: return sized(std::integral_constant<int, 5>());
        default: return sized(std::integral_constant<int, 0>());
    }
}

// All pairs, in packs of kLanes.
template <class Family>
class EStep {
    using Lanes = Pack<Family>;

  public:
    EStep(const Models<Family>& models, const Sequences& frames, const Pairs& pairs, const typename Family::Anchors& anchors,
          Call& call)
        : a(models), frames(frames), pairs(pairs), anchors(anchors), call(call), layout(models), prepared(models, call),
          packs(call.n_threads) {}

    void run(double* scores, const Totals& totals) {
        if (std::none_of(pairs.weight, pairs.weight + pairs.n, shows)) return score(scores);
        const long n_packs = (pairs.n + kLanes - 1) / kLanes;
        const long round = std::min(n_packs, std::max(1L, kSlotDoubles / (layout.size * kLanes)));
        for (long begin = 0; begin < n_packs; begin += round) {
            const long n = std::min(round, n_packs - begin);
            const long first = begin * kLanes, last = std::min(pairs.n, (begin + n) * kLanes);
            const bool wanted = std::any_of(pairs.weight + first, pairs.weight + last, shows);
            if (wanted && !slots) slots.reset(new double[kLanes * round * layout.size]);
            parallel_for(call, n, [&](long task, Worker& worker) {
                const Denormals flushed(Denormals::kFlush);
                const long at = (begin + task) * kLanes;
                run_pack(at, wanted ? &slots[(at - first) * layout.size] : nullptr, worker, scores + at);
            });
            run_long(first, last, wanted ? slots.get() : nullptr, scores);
            if (wanted) add_up(first, last, totals);
        }
    }

    // Pairs of one HMM must be neighbours; HMMs that take about as long should be neighbours too.
    template <class Estimates>
    void learn(const typename Estimates::Learning& learning) {
        std::vector<long> begins;
        std::vector<bool> seen(a.K, false);
        for (long pair = 0; pair < pairs.n; ++pair)
            if (pair == 0 || pairs.model[pair] != pairs.model[pair - 1]) {
                if (seen[pairs.model[pair]]) refuse("pairs of one HMM must be neighbours.");
                seen[pairs.model[pair]] = true;
                begins.push_back(pair);
            }
        const long n = static_cast<long>(begins.size());
        begins.push_back(pairs.n);
        parallel_for(call, (n + kLanes - 1) / kLanes, [&](long task, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            const Household house = household(&begins[task * kLanes], std::min<long>(kLanes, n - task * kLanes));
            if (suits(house)) pack(worker).template learn<Estimates>(pairs, house, learning);
        });
    }

  private:
    const Models<Family>& a;
    const Sequences& frames;
    const Pairs& pairs;
    const typename Family::Anchors anchors;
    Call& call;
    const Layout<Family> layout;
    const typename Family::Prepared prepared;
    std::vector<std::unique_ptr<Lanes>> packs;  // one per thread
    std::unique_ptr<double[]> slots;

    // log p(y) alone, of every pair. All HMMs that see the same sequences take their turns, so that these are loaded once.
    void score(double* scores) {
        const long n_packs = (pairs.n + kLanes - 1) / kLanes, turns = times_repeated(), apart = n_packs / turns;
        parallel_for(call, n_packs, [&](long task, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            const long at = (task % turns * apart + task / turns) * kLanes;
            run_pack(at, nullptr, worker, scores + at);
        });
        run_long(0, pairs.n, nullptr, scores);
    }

    // How often the first pairs' sequences come again in the same order, where that means in the same packs; at least once.
    long times_repeated() const {
        long period = 1;
        while (period < pairs.n && pairs.sequence[period] != pairs.sequence[0]) ++period;
        return period % kLanes == 0 && pairs.n % period == 0 ? pairs.n / period : 1;
    }

    // Whether a pair adds to the sums. Weights below the smallest normal double are zero where denormals are flushed, and
    // must be so everywhere: what one thread leaves out, another would add up from memory that nobody wrote.
    static bool shows(double weight) { return weight >= std::numeric_limits<double>::min(); }

    Lanes& pack(Worker& worker) {
        auto& own = packs[worker.index];
        if (!own)
            own = pack_for(a, [&](auto size) -> std::unique_ptr<Lanes> {
                return std::make_unique<typename decltype(size)::type>(a, prepared, anchors, frames, worker);
            });
        return *own;
    }

    void run_pack(long at, double* sums, Worker& worker, double* scores) {
        const int lanes = static_cast<int>(std::min<long>(kLanes, pairs.n - at));
        bool wanted = false;
        double* slot[kLanes];
        for (int l = 0; l < lanes; ++l) {
            slot[l] = sums + l * layout.size;
            wanted = wanted || (sums && shows(pairs.weight[at + l]));
        }
        ivec done = {};
        if (suits(at, lanes)) {
            done = pack(worker).run(pairs, at, lanes, scores, wanted ? slot : nullptr);
        }
        for (int l = 0; l < lanes; ++l)
            if (!done[l] && !is_long(at + l)) scores[l] = run_alone(at + l, wanted ? slot[l] : nullptr, worker);
    }

    bool is_long(long pair) const { return frames.length(pairs.sequence[pair]) >= kLongSequence; }

    // Sequences that keep all threads busy one at a time; those that do not suit are done one per thread.
    void run_long(long first, long last, double* sums, double* scores) {
        std::vector<long> rest;
        for (long pair = first; pair < last; ++pair) {
            if (!is_long(pair)) continue;
            const long i = pairs.sequence[pair];
            double* slot = sums && shows(pairs.weight[pair]) ? sums + (pair - first) * layout.size : nullptr;
            LongSequence<Family> sequence(a, pairs.model[pair], anchors, frames.begin(i), frames.length(i), call);
            if (!sequence.run(pairs.weight[pair], slot, scores[pair])) rest.push_back(pair);
        }
        parallel_for(call, static_cast<long>(rest.size()), [&](long task, Worker& worker) {
            const Denormals flushed(Denormals::kFlush);
            const long pair = rest[task];
            scores[pair] = run_alone(pair, sums ? sums + (pair - first) * layout.size : nullptr, worker);
        });
    }

    static Household household(const long* begins, long lanes) {
        Household house{{}, {}, static_cast<int>(lanes)};
        for (int l = 0; l < kLanes; ++l) {
            house.first[l] = begins[l < lanes ? l : 0];
            house.n[l] = l < lanes ? begins[l + 1] - begins[l] : 1;
        }
        return house;
    }

    // Whether enough lanes are busy long enough, in memory that stays small.
    bool suits(long at, int lanes) const {
        long longest = 0, all = 0;
        for (int l = 0; l < lanes; ++l) {
            const long T = frames.length(pairs.sequence[at + l]);
            longest = std::max(longest, T);
            all += T;
        }
        return fits(longest) && longest * kLanes <= 3 * all;
    }

    // The same of all pairs of some HMMs; all lanes but one may be idle, if only briefly.
    bool suits(const Household& house) const {
        long together = 0, all = 0;
        for (long q = 0; q < house.most(); ++q) {
            long longest = 0;
            for (int l = 0; l < house.lanes; ++l) {
                if (!house.has(l, q)) continue;
                const long T = frames.length(pairs.sequence[house.first[l] + q]);
                longest = std::max(longest, T);
                all += T;
            }
            if (!fits(longest)) return false;
            together += longest;
        }
        // An iteration outside the engine costs as much as thousands of frames in a single lane.
        return together <= 5 * kShortSequence || together * kLanes <= 3 * all;
    }

    bool fits(long T) const {
        return T < kLongSequence &&
               T * Lanes::doubles_per_frame(a) * static_cast<long>(sizeof(double)) <= kPackBytes;
    }

    __attribute__((noinline)) double run_alone(long pair, double* slot, Worker& worker) const {
        const long i = pairs.sequence[pair];
        Accumulator<Family> accumulator(a, pairs.model[pair], anchors, worker);
        const double* X = frames.begin(i);
        if (!slot || !shows(pairs.weight[pair])) return accumulator.log_likelihood(X, frames.length(i));
        std::fill_n(slot, layout.size, 0.0);
        return accumulator.add(X, frames.length(i), pairs.weight[pair], slot);
    }

    // Every HMM's sums are added by one thread, in the order of the pairs.
    void add_up(long first, long last, const Totals& totals) const {
        const int shares = call.n_threads;
        parallel_for(call, shares, [&](long share, Worker&) {
            for (long pair = first; pair < last; ++pair)
                if (shows(pairs.weight[pair]) && pairs.model[pair] % shares == share)
                    add(&slots[(pair - first) * layout.size], pairs.model[pair], totals);
        });
    }

    static void add(const double* from, long model, const Totals& totals) {
        for (const Totals::Part& part : totals.parts) {
            double* to = part.data + model * part.size;
            for (long i = 0; i < part.size; ++i) to[i] += from[i];
            from += part.size;
        }
    }
};

// The lower triangle of a sum of squares was computed; the upper one is its mirror image.
void mirror(double* second, long n_gaussians, int d) {
    for (double* end = second + n_gaussians * d * d; second < end; second += d * d)
        for (int i = 0; i < d; ++i)
            for (int j = 0; j < i; ++j) second[j * d + i] = second[i * d + j];
}

// The sums over all pairs, and log p(y) of every pair into scores, (n,).
void expectations(const GaussianModels& models, Input anchors, const Sequences& sequences, const Pairs& pairs,
                  Output scores, Sums sums, const Run& run) {
    const GaussianMixtures& e = models.emissions;
    sequences.check_dimensions(e.d), pairs.check_ranges(sequences, e.K), sums.check(e);
    const double* origin = doubles(anchors, "anchors", {e.K, e.S, e.M, e.d});
    double* to = doubles_out(scores, "scores", {pairs.n});
    run_call(run, [&](Call& call) {
        with_family(models, [&](auto family) {
            using Family = decltype(family);
            const auto m = models_of<Family>(models);
            EStep<Family>(m, sequences, pairs, origin, call).run(to, totals_of(Layout<Family>(m), sums));
            if (Family::kFullMoments) mirror(sums.second, e.K * e.S * e.M, static_cast<int>(e.d));
        });
    });
}

// The same for any other family; the frames are what `PartMixtures` says, and the upper triangles of full Gaussians' second
// moments are left empty.
void expectations_of_parts(const PartModels& models, const PartMixtures& anchors, const Sequences& sequences,
                           const Pairs& pairs, Output scores, Sums sums, const Run& run) {
    const PartMixtures& e = models.emissions;
    e.check_frames(sequences), pairs.check_ranges(sequences, e.K), sums.check(e, PartRows(e).offsets().width);
    e.check_anchors(anchors);
    double* to = doubles_out(scores, "scores", {pairs.n});
    run_call(run, [&](Call& call) {
        const auto m = models_of<PartFamily>(models);
        EStep<PartFamily>(m, sequences, pairs, PartFamily::anchors(anchors), call).run(to, totals_of(Layout<PartFamily>(m), sums));
    });
}

Iterations iterations(const Limits& limits) {
    return {limits.objective, limits.n_iter, limits.least, limits.tolerance, limits.max_iter};
}

using DiagonalGaussian = GaussianFamily<false>;

// HMMs of one number of states, with one diagonal Gaussian per state, each from its own sequences.
void check_learning(const GaussianModels& models, const Sequences& sequences, const Pairs& pairs) {
    const GaussianMixtures& e = models.emissions;
    if (e.full || e.M != 1) refuse("covars must be those of one diagonal Gaussian per state, got shape " + shape_of(e.arrays[2]) + ".");
    check_range(models.chains.n_states, e.K, "n_states", e.S, e.S);
    sequences.check_dimensions(e.d), pairs.check_ranges(sequences, e.K);
}

template <class Estimates>
void learn_gaussians(const GaussianModels& models, const Sequences& sequences, const Pairs& pairs,
                     const typename Estimates::Learning& learning, const Run& run) {
    run_call(run, [&](Call& call) {
        const auto m = models_of<DiagonalGaussian>(models);
        EStep<DiagonalGaussian>(m, sequences, pairs, models.emissions.means, call).template learn<Estimates>(learning);
    });
}

void learn(const GaussianModels& models, const Sequences& sequences, const Pairs& pairs, Prior prior, Limits limits,
           Learned learned, const Run& run) {
    const GaussianMixtures& e = models.emissions;
    check_learning(models, sequences, pairs);
    prior.check(e), limits.check(e.K), learned.check(e);
    const GaussianLearning learning{{iterations(limits), learned.startprob, learned.transmat, prior.start, prior.trans},
                                    learned.means, learned.covars, prior.scale, prior.floor, prior.covar};
    learn_gaussians<PointEstimates<DiagonalGaussian>>(models, sequences, pairs, learning, run);
}

// Posterior distributions of such HMMs, which are the first to start from.
void learn_posteriors(const GaussianModels& models, const Sequences& sequences, const Pairs& pairs, BeliefsBefore prior,
                      Limits limits, BeliefsAfter posterior, const Run& run) {
    const GaussianMixtures& e = models.emissions;
    check_learning(models, sequences, pairs);
    prior.check(e, 1), limits.check(e.K), posterior.check(e, e.S);
    const VariationalLearning learning{iterations(limits),
                                       {posterior.start, posterior.trans, posterior.beta, posterior.v, posterior.m, posterior.rate},
                                       {prior.start, prior.trans, prior.beta, prior.v, prior.m, prior.rate}};
    learn_gaussians<Posteriors>(models, sequences, pairs, learning, run);
}

// Point estimates of HMMs whose states have categories, in tables, and rates, in pairs of coefficients.
void learn_parts(const PartModels& models, const Sequences& sequences, const Pairs& pairs, PartPrior prior, Limits limits,
                 PartLearned learned, const Run& run) {
    const PartMixtures& e = models.emissions;
    if (e.diagonal || e.full || e.M != 1) refuse("only tables and rates of one component per state can be learned here.");
    check_range(models.chains.n_states, e.K, "n_states", e.S, e.S);
    e.check_frames(sequences), pairs.check_ranges(sequences, e.K);
    prior.check(e), limits.check(e.K), learned.check(e);
    const PartLearning learning{{iterations(limits), learned.startprob, learned.transmat, prior.start, prior.trans},
                                learned.probabilities, learned.coefficients, prior.tables, prior.linear, prior.low, prior.is_rate};
    run_call(run, [&](Call& call) {
        const auto m = models_of<PartFamily>(models);
        EStep<PartFamily>(m, sequences, pairs, PartFamily::anchors(e), call).template learn<PointEstimates<PartFamily>>(learning);
    });
}

}  // namespace

void bind_baum_welch(nb::module_& m) {
    using namespace nb::literals;
    m.def("expectations", &expectations, nb::kw_only(), "models"_a, "anchors"_a, "sequences"_a, "pairs"_a, "scores"_a,
          "sums"_a, "run"_a);
    m.def("expectations_of_parts", &expectations_of_parts, nb::kw_only(), "models"_a, "anchors"_a, "sequences"_a, "pairs"_a,
          "scores"_a, "sums"_a, "run"_a);
    m.def("learn_parts", &learn_parts, nb::kw_only(), "models"_a, "sequences"_a, "pairs"_a, "prior"_a, "limits"_a, "learned"_a,
          "run"_a);
    m.def("learn_posteriors", &learn_posteriors, nb::kw_only(), "models"_a, "sequences"_a, "pairs"_a, "prior"_a, "limits"_a,
          "posterior"_a, "run"_a);
    m.def("learn", &learn, nb::kw_only(), "models"_a, "sequences"_a, "pairs"_a, "prior"_a, "limits"_a, "learned"_a, "run"_a);
}
