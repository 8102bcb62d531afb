"""How well every subject's sequences fit every model, and the scale between two models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError, ParameterError
from vhem.em.grouped import Batch
from vhem.inference.tables import Table, number
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.sequences import SequencesLike


class SubjectScores(NamedTuple):
    """Log-likelihoods of subjects under models."""

    ids: list[Any]  #: the subjects
    models: list[Any]  #: the models' names
    per_frame: FloatArray  #: (n, K) log-likelihood divided by the sequence's length, mean over a subject's sequences
    per_sequence: FloatArray  #: (n, K) log-likelihood, mean over a subject's sequences
    total: FloatArray  #: (n, K) log-likelihood of all sequences of a subject
    n_sequences: IntArray  #: (n,)
    n_frames: IntArray  #: (n,)

    def table(self) -> Table:
        """Return one row per subject."""
        columns = ["subject", "sequences", "frames", *(f"model {name}" for name in self.models)]
        rows = [
            [str(name), str(n), str(frames), *map(number, scores)]
            for name, n, frames, scores in zip(
                self.ids, self.n_sequences, self.n_frames, self.per_frame.tolist(), strict=True
            )
        ]
        return Table("scores", "Log-likelihood of each subject under each model", columns, rows, note=_UNITS)


_UNITS = (
    "Nats per observation, mean over a subject's sequences. Only differences between columns mean anything: "
    "the level depends on the units of the data."
)


def subject_scores(
    model: H3M | HMM, sequences: SequencesLike, groups: Iterable[Any] | None = None, n_jobs: int | None = None
) -> SubjectScores:
    """Score every subject under every HMM of a model.

    Parameters
    ----------
    model : H3M, HMM or list of HMM
        The centres of a clustering, or published models from a file.
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences.
    groups : list, optional
        The subject of each sequence; by default the sequences' own groups, or else each sequence is a subject.
    n_jobs : int, optional
        Threads; all cores by default.

    Returns
    -------
    SubjectScores
        One row per subject, one column per HMM. All sequences of a subject count equally, whatever their length.

    Examples
    --------
    >>> import vhem
    >>> from vhem.inference import subject_scores
    >>> near, far = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]]), vhem.HMM([1.0], [[1.0]], [[3.0]], [[1.0]])
    >>> scores = subject_scores([near, far], [[0.0, 0.1], [0.2], [3.0, 2.9]], groups=["ann", "ann", "bob"])
    >>> scores.ids, scores.per_frame.round(2).tolist()
    (['ann', 'bob'], [[-0.93, -5.06], [-5.27, -0.92]])
    """
    h3m = check_h3m("model", model)
    data = h3m.coded(sequences)  # the model's codes of the categories
    batch = Batch.of(data, data.groups if groups is None else groups, None)
    ordered = type(data).from_concatenated(batch.X, batch.lengths)
    return scores_of(h3m, h3m.log_likelihoods(ordered, n_jobs), batch)


def scores_of(h3m: H3M, likelihoods: FloatArray, batch: Batch) -> SubjectScores:
    """Return the scores of the groups of a batch from the log-likelihoods of its sequences, (n, K)."""
    if not np.isfinite(likelihoods).all():
        i, k = (int(x) for x in np.argwhere(~np.isfinite(likelihoods))[0])
        raise InputError(
            "a sequence of {subject!r} is impossible under model {model!r}",
            "give models whose probabilities are not zero",
            subject=batch.ids[batch.groups[i]], model=h3m.ids[k],
        )  # fmt: skip
    n = np.bincount(batch.groups, minlength=len(batch.ids))
    total = _sums(likelihoods, batch.groups, len(n))
    per_frame = _sums(likelihoods / batch.lengths[:, None], batch.groups, len(n)) / n[:, None]
    frames = np.bincount(batch.groups, batch.lengths, len(n)).astype(np.int64)
    return SubjectScores(batch.ids, list(h3m.ids), per_frame, total / n[:, None], total, n, frames)


def _sums(values: FloatArray, owner: IntArray, n: int) -> FloatArray:
    return np.stack([np.bincount(owner, column, n) for column in values.T], axis=1)


def ab_scale(scores: SubjectScores, a: int = 0, b: int = 1) -> FloatArray:
    """Place every subject between two models: ``(LL_A - LL_B) / (|LL_A| + |LL_B|)``.

    Positive values are closer to A. This is the scale of eye-movement studies (holistic-analytic, explorative-focused).
    It depends on the units of the data, since log-densities do: pixels and degrees give different values, and values
    from two studies can be compared only if their units agree. :func:`log_odds` does not depend on them.

    Parameters
    ----------
    scores : SubjectScores
        The scores.
    a, b : int
        Columns of the two models.

    Returns
    -------
    array of shape (n,)
        The scale.

    Examples
    --------
    >>> import vhem
    >>> from vhem.inference import ab_scale, subject_scores
    >>> near, far = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]]), vhem.HMM([1.0], [[1.0]], [[3.0]], [[1.0]])
    >>> ab_scale(subject_scores([near, far], [[0.0, 0.1], [3.0, 2.9]])).round(2)
    array([ 0.7, -0.7])
    """
    first, second = _pair(scores.per_frame, a, b)
    return scale_between(first, second)


def scale_between(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    """Return ``(A - B) / (|A| + |B|)``, zero where both are zero: the scale of scores that were added up over stimuli.

    Parameters
    ----------
    first, second : arrays of one shape
        Scores under the models A and B.

    Returns
    -------
    array
        The scale.

    Examples
    --------
    >>> from vhem.inference import scale_between
    >>> scale_between([-3.0, -5.0], [-5.0, -3.0])
    array([ 0.25, -0.25])
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    size = np.abs(one) + np.abs(other)
    return np.asarray(np.divide(one - other, size, out=np.zeros_like(size), where=size > 0))


def log_odds(scores: SubjectScores, a: int = 0, b: int = 1) -> FloatArray:
    """Return the log-odds of model A against B per observation, for every subject: (LL_A - LL_B) / frames.

    In nats: one nat per fixation makes A e times more probable with every fixation. The units of the data cancel, so
    values can be compared between studies.

    Parameters
    ----------
    scores, a, b
        As for :func:`ab_scale`.

    Returns
    -------
    array of shape (n,)
        The log-odds.

    Examples
    --------
    >>> import vhem
    >>> from vhem.inference import log_odds, subject_scores
    >>> near, far = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]]), vhem.HMM([1.0], [[1.0]], [[3.0]], [[1.0]])
    >>> log_odds(subject_scores([near, far], [[0.0, 0.1], [3.0, 2.9]])).round(2)
    array([ 4.35, -4.35])
    """
    first, second = _pair(scores.total, a, b)
    return np.asarray((first - second) / scores.n_frames)


def _pair(values: FloatArray, a: int, b: int) -> tuple[FloatArray, FloatArray]:
    for name, k in (("a", a), ("b", b)):
        if not 0 <= k < values.shape[1]:
            raise ParameterError(name, k, "must be the column of a model, 0 to {last}", last=values.shape[1] - 1)
    if a == b:
        raise ParameterError("b", b, "must be a different model from {a}")
    return values[:, a], values[:, b]
