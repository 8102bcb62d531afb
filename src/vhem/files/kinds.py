"""The kinds of the library's own models and estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from vhem._support.indexing import checked_ids
from vhem.em.progress import Restart
from vhem.estimators import mixture as em_h3m
from vhem.estimators import vhem
from vhem.estimators.cluster_tree import Tree
from vhem.estimators.dtm import DynamicTextureMixture
from vhem.estimators.fit_hmms import FitReport
from vhem.estimators.hem_dtm import HEMDynamicTextures
from vhem.estimators.hem_gmm import HEMGaussianMixture
from vhem.estimators.hierarchy import HierarchicalVHEM
from vhem.estimators.ppk import PPKClustering
from vhem.estimators.sampled import SampledHEM
from vhem.estimators.transformer import HMMTransformer
from vhem.files.registry import Ids, Kind, State, kind_named, register, register_estimator, register_record
from vhem.kernels.lds import Systems
from vhem.kernels.parameters import Parameters
from vhem.models import GMM, H3M, HMM, LinearDynamicalSystem, MixtureOfLDS
from vhem.sequences import Sequences
from vhem.supervised import H3MClassifier, H3MTagger, Songs


def _attributes(*names: str) -> Any:
    return lambda model: {name: getattr(model, name) for name in names}


def _made_by(cls: Any) -> Any:
    """Return a function that gives the arrays to the constructor, which checks them, and keeps them as they are.

    Constructors divide probabilities by their sum; those of a file are the result of that, and must not change.
    """

    def unpack(state: State) -> Any:
        made = cls(**state)
        made._set(**state)
        return made

    return unpack


def _unpack_h3m(state: State) -> H3M:
    parameters = Parameters(*(state[name] for name in Parameters._fields))
    checked = H3M.from_arrays(**parameters._asdict(), weights=state["weights"], ids=state["ids"])
    return H3M._of(parameters, state["weights"], checked.ids)


def _pack_mixture_of_lds(mixture: MixtureOfLDS) -> State:
    return {**mixture.parameters._asdict(), "weights": mixture.weights, "ids": Ids(mixture.ids)}


def _unpack_mixture_of_lds(state: State) -> MixtureOfLDS:
    systems = Systems(*(state[name] for name in Systems._fields))
    made = MixtureOfLDS(MixtureOfLDS.of(systems, state["weights"]), state["weights"], state["ids"])
    made._assign(systems, state["weights"], made.ids)
    return made


def _pack_sequences(sequences: Sequences) -> State:
    groups = None if sequences.groups is None else Ids(sequences.groups)
    keys = None if sequences._keys is None else Ids(sequences.keys)
    return {"X": sequences.X, "lengths": sequences.lengths, "ids": Ids(sequences.ids), "groups": groups, "keys": keys}


def _unpack_sequences(state: State) -> Sequences:
    made = Sequences(Sequences.from_concatenated(state["X"], state["lengths"]), groups=state["groups"])
    ids = checked_ids(state["ids"], len(made), "sequences")  # may repeat: a sample can hold a sequence twice
    keys = None if state.get("keys") is None else checked_ids(state["keys"], len(made), "sequences")
    return Sequences._of(made.X, made.lengths, ids, made.groups, keys)


def _unpack_tree(state: State) -> Tree:
    layers, parents = state["layers"], state["parents"]
    for parent, below, above in zip(parents, layers[:-1], layers[1:], strict=True):
        if parent.shape != (len(below),) or np.any((parent < 0) | (parent >= len(above))):
            raise ValueError("parents do not fit the levels")
    return Tree(layers[0], layers[1:], parents, state["tau"])


_HMM = ("startprob", "transmat", "means", "covars", "mix_weights")

register(Kind("HMM", HMM, _attributes(*_HMM), _made_by(HMM)))
register(
    Kind(
        "H3M",
        H3M,
        lambda h3m: {**h3m.parameters._asdict(), "weights": h3m.weights, "ids": Ids(h3m.ids)},
        _unpack_h3m,
        rows=("weights", *Parameters._fields, "ids"),
    )
)
register(Kind("GMM", GMM, _attributes("weights", "means", "covars"), _made_by(GMM)))
register(
    Kind(
        "LinearDynamicalSystem",
        LinearDynamicalSystem,
        _attributes(*Systems._fields),
        _made_by(LinearDynamicalSystem),
    )
)
register(
    Kind(
        "MixtureOfLDS",
        MixtureOfLDS,
        _pack_mixture_of_lds,
        _unpack_mixture_of_lds,
        rows=("weights", *Systems._fields, "ids"),
    )
)
register(Kind("Sequences", Sequences, _pack_sequences, _unpack_sequences))
register(Kind("Tree", Tree, _attributes("layers", "parents", "tau"), _unpack_tree))
register(Kind("Songs", Songs, _attributes("sequences", "models", "made_by"), lambda state: Songs(**state)))
register_record(Restart, "MixtureOfHMMs.Restart")  # as older files have it
register_record(Restart, "VHEM.Restart")
register_record(FitReport)
for _estimator in (
    vhem.VHEM,
    HierarchicalVHEM,
    em_h3m.MixtureOfHMMs,
    SampledHEM,
    PPKClustering,
    HEMGaussianMixture,
    DynamicTextureMixture,
    HEMDynamicTextures,
    HMMTransformer,
    H3MTagger,
):
    register_estimator(_estimator)


def _register_classifier() -> None:
    """Register H3MClassifier, whose classes may be text, which arrays in files cannot hold: they are kept as names."""
    register_estimator(H3MClassifier)
    kind = kind_named("H3MClassifier")
    assert kind is not None
    pack, unpack = kind.pack, kind.unpack

    def pack_classes(classifier: H3MClassifier) -> State:
        state = pack(classifier)
        if "classes_" in state["fitted"]:
            state["fitted"]["classes_"] = Ids(classifier.classes_.tolist())
        return state

    def unpack_classes(state: State) -> H3MClassifier:
        if "classes_" in state["fitted"]:
            state["fitted"]["classes_"] = np.asarray(list(state["fitted"]["classes_"]))
        made: H3MClassifier = unpack(state)
        return made

    register(replace(kind, pack=pack_classes, unpack=unpack_classes))


_register_classifier()
