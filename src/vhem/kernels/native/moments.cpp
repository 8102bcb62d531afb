// Mean and sum of squares of the frames of many groups, each group for itself; missing values are passed over.
#include "hmm.hpp"

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

// Every group has a frame; all arrays but X are (groups, d).
void group_moments(Doubles X, Integers offsets, DoublesOut count, DoublesOut mean, DoublesOut squares,
                   DoublesOut largest) {
    const long d = static_cast<long>(X.shape(1)), groups = static_cast<long>(offsets.shape(0)) - 1;
    const int64_t* at = offsets.data();
    nb::gil_scoped_release release;
    for (long k = 0; k < groups; ++k) {
        const Group g{X.data() + at[k] * d, X.data() + at[k + 1] * d, count.data() + k * d,
                      mean.data() + k * d, squares.data() + k * d,     largest.data() + k * d};
        for (long j = 0; j < d; j += kLanes) take_moments(g, j, static_cast<int>(std::min<long>(kLanes, d - j)), d);
    }
}

}  // namespace

void bind_moments(nb::module_& m) { m.def("group_moments", &group_moments); }
