"""Messages of the library, in the words of the command."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from test_cli import run

import vhem
from vhem.cli.run_folder import RunFolder
from vhem.cli.wording import CLUSTERING, LEARNING, in_options

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("n_init must be an integer of at least 1, got 0.", "--starts must be an integer of at least 1, got 0."),
        ("covariance_type must be one of 'diag'", "--covariance must be one of 'diag'"),
        ("no sequence has the 4 frames that n_states=3 needs", "no sequence has the 4 frames that --states 3 needs"),
        ("Mend it, or leave such parts out by on_error='skip'.", "Mend it, or leave such parts out by --skip-broken."),
        ("stopped after max_iter=9 iterations before it had settled to tol=1e-05; raise max_iter or tol.",
         "stopped after 9 iterations before it had settled; raise --max-iter."),
        ("2 states had died; n_states may be too large (1 of 3 HMMs).",
         "2 states had died; --states may be too large (1 of 3 HMMs)."),
        ("has '1,5'; if that is a decimal comma, say decimal=','",
         "has '1,5'; if that is a decimal comma, give --decimal ,"),
        ("column 'n_init_time' is empty in row 3; fill it or drop the row.",
         "column 'n_init_time' is empty in row 3; fill it or drop the row."),
    ],
)  # fmt: skip
def test_parameters_become_options(said, shown):
    assert in_options(said, LEARNING) == shown


def test_what_is_done_decides_which_option_is_meant():
    said = "raise n_init; n_states may be too large"
    assert in_options(said, LEARNING) == "raise --starts; --states may be too large"
    assert in_options(said, CLUSTERING) == "raise --restarts; --center-states may be too large"


def test_every_message_that_names_a_parameter_is_translated():
    """Nothing that the command's algorithms say speaks of parameters that only Python has."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from list_messages import messages_of  # a script beside the documentation
    finally:
        sys.path.pop(0)
    python_only = set()
    for name in ("fit_hmms", "VHEM", "HierarchicalVHEM", "MixtureOfHMMs", "read_parts"):
        python_only |= {p for p in inspect.signature(getattr(vhem, name)).parameters if "_" in p}
    python_only -= {"sample_weight"}  # which the command never gives
    files = (
        "estimators/fit_hmms",
        "em/grouped",
        "em/many_hmms",
        "estimators/mixture",
        "em/loop",
        "estimators/hierarchy",
        "estimators/cluster_tree",
        "_support/phrases",
    )
    paths = [ROOT / f"src/vhem/{name}.py" for name in files]
    paths += [*(ROOT / "src/vhem/sequences").rglob("*.py"), ROOT / "src/vhem/scale/parts.py"]
    messages = [text.replace("…", "7") for path in paths for _, text in messages_of(path)]
    named = [text for text in messages if re.search(rf"\b({'|'.join(python_only)})\b", text)]
    assert len(named) >= 8, "the list of messages is empty, or names have changed"
    left = [t for t in named if re.search(rf"\b({'|'.join(python_only)})\b", in_options(t, LEARNING))]
    assert not left


@pytest.mark.filterwarnings("ignore")
def test_notes_and_errors_of_runs_speak_of_options(tmp_path):
    one_state_is_never_reached = vhem.HMM([1.0, 0.0], np.eye(2), [[0.0], [5.0]], [[1.0], [1.0]])
    vhem.H3M([one_state_is_never_reached] * 3).save(tmp_path / "odd.vhem")
    done = run("cluster", tmp_path / "odd.vhem", "-k", 1, "-o", tmp_path / "out")
    notes = RunFolder(tmp_path / "out").summary["notes"]
    assert done.stderr == "".join(f"note: {note}\n" for note in notes)
    assert "--center-states may be too large" in done.stderr
    (tmp_path / "t.csv").write_text("id,x\na,1\na,2\na,3\n")
    words = ("fit", tmp_path / "t.csv", "--topology", "round", "-o", tmp_path / "o")
    assert run(*words, code=1).stderr.startswith("vhem: --topology must be one of")
    (tmp_path / "two.csv").write_text("a,b,x\nu,v,1\nu,w,2\n")
    message = run("fit", tmp_path / "two.csv", "-o", tmp_path / "o", code=1).stderr
    assert "Give --id, one or several of them (subject and trial, say), or --one-sequence if all rows" in message
