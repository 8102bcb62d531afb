// k-means on the points of many groups, each group for itself: the start of many HMMs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <limits>
#include <vector>

#include "threads.hpp"

namespace nb = nanobind;

namespace {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>;
using IntegersOut = nb::ndarray<int64_t, nb::c_contig, nb::device::cpu>;

// One group of n points in d dimensions, of which every `stride`-th takes part until the last assignment.
class Group {
  public:
    Group(const double* Z, long n, int d, int C, long stride)
        : Z(Z), n(n), stride(stride), d(d), C(C), centers(C * d), sums(C * d), counts(C), distance(n) {}

    void run(const double* uniform, int max_iter, int64_t* labels) {
        seed(uniform);
        for (int i = 0; i < max_iter && assign(stride, labels); ++i) update(labels);
        assign(1, labels);
    }

  private:
    const double* Z;
    const long n, stride;
    const int d, C;
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
            long chosen = static_cast<long>(uniform[c] * static_cast<double>(n));
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
            int best = 0;
            double least = squared(i, 0);
            for (int c = 1; c < C; ++c) {
                double now = squared(i, c);
                if (now < least) least = now, best = c;
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

void kmeans(Doubles Z, Integers offsets, Doubles uniforms, int max_iter, long most_points, int n_threads,
            IntegersOut labels) {
    const int d = static_cast<int>(Z.shape(1)), C = static_cast<int>(uniforms.shape(1));
    nb::gil_scoped_release release;
    parallel_for(static_cast<long>(uniforms.shape(0)), n_threads, [&](long g, int) {
        const long begin = offsets.data()[g], n = offsets.data()[g + 1] - begin;
        if (!n) return;
        Group group(Z.data() + begin * d, n, d, C, (n + most_points - 1) / most_points);
        group.run(uniforms.data() + g * C, max_iter, labels.data() + begin);
    });
}

}  // namespace

void bind_kmeans(nb::module_& m) { m.def("kmeans", &kmeans); }
