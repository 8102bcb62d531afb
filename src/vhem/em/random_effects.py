"""A mixture of HMMs whose items vary, learned from sequences or HMMs, as a problem of EM; diagonal covariances.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from vhem._support.arrays import FloatArray
from vhem.em.grouped import Batch
from vhem.em.loop import Problem, Step
from vhem.em.virtual_items import VirtualItems
from vhem.emissions import Gaussian
from vhem.kernels.models import Models

_TINY = 1e-9
SPREAD, _LOYALTY, ALIKE = 0.25, 30.0, 10.0  # where T (in variances), c and κ start
_LOYALTY_RANGE, _ALIKE_RANGE = (1.0, 1000.0), (0.5, 200.0)
SHRINK = 5.0  # pseudo-items of the clusters' common spread
_LEAST_SPREAD = 1e-4  # of the variance
_LEAST_ROW = 1e-60  # of exp(E log A): what has hardly been seen is not impossible
_LEAST_PROBABILITY = 1e-6  # of what is possible, to begin with


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
        """Return the centres as HMMs of frames of any item: within items and between them, σ² + T."""
        K, S = self.startprob.shape
        gaussian = Gaussian(self.means[:, :, None], (self.variances + self.spread)[:, :, None])
        sizes = np.full(K, S, dtype=np.int64)
        return Models(self.startprob, self.transmat, np.ones((K, S, 1)), gaussian, sizes)


class Posterior(NamedTuple):
    """q of every item and cluster, (n, K, …)."""

    mean: FloatArray  #: (n, K, S, d) of b
    variance: FloatArray  #: (n, K, S, d) of b
    shape: FloatArray  #: (n, K, S, 1) of λ
    rate: FloatArray  #: (n, K, S, d) of λ
    alpha: FloatArray  #: (n, K, S, S) of the rows of A


class ItemSums(NamedTuple):
    """Sums of every item under every cluster, about the centres' means."""

    score: FloatArray  #: (n, K) Σ log Z
    start: FloatArray  #: (n, K, S)
    trans: FloatArray  #: (n, K, S, S)
    n_frames: FloatArray  #: (n, K, S)
    first: FloatArray  #: (n, K, S, d)
    second: FloatArray  #: (n, K, S, d)
    shift: FloatArray | None = None  #: (K, S, d) how far the means were moved


class Varied(NamedTuple):
    """Where EM is: the centres, and what is known of every item under each."""

    centers: Effects
    posterior: Posterior


class Assigned(NamedTuple):
    """What an E-step leaves."""

    bounds: FloatArray  #: (1,)
    scores: FloatArray  #: (n, K) log ω_j + F_ij
    sums: ItemSums
    responsibilities: FloatArray  #: (n, K)


@dataclass(frozen=True, kw_only=True)
class VaryingItems(Problem[Varied, Assigned]):
    """The data of items that vary: group g of a batch of sequences is item g, or HMMs stand for their sequences."""

    batch: Batch | VirtualItems
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
        spread, alike = self.initial_spread(variances)
        rows = (_not_quite_zero(models.startprob), _not_quite_zero(models.transmat), gaussian.means[:, :, 0], variances)
        c = Effects(weights, *rows, spread, _LOYALTY, alike)
        sharp = c._replace(spread=1e-6 * spread, loyalty=1e4, alike=1e4)
        q = self.of_prior(sharp, len(self.batch.ids))
        return Varied(c, self.posterior(c, self._sums(sharp, q), self.precision(q)))

    def e_step(self, state: Varied) -> Assigned:
        """Return F and the responsibilities."""
        c, q = state
        s = self._sums(c, q)
        logits = np.log(c.weights) + s.score - self.divergence(c, q)
        total = np.logaddexp.reduce(logits, axis=1)
        return Assigned(np.array([total.sum()]), logits, s, np.exp(logits - total[:, None]))

    def _sums(self, c: Effects, q: Posterior) -> ItemSums:
        """Go through the data of every item under every cluster's HMM as adapted to the item."""
        n, K, S, d = q.mean.shape
        models = self.adapted(c, q)
        means = np.ascontiguousarray(np.broadcast_to(c.means, q.mean.shape)).reshape(n * K, S, 1, d)
        anchors = Gaussian(means, models.components.arrays()["covars"])
        score, made = self.batch.item_expectations(models, anchors, self.n_threads)
        own = made.components
        sums = (made.start, made.trans, own["count"][..., 0], own["first"][:, :, 0], own["second"][:, :, 0])
        return ItemSums(*(a.reshape(n, K, *a.shape[1:]) for a in (score, *sums)))

    def count(self, state: Varied, expected: Assigned, anchors: Any) -> ItemSums:
        """Return the sums of the E-step."""
        del state, anchors
        return expected.sums

    def m_step(self, state: Varied, expected: Assigned, sums: ItemSums, anchors: Any) -> Step:
        """Return the next centres, amounts of variation and posteriors."""
        del anchors
        c, z = state.centers, expected.responsibilities
        q = self.posterior(c, sums, self.precision(state.posterior))
        c, sums = self.maximised(c, sums, q, z)
        return Step(Varied(c, self.posterior(c, sums, self.precision(q))))

    # -- what depends on the form of the covariances

    def initial_spread(self, variances: FloatArray) -> tuple[FloatArray, float]:
        """Return where T and κ start."""
        return np.broadcast_to(SPREAD * variances.mean(1, keepdims=True), variances.shape), ALIKE

    def of_prior(self, c: Effects, n: int) -> Posterior:
        """Return q before any data."""
        shape = (n, *c.means.shape)
        return Posterior(
            np.zeros(shape),
            np.broadcast_to(c.spread, shape),
            np.full((*shape[:-1], 1), c.alike / 2),
            np.broadcast_to(c.alike / 2 * c.variances, shape),
            np.broadcast_to(c.loyalty * c.transmat, (n, *c.transmat.shape)),
        )

    def precision(self, q: Posterior) -> FloatArray:
        """Return E λ."""
        return np.asarray(q.shape / q.rate)

    def posterior(self, c: Effects, s: ItemSums, precision: FloatArray) -> Posterior:
        """Return q(b), then q(λ) and q(A), given the states; `precision` is E λ as it was before."""
        n = s.n_frames[..., None]
        v = 1 / (1 / c.spread + n * precision)
        m = v * precision * s.first
        squares = np.maximum(s.second - 2 * m * s.first + n * (m**2 + v), 0.0)
        rate = (c.alike * c.variances + squares) / 2
        return Posterior(m, v, c.alike / 2 + n / 2, rate, c.loyalty * c.transmat + s.trans)

    def adapted(self, c: Effects, q: Posterior) -> Models:
        """Return the HMMs exp(E log ·), n·K of them, whose likelihood is Z."""
        n, K, S, d = q.mean.shape
        precision = self.precision(q)
        loss = np.exp(0.5 * (_log_precision(q) - np.log(precision) - precision * q.variance).sum(-1))
        shape = (n * K, S, 1, d)
        return adapted_rows(c, q, loss, Gaussian((c.means + q.mean).reshape(shape), (1 / precision).reshape(shape)))

    def divergence(self, c: Effects, q: Posterior) -> FloatArray:
        """Return KL(q || prior), (n, K)."""
        ratio = q.variance / c.spread
        means = 0.5 * (ratio + q.mean**2 / c.spread - 1 - np.log(ratio)).sum((-1, -2))
        a0, b0 = c.alike / 2, c.alike / 2 * c.variances
        gammas = (q.shape - a0) * digamma(q.shape) - gammaln(q.shape) + gammaln(a0)
        gammas = gammas + a0 * (np.log(q.rate) - np.log(b0)) + self.precision(q) * (b0 - q.rate)
        return np.asarray(means + gammas.sum((-1, -2)) + divergence_of_rows(q.alpha, c.loyalty * c.transmat))

    def maximised(self, c: Effects, s: ItemSums, q: Posterior, z: FloatArray) -> tuple[Effects, ItemSums]:
        """Return new centres and amounts of variation, and the sums about the new means."""
        z4, n, precision, mass = z[:, :, None, None], s.n_frames[..., None], self.precision(q), z.sum(0)
        # Items' own means count by how well they are known: 1 / (T + 1 / (n E λ)).
        w = z4 / (c.spread + 1 / np.maximum(n * precision, _TINY))
        shift = (w * s.first / np.maximum(n, _TINY)).sum(0) / np.maximum(w.sum(0), 1e-300)
        second = s.second - 2 * shift * s.first + n * shift**2
        s = s._replace(first=s.first - n * shift, second=second)
        v = 1 / (1 / c.spread + n * precision)
        moments = (z4 * ((v * precision * s.first) ** 2 + v)).sum(0)
        variances = np.maximum(mass[:, None, None] / np.maximum((z4 * precision).sum(0), 1e-300), self.floor)
        gap = z4 * (np.log(variances) + _log_precision(q) - variances * precision + 1)
        gap = float(gap.sum() / (z.sum() * c.means[0].size))
        alike = root_of(lambda k: float(np.log(k / 2) - digamma(k / 2)) + gap, *_ALIKE_RANGE)
        spread = np.maximum(_spread(moments, mass, variances), _LEAST_SPREAD * variances)
        made = new_chain(c, s, z)._replace(means=c.means + shift, variances=variances, spread=spread, alike=alike)
        return made, s


def _not_quite_zero(p: FloatArray) -> FloatArray:
    """Return rows of probabilities in which what is possible is at least that likely.

    EM may have driven a probability to 1e-300, and an item that needs it would have no likelihood at all.
    """
    raised = np.where(p > 0, np.maximum(p, _LEAST_PROBABILITY), 0.0)
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _log_precision(q: Posterior) -> FloatArray:
    """Return E log λ."""
    return np.asarray(digamma(q.shape) - np.log(q.rate))


def divergence_of_rows(alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """Return KL of Dirichlet rows from their prior, summed over rows."""
    possible = prior > 0
    a, a0 = np.where(possible, alpha, 1.0), np.where(possible, prior, 1.0)
    total = alpha.sum(-1)
    terms = gammaln(a0) - gammaln(a) + (a - a0) * (digamma(a) - digamma(total)[..., None])
    rows = gammaln(total) - gammaln(prior.sum(-1)) + np.where(possible, terms, 0.0).sum(-1)
    return np.asarray(rows.sum(-1))


def adapted_rows(c: Effects, q: Posterior, loss: FloatArray, gaussian: Gaussian) -> Models:
    """Return HMMs of these Gaussians; rows of probabilities sum to less than one.

    Kernels ignore the weight of a single Gaussian, so a state's loss of density is put on the transitions into it.
    """
    n, K, S = loss.shape
    with np.errstate(invalid="ignore"):
        rows = np.exp(digamma(q.alpha) - digamma(q.alpha.sum(-1, keepdims=True)))
    trans = np.where(q.alpha > 0, np.maximum(rows, _LEAST_ROW), 0.0) * loss[..., None, :]
    start = np.ascontiguousarray(c.startprob * loss).reshape(n * K, S)
    sizes = np.full(n * K, S, dtype=np.int64)
    return Models(start, np.ascontiguousarray(trans).reshape(n * K, S, S), np.ones((n * K, S, 1)), gaussian, sizes)


def new_chain(c: Effects, s: ItemSums, z: FloatArray) -> Effects:
    """Return the centres with new weights, starts, transitions and loyalty."""
    trans, loyalty = _transitions(c, s.trans, z)
    start = (z[:, :, None] * s.start).sum(0) + 1e-3 * (c.startprob > 0)
    weights = (z.sum(0) + _TINY) / z.sum()
    return c._replace(weights=weights, startprob=start / start.sum(-1, keepdims=True), transmat=trans, loyalty=loyalty)


def _spread(moments: FloatArray, mass: FloatArray, variances: FloatArray) -> FloatArray:
    """Return T from Σ_i z E b², (K, S, d): one for all states of a cluster.

    It is drawn towards the share of the cluster's own variances that is common to all clusters. (An absolute spread
    would let clusters of tiny variances merge, because others vary much.)
    """
    S, own, size = moments.shape[1], moments.sum(1), variances.mean(1)
    share = (own / size).sum(0) / (mass.sum() * S)
    spread = (own + SHRINK * share * size) / (mass * S + SHRINK)[:, None]
    return np.broadcast_to(spread[:, None], moments.shape)


def root_of(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses zero, by bisection on the log scale; an end, if it does not."""
    if slope(high) > 0:
        return high
    if slope(low) < 0:
        return low
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
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
