// Rows of a long table: numbered by the sequence that they belong to, and sorted by sequence and time.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arguments.hpp"

namespace VHEM_MODULE {
namespace {

using Codes = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using CodesOut = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Writes over `codes` the numbers of the pairs (codes, others), in order of first appearance, and returns the row in
// which each is first met.
std::vector<int64_t> number_pairs(CodesOut codes, Codes others) {
    if (codes.shape(0) != others.shape(0)) refuse("codes and others must have the same length.");
    std::unordered_map<uint64_t, int32_t> numbers;
    std::vector<int64_t> first;
    int32_t *code = codes.data(), last_number = 0;
    const int32_t* other = others.data();
    uint64_t last = 0;
    for (size_t row = 0; row < codes.shape(0); ++row) {
        const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(code[row])) << 32 | static_cast<uint32_t>(other[row]);
        if (!row || pair != last) {  // rows of a sequence mostly stand together
            const auto [found, is_new] = numbers.emplace(pair, static_cast<int32_t>(first.size()));
            if (is_new) first.push_back(static_cast<int64_t>(row));
            last = pair, last_number = found->second;
        }
        code[row] = last_number;
    }
    return first;
}

// Fills `order` with the rows sorted by code and, within a code, by time; equal ones stay as they are. Returns the first
// place in the order whose row has the code and the time of the next, or -1; `ends` says where the rows of each code end.
int64_t order_rows(Codes codes, Input times, Output order, Output ends) {
    const long n = static_cast<long>(codes.shape(0)), n_codes = size_of(ends, 0);
    const int32_t* code = codes.data();
    const double* time = doubles(times, "times", {n});
    int64_t* rows = integers_out(order, "order", {n});
    int64_t* end = integers_out(ends, "ends", {n_codes});
    std::fill(end, end + n_codes, 0);
    for (long row = 0; row < n; ++row) {
        if (code[row] < 0 || code[row] >= n_codes) refuse("codes must lie between 0 and the number of ends.");
        ++end[code[row]];
    }
    for (int64_t k = 0, begin = 0; k < n_codes; ++k) begin += std::exchange(end[k], begin);
    for (long row = 0; row < n; ++row) rows[end[code[row]]++] = row;
    int64_t twice = -1, begin = 0;
    for (long k = 0; k < n_codes; begin = end[k++]) {
        const auto earlier = [time](int64_t a, int64_t b) { return time[a] < time[b]; };
        int64_t *from = rows + begin, *to = rows + end[k];
        if (!std::is_sorted(from, to, earlier)) std::stable_sort(from, to, earlier);
        for (int64_t* at = from; twice < 0 && at + 1 < to; ++at)
            if (time[at[0]] == time[at[1]]) twice = at - rows;
    }
    return twice;
}

// Puts row order[i] of X in place i, cycle by cycle, without a second X.
void permute_rows(Output X, Input order) {
    const long n = size_of(X, 0), d = size_of(X, 1);
    double* x = doubles_out(X, "X", {n, d});
    const int64_t* from = integers(order, "order", {n});
    check_range(from, n, "order", 0, n - 1);
    std::vector<bool> done(static_cast<size_t>(n));
    std::vector<double> kept(static_cast<size_t>(d));
    const size_t bytes = static_cast<size_t>(d) * sizeof(double);
    for (long start = 0; start < n; ++start) {
        if (done[static_cast<size_t>(start)] || from[start] == start) continue;
        std::memcpy(kept.data(), x + start * d, bytes);
        long at = start;
        for (;; at = from[at]) {
            done[static_cast<size_t>(at)] = true;
            if (done[static_cast<size_t>(from[at])]) break;  // back at the start
            std::memcpy(x + at * d, x + from[at] * d, bytes);
        }
        std::memcpy(x + at * d, kept.data(), bytes);
    }
}

}  // namespace
}  // namespace VHEM_MODULE

void bind_rows(nb::module_& m) {
    using namespace nb::literals;
    using namespace VHEM_MODULE;
    m.def("number_pairs", &number_pairs, nb::kw_only(), "codes"_a, "others"_a);
    m.def("order_rows", &order_rows, nb::kw_only(), "codes"_a, "times"_a, "order"_a, "ends"_a);
    m.def("permute_rows", &permute_rows, nb::kw_only(), "X"_a, "order"_a);
}
