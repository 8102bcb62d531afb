"""The app without a browser: tables and what is wrong with them, runs, results, and what survives an accident."""

import contextlib
import csv
import io
import json
import os
import shlex
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from app_server import RunningApp, finished_run, run_here, wait_for

import vhem
from vhem.app.comparison import NotComparableError, compare
from vhem.app.estimate import Stage, how_far, machine_factor, seconds
from vhem.app.jobs import Queue
from vhem.app.preview import look
from vhem.app.problems import bad_cells, emptied
from vhem.app.progress import Progress, begin_command
from vhem.app.scoring import _misfits
from vhem.app.settings import ChoiceError, Model, checked_roles, cluster_command, explicit_roles, table_arguments
from vhem.app.store import NotFoundError, Store, harmless_name
from vhem.app.tables import reading_options
from vhem.cli.run_folder import RunFolder
from vhem.datasets import simulated_study
from vhem.emissions import CHOICES


def write_table(path, n_viewers=12, n_trials=4):
    """Write a small simulated study."""
    sequences = simulated_study(n_viewers=n_viewers, n_trials=n_trials).sequences
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["viewer", "trial", "x", "y"])
        for name, group, frames in zip(sequences.ids, sequences.groups, sequences, strict=True):
            writer.writerows([group, str(name).rpartition(" ")[2], f"{x:.2f}", f"{y:.2f}"] for x, y in frames)
    return path


def rows(path, *columns):
    """Return some columns of a csv."""
    with open(path, newline="") as file:
        return [tuple(row[name] for name in columns) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("data") / "study.csv")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    running = RunningApp(tmp_path_factory.mktemp("app"))
    yield running
    running.close()


def uploaded(app, path):
    status, _, told = app.ask("POST", f"/api/data?name={path.name}", path.read_bytes())
    assert status == 200, told
    data = json.loads(told)["id"]
    assert looked_at(app, data)["problem"] is None
    return data


def looked_at(app, data):
    roles = app.get(f"/api/data/{data}")["roles"]
    return app.post(f"/api/data/{data}/look", {"roles": roles, "whole": True, "keep": True})


def started(app, data, clusters=2, **model):
    (run,) = app.post("/api/runs", {"data": data, "clusters": clusters, "model": {"states": 2, "starts": 1, **model}})[
        "ids"
    ]
    return run


def ended(app, run):
    done = wait_for(lambda: (now := app.get(f"/api/runs/{run}"))["state"] not in ("queued", "running") and now)
    assert done["state"] == "done", done
    return done


@pytest.fixture(scope="module")
def finished(app, table):
    """Two finished runs of one table, with two and with three clusters; the latter by the queue."""
    data = uploaded(app, table)
    runs = [finished_run(app, data, 2, states=2, starts=1), started(app, data, 3)]
    ended(app, runs[1])
    return data, runs


def labels_of(script, capsys):
    """Run a script that repeats a run; return the cluster of each name that it prints."""
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vhem.FitWarning)  # the commands say the same as a note
        exec(compile(script, "repeat.py", "exec"), {})
    printed = [line.rpartition(" ") for line in capsys.readouterr().out.splitlines()]
    return {name: int(cluster) for name, _, cluster in printed}


def check_repeated(app, run, folder, monkeypatch, capsys):
    """The commands and the script in a run's zip give its labels again, in an empty folder."""
    folder.mkdir()
    with zipfile.ZipFile(io.BytesIO(app.ask("GET", f"/api/runs/{run}/zip")[2])) as file:
        file.extractall(folder)
    own = {name: int(cluster) for name, cluster in rows(folder / "labels.csv", "id", "cluster")}
    monkeypatch.chdir(folder)
    assert labels_of(Path("repeat.py").read_text(), capsys) == own
    for line in Path("commands.txt").read_text().splitlines():
        name, *words = shlex.split(line)
        assert name == "vhem"
        run_here(*words)
    (made,) = folder.glob("clusters-*")
    assert {name: int(cluster) for name, cluster in rows(made / "labels.csv", "id", "cluster")} == own
    assert (made / "report.html").is_file()


# tables


def test_a_table_is_understood(table):
    found = look(table, {}, whole=True)
    assert found["roles"]["id"] == ["viewer", "trial"]
    assert (found["roles"]["values"], found["roles"]["group"]) == (["x", "y"], "viewer")
    assert found["facts"]["people"] == 12
    assert found["facts"]["sequences"] == sum(found["lengths"]["counts"]) == len(set(rows(table, "viewer", "trial")))
    assert [column["numeric"] for column in found["columns"]] == [False, True, True, True]
    assert len(found["drawn"]) == 12
    assert found["problem"] is None


def test_roles_that_are_given_are_used(table):
    found = look(table, {"id": ["viewer"], "values": ["y"]}, whole=True)
    assert found["facts"]["sequences"] == 12
    assert found["roles"]["values"] == ["y"]


def test_columns_of_categories_are_understood(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("person,page\n" + "".join(f"p{k // 6},{'abc'[k % 3]}\n" for k in range(60)))
    found = look(path, {"id": ["person"], "values": ["page"], "categories": ["page"]}, whole=True)
    assert found["problem"] is None
    assert found["roles"]["categories"] == ["page"]
    assert found["channels"][0]["categories"] == ["a", "b", "c"]
    assert table_arguments({"id": ["person"], "values": ["page"], "categories": ["page"]})[-1] == "--categories=page"


def test_the_beginning_of_a_large_table_comes_first(tmp_path):
    path = tmp_path / "large.csv"
    path.write_text("id,x,y\n" + "".join(f"s{k // 1000},{k % 7}.25,{k % 11}.125\n" for k in range(400_000)))
    first, whole = look(path, {}, whole=False), look(path, {}, whole=True)
    assert first["partial"]
    assert not whole["partial"]
    assert 10 < first["facts"]["sequences"] < whole["facts"]["sequences"] == 400


BROKEN = "subject,trial,x,y\na,1,1.5,2\na,1,oops,3\na,1,2.5,4\nb,1,1.5,n.a\nb,1,2.5,?\n"


def test_every_bad_cell_is_named_with_its_row(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text(BROKEN)
    problem = look(path, {"id": ["subject", "trial"], "values": ["x", "y"]}, whole=True)["problem"]
    assert [(cell["row"], cell["column"], cell["value"]) for cell in problem["cells"]] == [
        (3, "x", "'oops'"), (5, "y", "'n.a'"), (6, "y", "'?'")
    ]  # fmt: skip
    assert problem["text"].startswith("broken.csv, row 3: column 'x' has 'oops', which is not a number")
    assert str(tmp_path) not in problem["text"]


def test_decimal_commas_are_no_bad_cells(tmp_path):
    path = tmp_path / "broken.csv"
    rows = [f"s{k // 6};{k},5;{k},25" for k in range(24)]
    rows[7], rows[9] = "s1;oops;7,25", "s1;9,5;blink"
    path.write_text("subject;x;y\n" + "\n".join(rows) + "\n")
    problem = look(path, {}, whole=True)["problem"]
    assert [(cell["column"], cell["value"]) for cell in problem["cells"]] == [("x", "'oops'"), ("y", "'blink'")]


def test_bad_cells_can_be_emptied(tmp_path):
    path, target = tmp_path / "broken.csv", tmp_path / "fixed.csv"
    path.write_text(BROKEN)
    options = reading_options({"id": ["subject", "trial"], "values": ["x", "y"]})
    emptied(path, options, bad_cells(path, options, "x"), target)
    found = look(target, {"id": ["subject", "trial"], "values": ["x", "y"]}, whole=True)
    assert found["problem"] is None
    assert found["facts"]["missing"] == 3
    assert target.read_text().splitlines()[2] == "a,1,,3"


@pytest.mark.parametrize(("name", "content", "said"), [
    ("empty.csv", b"\n", "is empty"),
    ("nohead.csv", b"1,2\n3,4\n", "no header"),
    ("which.csv", b"a,b\n1,2\n3,4\n", "the role “sequence”"),
    ("ragged.csv", b"id,x\na,1\na,1,2,3\n", "row 3"),
    ("win.csv", b"id,x\nM\xfcller,1\n", "encoding"),
    ("not.xlsx", b"PK\x03\x04 nothing", "spreadsheet"),
    ("not.npz", b"nothing", "npz"),
    ("not.parquet", b"nothing", "parquet"),
])  # fmt: skip
def test_files_that_cannot_be_read_are_explained(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    assert said in look(path, {}, whole=True)["problem"]["text"]


def test_a_time_that_is_none_can_be_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,frame,x\n" + "".join(f"s{k // 4},7,{k}\n" for k in range(12)))
    found = look(path, {}, whole=True)
    assert "two rows with frame = 7" in found["problem"]["text"]
    assert found["roles"]["time"] == "frame"  # the page shows it, to be changed
    found = look(path, {"id": ["id"], "values": ["x"], "time": ""}, whole=True)
    assert (found["problem"], found["roles"]["time"], found["facts"]["sequences"]) == (None, None, 3)
    table = {"file": "t.csv", "roles": {"time": ""}, "understood": found["roles"]}
    assert "--time=" in table_arguments(explicit_roles(table))


def test_npz_and_parquet_are_looked_at_too(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(12.0).reshape(6, 2), lengths=[2, 4])
    found = look(tmp_path / "a.npz", {}, whole=True)
    assert (found["facts"]["sequences"], found["columns"]) == (2, [])
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]}), tmp_path / "a.parquet")
    found = look(tmp_path / "a.parquet", {}, whole=True)
    assert [column["name"] for column in found["columns"]] == ["id", "x"]
    assert found["facts"]["sequences"] == 2


# settings


def test_settings_become_the_command():
    model = Model.of({"states": [2, 4], "covariance": "full", "topology": "ergodic", "tau": 7, "polish": False}, 3)
    roles = {"id": ["a", "b"], "values": ["--help", "x y"], "group": "a"}
    words = cluster_command(Path("t.csv"), roles, model, Path("out"))
    assert words == [
        "cluster", "t.csv", "--id=a,b", "--values=--help,x y", "--group=a", "--clusters", "3", "--states", "2-4",
        "--covariance", "full", "--tau", "7", "--no-polish", "-o", "out",
    ]  # fmt: skip


def test_bayes_becomes_the_command():
    words = cluster_command(Path("t.csv"), {}, Model.of({"states": [1, 4], "method": "vb"}, "auto"), Path("out"))
    assert words == ["cluster", "t.csv", "--clusters", "auto", "--states", "1-4", "--method", "vb", "-o", "out"]


@pytest.mark.slow
@pytest.mark.parametrize("model", [{"method": "vb"}, {"polish": False, "per": "sequence", "tau": 5}])
def test_whatever_was_chosen_is_repeated(app, finished, tmp_path, monkeypatch, capsys, model):
    run = finished_run(app, finished[0], 2, states=2, starts=1, **model)
    check_repeated(app, run, tmp_path / "again", monkeypatch, capsys)


def test_kinds_of_values_become_families():
    model = Model.of({"emissions": {"x": "gaussian", "n": "poisson", "y": "gaussian"}}, 2)
    assert model.arguments() == ["--states", "3", "--emissions=x,y=gaussian", "--emissions=n=poisson"]
    assert Model.of({"emissions": {"x": "gaussian"}}, 2).arguments() == ["--states", "3"]


def test_the_page_knows_every_family():
    page = (Path(vhem.__file__).parent / "app" / "static" / "model.js").read_text(encoding="utf-8")
    known = page[page.index("const KINDS") : page.index("function kinds")]
    assert [name for name in CHOICES if f"  {name}: [" not in known and f'  "{name}": [' not in known] == []


@pytest.mark.parametrize("given", [
    {"states": 0}, {"states": [3, 2]}, {"states": "3"}, {"states": True}, {"tau": 0}, {"tau": 1.5}, {"seed": -1},
    {"emissions": {"x": "round"}}, {"emissions": {"a,b": "poisson"}}, {"emissions": "poisson"},
    {"covariance": "round"}, {"topology": "; rm"}, [], {"mix": "1"}, {"method": "magic"},
])  # fmt: skip
def test_odd_settings_are_refused(given):
    with pytest.raises(ChoiceError):
        Model.of(given, 3)


def test_columns_with_commas_are_refused_with_a_cure():
    with pytest.raises(ChoiceError, match="Rename it"):
        checked_roles({"values": ["a,b"]})


def test_roles_are_made_explicit():
    table = {
        "file": "t.csv",
        "roles": {"decimal": ","},
        "understood": {"id": [], "time": None, "values": ["x"], "group": None},
    }
    assert table_arguments(explicit_roles(table)) == ["--values=x", "--decimal=,", "--one-sequence"]
    assert explicit_roles({**table, "file": "t.npz"}) == {"decimal": ","}


def test_a_waiting_run_says_for_what(tmp_path):
    store = Store(tmp_path)
    job = {"data": "0" * 12, "clusters": 2, "range": None}
    running, statistics, waiting, later = (store.new_run() for _ in range(4))
    running.write({**job, "data_name": "first.csv", "made": 1.0, "state": "running"})
    statistics.write({**job, "data_name": "old.csv", "made": 2.0, "state": "stopped"})
    waiting.write({**job, "data_name": "second.csv", "made": 3.0, "state": "queued"})
    later.write({**job, "data_name": "third.csv", "made": 4.0, "state": "queued"})
    before = Queue(store).status(later)["before"]  # a queue that was never started
    assert [run["data_name"] for run in before] == ["first.csv", "second.csv"]


def test_the_store_knows_only_its_own_ids(tmp_path):
    store = Store(tmp_path)
    record, _ = store.new_data("a.csv")
    record.write({"made": 1})
    assert store.data(record.id).read() == {"made": 1}
    for odd in ("../runs", "", None, 3, record.id.upper(), record.id + "0", "0" * 12):
        with pytest.raises(NotFoundError):
            store.data(odd)


@pytest.mark.parametrize("name", ["", "..", ".csv", "/", "-rf.csv", "a\0b.csv", "x" * 500 + ".csv", "con\n.csv"])
def test_names_become_harmless(name):
    made = harmless_name(name)
    assert 0 < len(made) < 100
    assert not set(made) & set("/\\\0\n$;'\" ")
    assert not made.startswith((".", "-"))


def test_more_work_takes_longer():
    facts = {"people": 40, "sequences": 600, "rows": 5000, "median": 8}
    once = seconds(facts, 2, {}, [3], compare=False)
    assert seconds(facts, 2, {"states": 6}, [3], compare=False) > once
    assert seconds({**facts, "rows": 500_000}, 2, {}, [3], compare=False) > once
    assert seconds(facts, 2, {}, [2, 3, 4], compare=True) > once
    assert seconds(facts, 2, {}, [2, 3], compare=False) > once


def test_the_estimate_learns_how_fast_the_machine_is(tmp_path, monkeypatch):
    store = Store(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    busy = 4**0.6  # four processes per core
    for load, factor in ((0.5, 1.0), (8.0, busy)):  # nothing has been run: only how busy it is
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0, 0), raising=False)
        assert machine_factor(store) == pytest.approx(factor)
    for k in range(3):
        job = {"state": "done", "estimate": 2.0, "started": 10.0, "ended": 22.0, "made": k, "crowd": 2.0}
        store.new_run().write(job)
    assert machine_factor(store) == pytest.approx(3 * busy)  # three times as long, beside what is going on


def following(tmp_path, *lines):
    (tmp_path / "now.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = Progress(tmp_path / "now.jsonl")
    progress.refresh()
    return progress


def test_the_time_left_is_that_of_this_run(tmp_path):
    parts = [Stage("cluster", "", 2.0), Stage("cluster", "learning", 10.0), Stage("report", "", 2.0)]
    begin = {"command": "cluster", "at": 0.0}
    assert how_far(parts, following(tmp_path), 0.0, 1.0) is None
    assert how_far(parts, following(tmp_path, begin), 0.0, 1.0).seconds == pytest.approx(14.0)
    assert how_far(parts, following(tmp_path, begin), 0.0, 3.0).seconds == pytest.approx(42.0)
    half = following(tmp_path, begin, {"step": "learning 4 HMMs"}, {"done": 0.5, "detail": ""})
    assert how_far(parts, half, 7.0, 1.0).seconds == pytest.approx(7.0)
    slow = how_far(parts, half, 70.0, 1.0).seconds  # the machine is ten times slower than was thought
    assert 45 < slow < 75
    unknown = following(tmp_path, begin, {"step": "learning 4 HMMs"})
    assert all(0 < how_far(parts, unknown, passed, 1.0).seconds < 14 * passed for passed in (2.0, 5.0, 12.0, 50.0))
    assert how_far(parts, following(tmp_path, begin, {"command": "report", "at": 9.0}), 12.0, 1.0).seconds < 3


# progress


def test_progress_is_read_as_it_is_written(tmp_path):
    path = tmp_path / "progress.jsonl"
    progress = Progress(path)
    progress.refresh()
    begin_command(path, "cluster", 5.0)
    with open(path, "a") as file:
        file.write('{"step": "learning 4 HMMs"}\n{"done": 0.5, "detail": "half"}\n{"note": "odd"}\nvhem: no')
        file.flush()
        progress.refresh()
        assert (progress.command, progress.step, progress.done, progress.notes) == (
            "cluster",
            "learning 4 HMMs",
            0.5,
            ["odd"],
        )
        assert progress.last_words() == ""  # its line has not ended
        file.write(" disk.\n")
    progress.refresh()
    assert progress.last_words() == "no disk."


def test_the_curve_is_that_of_the_latest_fit(tmp_path):
    path = tmp_path / "progress.jsonl"
    points = [(1, 0), (1, 1), (2, 0), (2, 1), (1, 0), (1, 1)]  # two restarts, then another number of clusters
    lines = [
        json.dumps({"done": 0.1, "bound": -1.0 * k, "restart": r, "iteration": i}) for k, (r, i) in enumerate(points)
    ]
    path.write_text("\n".join(lines) + "\n")
    progress = Progress(path)
    progress.refresh()
    assert progress.bounds == [[1, 0, -4.0], [1, 1, -5.0]]


def test_a_command_writes_json_lines(table, tmp_path):
    words = ["cluster", str(table), "-k", "2", "-s", "2", "-o", str(tmp_path / "o"), "--progress", "json"]
    said = run_here(*words)
    lines = [json.loads(line) for line in said.stderr.splitlines()]
    assert [line["step"].split()[0] for line in lines if "step" in line] == ["learning", "clustering", "refining"]
    assert "progress" not in RunFolder(tmp_path / "o").options


# runs and results


def test_a_run_leaves_what_the_command_leaves(app, finished):
    _, (two, three) = finished
    run = RunFolder(app.store.run(three).folder / "out")
    assert len(run.centers) == 3
    about = app.get(f"/api/runs/{three}/about")
    assert [one["clusters"] for one in about["siblings"]] == [2, 3]
    assert two in [one["id"] for one in about["others"]]
    assert about["commands"][0].startswith(
        "vhem cluster study.csv --id=viewer,trial --values=x,y --group=viewer --clusters 3"
    )
    status, headers, page = app.ask("GET", f"/api/runs/{three}/report")
    assert status == 200
    assert headers["content-security-policy"].startswith("sandbox")
    assert b"viewer 01" in page


def test_the_script_repeats_the_run(app, finished, table, monkeypatch, capsys):
    _, (_, three) = finished
    script = app.ask("GET", f"/api/runs/{three}/script")[2].decode()
    monkeypatch.chdir(table.parent)
    labels = RunFolder(app.store.run(three).folder / "out").labels
    expected = dict(zip(labels.ids, (labels.labels + 1).tolist(), strict=True))
    assert labels_of(script, capsys) == expected


def test_everything_in_one_file(app, finished):
    _, (two, _) = finished
    content = zipfile.ZipFile(io.BytesIO(app.ask("GET", f"/api/runs/{two}/zip")[2]))
    expected = {"labels.csv", "centers.vhem", "hmms.vhem", "report.html", "run.toml", "commands.txt", "repeat.py"}
    expected |= {"study.csv"}  # which the commands name
    assert expected <= set(content.namelist())
    assert app.ask("GET", f"/api/runs/{two}/file/labels.csv")[2] == content.read("labels.csv")
    assert app.ask("GET", f"/api/runs/{two}/file/job.json")[0] == 404


@pytest.mark.slow
def test_names_and_colours_go_into_the_report(app, finished):
    _, (two, _) = finished
    app.post(f"/api/runs/{two}/look", {"names": ["<Eyes>", ""], "colors": ["#112233"], "crop": [0, 300, 300, 0]})
    page = app.ask("GET", f"/api/runs/{two}/report")[2].decode()
    assert '"clusterNames":["\\u003cEyes\\u003e"],"colors":["#112233"],"crop":[0.0,300.0,300.0,0.0]' in page
    for odd in ({"names": ["a"] * 9}, {"colors": ["red"]}, {"crop": [1, 2]}, {"names": "a"}):
        assert app.ask("POST", f"/api/runs/{two}/look", odd)[0] == 400
    code, _, told = app.ask("POST", f"/api/runs/{two}/look", {"crop": [1, 1, 2, 3]})
    assert (code, "--crop must be" in told.decode()) == (400, True)  # the command's own words
    assert app.get(f"/api/runs/{two}")["look"]["colors"] == ["#112233"]


def test_two_runs_are_matched(app, finished):
    _, runs = finished
    one, other = (app.store.run(run).folder / "out" for run in runs)
    found = compare(one, other)
    a, b = RunFolder(one).labels.labels, RunFolder(other).labels.labels
    table = np.zeros((2, 3), int)
    np.add.at(table, (a, b), 1)
    assert found["table"] == table.tolist()
    best = max(table[0, i] + table[1, j] for i in range(3) for j in range(3) if i != j)
    assert found["common"] - len(found["moved"]) == best
    same = compare(one, one)
    assert (same["agreement"], same["moved"]) == (1.0, [])
    assert all(apart == pytest.approx(0, abs=1e-6) for _, _, apart in same["pairs"])
    status, headers, page = app.ask("GET", f"/api/compare/{runs[0]}/{runs[1]}")
    assert status == 200
    assert headers["content-security-policy"].startswith("sandbox")
    assert b"2 clusters and 3 clusters" in page


def test_runs_without_common_members_are_not_compared(app, finished, tmp_path):
    _, runs = finished
    out = app.store.run(runs[0]).folder / "out"
    for name in ("run.toml", "centers.vhem", "summary.json"):
        (tmp_path / name).write_bytes((out / name).read_bytes())
    (tmp_path / "labels.csv").write_text("id,cluster,probability,p1,p2\nnobody,1,1,1,0\n")
    with pytest.raises(NotComparableError, match="in common"):
        compare(out, tmp_path)


@pytest.mark.slow
def test_new_people_are_scored(app, finished, tmp_path):
    _, (two, _) = finished
    new = uploaded(app, write_table(tmp_path / "new.csv", n_viewers=5, n_trials=2))
    scores = app.post(f"/api/runs/{two}/score", {"data": new})
    assert scores["people"]["n"] == 5
    assert scores["notes"] == []
    assert scores["sequences"]["n"] == len(set(rows(tmp_path / "new.csv", "viewer", "trial")))
    run = RunFolder(app.store.run(two).folder / "out")
    sequences = vhem.read_sequences(tmp_path / "new.csv")
    likelihoods = run.centers.log_likelihoods(sequences) + np.log(run.centers.weights)
    column = scores["sequences"]["columns"].index("cluster")
    assert [int(row[column]) - 1 for row in scores["sequences"]["rows"]] == likelihoods.argmax(axis=1).tolist()
    assert app.ask("GET", f"/api/runs/{two}/scores/{new}/scores.csv")[0] == 200
    assert app.ask("GET", f"/api/runs/{two}/scores/{new}/scores.run.toml")[0] == 404


@pytest.mark.slow
def test_new_people_with_other_values_are_noted(app, finished, tmp_path):
    _, (two, _) = finished
    path = tmp_path / "other.csv"
    path.write_text("viewer,trial,u,v\n" + "".join(f"a,{k // 5},{1e4 + k},{k}\n" for k in range(20)))
    names, fit = app.post(f"/api/runs/{two}/score", {"data": uploaded(app, path)})["notes"]
    assert names.startswith("The run is about x, y; this table has u, v.")
    assert fit.startswith("a fits worse than everybody the clusters were made of")


def test_one_of_several_who_does_not_fit_is_named():
    assert _misfits({"Anna": -8.0, "Ben": -9.0}, -9.5) == []
    (note,) = _misfits({"Anna": -8.0, "Zoe": -236.0}, -9.5)
    assert note.startswith("Zoe fits worse than everybody")
    assert _misfits({"Anna": -80.0, "Zoe": -236.0}, -9.5)[0].startswith("All of them fit worse")


@pytest.mark.slow
def test_what_goes_with_the_clusters(app, finished, tmp_path):
    _, (two, _) = finished
    labels = RunFolder(app.store.run(two).folder / "out").labels
    path = tmp_path / "people.csv"
    people = zip(labels.ids, labels.labels, strict=True)
    ages = [f"{name},{30 + 20 * cluster + k % 3}" for k, (name, cluster) in enumerate(people)]
    path.write_text("viewer,age\n" + "\n".join(ages) + "\n")
    data = json.loads(app.ask("POST", "/api/data?name=people.csv", path.read_bytes())[2])["id"]
    found = app.post(f"/api/runs/{two}/associate", {"data": data})
    assert found["table"]["rows"][0][0] == "age"
    assert "age" in found["sentence"]
    path.write_text("viewer,age\nnobody,3\n")
    data = json.loads(app.ask("POST", "/api/data?name=people.csv", path.read_bytes())[2])["id"]
    assert app.ask("POST", f"/api/runs/{two}/associate", {"data": data})[0] == 400


def test_files_are_called_as_the_user_calls_them(app, finished, table):
    data = json.loads(app.ask("POST", "/api/data?name=My%20study%20(2).csv", table.read_bytes())[2])["id"]
    looked_at(app, data)
    app.ask("POST", f"/api/data/{data}/picture?name=the%20face.png", b"\x89PNG")
    job = {**app.store.run(finished[1][0]).read(), "data": data}
    run = app.store.new_run()
    run.write({**job, "made": 0.0})
    shutil.copytree(app.store.run(finished[1][0]).folder / "out", run.folder / "out")
    commands = app.get(f"/api/runs/{run.id}/about")["commands"]
    assert "'My study (2).csv'" in commands[0]
    assert "'--image=the face.png'" in commands[-1]
    content = zipfile.ZipFile(io.BytesIO(app.ask("GET", f"/api/runs/{run.id}/zip")[2]))
    assert {"My study (2).csv", "the face.png"} <= set(content.namelist())
    run.remove()


def test_columns_of_text_that_are_not_used_are_noted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x,mood\n" + "".join(f"s{k // 4},{k % 5},{'good' if k % 3 else 'bad'}\n" for k in range(24)))
    assert any("“mood” holds text and is not used" in note for note in look(path, {}, whole=True)["notes"])
    assert not look(path, {"id": ["id"], "values": ["x"]}, whole=True)["notes"]


def test_runs_that_fail_say_why_and_keep_nobody_waiting(app, finished):
    data, runs = finished
    lost = app.store.new_run()
    lost.write({**app.store.run(runs[0]).read(), "data": "0" * 12, "state": "queued", "made": 0.0})
    run = started(app, data, clusters=50)
    failed = wait_for(lambda: (now := app.get(f"/api/runs/{run}"))["state"] == "failed" and now)
    assert "--clusters" in failed["error"]
    assert "no longer there" in lost.read()["error"]


# accidents


def long_table(path):
    """Write a table that keeps a run busy: learned in three parts."""
    rng = np.random.default_rng(0)
    lines = [f"s{k},{x:.3f},{y:.3f}\n" for k in range(2400) for x, y in rng.normal(size=(12, 2))]
    path.write_text("id,x,y\n" + "".join(lines))
    return path


def written(folder):
    """When each file of a folder was written that is still there."""
    times = {}
    for path in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            times[path] = path.stat().st_mtime_ns
    return times


@pytest.mark.slow
def test_a_run_can_be_stopped_and_resumed(app, tmp_path):
    data = uploaded(app, long_table(tmp_path / "long.csv"))
    run = started(app, data, states=3, starts=30, polish=False)
    out = app.store.run(run).folder / "out"
    wait_for((out / "partial" / "part-00000.vhem").is_file)
    asked = app.post(f"/api/runs/{run}/stop")
    assert asked["stopping"] or asked["state"] == "stopped"
    wait_for(lambda: app.get(f"/api/runs/{run}")["state"] == "stopped")
    kept = written(out / "partial")
    assert kept
    app.post(f"/api/runs/{run}/again")
    wait_for(
        lambda: app.get(f"/api/runs/{run}")["progress"]["bounds"] or app.get(f"/api/runs/{run}")["state"] == "done"
    )
    now = written(out / "partial")  # a run that has ended removes them, so some or all may be gone
    assert now.items() <= {**now, **kept}.items()
    ended(app, run)


@pytest.mark.slow
def test_runs_outlive_the_app(tmp_path, table):
    app = RunningApp(tmp_path)
    data = uploaded(app, table)
    first, second = started(app, data), started(app, data, clusters=3)
    wait_for(lambda: app.get(f"/api/runs/{first}")["state"] == "running")
    app.close()
    assert [Store(tmp_path).run(run).read()["state"] for run in (first, second)] == ["queued", "queued"]
    again = RunningApp(tmp_path)
    try:
        ended(again, first)
        ended(again, second)
    finally:
        again.close()


@pytest.mark.slow
def test_a_reader_that_dies_is_replaced(tmp_path, table):
    app = RunningApp(tmp_path, processes=True)
    try:
        data = uploaded(app, table)
        for process in list(app.state.workers.start()._processes.values()):
            process.kill()
        assert looked_at(app, data)["facts"]["people"] == 12
    finally:
        app.close()
