"""The study as inference sees it, and the clustering that is run again on parts of it or on data like it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import Count, InputError, InputTypeError, InputWarning, warn
from vhem.em.grouped import Batch
from vhem.em.slopes import with_slopes
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.models import H3M
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.sequences.channels import Channels
from vhem.sequences.slopes import names_with_slopes


class Study(NamedTuple):
    """Sequences sorted by subject."""

    batch: Batch
    channels: Channels  #: names of columns and categories, which say what can be emitted

    @staticmethod
    def of(sequences: SequencesLike, groups: Iterable[Any] | None) -> Study:
        """Return the study; subjects are `groups`, the sequences' own groups, or else the sequences."""
        data = as_sequences(sequences)
        if data.weights is not None:
            warn(InputWarning("case weights take no part in tests: everybody counts once"))
        ones = np.ones(len(data))
        return Study(Batch.of(data, data.groups if groups is None else groups, ones), data._named)

    @property
    def n(self) -> int:
        """Number of subjects."""
        return len(self.batch.ids)

    def sequences(self) -> Sequences:
        """Return the sequences."""
        made = Sequences.from_concatenated(self.batch.X, self.batch.lengths)
        return made._with(made.X, self.channels)

    def take(self, subjects: IntArray) -> Study:
        """Return some subjects, who may occur several times; they are then different subjects."""
        whole, first = self.batch, np.searchsorted(self.batch.groups, np.arange(self.n + 1))
        chosen = np.concatenate([np.arange(first[s], first[s + 1]) for s in subjects])
        owner = np.repeat(np.arange(len(subjects)), np.diff(first)[subjects])
        return self._replace(batch=whole.cut(chosen, whole.lengths[chosen], owner, list(range(len(subjects)))))

    def with_slopes(self, channels: IntArray) -> Study:
        """Return the study with the slopes of some channels as further channels."""
        return Study(with_slopes(self.batch, channels), names_with_slopes(self.channels, channels))

    def halves(self) -> tuple[Study, Study]:
        """Return every other sequence of each subject, and the rest; a single sequence is cut in the middle."""
        b = self.batch
        counts = np.bincount(b.groups)
        place = np.arange(len(b.groups)) - np.searchsorted(b.groups, b.groups)
        single = counts[b.groups] == 1
        if (b.lengths[single] < 2).any():
            k = int(b.groups[single][np.argmax(b.lengths[single] < 2)])
            raise InputError(
                "{subject!r} has a single observation, which cannot be halved", "leave out people with so few",
                subject=b.ids[k],
            )  # fmt: skip
        first, second = single | (place % 2 == 0), single | (place % 2 == 1)
        lengths = np.where(single, b.lengths // 2, b.lengths)
        one = b.cut(np.flatnonzero(first), lengths[first], b.groups[first], b.ids)
        two = _ends(b, np.flatnonzero(second), (b.lengths - np.where(single, lengths, 0))[second])
        return self._replace(batch=one), self._replace(batch=two)


def _ends(batch: Batch, sequences: IntArray, lengths: IntArray) -> Batch:
    """Return the last frames of some sequences."""
    shifted = batch._replace(offsets=batch.offsets.copy())
    made = shifted.cut(sequences, lengths, batch.groups[sequences], batch.ids)
    rows = np.concatenate(
        [np.arange(batch.offsets[s + 1] - n, batch.offsets[s + 1]) for s, n in zip(sequences, lengths, strict=True)]
    )
    return made._replace(X=batch.X[rows])


class Fitted(NamedTuple):
    """What a run of the clustering found."""

    labels: IntArray
    centers: H3M
    responsibilities: FloatArray
    bound: float
    hmms: H3M  #: of each person


def check_pipeline(estimator: Any, study: Study) -> tuple[SequenceClustering, Study]:
    """Return the estimator, which must cluster sequences, and the study as it sees it.

    Parts of a study may lack some of the codes of its categories, so their number is fixed here. Slopes that take part
    become channels of the study: data drawn from a model are not smooth, and would be clustered without.
    """
    if isinstance(estimator, (int, np.integer)):
        estimator = SequenceClustering(int(estimator))
    if not isinstance(estimator, SequenceClustering):
        raise InputTypeError(
            "{estimator} must be a SequenceClustering or a number of clusters, got {kind}",
            kind=type(estimator).__name__,
        )
    told: SequenceClustering = clone(estimator)
    if estimator.emissions == "categorical" and not any(study.channels.categories):
        told.set_params(emissions=f"categorical:{int(np.nanmax(study.batch.X)) + 1}")
    seen = study.with_slopes(told.channels_with_slopes(study.sequences()))
    return told.set_params(slopes=False), seen


def run_again(
    estimator: SequenceClustering, study: Study, n_clusters: int, seed: int, hmms: H3M | None = None
) -> Fitted:
    """Cluster a study from the beginning, without a word about what is odd in it.

    One cluster needs no HMMs of people; those that are known already, if given, are kept.
    """
    if study.n < n_clusters:
        raise InputError(
            "{n:subject} cannot form {k} clusters", "give more", n=Count(study.n), k=n_clusters
        )  # fmt: skip
    model = clone(estimator).set_params(n_clusters=n_clusters, random_state=seed, callback=None)
    known = {} if hmms is None or n_clusters > 1 else {"hmms": hmms, "partition": np.zeros(study.n, dtype=np.int64)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(study.sequences(), groups=study.batch.groups, **known)
    return Fitted(model.labels_, model.centers_, model.responsibilities_, model.lower_bound_, model.hmms_)
