"""cluster_differences: which states and transitions make the difference between two clusters."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.errors import InputError, InputTypeError
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.emissions import Number
from vhem.estimators.fit_hmms import fit_hmms
from vhem.inference.describe import describe_hmm, likeliest_paths
from vhem.inference.permutations import SMALLEST
from vhem.inference.pipeline import Study
from vhem.inference.tables import Table, interval, number
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.models.stationary import long_run_occupancies, time_shares
from vhem.sequences import Sequences, SequencesLike

# Of EM from a centre to that of resampled members; states keep their order. It ends about where the EM that learned
# the centre did: run for longer, it moves further than centres do, and intervals become too wide.
_ITERATIONS = 30

_MIDDLE = 2 * float(stats.norm.ppf(0.95))  # standard deviations between the 5th and the 95th percentile
_SAID = 3  # differences in a sentence
_STEPS, _PATHS = 4, 3  # states per path, and paths per cluster, in the table of likeliest paths
_MANY_PATHS = 100_000


class Estimate(NamedTuple):
    """A number of two clusters, and their difference."""

    what: str
    first: float
    second: float
    difference: float
    interval: tuple[float, float]  #: 95 %, of the difference

    @property
    def clear(self) -> bool:
        """Whether zero is outside the interval."""
        low, high = self.interval
        return bool(low > 0 or high < 0)

    @property
    def in_words(self) -> str:
        """What is compared, as part of a sentence."""
        if self.what.startswith("from "):
            one, _, other = self.what.removeprefix("from ").partition(" to ")
            return f"the probability of moving from state {one} to state {other}"
        state, _, measure = self.what.partition(": ")
        return f"{measure} in {state}" if measure else f"the {self.what}"

    @property
    def clarity(self) -> float:
        """How many half-widths of its interval the difference is from zero."""
        return abs(self.difference) / max((self.interval[1] - self.interval[0]) / 2, 1e-300)


class Drawn(NamedTuple):
    """Centres learned again from bootstrap samples of the members of a cluster."""

    centers: H3M
    n_members: int


class ClusterDifference(NamedTuple):
    """Two clusters compared, number by number."""

    first: int
    second: int
    states: list[tuple[int, int]]  #: which state of the second corresponds to each of the first
    estimates: list[Estimate]

    def sentence(self) -> str:
        """Say what differs most clearly."""
        who = f"clusters {self.first + 1} and {self.second + 1}"
        clear = sorted((x for x in self.estimates if x.clear), key=lambda x: -x.clarity)[:_SAID]
        if not clear:
            return f"Nothing differed clearly between {who}."
        parts = [
            f"{x.in_words} ({number(x.first, 2)} against {number(x.second, 2)}, 95 % interval of the difference "
            f"{interval(*x.interval, 2)})"
            for x in clear
        ]
        told = self._crossed(" ".join(x.what for x in clear))
        return f"What differed most clearly between {who}: {'; '.join(parts)}{f' ({told})' if told else ''}."

    def _crossed(self, text: str) -> str:
        """Say what 2/3 means in a text: states that correspond, with different numbers; nothing if there are none."""
        for s, t in self.states:
            if f"{s + 1}/{t + 1}" in text:
                where = f"state {s + 1} of cluster {self.first + 1} and state {t + 1} of cluster {self.second + 1}"
                return f"{s + 1}/{t + 1} is {where}"
        return ""

    def table(self) -> Table:
        """Return one row per number; those with zero outside the interval are marked."""
        a, b = self.first + 1, self.second + 1
        rows = [
            [x.what, number(x.first, 2), number(x.second, 2), number(x.difference, 2), interval(*x.interval, 2),
             "yes" if x.clear else ""]
            for x in self.estimates
        ]  # fmt: skip
        columns = ["measure", f"cluster {a}", f"cluster {b}", "difference", "95 % interval", "excludes 0"]
        told = self._crossed(" ".join(x.what for x in self.estimates))
        note = f"States are matched by what they emit{f'; {told}' if told else ''}"
        note += (
            ". Intervals: bootstrap of people, given who is in which cluster. They describe the clusters, which were "
            "made from the same data, and are no proof of kinds; nor are they corrected for their number."
        )
        return Table(f"difference_{a}_{b}", f"What differs between clusters {a} and {b}", columns, rows, note)


@documented
def cluster_differences(
    centers: Any,
    labels: Sequence[int] | IntArray | None,
    sequences: SequencesLike,
    groups: Iterable[Any] | None = None,
    names: Sequence[str] | None = None,
    n_bootstrap: int = 199,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> list[ClusterDifference]:
    """Compare clusters number by number: what states emit, time in them, dwell times, transitions.

    Parameters
    ----------
    centers : H3M or fitted estimator
        The centres, or a clustering that has them.
    labels : array of shape (n,), or None
        The cluster of each person, in the order of people's first sequences. None: those of the clustering.
    <sequences>
    <people>
    names : list of str, optional
        Names of the dimensions.
    n_bootstrap : int
        Bootstrap samples of the members of each cluster, from which its centre is learned again.
    <random_state>
    <n_jobs>

    Returns
    -------
    list of ClusterDifference
        One for every pair of clusters with at least three members each.

    Examples
    --------
    >>> from vhem import SequenceClustering
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import cluster_differences
    >>> study = simulated_study(n_viewers=18)
    >>> people = study.sequences.groups
    >>> fit = SequenceClustering(2, random_state=0).fit(study.sequences, groups=people)
    >>> found = cluster_differences(fit, None, study.sequences, n_bootstrap=20)[0]
    >>> [estimate.what for estimate in found.estimates][:2]
    ['state 1: x1', 'state 1: x2']
    """
    h3m, rng = check_h3m("centers", getattr(centers, "centers_", centers)), generator(random_state)
    study = Study.of(h3m.coded(sequences), groups)
    kinds = np.asarray(_labels_of(centers) if labels is None else labels)
    if len(kinds) != study.n:
        raise InputError("labels has {k} entries for {n} people", "give one for each", k=len(kinds), n=study.n)
    columns = list(names or h3m.channels)
    length = max(1, round(float(np.median(study.batch.lengths))))
    n = check_integer("n_bootstrap", n_bootstrap, 10)
    large = [k for k in range(len(h3m)) if (kinds == k).sum() >= SMALLEST]
    members = {k: np.flatnonzero(kinds == k) for k in large}
    drawn = {k: Drawn(_resampled(h3m[k], study, members[k], n, rng, n_jobs), len(members[k])) for k in large}
    return [_compared(a, b, h3m, drawn, columns, length) for a, b in itertools.combinations(large, 2)]


def _labels_of(fit: Any) -> IntArray:
    if not hasattr(fit, "labels_"):
        raise InputTypeError("{labels} must be given with centres", "give a fitted clustering instead of its centres")
    labels: IntArray = fit.labels_
    return labels


def _resampled(
    center: HMM, study: Study, members: IntArray, n: int, rng: np.random.Generator, n_jobs: int | None
) -> H3M:
    """Return the centre learned again from bootstrap samples of its members, all at once."""
    parts = [study.take(rng.choice(members, len(members))) for _ in range(n)]
    X = np.concatenate([part.batch.X for part in parts])
    lengths = np.concatenate([part.batch.lengths for part in parts])
    owner = np.repeat(np.arange(n), [len(part.batch.lengths) for part in parts])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit_hmms(
            Sequences.from_concatenated(X, lengths), groups=owner, init=center, max_iter=_ITERATIONS, pooling=None,
            n_jobs=n_jobs,
        )  # fmt: skip
    return found._remembering(center._channels)


def _compared(
    a: int, b: int, centers: H3M, drawn: dict[int, Drawn], names: list[str], length: int
) -> ClusterDifference:
    states = _matched(centers[a], centers[b])
    sides = [(a, [s for s, _ in states]), (b, [t for _, t in states])]
    called = [str(s + 1) if s == t else f"{s + 1}/{t + 1}" for s, t in states]
    seen = [_numbers(centers[k : k + 1], order, called, names, length) for k, order in sides]
    again = [_numbers(drawn[k].centers, order, called, names, length) for k, order in sides]
    members = [drawn[k].n_members for k, _ in sides]
    return ClusterDifference(a, b, states, [_estimate(x, members) for x in zip(*seen, *again, strict=True)])


def _estimate(found: tuple[Number, ...], members: list[int]) -> Estimate:
    """Compare a number of two centres by Welch's interval, with the variances among bootstrap samples.

    Percentiles of the bootstrap would be too narrow for few members: their spread is that of n - 1 members, and they
    know nothing of Student's distribution.
    """
    one, other, *drawn = found
    x, y = float(one.values[0]), float(other.values[0])
    gap = float(one.apart(x, y))
    parts = [_variance(number) * n / (n - 1) for number, n in zip(drawn, members, strict=True)]
    total = sum(parts)
    if total > 0:
        df = 1 / sum((part / total) ** 2 / (n - 1) for part, n in zip(parts, members, strict=True))
        reach = float(stats.t.ppf(0.975, df)) * total**0.5
    else:
        reach = 0.0
    return Estimate(one.name, x, y, gap, (max(gap - reach, -one.limit), min(gap + reach, one.limit)))


def _variance(number: Number) -> float:
    """Return the variance of a number over samples, by the middle 90 % of them; of angles, about the first of them.

    EM ends somewhere else in a few samples. These would widen every interval, and say nothing about its middle.
    """
    low, high = np.percentile(number.apart(number.values, number.values[0]), [5, 95])
    return float((high - low) / _MIDDLE) ** 2


def _matched(one: HMM, other: HMM) -> list[tuple[int, int]]:
    """Return pairs of states that are nearest in standard deviations."""
    x, y = (np.einsum("sm,smd->sd", hmm.mix_weights, hmm.emissions.centre()) for hmm in (one, other))
    scale = np.maximum(np.concatenate([x, y]).std(axis=0), 1e-300)
    gaps = (((x[:, None] - y) / scale) ** 2).sum(axis=2)
    return [(int(s), int(t)) for s, t in zip(*linear_sum_assignment(gaps), strict=True)]


def _numbers(h3m: H3M, states: list[int], called: list[str], names: list[str], length: int) -> list[Number]:
    """Return every number that is compared, one value per HMM; `called` are the names of the states."""
    categories = [h3m.categories.get(channel) for channel in h3m.channels]
    emitted = h3m.emissions.numbers(h3m.mix_weights, names, categories)
    share = time_shares(h3m.startprob, h3m.transmat, length)
    made = list[Number]()
    for word, s in zip(called, states, strict=True):
        made += [Number(f"state {word}: {x.name}", x.values[:, s], x.period, x.limit) for x in emitted]
        made.append(Number(f"state {word}: share of time", share[:, s], limit=1.0))
        made.append(Number(f"state {word}: observations per visit", _visit(h3m.transmat[:, s, s], length)))
    made += [
        Number(f"from {one} to {other}", h3m.transmat[:, s, t], limit=1.0)
        for (one, s), (other, t) in itertools.permutations(zip(called, states, strict=True), 2)
    ]
    return made + _predictability(h3m)


def _predictability(h3m: H3M) -> list[Number]:
    """Return how uncertain the next state is, and how much the present one says about it, in the long run."""
    steady = long_run_occupancies(h3m.parameters)
    rate = -(steady[:, :, None] * xlogy(h3m.transmat, h3m.transmat)).sum(axis=(1, 2))
    entropy = -xlogy(steady, steady).sum(axis=1)
    return [Number("entropy of the next state", rate), Number("information in the present state", entropy - rate)]


def _visit(stay: FloatArray, length: int) -> FloatArray:
    """Return how long a visit lasts on average in a sequence of a given length: 1 + a + … + a^(T-1)."""
    return np.asarray(sum(stay**t for t in range(length)))


def description_table(centers: H3M, length: int) -> Table:
    """Return what every centre does: steady state, dwell times, entropies, mutual information."""
    rows = []
    for k, hmm in enumerate(centers):
        found, visits = describe_hmm(hmm, length), _visit(np.diagonal(hmm.transmat), length)
        rows.append([
            str(k + 1), _listed(found.steady_state), _listed(found.time_share), _listed(visits, 1),
            number(found.entropy_rate, 2), number(found.state_information, 2), number(found.entropy, 2),
            number(found.information, 2),
        ])  # fmt: skip
    columns = [
        "cluster",
        "steady state",
        "share of time",
        "observations per visit",
        "entropy of the next state",
        "information in the present state",
        "entropy of an observation",
        "information in an observation",
    ]
    note = (
        "One entry per state where there are several. Shares of time and observations per visit are those in sequences "
        f"of {length} observations, the steady state is that in the long run; entropies and mutual information in nats."
    )
    return Table("centres", "What the centres do", columns, rows, note)


def path_table(centers: H3M, length: int) -> Table:
    """Return the most probable sequences of states of every centre."""
    steps = min(length, _STEPS)
    while int(centers.n_states.max()) ** steps > _MANY_PATHS:
        steps -= 1
    rows = [
        [str(k + 1), " → ".join(str(s + 1) for s in path), number(p)]
        for k, hmm in enumerate(centers)
        for path, p in likeliest_paths(hmm, steps, _PATHS)
    ]
    note = f"The {_PATHS} most probable of all sequences of {steps} states, from the first observation."
    return Table("paths", "Likeliest paths through the states", ["cluster", "states", "probability"], rows, note)


def _listed(values: FloatArray, digits: int = 2) -> str:
    return ", ".join(number(float(x), digits) for x in values)
