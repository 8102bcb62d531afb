#include "arguments.hpp"

namespace VHEM_MODULE {

std::string shape_of(const Described& array) {
    std::string text = "(";
    for (size_t axis = 0; axis < array.ndim; ++axis) text += (axis ? ", " : "") + std::to_string(array.shape[axis]);
    return text + ")";
}

void refuse(const std::string& message) { throw nb::value_error(message.c_str()); }

bool is_contiguous(const Described& array) {
    int64_t expected = 1, size = 1;
    for (size_t axis = 0; axis < array.ndim; ++axis) size *= array.shape[axis];
    for (size_t axis = array.ndim; axis-- > 0;) {
        if (array.shape[axis] != 1 && array.strides[axis] != expected) return size == 0;
        expected *= array.shape[axis];
    }
    return true;
}

void check(const Described& array, nb::dlpack::dtype dtype, const char* name, std::initializer_list<long> shape) {
    bool fits = array.dtype == dtype && array.ndim == shape.size() && is_contiguous(array);
    std::string wanted;
    size_t axis = 0;
    for (long size : shape) {
        fits = fits && (size == kAny || static_cast<long>(array.shape[axis]) == size);
        wanted += (axis++ ? ", " : "") + (size == kAny ? std::string("any") : std::to_string(size));
    }
    if (fits) return;
    refuse(std::string(name) + " must be a C-contiguous array of " + (dtype == nb::dtype<double>() ? "float64" : "int64") +
           " and shape (" + wanted + "), got shape " + shape_of(array) +
           (array.dtype == dtype ? is_contiguous(array) ? "." : " in another order of memory." : " of another type."));
}

void check_range(const int64_t* values, long n, const char* name, int64_t least, int64_t most) {
    for (long i = 0; i < n; ++i)
        if (values[i] < least || values[i] > most)
            refuse(std::string(name) + " must lie between " + std::to_string(least) + " and " + std::to_string(most) +
                   ", got " + std::to_string(values[i]) + " at " + std::to_string(i) + ".");
}

}  // namespace VHEM_MODULE
