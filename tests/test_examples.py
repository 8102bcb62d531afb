"""The examples run as they stand, draw pictures and write their reports."""

import runpy
from pathlib import Path

import pytest
from helpers import data_folder, loaded

pyplot = pytest.importorskip("matplotlib.pyplot", reason="the examples draw with matplotlib")
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
QUICK = {"simulated"}  # run every time; the others with the slow tests
MARKED = [pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow) for path in EXAMPLES]


@pytest.mark.parametrize("example", MARKED, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path, monkeypatch):
    pyplot.switch_backend("Agg")
    monkeypatch.setenv("VHEM_DATA", str(data_folder()))
    monkeypatch.chdir(tmp_path)
    loaded(runpy.run_path, str(example))
    assert len(pyplot.get_fignums()) >= 3, "pictures were drawn"
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    assert (tmp_path / "results" / f"{example.stem}.html").stat().st_size > 50_000


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_pages_of_a_gallery(example):
    """A title in the docstring, and cells with a text of their own: what sphinx-gallery makes pages of."""
    lines = example.read_text(encoding="utf-8").splitlines()
    assert lines[0] == '"""'
    assert set(lines[2]) == {"="}
    assert len(lines[1]) == len(lines[2])
    cells = [k for k, line in enumerate(lines) if line == "# %%"]
    assert len(cells) >= 3
    assert all(lines[k + 1].startswith("# ") for k in cells)
