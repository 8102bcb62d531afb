"""Priors learned from the data (empirical Bayes): the hyperparameters that maximise the bound, given the posteriors.

Every step is exact, in closed form or by bisection of a falling slope, so that the bound rises here too. The range of
each hyperparameter is limited: the bound of a single HMM would let some of them run to infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from vhem._support.arrays import FloatArray, IntArray
from vhem.bayes.beliefs import Beliefs
from vhem.emissions.dirichlet import expected_logs
from vhem.emissions.normal_wishart import NormalWishart

_LOG_2 = float(np.log(2.0))
_BISECTIONS = 32  # of a range of a few factors of ten: nine digits


class Range(NamedTuple):
    """Where a hyperparameter may lie."""

    low: float
    high: float


_ROWS, _BETA, _FREEDOM = Range(0.02, 50.0), Range(1e-3, 50.0), Range(1.0, 50.0)


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """Limits of the hyperparameters; those of v0 are counted from the smallest value that is possible."""

    rows: Range = _ROWS
    beta0: Range = _BETA
    v0: Range = _FREEDOM

    @staticmethod
    def of_emhmm() -> Ranges:
        """Return the toolbox's limits, which hardly limit anything."""
        wide = Range(1.0686e-13, 1.0686e13)
        return Ranges(rows=wide, beta0=wide, v0=Range(2.0612e-9, 1e4))


class RowStatistics(NamedTuple):
    """What is known about Dirichlet rows that share one pseudo-count, for G sets of them."""

    sizes: FloatArray  #: (G, S + 1) how many rows have so many possible entries
    logs: FloatArray  #: (G,) Σ E log p

    @staticmethod
    def of(alpha: FloatArray, prior: FloatArray, where: IntArray, n: int) -> RowStatistics:
        """Return those of rows (C, …, S); `where` (C,) is the set of each."""
        possible = prior > 0
        size = possible.sum(-1).reshape(len(alpha), -1)
        sizes = np.zeros((n, alpha.shape[-1] + 1))
        np.add.at(sizes, (np.repeat(where, size.shape[1]), size.ravel()), 1.0)
        logs = np.where(possible, expected_logs(alpha), 0.0).reshape(len(alpha), -1).sum(1)
        return RowStatistics(sizes, np.bincount(where, logs, n).astype(np.float64))

    def __add__(self, other: RowStatistics) -> RowStatistics:  # type: ignore[override]
        width = max(self.sizes.shape[1], other.sizes.shape[1])
        both = [np.pad(s.sizes, ((0, 0), (0, width - s.sizes.shape[1]))) for s in (self, other)]
        return RowStatistics(both[0] + both[1], self.logs + other.logs)

    def slope(self, a: FloatArray) -> FloatArray:
        """Return Σ_rows [ n ψ(n a) - n ψ(a) ] + Σ E log p, the derivative of the bound by the pseudo-count a."""
        n = np.arange(self.sizes.shape[1])[1:]
        terms = n * (digamma(n * a[:, None]) - digamma(a)[:, None])
        return np.asarray((self.sizes[:, 1:] * terms).sum(1) + self.logs)

    def best(self, limits: Range) -> FloatArray:
        """Return the pseudo-count that maximises the bound."""
        return root_of_falling(self.slope, np.full(len(self.logs), limits.low), np.full(len(self.logs), limits.high))


class GaussianStatistics(NamedTuple):
    """What is known about the Gaussians of G sets of states; means are counted from `reference`."""

    reference: FloatArray  #: (G, d)
    n: FloatArray  #: (G,) states
    log_det: FloatArray  #: (G,) Σ E log|Λ|
    uncertain: FloatArray  #: (G,) Σ d/β
    precision: FloatArray  #: (G, d, d) or (G, d) Σ v W
    pull: FloatArray  #: (G, d) Σ v W (m - r)
    distance: FloatArray  #: (G,) Σ v (m - r)ᵀ W (m - r)

    @staticmethod
    def of(q: NormalWishart, reference: FloatArray, where: IntArray, n: int) -> GaussianStatistics:
        """Return those of posteriors (F, S); `where` (F,) is the set of each."""
        offset = q.m - reference[where][:, None]
        wide = q.v[..., None] if q.is_diagonal else q.v[..., None, None]
        vW = wide * q.W
        pull = vW * offset if q.is_diagonal else np.einsum("...ab,...b->...a", vW, offset)
        per_fit = (
            np.full(len(where), float(q.m.shape[1])), q.expected_log_det().sum(1), (q.n_dims / q.beta).sum(1),
            vW.sum(1), pull.sum(1), (pull * offset).sum((1, 2)),
        )  # fmt: skip
        return GaussianStatistics(reference, *(_added(array, where, n) for array in per_fit))

    def __add__(self, other: GaussianStatistics) -> GaussianStatistics:  # type: ignore[override]
        return GaussianStatistics(self.reference, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))

    @property
    def is_diagonal(self) -> bool:
        """Whether every dimension has its own precision."""
        return self.precision.ndim == 2

    def best(self, prior: NormalWishart, ranges: Ranges, iid: bool) -> NormalWishart:
        """Return the prior (G, 1) that maximises the bound; `iid` lets all dimensions share one scale."""
        d = self.pull.shape[-1]
        shift = self.pull / self.precision if self.is_diagonal else np.linalg.solve(
            self.precision, self.pull[..., None]
        )[..., 0]  # fmt: skip
        distance = np.maximum(self.distance - (shift * self.pull).sum(-1), 0.0)
        beta = np.clip(self.n * d / (self.uncertain + distance), *ranges.beta0)
        traces = self.precision if self.is_diagonal else np.einsum("...aa->...a", self.precision)
        if iid:
            traces = np.broadcast_to(traces.mean(-1, keepdims=True), traces.shape)
        least = 0.0 if self.is_diagonal else d - 1.0
        v = self._best_v(traces, least, ranges.v0)
        rate = (self.n * v)[:, None] / traces
        rate = rate if prior.is_diagonal else rate[..., None] * np.eye(d)
        return NormalWishart(beta[:, None], v[:, None], (self.reference + shift)[:, None], rate[:, None])

    def _best_v(self, traces: FloatArray, least: float, limits: Range) -> FloatArray:
        """Return v0, with W0 always the best for it: W0 = Σ v W / (n v0)."""
        d = traces.shape[-1]
        offsets = np.zeros(d) if self.is_diagonal else np.arange(d)
        known = self.log_det / self.n - np.log(traces / self.n[:, None]).sum(-1)

        def slope(v: FloatArray) -> FloatArray:
            return np.asarray(d * (np.log(v) - _LOG_2) - digamma((v[:, None] - offsets) / 2).sum(-1) + known)

        ends = np.full(len(traces), least + limits.low), np.full(len(traces), least + limits.high)
        return root_of_falling(slope, *ends)


def root_of_falling(slope: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Return where falling functions cross zero, by bisection on the log scale; an end, if one does not."""
    at_low, at_high = slope(low) <= 0, slope(high) >= 0
    a, b = np.log(low), np.log(high)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (a + b)
        rises = slope(np.exp(middle)) > 0
        a, b = np.where(rises, middle, a), np.where(rises, b, middle)
    return np.where(at_low, low, np.where(at_high, high, np.exp(0.5 * (a + b))))


def _added(array: FloatArray, where: IntArray, n: int) -> FloatArray:
    if len(array) == n and (where == np.arange(n)).all():
        return array
    out = np.zeros((n, *array.shape[1:]))
    np.add.at(out, where, array)
    return out


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Learns the prior of every fit from its own posterior."""

    ranges: Ranges = field(default_factory=Ranges)
    iid: bool = False  #: whether all dimensions share one W0

    def __call__(self, q: Beliefs, prior: Beliefs, owner: IntArray) -> Beliefs:
        """Return better priors."""
        n = q.emissions.lead[0]
        start = RowStatistics.of(q.start, prior.start, owner, n).best(self.ranges.rows)
        trans = RowStatistics.of(q.trans, prior.trans, owner, n).best(self.ranges.rows)
        emissions = prior.emissions
        if isinstance(q.emissions, NormalWishart) and isinstance(emissions, NormalWishart):
            found = GaussianStatistics.of(q.emissions, emissions.m[:, 0], np.arange(n), n)
            emissions = found.best(emissions, self.ranges, self.iid)
        return prior._replace(
            start=np.where(prior.start > 0, start[owner][:, None], 0.0),
            trans=np.where(prior.trans > 0, trans[owner][:, None, None], 0.0),
            emissions=emissions,
        )
