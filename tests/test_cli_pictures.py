"""`vhem report` and `vhem plot`, on folders that real runs left behind."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from test_cli import run, study  # noqa: F401  (the table of a study, as a fixture)

from vhem.cli.run_folder import RunFolder
from vhem.datasets import simulated_face
from vhem.files.labels import write_columns


@pytest.fixture(scope="module")
def folders(study, tmp_path_factory):  # noqa: F811
    """One folder of each kind of run, and the known classes beside them."""
    table, truth = study
    out = tmp_path_factory.mktemp("runs")
    run("cluster", table, "--values", "x,y", "--clusters", 3, "--tau", 8, "--restarts", 3, "-o", out / "cluster")
    run("tree", table, "--values", "x,y", "--levels", "5,2", "--trees", 1, "-o", out / "tree")
    run("mixture", table, "--values", "x,y", "--clusters", 2, "--starts", 1, "-o", out / "mixture")
    run("fit", table, "--values", "x,y", "-o", out / "fit")
    names = [truth.strategy_names[s] for s in truth.strategies]
    write_columns(out / "classes.csv", {"id": list(truth.hmms.ids), "class": names})
    pytest.importorskip("PIL.Image", reason="Pillow writes the image").fromarray(simulated_face()).save(
        out / "face.png"
    )
    return out


def data_in(path):
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found), text


def test_a_report_on_clusters(folders, study):  # noqa: F811
    _, truth = study
    out = folders / "cluster" / "report.html"
    said = run(
        "report", folders / "cluster", "--classes", folders / "classes.csv", "--image", folders / "face.png"
    ).output
    assert said == f"Written: {out}\n"
    data, text = data_in(out)
    folder = RunFolder(folders / "cluster")
    assert data["parents"] == [folder.labels.labels.tolist()]
    assert data["members"]["names"] == truth.hmms.ids
    assert len(data["sequences"]) == len(truth.sequences)
    assert data["dimensionNames"] == ["x", "y"]
    assert len(data["restarts"]) == len(folder.restarts) == 3
    assert "Adjusted Rand index" in text
    assert "vhem cluster --config cluster/run.toml" in text
    assert str(folders) not in text  # a report that is passed on does not say where it was made
    assert '<tr class="changed"><th scope="row"><code>clusters</code>' in text
    assert '<tr><th scope="row"><code>covariance</code>' in text, "a default is no choice"
    for row in data["sequences"][::9]:
        assert truth.hmms.ids[row["of"]] in row["name"]


def test_a_report_is_opened_where_it_was_written(folders, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.chdir(tmp_path)
    run("report", folders / "cluster", "-o", "a report.html", "--open")
    assert opened == [(tmp_path / "a report.html").as_uri()]
    run("report", folders / "cluster", "-o", "another.html")
    assert len(opened) == 1, "only where it is asked for"


def test_reports_on_a_tree_and_a_mixture(folders, tmp_path):
    run("report", folders / "tree", "-o", tmp_path / "t.html", "--title", "A <tree>")
    data, text = data_in(tmp_path / "t.html")
    assert [len(layer) for layer in data["layers"]] == [12, 5, 2]
    assert "A &lt;tree&gt;" in text
    assert data["restarts"]
    run("report", folders / "mixture", "-o", tmp_path / "m.html", "--extent", "0,320,400,0")
    data, _ = data_in(tmp_path / "m.html")
    assert data["layers"][0] == []
    assert len(data["restarts"]) == 1
    assert data["extent"] == [0, 320, 400, 0]
    assert data["decodedBy"] == "center"


def test_data_that_is_gone_leaves_a_report_without_sequences(folders, study, tmp_path):  # noqa: F811
    moved = tmp_path / "table.csv"
    shutil.copy(study[0], moved)
    run("cluster", moved, "--values", "x,y", "--clusters", 2, "-o", tmp_path / "out")
    moved.unlink()
    said = run("report", tmp_path / "out")
    assert "note: Sequences are not shown" in said.output
    data, text = data_in(tmp_path / "out" / "report.html")
    assert "sequences" not in data
    assert "Sequences are not shown" in text
    run("report", tmp_path / "out", "--no-sequences", "-o", tmp_path / "quiet.html")


def test_pictures_of_every_run(folders, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an optional library")
    run("plot", folders / "cluster", "--image", folders / "face.png", "--dpi", 40)
    names = {path.name for path in (folders / "cluster" / "pictures").iterdir()}
    assert names == {"centers.png", "cluster1.png", "cluster2.png", "cluster3.png", "responsibilities.png"}
    said = run("plot", folders / "tree", "--classes", folders / "classes.csv", "--format", "svg", "-o", tmp_path / "t")
    names = {path.name for path in (tmp_path / "t").iterdir()}
    labels = RunFolder(folders / "tree").labels.labels[:, 0]
    assert names == {"centers_level1.svg", "centers_level2.svg", "hierarchy.svg"} | {
        f"cluster{k + 1}.svg" for k in np.unique(labels)
    }
    assert "hierarchy.svg" in said.output
    run("plot", folders / "mixture", "--format", "pdf", "-o", tmp_path / "m")
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"centers.pdf", "responsibilities.pdf"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "fit"], "does not cluster; run `vhem cluster"),
        (["report", "nowhere"], "is not the folder of a finished run"),
        (["report", "cluster", "--extent", "1,2"], "--extent must be left,right,bottom,top"),
        (["report", "cluster", "--classes", "{}/short.csv"], "has no class for 'viewer 01' (11 of 12 ids are missing)"),
        (["report", "cluster", "--image", "{}/nothing.png"], "nothing.png. Check the name"),
        (["report", "cluster", "--classes", "{}/nothing.csv"], "there is no file"),
        (["plot", "cluster", "--image", "{}/nothing.png"], "nothing.png. Check the name"),
        (["plot", "cluster", "--format", "gif"], "--format must be png, svg or pdf"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(folders, words, message):
    write_columns(folders / "short.csv", {"id": ["viewer 02"], "class": ["a"]})
    place = [str(folders / words[1]), *(word.format(folders) for word in words[2:])]
    said = run(words[0], *place, code=1).output
    assert message in said
    assert said.startswith("vhem: ")
    assert said.count("\n") == 1


def test_reports_need_no_matplotlib_and_plots_name_the_extra(folders, tmp_path):
    code = "import sys; sys.modules['matplotlib'] = None; from vhem.cli import app; app()"
    command = [sys.executable, "-c", code]
    words = ["report", str(folders / "cluster"), "-o", str(tmp_path / "r.html")]
    subprocess.run([*command, *words], check=True, capture_output=True)
    assert (tmp_path / "r.html").exists()
    done = subprocess.run([*command, "plot", str(folders / "cluster")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == 'vhem: pictures need matplotlib: in the folder of vhem, pip install ".[plot]".\n'
