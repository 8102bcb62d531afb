"""How well clusters, annotations and rankings agree with the truth, by the paper's conventions.

What scikit-learn provides is taken from there: the Rand index is `sklearn.metrics.rand_score`, adjusted or not, and
`retrieval_scores` calls its average precision and area under ROC.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError, ParameterError


class AnnotationScores(NamedTuple):
    """Precision, recall and F of every tag; NaN for a tag that no song has."""

    precision: FloatArray
    recall: FloatArray
    f: FloatArray

    def means(self) -> dict[str, float]:
        """Return the mean of each over the tags. F is the mean of the tags' F, not the F of the means."""
        return _means(self)


class RetrievalScores(NamedTuple):
    """How well songs are ranked for every tag; NaN for a tag that no song, or every song, has."""

    average_precision: FloatArray
    auc: FloatArray  #: area under the receiver operating characteristic
    precision_at_k: FloatArray

    def means(self) -> dict[str, float]:
        """Return the mean of each over the tags; the mean average precision is known as MAP."""
        return _means(self)


def _means(scores: AnnotationScores | RetrievalScores) -> dict[str, float]:
    found = {name: values[~np.isnan(values)] for name, values in scores._asdict().items()}
    return {name: float(values.mean()) if len(values) else float("nan") for name, values in found.items()}


def best_tags(scores: npt.ArrayLike, n_tags: int = 10) -> IntArray:
    """Return the columns of the `n_tags` highest scores of each song, best first; ties go to the first column.

    Examples
    --------
    >>> best_tags([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]], 2)
    array([[1, 2], [0, 2]])
    """
    values = _matrix("scores", scores)
    if not 1 <= n_tags <= values.shape[1]:
        raise ParameterError("n_tags", n_tags, "must be between 1 and {n}, the number of tags", n=values.shape[1])
    return np.asarray(np.argsort(-values, axis=1, kind="stable")[:, :n_tags], dtype=np.int64)


def annotation_scores(
    truth: npt.ArrayLike, scores: npt.ArrayLike, n_tags: int = 10, training_share: npt.ArrayLike | None = None
) -> AnnotationScores:
    """Return precision, recall and F of every tag when each song is given its `n_tags` best tags.

    Parameters
    ----------
    truth : array of shape (n_songs, V)
        Whether a song has a tag.
    scores : array of shape (n_songs, V)
        How well a tag fits a song, such as the probabilities of `H3MTagger`.
    n_tags : int
        Tags given to each song.
    training_share : array of shape (V,), optional
        Share of the training songs that have each tag. The precision of a tag that is given to no song is undefined,
        and is replaced by this, the precision of a random guess; zero by default.

    Returns
    -------
    AnnotationScores
        One value per tag. F is 0 if precision and recall are both 0.

    Examples
    --------
    >>> truth = [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    >>> found = annotation_scores(truth, [[0.6, 0.4, 0.0], [0.7, 0.2, 0.1], [0.5, 0.3, 0.2]], 1, [0.5, 0.3, 0.2])
    >>> found.precision.round(2), found.recall, found.f.round(2)
    (array([0.67, 0.3 , 0.2 ]), array([1., 0., 0.]), array([0.8, 0. , 0. ]))
    """
    relevant, values = _same_shape(truth, scores)
    given = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(given, best_tags(values, n_tags), True, axis=1)
    share = np.zeros(values.shape[1]) if training_share is None else np.asarray(training_share, dtype=np.float64)
    if share.shape != (values.shape[1],):
        raise InputError(
            "{training_share} has shape {shape}", "give one value for each of {n} tags",
            shape=share.shape, n=values.shape[1],
        )  # fmt: skip
    hits, n_given, n_relevant = (given & relevant).sum(axis=0), given.sum(axis=0), relevant.sum(axis=0)
    precision = np.where(n_given > 0, hits / np.maximum(n_given, 1), share)
    recall = np.where(n_relevant > 0, hits / np.maximum(n_relevant, 1), np.nan)
    total = precision + recall
    f = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0)
    return AnnotationScores(np.where(n_relevant > 0, precision, np.nan), recall, f)


def retrieval_scores(truth: npt.ArrayLike, scores: npt.ArrayLike, k: int = 10) -> RetrievalScores:
    """Rank the songs for every tag by their scores, and return how good the rankings are.

    Parameters
    ----------
    truth : array of shape (n_songs, V)
        Whether a song has a tag.
    scores : array of shape (n_songs, V)
        How well a tag fits a song.
    k : int
        Number of top-ranked songs for the last score.

    Returns
    -------
    RetrievalScores
        One value per tag: average precision and area under ROC by scikit-learn, and the share of relevant songs among
        the first k.

    Examples
    --------
    >>> found = retrieval_scores([[1], [0], [1], [0]], [[0.9], [0.8], [0.7], [0.1]], k=2)
    >>> found.average_precision.round(3), found.auc, found.precision_at_k
    (array([0.833]), array([0.75]), array([0.5]))
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415  (slow to import)

    relevant, values = _same_shape(truth, scores)
    out = np.full((3, relevant.shape[1]), np.nan)
    for tag in np.flatnonzero(relevant.any(axis=0) & ~relevant.all(axis=0)):
        column = relevant[:, tag], values[:, tag]
        out[:, tag] = average_precision_score(*column), roc_auc_score(*column), precision_at_k(*column, k)
    return RetrievalScores(*out)


def precision_at_k(relevant: npt.ArrayLike, scores: npt.ArrayLike, k: int = 10) -> float:
    """Return the share of relevant items among the k with the highest scores.

    Ties go to the first. If there are fewer than k items, all are used.

    Examples
    --------
    >>> precision_at_k([True, False, True, False], [0.9, 0.8, 0.7, 0.1], k=3)
    0.6666666666666666
    """
    if k < 1:
        raise ParameterError("k", k, "must be at least 1")
    top = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")[:k]
    return float(np.asarray(relevant, dtype=bool)[top].mean())


def _matrix(name: str, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not array.size:
        raise InputError("{name} has shape {shape}; it must be (songs, tags)", name=name, shape=array.shape)
    if np.isnan(array).any():
        song, tag = (int(i) for i in np.argwhere(np.isnan(array))[0])
        raise InputError(
            "{name} is NaN for song {song}, tag {tag}", "leave out songs without a value",
            name=name, song=song, tag=tag,
        )  # fmt: skip
    return array


def _same_shape(truth: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[npt.NDArray[np.bool_], FloatArray]:
    relevant, values = _matrix("truth", truth), _matrix("scores", scores)
    if relevant.shape != values.shape:
        raise InputError(
            "{truth} has shape {shape} but {scores} {needed}; they must agree",
            shape=relevant.shape, needed=values.shape,
        )  # fmt: skip
    if not np.isin(relevant, (0.0, 1.0)).all():
        raise InputError("{truth} must be 0 or 1 everywhere", "for soft annotations, pass for example soft >= 0.5")
    return relevant.astype(bool), values


def purity(classes: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of inputs that belong to the most common class of their cluster.

    Examples
    --------
    >>> purity(["a", "a", "b", "b"], [0, 0, 0, 1])
    0.75
    """
    classes, labels = np.unique(np.asarray(classes), return_inverse=True)[1], np.asarray(labels)
    return sum(int(np.bincount(classes[labels == k]).max()) for k in np.unique(labels)) / len(labels)


def clustering_accuracy(classes: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of items in the cluster that stands for their class; each cluster stands for one class at most.

    Examples
    --------
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 1, 0])
    0.75
    """
    table = contingency_matrix(classes, labels)
    return float(table[linear_sum_assignment(-table)].sum() / table.sum())


def best_attainable_rand(classes: npt.ArrayLike, n_clusters: int) -> float:
    """Return the highest Rand index that any clustering into `n_clusters` can have with these classes.

    With fewer clusters than classes, classes must be merged, which the Rand index counts as errors. Splitting a class
    costs more than merging it whole if classes are about equally large, so only whole classes are merged here.

    Examples
    --------
    >>> round(best_attainable_rand(["a", "a", "b", "b", "c", "c"], 3), 3)
    1.0
    >>> round(best_attainable_rand(["a", "a", "b", "b", "c", "c"], 2), 3)
    0.733
    """
    sizes = [int(size) for size in np.unique(np.asarray(classes), return_counts=True)[1]]
    n = sum(sizes)
    together = min(sum(g * (g - 1) // 2 for g in groups) for groups in _groupings(sizes, n_clusters))
    same_class = sum(size * (size - 1) // 2 for size in sizes)
    return 1.0 - (together - same_class) / (n * (n - 1) / 2)


def _groupings(sizes: list[int], n_groups: int) -> Iterator[list[int]]:
    """Yield the sizes of the groups for every way to put the classes into at most `n_groups` groups."""
    if not sizes:
        yield []
        return
    for groups in _groupings(sizes[1:], n_groups):
        for g in range(len(groups)):
            yield [*groups[:g], groups[g] + sizes[0], *groups[g + 1 :]]
        if len(groups) < n_groups:
            yield [*groups, sizes[0]]
