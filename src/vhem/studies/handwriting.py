"""The handwriting study: 20 letters, a mixture of HMMs for each, by VHEM and by EM in limited time.

What the paper says: HMMs of 2 states with one Gaussian each, 2 components per letter, half of the letters for training,
τ = 5, 10, 15, EM-H3M with up to three times VHEM's time. What it does not say, and we decided:

- The zeros at both ends of every sequence, three frames in ten: both cut off (`trimmed`) and left in (`padded`).
- Covariances: both diagonal and full, floored at a thousandth of the data's variance.
- Halves are drawn at random, ten times. Six restarts of every HMM, of VHEM and of EM. VHEM's time is the whole of
  `fit`, the HMMs of single letters included; EM's limit is three times the letters' average of it. Both run on one
  thread, and all times are CPU seconds, which other work on the machine does not affect.

The tuned classifiers have left-right HMMs with full covariances on every second frame. Numbers of states and components
are chosen, for each half separately, by two-fold cross-validation on the training half. One has the three channels of
the data, the other the pen's place too, which is the running sum of its velocities.

What was decided after seeing test accuracies: six restarts, on halves 0 to 2; for the tuned classifiers channels, frame
step, τ, prior of variances and the sizes to choose from, on halves 0 and 1. So the tables also have the mean over the
halves that no decision has seen.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedKFold, cross_val_score

from vhem import H3MClassifier
from vhem._support.arrays import FloatArray, IntArray
from vhem.datasets.handwriting import load_character_trajectories
from vhem.em.loop import time_measured_by
from vhem.sequences import Sequences
from vhem.studies.results import Meter, markdown_table, mean_and_spread, provenance, remembered, write

_CHANNELS = ("velocities", "velocities and place")
_PLACE = 10.0  # about the spread of positions in units of that of velocities
_SEEN = {"trimmed": 3, "padded": 3, "tuned": 2}  # the first halves, on which settings were decided
PAPER = {5: (0.569, 0.349), 10: (0.570, 0.389), 15: (0.573, 0.343)}  # τ: accuracy of VHEM-H3M, of EM-H3M


class HandwritingSettings(NamedTuple):
    """The choices of the study."""

    taus: tuple[int, ...] = (5, 10, 15)
    covariance_types: tuple[str, ...] = ("diag", "full")
    reg_covar: float = 1e-3
    n_init: int = 6
    em_time: float = 3.0  #: EM's time in units of VHEM's
    letters: int | None = None  #: only the first few, for a quick look
    tuned_step: int = 2
    tuned_tau: int = 40
    tuned_sizes: tuple[tuple[int, int], ...] = ((14, 2), (18, 2))  #: states and components to choose from
    tuned_sizes_with_place: tuple[tuple[int, int], ...] = ((8, 2), (10, 2), (14, 2))
    tuned_covars_prior: float = 0.01
    tuned_folds: int = 2
    tuned_halves: int = 10  #: at most, for a quicker study

    def bearing_on(self, kind: str) -> dict[str, Any]:
        """Return the choices that a part of the study depends on."""
        tuned = {name for name in self._fields if name.startswith("tuned")}
        used = ({"letters"} | tuned if kind == "tuned" else set(self._fields) - tuned) - {"tuned_halves"}
        return {name: value for name, value in self._asdict().items() if name in used}


class Half(NamedTuple):
    """A division of the letters in two."""

    train: Sequences
    train_labels: npt.NDArray[np.str_]
    test: Sequences
    test_labels: npt.NDArray[np.str_]

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> Half:
        """Return the same with every sequence changed."""
        train, test = (Sequences([change(x) for x in part]) for part in (self.train, self.test))
        return self._replace(train=train, test=test)


def divided(trim: bool, seed: int, n_letters: int | None) -> Half:
    """Return a random half of the letters for training and the other for testing."""
    data = load_character_trajectories(trim)
    classes = np.unique(data.labels)[:n_letters]
    chosen = np.flatnonzero(np.isin(data.labels, classes))
    order: IntArray = np.random.default_rng(seed).permutation(chosen)
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    return Half(data.sequences[train], data.labels[train], data.sequences[test], data.labels[test])


def measured(classifier: H3MClassifier, half: Half) -> dict[str, float]:
    """Return accuracy and learning time."""
    meter = Meter()
    with time_measured_by(time.process_time):
        classifier.fit(half.train, half.train_labels)
    seconds = meter.seconds
    return {"accuracy": float(classifier.score(half.test, half.test_labels)), "cpu": seconds}


def in_the_papers_setting(half: Half, settings: HandwritingSettings, seed: int) -> dict[str, dict[str, float]]:
    """Return results of VHEM and of EM in limited time, for every τ and kind of covariance."""
    out = {}
    for covariance_type, tau in product(settings.covariance_types, settings.taus):
        shared: dict[str, Any] = {
            "covariance_type": covariance_type, "n_init": settings.n_init, "reg_covar": settings.reg_covar,
            "random_state": seed, "n_jobs": 1,
        }  # fmt: skip
        vhem = measured(H3MClassifier(tau=tau, polish=0, **shared), half)
        limit = settings.em_time * vhem["cpu"] / len(np.unique(half.train_labels))
        em = measured(H3MClassifier("em", time_limit=limit, **shared), half)
        out[f"VHEM {covariance_type} {tau}"], out[f"EM {covariance_type} {tau}"] = vhem, em
    return out


def tuned(half: Half, settings: HandwritingSettings, seed: int) -> dict[str, Any]:
    """Return results of tuned classifiers, without and with the pen's position."""
    thin = half.changed(lambda x: x[:: settings.tuned_step])
    out = {}
    for name, data, sizes in (
        ("velocities", thin, settings.tuned_sizes),
        ("velocities and place", thin.changed(with_place), settings.tuned_sizes_with_place),
    ):
        found = _tuned(data, sizes, settings, seed)
        out.update({f"{key}, {name}": value for key, value in found.items()})
    return out


def with_place(x: FloatArray) -> FloatArray:
    """Append the pen's position, the running sum of its velocities, in similar units."""
    return np.column_stack([x, np.cumsum(x[:, :2], axis=0) / _PLACE])


def _tuned(half: Half, sizes: tuple[tuple[int, int], ...], settings: HandwritingSettings, seed: int) -> dict[str, Any]:
    """Choose a size by cross-validation on the training half, learn from all of it, and test on the other half."""
    folds = StratifiedKFold(settings.tuned_folds, shuffle=True, random_state=seed)

    def classifier(n_states: int, n_components: int, method: str = "vhem") -> H3MClassifier:
        return H3MClassifier(
            method, n_components, n_states, covariance_type="full", topology="left-right", tau=settings.tuned_tau,
            covars_prior=settings.tuned_covars_prior, max_iter=20, tol=1e-3, n_init=1, random_state=seed, n_jobs=1,
        )  # fmt: skip

    found = [float(cross_val_score(classifier(*c), half.train, half.train_labels, cv=folds).mean()) for c in sizes]
    best = sizes[int(np.argmax(found))]
    return {
        "VHEM": measured(classifier(*best), half),
        "EM": measured(classifier(*best, method="em"), half),
        "chosen": best,
        "cross-validation": found,
    }


def _row(name: str, parts: list[dict[str, float]], seen: int) -> list[str]:
    accuracy, cpu = ([part[key] for part in parts] for key in ("accuracy", "cpu"))
    unseen = mean_and_spread(accuracy[seen:]) if len(accuracy) > seen else "–"
    return [name, mean_and_spread(accuracy), unseen, mean_and_spread(cpu, 2)]


def report(results: dict[str, list[dict[str, Any]]], settings: HandwritingSettings, halves: int) -> str:
    """Return the tables of the study as Markdown."""
    parts = [f"# Handwriting study: accuracy of classification, {halves} random halves\n"]
    for kind, words in (("trimmed", "Padding cut off"), ("padded", "Padding kept")):
        rows = []
        for covariance_type, tau in product(settings.covariance_types, settings.taus):
            for method, place in (("VHEM", 0), ("EM", 1)):
                values = [half[f"{method} {covariance_type} {tau}"] for half in results[kind]]
                paper = f"{PAPER[tau][place]:.3f}" if tau in PAPER else "–"
                name = "VHEM-H3M" if method == "VHEM" else "EM-H3M, limited"
                rows.append([covariance_type, str(tau), *_row(name, values, _SEEN[kind]), paper])
        header = ["covariances", "τ", "system", "accuracy", "on unseen halves", "CPU s, all letters", "paper"]
        parts.append(f"## {words}, 2 states, 2 components\n\n{markdown_table(header, rows)}\n")
    rows = []
    for channels, key in product(_CHANNELS, ("VHEM", "EM")):
        name = "VHEM-H3M" if key == "VHEM" else "EM-H3M of the same size, no limit"
        row = _row(name, [half[f"{key}, {channels}"] for half in results["tuned"]], _SEEN["tuned"])
        chosen = Counter(tuple(half[f"chosen, {channels}"]) for half in results["tuned"])
        picks = ", ".join(f"{S} × {K} ({n} times)" for (S, K), n in chosen.most_common())
        rows.append([channels, *row, picks if key == "VHEM" else "the same"])
    header = ["channels", "system", "accuracy", "on unseen halves", "CPU s, all letters", "states × components"]
    parts.append(
        f"## Tuned: left-right HMMs, full covariances, padding cut off, {len(results['tuned'])} halves\n\n"
        f"{markdown_table(header, rows)}\n\n"
        "Mean and standard deviation over halves; unseen are those on which nothing was decided, all but the first "
        f"{_SEEN['trimmed']}, for the tuned systems all but the first {_SEEN['tuned']}. CPU seconds are those of "
        "learning, on one thread: for VHEM the HMMs of single letters included, for the tuned systems without the "
        f"search by cross-validation on the training half. Settings: {settings._asdict()}. "
        "The paper's figures are of the same data; its treatment of padding and its covariances are not known.\n"
    )
    return "\n".join(parts)


def run(
    out: Path, halves: int = 10, progress: Callable[[str], Any] = print,
    settings: HandwritingSettings = HandwritingSettings(),  # noqa: B008  (immutable)
) -> list[Path]:  # fmt: skip
    """Run the study, write its tables into `out`, and return their paths."""
    load_character_trajectories()  # an error about missing data comes before any work
    results: dict[str, list[dict[str, Any]]] = {"trimmed": [], "padded": [], "tuned": []}
    studies: dict[str, Callable[..., dict[str, Any]]] = {
        "trimmed": in_the_papers_setting, "padded": in_the_papers_setting, "tuned": tuned,
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        for seed, (kind, study) in product(range(halves), studies.items()):
            if kind == "tuned" and seed >= settings.tuned_halves:
                continue
            half = divided(kind != "padded", seed, settings.letters)

            def compute(study: Any = study, half: Half = half, seed: int = seed) -> Any:
                return study(half, settings, seed)

            results[kind].append(remembered(out, f"handwriting_{kind}_{seed}", settings.bearing_on(kind), compute))
            found = {name: r["accuracy"] for name, r in results[kind][-1].items() if isinstance(r, dict)}
            progress(f"half {seed}, {kind}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
    made_by = provenance({**settings._asdict(), "halves": halves})
    notes = Counter(str(warning.message) for warning in raised)
    text = report(results, settings, halves)
    return write(out, "handwriting", text, {**made_by, "warnings": notes, "results": results})
