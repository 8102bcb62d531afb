"""A mixture of HMMs whose items vary, learned from sequences or HMMs, as a problem of EM; diagonal covariances.

People of one kind are similar, not identical. Item i of cluster j has, in state s and dimension d,

    mean       μ_jsd + b,   b ~ N(0, T_jd)            how far items' means lie from the centre's
    precision  λ ~ Gamma(κ/2, κ σ²_jsd / 2)           how alike items' variances are
    rows of A  ~ Dirichlet(c A_js·)                   how closely items follow the centre's transitions

T, κ and c are learned. For every item and cluster q(states) q(b) q(λ) q(A) approximates the posterior, and

    F_ij = Σ_sequences log Z(q_ij) - KL(q_ij || prior_j)  ≤  log p(sequences of i | cluster j)

takes the place of the likelihood: z_ij ∝ ω_j exp F_ij, and the objective is Σ_i log Σ_j ω_j exp F_ij. A cluster is thus
not split by differences between its items that are as large as those within every other cluster.

q takes time and memory, so it is kept for pairs of an item and a cluster that may still belong together: after the
first E-step, clusters are forgotten for an item that are far worse than its best ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from vhem._support.arrays import FloatArray, IntArray, log_sum_and_softmax
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
_HOPELESS, _PER_FRAME = 60.0, 0.1  # nats below its best cluster at which a cluster is forgotten for an item


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

    def of(self, clusters: IntArray) -> Effects:
        """Return the centres of some clusters, which may repeat."""
        taken = {name: getattr(self, name)[clusters] for name in self._fields if name not in ("loyalty", "alike")}
        return self._replace(**taken)

    def models(self) -> Models:
        """Return the centres as HMMs of frames of any item: within items and between them, σ² + T."""
        K, S = self.startprob.shape
        gaussian = Gaussian(self.means[:, :, None], (self.variances + self.spread)[:, :, None])
        sizes = np.full(K, S, dtype=np.int64)
        return Models(self.startprob, self.transmat, np.ones((K, S, 1)), gaussian, sizes)


class Matches(NamedTuple):
    """Pairs of an item and a cluster, item after item."""

    item: IntArray  #: (P,)
    cluster: IntArray  #: (P,)
    n_items: int
    n_clusters: int

    @staticmethod
    def all(n: int, K: int) -> Matches:
        """Every item with every cluster."""
        return Matches(np.repeat(np.arange(n), K), np.tile(np.arange(K), n), n, K)

    def take(self, kept: IntArray) -> Matches:
        """Return some of the pairs."""
        return self._replace(item=self.item[kept], cluster=self.cluster[kept])

    def table(self, values: FloatArray) -> FloatArray:
        """Return one value per pair as (n, K); minus infinity for other pairs."""
        made = np.full((self.n_items, self.n_clusters), -np.inf)
        made[self.item, self.cluster] = values
        return made


class Shares:
    """How much pairs of an item and a cluster count."""

    def __init__(self, matches: Matches, z: FloatArray) -> None:
        self.cluster, self.z = matches.cluster, z
        self._sums = csr_array((z, (matches.cluster, np.arange(len(z)))), shape=(matches.n_clusters, len(z)))
        self.sizes = self.summed(np.ones(len(z)))  #: (K,) Σ_i z_ij

    def summed(self, values: FloatArray) -> FloatArray:
        """Return Σ_i z_ij values_ij, (K, …)."""
        rows = np.asarray(self._sums @ values.reshape(len(values), -1))
        return rows.reshape(-1, *values.shape[1:])


class Posterior(NamedTuple):
    """q of P pairs of an item and a cluster."""

    mean: FloatArray  #: (P, S, d) of b
    variance: FloatArray  #: (P, S, d) of b
    shape: FloatArray  #: (P, S, 1) of λ
    rate: FloatArray  #: (P, S, d) of λ
    alpha: FloatArray  #: (P, S, S) of the rows of A

    def take(self, kept: IntArray) -> Posterior:
        """Return q of some of the pairs."""
        return Posterior(*(a[kept] for a in self))


class ItemSums(NamedTuple):
    """Sums of items under clusters, about the centres' means."""

    score: FloatArray  #: (P,) Σ log Z
    start: FloatArray  #: (P, S)
    trans: FloatArray  #: (P, S, S)
    n_frames: FloatArray  #: (P, S)
    first: FloatArray  #: (P, S, d)
    second: FloatArray  #: (P, S, d)

    def take(self, kept: IntArray) -> ItemSums:
        """Return the sums of some of the pairs."""
        return ItemSums(*(a[kept] for a in self))


class Varied(NamedTuple):
    """Where EM is: the centres, and what is known of items under them."""

    centers: Effects
    posterior: Posterior
    matches: Matches


class Assigned(NamedTuple):
    """What an E-step leaves."""

    bounds: FloatArray  #: (1,)
    scores: FloatArray  #: (n, K) log ω_j + F_ij; minus infinity where that is not known
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
        matches = Matches.all(len(self.batch.ids), len(weights))
        own, sharp = c.of(matches.cluster), sharp.of(matches.cluster)
        q = self.of_prior(sharp)
        return Varied(c, self.posterior(own, self._sums(sharp, q, matches), self.precision(q)), matches)

    def e_step(self, state: Varied) -> Assigned:
        """Return F and the responsibilities."""
        c, q, matches = state
        c = c.of(matches.cluster)
        s = self._sums(c, q, matches)
        logits = matches.table(np.log(c.weights) + s.score - self.divergence(c, q))
        total, shares = log_sum_and_softmax(logits)
        return Assigned(np.array([total.sum()]), logits, s, shares)

    def _sums(self, c: Effects, q: Posterior, matches: Matches) -> ItemSums:
        """Go through the data of items under clusters' HMMs as adapted to the item."""
        models = self.adapted(c, q)
        anchors = Gaussian(c.means[:, :, None], models.components.arrays()["covars"])
        score, made = self.batch.item_expectations(models, anchors, matches.item, self.n_threads)
        own = made.components
        return ItemSums(score, made.start, made.trans, own["count"][..., 0], own["first"][:, :, 0],
                        own["second"][:, :, 0])  # fmt: skip

    def count(self, state: Varied, expected: Assigned, anchors: Any) -> ItemSums:
        """Return the sums of the E-step."""
        del state, anchors
        return expected.sums

    def m_step(self, state: Varied, expected: Assigned, sums: ItemSums, anchors: Any) -> Step:
        """Return the next centres, amounts of variation and posteriors."""
        del anchors
        kept = self._kept(state.matches, expected.scores)
        c, matches, sums = state.centers, state.matches.take(kept), sums.take(kept)
        shares = Shares(matches, expected.responsibilities[matches.item, matches.cluster])
        q = self.posterior(c.of(matches.cluster), sums, self.precision(state.posterior.take(kept)))
        c, sums = self.maximised(c, sums, q, shares)
        return Step(Varied(c, self.posterior(c.of(matches.cluster), sums, self.precision(q)), matches))

    def _kept(self, matches: Matches, scores: FloatArray) -> IntArray:
        """Return the pairs that may still belong together; two clusters per item at least."""
        best = np.sort(scores, axis=1)[:, ::-1]
        margin = _HOPELESS + _PER_FRAME * self.batch.n_frames
        least = np.minimum(best[:, 0] - margin, best[:, min(1, matches.n_clusters - 1)])
        return np.flatnonzero(scores[matches.item, matches.cluster] >= least[matches.item])

    # -- what depends on the form of the covariances

    def initial_spread(self, variances: FloatArray) -> tuple[FloatArray, float]:
        """Return where T and κ start."""
        return np.broadcast_to(SPREAD * variances.mean(1, keepdims=True), variances.shape), ALIKE

    def of_prior(self, c: Effects) -> Posterior:
        """Return q before any data."""
        alike = np.full((*c.means.shape[:-1], 1), c.alike / 2)
        return Posterior(np.zeros_like(c.means), c.spread, alike, alike * c.variances, c.loyalty * c.transmat)

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
        """Return the HMMs exp(E log ·), one per pair, whose likelihood is Z."""
        precision = self.precision(q)
        loss = np.exp(0.5 * (_log_precision(q) - np.log(precision) - precision * q.variance).sum(-1))
        return adapted_rows(c, q, loss, Gaussian((c.means + q.mean)[:, :, None], (1 / precision)[:, :, None]))

    def divergence(self, c: Effects, q: Posterior) -> FloatArray:
        """Return KL(q || prior), (P,)."""
        ratio = q.variance / c.spread
        means = 0.5 * (ratio + q.mean**2 / c.spread - 1 - np.log(ratio)).sum((-1, -2))
        a0, b0 = c.alike / 2, c.alike / 2 * c.variances
        gammas = (q.shape - a0) * digamma(q.shape) - gammaln(q.shape) + gammaln(a0)
        gammas = gammas + a0 * (np.log(q.rate) - np.log(b0)) + self.precision(q) * (b0 - q.rate)
        return np.asarray(means + gammas.sum((-1, -2)) + divergence_of_rows(q.alpha, c.loyalty * c.transmat))

    def maximised(self, c: Effects, s: ItemSums, q: Posterior, shares: Shares) -> tuple[Effects, ItemSums]:
        """Return new centres and amounts of variation, and the sums about the new means."""
        spread, n, precision = c.spread[shares.cluster], s.n_frames[..., None], self.precision(q)
        # Items' own means count by how well they are known: 1 / (T + 1 / (n E λ)).
        w = 1 / (spread + 1 / np.maximum(n * precision, _TINY))
        shift = shares.summed(w * s.first / np.maximum(n, _TINY)) / np.maximum(shares.summed(w), 1e-300)
        moved = shift[shares.cluster]
        s = s._replace(first=s.first - n * moved, second=s.second - moved * (2 * s.first - n * moved))
        v = 1 / (1 / spread + n * precision)
        moments = shares.summed((v * precision * s.first) ** 2 + v)
        mass, total = shares.sizes, shares.summed(precision)
        variances = np.maximum(mass[:, None, None] / np.maximum(total, 1e-300), self.floor)
        gap = mass[:, None, None] * (np.log(variances) + 1) - variances * total + shares.summed(_log_precision(q))
        mean_gap = float(gap.sum() / (shares.z.sum() * c.means[0].size))
        alike = root_of(lambda k: float(np.log(k / 2) - digamma(k / 2)) + mean_gap, *_ALIKE_RANGE)
        spread = np.maximum(_spread(moments, mass, variances), _LEAST_SPREAD * variances)
        made = new_chain(c, s, shares)
        return made._replace(means=c.means + shift, variances=variances, spread=spread, alike=alike), s


def _not_quite_zero(p: FloatArray) -> FloatArray:
    """Return rows of probabilities in which what is possible is at least that likely.

    EM may have driven a probability to 1e-300, and an item that needs it would have no likelihood at all.
    """
    raised = np.where(p > 0, np.maximum(p, _LEAST_PROBABILITY), 0.0)
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _log_precision(q: Posterior) -> FloatArray:
    """Return E log λ."""
    return np.asarray(digamma(q.shape) - np.log(q.rate))


def possible_steps(transmat: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the rows and columns of transitions that some matrix allows: of left-right HMMs, few.

    Gamma functions of the others would take most of the time.
    """
    rows, columns = np.nonzero((transmat > 0).any(axis=0))
    return rows, columns


def divergence_of_rows(alpha: FloatArray, prior: FloatArray) -> FloatArray:
    """Return KL of Dirichlet rows from their prior, summed over rows."""
    i, j = possible_steps(prior)
    total, a, a0 = alpha.sum(-1), alpha[:, i, j], prior[:, i, j]
    possible = a0 > 0
    a, a0 = np.where(possible, a, 1.0), np.where(possible, a0, 1.0)
    terms = gammaln(a0) - gammaln(a) + (a - a0) * (digamma(a) - digamma(total)[:, i])
    rows = gammaln(total) - gammaln(prior.sum(-1))
    return np.asarray(rows.sum(-1) + np.where(possible, terms, 0.0).sum(-1))


def adapted_rows(c: Effects, q: Posterior, loss: FloatArray, gaussian: Gaussian) -> Models:
    """Return HMMs of these Gaussians; rows of probabilities sum to less than one.

    Kernels ignore the weight of a single Gaussian, so a state's loss of density is put on the transitions into it.
    """
    P, S = loss.shape
    i, j = possible_steps(q.alpha)
    alpha, trans = q.alpha[:, i, j], np.zeros_like(q.alpha)
    with np.errstate(invalid="ignore"):
        rows = np.exp(digamma(alpha) - digamma(q.alpha.sum(-1))[:, i])
    trans[:, i, j] = np.where(alpha > 0, np.maximum(rows, _LEAST_ROW), 0.0) * loss[:, j]
    return Models(c.startprob * loss, trans, np.ones((P, S, 1)), gaussian, np.full(P, S, dtype=np.int64))


def new_chain(c: Effects, s: ItemSums, shares: Shares) -> Effects:
    """Return the centres with new weights, starts, transitions and loyalty."""
    trans, loyalty = _transitions(c, s.trans, shares)
    start = shares.summed(s.start) + 1e-3 * (c.startprob > 0)
    weights = (shares.sizes + _TINY) / shares.z.sum()
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


def _transitions(c: Effects, counts: FloatArray, shares: Shares) -> tuple[FloatArray, float]:
    """Return transitions and loyalty after one step of Minka's fixed point for Dirichlet-multinomials."""
    i, j = possible_steps(c.transmat)
    possible = c.transmat[:, i, j] > 0
    a, up = np.where(possible, c.loyalty * c.transmat[:, i, j], 1.0), np.zeros_like(c.transmat)
    gains = digamma(a[shares.cluster] + counts[:, i, j]) - digamma(a)[shares.cluster]
    up[:, i, j] = np.where(possible, a * shares.summed(gains), 0.0)
    rows = up.sum(-1, keepdims=True)
    trans = np.where(c.transmat > 0, np.maximum(up, 1e-6 * rows), 0.0)
    trans = np.where(rows > _TINY, trans / np.maximum(trans.sum(-1, keepdims=True), 1e-300), c.transmat)
    down = (shares.z[:, None] * (digamma(c.loyalty + counts.sum(-1)) - digamma(c.loyalty))).sum()
    return trans, float(np.clip(up.sum() / max(down, _TINY), *_LOYALTY_RANGE))
