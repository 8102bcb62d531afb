// k-means on the points of many groups, each group for itself: the start of many HMMs.
#include <limits>
#include <vector>

#include "arguments.hpp"
#include "constants.hpp"

namespace {

// One group of n points in d dimensions, of which every `stride`-th takes part until the last assignment.
class Group {
  public:
    Group(const double* Z, long n, int d, int C, long stride, Worker& worker)
        : Z(Z), n(n), stride(stride), d(d), C(C), worker(worker), centers(C * d), sums(C * d), counts(C), distance(n) {}

    void run(const double* uniform, int max_iter, int64_t* labels) {
        seed(uniform);
        for (int i = 0; i < max_iter && assign(stride, labels); ++i) update(labels);
        assign(1, labels);
    }

  private:
    const double* Z;
    const long n, stride;
    const int d, C;
    Worker& worker;
    std::vector<double> centers, sums, counts, distance;

    double squared(long i, int c) const {
        double total = 0;
        for (int j = 0; j < d; ++j) {
            double difference = Z[i * d + j] - centers[c * d + j];
            total += difference * difference;
        }
        return total;
    }

    // k-means++: each centre is a point drawn in proportion to its squared distance from the centres before it.
    void seed(const double* uniform) {
        std::fill(distance.begin(), distance.end(), std::numeric_limits<double>::infinity());
        for (int c = 0; c < C; ++c) {
            worker.checkpoint();
            long chosen = std::min(n - 1, static_cast<long>(uniform[c] * static_cast<double>(n)));
            if (c > 0) chosen = draw(uniform[c], chosen);
            std::copy(Z + chosen * d, Z + (chosen + 1) * d, &centers[c * d]);
            for (long i = 0; i < n; i += stride) distance[i] = std::min(distance[i], squared(i, c));
        }
    }

    long draw(double uniform, long otherwise) const {
        double all = 0, so_far = 0;
        for (long i = 0; i < n; i += stride) all += distance[i];
        if (!(all > 0)) return otherwise;  // fewer distinct points than centres
        for (long i = 0; i < n; i += stride)
            if ((so_far += distance[i]) > uniform * all) return i;
        return otherwise;
    }

    bool assign(long step, int64_t* labels) const {
        bool changed = false;
        for (long i = 0; i < n; i += step) {
            worker.checkpoint_at(i / step);
            int best = 0;
            double least = squared(i, 0);
            for (int c = 1; c < C; ++c) {
                double now = squared(i, c);
                if (now < least * kNearer) least = now, best = c;
            }
            changed = changed || labels[i] != best;
            labels[i] = best;
        }
        return changed;
    }

    void update(const int64_t* labels) {
        std::fill(sums.begin(), sums.end(), 0.0);
        std::fill(counts.begin(), counts.end(), 0.0);
        for (long i = 0; i < n; i += stride) {
            counts[labels[i]] += 1;
            for (int j = 0; j < d; ++j) sums[labels[i] * d + j] += Z[i * d + j];
        }
        for (int c = 0; c < C; ++c)
            for (int j = 0; j < d && counts[c] > 0; ++j) centers[c * d + j] = sums[c * d + j] / counts[c];
    }
};

// The cluster of every point among the points of its group into labels, (N,), which may hold a guess. `uniforms`,
// (groups, centres), are random numbers in [0, 1); of a group only `most_points`, evenly spaced, move the centres.
void kmeans(const Sequences& groups, Input uniforms, int max_iter, long most_points, Output labels, const Run& run) {
    const int d = static_cast<int>(groups.d), C = static_cast<int>(size_of(uniforms, 1));
    const double* random = doubles(uniforms, "uniforms", {groups.n, kAny});
    int64_t* to = integers_out(labels, "labels", {size_of(groups.arrays[0], 0)});
    for (long i = 0; i < groups.n * C; ++i)
        if (!(random[i] >= 0 && random[i] < 1)) refuse("uniforms must be at least 0 and below 1, got " + std::to_string(random[i]) + ".");
    if (most_points < 1 || C < 1) refuse("most_points and the number of columns of uniforms must be at least 1.");
    run_call(run, [&](Call& call) {
        parallel_for(call, groups.n, [&](long g, Worker& worker) {
            const long n = groups.length(g);
            if (!n) return;
            Group group(groups.begin(g), n, d, C, (n + most_points - 1) / most_points, worker);
            group.run(random + g * C, max_iter, to + groups.offsets[g]);
        });
    });
}

}  // namespace

void bind_kmeans(nb::module_& m) {
    using namespace nb::literals;
    m.def("kmeans", &kmeans, nb::kw_only(), "groups"_a, "uniforms"_a, "max_iter"_a, "most_points"_a, "labels"_a, "run"_a);
}
