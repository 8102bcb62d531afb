// Mean and sum of squares of the frames of many groups, each group for itself; missing values are passed over.
#include <cmath>

#include "hmm.hpp"

namespace {

// The frames of one group, and a row of each result.
struct Group {
    const double *begin, *end;
    double *count, *mean, *squares, *largest;
};

// Of one dimension. Sums are taken relative to the first frame, so that an offset costs no digits. Returns false if a
// value was missing where none was expected.
template <bool Gaps>
bool take_moments(const Group& g, long j, long d) {
    const double origin = g.begin[j] == g.begin[j] ? g.begin[j] : 0.0;
    double n = 0, sum = 0, squares = 0, top = 0;
    for (const double* x = g.begin + j; x < g.end; x += d) {
        if (Gaps && *x != *x) continue;
        n += 1;
        sum += *x - origin;
        top = std::max(top, std::fabs(*x));
    }
    if (sum != sum) return false;
    const double mean = n > 0 ? origin + sum / n : 0.0;
    for (const double* x = g.begin + j; x < g.end; x += d)
        if (!Gaps || *x == *x) squares += (*x - mean) * (*x - mean);
    g.count[j] = n, g.mean[j] = mean, g.squares[j] = squares, g.largest[j] = top;
    return true;
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
        for (long j = 0; j < d; ++j)
            if (!take_moments<false>(g, j, d)) take_moments<true>(g, j, d);
    }
}

}  // namespace

void bind_moments(nb::module_& m) { m.def("group_moments", &group_moments); }
