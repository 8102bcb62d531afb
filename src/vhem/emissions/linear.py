"""Families whose log-density is linear in statistics of the frame: log f(y; θ) = ⟨η(θ), T(y)⟩ + log h(y).

Every exponential family is one, with a statistic that is always 1 and whose coefficient is minus the log-partition
function. So one matrix product gives densities, expectations between distributions, sums, and the log of the conjugate
prior, whose pseudo-counts are sums of statistics too. The columns of a frame are independent given the component: T has
P numbers for each of d columns. In a column that is missing all of them are zero, which integrates it out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from vhem._support.arrays import BoolArray, FloatArray, IntArray, floats
from vhem._support.errors import InputError, InputTypeError
from vhem._support.places import Names, check_finite
from vhem.emissions.components import Components, FamilyPrior, Maximised, Sums
from vhem.emissions.evenly import strata

LOG_ZERO = -1e290  # stands for log 0: times a probability of zero it is zero, where minus infinity would be NaN


def log(p: FloatArray) -> FloatArray:
    """Return log p, with `LOG_ZERO` for zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(p), LOG_ZERO))  # twice as fast as a mask


def membership(labels: IntArray, place: IntArray, shape: tuple[int, int]) -> Any:
    """Return the sparse matrix that adds up the rows at `place` by label, one for each frame."""
    return csr_array((np.ones(len(labels)), (labels, place)), shape=shape)


@dataclass(frozen=True, kw_only=True)
class LinearPrior(FamilyPrior):
    """The conjugate prior: sums of statistics of pseudo-frames, and limits of the parameters."""

    mean: FloatArray  #: (K, d, P) average statistics of the data
    sums: FloatArray  #: (K, d, P) of the pseudo-frames of every component
    low: dict[str, FloatArray] = field(default_factory=dict)  #: (K, d) the smallest value of a parameter, by its name
    high: dict[str, FloatArray] = field(default_factory=dict)  #: and the largest

    def take(self, index: Any) -> LinearPrior:
        """Return the priors of the HMMs at `index`."""
        low, high = ({name: a[index] for name, a in limits.items()} for limits in (self.low, self.high))
        return replace(self, mean=self.mean[index], sums=self.sums[index], low=low, high=high)

    @property
    def is_flat(self) -> bool:
        """Whether it adds nothing to the objective."""
        return not self.sums.any()


class LinearFamily(Components):
    """Base of such families; the first of the fields has d columns along the axis after the leading ones.

    A subclass has `statistics`, `coefficients`, `expected_statistics`, `estimated`, `features` and `draw`, and, if h is
    not one, `log_base` and `expected_log_base`.
    """

    harmless: ClassVar[tuple[float, ...]] = (1.0,)  #: values of the fields that can be computed with
    ranges: ClassVar[dict[str, tuple[float, float]]]  #: between which values, all excluded, the fields lie
    limited: ClassVar[tuple[str, ...]] = ()  #: the fields that need limits: their extremes are unbounded likelihoods
    words: ClassVar[dict[str, str]] = {}  #: what a value of a field is called

    def __init__(self, *arrays: npt.ArrayLike, **named: npt.ArrayLike) -> None:
        given_names = (*self.fields[: len(arrays)], *named)
        if sorted(given_names) != sorted(self.fields):
            raise InputTypeError("{family} takes {fields}", family=type(self).__name__, fields=", ".join(self.fields))
        by_name = dict(zip(given_names, (*arrays, *named.values()), strict=True))
        for name, array in ((name, by_name[name]) for name in self.fields):
            given = floats(array, name)
            # Users leave out the axis of columns if there is only one.
            setattr(self, name, given if given.ndim != self.trailing else np.expand_dims(given, 1))
            if name != self.fields[0] and given.ndim:
                self._check_shape(name, Names())

    @classmethod
    def of(cls, *arrays: FloatArray) -> Self:
        """Return components of these arrays exactly as they are."""
        made = cls.__new__(cls)
        for name, array in zip(cls.fields, arrays, strict=True):
            setattr(made, name, array)
        return made

    @classmethod
    def template(cls, X: FloatArray, n_categories: Sequence[int | None], covariance_type: str) -> Self:
        """Return one harmless component."""
        del n_categories, covariance_type
        return cls.of(*(np.full(X.shape[1], value) for value in cls.harmless))

    def padding(self) -> Self:
        """Return one harmless component."""
        return self.of(*(np.full(self.n_dims, value) for value in self.harmless))

    def matched(self, others: Sequence[Self]) -> Self:
        """Return the same components."""
        del others
        return self

    def checked(self, used: BoolArray, mix_weights: FloatArray, names: Names) -> Self:
        """Return components with harmless padding, if all are valid."""
        for name in self.fields:
            check_finite(getattr(self, name), name, names)
            self._check_shape(name, names)
        if not used.all():
            self.put(~used, self.padding())
        if not mix_weights.all():
            blank = (mix_weights == 0) & ~self._first.reshape(*mix_weights.shape, -1).any(axis=-1)
            k, s, m = np.nonzero(blank)
            self.put((k, s, m), self.take((k, s, mix_weights[k, s].argmax(axis=-1))))
        self._check_ranges(names)
        return self

    def _check_shape(self, name: str, names: Names) -> None:
        shape, wanted = getattr(self, name).shape, self._first.shape
        if shape != wanted:
            raise InputError(
                "{name} has shape {shape}, but {first} has {wanted}; they must agree",
                name=name, shape=names.shape(shape), first=self.fields[0], wanted=names.shape(wanted),
            )  # fmt: skip

    def _check_ranges(self, names: Names) -> None:
        for name, (low, high) in self.ranges.items():
            array = getattr(self, name)
            wrong = ~((array > low) & (array < high))
            if wrong.any():
                k, s, m, j = (int(i) for i in np.argwhere(wrong)[0][:4])
                limits = f"be above {low:g}" if high == np.inf else f"lie between {low:g} and {high:g}"
                raise InputError(
                    "{place}: the {what} of dimension {j} is {value:.6g}; it must {limits}",
                    place=names.place(k, s, m), what=self.words[name], j=j, value=array[k, s, m, j], limits=limits,
                )  # fmt: skip

    # -- what a family says about itself

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return T(y) of every frame, (N, d, P), here (1, y); zeros where a value is missing."""
        seen = ~np.isnan(X)
        return np.stack([seen.astype(np.float64), np.where(seen, X, 0.0)], axis=-1)

    @property
    def has_base(self) -> bool:
        """Whether h is not one."""
        return type(self).log_base is not LinearFamily.log_base

    def log_base(self, X: FloatArray) -> FloatArray:
        """Return log h(y) of every frame, (N,)."""
        return np.zeros(len(X))

    @abstractmethod
    def coefficients(self) -> FloatArray:
        """Return η(θ), (*lead, d, P)."""

    @abstractmethod
    def expected_statistics(self) -> FloatArray:
        """Return E T(y), (*lead, d, P)."""

    def expected_log_base(self) -> FloatArray:
        """Return E log h(y), (*lead,)."""
        return np.zeros(self.lead)

    @abstractmethod
    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Self:
        """Return the components that are likeliest given sums of statistics (*lead, d, P), within the prior's limits.

        Some sums may be zero; what is made of them is not used.
        """

    def observed(self, sums: FloatArray) -> FloatArray:
        """Return the number of values that sums (…, d, P) are made of, (…, d); by convention the first statistic."""
        return np.asarray(sums[..., 0])

    # -- frames

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return ⟨η, T(y)⟩ + log h(y), (N, *lead)."""
        T, eta = self.statistics(X).reshape(len(X), -1), self.coefficients().reshape(int(np.prod(self.lead)), -1)
        return np.asarray((T @ eta.T + self.log_base(X)[:, None]).reshape(len(X), *self.lead))

    # -- sums: Σ u and Σ u T

    def no_sums(self) -> Sums:
        """Return sums of nothing."""
        return {"count": np.zeros(self.lead), "statistics": np.zeros(self.coefficients().shape)}

    def frame_sums(self, X: FloatArray, u: FloatArray, anchors: Self) -> Sums:
        """Return the sums over frames; a missing value adds nothing, so that it changes nothing."""
        del anchors
        T = self.statistics(X)
        sums = u.reshape(len(X), -1).T @ T.reshape(len(X), -1)
        return {"count": u.sum(axis=0), "statistics": sums.reshape(*self.lead, *T.shape[1:])}

    def drawn_evenly(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return as many frames between any two quantiles as there should be, in random order."""
        made = self.quantiles(index, strata(index, self.n_dims, rng))
        return self.draw(index, rng) if made is None else made

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray | None:
        """Return the values below which the components at `index` lie with probability u, (n, d), if known."""
        del index, u
        return None

    def sums_by_label(self, X: FloatArray, labels: IntArray, n: int) -> FloatArray:
        """Return the sums of the statistics of the frames with each of n labels, (n, d, P)."""
        T = self.statistics(X)
        sums = membership(labels, np.arange(len(X)), (n, len(X))) @ T.reshape(len(X), -1)
        return np.asarray(sums.reshape(n, *T.shape[1:]), np.float64)

    def expected_sums(self, u: FloatArray, anchors: Self) -> Sums:
        """Return Σ u and Σ u E T over these components."""
        n, T = int(np.prod(self.lead)), self.expected_statistics()
        weights = u.reshape(n, -1).T
        sums = (weights @ T.reshape(n, -1)).reshape(*anchors.lead, *T.shape[-2:])
        return {"count": weights.sum(axis=1).reshape(anchors.lead), "statistics": sums}

    def maximised(self, sums: Sums, anchors: Self, prior: FamilyPrior | None) -> Maximised:
        """Return the components that maximise the expected log-likelihood plus the log prior."""
        del anchors
        total = sums["statistics"]
        if prior is not None:
            assert isinstance(prior, LinearPrior)
            total = total + prior.sums[:, None, None]
        return Maximised(self._kept_unless(self.observed(total) > 0, self.estimated(total, prior)), far=False)

    def _kept_unless(self, known: BoolArray, made: Self) -> Self:
        """Return `made` in columns where something is known, and the present value elsewhere."""
        if known.all():
            return made
        pairs = ((getattr(made, name), getattr(self, name)) for name in self.fields)
        return self.of(*(np.where(known.reshape(*known.shape, *(1,) * (a.ndim - known.ndim)), a, b) for a, b in pairs))

    # -- pairs

    def expected_log_density(self, other: Self) -> FloatArray:
        """Return ⟨η', E T⟩ + E log h of every pair."""
        n, m = int(np.prod(self.lead)), int(np.prod(other.lead))
        product = self.expected_statistics().reshape(n, -1) @ other.coefficients().reshape(m, -1).T
        return np.asarray((product + self.expected_log_base().reshape(n, 1)).reshape(*self.lead, *other.lead))

    # -- priors, starts, summaries

    def typical(self, X: FloatArray, offsets: IntArray, mean: FloatArray, variance: FloatArray) -> LinearPrior:
        """Return each group's average statistics; the fewer its frames, the more of everybody's average."""
        del mean, variance
        K = len(offsets) - 1
        sums = self.sums_by_label(X, np.repeat(np.arange(K), np.diff(offsets)), K)
        every = sums.sum(axis=0)
        n = self.observed(every)[:, None]
        overall = np.where(n > 0, every / np.maximum(n, 1.0), self.padding().expected_statistics())
        average = (sums + overall) / (self.observed(sums)[..., None] + 1.0)
        return LinearPrior(mean=average, sums=np.zeros_like(average))

    def prior(self, typical: FamilyPrior, count: float, floor: float) -> LinearPrior:
        """Return pseudo-frames with the average statistics, and the limits."""
        assert isinstance(typical, LinearPrior)
        low, high = self.limits(typical.mean, floor)
        return replace(typical, sums=count * typical.mean, low=low, high=high)

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return the smallest and largest values of some fields, (K, d), given the data's average statistics."""
        del mean, floor
        return {}, {}

    def within_reach(self, n: int, share: float) -> LinearPrior:
        """Return limits at a share of the smallest values here, and that much beyond the largest."""
        flat = self.reshaped(-1)
        every = {name: getattr(flat, name) for name in self.limited}
        low = {name: np.tile(share * values.min(axis=0), (n, 1)) for name, values in every.items()}
        high = {name: np.tile(values.max(axis=0) / share, (n, 1)) for name, values in every.items()}
        mean = np.tile(flat.expected_statistics().mean(axis=0), (n, 1, 1))
        return LinearPrior(mean=mean, sums=np.zeros_like(mean), low=low, high=high)

    def _clipped(self, prior: LinearPrior | None, name: str, values: FloatArray) -> FloatArray:
        """Return values of a field (K, S, M, d) within the prior's limits."""
        if prior is None:
            return values
        if name in prior.low:
            values = np.maximum(values, prior.low[name][:, None, None])
        return np.minimum(values, prior.high[name][:, None, None]) if name in prior.high else values

    def log_prior(self, prior: FamilyPrior) -> FloatArray:
        """Return Σ_sm ⟨η, pseudo-sums⟩, (K,)."""
        assert isinstance(prior, LinearPrior)
        if prior.is_flat:
            return np.zeros(len(self._first))
        return np.asarray(np.einsum("ksmdp,kdp->k", self.coefficients(), prior.sums))

    def above_floor(self, prior: FamilyPrior) -> Self:
        """Return components within the prior's limits."""
        assert isinstance(prior, LinearPrior)
        return self.of(*(self._clipped(prior, name, getattr(self, name)) for name in self.fields))

    def n_at_floor(self, prior: FamilyPrior) -> IntArray:
        """Return how many components of each HMM have a parameter at one of its limits, (K,)."""
        assert isinstance(prior, LinearPrior)
        at = np.zeros(self.lead, dtype=bool)
        for name, low in prior.low.items():
            at |= (getattr(self, name) <= low[:, None, None]).any(axis=-1)
        for name, high in prior.high.items():
            at |= (getattr(self, name) >= high[:, None, None]).any(axis=-1)
        return np.asarray(at.sum(axis=(1, 2)), dtype=np.int64)

    def labelled(self, X: FloatArray, labels: IntArray, typical: FamilyPrior, rng: np.random.Generator) -> Self:
        """Return the estimates of each label's frames and one typical pseudo-frame; at random without frames."""
        assert isinstance(typical, LinearPrior)
        n = len(typical.mean)
        made = self.estimated(self.sums_by_label(X, labels, n) + typical.mean, None)
        empty = np.flatnonzero(np.bincount(labels, minlength=n) == 0)
        made.put(empty, made.take(empty).nudged(1.0, rng))
        return made

    def seeded(self, frames: FloatArray, prior: FamilyPrior, k: int | IntArray) -> Self:
        """Return the estimates of single frames, each with one typical pseudo-frame."""
        assert isinstance(prior, LinearPrior)
        return self.padding().estimated(self.statistics(frames) + prior.mean[k], None)

    def nudged(self, amount: float, rng: np.random.Generator) -> Self:
        """Return the components moved at random."""
        return self.shifted(amount * rng.standard_normal(self._first.shape))

    def apart(self, amount: float, whole: Self) -> tuple[Self, Self]:
        """Return the components moved apart in all columns."""
        del whole
        steps = np.broadcast_to(amount * self.ways_apart(), self._first.shape)
        return self.shifted(-steps), self.shifted(steps)

    @abstractmethod
    def shifted(self, steps: FloatArray) -> Self:
        """Return the components moved by so many standard deviations, in the shape of the first field."""

    def ways_apart(self) -> FloatArray:
        """Return which way two halves of a component are moved apart."""
        return np.ones(1)

    def n_parameters(self) -> int:
        """Return the number of free parameters of one component."""
        return len(self.fields) * self.n_dims
