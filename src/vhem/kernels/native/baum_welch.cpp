// The E-step of Baum-Welch for many pairs of a sequence and an HMM.
//
// Short sequences are done kLanes at a time. What does not suit (long sequences, packs with too few lanes in use, missing
// values under full covariances, and lanes in which numbers that may matter fell below the smallest double) is done
// one pair at a time. Each pair's sums go to a place of their own and are added up in the
// order of the pairs, so the result has the same bits for any number of threads.
#include <memory>

#include "baum_welch_pack.hpp"

namespace {

constexpr long kPackBytes = 1L << 24;   // the most memory of one pack's frames
constexpr long kShort = 1000;           // frames that are learned from in a pack however few lanes are in use
constexpr long kSlotDoubles = 1L << 22; // the most sums kept apart at a time

// Where the sums over all pairs go, HMM by HMM: an array each for start, trans, occupancy, first and second.
struct Totals {
    struct Part {
        double* data;
        long size;  // of one HMM
    };
    Part parts[5];
};

// All pairs, in packs of kLanes.
template <bool Full, bool Mixture, int States>
class EStep {
  public:
    EStep(const Arrays& arrays, const Frames& frames, const Pairs& pairs, const double* anchors, int n_threads)
        : a(arrays), frames(frames), pairs(pairs), anchors(anchors), n_threads(n_threads), layout(arrays),
          triangles(arrays, n_threads), packs(n_threads) {}

    void run(double* scores, const Totals& totals) {
        const long n_packs = (pairs.n + kLanes - 1) / kLanes;
        const long round = std::min(n_packs, std::max(1L, kSlotDoubles / (layout.size * kLanes)));
        for (long begin = 0; begin < n_packs; begin += round) {
            const long n = std::min(round, n_packs - begin);
            const long first = begin * kLanes, last = std::min(pairs.n, (begin + n) * kLanes);
            const bool wanted = std::any_of(pairs.weight + first, pairs.weight + last, [](double w) { return w > 0; });
            if (wanted && !slots) slots.reset(new double[kLanes * round * layout.size]);
            parallel_for(n, n_threads, [&](long task, int thread) {
                FlushDenormals flush;
                const long at = (begin + task) * kLanes;
                run_pack(at, wanted ? &slots[(at - first) * layout.size] : nullptr, thread, scores + at);
            });
            if (wanted) add_up(first, last, totals);
        }
    }

    void learn(const Learning& learning) {
        parallel_for((pairs.n + kLanes - 1) / kLanes, n_threads, [&](long task, int thread) {
            FlushDenormals flush;
            const int lanes = static_cast<int>(std::min<long>(kLanes, pairs.n - task * kLanes));
            if (suits(task * kLanes, lanes, kShort)) pack(thread).learn(pairs, task * kLanes, lanes, learning);
        });
    }

  private:
    const Arrays& a;
    const Frames& frames;
    const Pairs& pairs;
    const double* anchors;
    const int n_threads;
    const Layout layout;
    const Triangles triangles;
    std::vector<std::unique_ptr<Pack<Full, Mixture, States>>> packs;  // one per thread
    std::unique_ptr<double[]> slots;

    Pack<Full, Mixture, States>& pack(int thread) {
        if (!packs[thread]) packs[thread].reset(new Pack<Full, Mixture, States>(a, triangles, anchors, frames));
        return *packs[thread];
    }

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
            done = pack(thread).run(pairs, at, lanes, scores, wanted ? slot : nullptr);
        }
        for (int l = 0; l < lanes; ++l)
            if (!done[l]) scores[l] = run_alone(at + l, wanted ? slot[l] : nullptr);
    }

    // Whether enough lanes are busy long enough, or all of them only briefly, in memory that stays small.
    bool suits(long at, int lanes, long brief = 0) const {
        long longest = 0, all = 0;
        for (int l = 0; l < lanes; ++l) {
            const long T = frames.length(pairs.sequence[at + l]);
            longest = std::max(longest, T);
            all += T;
        }
        return (longest <= brief || longest * kLanes <= 3 * all) &&
               longest * Pack<Full, Mixture, States>::doubles_per_frame(a) * static_cast<long>(sizeof(double)) <= kPackBytes;
    }

    double run_alone(long pair, double* slot) const {
        const long i = pairs.sequence[pair];
        Accumulator accumulator(a, pairs.model[pair], anchors);
        const double* X = frames.begin(i, a.d);
        if (!slot || !(pairs.weight[pair] > 0)) return accumulator.log_likelihood(X, frames.length(i));
        std::fill_n(slot, layout.size, 0.0);
        return accumulator.add(X, frames.length(i), pairs.weight[pair], slot);
    }

    // Every HMM's sums are added by one thread, in the order of the pairs.
    void add_up(long first, long last, const Totals& totals) const {
        parallel_for(n_threads, n_threads, [&](long share, int) {
            for (long pair = first; pair < last; ++pair)
                if (pairs.weight[pair] > 0 && pairs.model[pair] % n_threads == share)
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

template <bool Full, bool Mixture, int States = 0>
void run(const Arrays& arrays, const Frames& frames, const Pairs& pairs, const double* anchors, int n_threads,
         double* scores, const Totals& totals) {
    EStep<Full, Mixture, States>(arrays, frames, pairs, anchors, n_threads).run(scores, totals);
}

using Run = decltype(&run<false, false>);

template <bool Full>
Run choose(const Arrays& arrays) {
    if (arrays.M > 1) return run<Full, true>;
    static constexpr Run of_size[] = {run<Full, false>, run<Full, false>, run<Full, false, 2>,
                                      run<Full, false, 3>, run<Full, false, 4>, run<Full, false, 5>};
    return of_size[arrays.S <= 5 ? arrays.S : 0];
}

void expectations(Doubles startprob, Doubles transmat, Doubles mix_weights, Doubles means, Doubles covars,
                  Integers n_states, Doubles anchors, Doubles X, Integers offsets, Integers sequence, Integers model,
                  Doubles weight, int n_threads, DoublesOut scores, DoublesOut start, DoublesOut trans, DoublesOut occupancy,
                  DoublesOut first, DoublesOut second) {
    const Arrays arrays = arrays_of(startprob, transmat, mix_weights, means, covars, n_states);
    const Frames frames = frames_of(X, offsets);
    const Pairs pairs{sequence.data(), model.data(), weight.data(), static_cast<long>(sequence.shape(0))};
    nb::gil_scoped_release release;
    const Run chosen = arrays.full ? choose<true>(arrays) : choose<false>(arrays);
    const Layout layout(arrays);
    const Totals totals{{{start.data(), layout.trans},
                         {trans.data(), layout.occupancy - layout.trans},
                         {occupancy.data(), layout.first - layout.occupancy},
                         {first.data(), layout.second - layout.first},
                         {second.data(), layout.size - layout.second}}};
    chosen(arrays, frames, pairs, anchors.data(), n_threads, scores.data(), totals);
    if (arrays.full) mirror(second.data(), static_cast<long>(arrays.K) * arrays.S * arrays.M, arrays.d);
}

template <int States>
void learn_of_size(const Arrays& arrays, const Frames& frames, const Pairs& pairs, int n_threads, const Learning& l) {
    EStep<false, false, States>(arrays, frames, pairs, arrays.means, n_threads).learn(l);
}

// One diagonal Gaussian a state, one sequence an HMM, all of one number of states.
void learn(DoublesOut startprob, DoublesOut transmat, Doubles mix_weights, DoublesOut means, DoublesOut covars,
           Integers n_states, Doubles start, Doubles trans, double covar, Doubles scale, Doubles floor, Doubles X,
           Integers offsets, Integers sequence, Integers model, Doubles weight, Doubles least, Doubles tolerance,
           int max_iter, int n_threads, DoublesOut objective, IntegersOut n_iter) {
    const Arrays arrays = {startprob.data(),
                           transmat.data(),
                           mix_weights.data(),
                           means.data(),
                           covars.data(),
                           n_states.data(),
                           static_cast<int>(means.shape(0)),
                           static_cast<int>(means.shape(1)),
                           1,
                           static_cast<int>(means.shape(3)),
                           false};
    const Frames frames = frames_of(X, offsets);
    const Pairs pairs{sequence.data(), model.data(), weight.data(), static_cast<long>(sequence.shape(0))};
    const Learning learning{startprob.data(), transmat.data(), means.data(),  covars.data(), objective.data(),
                            n_iter.data(),    start.data(),    trans.data(),  scale.data(),  floor.data(),
                            least.data(),     tolerance.data(), covar,         max_iter};
    nb::gil_scoped_release release;
    static constexpr decltype(&learn_of_size<0>) of_size[] = {learn_of_size<0>, learn_of_size<0>, learn_of_size<2>,
                                                              learn_of_size<3>, learn_of_size<4>, learn_of_size<5>};
    of_size[arrays.S <= 5 ? arrays.S : 0](arrays, frames, pairs, n_threads, learning);
}

}  // namespace

void bind_baum_welch(nb::module_& m) {
    m.def("expectations", &expectations);
    m.def("learn", &learn);
}
