"""A mixture of HMMs whose items vary, learned from sequences, as a problem of EM; diagonal covariances.

People of one kind are similar, not identical. Item i of cluster j has, in state s and dimension d,

    mean       μ_jsd + b,   b ~ N(0, T_jd)            how far items' means lie from the centre's
    precision  λ ~ Gamma(κ/2, κ σ²_jsd / 2)           how alike items' variances are
    rows of A  ~ Dirichlet(c A_js·)                   how closely items follow the centre's transitions

T, κ and c are learned. For every item and cluster q(states) q(b) q(λ) q(A) approximates the posterior, and

    F_ij = Σ_sequences log Z(q_ij) - KL(q_ij || prior_j)  ≤  log p(sequences of i | cluster j)

takes the place of the likelihood: z_ij ∝ ω_j exp F_ij, and the objective is Σ_i log Σ_j ω_j exp F_ij. A cluster is thus
not split by differences between its items that are as large as those within every other cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from vhem._support.arrays import FloatArray
from vhem.em.grouped import Batch
from vhem.em.loop import Problem, Step
from vhem.emissions import Gaussian
from vhem.kernels.counting import Pairs, expectations
from vhem.kernels.models import Models

_TINY = 1e-9
_SPREAD, _LOYALTY, _ALIKE = 0.25, 30.0, 10.0  # where T (in variances), c and κ start
_LOYALTY_RANGE, _ALIKE_RANGE = (1.0, 1000.0), (0.5, 200.0)
_SHRINK = 5.0  # pseudo-items of the clusters' common spread
_LEAST_SPREAD = 1e-4  # of the variance


class Effects(NamedTuple):
    """K centres, and how much their items vary."""

    weights: FloatArray  #: (K,) ω
    startprob: FloatArray  #: (K, S)
    transmat: FloatArray  #: (K, S, S)
    means: FloatArray  #: (K, S, d) μ
    variances: FloatArray  #: (K, S, d) σ²
    spread: FloatArray  #: (K, S, d) T
    loyalty: float  #: c
    alike: float  #: κ

    def models(self) -> Models:
        """Return the centres."""
        K, S = self.startprob.shape
        gaussian = Gaussian(self.means[:, :, None], self.variances[:, :, None])
        sizes = np.full(K, S, dtype=np.int64)
        return Models(self.startprob, self.transmat, np.ones((K, S, 1)), gaussian, sizes)


class Posterior(NamedTuple):
    """q of every item and cluster, (n, K, …)."""

    mean: FloatArray  #: (n, K, S, d) of b
    variance: FloatArray  #: (n, K, S, d) of b
    shape: FloatArray  #: (n, K, S, 1) of λ
    rate: FloatArray  #: (n, K, S, d) of λ
    alpha: FloatArray  #: (n, K, S, S) of the rows of A

    @staticmethod
    def of_prior(c: Effects, n: int) -> Posterior:
        """Return q before any data."""
        shape = (n, *c.means.shape)
        return Posterior(
            np.zeros(shape),
            np.broadcast_to(c.spread, shape),
            np.full((*shape[:-1], 1), c.alike / 2),
            np.broadcast_to(c.alike / 2 * c.variances, shape),
            np.broadcast_to(c.loyalty * c.transmat, (n, *c.transmat.shape)),
        )

    @staticmethod
    def of_sums(c: Effects, s: ItemSums, precision: FloatArray) -> Posterior:
        """Return q(b), then q(λ) and q(A), given the states; `precision` is E λ as it was before."""
        n = s.n_frames[..., None]
        v = 1 / (1 / c.spread + n * precision)
        m = v * precision * s.first
        squares = np.maximum(s.second - 2 * m * s.first + n * (m**2 + v), 0.0)
        rate = (c.alike * c.variances + squares) / 2
        return Posterior(m, v, c.alike / 2 + n / 2, rate, c.loyalty * c.transmat + s.trans)

    @property
    def precision(self) -> FloatArray:
        """E λ."""
        return np.asarray(self.shape / self.rate)

    @property
    def log_precision(self) -> FloatArray:
        """E log λ."""
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    def divergence(self, c: Effects) -> FloatArray:
        """Return KL(q || prior), (n, K)."""
        ratio = self.variance / c.spread
        means = 0.5 * (ratio + self.mean**2 / c.spread - 1 - np.log(ratio)).sum((-1, -2))
        a0, b0 = c.alike / 2, c.alike / 2 * c.variances
        gammas = (self.shape - a0) * digamma(self.shape) - gammaln(self.shape) + gammaln(a0)
        gammas = gammas + a0 * (np.log(self.rate) - np.log(b0)) + self.precision * (b0 - self.rate)
        return np.asarray(means + gammas.sum((-1, -2)) + self._divergence_of_rows(c.loyalty * c.transmat))

    def _divergence_of_rows(self, prior: FloatArray) -> FloatArray:
        possible = prior > 0
        a, a0 = np.where(possible, self.alpha, 1.0), np.where(possible, prior, 1.0)
        total = self.alpha.sum(-1)
        terms = gammaln(a0) - gammaln(a) + (a - a0) * (digamma(a) - digamma(total)[..., None])
        rows = gammaln(total) - gammaln(prior.sum(-1)) + np.where(possible, terms, 0.0).sum(-1)
        return np.asarray(rows.sum(-1))


class ItemSums(NamedTuple):
    """Sums of every item under every cluster, about the centres' means."""

    score: FloatArray  #: (n, K) Σ log Z
    start: FloatArray  #: (n, K, S)
    trans: FloatArray  #: (n, K, S, S)
    n_frames: FloatArray  #: (n, K, S)
    first: FloatArray  #: (n, K, S, d)
    second: FloatArray  #: (n, K, S, d)

    def about(self, shift: FloatArray) -> ItemSums:
        """Return the same sums about means moved by `shift`."""
        n = self.n_frames[..., None]
        second = self.second - 2 * shift * self.first + n * shift**2
        return self._replace(first=self.first - n * shift, second=second)


class Varied(NamedTuple):
    """Where EM is: the centres, and what is known of every item under each."""

    centers: Effects
    posterior: Posterior


class Assigned(NamedTuple):
    """What an E-step leaves."""

    bounds: FloatArray  #: (1,)
    sums: ItemSums
    responsibilities: FloatArray  #: (n, K)


@dataclass(frozen=True, kw_only=True)
class VaryingItems(Problem[Varied, Assigned]):
    """Sequences of items that vary: group g of the batch is item g."""

    batch: Batch
    floor: FloatArray  #: (d,) smallest variances
    n_threads: int = 1
    strict: bool = False  # T, κ and c are moved by steps that need not be the best

    @property
    def frames(self) -> FloatArray:  # type: ignore[override]
        """All frames."""
        return np.array([self.batch.n_frames.sum()])

    def begin(self, models: Models, weights: FloatArray) -> Varied:
        """Return a start from one HMM per cluster: states first as these see them."""
        gaussian = models.components
        assert isinstance(gaussian, Gaussian)
        variances = gaussian.covars[:, :, 0]
        spread = np.broadcast_to(_SPREAD * variances.mean(1, keepdims=True), variances.shape)
        rows = (models.startprob, models.transmat, gaussian.means[:, :, 0], variances)
        c = Effects(weights, *rows, spread, _LOYALTY, _ALIKE)
        sharp = c._replace(spread=1e-6 * spread, loyalty=1e4, alike=1e4)
        q = Posterior.of_prior(sharp, len(self.batch.ids))
        return Varied(c, Posterior.of_sums(c, self._sums(sharp, q), q.precision))

    def e_step(self, state: Varied) -> Assigned:
        """Return F and the responsibilities."""
        c, q = state
        s = self._sums(c, q)
        logits = np.log(c.weights) + s.score - q.divergence(c)
        total = np.logaddexp.reduce(logits, axis=1)
        return Assigned(np.array([total.sum()]), s, np.exp(logits - total[:, None]))

    def _sums(self, c: Effects, q: Posterior) -> ItemSums:
        """Forward-backward of every sequence under every cluster's HMM as adapted to its item."""
        n, K, S, d = q.mean.shape
        crossed = Pairs.crossed(self.batch.lengths, K)
        pairs = Pairs(crossed.sequence, self.batch.groups[crossed.sequence] * K + crossed.model)
        weights = self.batch.weights[pairs.sequence]
        models = _adapted(c, q)
        means = np.ascontiguousarray(np.broadcast_to(c.means, q.mean.shape)).reshape(n * K, S, 1, d)
        anchors = Gaussian(means, np.ones_like(means))
        e = expectations(models, self.batch.X, self.batch.offsets, pairs, weights, self.n_threads, anchors)
        score = np.asarray(np.bincount(pairs.model, e.log_likelihoods * weights, n * K), np.float64)
        own = e.sums.components
        sums = (e.sums.start, e.sums.trans, own["count"][..., 0], own["first"][:, :, 0], own["second"][:, :, 0])
        return ItemSums(*(a.reshape(n, K, *a.shape[1:]) for a in (score, *sums)))

    def count(self, state: Varied, expected: Assigned, anchors: Any) -> ItemSums:
        """Return the sums of the E-step."""
        del state, anchors
        return expected.sums

    def m_step(self, state: Varied, expected: Assigned, sums: ItemSums, anchors: Any) -> Step:
        """Return the next centres, amounts of variation and posteriors."""
        del anchors
        c, z = state.centers, expected.responsibilities
        q = Posterior.of_sums(c, sums, state.posterior.precision)
        c, sums = _maximised(c, sums, q, z, self.floor)
        return Step(Varied(c, Posterior.of_sums(c, sums, q.precision)))

    def take(self, state: Varied, expected: Assigned, rows: Any) -> tuple[Self, Varied, Assigned]:
        """There is one member."""
        raise NotImplementedError


def _adapted(c: Effects, q: Posterior) -> Models:
    """Return the HMMs exp(E log ·), n·K of them, whose likelihood is Z; their rows sum to less than one.

    Kernels ignore the weight of a single Gaussian, so a state's loss of density is put on the transitions into it.
    """
    n, K, S, d = q.mean.shape
    with np.errstate(invalid="ignore"):
        rows = np.exp(digamma(q.alpha) - digamma(q.alpha.sum(-1, keepdims=True)))
    trans = np.where(q.alpha > 0, rows, 0.0)
    precision = q.precision
    loss = np.exp(0.5 * (q.log_precision - np.log(precision) - precision * q.variance).sum(-1))
    gaussian = Gaussian((c.means + q.mean).reshape(n * K, S, 1, d), (1 / precision).reshape(n * K, S, 1, d))
    return Models(
        (c.startprob * loss).reshape(n * K, S),
        np.ascontiguousarray(trans * loss[..., None, :]).reshape(n * K, S, S),
        np.ones((n * K, S, 1)),
        gaussian,
        np.full(n * K, S, dtype=np.int64),
    )


def _maximised(c: Effects, s: ItemSums, q: Posterior, z: FloatArray, floor: FloatArray) -> tuple[Effects, ItemSums]:
    """Return new centres and amounts of variation, and the sums about the new means."""
    z4, n, precision, mass = z[:, :, None, None], s.n_frames[..., None], q.precision, z.sum(0)
    # Items' own means count by how well they are known: 1 / (T + 1 / (n E λ)).
    w = z4 / (c.spread + 1 / np.maximum(n * precision, _TINY))
    shift = (w * s.first / np.maximum(n, _TINY)).sum(0) / np.maximum(w.sum(0), 1e-300)
    s = s.about(shift)
    v = 1 / (1 / c.spread + n * precision)
    moments = (z4 * ((v * precision * s.first) ** 2 + v)).sum(0)
    variances = np.maximum(mass[:, None, None] / np.maximum((z4 * precision).sum(0), 1e-300), floor)
    gap = (z4 * (np.log(variances) + q.log_precision - variances * precision + 1)).sum() / (z.sum() * c.means[0].size)
    trans, loyalty = _transitions(c, s.trans, z)
    start = (z[:, :, None] * s.start).sum(0) + 1e-3 * (c.startprob > 0)
    made = Effects(
        (mass + _TINY) / z.sum(),
        start / start.sum(-1, keepdims=True),
        trans,
        c.means + shift,
        variances,
        np.maximum(_spread(moments, mass), _LEAST_SPREAD * variances),
        loyalty,
        _solved_alike(float(gap)),
    )
    return made, s


def _spread(moments: FloatArray, mass: FloatArray) -> FloatArray:
    """Return T from Σ_i z E b², (K, S, d): one for all states of a cluster, drawn towards that of all clusters."""
    S = moments.shape[1]
    common = moments.sum((0, 1)) / (mass.sum() * S)
    own = (moments.sum(1) + _SHRINK * common) / (mass * S + _SHRINK)[:, None]
    return np.broadcast_to(own[:, None], moments.shape)


def _solved_alike(gap: float) -> float:
    """Solve log(κ/2) - ψ(κ/2) + gap = 0 for κ, by bisection."""
    low, high = _ALIKE_RANGE

    def value(kappa: float) -> float:
        return float(np.log(kappa / 2) - digamma(kappa / 2)) + gap

    if value(high) > 0:
        return high
    if value(low) < 0:
        return low
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if value(middle) > 0 else (low, middle)
    return float(np.sqrt(low * high))


def _transitions(c: Effects, counts: FloatArray, z: FloatArray) -> tuple[FloatArray, float]:
    """Return transitions and loyalty after one step of Minka's fixed point for Dirichlet-multinomials."""
    a = c.loyalty * c.transmat
    possible = a > 0
    a = np.where(possible, a, 1.0)
    up = (z[:, :, None, None] * np.where(possible, a * (digamma(a + counts) - digamma(a)), 0.0)).sum(0)
    rows = up.sum(-1, keepdims=True)
    trans = np.where(possible, np.maximum(up, 1e-6 * rows), 0.0)
    trans = np.where(rows > _TINY, trans / np.maximum(trans.sum(-1, keepdims=True), 1e-300), c.transmat)
    down = (z[:, :, None] * (digamma(c.loyalty + counts.sum(-1)) - digamma(c.loyalty))).sum()
    return trans, float(np.clip(up.sum() / max(down, _TINY), *_LOYALTY_RANGE))
