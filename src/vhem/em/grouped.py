"""The sequences of many fits in the form that the kernels take, and the scale of their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import Count, FitWarning, InputError, warn
from vhem.emissions import Components, Gaussian
from vhem.emissions.components import FamilyPrior
from vhem.kernels.counting import Pairs, expectations
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.moments import group_moments
from vhem.models.evidence import Evidence
from vhem.models.hmm import check_frames
from vhem.sequences import Sequences

_RESOLUTION = 1e-13  # of the largest value: smaller deviations are rounding
_LEAST_VARIANCE = 1e-200  # its inverse, and squares in units of it, are still doubles


def still_channels(X: FloatArray, offsets: IntArray, names: list[str]) -> str:
    """Return the names of the channels that have a single value throughout some stretch of frames."""
    low, high = np.fmin.reduceat(X, offsets[:-1], axis=0), np.fmax.reduceat(X, offsets[:-1], axis=0)
    still = [repr(name) for name, same in zip(names, (low == high).any(axis=0), strict=True) if same]
    return ", ".join(still[:5]) + (f" and {len(still) - 5} more" if len(still) > 5 else "")


def warn_of_unseen(X: FloatArray) -> None:
    """Warn about dimensions without a single value."""
    unseen = [j for j in range(X.shape[1]) if np.isnan(X[0, j]) and np.isnan(X[:, j]).all()]
    if unseen:
        warn(
            FitWarning(
                "dimensions {unseen} are missing everywhere: what the HMMs say about them means nothing",
                "leave them out",
                unseen=unseen,
            )
        )


class Batch(NamedTuple):
    """Sequences sorted by group; every group gets its own HMM."""

    X: FloatArray  #: (N, d) all frames, group after group
    offsets: IntArray  #: (n + 1,) where sequences begin
    groups: IntArray  #: (n,) the group of each sequence, never falling
    weights: FloatArray  #: (n,)
    ids: list[Any]  #: one per group
    emissions: Components  #: one component without leading axes, of the family that the frames are to be modelled by
    cases: FloatArray | None = None  #: (K,) how many cases each group stands for, 1 on average; None: as many as others

    @property
    def lengths(self) -> IntArray:
        """Frames of each sequence."""
        return np.diff(self.offsets)

    @property
    def features(self) -> FloatArray:
        """The frames in numbers that k-means can compare, (N, n)."""
        return self.emissions.features(self.X)

    @property
    def owner(self) -> IntArray:
        """The group of each frame."""
        return np.repeat(self.groups, self.lengths)

    @property
    def frame_offsets(self) -> IntArray:
        """Where the frames of the groups begin, (K + 1,)."""
        first = np.searchsorted(self.groups, np.arange(len(self.ids)))
        return np.append(self.offsets[first], self.offsets[-1]).astype(np.int64)

    @property
    def n_frames(self) -> FloatArray:
        """Weighted frames of each group."""
        return np.asarray(np.bincount(self.groups, self.weights * self.lengths, len(self.ids)), np.float64)

    @property
    def evidence(self) -> Evidence:
        """Weighted sequences and frames of each group."""
        return Evidence(np.bincount(self.groups, self.weights, len(self.ids)).astype(np.float64), self.n_frames)

    def item_expectations(
        self, models: Models, anchors: Components, items: IntArray, n_threads: int
    ) -> tuple[FloatArray, ModelSums]:
        """Return likelihoods and sums of groups under HMMs of their own: `items` has each HMM's group, in order."""
        pairs = Pairs.owned(self.lengths, self.groups, items)
        weights = self.weights[pairs.sequence]
        e = expectations(models, self.X, self.offsets, pairs, weights, n_threads, anchors)
        return np.bincount(pairs.model, e.log_likelihoods * weights, len(models)).astype(np.float64), e.sums

    def take(self, groups: IntArray) -> Batch:
        """Return the sequences of some groups, numbered from 0 in the order given."""
        place = np.full(len(self.ids), -1)
        place[groups] = np.arange(len(groups))
        kept = np.flatnonzero(place[self.groups] >= 0)
        kept = kept[np.argsort(place[self.groups[kept]], kind="stable")]
        return self.cut(kept, self.lengths[kept], place[self.groups[kept]], [self.ids[g] for g in groups])

    def cut(self, sequences: IntArray, lengths: IntArray, groups: IntArray, ids: list[Any]) -> Batch:
        """Return the first `lengths` frames of some sequences."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.repeat(self.offsets[sequences] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Batch(self.X[rows], offsets, groups.astype(np.int64), self.weights[sequences], ids, self.emissions)

    @staticmethod
    def of(
        sequences: Sequences,
        groups: Iterable[Any] | None,
        sample_weight: npt.ArrayLike | None,
        emissions: Components | None = None,
    ) -> Batch:
        """Sort sequences by group, groups in the order of their first sequence; without groups, each is its own.

        `emissions` is one component of the family that the frames are to be modelled by; a Gaussian if not given. If
        there is no `sample_weight`, the sequences' case weights are used: their average in a group becomes its `cases`.
        """
        if sample_weight is None and sequences.weights is not None:
            inside, cases = _split_cases(sequences.weights, groups)
            return Batch.of(sequences, groups, inside, emissions)._replace(cases=cases)
        like = Gaussian(np.zeros(sequences.n_dims), np.ones(sequences.n_dims)) if emissions is None else emissions
        check_frames(sequences, like)
        weights = _checked_weights(sample_weight, len(sequences))
        if groups is None:
            rows = (sequences.X, sequences.offsets, np.arange(len(sequences)), weights, list(sequences.ids), like)
            return Batch(*rows)._checked()
        names, index = _numbered(groups, len(sequences))
        order = np.argsort(index, kind="stable")
        whole = Batch(sequences.X, sequences.offsets, index, weights, names, like)._checked()
        if (order == np.arange(len(order))).all():
            return whole
        return whole.cut(order, sequences.lengths[order], index[order], names)

    def _checked(self) -> Batch:
        total = np.bincount(self.groups, self.weights, len(self.ids))
        if not total.all():
            k = int(np.argmin(total))
            raise InputError(
                "{sample_weight} leaves nothing of {id!r}: all its weights are zero", "Drop it",
                id=self.ids[k],
            )  # fmt: skip
        return self


def _split_cases(weights: FloatArray, groups: Iterable[Any] | None) -> tuple[FloatArray, FloatArray]:
    """Return what case weights differ by inside groups, and the cases that each group stands for, 1 on average.

    A group without weight adds nothing to a fit, but is assigned to a cluster as others are.
    """
    index = np.arange(len(weights)) if groups is None else _numbered(groups, len(weights))[1]
    means = np.bincount(index, weights) / np.bincount(index)
    inside = np.where(means[index] > 0, weights / np.where(means > 0, means, 1.0)[index], 1.0)
    return inside, means / means.mean()


def _numbered(groups: Iterable[Any], n: int) -> tuple[list[Any], IntArray]:
    labels = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if isinstance(groups, str) or len(labels) != n:
        raise InputError(
            "{groups} has {k} entries for {n:sequence}", "give one value for each sequence", k=len(labels), n=Count(n)
        )
    if any(label != label for label in labels):  # noqa: PLR0124  (NaN is not a name)
        raise InputError("{groups} has NaN", "give every sequence the name of its group")
    numbers: dict[Any, int] = {}
    index = [numbers.setdefault(label, len(numbers)) for label in labels]
    return list(numbers), np.array(index, dtype=np.int64)


def _checked_weights(sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InputError(
            "{sample_weight} has shape {shape} for {n} sequences", "give one weight for each",
            shape=weights.shape, n=n,
        )  # fmt: skip
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            "{sample_weight}[{i}] is {weight}", "weights must be finite and not negative",
            i=i, weight=weights[i],
        )  # fmt: skip
    return weights


class Scale(NamedTuple):
    """Where the features of each group lie and how far they spread (for Gaussians: its values), and what is typical."""

    mean: FloatArray  #: (K, n)
    variance: FloatArray  #: (K, n) always positive
    typical: FamilyPrior  #: of each group, as the family puts it
    emissions: Components  #: one component of the family

    def take(self, index: IntArray) -> Scale:
        """Return the scales of the groups at `index`."""
        return Scale(self.mean[index], self.variance[index], self.typical.take(index), self.emissions)

    def repeated(self, n: int) -> Scale:
        """Return the scale of every group n times: for n HMMs of each."""
        return self.take(np.repeat(np.arange(len(self.mean)), n))

    @staticmethod
    def of(batch: Batch) -> Scale:
        """Each group's own moments; the fewer its frames, the more of the variance within groups is mixed in.

        A group without values takes the mean of all. If nothing varies at all, one hundredth of the size of the values
        is used as the deviation, or one if they are zero.
        """
        offsets = batch.frame_offsets
        known = batch.emissions.feature_moments(batch.X, offsets)
        count, mean, squares, extremes = group_moments(batch.features, offsets) if known is None else known
        largest = extremes.max(axis=0)
        total = np.maximum(count.sum(axis=0), 1.0)
        overall = (count * mean).sum(axis=0) / total
        mean = np.where(count > 0, mean, overall)
        pooled = _positive(squares.sum(axis=0) / total, mean.var(axis=0), largest)
        least = np.maximum((_RESOLUTION * largest) ** 2, _LEAST_VARIANCE)
        variance = np.maximum((squares + pooled) / (count + 1.0), least)
        return Scale(mean, variance, batch.emissions.typical(batch.X, offsets, mean, variance), batch.emissions)


def _positive(within: FloatArray, between: FloatArray, largest: FloatArray) -> FloatArray:
    """Return the variance within groups, or else between them, or else one made from the size of the values."""
    tiny = (_RESOLUTION * largest) ** 2
    guess = np.where(largest > 0, (0.01 * largest) ** 2, 1.0)
    return np.where(within > tiny, within, np.where(between > tiny, between, guess))


def frames_seen(X: FloatArray, offsets: IntArray) -> IntArray:
    """Return how many frames of each sequence or group have a value."""
    if not np.isnan(X.min()):
        return np.diff(offsets)
    return np.add.reduceat(~np.isnan(X).all(axis=1), offsets[:-1], dtype=np.int64)


def warn_of_items_without_values(X: FloatArray, offsets: IntArray, ids: list[Any]) -> None:
    """Name the sequences or groups that have nothing but missing values."""
    nothing = named(ids, frames_seen(X, offsets) == 0)
    if nothing:
        warn(FitWarning("there is nothing but missing values in {names}", "drop it", names=nothing))


def named(ids: list[Any], chosen: BoolArray) -> str:
    """Return the names of some sequences or groups, the first five of them in words."""
    names = ", ".join(repr(ids[k]) for k in np.flatnonzero(chosen)[:5])
    return names + (f" and {chosen.sum() - 5} more" if chosen.sum() > 5 else "")
