// Every number that the kernels decide by, under a name that says what it is.
#pragma once

namespace {

constexpr double kLogTwoPi = 1.8378770664093454836;

// Logs of zero and of nearly zero.
constexpr double kLogZero = -1e300;      // stands for log 0: finite, so that no NaN can come of it
constexpr double kLeastLog = -1e290;     // a density's log is kept above this, far from kLogZero
constexpr double kBelowAll = -1e308;     // where a search for the largest number begins
constexpr double kNoDivisor = 1e-300;    // takes the place of zero below a fraction or in a logarithm

constexpr double kLeastChance = 1e-300;  // a probability below this is zero

// What underflow may take, and how it is noticed.
constexpr double kLeastProduct = 1e-200;     // VHEM: sums of products are trusted down to this, else done again in logs
constexpr double kSmallTransition = 1e-20;   // sequences: products with transitions below this may vanish
constexpr double kDropped = 1e-280;          // sequences: forward probabilities below this are set to zero, and counted
constexpr double kMostDropped = 1e-13;       // sequences: the share of the likelihood that dropping may cost
constexpr double kForgotten = 1e-13;         // sequences: relative difference that shows that a chain has forgotten
constexpr double kLeastBest = 1e-30;         // Baum-Welch: the largest density of a frame, relative to what it was scaled by
constexpr double kErgodic = 1e-100;          // transitions all above this forget what was dropped in one step
constexpr double kSmallProduct = 1e-20;      // Baum-Welch: times the smallest sum of a frame, still a normal double
constexpr double kStepLoss = 1e-250;         // PPK: more than one step can lose, relative to the sum of F
constexpr double kNegligibleLoss = 1e-15;    // PPK: loss that does not show

// VHEM: which pairs are left out, and when a recursion has become stationary.
constexpr double kCutoff = 64;               // log of a responsibility that is left out: exp(-64) = 2e-28
constexpr double kCarriedMargin = 32;        // so much lower must be a bound that was not computed in this E-step
constexpr double kNegligibleMass = 1e-24;    // skipped mass relative to a cluster's: 1e-9 of the least share estimated
constexpr double kLeastGap = -700;           // below this exp(gap) adds nothing
constexpr double kStationaryLogs = 4e-15;    // change of Y per look that is rounding
constexpr double kStationaryShares = 4e-16;  // change of ν per look that is rounding
constexpr int kLookEvery = 4, kLeastStretch = 16;  // steps between looks; shorter tails are not worth a stretch

// Baum-Welch inside the compiled loop.
constexpr double kRounding = 1e-9;  // a fall of the objective, relative to its size, that arithmetic can explain
constexpr double kFarShift = 1e6;   // squared deviations: moments about an anchor this far off have lost six digits

// Kalman filter: share of the observations' squares that must be left unexplained for differences of sums to be exact enough.
constexpr double kLeastLeft = 1e-6;

// k-means: of centres equally far but for rounding, the first is taken, on any engine.
constexpr double kNearer = 1 - 1e-12;

// PPK: variances within these bounds may be multiplied, eight at a time, before a logarithm is taken.
constexpr double kLeastModerate = 1e-30, kMostModerate = 1e30;
constexpr long kVariancesPerLog = 8;

// Sizes of work and memory.
constexpr int kBlockFrames = 64;             // frames whose densities are computed together
constexpr long kBlockModels = 32;            // VHEM: base models per block, at most
constexpr long kBlockBytes = 1 << 20;        // VHEM: emissions of a block should stay in the second-level cache
constexpr long kSparseBlockBytes = 1 << 24;  // VHEM: the same where only a few emissions of a block are computed
constexpr long kTapeBytes = 1 << 23;         // VHEM: backward steps of one pack that are kept for the forward pass
constexpr long kChunks = 64;                 // VHEM: independent sums, added up in order for any number of threads
constexpr long kChunkBytes = 1 << 26;        // VHEM: all of them together, roughly
constexpr long kPackBytes = 1L << 24;        // Baum-Welch: the most memory of one pack's frames
constexpr long kMostChances = 64;            // Baum-Welch: entries of a table whose probabilities are brought into the lanes
constexpr long kShortSequence = 1000;        // Baum-Welch: frames learned from in a pack however few lanes are in use
constexpr long kStretch = 1L << 14;          // Baum-Welch: frames of a long sequence that one thread does on its own
constexpr long kLongSequence = 4 * kStretch; // Baum-Welch: frames from which on a sequence is cut into stretches
constexpr long kSlotDoubles = 1L << 22;      // Baum-Welch: the most sums kept apart at a time
constexpr long kFramesInLanes = 128;         // Kalman filter: frames of kLanes sequences, in the second-level cache
constexpr long kProjected = 8;               // Kalman filter: of these so many in the first-level cache
constexpr long kFramesForBasis = 8000;       // Kalman filter: for fewer, no better basis of the states is looked for
constexpr long kTogether = 16;               // Kalman filter: systems that share frames in lanes
constexpr long kRowsPerTask = 8;             // PPK: models of a per task

// Whether kernels are compiled for any number of states alone, and not for small ones besides: quick to compile, slower to run.
#if defined(VHEM_ANY_SIZE_ONLY)
constexpr bool kAnySizeOnly = true;
#else
constexpr bool kAnySizeOnly = false;
#endif

// Calls from Python.
constexpr int kCheckpointsPerLook = 8;       // checkpoints between two looks at the clock
constexpr int kMillisecondsPerLook = 40;     // between two looks for signals
constexpr int kStepsPerCheckpoint = 16;      // short steps of a recursion between two checkpoints

}  // namespace
