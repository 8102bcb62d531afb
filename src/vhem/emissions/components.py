"""The protocol of emission families.

A state emits a mixture, Σ_m c_m f(y; θ_m). Mixing is the same for every family, so the primitive is not the emission of
a state but `Components`: a block of distributions f(·; θ) of one family, whose parameters lie in arrays with common
leading axes, (K, S, M) for K HMMs with S states and M components per state, or any others. A new family is one file
with a subclass; docs/extending.md walks through an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import InputError
from vhem._support.places import Names
from vhem.emissions.block import Block

#: What an M-step divides: sums with the leading axes of the components, "count" (Σ u) and the family's own.
Sums = dict[str, FloatArray]

_LABELS_AT_ONCE = 32  # for which components are pooled


class FamilyPrior(ABC):
    """What is known about the components of K HMMs before the data."""

    @abstractmethod
    def take(self, index: Any) -> FamilyPrior:
        """Return the priors of the HMMs at `index`."""

    @property
    @abstractmethod
    def is_flat(self) -> bool:
        """Whether it adds nothing to the objective."""


class Fault(NamedTuple):
    """A value that a family cannot emit."""

    row: int
    column: int
    why: InputError  #: what is wrong with it, in words that follow it: "which is negative", and the cures


def first_place(wrong: BoolArray) -> tuple[int, int] | None:
    """Return row and column of the first entry that is true, or None."""
    if not wrong.any():
        return None
    row, column = np.argwhere(wrong)[0]
    return int(row), int(column)


class Maximised(NamedTuple):
    """The M-step's components."""

    components: Components
    far: bool  #: whether components moved so far from the anchors that their sums have lost digits


class Number(NamedTuple):
    """A number by which readers compare states: a mean, a rate, a probability."""

    name: str
    values: FloatArray
    period: float | None = None  #: of angles
    limit: float = np.inf  #: that differences cannot exceed: 1 for probabilities

    def apart(self, x: Any, y: Any) -> FloatArray:
        """Return x - y; of angles the shorter way round."""
        gap = np.asarray(x - y, dtype=np.float64)
        return gap if self.period is None else (gap + self.period / 2) % self.period - self.period / 2


class Components(Block):
    """Distributions of one family. Immutable, except by the loops that created them."""

    @property
    def kind(self) -> str:
        """What two sets of components must have in common to be compared: the family and its options."""
        return self.family

    def reshaped(self, *lead: int) -> Self:
        """Return the same components under other leading axes."""
        old = len(self.lead)
        return self.map(lambda array: array.reshape(*lead, *array.shape[old:]))

    @abstractmethod
    def matched(self, others: Sequence[Self]) -> Self:
        """Return the same distributions in a form that can lie in one array with `others`."""

    def with_covariances(self, covariance_type: str) -> Self:
        """Return the same distributions with "diag" or "full" covariances, if they have any."""
        del covariance_type
        return self

    def seen_by(self, other: Self) -> Self:
        """Return distributions in the form of `other` that have the same expectations under it."""
        del other
        return self

    @classmethod
    @abstractmethod
    def template(cls, X: FloatArray, n_categories: Sequence[int | None], covariance_type: str) -> Self:
        """Return one component without leading axes that can model frames `X`, for estimators to make others like it.

        `n_categories` has the number of named categories of each column, or None.
        """

    @abstractmethod
    def padding(self) -> Self:
        """Return one component, without leading axes, that is harmless to compute with."""

    @abstractmethod
    def checked(self, used: BoolArray, mix_weights: FloatArray, names: Names) -> Self:
        """Return components (K, S, M) with harmless padding, if those of states in use (K, S) are valid."""

    # -- frames

    def fault(self, X: FloatArray) -> Fault | None:
        """Return what is wrong with frames that no component of this kind can emit, or None."""
        del X
        return None

    @abstractmethod
    def features(self, X: FloatArray) -> FloatArray:
        """Return numbers, (T, n), in which frames of different components lie apart: for k-means. NaN is missing."""

    def feature_moments(self, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, ...] | None:
        """Return counts, means, squared deviations and largest sizes of each group's features, (K, n).

        None if there is no shorter way than through the features.
        """
        del X, offsets
        return None

    @property
    def own_units(self) -> BoolArray:
        """Which features are comparable as they are; the others are divided by their standard deviation."""
        return np.zeros(self.n_dims, dtype=bool)

    @property
    def tell_together(self) -> BoolArray:
        """Of which features one frame says little, so that states are looked for in averages over neighbours."""
        return np.ones(len(self.own_units), dtype=bool)

    @abstractmethod
    def log_density(self, X: FloatArray) -> FloatArray:
        """Return log f(y; θ) of every frame of `X` (T, d): ``(T, *lead)``. NaN is integrated out."""

    @abstractmethod
    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return one random frame for each entry of `index`, which counts through all leading axes."""

    def drawn_evenly(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return frames for `index` that follow their distributions as exactly as their number allows, if known."""
        return self.draw(index, rng)

    # -- sums, and the M-step made of them

    @abstractmethod
    def no_sums(self) -> Sums:
        """Return sums of nothing."""

    @abstractmethod
    def frame_sums(self, X: FloatArray, u: FloatArray, anchors: Self) -> Sums:
        """Return the sums over frames, each counting u (T, *lead); NaN enters by its conditional expectation."""

    @abstractmethod
    def expected_sums(self, u: FloatArray, anchors: Self) -> Sums:
        """Return the sums expected of frames drawn from these components, each counting u (*lead, *anchors.lead)."""

    @abstractmethod
    def maximised(self, sums: Sums, anchors: Self, prior: FamilyPrior | None) -> Maximised:
        """Return the components that the sums, made about `anchors`, and the prior make most likely.

        If "count" is zero and the prior says nothing, the current value stays.
        """

    # -- pairs of distributions

    @abstractmethod
    def expected_log_density(self, other: Self) -> FloatArray:
        """Return E_{y~self} log other(y) of every pair, (*lead, *other.lead)."""

    def log_overlap(self, other: Self, power: float) -> FloatArray:
        """Return log ∫ self(y)^power other(y)^power dy of every pair; families that cannot raise an error."""
        del other, power
        raise NotImplementedError(f"there is no probability product kernel between {self.family} emissions.")

    # -- priors, starts, summaries

    @abstractmethod
    def typical(self, X: FloatArray, offsets: IntArray, mean: FloatArray, variance: FloatArray) -> FamilyPrior:
        """Return what is typical of each of K groups of frames, given the moments of its features, (K, n).

        Group k is ``X[offsets[k]:offsets[k + 1]]``. As a prior it is flat; `prior` gives it weight.
        """

    @abstractmethod
    def prior(self, typical: FamilyPrior, count: float, floor: float) -> FamilyPrior:
        """Return a prior of so many pseudo-frames, with limits relative to what is typical."""

    @abstractmethod
    def within_reach(self, n: int, share: float) -> FamilyPrior:
        """Return a prior of n HMMs that only keeps components from going beyond the most extreme of these.

        A variance may fall to this share of the smallest one here, and so on.
        """

    @abstractmethod
    def labelled(self, X: FloatArray, labels: IntArray, typical: FamilyPrior, rng: np.random.Generator) -> Self:
        """Return one component for the frames of each label, with a pseudo-frame that is typical; (n,) of them.

        `typical` has one entry per label; a label without frames gets a component at random.
        """

    @abstractmethod
    def log_prior(self, prior: FamilyPrior) -> FloatArray:
        """Return the log density of each HMM's components under the prior, up to a constant, (K,)."""

    @abstractmethod
    def above_floor(self, prior: FamilyPrior) -> Self:
        """Return components that the M-step could have made; otherwise EM's first step might lower the bound."""

    @abstractmethod
    def n_at_floor(self, prior: FamilyPrior) -> IntArray:
        """Return how many components of each HMM have a parameter at its floor, (K,)."""

    @abstractmethod
    def seeded(self, frames: FloatArray, prior: FamilyPrior, k: int | IntArray) -> Self:
        """Return one component of HMM k (or one k for each) around each of some frames, as wide as the data."""

    @abstractmethod
    def nudged(self, amount: float, rng: np.random.Generator) -> Self:
        """Return components moved at random by this many standard deviations."""

    @abstractmethod
    def apart(self, amount: float, whole: Self) -> tuple[Self, Self]:
        """Return two sets of components, moved apart by this many standard deviations of `whole` (one, or one each)."""

    @abstractmethod
    def n_parameters(self) -> int:
        """Return the number of free parameters of one component."""

    def numbers(
        self, mix_weights: FloatArray, columns: Sequence[str], categories: Sequence[Sequence[str] | None]
    ) -> list[Number]:
        """Return what readers compare states by, (K, S) each: means, rates, probabilities, in the columns' words.

        The components have the leading axes (K, S, M) of `mix_weights`; `categories` has the names of each column's, or
        None. Here they are those of the first field, because most families begin with their means.
        """
        del categories
        return means_by_column(mix_weights, getattr(self, self.fields[0]), columns)

    @abstractmethod
    def centre(self) -> FloatArray:
        """Return where the components lie, (*lead, n), in units in which they can be compared: for ordering, seeds."""


def means_by_column(
    mix_weights: FloatArray, means: FloatArray, columns: Sequence[str], limit: float = np.inf
) -> list[Number]:
    """Return the mean of every column in every state, under the column's name; `means` is (K, S, M, d)."""
    each = np.einsum("ksm,ksmd->dks", mix_weights, means)
    return [Number(name, values, limit=limit) for name, values in zip(columns, each, strict=True)]


def pooled(components: Components, weights: FloatArray, labels: npt.NDArray[np.intp], n: int) -> Components:
    """Return for each of n labels the one component that represents all components with that label.

    This is the M-step on the expected statistics of the parts, so it works for any family. `components` has one leading
    axis; a label without weight averages its members evenly.
    """
    if n > _LABELS_AT_ONCE and len(np.unique(labels)) == n:
        return _pooled_in_parts(components, weights, labels, n)
    u = np.where(labels[:, None] == np.arange(n), weights[:, None], 0.0)
    empty = u.sum(axis=0) == 0
    if empty.any():
        u[:, empty] = labels[:, None] == np.flatnonzero(empty)
    first = np.array([int(np.argmax(labels == label)) for label in range(n)])
    now = components.take(first)
    made = now.maximised(components.expected_sums(u, now), now, None)
    if made.far:
        made = now.maximised(components.expected_sums(u, made.components), made.components, None)
    return made.components


def _pooled_in_parts(components: Components, weights: FloatArray, labels: npt.NDArray[np.intp], n: int) -> Components:
    """Take some labels at a time: a table of all components and all labels grows with the square of their number."""
    order, firsts = np.argsort(labels, kind="stable"), range(0, n, _LABELS_AT_ONCE)
    parts = np.split(order, np.searchsorted(labels[order], firsts[1:]))
    made = [
        pooled(components.take(part), weights[part], labels[part] - first, min(_LABELS_AT_ONCE, n - first))
        for part, first in zip(parts, firsts, strict=True)
    ]
    return components.joined(made)
