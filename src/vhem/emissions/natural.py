"""Conjugate distributions of the parameters of families that are linear in statistics: q(θ) ∝ exp ⟨η(θ), s⟩ dμ(θ).

The pseudo-sums s are sums of statistics of pseudo-frames, so a posterior is the prior's s plus the sums of an E-step,
whatever the family. All else follows from two integrals, log Z(s) = log ∫ exp ⟨η, s⟩ dμ and E η:

    E log f(y; θ) = ⟨E η, T(y)⟩ + log h(y),      KL[q ‖ p] = ⟨E η, s - s0⟩ - log Z(s) + log Z(s0).

Columns are independent. Here are the families in which the integrals have closed forms.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import betaln, digamma, gammaln

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions import dirichlet
from vhem.emissions.bernoulli import Bernoulli
from vhem.emissions.categorical import Categorical
from vhem.emissions.components import Components, Sums
from vhem.emissions.conjugate import Conjugate, Expected, Updated
from vhem.emissions.exponential import Exponential
from vhem.emissions.linear import LOG_ZERO, LinearFamily
from vhem.emissions.poisson import Poisson

_HALF = 0.5  # pseudo-counts of a category, on average


class Averaged(LinearFamily):
    """Densities exp ⟨E η, T(y)⟩ h(y): what kernels compute E log f by. They integrate to less than one."""

    family: ClassVar[str] = "averaged"
    fields: ClassVar[tuple[str, ...]] = ("eta",)
    trailing: ClassVar[int] = 2

    eta: FloatArray  #: (*lead, d, P)

    def __init__(self, eta: FloatArray, like: LinearFamily) -> None:
        self.eta, self.like = eta, like

    def map(self, change: Callable[[FloatArray], FloatArray]) -> Averaged:
        """Return densities with their coefficients changed along leading axes."""
        return Averaged(change(self.eta), self.like)

    @classmethod
    def joined(cls, parts: Sequence[Self], join: Callable[..., FloatArray] = np.concatenate) -> Averaged:
        """Return several blocks as one."""
        return Averaged(join([part.eta for part in parts]), parts[0].like)

    def coefficients(self) -> FloatArray:
        """Return E η."""
        return self.eta

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return those of the family."""
        return self.like.statistics(X)

    @property
    def has_base(self) -> bool:
        """Whether the family has one."""
        return self.like.has_base

    def log_base(self, X: FloatArray) -> FloatArray:
        """Return that of the family."""
        return self.like.log_base(X)

    def observed(self, sums: FloatArray) -> FloatArray:
        """Return the number of values."""
        return self.like.observed(sums)

    def features(self, X: FloatArray) -> FloatArray:
        """Return those of the family."""
        return self.like.features(X)

    def _nothing(self, *_: Any) -> Any:
        raise NotImplementedError("averaged densities only score frames.")

    expected_statistics: Any = _nothing
    draw: Any = _nothing
    estimated: Any = _nothing
    shifted: Any = _nothing
    centre: Any = _nothing


class Integrals(NamedTuple):
    """What is needed of a distribution of parameters, column by column."""

    log_norm: FloatArray  #: (*lead, d) log Z
    eta: FloatArray  #: (*lead, d, P) E η


class Natural(Conjugate):
    """Distributions ∝ exp ⟨η(θ), s⟩; a subclass has `integrals`, `weak` and what users see."""

    fields: ClassVar[tuple[str, ...]] = ("sums",)
    trailing: ClassVar[int] = 2

    sums: FloatArray  #: (*lead, d, P) s

    def __init__(self, *arrays: FloatArray) -> None:
        for name, array in zip(self.fields, arrays, strict=True):
            setattr(self, name, array)
        self._known: Integrals | None = None

    def put(self, index: Any, other: Self) -> None:
        """Overwrite the distributions at `index`."""
        super().put(index, other)
        self._known = None

    @classmethod
    @abstractmethod
    def weak(cls, like: Any, mean: FloatArray) -> Self:
        """Return a weak prior for groups with these average statistics, (G, d, P): (G, 1)."""

    @property
    @abstractmethod
    def like(self) -> LinearFamily:
        """One component without leading axes, which knows the statistics of frames."""

    @abstractmethod
    def integrals(self) -> Integrals:
        """Return log Z and E η."""

    @property
    def known(self) -> Integrals:
        """The integrals, computed once."""
        if self._known is None:
            self._known = self.integrals()
        return self._known

    def expected(self) -> Expected:
        """Return exp ⟨E η, T⟩; nothing is lost beside it."""
        return Expected(Averaged(self.known.eta, self.like), np.zeros(self.lead))

    def updated(self, sums: Sums, anchors: Components, extra: float = 0.0) -> Updated:
        """Return the posterior: pseudo-sums and sums, added up."""
        del anchors, extra
        more = sums["statistics"][..., 0, :, :]
        rest = (getattr(self, name) for name in self.fields[1:])
        wide = (np.broadcast_to(array, (*more.shape[:2], *array.shape[2:])).copy() for array in rest)
        return Updated(type(self)(self.sums + more, *wide), far=False)

    def divergence(self, prior: Self) -> FloatArray:
        """Return KL[self ‖ prior]."""
        more = self.sums - prior.sums
        terms = np.where(more != 0, self.known.eta * more, 0.0).sum(-1)
        return np.asarray((terms - self.known.log_norm + prior.known.log_norm).sum(-1))


class Categories(Natural):
    """Dirichlet distributions of the probabilities of categories."""

    family: ClassVar[str] = "categorical"

    @classmethod
    def weak(cls, like: Categorical, mean: FloatArray) -> Categories:
        """Return half a pseudo-count per category on average: one half of them evenly, the other as the data have."""
        possible = like.possible
        n = possible.sum(-1, keepdims=True)
        shares = np.where(possible, 0.5 * (mean / np.maximum(mean.sum(-1, keepdims=True), 1e-300) + 1 / n), 0.0)
        return Categories((_HALF * n * shares)[:, None])

    @property
    def like(self) -> Categorical:
        """Equal probabilities of what is possible."""
        possible = (self.sums > 0).reshape(-1, *self.sums.shape[-2:]).any(0)
        return Categorical.of(possible / possible.sum(-1, keepdims=True))

    def padding(self) -> Categories:
        """Return one pseudo-count for each category that is possible."""
        return Categories((self.like.probabilities > 0).astype(np.float64))

    def integrals(self) -> Integrals:
        """Return log B(α) and ψ(α) - ψ(Σα)."""
        possible = self.sums > 0
        a = np.where(possible, self.sums, 1.0)
        log_norm = np.where(possible, gammaln(a), 0.0).sum(-1) - gammaln(self.sums.sum(-1))
        eta = dirichlet.expected_logs(self.sums)
        return Integrals(log_norm, np.where(possible, eta, LOG_ZERO))

    def expected(self) -> Expected:
        """Return categories whose probabilities sum to less than one: kernels read them from tables."""
        return Expected(Categorical.of(np.exp(self.known.eta)), np.zeros(self.lead))

    def point(self) -> Categorical:
        """Return the mean probabilities."""
        return Categorical.of(dirichlet.mean_rows(self.sums))

    predictive = point

    def drawn(self, rng: np.random.Generator) -> Categorical:
        """Return random probabilities."""
        return Categorical.of(dirichlet.drawn_rows(self.sums, rng))

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations of the probabilities."""
        return {"probabilities": dirichlet.deviation_of_rows(self.sums)}


class Events(Natural):
    """Beta distributions of the probabilities of events; the pseudo-counts are (no, yes)."""

    family: ClassVar[str] = "bernoulli"

    @classmethod
    def weak(cls, like: Bernoulli, mean: FloatArray) -> Events:
        """Return one pseudo-frame, half of it undecided and half as often yes as the data are."""
        del like
        return Events((0.5 * (mean / mean.sum(-1, keepdims=True) + 0.5))[:, None])

    @property
    def like(self) -> Bernoulli:
        """Even chances."""
        return Bernoulli.of(np.full(self.n_dims, 0.5))

    def padding(self) -> Events:
        """Return one pseudo-count of each."""
        return Events(np.ones((self.n_dims, 2)))

    def integrals(self) -> Integrals:
        """Return log B(a, b) and the expected logs."""
        return Integrals(betaln(self.sums[..., 0], self.sums[..., 1]), dirichlet.expected_logs(self.sums))

    def point(self) -> Bernoulli:
        """Return the mean probabilities."""
        return Bernoulli.of(dirichlet.mean_rows(self.sums)[..., 1])

    predictive = point

    def drawn(self, rng: np.random.Generator) -> Bernoulli:
        """Return random probabilities."""
        return Bernoulli.of(dirichlet.drawn_rows(self.sums, rng)[..., 1])

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations of the probabilities."""
        return {"probabilities": dirichlet.deviation_of_rows(self.sums)[..., 1]}


class Rates(Natural):
    """Gamma distributions of Poisson rates: λ ~ Gamma(s₁, s₀), with dμ = dλ/λ."""

    family: ClassVar[str] = "poisson"

    @classmethod
    def weak(cls, like: Poisson, mean: FloatArray) -> Rates:
        """Return one pseudo-event at the average rate: an exponential distribution of rates with the data's mean."""
        del like
        rate = np.maximum(mean[..., 1] / np.maximum(mean[..., 0], 1e-300), 1e-6)
        return Rates(np.stack([1 / rate, np.ones_like(rate)], axis=-1)[:, None])

    @property
    def like(self) -> Poisson:
        """Rates of one."""
        return Poisson.of(np.ones(self.n_dims))

    def padding(self) -> Rates:
        """Return one pseudo-event in one frame."""
        return Rates(np.ones((self.n_dims, 2)))

    def integrals(self) -> Integrals:
        """Return log Γ(a) - a log b, and (-a/b, ψ(a) - log b)."""
        b, a = self.sums[..., 0], self.sums[..., 1]
        return Integrals(gammaln(a) - a * np.log(b), np.stack([-a / b, digamma(a) - np.log(b)], axis=-1))

    def point(self) -> Poisson:
        """Return the mean rates."""
        return Poisson.of(self.sums[..., 1] / self.sums[..., 0])

    predictive = point  # a Poisson distribution with the expectation of the next frame, which is negative binomial

    def drawn(self, rng: np.random.Generator) -> Poisson:
        """Return random rates."""
        drawn = rng.standard_gamma(self.sums[..., 1]) / self.sums[..., 0]
        return Poisson.of(np.maximum(drawn, np.finfo(float).tiny))

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations of the rates."""
        return {"rates": np.sqrt(self.sums[..., 1]) / self.sums[..., 0]}


class Durations(Natural):
    """Gamma distributions of the inverse mean of exponential distributions: 1/m ~ Gamma(s₀, s₁), with dμ = d log m."""

    family: ClassVar[str] = "exponential"

    @classmethod
    def weak(cls, like: Exponential, mean: FloatArray) -> Durations:
        """Return one pseudo-frame of average duration."""
        del like
        average = np.maximum(mean[..., 1] / np.maximum(mean[..., 0], 1e-300), 1e-150)
        return Durations(np.stack([np.ones_like(average), average], axis=-1)[:, None])

    @property
    def like(self) -> Exponential:
        """Means of one."""
        return Exponential.of(np.ones(self.n_dims))

    def padding(self) -> Durations:
        """Return two pseudo-frames."""
        return Durations(np.full((self.n_dims, 2), 2.0))

    def integrals(self) -> Integrals:
        """Return log Γ(a) - a log b, and (ψ(a) - log b, -a/b)."""
        a, b = self.sums[..., 0], self.sums[..., 1]
        return Integrals(gammaln(a) - a * np.log(b), np.stack([digamma(a) - np.log(b), -a / b], axis=-1))

    def point(self) -> Exponential:
        """Return b / (a - 1), the mean of the means; b / a if there is none."""
        a, b = self.sums[..., 0], self.sums[..., 1]
        return Exponential.of(b / np.where(a > 2, a - 1, a))

    predictive = point  # with the expectation of the next frame, whose distribution is Lomax's

    def drawn(self, rng: np.random.Generator) -> Exponential:
        """Return random means."""
        return Exponential.of(self.sums[..., 1] / np.maximum(rng.standard_gamma(self.sums[..., 0]), 1e-290))

    def deviations(self) -> dict[str, FloatArray]:
        """Return the deviations of the means; NaN where there are none."""
        a = self.sums[..., 0]
        return {"means": self.point().means / np.sqrt(np.where(a > 2, a - 2, np.nan))}


def index_of(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return a random index along the last axis, by weight."""
    sums = np.cumsum(weights, axis=-1)
    drawn = rng.random(sums.shape[:-1])[..., None] * sums[..., -1:]
    return np.asarray((drawn >= sums).sum(-1).clip(max=weights.shape[-1] - 1))
