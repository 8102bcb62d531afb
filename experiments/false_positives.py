"""How often the tests of vhem.inference reject: in studies without clusters or differences, and with known ones.

Every study is small, so that hundreds of them can be clustered again and again. Results are kept in a folder, one line
per study, and an interrupted run goes on where it stopped:

    python experiments/false_positives.py --part bootstrap --studies 500 -o results/false_positives
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

from vhem import HMM, SequenceClustering, Sequences
from vhem.inference.bootstrap import bootstrap_test
from vhem.inference.cross_fit import cross_fitted_test
from vhem.inference.scores import subject_scores
from vhem.inference.t_tests import paired_t_test, symmetric_kl_test

SUBJECTS, TRIALS, LENGTH = 16, 4, 6
MEANS, STAY = np.array([0.0, 3.0]), 0.7
LEVEL = 0.05


class Kind(NamedTuple):
    """How the people of a simulated study differ."""

    vary: float  #: standard deviation of people's means, in standard deviations of an observation
    apart: float = 0.0  #: how far the means of the second half of the people are shifted

    @property
    def words(self) -> str:
        """What the table calls it."""
        return f"people vary by {self.vary:g} SD" + (f", two kinds {self.apart:g} SD apart" if self.apart else "")


NULLS = {"same": Kind(0.0), "vary": Kind(0.5)}
EFFECTS = {f"apart{gap:g}": Kind(0.5, gap) for gap in (1.0, 2.0, 3.0)}


def study(kind: Kind, rng: np.random.Generator) -> tuple[Sequences, list[int], np.ndarray]:
    """Return sequences, whose they are, and the kind of each person."""
    kinds = np.arange(SUBJECTS) % 2
    arrays, owner = [], []
    for person, second in enumerate(kinds):
        means = MEANS + kind.vary * rng.standard_normal(2) + kind.apart * second
        loyal = 20.0 if kind.vary else 1e6
        rows = np.stack([rng.dirichlet(loyal * np.array(row)) for row in ([STAY, 1 - STAY], [1 - STAY, STAY])])
        hmm = HMM([0.5, 0.5], rows, means[:, None], np.ones((2, 1)))
        arrays += list(hmm.sample(TRIALS, LENGTH, rng))
        owner += [person] * TRIALS
    return Sequences(arrays), owner, kinds


def made(kind: Kind, seed: int) -> tuple[SequenceClustering, Sequences, list[int]]:
    """Return the clustering into two, and a study."""
    sequences, owner, _ = study(kind, np.random.default_rng([seed, 1]))
    return SequenceClustering(2, 2, random_state=0, n_jobs=1), sequences, owner


def naive(kind: Kind, seed: int) -> dict[str, float]:
    """Return the p-values of tests that take the centres as given."""
    model, sequences, owner = made(kind, seed)
    return _naive(model.fit(sequences, groups=owner), sequences, owner)


def cross_fitted(kind: Kind, seed: int) -> dict[str, float]:
    """Return the p-value of the cross-fitted test."""
    return {"cross-fitted": cross_fitted_test(*made(kind, seed), random_state=seed).p}


def bootstrap(kind: Kind, seed: int) -> dict[str, float]:
    """Return whether the parametric bootstrap rejects.

    With 19 draws, a test at 5 % rejects if none of them gains as much as the data; the first that does decides.
    """
    return {"bootstrap": bootstrap_test(*made(kind, seed), n_bootstrap=19, stop_after=1, random_state=seed).p}


def _naive(fit: Any, sequences: Sequences, owner: list[int]) -> dict[str, float]:
    scores = subject_scores(fit.centers_, sequences, owner).per_frame
    own, other = scores[np.arange(SUBJECTS), fit.labels_], scores[np.arange(SUBJECTS), 1 - fit.labels_]
    biggest = fit.labels_ == np.bincount(fit.labels_, minlength=2).argmax()
    found = {"paired t-test (naive)": paired_t_test(own[biggest], other[biggest]).p}
    if len(set(fit.labels_)) == 2:
        found["symmetric KL test (naive)"] = symmetric_kl_test(own, other, fit.labels_).test.p
    return found


PARTS: dict[str, tuple[Callable[[Kind, int], dict[str, float]], dict[str, Kind]]] = {
    "naive": (naive, NULLS),
    "cross-fitted": (cross_fitted, NULLS | EFFECTS),
    "bootstrap": (bootstrap, NULLS | EFFECTS),
}


def run(part: str, given: list[str], seeds: range, out: Path) -> None:
    """Run what is missing of a part, for all kinds of studies or for those given."""
    test, kinds = PARTS[part]
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{part}.jsonl"
    done = {(row["kind"], row["seed"]) for row in _rows(path)}
    for name, seed in ((name, seed) for name in given or kinds for seed in seeds):
        if (name, seed) not in done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = test(kinds[name], seed)
            with path.open("a") as file:
                file.write(json.dumps({"kind": name, "seed": seed, "p": found}) + "\n")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


def table(out: Path) -> str:
    """Return how often each test rejected at 5 %, with 95 % intervals of that share."""
    lines = [f"{'part':10} {'people':34} {'test':34} {'studies':>7} {'rejected':>9}  95 % interval"]
    for part, (_, kinds) in PARTS.items():
        rows = list(_rows(out / f"{part}.jsonl"))
        for name, kind in kinds.items():
            mine = [row["p"] for row in rows if row["kind"] == name]
            for test in dict.fromkeys(key for p in mine for key in p):
                p = np.array([found[test] for found in mine if test in found])
                hits = int((p <= LEVEL + 1e-12).sum())
                low, high = stats.binomtest(hits, len(p)).proportion_ci(method="wilson")
                share = f"{hits / len(p):9.1%}  {low:.1%} to {high:.1%}"
                lines.append(f"{part:10} {kind.words:34} {test:34} {len(p):7d} {share}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), default="naive")
    parser.add_argument("--kind", nargs="*", default=[], help="kinds of studies; all if not given")
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with, so that several can run at a time")
    parser.add_argument("--table", action="store_true", help="print the table of what is there")
    parser.add_argument("-o", "--out", type=Path, default=Path("results/false_positives"))
    given = parser.parse_args()
    if not given.table:
        run(given.part, given.kind, range(given.first, given.studies), given.out)
    print(table(given.out))
