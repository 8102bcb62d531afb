// A block of frames as the densities of any family read them, one frame per lane of a register.
#pragma once

#include <vector>

#include "constants.hpp"
#include "simd.hpp"

namespace {

// How packs of sequences treat missing values: leave such sequences to be done one at a time, compute them beside the
// others with code of their own, or with the code of all.
enum class Gaps { kAlone, kBeside, kAlike };

inline int round_up(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Up to kBlockFrames frames, one per lane of a register.
struct FrameBlock {
    const long d;
    const double* X = nullptr;    // the frames as they were given, [frame][dimension]
    int n = 0;
    std::vector<double> columns;  // the same, [dimension][frame]
    std::vector<int> incomplete;  // frames with missing values

    const double* column(long j) const { return columns.data() + j * kBlockFrames; }
    double* column(long j) { return columns.data() + j * kBlockFrames; }
    const double* row(int t) const { return X + t * d; }

    explicit FrameBlock(long d) : d(d), columns(d * kBlockFrames) {}

    void load(const double* from, int count) {
        X = from, n = count;
        incomplete.clear();
        for (int t = 0; t < n; ++t) {
            bool missing = false;
            for (int j = 0; j < d; ++j) {
                double x = X[t * d + j];
                columns[j * kBlockFrames + t] = x;
                missing = missing || x != x;
            }
            if (missing) incomplete.push_back(t);
        }
        for (int t = n; t < round_up(n); ++t)
            for (int j = 0; j < d; ++j) columns[j * kBlockFrames + t] = 0.0;
    }
};

}  // namespace
