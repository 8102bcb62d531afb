// What Python hands over: structs of arrays whose types, shapes and contents are checked once, where they are made. A
// kernel that has one need not look again, and no array can make it read or write outside.
#pragma once

#include <cstdio>  // nanobind needs it, and Python.h leaves it out under the stable ABI

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>

#include "threads.hpp"

namespace VHEM_MODULE {

using Input = nb::ndarray<nb::ro, nb::device::cpu>;
using Output = nb::ndarray<nb::device::cpu>;

constexpr long kAny = -1;  // a size that an array may choose

// What is checked of an array, whichever way Python gave it.
struct Described {
    nb::dlpack::dtype dtype;
    size_t ndim;
    const int64_t *shape, *strides;

    template <class Array>
    Described(const Array& array) : dtype(array.dtype()), ndim(array.ndim()), shape(array.shape_ptr()), strides(array.stride_ptr()) {}
};

// Defined once, in arguments.cpp: what only words an error would otherwise be compiled into every kernel.
std::string shape_of(const Described& array);
[[noreturn]] void refuse(const std::string& message);
bool is_contiguous(const Described& array);

// Refuses an array that is not C-contiguous, of this type and of this shape.
void check(const Described& array, nb::dlpack::dtype dtype, const char* name, std::initializer_list<long> shape);

// Refuses numbers outside of a range.
void check_range(const int64_t* values, long n, const char* name, int64_t least, int64_t most);

inline const double* doubles(const Input& array, const char* name, std::initializer_list<long> shape) {
    check(array, nb::dtype<double>(), name, shape);
    return static_cast<const double*>(array.data());
}

inline const int64_t* integers(const Input& array, const char* name, std::initializer_list<long> shape) {
    check(array, nb::dtype<int64_t>(), name, shape);
    return static_cast<const int64_t*>(array.data());
}

inline double* doubles_out(const Output& array, const char* name, std::initializer_list<long> shape) {
    check(array, nb::dtype<double>(), name, shape);
    return static_cast<double*>(array.data());
}

inline int64_t* integers_out(const Output& array, const char* name, std::initializer_list<long> shape) {
    check(array, nb::dtype<int64_t>(), name, shape);
    return static_cast<int64_t*>(array.data());
}

template <class Array>
long size_of(const Array& array, size_t axis) {
    return axis < array.ndim() ? static_cast<long>(array.shape(axis)) : 0;
}

// K Markov chains of up to S states; rows of those with fewer are padded.
struct Chains {
    Input arrays[3];
    long K, S;
    const double *startprob, *transmat;  // (K, S), (K, S, S)
    const int64_t* n_states;             // (K,)

    Chains(Input startprob, Input transmat, Input n_states)
        : arrays{startprob, transmat, n_states}, K(size_of(startprob, 0)), S(size_of(startprob, 1)),
          startprob(doubles(startprob, "startprob", {kAny, kAny})), transmat(doubles(transmat, "transmat", {K, S, S})),
          n_states(integers(n_states, "n_states", {K})) {
        check_range(this->n_states, K, "n_states", 1, S);
    }
};

// Rows of X, one group or sequence after the other: number i is X[offsets[i]:offsets[i + 1]].
struct Sequences {
    Input arrays[2];
    long n, d;
    const double* X;         // (T, d)
    const int64_t* offsets;  // (n + 1,)

    Sequences(Input X, Input offsets, bool may_be_empty)
        : arrays{X, offsets}, n(size_of(offsets, 0) - 1), d(size_of(X, 1)), X(doubles(X, "X", {kAny, kAny})),
          offsets(integers(offsets, "offsets", {kAny})) {
        if (n < 0) refuse("offsets must not be empty.");
        check_range(this->offsets, n + 1, "offsets", 0, size_of(X, 0));
        for (long i = 0; i < n; ++i)
            if (length(i) < (may_be_empty ? 0 : 1))
                refuse("offsets must rise: number " + std::to_string(i) + " has length " + std::to_string(length(i)) + ".");
    }
    const double* begin(long i) const { return X + offsets[i] * d; }
    long length(long i) const { return offsets[i + 1] - offsets[i]; }
    void check_dimensions(long wanted) const {
        if (d != wanted) refuse("X must have " + std::to_string(wanted) + " columns, as the models have, got " + std::to_string(d) + ".");
    }
};

// Mixtures of M Gaussians in d dimensions, one mixture per state of K models.
struct GaussianMixtures {
    Input arrays[3];
    long K, S, M, d;
    bool full;
    const double *weights, *means, *covars;  // (K, S, M), (K, S, M, d), (K, S, M, d) or (K, S, M, d, d)

    GaussianMixtures(Input weights, Input means, Input covars)
        : arrays{weights, means, covars}, K(size_of(means, 0)), S(size_of(means, 1)), M(size_of(means, 2)),
          d(size_of(means, 3)), full(covars.ndim() == 5), weights(doubles(weights, "weights", {K, S, M})),
          means(doubles(means, "means", {kAny, kAny, kAny, kAny})),
          covars(full ? doubles(covars, "covars", {K, S, M, d, d}) : doubles(covars, "covars", {K, S, M, d})) {
        if (M < 1 || d < 1) refuse("means must have at least one component and one dimension, got shape " + shape_of(means) + ".");
    }
    long covar_size() const { return full ? d * d : d; }
    void check_frames(const Sequences& sequences) const { sequences.check_dimensions(d); }
};

// K hidden Markov models.
struct GaussianModels {
    Chains chains;
    GaussianMixtures emissions;

    GaussianModels(const Chains& chains, const GaussianMixtures& emissions) : chains(chains), emissions(emissions) {
        if (chains.K != emissions.K || chains.S != emissions.S)
            refuse("means must have one row per model and state of startprob, got shapes " + shape_of(emissions.arrays[1]) +
                   " and " + shape_of(chains.arrays[0]) + ".");
    }
};

// Mixtures of M components of any family, one mixture per state of K models, written as parts (families/parts.hpp).
struct PartMixtures {
    Input arrays[9];
    long K, S, M, diagonal, full, linear, table_size, n_tables;
    const double *weights, *means, *variances;               // (K, S, M), (K, S, M, diagonal) twice
    const double *full_means, *full_covars;                  // (K, S, M, full), (K, S, M, full, full)
    const double *coefficients, *statistics;                 // (K, S, M, linear); the second, E T, is read by VHEM alone
    const double* tables;                                    // (K, S, M, table_size): one table after another
    const int64_t* sizes;                                    // (n_tables,): their entries
    bool chances;                                            // whether the only table has probabilities, not their logs

    PartMixtures(Input weights, Input means, Input variances, Input full_means, Input full_covars, Input coefficients,
                 Input statistics, Input tables, Input sizes, bool chances)
        : arrays{weights, means, variances, full_means, full_covars, coefficients, statistics, tables, sizes},
          K(size_of(weights, 0)), S(size_of(weights, 1)), M(size_of(weights, 2)), diagonal(size_of(means, 3)),
          full(size_of(full_means, 3)), linear(size_of(coefficients, 3)), table_size(size_of(tables, 3)),
          n_tables(size_of(sizes, 0)), weights(doubles(weights, "weights", {K, S, M})),
          means(doubles(means, "means", {K, S, M, diagonal})), variances(doubles(variances, "variances", {K, S, M, diagonal})),
          full_means(doubles(full_means, "full_means", {K, S, M, full})),
          full_covars(doubles(full_covars, "full_covars", {K, S, M, full, full})),
          coefficients(doubles(coefficients, "coefficients", {K, S, M, linear})),
          statistics(doubles(statistics, "statistics", {K, S, M, linear})),
          tables(doubles(tables, "tables", {K, S, M, table_size})), sizes(integers(sizes, "sizes", {n_tables})), chances(chances) {
        check_range(this->sizes, n_tables, "sizes", 1, table_size);
        long total = 0;
        for (long c = 0; c < n_tables; ++c) total += this->sizes[c];
        if (M < 1 || total != table_size) refuse("sizes must add up to the entries of tables, and there must be a component.");
        if (chances && n_tables != 1) refuse("chances need exactly one table.");
    }
    long d() const { return diagonal + full + linear + n_tables; }

    // Frames have the right columns, and codes are entries of their table.
    void check_frames(const Sequences& sequences) const {
        sequences.check_dimensions(d());
        const long T = size_of(sequences.arrays[0], 0), width = d();
        for (long c = 0; c < n_tables; ++c)
            for (const double *x = sequences.X + width - n_tables + c, *end = x + T * width; x < end; x += width) {
                int64_t code;
                std::memcpy(&code, x, sizeof code);
                if (static_cast<uint64_t>(code) >= static_cast<uint64_t>(sizes[c])) check_range(&code, 1, "codes", 0, sizes[c] - 1);
            }
    }
    void check_anchors(const PartMixtures& other) const {
        if (other.K != K || other.S != S || other.M != M || other.diagonal != diagonal || other.full != full)
            refuse("anchors must have the shape of the models.");
    }
};

// K hidden Markov models of any family.
struct PartModels {
    Chains chains;
    PartMixtures emissions;

    PartModels(const Chains& chains, const PartMixtures& emissions) : chains(chains), emissions(emissions) {
        if (chains.K != emissions.K || chains.S != emissions.S) refuse("weights must have one row per model and state of startprob.");
    }
};

// Sequences, the model each is seen under, and how much it counts.
struct Pairs {
    Input arrays[3];
    long n;
    const int64_t *sequence, *model;  // (n,)
    const double* weight;             // (n,)

    Pairs(Input sequence, Input model, Input weight)
        : arrays{sequence, model, weight}, n(size_of(sequence, 0)), sequence(integers(sequence, "sequence", {kAny})),
          model(integers(model, "model", {n})), weight(doubles(weight, "weight", {n})) {}
    void check_ranges(const Sequences& sequences, long K) const {
        check_range(sequence, n, "sequence", 0, sequences.n - 1);
        check_range(model, n, "model", 0, K - 1);
    }
};

// Where an E-step adds up what the M-step divides, one row per model.
struct Sums {
    Output arrays[5];
    double *start, *trans, *occupancy, *first, *second;

    Sums(Output start, Output trans, Output occupancy, Output first, Output second)
        : arrays{start, trans, occupancy, first, second} {}
    double* moments(int order) const { return order ? second : first; }

    void check(const GaussianMixtures& e) {
        start = doubles_out(arrays[0], "start", {e.K, e.S});
        trans = doubles_out(arrays[1], "trans", {e.K, e.S, e.S});
        occupancy = doubles_out(arrays[2], "occupancy", {e.K, e.S, e.M});
        first = doubles_out(arrays[3], "first", {e.K, e.S, e.M, e.d});
        second = e.full ? doubles_out(arrays[4], "second", {e.K, e.S, e.M, e.d, e.d})
                        : doubles_out(arrays[4], "second", {e.K, e.S, e.M, e.d});
    }

    // Of parts: all sums of an HMM in one row, `width` per component; the second array is not used.
    void check(const PartMixtures& e, long width) {
        start = doubles_out(arrays[0], "start", {e.K, e.S});
        trans = doubles_out(arrays[1], "trans", {e.K, e.S, e.S});
        occupancy = doubles_out(arrays[2], "occupancy", {e.K, e.S, e.M});
        first = doubles_out(arrays[3], "first", {e.K, e.S * e.M * width});
    }
};

// How base models enter VHEM: how often each state is visited in τ steps, (K, S), N_i and a_i, (K,).
struct BaseWeights {
    Input arrays[3];
    const double *occupancy, *counts, *scales;

    BaseWeights(Input occupancy, Input counts, Input scales) : arrays{occupancy, counts, scales} {}

    void check(const Chains& base) {
        occupancy = doubles(arrays[0], "occupancy", {base.K, base.S});
        counts = doubles(arrays[1], "counts", {base.K});
        scales = doubles(arrays[2], "scales", {base.K});
    }
};

// VHEM's recursion: virtual sequences of τ frames, and what may be left out.
struct Recursion {
    int tau;
    bool prune, early_stop;

    Recursion(int tau, bool prune, bool early_stop) : tau(tau), prune(prune), early_stop(early_stop) {
        if (tau < 1) refuse("tau must be at least 1, got " + std::to_string(tau) + ".");
    }
};

// Pseudo-counts and the variances that go with them, and a floor below the variances, one row per model.
struct Prior {
    Input arrays[4];
    const double *start, *trans, *scale, *floor;  // (K, S), (K, S, S), (K, d), (K, d)
    double covar;

    Prior(Input start, Input trans, double covar, Input scale, Input floor)
        : arrays{start, trans, scale, floor}, covar(covar) {}

    void check(const GaussianMixtures& e) {
        start = doubles(arrays[0], "start", {e.K, e.S});
        trans = doubles(arrays[1], "trans", {e.K, e.S, e.S});
        scale = doubles(arrays[2], "scale", {e.K, e.d});
        floor = doubles(arrays[3], "floor", {e.K, e.d});
    }
};

// How long HMMs iterate inside the engine: frames below which a state has died and the gain below which an HMM has
// converged; what goes in and comes out again are its last objective and the number of its iterations. All (K,).
struct Limits {
    Input arrays[2];
    Output changed[2];
    const double *least, *tolerance;
    int max_iter;
    double* objective;
    int64_t* n_iter;

    Limits(Input least, Input tolerance, int max_iter, Output objective, Output n_iter)
        : arrays{least, tolerance}, changed{objective, n_iter}, max_iter(max_iter) {}

    void check(long K) {
        least = doubles(arrays[0], "least", {K});
        tolerance = doubles(arrays[1], "tolerance", {K});
        objective = doubles_out(changed[0], "objective", {K});
        n_iter = integers_out(changed[1], "n_iter", {K});
    }
};

// Where Baum-Welch inside the engine leaves HMMs of one diagonal Gaussian per state.
struct Learned {
    Output arrays[4];
    double *startprob, *transmat, *means, *covars;

    Learned(Output startprob, Output transmat, Output means, Output covars) : arrays{startprob, transmat, means, covars} {}

    void check(const GaussianMixtures& e) {
        startprob = doubles_out(arrays[0], "startprob", {e.K, e.S});
        transmat = doubles_out(arrays[1], "transmat", {e.K, e.S, e.S});
        means = doubles_out(arrays[2], "means", {e.K, e.S, 1, e.d});
        covars = doubles_out(arrays[3], "covars", {e.K, e.S, 1, e.d});
    }
};

// Distributions of the parameters of such HMMs: Dirichlet, and Normal-Gamma of all states or of each.
template <class Array, class Number>
struct Beliefs {
    Array arrays[6];
    Number *start, *trans, *beta, *v, *m, *rate;

    Beliefs(Array start, Array trans, Array beta, Array v, Array m, Array rate) : arrays{start, trans, beta, v, m, rate} {}

    void check(const GaussianMixtures& e, long states) {
        start = checked(0, "start", {e.K, e.S}), trans = checked(1, "trans", {e.K, e.S, e.S});
        beta = checked(2, "beta", {e.K, states}), v = checked(3, "v", {e.K, states});
        m = checked(4, "m", {e.K, states, e.d}), rate = checked(5, "rate", {e.K, states, e.d});
    }

  private:
    Number* checked(int i, const char* name, std::initializer_list<long> shape) const {
        VHEM_MODULE::check(arrays[i], nb::dtype<double>(), name, shape);
        return static_cast<Number*>(arrays[i].data());
    }
};
using BeliefsBefore = Beliefs<Input, const double>;
using BeliefsAfter = Beliefs<Output, double>;

// What is known about tables and rates before the data, as sums of pseudo-frames, one row per model.
struct PartPrior {
    Input arrays[6];
    const double *start, *trans, *tables, *linear, *low;  // (K, S), (K, S, S), (K, table_size), (K, linear) twice
    const int64_t* is_rate;                               // (linear,)

    PartPrior(Input start, Input trans, Input tables, Input linear, Input low, Input is_rate)
        : arrays{start, trans, tables, linear, low, is_rate} {}

    void check(const PartMixtures& e) {
        start = doubles(arrays[0], "start", {e.K, e.S});
        trans = doubles(arrays[1], "trans", {e.K, e.S, e.S});
        tables = doubles(arrays[2], "tables", {e.K, e.table_size});
        linear = doubles(arrays[3], "linear", {e.K, e.linear});
        low = doubles(arrays[4], "low", {e.K, e.linear});
        is_rate = integers(arrays[5], "is_rate", {e.linear});
    }
};

// Where Baum-Welch inside the engine leaves HMMs with tables and rates.
struct PartLearned {
    Output arrays[4];
    double *startprob, *transmat, *probabilities, *coefficients;

    PartLearned(Output startprob, Output transmat, Output probabilities, Output coefficients)
        : arrays{startprob, transmat, probabilities, coefficients} {}

    void check(const PartMixtures& e) {
        startprob = doubles_out(arrays[0], "startprob", {e.K, e.S});
        transmat = doubles_out(arrays[1], "transmat", {e.K, e.S, e.S});
        probabilities = doubles_out(arrays[2], "probabilities", {e.K, e.S, 1, e.table_size});
        coefficients = doubles_out(arrays[3], "coefficients", {e.K, e.S, 1, e.linear});
    }
};

}  // namespace VHEM_MODULE

namespace {
using namespace VHEM_MODULE;
}
