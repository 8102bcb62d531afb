"""cross_fitted_test: whether clusters say anything about people who took no part in making them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.errors import Count, InputError, ParameterError
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference.permutations import SMALLEST, Design, holm, share_as_large
from vhem.inference.pipeline import Study, check_pipeline, run_again
from vhem.inference.scores import scores_of
from vhem.inference.tables import Table, interval, number, p_value, p_words
from vhem.models import H3M
from vhem.sequences import SequencesLike

WHY = (
    "Centres fit the people they were learned from better than other people, whether or not there are clusters; "
    "therefore everybody is assigned and scored by centres learned without them, on different halves of their data."
)


class CrossFittedPair(NamedTuple):
    """Two clusters compared by people who took no part in making them."""

    first: int
    second: int
    gain: float  #: own centre over the other, in nats per observation: mean of the two clusters' means
    interval: tuple[float, float]  #: 95 % confidence interval of the gain
    d: float  #: Cohen's d between the two clusters' log-likelihood ratios
    p: float
    p_holm: float


class CrossFitted(NamedTuple):
    """Whether clusters carry over to people who took no part in making them."""

    p: float  #: of all clusters together
    gain: float  #: own centre over another, in nats per observation, mean over pairs of clusters
    pairs: list[CrossFittedPair]
    labels: IntArray  #: (n,) cluster of each subject, by centres learned without them and half of their sequences
    scores: FloatArray  #: (n, K) scores of the other half
    n_folds: int
    n_permutations: int

    def table(self) -> Table:
        """Return one row per pair of clusters."""
        rows = [
            [f"{x.first + 1} – {x.second + 1}", number(x.gain), interval(*x.interval), number(x.d, 2), p_value(x.p),
             p_value(x.p_holm)]
            for x in self.pairs
        ]  # fmt: skip
        columns = ["clusters", "gain (nats per observation)", "95 % interval", "Cohen's d", "p", "p (Holm)"]
        return Table("cross_fitted", "Differences between clusters, cross-fitted", columns, rows, self.note())

    def note(self) -> str:
        """Return how it was tested, in words."""
        return (
            f"{WHY} {self.n_folds} folds, {self.n_permutations:,} permutations; all clusters together: "
            f"{p_words(self.p)}."
        )

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        if np.isnan(self.gain):
            return "Centres learned without them put all members into one cluster, so that there is nothing to compare."
        verb, much = ("fitted", "better") if self.p <= 0.05 else ("did not fit", "significantly better")
        return (
            f"Members {verb} the centre of their own cluster {much} than the other centres, on data that took no part "
            f"in learning or assigning (gain {number(self.gain)} nats per observation, {p_words(self.p)}, "
            "cross-fitted)."
        )


@documented
def cross_fitted_test(
    estimator: SequenceClustering | int,
    sequences: SequencesLike,
    groups: Iterable[Any] | None = None,
    n_folds: int = 5,
    n_permutations: int = 1999,
    random_state: RandomState = None,
    callback: Callable[[float], None] | None = None,
) -> CrossFitted:
    """Test whether clusters differ, by people who took no part in making them.

    For every fold, clusters are learned from the other people. People of the fold are assigned to the clusters, with
    probabilities, by half of their sequences, and scored on the other half. If all people follow one HMM, the second
    half knows nothing of the assignment, so that scores can be exchanged between the people of a fold. The statistic is
    how well scores go with assignments.

    Parameters
    ----------
    <clustering>
    <sequences>
    groups : list, optional
        The person of each sequence; by default the sequences' own groups. Single sequences are cut in the middle.
    n_folds : int
        Folds, at most: each has at least three people. The clustering is run once for each, and once with everybody.
    n_permutations : int
        Permutations.
    <random_state>
    <share_done>

    Returns
    -------
    CrossFitted
        p of all clusters, and gain, interval, Cohen's d and Holm-corrected p of every pair.

    Notes
    -----
    The null hypothesis is that people do not differ in what the clusters describe. If people differ gradually, without
    kinds, the test rejects as well, and rightly so: :func:`bootstrap_test` tells kinds from a continuum.

    Examples
    --------
    >>> from vhem import SequenceClustering
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import cross_fitted_test
    >>> study = simulated_study(n_viewers=18, n_trials=6)
    >>> found = cross_fitted_test(SequenceClustering(3), study.sequences, random_state=0)
    >>> found.p < 0.01, len(found.pairs)
    (True, 3)
    """
    study, rng = Study.of(sequences, groups), generator(random_state)
    model, study = check_pipeline(estimator, study)
    if model.n_clusters < 2:
        raise ParameterError("n_clusters", model.n_clusters, "must be at least 2, or there is nothing to compare")
    fold = _folds(study.n, check_integer("n_folds", n_folds, 2), model.n_clusters, rng)
    seed, n_folds = int(rng.integers(2**31)), int(fold.max()) + 1
    whole = run_again(model, study, model.n_clusters, seed)
    shares, scores = np.zeros((study.n, model.n_clusters)), np.zeros((study.n, model.n_clusters))
    halves = study.halves()
    for k in range(n_folds):
        rest, left_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        found = run_again(model, study.take(rest), model.n_clusters, seed)
        centers = found.centers[_matched(found.labels, whole.labels[rest], model.n_clusters)]
        first, second = (_scored(centers, half.take(left_out)) for half in halves)
        shares[left_out], scores[left_out] = softmax(first.total, axis=1), second.per_frame
        if callback is not None:
            callback((k + 1) / n_folds)
    return _tested(shares, scores, fold, check_integer("n_permutations", n_permutations, 1), rng)


def _folds(n: int, n_folds: int, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Return the fold of every subject; fewer folds if they would have fewer than three."""
    n_made = min(n_folds, n // SMALLEST)
    if n_made < 2 or n - -(-n // n_made) < n_clusters:
        raise InputError(
            "{n:subject} cannot be divided into folds of at least {least} that leave enough to learn {k} clusters from",
            "give more subjects", n=Count(n), least=SMALLEST, k=n_clusters,
        )  # fmt: skip
    return rng.permutation(np.arange(n) % n_made)


def _matched(labels: IntArray, wanted: IntArray, K: int) -> IntArray:
    """Return the order of clusters that agrees best with other labels of the same people."""
    table = np.zeros((K, K))
    np.add.at(table, (wanted, labels), 1)
    return np.asarray(linear_sum_assignment(-table)[1])


def _scored(centers: H3M, study: Study) -> Any:
    return scores_of(centers, centers.log_likelihoods(study.sequences()), study.batch)


def _tested(
    shares: FloatArray, scores: FloatArray, folds: IntArray, n_permutations: int, rng: np.random.Generator
) -> CrossFitted:
    K, labels = scores.shape[1], shares.argmax(axis=1)
    above = scores - (scores.sum(axis=1, keepdims=True) - scores) / (K - 1)
    p = _exchanged(shares, above, folds, n_permutations, rng)
    pairs = [
        _pair(a, b, labels, scores, folds)._replace(p=_pair_exchanged(a, b, shares, scores, folds, n_permutations, rng))
        for a, b in itertools.combinations(range(K), 2)
    ]
    if K == 2:
        pairs = [pairs[0]._replace(p=p)]
    corrected = holm(pair.p for pair in pairs)
    named = [pair._replace(p_holm=q) for pair, q in zip(pairs, corrected, strict=True)]
    gains = [pair.gain for pair in pairs if not np.isnan(pair.gain)]
    gain = float(np.mean(gains)) if gains else float("nan")
    return CrossFitted(p, gain, named, labels, scores, int(folds.max()) + 1, n_permutations)


def _exchanged(
    shares: FloatArray, above: FloatArray, folds: IntArray, n_permutations: int, rng: np.random.Generator
) -> float:
    """Return p of how well scores go with assignments, by exchanging scores within folds.

    Folds differ in their centres, and with them in assignments and scores; only people of one fold can be exchanged.
    """
    design = Design(np.arange(len(folds)), [], folds, False)
    pairing = shares @ above.T  # [i, j]: how well the assignment of i goes with the scores of j
    orders = design.permuted(n_permutations, rng)
    return share_as_large(float(np.trace(pairing)), pairing[np.arange(len(folds)), orders].sum(axis=1))


def _pair_exchanged(
    a: int, b: int, shares: FloatArray, scores: FloatArray, folds: IntArray, n: int, rng: np.random.Generator
) -> float:
    """Return the same for two clusters, by the people who belong to one of them; NaN if one has none."""
    items = np.flatnonzero(np.isin(shares.argmax(axis=1), np.array([a, b])))
    if len(set(shares[items].argmax(axis=1))) < 2:
        return float("nan")
    own, gap = shares[items][:, [a, b]], scores[items, a] - scores[items, b]
    own /= own.sum(axis=1, keepdims=True)
    return _exchanged(own, np.stack([gap, -gap], axis=1), np.unique(folds[items], return_inverse=True)[1], n, rng)


def _pair(a: int, b: int, labels: IntArray, scores: FloatArray, folds: IntArray) -> CrossFittedPair:
    """Compare two clusters by the regression of log-likelihood ratios on the cluster, with an intercept per fold.

    The folds' centres differ, and with them both ratios and assignments; without intercepts that alone would make
    assignments and ratios agree.
    """
    items = np.flatnonzero((labels == a) | (labels == b))
    ratio, fold = scores[items, a] - scores[items, b], folds[items]
    own, ratio = _within_folds((labels[items] == a).astype(np.float64), fold), _within_folds(ratio, fold)
    df, size = len(items) - len(np.unique(fold)) - 1, float(own @ own)
    if df < 2 or size < 1e-9:
        return CrossFittedPair(a, b, np.nan, (np.nan, np.nan), np.nan, np.nan, np.nan)
    slope = float(own @ ratio) / size
    sd = float(np.sqrt(((ratio - slope * own) ** 2).sum() / df))
    error = sd / np.sqrt(size)
    reach = stats.t.ppf(0.975, df) * error
    return CrossFittedPair(a, b, slope / 2, ((slope - reach) / 2, (slope + reach) / 2), slope / sd, np.nan, np.nan)


def _within_folds(values: FloatArray, folds: IntArray) -> FloatArray:
    """Return the values minus the mean of their fold."""
    n = np.maximum(np.bincount(folds), 1)
    return np.asarray(values - (np.bincount(folds, values) / n)[folds])
