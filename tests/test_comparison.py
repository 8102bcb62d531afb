"""The experiments run, on small versions of themselves."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "experiments" / "compare_systems.py"


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("compare_systems", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_systems"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured by Linux's counters")
@pytest.mark.parametrize(
    "system", ["VHEM", "SC-PPK", "EM-H3M", "EM-DTM, twice the states", "HEM-GMM (no time, full covariances)"]
)
def test_systems_find_the_strategies(experiment, system, monkeypatch):
    monkeypatch.setattr(experiment, "REPEATS", 1)
    found = experiment.measure(system, "faces")
    assert found["ari"] > 0.3
    assert found["clustered"] > 0


def test_the_page_is_what_the_script_writes(experiment):
    page = (PATH.parents[1] / "docs" / "comparison.md").read_text(encoding="utf-8")
    for data in experiment.PROBLEMS:
        assert experiment.table(data) in page, "run experiments/compare_systems.py --write"
    closing = experiment.PAGE.rsplit("}", 1)[1]
    assert page.endswith(closing)
