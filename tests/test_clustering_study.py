"""The study against the field: its data, its methods that need no other package, ranks, and a small run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import friedmanchisquare
from sklearn.metrics import adjusted_rand_score

from vhem.datasets import load_labelled_series, simulated_sets
from vhem.datasets.labelled_series import LABELLED_SERIES, read_ts
from vhem.studies import clustering
from vhem.studies.clustering_data import SETS, TROUBLES, Items, simulated
from vhem.studies.clustering_methods import METHODS, Panel, stretched
from vhem.studies.clustering_tables import all_tables
from vhem.studies.ranks import average_ranks, cliques, draw_ranks

ROOT = Path(__file__).parents[1]
OURS = ("SequenceClustering", "VHEM on HMMs", "EM-H3M", "SC-PPK")
TRIVIAL = ("k-means, mean and sd", "k-means, resampled")


def two_kinds(n=16, lengths=(20, 30)):
    """Items that differ in level, and lengths that differ."""
    rng = np.random.default_rng(0)
    made = [rng.normal(size=(rng.integers(*lengths), 2)) + 4 * (i % 2) for i in range(n)]
    return Items(made, np.arange(n), np.arange(n) % 2)


@pytest.mark.parametrize("name", [*OURS, *TRIVIAL])
def test_methods_find_two_kinds_and_assign_new_ones(name):
    items = two_kinds()
    found = METHODS[name].fit(items, 2, 0)
    assert adjusted_rand_score(items.truth, found.labels) == 1.0
    assert adjusted_rand_score(items.truth, found.predict(items)) == 1.0


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_keeps_items_and_changes_frames(trouble):
    items = two_kinds()
    made = TROUBLES[trouble](items, np.random.default_rng(0))
    assert len(made.sequences) == len(items.sequences)
    assert any(
        a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(made.sequences, items.sequences, strict=True)
    )
    assert METHODS["SequenceClustering"].fit(made, 2, 0).labels.shape == (16,)


def test_items_with_several_sequences_and_categories_become_one_series():
    made = simulated(simulated_sets.clicks, 8, 0)
    series = made.as_series()
    assert len(series) == len(made.truth) == 120
    assert all(x.shape[1] == 8 and (x.sum(axis=1) == 1).all() for x in series)
    some = made.take(np.arange(120) < 5)
    assert len(some.truth) == 5
    assert some.owner.max() == 4
    assert sum(map(len, some.sequences)) == sum(map(len, series[:5]))


def test_stretching_keeps_straight_lines_straight():
    line = np.linspace(0, 1, 7)[:, None]
    np.testing.assert_allclose(stretched([line], 13)[0, :, 0], np.linspace(0, 1, 13))


@pytest.mark.parametrize("lengths", [(20, 30), (20, 21)])
def test_new_series_get_the_scale_and_the_length_of_those_that_were_clustered(lengths):
    items = two_kinds(lengths=lengths)
    panel = Panel.of(items)
    made = panel.made(items)
    assert made.shape == (16, 2, panel.length)
    np.testing.assert_allclose(np.concatenate(panel.scale.applied(items)).std(axis=0), 1)
    assert panel.note == ("" if lengths == (20, 21) else "stretched")
    alone = items.take(np.arange(16) == 3)
    np.testing.assert_array_equal(panel.made(alone), made[3:4])


def test_ranks_are_friedmans():
    rng = np.random.default_rng(1)
    scores = rng.random((12, 4)) + np.array([0.5, 0.2, 0.0, 0.0])
    found = average_ranks(scores)
    assert found.average.sum() == 10
    assert found.average.argmin() == 0
    assert found.p_value == pytest.approx(friedmanchisquare(*scores.T).pvalue)
    # Demšar (2006), table 5: q at 5 % is 2.569 for four methods
    assert found.critical == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 12)), abs=1e-3)


def test_failures_come_last(tmp_path):
    scores = np.array([[0.9, np.nan, 0.1], [0.8, 0.7, np.nan], [0.9, 0.2, 0.3]])
    assert average_ranks(scores).average.argmin() == 0
    assert cliques(np.array([1.0, 2.0, 3.0]), 0.5) == []
    draw_ranks(tmp_path / "ranks.png", ["a", "b", "c"], average_ranks(scores))
    assert (tmp_path / "ranks.png").stat().st_size > 5000


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "bad.ts"
    path.write_text("@data\n1,2:a\n1,x:b\n")
    with pytest.raises(ValueError, match=r"line 3 of .*bad\.ts"):
        read_ts(path)


@pytest.mark.parametrize("name", LABELLED_SERIES)
def test_archives_load(name):
    try:
        found = load_labelled_series(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    assert len(found.series) == len(found.labels) == len(found.is_training)
    assert all(np.isfinite(x).any() for x in found.series)


@pytest.mark.slow
def test_a_small_study(tmp_path, monkeypatch):
    """Real processes; `sensor` with two methods, once more from the parts that were kept."""
    assert "sensor" in SETS
    monkeypatch.setattr(clustering, "TROUBLES", {"rescaled": None})
    names = ("k-means, mean and sd", "k-means, resampled", "KASBA")
    told = []
    paths = clustering.run(tmp_path, 2, 20, ("sensor",), names, progress=told.append)
    text = paths[0].read_text(encoding="utf-8")
    assert all(name in text for name in names)
    assert "rescaled" in text
    kept = sorted((tmp_path / "parts").iterdir())
    times = [path.stat().st_mtime_ns for path in kept]
    paths[1].unlink()
    assert clustering.run(tmp_path, 2, 20, ("sensor",), names)[0].read_text(encoding="utf-8") == text
    assert [path.stat().st_mtime_ns for path in kept] == times
    shutil.rmtree(tmp_path / "parts")
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n### What each can do at all\n\nWords.\n\n| stale |\n| --- |\n\nAfter.\n")
    clustering.run(tmp_path, 2, 20, ("sensor",), names, pages=(page,))  # from clustering.json alone
    assert not (tmp_path / "parts").exists()
    renewed = page.read_text(encoding="utf-8")
    assert "stale" not in renewed
    assert "Words.\n\n| method | missing values |" in renewed
    assert renewed.endswith("|\n\nAfter.\n")


@pytest.mark.parametrize("page", ["docs/benchmarks.md", "README.md"])
def test_pages_show_what_the_json_says(page):
    kept = json.loads((ROOT / "docs/studies/clustering.json").read_text(encoding="utf-8"))
    tables = all_tables(kept["plain"], kept["troubled"], kept["apart"], list(METHODS))
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = {title: table for title, table in tables.items() if f"# {title}\n" in text}
    assert "Average ranks" in shown
    for title, table in shown.items():
        assert table in text, f"{title}: run vhem experiment clustering -o docs/studies --page {page}"


def test_a_method_that_takes_too_long_is_stopped():
    task = {"method": "SequenceClustering", "data": "clicks", "seeds": 1, "run_budget": -1}  # spent before it begins
    assert clustering.in_a_process(task) == [{"failed": "more than -1 s of CPU time"}]


@pytest.mark.parametrize("unknown", [{"only": ("sensr",)}, {"methods": ("kmeans",)}])
def test_unknown_sets_and_methods_are_refused_with_those_there_are(tmp_path, unknown):
    with pytest.raises(ValueError, match=r"must be one of .*'(sensor|KASBA)'"):
        clustering.run(tmp_path, **unknown)
    assert not list(tmp_path.iterdir())
