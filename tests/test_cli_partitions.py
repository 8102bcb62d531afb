"""The command on data in parts, and on a Dask cluster."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import random_h3m
from test_cli import run
from test_partitioned import write_parquet

import vhem
from vhem.cli import partitions
from vhem.cli.run_folder import RunFolder


@pytest.fixture
def days(tmp_path):
    """A folder of Parquet files."""
    folder = tmp_path / "days"
    folder.mkdir()
    sequences, _ = random_h3m(np.random.default_rng(0), K=3, d=2).sample(600, 20, random_state=1)
    for k in range(3):
        part = sequences[k * 200 : (k + 1) * 200]
        write_parquet(folder / f"day{k}.parquet", part, 1500, ids=part.ids)
    return folder, sequences


def mixture_of(folder, out, *more, **arguments):
    words = ("--partitions", "--id", "id", "--values", "x,y", "--rows-per-part", 2000, "-k", 3)
    return run("mixture", folder, *words, "-o", out, *more, **arguments)


def test_mixture_of_parts(days, tmp_path):
    folder, sequences = days
    numbers = json.loads(mixture_of(folder, tmp_path / "out", "--json").stdout)
    assert numbers["input"] == {"sequences": 600, "frames": 12000, "parts": 6, "values": ["x", "y"]}
    assert sum(row["n_members"] for row in numbers["clusters"]) == 600
    found = RunFolder(tmp_path / "out")
    assert found.labels.ids == [str(i) for i in range(600)]
    assert np.array_equal(found.labels.labels, found.centers.predict(sequences))
    np.testing.assert_allclose(found.labels.responsibilities, found.centers.predict_proba(sequences), atol=1e-12)
    assert not list((tmp_path / "out").glob("*.checkpoint"))
    parts = vhem.read_parts(folder, id="id", values=["x", "y"], rows_per_part=2000)
    fit = vhem.PartitionedH3M(3, 3, tau=20, random_state=0).fit(parts)
    assert found.centers == fit.model_.with_ids([1, 2, 3])
    assert found.about["typical_length"] == 20
    text = run("mixture", "--config", tmp_path / "out", folder, "-o", tmp_path / "again").stdout
    assert "Read 600 sequences, 12,000 frames in 6 parts; values: x, y." in text
    with open(tmp_path / "again" / "labels.csv") as one, open(tmp_path / "out" / "labels.csv") as other:
        assert list(csv.reader(one)) == list(csv.reader(other))


def test_tables_of_text_in_parts_keep_their_names(tmp_path):
    """Columns are guessed once, for all parts alike, and named in what is printed and written."""
    rng, folder = np.random.default_rng(0), tmp_path / "days"
    folder.mkdir()
    for day in range(2):
        rows = [f"{trip},{t},{x:.3f},{y:.3f}" for trip in range(30) for t, (x, y) in enumerate(rng.normal(size=(8, 2)))]
        (folder / f"{day}.csv").write_text("\n".join(["trial,time,speed,height", *rows]))
    shown = run("mixture", folder, "--partitions", "-k", 2, "--states", 2, "-o", tmp_path / "out").stdout
    assert "in 2 parts; values: speed, height." in shown
    assert "the time: speed " in shown
    assert RunFolder(tmp_path / "out").feature_names == ["speed", "height"]
    (folder / "2.csv").write_text("trial,time,height,weight\n1,1,2,3\n1,2,2,3\n")
    message = run("mixture", folder, "--partitions", "-k", 2, "-o", tmp_path / "other", code=1).stderr
    assert "part '2.csv'" in message
    assert "there is no column 'speed'" in message
    assert "--skip-broken" in message


def test_equal_ids_in_two_files_are_told_apart(tmp_path):
    """Trip 7 of Monday and trip 7 of Tuesday are two sequences: no two rows of labels.csv name the same one."""
    folder, centers = tmp_path / "days", {"monday": 0.0, "tuesday": 50.0}
    folder.mkdir()
    rng = np.random.default_rng(0)
    for day, center in centers.items():
        rows = [f"{trip},{x:.3f}" for trip in range(20) for x in center + rng.normal(size=10)]
        (folder / f"{day}.csv").write_text("\n".join(["trip,speed", *rows]))
    run("mixture", folder, "--partitions", "--id", "trip", "-k", 2, "--states", 1, "-o", tmp_path / "out")
    with open(tmp_path / "out" / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({(row["part"], row["id"]) for row in rows}) == len(rows) == 40
    clusters = {day: {row["cluster"] for row in rows if row["part"] == f"{day}.csv"} for day in centers}
    assert [len(found) for found in clusters.values()] == [1, 1]
    assert clusters["monday"] != clusters["tuesday"]


def test_broken_parts(days, tmp_path):
    folder, _ = days
    (folder / "day1.csv").write_text("not a table")  # where there is Parquet, nothing else is read
    pq.write_table(pa.table({"id": [1, 1], "x": [0.0, np.inf], "y": [0.0, 0.0]}), folder / "day3.parquet")
    message = mixture_of(folder, tmp_path / "out", code=1).output
    assert "part 'day3.parquet, row groups 0 to 0': sequence 0 (id 1) has inf" in message
    result = mixture_of(folder, tmp_path / "out", "--skip-broken")
    assert "in 6 parts (1 more were broken)" in result.stdout
    assert "1 of 7 parts was skipped" in result.output


def test_bad_options(days, tmp_path, monkeypatch):
    monkeypatch.setattr(partitions, "_CONNECT", 1.0)
    folder, _ = days
    assert "--group and --one-sequence" in mixture_of(folder, tmp_path / "out", "--group", "x", code=1).output
    message = mixture_of(folder, tmp_path / "out", "--decimal", ",", code=1).output
    assert "do not work with --partitions" in message
    words = ("mixture", folder, "-k", 3, "-o", tmp_path / "out", "--dask", "tcp://127.0.0.1:1")
    assert "--dask needs --partitions" in run(*words, code=1).output
    message = mixture_of(folder, tmp_path / "out", "--dask", "tcp://127.0.0.1:1", code=1).output
    assert "no Dask scheduler at tcp://127.0.0.1:1" in message


@pytest.mark.slow
def test_on_a_dask_cluster(days, tmp_path):
    distributed = pytest.importorskip("distributed")
    folder, _ = days
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        mixture_of(folder, tmp_path / "there", "--dask", cluster.scheduler_address)
        words = ("cluster", folder, "--id", "id", "--values", "x,y", "-k", 3, "--starts", 1)
        run(*words, "-o", tmp_path / "clusters", "--dask", cluster.scheduler_address)
    mixture_of(folder, tmp_path / "here")
    run(*words, "-o", tmp_path / "clusters here")
    assert RunFolder(tmp_path / "there").centers == RunFolder(tmp_path / "here").centers
    assert RunFolder(tmp_path / "clusters").centers == RunFolder(tmp_path / "clusters here").centers
