// Cells of delimited text to numbers and names, for text without surprises: the delimiter never stands inside a cell, all
// lines have the same number of cells, numbers are plain. Anything else is not explained here but handed back to Python.
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arguments.hpp"

namespace VHEM_MODULE {
namespace {

constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kExactPower = 22;               // the powers of ten that are doubles
constexpr uint64_t kExactInteger = 1ull << 53;  // integers up to here are doubles
constexpr int kDigits = 18;                   // that surely fit into 64 bits
constexpr long kLongest = 64;                 // characters of a number

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view cell) {
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
    return cell;
}

// How cells without a value are written, as readers/cells.py has it.
bool is_missing(std::string_view cell) {
    if (cell.size() > 4) return false;
    char lower[5] = {};
    for (size_t i = 0; i < cell.size(); ++i) lower[i] = static_cast<char>(cell[i] >= 'A' && cell[i] <= 'Z' ? cell[i] + 32 : cell[i]);
    for (const char* word : {"", "na", "n/a", "nan", "null", "none", "-", "."})
        if (!std::strcmp(lower, word)) return true;
    return false;
}

// The number that Python's own conversion finds: the nearest double, whatever the number of digits.
bool exact_number(std::string_view cell, char decimal, double* out) {
    char text[kLongest + 1];
    if (cell.size() > kLongest) return false;
    for (size_t i = 0; i < cell.size(); ++i) text[i] = cell[i] == decimal ? '.' : cell[i];
    text[cell.size()] = 0;
    *out = PyOS_string_to_double(text, nullptr, nullptr);
    if (*out == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    return true;
}

// Reads [+-]digits[.digits][e[+-]digits]; false if the cell is anything else.
bool plain_number(std::string_view cell, char decimal, double* out) {
    const char *at = cell.data(), *end = at + cell.size();
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) ++at;
    uint64_t digits = 0;
    int n_digits = 0, n_read = 0, power = 0;
    for (bool behind = false; at < end; ++at) {
        if (*at == decimal && !behind) {
            behind = true;
            continue;
        }
        if (!is_digit(*at)) break;
        ++n_read;
        if (n_digits < kDigits) digits = 10 * digits + static_cast<uint64_t>(*at - '0');
        n_digits += n_digits || *at != '0';  // zeros in front do not count
        power -= behind;
    }
    if (!n_read) return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const bool down = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) ++at;
        if (at == end || end - at > 4) return false;
        int exponent = 0;
        for (; at < end && is_digit(*at); ++at) exponent = 10 * exponent + (*at - '0');
        power += down ? -exponent : exponent;
    }
    if (at != end) return false;
    if (n_digits > kDigits || digits > kExactInteger || std::abs(power) > kExactPower) return exact_number(cell, decimal, out);
    const double value = static_cast<double>(digits);  // one operation on exact numbers is rounded correctly
    *out = power < 0 ? value / kPowers[-power] : value * kPowers[power];
    if (negative) *out = -*out;
    return true;
}

bool number(std::string_view cell, char decimal, double largest, double* out) {
    cell = trimmed(cell);
    if (plain_number(cell, decimal, out)) return std::abs(*out) <= largest;
    *out = std::nan("");
    return is_missing(cell);
}

// The numbers of names. Python says which number a new spelling has, and may refuse it.
class Names {
public:
    explicit Names(nb::callable number) : number_(std::move(number)) {}

    int64_t operator()(std::string_view cell) {
        if (!last_.empty() && cell == last_) return last_number_;
        auto found = numbers_.find(std::string(cell));
        if (found == numbers_.end()) {
            const int64_t k = nb::cast<int64_t>(number_(nb::str(cell.data(), cell.size())));
            found = numbers_.emplace(cell, k).first;
        }
        last_ = found->first;  // keys of a map stay where they are
        return last_number_ = found->second;
    }

private:
    nb::callable number_;
    std::unordered_map<std::string, int64_t> numbers_;
    std::string_view last_;
    int64_t last_number_ = 0;
};

// What is to be made of a line's cells.
struct Cutting {
    char delimiter, decimal;
    double largest;
    std::vector<int64_t> kinds;  // per column: -1 nothing, 0 a number, k the names of the k-th
    std::vector<Names*> names;
};

// Fills rows from a text of whole lines; false at the first surprise.
bool cut(std::string_view text, const Cutting& to, double* values, int64_t* codes) {
    const char *at = text.data(), *end = at + text.size();
    while (at < end) {
        const char* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
        if (!newline || at == newline || *at == to.delimiter) return false;
        for (size_t column = 0; column < to.kinds.size(); ++column) {
            if (at > newline) return false;
            const char* stop = static_cast<const char*>(std::memchr(at, to.delimiter, static_cast<size_t>(newline - at)));
            if (!stop) stop = newline;
            const std::string_view cell(at, static_cast<size_t>(stop - at));
            const int64_t kind = to.kinds[column];
            if (kind == 0 && !number(cell, to.decimal, to.largest, values++)) return false;
            if (kind > 0) {
                const int64_t code = (*to.names[static_cast<size_t>(kind - 1)])(cell);
                if (code < 0) return false;
                *codes++ = code;
            }
            at = stop + 1;
        }
        if (at != newline + 1) return false;
    }
    return true;
}

bool cut_text(nb::str text, const char* delimiter, const char* decimal, double largest, Input kinds, nb::list names,
              Output values, Output codes) {
    const long width = size_of(kinds, 0), n = size_of(values, 0);
    const int64_t* kind = integers(kinds, "kinds", {kAny});
    check_range(kind, width, "kinds", -1, static_cast<int64_t>(nb::len(names)));
    Cutting to{delimiter[0], decimal[0], largest, {kind, kind + width}, {}};
    long n_numbers = 0, n_names = 0;
    for (long k = 0; k < width; ++k) n_numbers += kind[k] == 0, n_names += kind[k] > 0;
    for (nb::handle one : names) to.names.push_back(nb::cast<Names*>(one));
    double* numbers = doubles_out(values, "values", {n, n_numbers});
    int64_t* numbered = integers_out(codes, "codes", {n, n_names});
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!utf8) throw nb::python_error();
    const std::string_view lines(utf8, static_cast<size_t>(size));
    long n_lines = 0;
    for (const char* at = utf8; (at = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(utf8 + size - at)))); ++at) ++n_lines;
    if (n_lines != n) refuse("the text must have as many lines as there are rows to fill.");
    return cut(lines, to, numbers, numbered);
}

}  // namespace
}  // namespace VHEM_MODULE

void bind_tables(nb::module_& m) {
    using namespace nb::literals;
    using namespace VHEM_MODULE;
    nb::class_<Names>(m, "Names").def(nb::init<nb::callable>(), "number"_a);
    m.def("cut_text", &cut_text, nb::kw_only(), "text"_a, "delimiter"_a, "decimal"_a, "largest"_a, "kinds"_a, "names"_a, "values"_a,
          "codes"_a);
}
