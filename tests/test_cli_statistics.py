"""vhem compare, vhem associate, statistics in reports, classes from a column, and exports to spreadsheets."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from vhem import H3M, HMM, VHEM, SequenceClustering
from vhem.cli import app
from vhem.cli.run_folder import RunFolder
from vhem.datasets import simulated_study
from vhem.inference import comparison


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on a table that has a column of classes, and a table of people."""
    place = tmp_path_factory.mktemp("statistics")
    study = simulated_study(n_viewers=12, n_trials=4, random_state=1)
    kind = dict(zip(study.hmms.ids, study.strategies % 2, strict=True))
    lines = ["viewer,trial,group,x,y"]
    for trial, viewer, array in zip(study.sequences.ids, study.sequences.groups, study.sequences, strict=True):
        lines += [f'{viewer},"{trial}",{"ab"[kind[viewer]]},{x},{y}' for x, y in array.tolist()]
    (place / "eyes.csv").write_text("\n".join(lines))
    people = ["viewer,age,sex", *(f"{name},{20 + k},{'fm'[k % 2]}" for k, name in enumerate(study.hmms.ids))]
    (place / "people.csv").write_text("\n".join(people))
    roles = ("--id", "viewer,trial", "--group", "viewer", "--values", "x,y", "--states", "2")
    done = run("cluster", place / "eyes.csv", *roles, "--clusters", 2, "-o", place / "out", "--quiet", "--jobs", 1)
    assert done.exit_code == 0, done.output
    return place


@pytest.mark.slow
def test_compare_writes_what_a_paper_needs(folder):
    done = run("compare", folder / "out", "--bootstrap", 10, "--classes", "group", "--quiet", "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "cross-fitted" in done.output
    out = folder / "out" / "compare"
    names = {path.name for path in out.iterdir()}
    assert {"cross_fitted.csv", "bootstrap.csv", "difference_1_2.csv", "centres.csv", "quality.csv", "scores.csv",
            "t_tests.csv", "groups.csv", "group_gain.csv", "tables.tex", "methods.txt", "results.txt",
            "statistics.json", "states.svg", "states.pdf", "scale.svg"} <= names  # fmt: skip
    methods = (out / "methods.txt").read_text()
    assert "12 people" in methods
    assert "one per person, with two states and Gaussian emissions with diagonal covariance matrices." in methods
    assert "; virtual sequences of " in methods
    assert "The number of clusters was given in advance." in methods
    assert "seed 0" in methods
    made = run("report", folder / "out")
    assert made.exit_code == 0, made.output
    page = (folder / "out" / "report.html").read_text()
    assert '<section id="statistics"' in page
    assert "Differences between clusters, cross-fitted" in page
    assert "Methods, for a paper" in page
    stale = json.loads((out / "statistics.json").read_text()) | {"key": "other"}
    (out / "statistics.json").write_text(json.dumps(stale))
    again = run("report", folder / "out")
    assert "are about other clusters" in again.output
    assert '<section id="statistics"' not in (folder / "out" / "report.html").read_text()


def test_names_of_clusters_reach_labels_and_tables(folder):
    """Names given to a report stay in labels.csv, and go on to tables and later reports; an empty one removes them."""
    out = folder / "out"
    before = (out / "labels.csv").read_text()
    done = run("report", out, "--cluster-name", "=left", "--cluster-name", "right", "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    header, *rows = (out / "labels.csv").read_text().splitlines()
    assert header == "id,cluster,probability,p1,p2,name"
    assert {row.rpartition(",")[2] for row in rows} == {"'=left", "right"}
    assert RunFolder(out).labels.names == ["=left", "right"]
    told = run("associate", out, "--table", folder / "people.csv", "--bootstrap", 0, "--quiet", "-o", folder / "named")
    assert "cluster 1 (=left)" in told.output
    assert "Cluster 1 (=left); cluster 2 (right)." in told.output
    run("report", out, "--quiet")
    assert "=left" in (out / "report.html").read_text()
    run("report", out, "--cluster-name", "", "--quiet")
    assert (out / "labels.csv").read_text() == before


def test_a_stopped_comparison_keeps_what_is_known(folder, monkeypatch, tmp_path):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "bootstrap_test", stopped)
    done = run("compare", folder / "out", "--folds", 2, "--quiet", "--jobs", 1, "--no-figures", "-o", tmp_path)
    assert done.exit_code == 130
    assert f"interrupted. All but the bootstrap is in {tmp_path}." in done.output
    assert (tmp_path / "cross_fitted.csv").is_file()
    assert not (tmp_path / "bootstrap.csv").exists()
    assert "This was stopped before the parametric bootstrap" in (tmp_path / "results.txt").read_text()
    assert "bootstrap: " not in (tmp_path / "methods.txt").read_text()


def test_associate_tests_a_table_of_people(folder):
    done = run("associate", folder / "out", "--table", folder / "people.csv", "--no-recluster", "--bootstrap", 20,
               "--quiet")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "age" in done.output
    assert "Kruskal-Wallis" in done.output
    assert (folder / "out" / "associate" / "associations.csv").is_file()
    assert "Kruskal-Wallis (" in (folder / "out" / "associate" / "methods.txt").read_text()
    run("report", folder / "out", "-o", folder / "associated.html")
    assert "What goes with the clusters" in (folder / "associated.html").read_text()
    own = run("associate", folder / "out", "--bootstrap", 0, "--json", "--quiet")
    rows = json.loads(own.stdout)["table"]["rows"]
    assert [row[0] for row in rows] == ["group"]  # the only column of the run's own table with one value per person
    assert run("associate", folder / "out", "--table", folder / "nobody.csv").exit_code == 1


def test_classes_come_straight_from_the_table(folder):
    done = run("report", folder / "out", "--classes", "group", "-o", folder / "classes.html")
    assert done.exit_code == 0, done.output
    assert "Agreement with known classes" in (folder / "classes.html").read_text()
    wrong = run("report", folder / "out", "--classes", "nothing", "-o", folder / "classes.html")
    assert wrong.exit_code == 1
    assert "no column 'nothing'" in wrong.output
    several = run("report", folder / "out", "--classes", "x", "-o", folder / "classes.html")
    assert "has several values for" in several.output


def test_runs_become_spreadsheets(folder):
    openpyxl = pytest.importorskip("openpyxl")
    done = run("convert", folder / "out", folder / "centres.xlsx")
    assert done.exit_code == 0, done.output
    book = openpyxl.load_workbook(folder / "centres.xlsx")
    assert book.sheetnames == ["centres", "members", "hmms"]
    header, first, *_ = book["centres"].iter_rows(values_only=True)
    assert header == ("hmm", "weight", "state", "startprob", "to_1", "to_2", "mean_x", "mean_y", "variance_x",
                      "variance_y")  # fmt: skip
    assert first[2] == 1
    assert sum(1 for _ in book["members"].iter_rows()) == 13
    assert run("convert", folder / "out", folder / "centres.csv").exit_code == 0
    assert (folder / "centres.csv").read_text().startswith("id,weight,state,startprob,to_1,to_2,mean_x,mean_y")


@pytest.mark.usefixtures("few_resamples")
def test_number_shows_how_separate_clusters_are(folder):
    done = run("number", folder / "out", "--clusters", "2-3", "--quiet", "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "silhouette" in done.output
    assert "gap: tighter than data without clusters" in done.output
    assert "add --bootstrap 69" in done.output
    tested = run("number", folder / "out", "--clusters", "2", "--bootstrap", 3, "--quiet", "--jobs", 1)
    assert "add --bootstrap" not in tested.output
    assert re.search(r"^ +2 .* (\.\d+|1\.000)$", tested.output, re.MULTILINE)  # p
    refused = run("number", folder / "out" / "hmms.vhem", "--bootstrap", 3, "--quiet")
    assert "has HMMs alone; give the table of sequences" in refused.output


def test_number_says_when_nothing_is_there():
    from vhem.cli.separation import separation

    means = np.random.default_rng(0).normal(size=(30, 1, 2))
    alike = H3M([HMM([1.0], [[1.0]], m, np.ones((1, 2))) for m in means])
    found = separation(VHEM(tau=1, random_state=0, n_jobs=1), alike, [2, 3], lambda _: 0.4, 0)
    assert found.nothing
    assert "Nothing here suggests that there are clusters" in found.text()
    assert not found._replace(p=[0.01, 0.3]).nothing


def test_a_centre_in_pieces_is_in_the_summary(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["id,x"]
    for i in range(12):
        lines += [f"s{i},{10 * (i % 3) + x}" for x in rng.normal(size=20)]
    (tmp_path / "activities.csv").write_text("\n".join(lines))
    done = run("cluster", tmp_path / "activities.csv", "--clusters", 1, "-o", tmp_path / "out", "--quiet")
    assert done.exit_code == 0, done.output
    assert "cluster 1 joins unlike members" in done.output
    assert "joins unlike members" in json.dumps(json.loads((tmp_path / "out" / "summary.json").read_text())["notes"])
    assert run("report", tmp_path / "out").exit_code == 0
    assert "joins unlike members" in (tmp_path / "out" / "report.html").read_text()


def test_frames_of_models_and_clusterings():
    pytest.importorskip("pandas")
    study = simulated_study(n_viewers=8, n_trials=3)
    frame = study.hmms.to_frame(["x", "y"])
    assert len(frame) == 24
    assert frame["mean_x"][0] == study.hmms.means[0, 0, 0, 0]
    fit = VHEM(2, random_state=0).fit(study.hmms)
    labels = fit.to_frame(study.hmms.ids)
    assert labels["cluster"].tolist() == fit.labels_.tolist()
    assert labels["id"].tolist() == study.hmms.ids
    with pytest.raises(ValueError, match="ids has 1 entries for 8 inputs"):
        fit.to_frame(["a"])
    own = SequenceClustering(2, 2, random_state=0).fit(study.sequences, groups=study.sequences.groups)
    assert own.to_frame()["id"].tolist() == own.ids_


def test_other_runs_are_refused(folder, tmp_path):
    assert run("fit", folder / "eyes.csv", "--id", "viewer,trial", "--group", "viewer", "--values", "x,y", "-o",
               tmp_path / "fit", "--quiet").exit_code == 0  # fmt: skip
    done = run("compare", tmp_path / "fit")
    assert done.exit_code == 1
    assert "was made by `vhem fit`; give the folder of a run of `vhem cluster`" in done.output


@pytest.mark.slow
def test_clusters_of_categories_are_compared_too(tmp_path):
    rows = [f"p{i},{t},{'abcd'[2 * (i % 2) + (t // (1 + i % 3)) % 2]}\n" for i in range(8) for t in range(12)]
    (tmp_path / "pages.csv").write_text("person,time,page\n" + "".join(rows))
    table = (tmp_path / "pages.csv", "--categories", "page", "-k", 2, "-s", 2, "--quiet", "--jobs", 1)
    assert run("cluster", *table, "-o", tmp_path / "out").exit_code == 0
    done = run("compare", tmp_path / "out", "--bootstrap", 10, "--quiet", "--jobs", 1)
    assert done.exit_code == 0, done.output
    differences = (tmp_path / "out" / "compare" / "difference_1_2.csv").read_text()
    assert ": page = a," in differences
