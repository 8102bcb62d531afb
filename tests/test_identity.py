"""Which sequence is which: keys, not the names that are shown, tell sequences apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vhem
from vhem import Sequences, read_parts, read_sequences


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def dotted(tmp_path):
    """A folder of files whose names have points in them."""
    for k in (1, 2, 3):
        write(tmp_path / "data" / f"p.{k}.csv", "time,x", *(f"{t},{(t * k) % 7}" for t in range(30)))
    return tmp_path / "data"


def test_points_in_the_names_of_files(dotted):
    assert read_sequences(dotted).ids == ["p.1", "p.2", "p.3"]
    assert read_sequences(dotted / "p.2.csv", id=[]).ids == ["p.2"]


def test_every_file_has_an_hmm_of_its_own(dotted, tmp_path):
    from typer.testing import CliRunner

    from vhem.cli import app

    arguments = ["fit", str(dotted), "-o", str(tmp_path / "out"), "--states", "1", "--one-sequence", "--quiet"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    found = vhem.load(tmp_path / "out" / "hmms.vhem")
    assert found.ids == ["p.1", "p.2", "p.3"]


def test_files_that_differ_in_their_extension_only(tmp_path):
    write(tmp_path / "a.csv", "x", "1", "2")
    write(tmp_path / "a.tsv", "x", "3", "4")
    assert read_sequences(tmp_path).ids == ["a.csv", "a.tsv"]


COLLIDING = {"person": ["a / b", "a / b", "a", "a"], "trial": ["c", "c", "b / c", "b / c"], "x": [1.0, 2.0, 3.0, 4.0]}


def check_two(sequences):
    assert sequences.keys == [("a / b", "c"), ("a", "b / c")]
    assert sequences.lengths.tolist() == [2, 2]
    assert len(set(sequences.ids)) == 2


def test_cells_with_the_separator_in_them(tmp_path):
    lines = [f"{p},{t},{x}" for p, t, x in zip(*COLLIDING.values(), strict=True)]
    write(tmp_path / "t.csv", "person,trial,x", *lines)
    check_two(read_sequences(tmp_path / "t.csv", id=["person", "trial"]))
    check_two(Sequences.from_table(COLLIDING, id=["person", "trial"], values=["x"]))
    check_two(read_sequences(tmp_path / "t.csv", id=["person", "trial"])[[0, 1]])
    check_two(Sequences(read_sequences(tmp_path / "t.csv", id=["person", "trial"])))


def test_cells_with_the_separator_in_parts_of_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(COLLIDING), tmp_path / "t.parquet", row_group_size=1)
    whole = [p.read() for p in read_parts(tmp_path / "t.parquet", ["person", "trial"], values=["x"], rows_per_part=1)]
    assert [key for part in whole for key in part.keys] == [("a / b", "c"), ("a", "b / c")]
    assert len({name for part in whole for name in part.ids}) == 2


def test_keys_are_kept_in_files(tmp_path):
    sequences = Sequences.from_table(COLLIDING, id=["person", "trial"], values=["x"])
    sequences.save(tmp_path / "s.vhem")
    check_two(vhem.load(tmp_path / "s.vhem"))
    twice = sequences[[0, 0]]
    twice.save(tmp_path / "s.vhem")
    assert vhem.load(tmp_path / "s.vhem").keys == [("a / b", "c")] * 2


@given(st.lists(st.tuples(st.text(" /'a"), st.text(" /'a")), unique=True, min_size=2, max_size=6))
def test_different_keys_have_different_names(keys):
    table = {"a": [k[0] for k in keys], "b": [k[1] for k in keys], "x": np.arange(len(keys))}
    found = Sequences.from_table(table, id=["a", "b"], values=["x"])
    assert found.keys == keys
    assert len(set(found.ids)) == len(keys)


def test_numbers_and_text_that_look_alike():
    table = {"a": np.array([1, "1"], dtype=object), "b": ["u", "u"], "x": [1.0, 2.0]}
    assert len(set(Sequences.from_table(table, id=["a", "b"], values=["x"]).ids)) == 2


def test_an_id_names_one_sequence():
    with pytest.raises(ValueError, match=r"sequences 0 and 2 the same id, 'a'.*as groups"):
        Sequences([[1.0], [2.0], [3.0]], ids=["a", "b", "a"])
    with pytest.raises(ValueError, match="sequences 0 and 1"):
        Sequences.from_concatenated([1.0, 2.0], [1, 1], ids=[5, 5])
    with pytest.raises(TypeError, match=r"ids has the list \['a'\]"):
        Sequences([[1.0], [2.0]], ids=[["a"], ["b"]])


@pytest.mark.parametrize("second", ["1,3", "bob,4\n1,3", "01,3\n1,3"])
def test_one_file_per_sequence_whatever_the_ids_look_like(tmp_path, second):
    write(tmp_path / "1.csv", "id,x", "1,1", "2,2")
    write(tmp_path / "2.csv", "id,x", second)
    with pytest.raises(ValueError, match=r"sequence '?1'? is in .*1\.csv and in .*2\.csv"):
        read_sequences(tmp_path, id="id")


def test_names_of_several_files_are_of_one_kind(tmp_path):
    write(tmp_path / "1.csv", "id,who,x", "1,7,1", "1,7,5", "2,8,2")
    write(tmp_path / "2.csv", "id,who,x", "bob,7,3", "eve,nine,4")
    found = read_sequences(tmp_path, id="id", group="who")
    assert found.ids == ["1", "2", "bob", "eve"]
    assert found.groups == ["7", "8", "7", "nine"]


def test_digits_of_other_scripts_are_names(tmp_path):
    write(tmp_path / "t.csv", "id,x", "12,1", "1\u0662,2", "12,3")
    found = read_sequences(tmp_path / "t.csv")
    assert found.ids == ["12", "1\u0662"]
    assert found.lengths.tolist() == [2, 1]
    write(tmp_path / "t.csv", "id,x", "a,1", "a,2", "a,1\u0662")
    with pytest.raises(ValueError, match=r"row 4: column 'x' has .*not a number"):
        read_sequences(tmp_path / "t.csv")


def test_long_numbers_are_names(tmp_path):
    long = "9" * 5000
    write(tmp_path / "t.csv", "id,x", f"{long},1", f"{long},2", "3,4")
    assert read_sequences(tmp_path / "t.csv", id="id").ids == [long, "3"]


def test_hidden_files_and_folders_are_left_alone(tmp_path):
    for name in ("a.csv", ".b.csv", "._a.csv", ".ipynb_checkpoints/a.csv", ".git/x/c.csv", "sub/.DS_Store", "~$b.xlsx"):
        write(tmp_path / name, "x", "1", "2")
    assert read_sequences(tmp_path).ids == ["a"]
    assert [part.name for part in read_parts(tmp_path)] == ["a.csv"]
    hidden = tmp_path / ".cache" / "data"  # a hidden folder that is asked for is read
    write(hidden / "d.csv", "x", "1", "2")
    assert read_sequences(hidden).ids == ["d"]


def test_negative_ids_in_parts_of_parquet(tmp_path):
    """-1 and -2 have the same hash in Python."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ids = [-1, -1, 5, -2, -2]
    pq.write_table(pa.table({"id": ids, "x": np.arange(5.0)}), tmp_path / "t.parquet", row_group_size=1)
    parts = [part.read() for part in read_parts(tmp_path / "t.parquet", "id", values=["x"], rows_per_part=1)]
    assert [name for part in parts for name in part.ids] == [-1, 5, -2]
    assert [length for part in parts for length in part.lengths] == [2, 1, 2]
