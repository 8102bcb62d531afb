// The Python face of the compiled kernels: one such module per instruction set.
#include <nanobind/nanobind.h>

#include "simd.hpp"

namespace nb = nanobind;

void bind_vhem(nb::module_& m);
void bind_sequences(nb::module_& m);
void bind_baum_welch(nb::module_& m);
void bind_kmeans(nb::module_& m);
void bind_moments(nb::module_& m);
void bind_ppk(nb::module_& m);

namespace {

// The best of the instruction sets that this processor runs and a module is built for.
const char* best_instruction_set() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        return "avx2";
#endif
    return "baseline";
}

}  // namespace

NB_MODULE(VHEM_MODULE, m) {
    m.attr("LANES") = kLanes;
    m.def("best_instruction_set", &best_instruction_set);
    bind_vhem(m);
    bind_sequences(m);
    bind_baum_welch(m);
    bind_kmeans(m);
    bind_moments(m);
    bind_ppk(m);
}
