"""The command, on real files in a temporary folder."""

from __future__ import annotations

import csv
import functools
import json
import os
import pty
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from helpers import faces_folder
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import vhem
from vhem.cli import app
from vhem.cli.in_words import of_hmm
from vhem.cli.number import advice
from vhem.cli.run_clustering import read_classes
from vhem.cli.run_folder import RunFolder
from vhem.datasets import simulated_study
from vhem.estimators.selection import ClusterNumbers
from vhem.executors.dask import ClusterLostError
from vhem.files import describe, load
from vhem.files.labels import as_written, write_columns
from vhem.inference import ab_scale, subject_scores

VHEM = [sys.executable, "-c", "from vhem.cli import app; app()"]


def run(*words, code=0):
    """Run the command here, and return what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="vhem")
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A table of a study whose truth is known."""
    truth = simulated_study(n_viewers=12, n_trials=6)
    path = tmp_path_factory.mktemp("study") / "fixations.csv"
    owner = np.repeat(np.arange(len(truth.sequences)), truth.sequences.lengths)
    columns = {
        "viewer": [truth.sequences.groups[i] for i in owner],
        "trial": [truth.sequences.ids[i] for i in owner],
        "x": truth.sequences.X[:, 0].tolist(),
        "y": truth.sequences.X[:, 1].tolist(),
    }
    write_columns(path, columns)
    return path, truth


@pytest.fixture(scope="module")
def clustered(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("clustered") / "out"
    result = run("cluster", study[0], "--values", "x,y", "--clusters", 3, "--tau", 8, "-o", out)
    return out, result


def test_numbers_of_states_and_clusters_by_variational_bayes(study, tmp_path):
    words = ("--values", "x,y", "--method", "vb", "--states", "2-3", "--max-iter", 200)
    result = run("cluster", study[0], *words, "--clusters", "auto", "--no-polish", "-o", tmp_path / "auto")
    assert "Probable numbers of clusters, by VBHEM:" in result.output
    numbers = json.loads((tmp_path / "auto" / "summary.json").read_text())
    assert sum(numbers["probabilities"].values()) == pytest.approx(1.0)
    hmms = load(tmp_path / "auto" / "hmms.vhem")
    assert hmms.posterior is not None
    assert load(tmp_path / "auto" / "centers.vhem").posterior is not None
    run("report", tmp_path / "auto")
    assert ">Numbers of clusters<" in (tmp_path / "auto" / "report.html").read_text()
    assert "95 % interval" in result.output
    run("tree", tmp_path / "auto" / "hmms.vhem", "--levels", "auto", "--trees", 1, "-o", tmp_path / "tree")
    assert (tmp_path / "tree" / "tree.vhem").is_file()
    wrong = run("fit", study[0], "--values", "x,y", "--method", "best", "-o", tmp_path / "wrong", code=1)
    assert "--method must be em or vb, got 'best'" in wrong.output


def test_the_number_of_states_may_be_left_to_the_clusters(study, tmp_path):
    done = run("cluster", study[0], "--values", "x,y", "--states", "auto", "--clusters", 3, "-o", tmp_path / "out")
    folder = RunFolder(tmp_path / "out")
    sequences = vhem.read_sequences(study[0], values=["x", "y"])
    wanted = vhem.SequenceClustering(3, "auto", random_state=0).choose_shape(sequences, sequences.groups)
    assert set(folder.hmms.n_states.tolist()) == set(folder.centers.n_states.tolist()) == {wanted.n_states}
    assert folder.topology == wanted.topology
    assert f"Chosen by BIC: {wanted.n_states} states per HMM, {wanted.topology}." in done.output
    assert adjusted_rand_score(study[1].strategies, folder.labels.labels) == 1.0


@pytest.mark.parametrize("command", ["cluster", "number"])
def test_more_clusters_than_hmms_are_refused_before_anything_is_learned(study, tmp_path, command):
    out = ("-o", tmp_path / "out") if command == "cluster" else ()
    done = run(command, study[0], "--values", "x,y", "--clusters", "2,100", "--json", *out, code=1)
    assert "--clusters asks for 100, but there are only 12 HMMs; ask for at most 12." in done.stderr
    assert "learning" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_from_table_to_clusters_in_one_step(study, clustered):
    out, result = clustered
    assert sorted(p.name for p in out.iterdir()) == [
        "centers.vhem", "hmms.vhem", "labels.csv", "restarts.json", "run.toml", "summary.json", "summary.txt"
    ]  # fmt: skip
    folder = RunFolder(out)
    found = folder.labels
    assert found.ids == study[1].hmms.ids
    assert adjusted_rand_score(study[1].strategies, found.labels) == 1.0
    assert len(folder.centers) == 3
    assert folder.feature_names == ["x", "y"]
    # The same as in Python, to the last bit.
    sequences = vhem.read_sequences(study[0], values=["x", "y"])
    hmms = vhem.fit_hmms(sequences, 3, groups=sequences.groups, n_init=5, random_state=0)
    fit = vhem.VHEM(3, tau=8, n_virtual=100.0, random_state=0).fit(hmms)
    assert folder.hmms == hmms
    final = vhem.SequenceClustering(3, 3, random_state=0).fit(sequences, groups=sequences.groups, hmms=hmms)
    assert folder.centers == final.centers_.with_ids([1, 2, 3])  # as clusters are called in labels.csv
    assert [history.bounds[-1] for history in folder.restarts] == pytest.approx(
        [restart.lower_bounds[-1] for restart in fit.restarts_], abs=1e-3
    )
    np.testing.assert_array_equal(found.labels, final.labels_)
    np.testing.assert_array_equal(found.responsibilities, final.responsibilities_)
    assert "Refined on the sequences themselves: every HMM stays in its cluster." in result.stdout
    assert folder.sequences() == sequences
    assert "Cluster 1: 4 of 12 HMMs" in result.stdout
    assert "x " in result.stdout
    assert result.stdout.startswith((out / "summary.txt").read_text().rstrip())
    summary = folder.summary
    assert summary["input"]["columns"] == {"id": ["viewer", "trial"], "values": ["x", "y"], "group": "viewer"}
    assert [len(c["members"]) for c in summary["clusters"]] == [4, 4, 4]


def test_a_run_can_be_replayed(clustered, tmp_path):
    out, _ = clustered
    run("cluster", "--config", out / "run.toml", "-o", tmp_path / "again")
    run("cluster", "-c", out, "-o", tmp_path / "other", "--clusters", 2)
    assert (tmp_path / "again" / "labels.csv").read_bytes() == (out / "labels.csv").read_bytes()
    assert RunFolder(tmp_path / "again").centers == RunFolder(out).centers
    assert len(RunFolder(tmp_path / "other").centers) == 2
    first, again = (tomllib.loads((f / "run.toml").read_text()) for f in (out, tmp_path / "again"))
    assert {**first["options"], "out": ""} == {**again["options"], "out": ""}
    assert first["made_with"]["vhem"] == vhem.__version__
    wrong = run("tree", "--config", out / "run.toml", code=1).stderr
    assert "was written by `vhem cluster`, not by `vhem tree`" in wrong
    (tmp_path / "c.toml").write_text("[options]\nclustres = 3\n")
    assert "has unknown options: clustres" in run("cluster", "-c", tmp_path / "c.toml", code=1).stderr
    (tmp_path / "c.toml").write_text("not toml at all")
    assert "is not a configuration file" in run("cluster", "-c", tmp_path / "c.toml", code=1).stderr
    assert "cannot be read" in run("cluster", "-c", tmp_path / "none.toml", code=1).stderr


def test_fit_then_cluster_tree_and_score(study, clustered, tmp_path):
    path, truth = study
    run("fit", path, "-o", tmp_path / "people", "--states", "2-3")
    assert set(RunFolder(tmp_path / "people").hmms.n_states) <= {2, 3}
    run("fit", path, "-o", tmp_path / "people", "--overwrite")
    assert RunFolder(tmp_path / "people").hmms == RunFolder(clustered[0]).hmms
    run("cluster", tmp_path / "people", "-k", 3, "--tau", 8, "--no-polish", "-o", tmp_path / "three")
    run(
        "cluster", path, "-k", 3, "--tau", 8, "--no-polish", "-o", tmp_path / "by-hmms"
    )  # HMMs alone say what they say in a table
    assert RunFolder(tmp_path / "three").centers == RunFolder(tmp_path / "by-hmms").centers
    run("tree", tmp_path / "people", "--levels", "6,3", "--trees", 1, "--tau", 8, "-o", tmp_path / "tree")
    tree = RunFolder(tmp_path / "tree")
    assert tree.labels.labels.shape == (12, 2)
    assert tree.tree.levels == (6, 3)
    assert adjusted_rand_score(truth.strategies, tree.labels.labels[:, 1]) == 1.0
    assert tree.summary["newick"].endswith(";")
    run("score", tmp_path / "three", path, "-o", tmp_path / "scores.csv")
    with pytest.warns(UserWarning, match="single frame"):  # true of scores
        scores = vhem.read_sequences(tmp_path / "scores.csv", id="id", values=["log_likelihood", "cluster"])
    sequences = vhem.read_sequences(path)
    centers = RunFolder(tmp_path / "three").centers
    np.testing.assert_array_equal(scores.X[:, 0], centers.score_samples(sequences))
    np.testing.assert_array_equal(scores.X[:, 1], centers.predict(sequences) + 1)
    groups = list(csv.DictReader((tmp_path / "scores.groups.csv").read_text().splitlines()))
    assert [row["id"] for row in groups] == truth.hmms.ids
    for row in groups[::4]:
        own = sequences[[group == row["id"] for group in sequences.groups]]
        each = [sum(hmm.score_samples(own)) + np.log(w) for hmm, w in zip(centers, centers.weights, strict=True)]
        assert float(row["log_likelihood"]) == pytest.approx(np.logaddexp.reduce(each))
        assert float(row["per_frame"]) == pytest.approx(np.logaddexp.reduce(each) / own.lengths.sum())
        assert int(row["cluster"]) == np.argmax(each) + 1
        assert [int(row["sequences"]), int(row["frames"])] == [len(own), own.lengths.sum()]
    assert adjusted_rand_score(truth.strategies, [row["cluster"] for row in groups]) == 1.0
    assert (
        run("score", tmp_path / "three", path, "--per", "group").stdout == (tmp_path / "scores.groups.csv").read_text()
    )
    two = vhem.H3M(list(centers[:2]))
    two.save(tmp_path / "published.vhem")
    between = csv.DictReader(run("score", tmp_path / "published.vhem", path, "--per", "group").stdout.splitlines())
    np.testing.assert_allclose([float(row["ab_scale"]) for row in between], ab_scale(subject_scores(two, sequences)))
    run("score", tmp_path / "three", path, "--per", "sequence", "-o", tmp_path / "alone.csv")
    assert not (tmp_path / "alone.groups.csv").exists()
    (tmp_path / "no-groups.csv").write_text("id,x,y\na,1,2\na,2,1\n")
    message = run("score", tmp_path / "three", tmp_path / "no-groups.csv", "--per", "group", code=1).stderr
    assert "--per group needs groups" in message
    run("score", "--config", tmp_path / "scores.run.toml", "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "scores.csv").read_bytes()
    printed = run("score", tmp_path / "people" / "hmms.vhem", path, "--json").stdout
    assert len(json.loads(printed)) == len(sequences)
    assert run("score", tmp_path / "three" / "centers.vhem", path).stdout.startswith(
        "id,group,log_likelihood,per_frame,cluster"
    )
    assert RunFolder(tmp_path / "three").sequences() == sequences, "of the run that it was made from"
    run("cluster", tmp_path / "people" / "hmms.vhem", "-k", 3, "--tau", 8, "-o", tmp_path / "of-a-file")
    with pytest.raises(FileNotFoundError, match="was made from models"):
        RunFolder(tmp_path / "of-a-file").sequences()


def test_mixture(study, tmp_path):
    path, truth = study
    printed = run("mixture", path, "-k", 3, "--states", 2, "--starts", 2, "-o", tmp_path / "m", "--json").stdout
    numbers = json.loads(printed)
    assert numbers["converged"]
    folder = RunFolder(tmp_path / "m")
    assert folder.summary == numbers
    assert len(folder.labels.ids) == len(truth.sequences)
    fit = vhem.MixtureOfHMMs(3, 2, n_init=2, random_state=0).fit(vhem.read_sequences(path))
    assert folder.centers == fit.model_.with_ids([1, 2, 3])
    assert len(folder.restarts) == 2
    with pytest.raises(FileNotFoundError, match=r"has no hmms\.vhem: `vhem mixture` does not write it"):
        _ = folder.hmms


def test_another_command_into_the_same_folder_leaves_nothing_stale(study, tmp_path):
    run("tree", study[0], "--levels", "2,1", "--trees", 1, "-o", tmp_path / "out")
    message = run("fit", study[0], "-o", tmp_path / "out", code=1).stderr
    assert "holds a finished run of `vhem tree`" in message
    assert "--overwrite" in message
    run("fit", study[0], "-o", tmp_path / "out", "--overwrite")
    assert not (tmp_path / "out" / "tree.vhem").exists()
    assert RunFolder(tmp_path / "out").command == "fit"


def test_a_finished_run_is_replaced_only_on_demand(study, tmp_path):
    out = tmp_path / "out"
    words = ("cluster", study[0], "--restarts", 1, "--starts", 1, "-o", out)
    run(*words, "-k", 2)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    message = run(*words, "-k", 3, code=1).stderr
    assert f"vhem: {out} holds a finished run with other settings (clusters 2, now 3)." in message
    assert "-o, or replace that run with --overwrite" in message
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    run("report", out)
    (out / "pictures").mkdir()
    for name in ("centers.png", "cluster1.svg", "mine.png"):
        (out / "pictures" / name).write_bytes(b"")
    said = run(*words, "-k", 2, "--jobs", 1).stderr  # the same again; threads change nothing
    assert "removed" not in said
    assert (out / "report.html").exists()
    assert len(list((out / "pictures").iterdir())) == 3
    said = run(*words, "-k", 3, "--overwrite").stderr
    assert "note: removed report.html" in said
    assert {path.name for path in out.iterdir() if path.is_file()} == before.keys()
    assert [path.name for path in (out / "pictures").iterdir()] == ["mine.png"]
    assert len(RunFolder(out).centers) == 3
    assert "overwrite" not in RunFolder(out).options
    (tmp_path / "file").write_text("")
    assert "is a file; --out must name a folder" in run("fit", study[0], "-o", tmp_path / "file", code=1).stderr


def test_models_remember_how_long_the_sequences_were(study, clustered, tmp_path):
    path, truth = study
    median = round(float(np.median(truth.sequences.lengths)))
    run("fit", path, "-o", tmp_path / "people", "--starts", 1)
    words = ("-k", 2, "--restarts", 1)
    shown = run("cluster", path, *words, "--starts", 1, "-o", tmp_path / "one").stdout
    assert f"(tau {median}, the median length of the sequences)." in shown
    run("convert", tmp_path / "people" / "hmms.vhem", tmp_path / "people.json")
    for k, model in enumerate((tmp_path / "people", tmp_path / "people" / "hmms.vhem", tmp_path / "people.json")):
        shown = run("cluster", model, *words, "-o", tmp_path / f"again{k}").stdout
        assert f"(tau {median}, the median length of the sequences behind the HMMs)." in shown
        assert RunFolder(tmp_path / f"again{k}").summary["tau"] == median
    shown = run("tree", tmp_path / "again0", "--levels", "2,1", "--trees", 1, "-o", tmp_path / "tree").stdout
    assert f"(tau {median}, the median length of the sequences behind the HMMs); the top" in shown
    RunFolder(clustered[0]).hmms.save(tmp_path / "bare.vhem")
    shown = run("cluster", tmp_path / "bare.vhem", *words, "-o", tmp_path / "bare").stdout
    assert "(tau 10; the length of the original sequences is unknown: set --tau to about that)" in shown
    assert "2 clusters (tau 4)." in run("cluster", tmp_path / "people", *words, "--tau", 4, "-o", tmp_path / "o").stdout


def test_long_sequences_do_not_make_tau_long(tmp_path):
    rows = "".join(f"{name},{x}\n" for name in "ab" for x in np.random.default_rng(0).normal(size=80))
    (tmp_path / "t.csv").write_text("id,x\n" + rows)
    shown = run("cluster", tmp_path / "t.csv", "-k", 1, "--states", 1, "-o", tmp_path / "out").stdout
    assert "(tau 50, the most that is taken by default; the sequences are longer)" in shown


def test_a_course_is_seen_to_its_end(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{k},{x}\n" for k in range(6) for x in np.repeat([0.0, 4.0], 40) + rng.normal(size=80))
    (tmp_path / "t.csv").write_text("id,x\n" + rows)
    words = ("-k", 1, "--states", 2, "--topology", "left-right", "-o", tmp_path / "out")
    shown = run("cluster", tmp_path / "t.csv", *words).stdout
    assert "(tau 80, the median length of the sequences)" in shown


def test_ctrl_c_while_the_package_is_imported(tmp_path):
    (tmp_path / "vhem").mkdir()
    (tmp_path / "vhem" / "__init__.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n")
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    folders = [str(tmp_path), str(Path(__file__).parents[1] / "src")]
    code += f"import sys; sys.path[:0] = {folders!r}\nfrom vhem_command import main; main()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False
    )  # no editable vhem
    assert (done.returncode, done.stderr) == (130, "vhem: interrupted. Nothing was written.\n")


def test_info_names_ignored_columns_and_notes_doubts(tmp_path):
    rows = "".join(f"{k % 3},{k},7,hello\n" for k in range(12))
    (tmp_path / "t.csv").write_text("id,x,same,remark\n" + rows)
    found = run("info", tmp_path / "t.csv")
    assert found.stdout.splitlines()[-1] == "ignored: remark"
    assert found.stderr.startswith("note: column 'same' has the same value in every row")
    assert json.loads(run("info", tmp_path / "t.csv", "--json").stdout)["columns"]["ignored"] == ["remark"]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv").write_text("x,remark\n1,hello\n2,hello\n")
    assert "ignored: remark" in run("info", tmp_path / "folder").stdout


def test_convert_and_info(clustered, tmp_path, study):
    out, _ = clustered
    centers = RunFolder(out).centers
    for ending in ("npz", "json", "vhem"):
        run("convert", out / "centers.vhem", tmp_path / f"c.{ending}")
        run("convert", tmp_path / f"c.{ending}", tmp_path / "back.vhem")
        assert vhem.load(tmp_path / "back.vhem") == centers
        shown = run("info", tmp_path / f"c.{ending}").stdout
        for line in (
            "H3M(n_hmms=3",
            "dimensions: x, y",
            "ids: 1, 2, 3",
            "made by: `vhem cluster`, with vhem",
            "seed = 0",
        ):
            assert line in shown
        assert describe(tmp_path / "back.vhem").about["options"] == RunFolder(out).options
    assert "n_hmms=3" in run("convert", out, tmp_path / "centres.csv").stdout  # of a run, the centres
    run("convert", study[0], tmp_path / "s.csv")
    assert vhem.read_sequences(tmp_path / "s.csv", id="id", group="group") == vhem.read_sequences(study[0])
    run("convert", study[0], tmp_path / "s.vhem")
    run("cluster", tmp_path / "s.vhem", "-k", 3, "--tau", 8, "-o", tmp_path / "s")
    assert RunFolder(tmp_path / "s").centers == centers
    assert "cannot be written as '.npz'" in run("convert", study[0], tmp_path / "s.npz", code=1).stderr
    shown = run("info", out).stdout
    assert shown.startswith("files: centers.vhem, hmms.vhem, labels.csv, ")
    assert "made by: `vhem cluster`, with vhem" in shown
    assert shown.rstrip().endswith((out / "summary.txt").read_text().rstrip())
    about = json.loads(run("info", out / "centers.vhem", "--json").stdout)
    assert about["kind"] == "H3M"
    assert about["feature_names"] == ["x", "y"]
    assert about["about"]["options"]["clusters"] == 3
    assert "id: viewer, trial" in run("info", study[0]).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cluster", "none.csv", "-k", "2", "-o", "out"], "there is no file none.csv"),
        (["cluster", "bad.csv", "-k", "2", "-o", "out"], "row 3: column 'x' has 'oops'"),
        (["cluster", "good.csv", "-k", "2", "-o", "out", "--values", "z"], "there is no column 'z'"),
        (["cluster", "good.csv", "-k", "2", "-o", "out", "--states", "few"], "--states must be like 3, 1-5 or 2,4"),
        (["cluster", "good.csv", "-k", "2", "-o", "out", "--covariance", "round"], "--covariance must be one of"),
        (["cluster", "good.csv", "-k", "2", "-o", "out", "--per", "group"], "--per group needs groups"),
        (["cluster", "good.csv", "-k", "2", "-o", "out", "--per", "day"], "--per must be auto, sequence or group"),
        (["tree", "good.csv", "--levels", "a,b", "-o", "out"], "--levels must be numbers like 8,4,2"),
        (["mixture", "good.csv", "-k", "2", "--states", "1-3", "-o", "out"], "--states must be one number"),
        (["fit", "cut.vhem", "-o", "out"], "cut.vhem is truncated"),
        (["fit", "model.vhem", "-o", "out"], "holds HMMs; sequences are needed"),
        (["info", "good.csv", "--decimal", "x"], "--decimal must be 'auto', '.' or ','"),
        (["score", "lds.vhem", "good.csv"], "holds a LinearDynamicalSystem; an HMM, or a mixture of HMMs, is needed"),
        (["cluster", "lds.vhem", "-k", "2", "-o", "out"], "holds a LinearDynamicalSystem; HMMs (an H3M)"),
        (
            ["cluster", "hole.csv", "-k", "2", "-o", "out"],
            "'z' has no value in any row; leave it out: --values x,y",
        ),
        (["mixture", "hole.csv", "-k", "2", "-o", "out"], "column 'z' has no value in any row"),
        (["fit", "hole.csv", "--values", "z", "-o", "out"], "fill it, or name other columns with --values"),
        (["cluster", "broken.npz", "-k", "2", "-o", "out"], "broken.npz is not an npz file, or is damaged"),
        (["convert", "nosuch.vhem", "x.json"], "there is no file nosuch.vhem. Check the name; it is looked for in"),
        (["score", "nosuch", "good.csv"], "there is no file nosuch"),
        (["info", "empty-run"], "no file that could be read"),
    ],
)
def test_wrong_input_is_told_in_one_line(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("id,x\na,1\na,oops\na,2\n")
    (tmp_path / "good.csv").write_text("id,x\na,1\na,2\na,5\nb,7\nb,3\nb,4\n")
    (tmp_path / "hole.csv").write_text("id,x,y,z\na,1,2,\na,2,1,\nb,5,7,\nb,7,9,\n")
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    (tmp_path / "empty-run").mkdir()
    vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]]).save("model.vhem")
    vhem.LinearDynamicalSystem([[0.5]], [[1.0]], [[0.1]], 0.1).save("lds.vhem")
    (tmp_path / "cut.vhem").write_bytes((tmp_path / "model.vhem").read_bytes()[:200])
    result = run(*words, code=1)
    assert message in result.stderr
    assert result.stderr.startswith("vhem: ")
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
    shown = CliRunner().invoke(app, [*words, "--debug"])
    assert isinstance(shown.exception, (ValueError, TypeError, OSError))


@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_reader_that_has_seen_enough(study, clustered, reader):
    """Output is written in blocks, as it is wherever PYTHONUNBUFFERED is not set: the last one at the very end."""
    words = " ".join(map(str, [*VHEM[:2], f"'{VHEM[2]}'", "score", clustered[0], study[0]]))
    blocks = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", f"{words} | {reader}"], capture_output=True, text=True, check=True, env=blocks)
    assert done.stdout.startswith("id," if reader == "head -1" else "")
    assert done.stderr == ""


def test_a_file_that_cannot_be_written_is_named(study, clustered, tmp_path):
    words = " ".join(map(str, [*VHEM[:2], f"'{VHEM[2]}'", "score", clustered[0], study[0], "-o", tmp_path / "s.csv"]))
    done = subprocess.run(["bash", "-c", f"ulimit -f 0; {words}"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"vhem: {tmp_path / 's.csv'}: cannot write: file too large. Check the name, the disk" in done.stderr


def test_a_cluster_that_is_lost_is_told_in_one_line(monkeypatch, study, tmp_path):
    lost = ClusterLostError("the Dask scheduler at {address} went away", "Start it again", address="tcp://n_init:1")

    def gone(*_):
        raise lost

    monkeypatch.setattr("vhem.cli.fit.learned", gone)
    message = run("fit", study[0], "-o", tmp_path / "o", code=1).stderr
    assert message == "vhem: the Dask scheduler at tcp://n_init:1 went away. Start it again.\n"


def test_users_words_are_not_rewritten(tmp_path):
    message = run("cluster", "n_states/nosuch.csv", "-k", 2, "-o", tmp_path / "o", code=1).stderr
    assert message == "vhem: there is no file n_states/nosuch.csv: there is no folder n_states. Check the name.\n"


def test_cells_that_a_spreadsheet_would_run_are_harmless(tmp_path):
    names = ["=cmd|'/c calc'!A1", "@sum", "-a", "-3", "'=x", "ann"]
    vhem.write_labels(tmp_path / "labels.csv", names, np.zeros(6, dtype=int))
    with open(tmp_path / "labels.csv", newline="") as file:
        written = [row[0] for row in csv.reader(file)][1:]
    assert written == ["'=cmd|'/c calc'!A1", "'@sum", "'-a", "-3", "''=x", "ann"]
    assert list(map(as_written, written)) == names
    (tmp_path / "classes.csv").write_text("id;class\n" + "".join(f"{name};c\n" for name in written))
    assert read_classes(tmp_path / "classes.csv", names) == ["c"] * 6


@pytest.mark.parametrize("words", [["-h"], ["cluster", "-h"], ["experiment", "motion", "-h"]])
def test_help_shows_flags_without_a_value(words):
    shown = run(*words).stdout
    assert "--help" in shown
    assert "<bool>" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clustr"], "vhem: no such command 'clustr'"),
        (["--nonsense"], "vhem: no such option: --nonsense"),
        (["cluster"], "vhem cluster: missing argument"),
        (["cluster", "x.csv"], "vhem cluster: missing option '--clusters'"),
        (["cluster", "x.csv", "--cluster", "3"], "vhem cluster: no such option: --cluster; did you mean --clusters?"),
        (["cluster", "x.csv", "-k", "three", "-o", "o"], "vhem cluster: invalid value for '--clusters'"),
        (
            ["cluster", "x.csv", "-k", "3", "--tau", "2.5", "-o", "o"],
            "vhem cluster: invalid value for '--tau': ",
        ),
        (["cluster", "x.csv", "-k", "0", "-o", "o"], "vhem cluster: invalid value for '--clusters'"),
        (["cluster", "x.csv", "-k"], "vhem cluster: option '-k' requires an argument"),
        (["fit", "x.csv", "y.csv", "-o", "o"], "vhem fit: got unexpected extra argument"),
        (["fit", "x.csv"], "vhem fit: missing option '--out'"),
        (["tree", "x.csv", "-o", "o", "--tres", "3"], "vhem tree: no such option: --tres; did you mean --trees?"),
        (["mixture", "x.csv", "-k", "2", "-o", "o", "--time-limit", "now"], "vhem mixture: invalid value for"),
        (["score", "model.vhem"], "vhem score: missing argument"),
        (["convert", "model.vhem"], "vhem convert: missing argument"),
        (["info"], "vhem info: missing argument"),
        (["report"], "vhem report: missing argument"),
        (["plot", "out", "--dpi", "many"], "vhem plot: invalid value for '--dpi'"),
        (["demo", "x"], "vhem demo: got unexpected extra argument"),
        (["experiment", "nothing"], "vhem experiment: no such command 'nothing'"),
        (["experiment", "motion", "--seedz", "3"], "vhem experiment motion: no such option: --seedz; did you mean"),
    ],
)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_misuse_is_told_in_one_line_with_a_cure(words, message, debug):
    done = run(*words, *debug, code=2)
    command = message.partition(":")[0]
    assert done.stderr.startswith(message)
    assert done.stderr.endswith(f"See `{command} --help`.\n")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help():
    for command in ("fit", "cluster", "number", "tree", "mixture", "score", "convert", "info"):
        text = run(command, "--help").stdout
        assert f"vhem {command}" in text
        assert "For example" in text
    assert "--install-completion" in run("--help").stdout


@pytest.mark.filterwarnings("ignore")
def test_warnings_become_notes(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"{k},{k}\n" for k in "123"))
    result = run("cluster", tmp_path / "t.csv", "-k", 2, "-o", tmp_path / "out")
    assert "note: there are fewer frames than states in 1, 2, 3" in result.stderr
    assert any("fewer frames" in note for note in RunFolder(tmp_path / "out").summary["notes"])


def test_data_are_not_hashed_where_no_part_is_kept(study, tmp_path, monkeypatch):
    monkeypatch.setattr("vhem.cli.learning._key", lambda *_: pytest.fail("nothing will be looked up by it"))
    run("fit", study[0], "-o", tmp_path / "out")
    assert len(RunFolder(tmp_path / "out").hmms) == 12


def test_plain_lines_where_there_is_no_terminal(study, tmp_path, monkeypatch):
    monkeypatch.setattr("vhem.cli.session._PLAIN_EVERY", 0.0)
    said = run("cluster", study[0], "-k", 3, "-o", tmp_path / "out").stderr
    assert "learning 12 HMMs: " in said
    assert "clustering 12 HMMs: " in said
    assert "bound -" in said
    assert "s left" in said
    assert not run("cluster", study[0], "-k", 3, "-q", "-o", tmp_path / "out").stderr, (
        "the same again is no overwriting"
    )


def test_a_bar_on_a_terminal(study, tmp_path):
    master, slave = pty.openpty()
    words = ["cluster", str(study[0]), "-k", "3", "--restarts", "40", "-o", str(tmp_path / "out")]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140"}
    process = subprocess.Popen([*VHEM, *words], stderr=slave, stdout=subprocess.PIPE, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        shown += piece
    assert process.wait() == 0
    process.stdout.close()
    os.close(master)
    assert b"clustering 12 HMMs" in shown
    assert "━".encode() in shown
    assert b"bound" in shown


def interrupted(words, ready, said, seconds=100.0):
    """Start the command, send Ctrl-C as soon as `ready` says so, and return its exit code; `said` gets what it says."""
    with open(said, "w") as file:
        heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # even where pytest ignores it
        command = [*VHEM, *map(str, words)]
        process = subprocess.Popen(command, stderr=file, stdout=file, preexec_fn=heard)  # noqa: PLW1509  (no threads)
    end = time.monotonic() + seconds
    while not ready() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=seconds)


def test_an_interrupted_fit_goes_on(tmp_path):
    """Ctrl-C keeps the finished parts; the same command then makes the same HMMs as one that was not interrupted."""
    rng = np.random.default_rng(0)
    names = [f"s{k}" for k in range(60) for _ in range(400)]
    write_columns(tmp_path / "t.csv", {"id": names, "x": rng.normal(size=len(names)).tolist()})
    words = ["fit", tmp_path / "t.csv", "--states", 4, "--checkpoint-every", 10, "--starts", 60, "-q", "-j", 1]
    partial = tmp_path / "out" / "partial"

    def two_parts_are_there():
        return partial.exists() and len(list(partial.glob("part-*"))) > 1

    code = interrupted([*words, "-o", tmp_path / "out"], two_parts_are_there, tmp_path / "said")
    said = (tmp_path / "said").read_text()
    assert code == 130, said
    assert "vhem: interrupted. " in said
    assert "parts are kept in" in said
    kept = {p.name: p.stat().st_mtime_ns for p in partial.iterdir()}
    assert 1 <= len(kept) < 6
    assert not (tmp_path / "out" / "run.toml").exists()
    assert not (tmp_path / "out" / "hmms.vhem").exists()
    assert all(name.startswith("part-") for name in kept)
    run(*words, "-o", tmp_path / "out")
    run(*words, "-o", tmp_path / "whole")
    assert RunFolder(tmp_path / "out").hmms == RunFolder(tmp_path / "whole").hmms
    assert not partial.exists()


def test_parts_of_another_run_are_not_taken(study, tmp_path):
    out = tmp_path / "out"
    (out / "partial").mkdir(parents=True)
    simulated_study(n_viewers=5, n_trials=1).hmms.save(out / "partial" / "part-00000.vhem", about={"key": "other"})
    (out / "partial" / "part-00001.vhem").write_bytes(b"broken")
    run("fit", study[0], "--checkpoint-every", 5, "-o", out)
    assert RunFolder(out).hmms.ids == study[1].hmms.ids


def test_an_interrupted_clustering_writes_nothing(study, tmp_path):
    words = ["cluster", study[0], "-k", 3, "--restarts", 20_000, "-o", tmp_path / "out"]
    said = tmp_path / "said"
    code = interrupted(words, lambda: said.exists() and "clustering" in said.read_text(), said)
    assert code == 130, said.read_text()
    assert "interrupted. Nothing was written." in said.read_text()
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore")
def test_the_faces_of_the_emhmm_toolbox(tmp_path):
    """From the toolbox's spreadsheet to clusters, and its own HMMs clustered as well: the same two groups of people."""
    folder = faces_folder()
    pytest.importorskip("python_calamine")
    options = ["-k", 2, "--center-states", 3, "--tau", 3]
    run("cluster", folder / "demodata.xls", "--covariance", "full", "--states", "1-3", *options, "-o", tmp_path / "xls")
    run("cluster", folder / "models_demo_faces_individual.mat", *options, "-o", tmp_path / "mat")
    ours, theirs = RunFolder(tmp_path / "xls").labels, RunFolder(tmp_path / "mat").labels
    assert len(ours.ids) == len(theirs.ids) == 10
    assert set(ours.labels) == set(theirs.labels) == {0, 1}
    assert adjusted_rand_score(ours.labels, theirs.labels) > 0.5


def test_score_takes_the_model_s_columns_by_name(study, clustered, tmp_path):
    swapped = tmp_path / "swapped.csv"
    header, *rows = csv.reader(study[0].read_text().splitlines())
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    write_columns(swapped, {name: list(columns[name]) for name in ("viewer", "trial", "y", "x")})
    assert run("score", clustered[0], swapped).output == run("score", clustered[0], study[0]).output
    other = tmp_path / "other.csv"
    other.write_text("id,u,v\na,1,2\na,2,3\n")
    message = run("score", clustered[0], other, code=1).output
    assert "learned from x, y" in message
    assert "--values" in message


def test_a_converted_table_is_read_as_its_origin(study, tmp_path):
    run("convert", study[0], tmp_path / "long.csv", "--values", "x,y")
    again, first = vhem.read_sequences(tmp_path / "long.csv"), vhem.read_sequences(study[0], values=["x", "y"])
    assert again.groups == first.groups
    np.testing.assert_array_equal(again.X, first.X)


def test_more_clusters_than_items_are_refused(study, tmp_path):
    assert "at most 12" in run("cluster", study[0], "--clusters", 50, "-o", tmp_path / "out", code=1).output


def test_shares_of_time_are_those_of_short_trials():
    once = vhem.HMM([1.0, 0.0], [[0.0, 1.0], [0.0, 1.0]], [[0.0], [1.0]], [[1.0], [1.0]])
    assert [state["share_of_time"] for state in of_hmm(once, 4)] == [0.25, 0.75]


@pytest.mark.usefixtures("few_resamples")
def test_numbers_of_clusters(study, clustered):
    words = ("number", clustered[0], "--clusters", "2-3", "--tau", 8, "--restarts", 2, "--seed", 1)
    shown = run(*words).stdout
    found = json.loads(run(*words, "--json", "--jobs", 1).stdout)
    hmms = RunFolder(clustered[0]).hmms
    evidence = len(study[1].sequences) / 12
    truth = vhem.choose_n_clusters(hmms, [2, 3], vhem.VHEM(tau=8, n_init=2), 2, 2, evidence, random_state=1)
    assert found["n_clusters"] == [2, 3]
    for name in ("held_out", "held_out_spread", "bic", "stability"):
        assert found[name] == pytest.approx(getattr(truth, name), rel=1e-9)
    assert found["best"] == truth.best
    lines = {line.split()[0]: line for line in reversed(shown.splitlines()) if line[:1] == " "}  # the first table's
    assert f"{truth.stability[truth.best['stability'] - 2]:.3f}*" in lines[str(truth.best["stability"])]
    assert lines["2"].count("*") + lines["3"].count("*") == 3
    assert f"\n{truth.best['bic']} by BIC: is another cluster" in shown
    assert not (clustered[0] / "partial").exists()
    alone = run("number", clustered[0], "-k", 3, "--tau", 8, "--restarts", 2, "--seed", 1).stdout
    assert (
        lines["3"].replace("*", " ").split() == alone.split("stability\n")[1].splitlines()[0].replace("*", " ").split()
    )
    assert "There is nothing to compare: give several numbers." in alone


@pytest.mark.usefixtures("few_resamples")
def test_the_number_of_clusters_may_be_a_range(clustered, tmp_path):
    words = ("cluster", clustered[0], "-k", "2,3", "--tau", 8, "-o", tmp_path / "chosen")
    shown = run(*words).stdout
    summary = RunFolder(tmp_path / "chosen").summary
    k, stable = summary["numbers"]["best"]["stability"], summary["numbers"]["stability"]
    assert k == 2 + (stable[1] >= stable[0] - 0.02)
    assert len(RunFolder(tmp_path / "chosen").centers) == k
    assert f"Chosen: {k} clusters, the most stable number ({max(stable):.2f}" in shown
    assert f"12 HMMs in {k} clusters" in shown
    wrong = run("cluster", clustered[0], "-k", "3-2", "-o", tmp_path / "x", code=2).stderr
    assert "'3-2' is not a number from 1 on, a range like 2-6" in wrong


def test_how_many_restarts_agree_is_told(clustered, tmp_path):
    words = ("cluster", clustered[0], "-k", 3, "--seed", 0)
    shown = run(*words, "--restarts", 6, "-o", tmp_path / "six").stdout
    kept = RunFolder(tmp_path / "six").summary["restarts"]
    assert kept["all"] == 6
    assert f"{kept['best']} of 6 restarts found the best clusters" in shown
    one = run(*words, "--restarts", 1, "-o", tmp_path / "one").stdout
    assert "restarts" not in one.split("Cluster 1")[0]


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_numbers_of_clusters_of_a_table_and_of_models(study, clustered):
    settings = ("-k", "3,2", "--restarts", 1, "--json")
    of_run = json.loads(run("number", clustered[0], *settings).stdout)
    of_table = json.loads(run("number", study[0], "--values", "x,y", *settings).stdout)
    assert of_table["input"].pop("groups") == of_run["input"].pop("hmms") == 12
    assert {**of_table, "input": 0} == {**of_run, "input": 0}
    assert of_table["sequences_per_hmm"] == len(study[1].sequences) / 12
    assert json.loads(run("number", clustered[0] / "hmms.vhem", *settings).stdout)["sequences_per_hmm"] == 10
    for wrong in ("6-2", "two", "-3", "2,,3"):
        assert "--clusters must be like" in run("number", clustered[0], f"--clusters={wrong}", code=1).stderr
    assert "--clusters asks for 13, but there are only" in run("number", clustered[0], "-k", "2,13", code=1).stderr


@pytest.mark.parametrize(
    ("stability", "said"),
    [
        ([0.8, 1.0], "All three prefer 3: vhem cluster run --clusters 3 -o clusters-3"),
        ([1.0, 0.8], "They differ."),
        ([0.3, 0.5], "No number is stable (the best has 0.50)"),
    ],
)
def test_what_three_criteria_advise(stability, said):
    columns = ([2, 3], [-5.0, -4.0], [0.1, 0.1], [90.0, 80.0], stability)
    assert said in advice(ClusterNumbers(*map(np.array, columns)), Path("run"))


def test_a_person_among_the_ids_is_no_group_unless_it_is_said(study, tmp_path):
    words = ("cluster", study[0], "--id", "viewer,trial", "-k", 2, "--restarts", 1, "--starts", 1)
    said = (
        "every sequence gets its own HMM; for one HMM per viewer, give --group viewer, or --per sequence if this "
        "is intended."
    )
    assert f"note: {said}\n" in run(*words, "-o", tmp_path / "alone").stderr
    assert said in RunFolder(tmp_path / "alone").summary["notes"]
    assert said not in run(*words, "--group", "viewer", "-o", tmp_path / "grouped").stderr
    assert said not in run(*words, "--per", "sequence", "-o", tmp_path / "wanted").stderr
    assert "group: none; for one HMM per viewer" in run("info", study[0], "--id", "viewer,trial").stdout
    assert "group: none" not in run("info", study[0], "--id", "trial").stdout


def test_notes_of_fits_that_had_not_converged_name_the_cure(study, tmp_path):
    done = run("cluster", study[0], "-k", 2, "--max-iter", 1, "-o", tmp_path / "out")
    assert "HMMs stopped after 1 iteration, before their likelihood had converged; raise --max-iter." in done.stderr
    assert "VHEM stopped after 1 iteration, before the bound had converged; raise --max-iter." in done.stderr
    assert RunFolder(tmp_path / "out").summary["iterations"] == 1
    done = run("mixture", study[0], "-k", 3, "--max-iter", 2, "-o", tmp_path / "mixture")
    assert "stopped after 2 iterations, before the likelihood had converged; raise --max-iter." in done.stderr
    done = run("tree", tmp_path / "out", "--levels", "4,2", "--trees", 1, "--max-iter", 1, "-o", tmp_path / "tree")
    assert "after 1 iteration, before the bound had converged; raise --max-iter." in done.stderr
    assert "raise --max-iter" not in run("cluster", study[0], "-k", 3, "-o", tmp_path / "long").stderr
