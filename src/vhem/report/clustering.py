"""What a report is about, in the same form for every estimator: a tree of HMMs over named members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError, InputTypeError
from vhem.estimators.hierarchy import HierarchicalVHEM
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.inference.comparison import Comparison
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.report.fit_facts import FitFacts, facts_of
from vhem.sequences import Sequences, SequencesLike, as_sequences


@dataclass(frozen=True)
class Clustering:
    """Members, the clusters above them, and what is known about both."""

    run: FitFacts
    names: list[str]  #: of the members
    inputs: H3M | None  #: the members' HMMs; a mixture of HMMs on sequences has none
    levels: list[H3M]  #: the centres, from the level above the members to the top
    parents: list[IntArray]  #: of every level below the top: the index of each HMM's cluster in the level above
    labels: list[IntArray]  #: of every level: the cluster of each member
    responsibilities: FloatArray | None  #: of the members for the first level
    sequences: Sequences | None
    owners: IntArray | None  #: the member that each sequence belongs to
    classes: list[str] | None  #: of the members
    tau: int  #: length of the sequences used to compare clusters
    statistics: Comparison | None = None  #: what `vhem compare` found


def clustering(
    fit: Any,
    hmms: H3M | list[HMM] | None,
    sequences: SequencesLike | None,
    groups: Sequence[Any] | None,
    classes: Sequence[Any] | None,
    statistics: Comparison | None = None,
) -> Clustering:
    """Return a fitted estimator and its data in the form that a report needs."""
    if not isinstance(fit, BaseEstimator):
        raise _wrong_kind(fit)
    check_is_fitted(fit)
    data = None if sequences is None else as_sequences(sequences)
    inputs, levels, parents = _tree_of(fit, hmms)
    ids, owners = _members(inputs, data, groups)
    names = [str(i) for i in ids]
    if len(parents[0]) != len(names):
        raise InputError(
            "the fit has {n} inputs, but {m} were given", "give those of the fit",
            n=len(parents[0]), m=len(names),
        )  # fmt: skip
    if classes is not None and len(classes) != len(names):
        raise InputError("{classes} has {n} entries for {m} members", "give one for each", n=len(classes), m=len(names))
    first = fit.fits_[0] if isinstance(fit, HierarchicalVHEM) else fit
    return Clustering(
        run=facts_of(fit, "sequences" if inputs is None else "hmms"),
        names=names,
        inputs=inputs,
        levels=levels,
        parents=parents,
        labels=fit.labels_ if isinstance(fit, HierarchicalVHEM) else [fit.labels_],
        responsibilities=getattr(first, "responsibilities_", None),
        sequences=data,
        owners=owners,
        classes=None if classes is None else [str(c) for c in classes],
        tau=_length_of_interest(fit, data),
        statistics=statistics,
    )


def _length_of_interest(fit: Any, data: Sequences | None) -> int:
    """Return the length of the estimator's virtual sequences, or else that of the real ones."""
    own = (fit, "tau_"), (getattr(fit, "tree_", None), "tau"), (fit, "tau"), (fit, "length")
    lengths = (getattr(owner, name, None) for owner, name in own)
    return next((int(length) for length in lengths if isinstance(length, int | np.integer)), typical_length(data))


def typical_length(data: Sequences | None) -> int:
    """Return the median length of sequences, if there are any."""
    return 10 if data is None else max(1, round(float(np.median(data.lengths))))


def _members(
    inputs: H3M | None, data: Sequences | None, groups: Sequence[Any] | None
) -> tuple[list[Any], IntArray | None]:
    """Return the ids of the members, and the member of each sequence: without HMMs, every sequence is one."""
    if inputs is not None:
        return inputs.ids, None if data is None else owners_of(data, groups, inputs.ids)
    if data is None:
        raise InputError("a report on a MixtureOfHMMs needs the sequences that it was fitted to", "give {sequences}")
    return data.ids, np.arange(len(data))


def _tree_of(fit: Any, hmms: H3M | list[HMM] | None) -> tuple[H3M | None, list[H3M], list[IntArray]]:
    """Return the members' HMMs, the levels of centres above them, and each one's cluster in the level above."""
    if isinstance(fit, MixtureOfHMMs):
        return None, [fit.model_], [fit.labels_]
    if isinstance(fit, HierarchicalVHEM):
        return fit.tree_.layers[0], fit.levels_, fit.parents_
    if not isinstance(getattr(fit, "centers_", None), H3M):
        raise _wrong_kind(fit)
    hmms = getattr(fit, "hmms_", None) if hmms is None else hmms
    if hmms is None:
        raise InputError(
            "a report on {kind} needs the HMMs that it was fitted to", "give {hmms}", kind=type(fit).__name__
        )
    return check_h3m("hmms", hmms), [fit.centers_], [fit.labels_]


def _wrong_kind(fit: Any) -> InputTypeError:
    kinds = "SequenceClustering, VHEM, VBHEM, HierarchicalVHEM, SampledHEM, PPKClustering or MixtureOfHMMs"
    problem = "a report can be written on {kinds}, fitted, got {kind}"
    return InputTypeError(problem, kinds=kinds, kind=type(fit).__name__)


def owners_of(data: Sequences, groups: Sequence[Any] | None, ids: list[Any]) -> IntArray:
    """Return the index of each sequence's member among `ids`.

    Sequences belong to the id that `groups` names; without it, to that of their own group or name; or they are in the
    order of the ids.
    """
    place = {str(name): k for k, name in enumerate(ids)}
    for known in [groups] if groups is not None else [data.groups, data.ids]:
        if known is not None and set(map(str, known)) <= set(place):
            return _places(known, place, len(data))
    if groups is not None:
        unknown = sorted(set(map(str, groups)) - set(place))
        raise InputError(
            "{groups} names {unknown!r}, which is not the id of any HMM; the first ids are {ids}",
            unknown=unknown[0], ids=ids[:3],
        )  # fmt: skip
    if len(data) != len(ids):
        raise InputError(
            "there are {n} sequences for {m} HMMs",
            "say which belong to which with {groups}, one HMM's id for every sequence",
            n=len(data), m=len(ids),
        )  # fmt: skip
    return np.arange(len(ids))


def _places(known: Sequence[Any], place: dict[str, int], n: int) -> IntArray:
    if len(known) != n:
        raise InputError("{groups} has {n} entries for {m} sequences", "give one for each", n=len(known), m=n)
    return np.array([place[str(name)] for name in known], dtype=np.int64)
