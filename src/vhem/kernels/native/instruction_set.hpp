// Which module suits this processor: asked by Python, and by CMake to know what to compile.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

#if defined(__x86_64__)
// Whether all these bits are set.
inline bool has(unsigned flags, unsigned bits) { return (flags & bits) == bits; }

// Which registers the system keeps when it switches threads.
inline unsigned kept_registers() {
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
#endif

// The best of the instruction sets that this processor runs and a module is built for. It asks the processor itself:
// `__builtin_cpu_supports` needs a library that Zig, which makes the wheels, cannot link into modules.
inline const char* best_instruction_set() {
#if defined(__x86_64__)
    constexpr unsigned kFma = 1u << 12, kAvx = 1u << 27 | 1u << 28;           // leaf 1, ecx; 27: xgetbv may be asked
    constexpr unsigned kAvx2 = 1u << 5 | 1u << 8;                              // leaf 7, ebx: AVX2 and BMI2
    constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;  // F, DQ, CD, BW, VL
    constexpr unsigned kYmm = 0x6, kZmm = 0xe6;
    unsigned a, b, c, d, extended;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, kAvx | kFma) || !has(kept_registers(), kYmm)) return "baseline";
    if (!__get_cpuid_count(7, 0, &a, &extended, &c, &d) || !has(extended, kAvx2)) return "baseline";
    return has(extended, kAvx512) && has(kept_registers(), kZmm) ? "avx512" : "avx2";
#else
    return "baseline";
#endif
}

}  // namespace
