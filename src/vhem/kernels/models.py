"""The arrays of a set of HMMs, as the kernels take them, and the sums that an E-step makes for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray, row_sums
from vhem.emissions.components import Components, Sums


@dataclass(frozen=True)
class Models:
    """K hidden Markov models with up to S states, and M components per state.

    HMMs with fewer than S states are padded with zeros; `n_states` has the true numbers. All arrays are C-contiguous
    float64.
    """

    startprob: FloatArray  #: (K, S)
    transmat: FloatArray  #: (K, S, S)
    mix_weights: FloatArray  #: (K, S, M)
    components: Components  #: (K, S, M) of them
    n_states: IntArray  #: (K,)

    def __len__(self) -> int:
        return len(self.n_states)

    @property
    def shape(self) -> tuple[int, int, int]:
        """K, S and M."""
        K, S, M = self.mix_weights.shape
        return K, S, M

    @property
    def n_dims(self) -> int:
        """Columns of a frame."""
        return self.components.n_dims

    def arrays(self) -> dict[str, Any]:
        """Return all arrays by name."""
        rows = {"startprob": self.startprob, "transmat": self.transmat, "mix_weights": self.mix_weights}
        return {**rows, **self.components.arrays(), "n_states": self.n_states}

    def with_components(self, components: Components) -> Models:
        """Return the same chains with other emissions."""
        return replace(self, components=components)

    def map(self, change: Callable[[Any], Any]) -> Models:
        """Return models with every array changed in the same way along its first axis."""
        return Models(
            change(self.startprob),
            change(self.transmat),
            change(self.mix_weights),
            self.components.map(change),
            change(self.n_states),
        )

    @staticmethod
    def joined(parts: list[Models]) -> Models:
        """Return all models of several sets of one size."""
        if len(parts) == 1:
            return parts[0]
        return Models(
            np.concatenate([p.startprob for p in parts]),
            np.concatenate([p.transmat for p in parts]),
            np.concatenate([p.mix_weights for p in parts]),
            parts[0].components.joined([p.components for p in parts]),
            np.concatenate([p.n_states for p in parts]),
        )

    def take(self, index: Any) -> Models:
        """Return the models at `index`."""
        if isinstance(index, np.ndarray) and index.dtype != bool:  # much faster than an index for many small rows
            return self.map(lambda array: array.take(index, axis=0))
        return self.map(lambda array: array[index])

    def put(self, index: Any, other: Models) -> None:
        """Overwrite the models at `index`."""
        for mine, theirs in zip(self.arrays().values(), other.arrays().values(), strict=True):
            mine[index] = theirs

    def copy(self) -> Models:
        """Return a deep copy of the models."""
        return self.map(np.array)

    def reordered(self, order: IntArray) -> Models:
        """Return the models with the states of each in another order, (K, S)."""
        k = np.arange(len(order))[:, None]
        return Models(
            self.startprob[k, order],
            self.transmat[k[:, :, None], order[:, :, None], order[:, None, :]],
            self.mix_weights[k, order],
            self.components.take((k, order)),
            self.n_states,
        )

    def n_parameters(self) -> IntArray:
        """Return the number of free parameters of every HMM, (K,): what is exactly zero is not free."""
        rows = (self.startprob, self.transmat, self.mix_weights)
        some = [(row > 0).astype(np.float64).reshape(len(self), -1, row.shape[-1]) for row in rows]
        free = sum(row_sums(np.maximum(row_sums(row) - 1, 0)) for row in some)
        n_components = row_sums(row_sums(some[-1]))
        return np.asarray(free + n_components * self.components.n_parameters(), dtype=np.int64)


class Pieces(NamedTuple):
    """What is behind models whose states are pieces: those of component m of state s follow each other, s before m."""

    whole: Models  #: the same models with whole states
    n_nodes: int  #: pieces per component, all of one weight

    def take(self, index: Any) -> Pieces:
        """Return what is behind the models at `index`."""
        return Pieces(self.whole.take(index), self.n_nodes)


class ModelSums(NamedTuple):
    """What an E-step counts for every model, and the M-step divides."""

    start: FloatArray  #: (K, S) first frames in each state
    trans: FloatArray  #: (K, S, S) transitions
    components: Sums  #: of the family, each (K, S, M, …); "count": frames of each component

    @staticmethod
    def zeros(models: Models) -> ModelSums:
        """Return sums of nothing."""
        return ModelSums(np.zeros(models.startprob.shape), np.zeros(models.transmat.shape), models.components.no_sums())

    @staticmethod
    def joined(parts: list[ModelSums]) -> ModelSums:
        """Return the sums of all models of several sets of one size."""
        start, trans, components = zip(*parts, strict=True)
        both = {name: np.concatenate([sums[name] for sums in components]) for name in components[0]}
        return ModelSums(np.concatenate(start), np.concatenate(trans), both)

    @staticmethod
    def total(parts: Iterable[ModelSums]) -> ModelSums:
        """Return sums added up in the order given."""
        return reduce(ModelSums._plus, parts)

    def _plus(self, other: ModelSums) -> ModelSums:
        both = {name: self.components[name] + other.components[name] for name in self.components}
        return ModelSums(self.start + other.start, self.trans + other.trans, both)

    def take(self, index: Any) -> ModelSums:
        """Return the sums of the models at `index`."""
        components = {name: array[index] for name, array in self.components.items()}
        return ModelSums(self.start[index], self.trans[index], components)

    def of_alive(self, alive: np.ndarray) -> ModelSums:
        """Return sums that are zero for models that are not alive."""
        if alive.all():
            return self
        keep = [alive.reshape(-1, *(1,) * n) for n in range(5)]
        components = {name: np.where(keep[a.ndim - 1], a, 0.0) for name, a in self.components.items()}
        return ModelSums(np.where(keep[1], self.start, 0.0), np.where(keep[2], self.trans, 0.0), components)

    @property
    def occupancy(self) -> FloatArray:
        """Frames in each state, (K, S)."""
        count = self.components["count"]
        return np.asarray(count @ np.ones(count.shape[-1]))  # several times faster than sum over a short axis
