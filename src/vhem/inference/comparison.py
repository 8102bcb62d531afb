"""Everything that is said about a clustering, in one call: the tables, sentences and Methods paragraph of a paper."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import IntArray
from vhem._support.errors import InputError
from vhem._support.phrases import capitalized
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference.associate import Members
from vhem.inference.bootstrap import BootstrapTest, bootstrap_test
from vhem.inference.cross_fit import CrossFitted, cross_fitted_test
from vhem.inference.differences import ClusterDifference, cluster_differences, description_table, path_table
from vhem.inference.pieces import disconnected_centers
from vhem.inference.quality import clustering_quality
from vhem.inference.scores import SubjectScores, ab_scale, log_odds, subject_scores
from vhem.inference.t_tests import one_sample, t_test_table
from vhem.inference.tables import Table, number
from vhem.models import H3M
from vhem.sequences import SequencesLike, as_sequences

_LEVEL = 0.05
_SHOWN = 5  # people in a note
_PAIRS = 3  # of clusters whose differences are told in words
_SAMPLES = 99  # of people, for the intervals of differences
NAIVE = (
    "These tests, usual in studies of eye movements, are shown for comparison only: the centres were learned from the "
    "same people, so that p is far too small. The cross-fitted test and the bootstrap are the ones to report."
)


STOPPED = (
    "This was stopped before the parametric bootstrap: whether there are kinds rather than a continuum was not tested."
)


class Comparison(NamedTuple):
    """What can be said about a clustering."""

    tables: list[Table]
    sentences: list[str]  #: the results, as a paper states them
    warnings: list[str]
    key: str  #: of the labels that it is about
    tests: Mapping[str, Any] = MappingProxyType(
        {}
    )  #: folds and data sets that the tests used, for the Methods paragraph
    methods: str = ""  #: the Methods paragraph

    def as_json(self) -> str:
        """Return it as text, for :func:`from_json`."""
        plain = {"tables": [table._asdict() for table in self.tables], "tests": dict(self.tests)}
        return json.dumps(self._asdict() | plain, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Comparison:
        """Return what was written by `as_json`."""
        found = json.loads(text)
        return Comparison(
            [Table(**table) for table in found["tables"]], found["sentences"], found["warnings"], found["key"],
            found.get("tests", {}), found.get("methods", ""),
        )  # fmt: skip


def key_of(ids: Iterable[Any], labels: IntArray) -> str:
    """Return a short text that is the same for the same clusters only."""
    said = json.dumps([[str(name) for name in ids], np.asarray(labels).tolist()])
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def compare_clusters(
    estimator: SequenceClustering,
    members: Members,
    centers: H3M,
    hmms: H3M,
    sequences: SequencesLike,
    groups: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    n_bootstrap: int = 69,
    n_folds: int = 5,
    random_state: int = 0,
    callback: Callable[[str, float], None] | None = None,
    keep: Callable[[Comparison], None] | None = None,
) -> Comparison:
    """Say everything about a clustering of sequences that can be said without knowing more about the people.

    Parameters
    ----------
    estimator : SequenceClustering
        How the sequences were clustered; it is run again by the tests.
    members : Members
        Who is in which cluster.
    centers, hmms : H3M
        The centres, and the HMM of each person.
    sequences : list of arrays or Sequences
        The sequences.
    groups : list, optional
        The person of each sequence; by default the sequences' own groups.
    names : list of str, optional
        Names of the dimensions.
    n_bootstrap : int
        Data sets of the parametric bootstrap, at most; fewer are drawn where the answer is clear.
    n_folds : int
        Folds of the cross-fitted test.
    random_state : int
        Seed.
    callback : callable, optional
        Called with what is being done, and the share of it that is done.
    keep : callable, optional
        Called with all but the bootstrap, which takes longest and comes last.

    Returns
    -------
    Comparison
        Tables and sentences.

    Examples
    --------
    >>> from vhem import SequenceClustering
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import Members, compare_clusters
    >>> study = simulated_study(n_viewers=12, n_trials=5)
    >>> model = SequenceClustering(2, random_state=0)
    >>> fit = model.fit(study.sequences, groups=study.sequences.groups)
    >>> members = Members(fit.ids_, fit.labels_, fit.responsibilities_)
    >>> found = compare_clusters(model, members, fit.centers_, fit.hmms_, study.sequences, n_bootstrap=10)
    >>> [table.name for table in found.tables]
    ['cross_fitted', 'bootstrap', 'difference_1_2', 'centres', 'paths', 'quality', 'scores', 't_tests']
    """
    if len(centers) < 2:
        raise InputError("there is one cluster, and nothing to compare it with", "cluster into at least two")
    data = as_sequences(sequences)
    owner = list(data.groups or data.ids) if groups is None else list(groups)
    length = max(1, round(float(np.median(data.lengths))))
    scores = subject_scores(centers, data, owner)
    labels = _labels_of(scores.ids, members)
    watch, seed = _watched(callback), {"random_state": random_state}
    crossed = cross_fitted_test(estimator, data, owner, n_folds, **seed, callback=watch("cross-fitting"))
    differences = cluster_differences(centers, labels, data, owner, names, _SAMPLES, random_state)
    quality = clustering_quality(members, hmms, length)
    tables = [
        crossed.table(),
        *(pair.table() for pair in differences),
        description_table(centers, length),
        path_table(centers, length),
        quality.table(),
        _scale_table(scores, labels),
        *_naive(scores, labels),
    ]
    said = [crossed.sentence(), quality.sentence(), *_in_words(differences)]
    notes = [capitalized(one.sentence()) for one in disconnected_centers(centers, length, hmms, members.labels)]
    facts = {"n_folds": crossed.n_folds, "n_permutations": crossed.n_permutations, "seed": random_state}
    known = Comparison(tables, said, notes, key_of(members.ids, members.labels), facts)
    if keep is not None:
        keep(known._replace(warnings=[*notes, STOPPED]))
    null = bootstrap_test(estimator, data, owner, n_bootstrap=n_bootstrap, **seed, callback=watch("bootstrap"))
    return known._replace(
        tables=[tables[0], null.table(), *tables[1:]],
        sentences=[said[0], null.sentence(), _verdict(crossed, null), *said[1:]],
        tests={**facts, "n_bootstrap": len(null.null_gains), "n_bootstrap_most": n_bootstrap},
    )


def _labels_of(ids: Sequence[Any], members: Members) -> IntArray:
    """Return the clusters of people in the order of `ids`."""
    place = {str(name): k for k, name in enumerate(members.ids)}
    return np.array([members.labels[place[str(name)]] for name in ids])


def _in_words(differences: list[ClusterDifference]) -> list[str]:
    """Return what differs, in words, if there are not too many pairs of clusters for that."""
    if len(differences) <= _PAIRS:
        return [pair.sentence() for pair in differences]
    return [f"What differs within each of the {len(differences)} pairs of clusters is in tables of their own."]


def _watched(callback: Callable[[str, float], None] | None) -> Callable[[str], Callable[[float], None] | None]:
    return lambda what: None if callback is None else lambda done: callback(what, done)


def _verdict(crossed: CrossFitted, null: BootstrapTest) -> str:
    """Say what both tests together mean."""
    carry_over, kinds = crossed.p <= _LEVEL, null.p <= _LEVEL
    if carry_over and kinds:
        return "Both tests together: there are differences, and they are of kind: the clusters are not an artefact."
    if carry_over:
        return (
            "Both tests together: there are differences in what the clusters describe, but, as far as can be told, "
            "gradual ones: the clusters divide a continuum."
        )
    if kinds:
        return (
            "Both tests together: the clusters gain more than chance explains, but did not carry over to members who "
            "took no part in making them; take them as preliminary."
        )
    return "Both tests together: nothing shows that these clusters are more than an artefact of clustering."


def _scale_table(scores: SubjectScores, labels: IntArray) -> Table:
    """Return the scores of everybody, with cluster and, of two clusters, the scales between them."""
    plain = scores.table()._replace(title="Log-likelihood of each person under each centre")
    rows = [[row[0], str(label + 1), *row[1:]] for row, label in zip(plain.rows, labels, strict=True)]
    columns = [
        "person",
        "cluster",
        "sequences",
        "observations",
        *(f"centre {k + 1}" for k in range(len(scores.models))),
    ]
    if len(scores.models) == 2:
        columns += ["A–B scale", "log-odds per observation"]
        extra = zip(ab_scale(scores).tolist(), log_odds(scores).tolist(), strict=True)
        rows = [[*row, number(x), number(y)] for row, (x, y) in zip(rows, extra, strict=True)]
    note = plain.note + _elsewhere(scores, labels)
    if len(scores.models) == 2:
        note += " The A–B scale depends on these units too (A is cluster 1); the log-odds do not."
    return plain._replace(columns=columns, rows=rows, note=note)


def _elsewhere(scores: SubjectScores, labels: IntArray) -> str:
    """Say who is nearer to another centre than to that of their own cluster."""
    there = [str(scores.ids[i]) for i in np.flatnonzero(scores.total.argmax(axis=1) != labels)]
    if not there:
        return ""
    shown = ", ".join(there[:_SHOWN]) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
    return (
        " People are assigned by how well they go with a cluster whose members vary, and by several solutions that "
        f"vote, not by the likelihood of its centre alone; the centre of another cluster fits better: {shown}."
    )


def _naive(scores: SubjectScores, labels: IntArray) -> list[Table]:
    K = scores.per_frame.shape[1]
    gaps = {(a, b): (scores.per_frame[:, a] - scores.per_frame[:, b])[labels == a] for a in range(K) for b in range(K)}
    named = [
        (f"cluster {a + 1}: own centre over {b + 1}", one_sample(gap))
        for (a, b), gap in gaps.items()
        if a != b and len(gap) > 2 and np.ptp(gap) > 0
    ]
    return [t_test_table(named, "t-tests of log-likelihoods (naive)", NAIVE)] if named else []
