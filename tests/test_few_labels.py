"""The study of few labels, small."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from vhem.studies import few_labels
from vhem.studies.clustering_data import Items

ROOT = Path(__file__).parents[1]


def two_kinds(seed):
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(rng.integers(15, 25), 2)) + 3 * (i % 2) for i in range(30)]
    return Items(made, np.arange(30), np.arange(30) % 2)


def test_a_small_study(tmp_path, monkeypatch):
    monkeypatch.setattr(few_labels, "SETS", {"two kinds": two_kinds})
    monkeypatch.setattr(few_labels, "DATA", ("two kinds",))
    monkeypatch.setattr(few_labels, "AMOUNTS", (2, 16))
    ours = {name: few_labels.CLASSIFIERS[name] for name in ("H3MClassifier", "one HMM per class (hmmlearn)")}
    monkeypatch.setattr(few_labels, "CLASSIFIERS", ours)
    paths = few_labels.run(tmp_path, seeds=2)
    text = paths[0].read_text(encoding="utf-8")
    assert "1.00 ± .00" in text  # far apart
    assert "| 16 |" not in text  # of fifteen
    assert paths[2].stat().st_size > 5000
    shutil.rmtree(tmp_path / "parts")
    again = few_labels.run(tmp_path, seeds=2)  # from few_labels.json alone
    assert text == again[0].read_text(encoding="utf-8")
    assert not (tmp_path / "parts").exists()


def test_examples_and_the_rest_are_apart():
    items = two_kinds(0)
    s = few_labels.split(items, 3, 0)
    assert np.bincount(s.y).tolist() == [3, 3]
    assert len(s.test) == 24
    seen = {x.tobytes() for x in s.train}
    assert not any(x.tobytes() in seen for x in s.test)
    np.testing.assert_allclose(np.concatenate(s.train).std(axis=0), 1.0)


def test_the_page_shows_what_the_json_says():
    kept = json.loads((ROOT / "docs/studies/few_labels.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    for title, table in few_labels.all_tables(kept["results"]).items():
        assert table in text, f"{title}: run vhem experiment labels -o docs/studies --page docs/benchmarks.md"
