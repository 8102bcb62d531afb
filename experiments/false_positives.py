"""How often the tests of vhem.inference reject: in studies without clusters or differences, and with known ones.

Every study is small, so that hundreds of them can be clustered again and again. A Monte-Carlo test with 19 draws
rejects at exactly 5 %, as one with 999 does; it only misses some effects more often. Results are kept in a folder, one
line per study, and an interrupted run resumes where it stopped:

    python experiments/false_positives.py --part bootstrap --first 500 --studies 500 -o results/false_positives
    python experiments/false_positives.py --table -o results/false_positives
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from vhem import H3M, HMM, SequenceClustering, Sequences, fit_hmms
from vhem.emissions import Categorical
from vhem.inference import (
    associate,
    bootstrap_test,
    cluster_differences,
    compare_groups,
    cross_fitted_test,
    gap_statistic,
    group_gain_test,
    paired_t_test,
    subject_scores,
    symmetric_kl_test,
)

TRIALS, LENGTH = 4, 6
MEANS, STAY = np.array([0.0, 3.0]), 0.7
CATEGORIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
LEVEL = 0.05
Found = dict[str, float]


class Kind(NamedTuple):
    """How the people of a simulated study differ."""

    vary: float  #: standard deviation of people's means, in standard deviations of an observation
    apart: float = 0.0  #: how far the means of every other person are shifted
    people: int = 16
    frames: float = 0.0  #: of categories, that people's probabilities vary as much as estimates from so many frames

    @property
    def words(self) -> str:
        """What the table calls it."""
        if self.frames:
            return f"{self.people} people, categories, who vary as {self.frames:g} frames" + ", two kinds" * bool(
                self.apart
            )
        differ = f"who vary by {self.vary:g} SD" if self.vary else "who follow one HMM"
        return f"{self.people} people {differ}" + (f", two kinds {self.apart:g} SD apart" if self.apart else "")


class Study(NamedTuple):
    """A simulated study."""

    sequences: Sequences
    owner: list[int]  #: of each sequence
    kinds: np.ndarray  #: of each person

    @property
    def kind_of_each(self) -> list[int]:
        """The kind of the owner of each sequence."""
        return [int(self.kinds[person]) for person in self.owner]


def study(kind: Kind, seed: int) -> Study:
    """Draw a study."""
    rng, kinds = np.random.default_rng([seed, 1]), np.arange(kind.people) % 2
    arrays, owner = list[np.ndarray](), list[int]()
    for person, second in enumerate(kinds):
        loyal = 20.0 if kind.vary or kind.frames else 1e6
        rows = np.stack([rng.dirichlet(loyal * np.array(row)) for row in ([STAY, 1 - STAY], [1 - STAY, STAY])])
        hmm = HMM([0.5, 0.5], rows, **emissions(kind, second, rng))
        arrays += list(hmm.sample(TRIALS, LENGTH, rng))
        owner += [person] * TRIALS
    return Study(Sequences(arrays), owner, kinds)


def emissions(kind: Kind, second: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return what the states of one person emit."""
    if kind.frames:
        shares = np.roll(CATEGORIES, 1, axis=1) if second and kind.apart else CATEGORIES
        return {"emissions": Categorical(np.stack([rng.dirichlet(kind.frames * row) for row in shares]))}
    means = MEANS + kind.vary * rng.standard_normal(2) + kind.apart * second
    return {"means": means[:, None], "covars": np.ones((2, 1))}


def clustering(n_clusters: int = 2, kind: Kind | None = None) -> SequenceClustering:
    """Return the clustering that is tested."""
    emitted = {"emissions": "categorical:3"} if kind is not None and kind.frames else {}
    return SequenceClustering(n_clusters, 2, random_state=0, n_jobs=1, **emitted)


def cross_fitted(kind: Kind, seed: int) -> Found:
    """Return the p-value of the cross-fitted test."""
    made = study(kind, seed)
    return {"cross-fitted": cross_fitted_test(clustering(), made.sequences, made.owner, random_state=seed).p}


def bootstrap(kind: Kind, seed: int) -> Found:
    """Return whether the parametric bootstrap rejects one cluster; the first draw that gains as much decides."""
    made = study(kind, seed)
    found = bootstrap_test(
        clustering(kind=kind), made.sequences, made.owner, n_bootstrap=19, stop_after=1, random_state=seed
    )  # fmt: skip
    return {"bootstrap, 2 against 1": found.p}


def default_bootstrap(kind: Kind, seed: int) -> Found:
    """Return the p-value of the parametric bootstrap with the defaults of `vhem compare`, early looks included."""
    made = study(kind, seed)
    return {"bootstrap, as by default": bootstrap_test(
        clustering(kind=kind), made.sequences, made.owner, n_bootstrap=69, random_state=seed
    ).p}  # fmt: skip


def one_too_many(kind: Kind, seed: int) -> Found:
    """Return whether the bootstrap likelihood-ratio test rejects two clusters, of people of two kinds."""
    made = study(kind, seed)
    found = bootstrap_test(
        clustering(3), made.sequences, made.owner, 2, n_bootstrap=19, stop_after=1, random_state=seed
    )  # fmt: skip
    return {"bootstrap, 3 against 2": found.p}


def groups(kind: Kind, seed: int) -> Found:
    """Return the p-values of tests of known groups: every other person is in the second."""
    made = study(kind, seed)
    hmms = fit_hmms(made.sequences, n_states=2, groups=made.owner, random_state=0, n_jobs=1)
    whole = compare_groups(hmms, made.kinds, tau=LENGTH, n_permutations=199, random_state=seed, n_jobs=1)
    gain = group_gain_test(
        made.sequences, made.owner, made.kind_of_each, n_states=2, n_permutations=19, random_state=seed, n_jobs=1
    )  # fmt: skip
    return {"groups: PERMANOVA": whole.p, "groups: equal spread": whole.p_dispersion, "groups: gain": gain.p}


def clusters(kind: Kind, seed: int) -> Found:
    """Cluster once, and return the p-values of the naive tests, of covariates without any effect, and the gap."""
    made, rng = study(kind, seed), np.random.default_rng([seed, 2])
    fit = clustering().fit(made.sequences, groups=made.owner)
    n = kind.people
    table = {
        "person": fit.ids_, "two categories": rng.choice(["a", "b"], n), "three categories": rng.choice(list("abc"), n),
        "normal": rng.normal(size=n), "skewed": rng.exponential(size=n),
    }  # fmt: skip
    found = {} if kind.people < 40 else _associated(fit, table)
    gap = gap_statistic(fit.hmms_, range(1, 4), LENGTH, n_reference=20, random_state=seed, n_jobs=1)
    return found | _naive(fit, made) | {"gap prefers several": 0.0 if gap.best > 1 else 1.0}


def _associated(fit: SequenceClustering, table: dict[str, Any]) -> Found:
    if np.bincount(fit.labels_, minlength=2).min() < 3:
        return {}
    ranks = associate(fit, table, n_bootstrap=0).rows
    found = {f"covariate: {row.name} ({_family(row.found.test)})": row.found.p for row in ranks}
    for numeric in ("anova", "logistic"):
        row = associate(fit, table, columns=["normal"], numeric=numeric, n_bootstrap=0).rows[0]
        found[f"covariate: normal ({numeric})"] = row.found.p
    return found


def _family(test: str) -> str:
    return "χ² or exact" if "χ²" in test or "exact" in test else test


def _naive(fit: SequenceClustering, made: Study) -> Found:
    scores, everybody = subject_scores(fit.centers_, made.sequences, made.owner).per_frame, np.arange(len(made.kinds))
    own, other = scores[everybody, fit.labels_], scores[everybody, 1 - fit.labels_]
    biggest = fit.labels_ == np.bincount(fit.labels_, minlength=2).argmax()
    found = {"paired t-test (naive)": paired_t_test(own[biggest], other[biggest]).p}
    if len(set(fit.labels_)) == 2:
        found["symmetric KL test (naive)"] = symmetric_kl_test(own, other, fit.labels_).test.p
    return found


def differences(kind: Kind, seed: int) -> Found:
    """Return, as 0 or 1, whether zero is outside the intervals of some numbers that two known groups differ in."""
    made = study(kind, seed)
    centers = [_center(made, group) for group in (0, 1)]
    found = cluster_differences(
        H3M(centers), made.kinds, made.sequences, made.owner, n_bootstrap=199, random_state=seed, n_jobs=1
    )[0]  # fmt: skip
    named: Found = {}
    for row in found.estimates:  # of several states, the first
        named.setdefault(f"interval: {_measure(row.what)}", 0.0 if row.clear else 1.0)
    return named


def _center(made: Study, group: int) -> HMM:
    """Return the centre of a known group, as the clustering learns centres."""
    own = [i for i, kind in enumerate(made.kind_of_each) if kind == group]
    fit = clustering(1).fit(made.sequences[own], groups=[made.owner[i] for i in own])
    center: HMM = fit.centers_[0]
    return center


def _measure(what: str) -> str:
    if what.startswith("from"):
        return "transition"
    return what.rpartition(": ")[2].replace("x1", "mean of a state")


SAME, VARY, MANY = Kind(0.0), Kind(0.5), Kind(0.5, people=40)
CODES = [Kind(0.0, frames=20.0), Kind(0.0, 1.0, frames=20.0)]
APART = [Kind(0.5, gap) for gap in (0.5, 1.0, 1.5, 2.0, 3.0)]
PARTS: dict[str, tuple[Callable[[Kind, int], Found], list[Kind]]] = {
    "cross-fitted": (cross_fitted, [SAME, *APART[1:4]]),
    "bootstrap": (bootstrap, [VARY, *APART[2:]]),
    "bootstrap-default": (default_bootstrap, [VARY, *APART[2:]]),
    "bootstrap-categories": (bootstrap, CODES),
    "one-too-many": (one_too_many, [Kind(0.5, 4.0)]),
    "groups": (groups, [VARY, *APART[:3]]),
    "clusters": (clusters, [SAME, MANY]),
    "differences": (differences, [MANY, Kind(0.5, 0.5, 40), Kind(0.5, 1.0, 40)]),
}


def run(part: str, places: list[int], seeds: range, out: Path) -> None:
    """Run what is missing of a part, for all kinds of studies or for those at the places given."""
    test, kinds = PARTS[part]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{part}.jsonl"
    done = {(row["kind"], row["seed"]) for row in _rows(path)}
    for kind, seed in ((kinds[k], seed) for k in places or range(len(kinds)) for seed in seeds):
        if (kind.words, seed) not in done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = test(kind, seed)
            with path.open("a") as file:
                file.write(json.dumps({"kind": kind.words, "seed": seed, "p": found}) + "\n")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


def table(out: Path) -> str:
    """Return how often each test rejected at 5 %, with 95 % intervals of that share."""
    lines = [f"{'people':52} {'test':42} {'studies':>7} {'rejected':>9}  95 % interval"]
    for part, (_, kinds) in PARTS.items():
        rows = list(_rows(out / f"{part}.jsonl"))
        for words in dict.fromkeys(kind.words for kind in kinds):
            mine = [row["p"] for row in rows if row["kind"] == words]
            for test in dict.fromkeys(key for p in mine for key in p):
                p = np.array([found[test] for found in mine if test in found])
                hits = int((p <= LEVEL + 1e-12).sum())
                low, high = stats.binomtest(hits, len(p)).proportion_ci(method="wilson")
                lines.append(f"{words:52} {test:42} {len(p):7d} {hits / len(p):9.1%}  {low:.1%} to {high:.1%}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), default="cross-fitted")
    parser.add_argument("--kinds", nargs="*", type=int, default=[], help="places of kinds of studies; all by default")
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    parser.add_argument("-o", "--out", type=Path, default=Path("results/false_positives"))
    given = parser.parse_args()
    if not given.table:
        run(given.part, given.kinds, range(given.first, given.first + given.studies), given.out)
    print(table(given.out))
