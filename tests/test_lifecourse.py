"""The study of life courses: optimal matching, medoids, and a small run."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from vhem import Sequences
from vhem.datasets import LifeCourses
from vhem.studies import lifecourse
from vhem.studies.optimal_matching import optimal_matching, pam


def edit_distance(a, b):
    """Insertions and deletions cost 1, substitutions 2: the textbook's table."""
    table = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1)).astype(float)
    for i in range(len(a)):
        for j in range(len(b)):
            change = table[i, j] + 2 * (a[i] != b[j])
            table[i + 1, j + 1] = min(table[i, j + 1] + 1, table[i + 1, j] + 1, change)
    return table[-1, -1]


def test_optimal_matching_is_the_edit_distance():
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 3, rng.integers(1, 9)).astype(float) for _ in range(12)]
    far = optimal_matching(Sequences(rows))
    assert far.tolist() == [[edit_distance(a, b) for b in rows] for a in rows]


def test_medoids_are_the_best_of_all_on_small_problems():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (6, 2)), rng.normal(6, 1, (5, 2)), rng.normal((0, 9), 1, (4, 2))])
    far = np.linalg.norm(points[:, None] - points, axis=2)
    weights = rng.uniform(0.5, 2, len(points))
    labels = pam(far, 3, weights)
    best = min(combinations(range(len(points)), 3), key=lambda m: weights @ far[:, m].min(axis=1))
    assert labels.tolist() == far[:, best].argmin(axis=1).tolist()


@pytest.mark.slow
def test_the_study_runs_on_small_data(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    kinds = [np.repeat([0, 1, 2], 5), np.repeat([2, 0, 1], 5), np.repeat([1, 2, 0], 5), np.tile([0, 2], 8)[:15]]
    rows = [np.where(rng.random(15) < 0.1, rng.integers(0, 3, 15), kinds[i % 4]).astype(float) for i in range(40)]
    data = Sequences(rows, channels=["state"], categories={"state": ["a", "b", "c"]}, weights=rng.uniform(0.5, 2, 40))
    people = LifeCourses(data, {"sex": np.array(["f", "m"] * 20)})
    monkeypatch.setattr(lifecourse, "LOADERS", {"mvad": lambda: people})
    monkeypatch.setattr(lifecourse, "COVARIATES", {"mvad": ("sex",)})
    paths = lifecourse.run(tmp_path, samples=2)
    text = paths[0].read_text()
    assert all(system in text for system in lifecourse.SYSTEMS)
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n## {lifecourse.TITLES['mvad']}\n\nText.\n\n| old |\n| --- |\n\nAfter.\n")
    assert text == lifecourse.run(tmp_path, samples=2, pages=(page,))[0].read_text()  # from the parts that were kept
    table = text.split("\n\n", 1)[1].rstrip()
    assert page.read_text() == f"Before.\n\n## {lifecourse.TITLES['mvad']}\n\nText.\n\n{table}\n\nAfter.\n"
