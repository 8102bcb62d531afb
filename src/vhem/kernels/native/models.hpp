// K models of one family, as the kernels read them.
#pragma once

#include "arguments.hpp"

namespace {

// What does not depend on the family.
struct Mixtures {
    long K, S, M;
    const double *startprob, *transmat, *mix_weights;
    const int64_t* n_states;
};

template <class Family>
struct Models : Mixtures {
    typename Family::Components components;
};

template <class Family>
Models<Family> models_of(const typename Family::Models& m) {
    return {{m.chains.K, m.chains.S, m.emissions.M, m.chains.startprob, m.chains.transmat, m.emissions.weights, m.chains.n_states},
            Family::components(m)};
}

}  // namespace
