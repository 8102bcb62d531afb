"""Messages are data: Python shows parameters, the command shows options, and users' own words stay as they are."""

from __future__ import annotations

import ast
import inspect
import pickle
import string
import sys
from pathlib import Path

import numpy as np
import pytest
from test_cli import run

import vhem
import vhem.audio
import vhem.bayes
import vhem.executors
import vhem.inference
import vhem.metrics
import vhem.plotting
import vhem.report
from vhem._support.errors import Count, Explained, FitWarning
from vhem.cli.naming import Doing, told
from vhem.cli.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
NOT_CONVERGED = vhem.NotConvergedWarning("VHEM", "the bound", 9)


def messages():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from list_messages import messages_of  # a script beside the documentation
    finally:
        sys.path.pop(0)
    return [
        said for path in sorted((ROOT / "src/vhem").rglob("*.py")) for said in messages_of(path) if said.is_template
    ]


def fields(template):
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize(
    ("said", "python", "command"),
    [
        (vhem.ParameterError("n_init", 0, "must be an integer of at least {least}", least=1),
         "n_init must be an integer of at least 1, got 0.", "--starts must be an integer of at least 1, got 0."),
        (vhem.InputError("no sequence has the {n} frames that {n_states:{k}} needs", n=4, k=3),
         "no sequence has the 4 frames that n_states=3 needs.", "no sequence has the 4 frames that --states 3 needs."),
        (vhem.InputError("{part} is broken", "Fix it", "leave such parts out by {on_error:'skip'}", part="p1"),
         "p1 is broken. Fix it, or leave such parts out by on_error='skip'.",
         "p1 is broken. Fix it, or leave such parts out by --skip-broken."),
        (NOT_CONVERGED,
         "VHEM stopped after 9 iterations, before the bound had converged; raise max_iter, or raise tol.",
         "VHEM stopped after 9 iterations, before the bound had converged; raise --max-iter."),
        (FitWarning("{n:state} {n:is|are} never visited", "{n_states} may be too large", n=Count(1)),
         "1 state is never visited; n_states may be too large.",
         "1 state is never visited; --states may be too large."),
        (vhem.CellError("has {value!r}", "if that is a decimal comma, give {decimal:','}",
                        value="1,5").at("t.csv", 3, "x"),
         "t.csv, row 3: column 'x' has '1,5'; if that is a decimal comma, give decimal=','.",
         "t.csv, row 3: column 'x' has '1,5'; if that is a decimal comma, give --decimal ,."),
        (vhem.InputError("{path} is empty", path="n_states/{n_init}.csv"),
         "n_states/{n_init}.csv is empty.", "n_states/{n_init}.csv is empty."),
        (vhem.InputError("{path}: {fault}", path="n_init.csv", fault=vhem.ParameterError("id", "n", "is {value!r}")),
         "n_init.csv: id is 'n'.", "n_init.csv: --id is 'n'."),
    ],
)  # fmt: skip
def test_parameters_become_options(said, python, command):
    assert str(said) == python
    assert told(said, Doing.LEARNING) == command


def test_what_is_done_decides_which_option_is_meant():
    said = vhem.InputError("{n_states} may be too large", "raise {n_init}")
    assert told(said, Doing.LEARNING) == "--states may be too large; raise --starts."
    assert told(said, Doing.CLUSTERING) == "--center-states may be too large; raise --restarts."
    assert told(said, Doing.LEARNING_CHOSEN_STATES) == "the chosen number of states may be too large; raise --starts."


def test_errors_are_data_and_survive_copies():
    with pytest.raises(vhem.ParameterError) as caught:
        vhem.VHEM(n_clusters=0).fit(vhem.datasets.simulated_study().hmms)
    assert (caught.value.name, caught.value.value) == ("n_clusters", 0)
    assert issubclass(vhem.InputTypeError, TypeError)
    cell = vhem.CellError("has {value!r}", value="{n_init}", file="t.csv", row=7, column="x")
    for error in (caught.value, cell, NOT_CONVERGED, vhem.BoundError("the bound", 2.0, 1.0)):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert (cell.file, cell.row, cell.column, cell.value) == ("t.csv", 7, "x", "{n_init}")


def test_no_error_is_a_bare_string():
    raised = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "src/vhem").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("ValueError", "TypeError")
    ]
    assert not raised, "raise InputError, InputTypeError or ParameterError (_support/errors.py) instead"


def test_templates_name_values_and_parameters_only():
    """A field that is neither given nor a parameter is a misspelling; an f-string is not a template."""
    public = [getattr(vhem, name) for name in vhem.__all__]
    public += [
        thing
        for module in (vhem.audio, vhem.bayes, vhem.executors, vhem.inference, vhem.metrics, vhem.plotting, vhem.report)
        for thing in vars(module).values()
        if getattr(thing, "__module__", "").startswith("vhem")
    ]
    callables = [thing for thing in public if callable(thing)]
    callables += [
        method
        for thing in public
        if inspect.isclass(thing)
        for _, method in inspect.getmembers(thing, lambda m: inspect.ismethod(m) or inspect.isfunction(m))
    ]
    parameters = {name for thing in callables for name in inspect.signature(thing).parameters}
    said = messages()
    assert len(said) >= 20
    for one in said:
        for template in (one.problem, *one.cures):
            assert "…" not in template.replace(", …", ""), f"{one} is not a literal"
            assert fields(template) <= {*one.values, *parameters, "name"}, template


def test_the_command_has_an_option_for_every_parameter_that_it_speaks_of():
    """Nothing that the command's algorithms say speaks of parameters that only Python has."""
    python_only = set()
    for name in ("fit_hmms", "VHEM", "HierarchicalVHEM", "MixtureOfHMMs", "read_parts", "read_sequences"):
        python_only |= {p for p in inspect.signature(getattr(vhem, name)).parameters if "_" in p}
    python_only -= {"sample_weight", "n_nodes"}  # the command never gives weights, nor the observed bound
    said = [Explained(one.problem, *one.cures, **dict.fromkeys(one.values, Count(7))) for one in messages()]
    named = [one for one in said if any(name in str(one) for name in python_only)]
    assert len(named) >= 5, "the list of messages is empty, or names have changed"
    shown = [told(one, doing) for one in named for doing in Doing]
    assert not [text for text in shown if any(name in text for name in python_only)]


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
