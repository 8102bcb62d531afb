// K models of one family, as the kernels read them.
#pragma once

#include "arguments.hpp"

namespace {

template <class Family>
struct Models {
    long K, S, M;
    const double *startprob, *transmat, *mix_weights;
    typename Family::Components components;
    const int64_t* n_states;
};

template <class Family>
Models<Family> models_of(const typename Family::Models& m) {
    return {m.chains.K, m.chains.S, m.emissions.M, m.chains.startprob, m.chains.transmat, m.emissions.weights,
            Family::components(m), m.chains.n_states};
}

}  // namespace
