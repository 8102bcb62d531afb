// Mean and sum of squares of the frames of many groups, each group for itself; missing values are passed over.
#include "arguments.hpp"

namespace {

// The frames of one group, and a row of each result.
struct Group {
    const double *begin, *end;
    double *count, *mean, *squares, *largest;
};

// Of n <= kLanes dimensions from j on, one per lane. Sums are taken relative to the first frame, so that an offset costs
// no digits.
void take_moments(const Group& g, long j, int n, long d) {
    auto known = [](vec row) { return row == row ? row : vec{}; };
    const vec origin = known(load_partial(g.begin + j, n));
    vec count = {}, total = {}, squares = {}, top = {};
    for (const double* x = g.begin + j; x < g.end; x += d) {
        const vec row = load_partial(x, n);
        count += row == row ? splat(1.0) : vec{};
        total += known(row - origin);
        top = vmax(top, vabs(known(row)));
    }
    const vec mean = count > 0.0 ? origin + total / count : vec{};
    for (const double* x = g.begin + j; x < g.end; x += d) {
        const vec z = known(load_partial(x, n) - mean);
        squares = fma(z, z, squares);
    }
    store_partial(g.count + j, count, n);
    store_partial(g.mean + j, mean, n);
    store_partial(g.squares + j, squares, n);
    store_partial(g.largest + j, top, n);
}

// Of every group and dimension, (groups, d).
void group_moments(const Sequences& groups, Output count, Output mean, Output squares, Output largest, const Run& run) {
    const long d = groups.d, n = groups.n;
    double *to_count = doubles_out(count, "count", {n, d}), *to_mean = doubles_out(mean, "mean", {n, d});
    double *to_squares = doubles_out(squares, "squares", {n, d}), *to_largest = doubles_out(largest, "largest", {n, d});
    run_call(run, [&](Call& call) {
        for (long k = 0; k < n; ++k) {
            const Group g{groups.begin(k), groups.begin(k + 1), to_count + k * d, to_mean + k * d, to_squares + k * d, to_largest + k * d};
            for (long j = 0; j < d; j += kLanes) {
                call.caller.checkpoint();
                take_moments(g, j, static_cast<int>(std::min<long>(kLanes, d - j)), d);
            }
        }
    });
}

}  // namespace

void bind_moments(nb::module_& m) {
    using namespace nb::literals;
    m.def("group_moments", &group_moments, nb::kw_only(), "groups"_a, "count"_a, "mean"_a, "squares"_a, "largest"_a, "run"_a);
}
