"""cross_fitted_test: whether clusters say anything about people who took no part in making them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.errors import Count, InputError
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference.permutations import holm, share_as_large
from vhem.inference.pipeline import Study, check_pipeline, run_again
from vhem.inference.scores import scores_of
from vhem.inference.tables import Table, interval, number, p_value, p_words
from vhem.models import H3M
from vhem.sequences import SequencesLike

WHY = (
    "Centres fit the people that they were learned from better than others do, whether or not there are clusters; "
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
    gain: float  #: own centre over the mean of the others, in nats per observation, mean over clusters
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
        columns = ["clusters", "gain (nats)", "95 % interval", "Cohen's d", "p", "p (Holm)"]
        return Table("cross_fitted", "Differences between clusters, cross-fitted", columns, rows, self.note())

    def note(self) -> str:
        """Return how it was tested, in words."""
        return (
            f"{WHY} {self.n_folds} folds, {self.n_permutations:,} permutations; all clusters together: "
            f"{p_words(self.p)}."
        )

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        verb = "fitted" if self.p <= 0.05 else "did not fit"
        return (
            f"People who took no part in learning the centres {verb} their own cluster better than the others "
            f"({number(self.gain)} nats per observation, {p_words(self.p)}, cross-fitted)."
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

    For every fold, clusters are learned from the other people. People of the fold are assigned to a cluster by half of
    their sequences and scored on the other half. If all people follow one HMM, the second half knows nothing of the
    assignment, so that scores, less the mean of their fold, can be exchanged between people. The statistic is how well
    scores go with assignments.

    Parameters
    ----------
    estimator : SequenceClustering or int
        The clustering, whose settings are used, or the number of clusters.
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences.
    groups : list, optional
        The person of each sequence; by default the sequences' own groups. Single sequences are cut in the middle.
    n_folds : int
        Folds; the clustering is run once for each, and once with everybody.
    n_permutations : int
        Permutations.
    <random_state>
    callback : callable, optional
        Called with the share of the work that is done.

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
    model, study, rng = check_pipeline(estimator), Study.of(sequences, groups), generator(random_state)
    folds = _folds(study.n, check_integer("n_folds", n_folds, 2), model.n_clusters, rng)
    seed = int(rng.integers(2**31))
    whole = run_again(model, study, model.n_clusters, seed)
    labels, scores = np.zeros(study.n, dtype=np.int64), np.zeros((study.n, model.n_clusters))
    halves = study.halves()
    for k, fold in enumerate(folds):
        rest = np.setdiff1d(np.arange(study.n), fold)
        found = run_again(model, study.take(rest), model.n_clusters, seed)
        centers = found.centers[_matched(found.labels, whole.labels[rest], model.n_clusters)]
        first, second = (_scored(centers, half.take(fold)) for half in halves)
        labels[fold], scores[fold] = first.total.argmax(axis=1), second.per_frame
        if callback is not None:
            callback((k + 1) / n_folds)
    owner = np.empty(study.n, dtype=np.int64)
    for k, fold in enumerate(folds):
        owner[fold] = k
    return _tested(labels, scores, owner, check_integer("n_permutations", n_permutations, 1), rng)


def _folds(n: int, n_folds: int, n_clusters: int, rng: np.random.Generator) -> list[IntArray]:
    if n < 2 * n_folds or n - -(-n // n_folds) < n_clusters:
        raise InputError(
            "{n:subject} cannot be divided into {folds} folds of at least 2", "lower {n_folds}", "give more subjects",
            n=Count(n), folds=n_folds,
        )  # fmt: skip
    return list(np.array_split(rng.permutation(n), n_folds))


def _matched(labels: IntArray, wanted: IntArray, K: int) -> IntArray:
    """Return the order of clusters that agrees best with other labels of the same people."""
    table = np.zeros((K, K))
    np.add.at(table, (wanted, labels), 1)
    return np.asarray(linear_sum_assignment(-table)[1])


def _scored(centers: H3M, study: Study) -> Any:
    return scores_of(centers, centers.log_likelihoods(study.sequences()), study.batch)


def _tested(
    labels: IntArray, scores: FloatArray, folds: IntArray, n_permutations: int, rng: np.random.Generator
) -> CrossFitted:
    K = scores.shape[1]
    p, gain = _exchanged(labels, scores, folds, n_permutations, rng)
    pairs = [_pair(a, b, labels, scores, folds) for a, b in itertools.combinations(range(K), 2)]
    if K == 2:
        pairs = [pairs[0]._replace(p=p)]
    corrected = holm(pair.p for pair in pairs)
    named = [pair._replace(p_holm=q) for pair, q in zip(pairs, corrected, strict=True)]
    return CrossFitted(p, gain, named, labels, scores, int(folds.max()) + 1, n_permutations)


def _exchanged(
    labels: IntArray, scores: FloatArray, folds: IntArray, n_permutations: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return p, by exchanging scores, and the gain; 1 and NaN if fewer than two clusters have members."""
    if len(np.unique(labels)) < 2:
        return 1.0, float("nan")
    n, K = scores.shape
    above = scores - (scores.sum(axis=1, keepdims=True) - scores) / (K - 1)
    gain = float(np.mean([above[labels == k, k].mean() for k in np.unique(labels)]))
    # Folds differ in their centres, and with them in assignments and scores: only what is within folds counts.
    own = np.stack([_within_folds((labels == k).astype(np.float64), folds) for k in range(K)], axis=1)
    above = np.stack([_within_folds(column, folds) for column in above.T], axis=1)
    pairing = own @ above.T  # [i, j]: how well the assignment of i goes with the scores of j
    orders = rng.permuted(np.broadcast_to(np.arange(n), (n_permutations, n)), axis=1)
    return share_as_large(float(np.trace(pairing)), pairing[np.arange(n), orders].sum(axis=1)), gain


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
    p = float(2 * stats.t.sf(abs(slope) / error, df))
    return CrossFittedPair(a, b, slope / 2, ((slope - reach) / 2, (slope + reach) / 2), slope / sd, p, np.nan)


def _within_folds(values: FloatArray, folds: IntArray) -> FloatArray:
    """Return the values minus the mean of their fold."""
    n = np.maximum(np.bincount(folds), 1)
    return np.asarray(values - (np.bincount(folds, values) / n)[folds])
