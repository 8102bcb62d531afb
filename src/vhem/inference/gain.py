"""group_gain_test: whether the groups' own HMMs explain their sequences better than a common one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.errors import InputError
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.fit_hmms import fit_hmms
from vhem.inference.permutations import design_of, share_as_large
from vhem.inference.pipeline import Study
from vhem.inference.tables import Table, number, p_value, p_words
from vhem.models import HMM
from vhem.sequences import SequencesLike

_ITERATIONS = 20  # of EM from the common HMM to those of groups, the same in every permutation


class GainTest(NamedTuple):
    """Whether HMMs of groups explain more than a common one."""

    gain: float  #: in log-likelihood, in nats
    per_frame: float  #: the same per observation
    permuted: FloatArray  #: gains of permuted groups
    p: float
    groups: list[Any]

    def table(self) -> Table:
        """Return the test as a table of one row."""
        columns = ["gain (nats)", "per observation", "gain by chance", "permutations", "p"]
        row = [
            number(self.gain, 1), number(self.per_frame), number(float(self.permuted.mean()), 1),
            f"{len(self.permuted):,}", p_value(self.p),
        ]  # fmt: skip
        note = "Log-likelihood of the groups' own HMMs minus that of one HMM for all; people exchanged between groups."
        return Table("group_gain", "Gain of an HMM per group over a common one", columns, [row], note)

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        what = "explained more" if self.p <= 0.05 else "did not explain significantly more"
        return (
            f"Separate HMMs of the groups {what} than a common one (gain {self.gain:.1f} nats, "
            f"{float(self.permuted.mean()):.1f} by chance, {p_words(self.p)}, permutation test)."
        )


@documented
def group_gain_test(
    sequences: SequencesLike,
    subjects: Iterable[Any],
    groups: Iterable[Any],
    strata: Iterable[Any] | None = None,
    n_states: int = 3,
    covariance_type: str = "diag",
    n_permutations: int = 199,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    callback: Callable[[float], None] | None = None,
) -> GainTest:
    """Test whether known groups of people follow different HMMs, by the gain in log-likelihood over a common HMM.

    One HMM is learned from all sequences, and one per group, starting from the common one. The gain is compared with
    that of groups whose people were exchanged at random.

    Parameters
    ----------
    <sequences>
    subjects : list
        The person of each sequence; people are exchanged as wholes.
    groups : list
        The group of each sequence; all sequences of a person are in one group.
    strata : list, optional
        The stratum of each sequence, such as a site or a family, which a person is in: people are exchanged within it.
    n_states : int
        States per HMM.
    covariance_type : {"diag", "full"}
        Form of the covariances.
    n_permutations : int
        Permutations; HMMs are learned again in each.
    <random_state>
    <n_jobs>
    <share_done>

    Returns
    -------
    GainTest
        The gain, those by chance, and p.

    Examples
    --------
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import group_gain_test
    >>> study = simulated_study(n_viewers=12, n_trials=5)
    >>> kind = dict(zip(study.hmms.ids, study.strategies))
    >>> people = study.sequences.groups
    >>> group_gain_test(study.sequences, people, [kind[p] for p in people], n_permutations=19, random_state=0).p
    0.05
    """
    names, study, rng = list(subjects), Study.of(sequences, subjects), generator(random_state)
    n = check_integer("n_permutations", n_permutations, 1)
    of = _per_subject(names, groups, study, "groups")
    blocks = None if strata is None else _per_subject(names, strata, study, "strata")
    design = design_of(of, study.n, blocks, "subject")
    settings: dict[str, Any] = {
        "n_states": n_states,
        "covariance_type": covariance_type,
        "n_jobs": n_jobs,
        "pooling": None,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = np.zeros(len(study.batch.groups), dtype=np.int64)
        common = fit_hmms(study.sequences(), groups=whole, n_init=3, random_state=rng, **settings)[0]
        gains = []
        for k, codes in enumerate(np.concatenate([design.codes[None], design.permuted(n, rng)])):
            gains.append(_gain(study, codes, common, n_jobs))
            if callback is not None:
                callback(k / n)
    seen, permuted = gains[0], np.array(gains[1:])
    per_frame = seen / float(study.batch.lengths.sum())
    return GainTest(seen, per_frame, permuted, share_as_large(seen, permuted), design.names)


def _per_subject(subjects: list[Any], values: Iterable[Any], study: Study, what: str) -> list[Any]:
    """Return the one value that all sequences of a subject have."""
    given = list(values)
    if len(given) != len(subjects):
        raise InputError(
            "{what} has {n} entries for {m} sequences", "give one for each",
            what=what, n=len(given), m=len(subjects),
        )  # fmt: skip
    found: dict[Any, Any] = {}
    for name, value in zip(subjects, given, strict=True):
        if found.setdefault(name, value) != value:
            raise InputError(
                "{what} has both {found!r} and {value!r} for {name!r}", "a person must be in one",
                what=what, found=found[name], value=value, name=name,
            )  # fmt: skip
    return [found[name] for name in study.batch.ids]


def _gain(study: Study, codes: IntArray, common: HMM, n_jobs: int | None) -> float:
    """Return how much more likely the sequences are under HMMs of the groups, learned from the common one on."""
    owner = codes[study.batch.groups]
    _, report = fit_hmms(
        study.sequences(), groups=owner, init=common, max_iter=_ITERATIONS, pooling=None, n_jobs=n_jobs,
        return_report=True,
    )  # fmt: skip
    return float(report.log_likelihoods.sum() - common.score_samples(study.sequences(), n_jobs).sum())
