// The Python face of the compiled kernels: one such module per instruction set.
#include "arguments.hpp"

void bind_vhem(nb::module_& m);
void bind_sequences(nb::module_& m);
void bind_baum_welch(nb::module_& m);
void bind_kmeans(nb::module_& m);
void bind_moments(nb::module_& m);
void bind_ppk(nb::module_& m);
void bind_tables(nb::module_& m);
void bind_lds(nb::module_& m);
void bind_lds_pairs(nb::module_& m);
void bind_rows(nb::module_& m);

namespace {

template <class Beliefs, class Array>
void bind_beliefs(nb::module_& m, const char* name) {
    using namespace nb::literals;
    nb::class_<Beliefs>(m, name).def(nb::init<Array, Array, Array, Array, Array, Array>(), nb::kw_only(), "start"_a, "trans"_a,
                                     "beta"_a, "v"_a, "m"_a, "rate"_a);
}

void bind_arguments(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<StopFlag>(m, "StopFlag").def(nb::init<>()).def("raise_", &StopFlag::raise);
    nb::class_<Run>(m, "Run").def(
        "__init__", [](Run* self, int n_threads, const StopFlag* stop) { new (self) Run{n_threads, stop}; }, nb::kw_only(),
        "n_threads"_a, "stop"_a.none(), nb::keep_alive<1, 3>());
    nb::class_<Chains>(m, "Chains").def(nb::init<Input, Input, Input>(), nb::kw_only(), "startprob"_a, "transmat"_a, "n_states"_a);
    nb::class_<GaussianMixtures>(m, "GaussianMixtures")
        .def(nb::init<Input, Input, Input>(), nb::kw_only(), "weights"_a, "means"_a, "covars"_a);
    nb::class_<GaussianModels>(m, "GaussianModels")
        .def(nb::init<const Chains&, const GaussianMixtures&>(), nb::kw_only(), "chains"_a, "emissions"_a);
    nb::class_<PartMixtures>(m, "PartMixtures")
        .def(nb::init<Input, Input, Input, Input, Input, Input, Input, Input, Input, bool>(), nb::kw_only(), "weights"_a,
             "means"_a, "variances"_a, "full_means"_a, "full_covars"_a, "coefficients"_a, "statistics"_a, "tables"_a, "sizes"_a,
             "chances"_a);
    nb::class_<PartModels>(m, "PartModels")
        .def(nb::init<const Chains&, const PartMixtures&>(), nb::kw_only(), "chains"_a, "emissions"_a);
    nb::class_<Sequences>(m, "Sequences")
        .def(nb::init<Input, Input, bool>(), nb::kw_only(), "X"_a, "offsets"_a, "may_be_empty"_a = false);
    nb::class_<Pairs>(m, "Pairs").def(nb::init<Input, Input, Input>(), nb::kw_only(), "sequence"_a, "model"_a, "weight"_a);
    nb::class_<Sums>(m, "Sums").def(nb::init<Output, Output, Output, Output, Output>(), nb::kw_only(), "start"_a, "trans"_a,
                                    "occupancy"_a, "first"_a, "second"_a);
    nb::class_<BaseWeights>(m, "BaseWeights")
        .def(nb::init<Input, Input, Input>(), nb::kw_only(), "occupancy"_a, "counts"_a, "scales"_a);
    nb::class_<Recursion>(m, "Recursion").def(nb::init<int, bool, bool>(), nb::kw_only(), "tau"_a, "prune"_a, "early_stop"_a);
    nb::class_<Prior>(m, "Prior").def(nb::init<Input, Input, double, Input, Input>(), nb::kw_only(), "start"_a, "trans"_a,
                                      "covar"_a, "scale"_a, "floor"_a);
    nb::class_<PartPrior>(m, "PartPrior")
        .def(nb::init<Input, Input, Input, Input, Input, Input>(), nb::kw_only(), "start"_a, "trans"_a, "tables"_a, "linear"_a,
             "low"_a, "is_rate"_a);
    nb::class_<PartLearned>(m, "PartLearned")
        .def(nb::init<Output, Output, Output, Output>(), nb::kw_only(), "startprob"_a, "transmat"_a, "probabilities"_a,
             "coefficients"_a);
    nb::class_<Limits>(m, "Limits").def(nb::init<Input, Input, int, Output, Output>(), nb::kw_only(), "least"_a, "tolerance"_a,
                                        "max_iter"_a, "objective"_a, "n_iter"_a);
    nb::class_<Learned>(m, "Learned")
        .def(nb::init<Output, Output, Output, Output>(), nb::kw_only(), "startprob"_a, "transmat"_a, "means"_a, "covars"_a);
    bind_beliefs<BeliefsBefore, Input>(m, "BeliefsBefore");
    bind_beliefs<BeliefsAfter, Output>(m, "BeliefsAfter");
}

}  // namespace

NB_MODULE(VHEM_MODULE, m) {
    m.attr("LANES") = kLanes;
    bind_arguments(m);
    bind_vhem(m);
    bind_sequences(m);
    bind_baum_welch(m);
    bind_kmeans(m);
    bind_moments(m);
    bind_ppk(m);
    bind_tables(m);
    bind_lds(m);
    bind_lds_pairs(m);
    bind_rows(m);
}
