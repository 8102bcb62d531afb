"""Files of all kinds to sequences: what is read, what is guessed, what is refused with its row."""

from __future__ import annotations

import csv
import gzip
import tracemalloc
import zipfile

import numpy as np
import pytest
from helpers import faces_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bvh import FILE as BVH

import vhem
from vhem import Sequences, read_sequences
from vhem.sequences.readers.options import Options
from vhem.sequences.readers.read import read_with_roles

ROWS = [
    ("subject", "trial", "time", "x", "y"),
    ("ann", "1", "2", "0.5", "1"),
    ("bob", "1", "1", "7", "8e-1"),
    ("ann", "1", "1", "0.25", ""),
    ("ann", "2", "1", "-1", "NA"),
]
EXPECTED = Sequences(
    [[[0.25, np.nan], [0.5, 1.0]], [[7.0, 0.8]], [[-1.0, np.nan]]],
    ids=["ann / 1", "bob / 1", "ann / 2"],
    groups=["ann", "bob", "ann"],
)


def text(rows, delimiter=",", end="\n"):
    return "".join(delimiter.join(row) + end for row in rows)


def with_commas(rows):
    return [rows[0], *([cell.replace(".", ",") for cell in row] for row in rows[1:])]


@pytest.mark.parametrize(
    "content",
    [
        text(ROWS),
        text(ROWS, "\t"),
        text(ROWS, ";", "\r\n"),
        text(ROWS, "|"),
        "\ufeff" + text(ROWS),
        text(ROWS).rstrip("\n"),
        "\n" + text(ROWS[:3]) + "\n,,,,\n" + text(ROWS[3:]) + "\n\n",
        text(with_commas(ROWS), ";"),
        text(with_commas(ROWS), "\t"),
        text([[f'"{cell}"' for cell in row] for row in with_commas(ROWS)]),
        text([[f" {cell} " for cell in row] for row in ROWS]),
        text([(*row, "") for row in ROWS]),
        text(ROWS, end="\r"),
    ],
    ids=["csv", "tsv", "crlf", "bar", "bom", "no-end", "blank", "comma", "comma-tsv", "quoted", "spaces", "tail", "cr"],
)
def test_ways_to_write_a_table(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_text(content, encoding="utf-8", newline="")
    assert read_sequences(path) == EXPECTED


def test_other_encodings_and_compression(tmp_path):
    rows = [*ROWS[:1], *([row[0].replace("ann", "änne"), *row[1:]] for row in ROWS[1:])]
    expected = Sequences(
        EXPECTED, [i.replace("ann", "änne") for i in EXPECTED.ids], [g.replace("ann", "änne") for g in EXPECTED.groups]
    )
    path = tmp_path / "table.csv"
    path.write_text(text(rows), encoding="utf-16")
    assert read_sequences(path) == expected
    path.write_text(text(rows), encoding="cp1252")
    with pytest.raises(ValueError, match=r"not in UTF-8: byte 0xe4.*'cp1252'"):
        read_sequences(path)
    assert read_sequences(path, encoding="cp1252") == expected
    with gzip.open(tmp_path / "table.csv.gz", "wt", encoding="utf-8") as file:
        file.write(text(rows))
    assert read_sequences(tmp_path / "table.csv.gz") == expected


NUMBERS = st.one_of(st.floats(-1e150, 1e150), st.none())


@pytest.mark.filterwarnings("ignore:.*(single frame|same value)")
@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b c", "d,e", 'f"g', "h\ni"]), NUMBERS, NUMBERS), min_size=1, max_size=40),
    st.sampled_from(",;\t"),
    st.booleans(),
)
def test_what_was_written_is_read(tmp_path_factory, rows, delimiter, quotes):
    """Values bit for bit, from a file that Python's csv module wrote."""
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL if quotes else csv.QUOTE_MINIMAL)
        writer.writerows([("id", "x", "y"), *rows])
    table = {name: [row[k] for row in rows] for k, name in enumerate(("id", "x", "y"))}
    table = {**table, **{name: [np.nan if v is None else v for v in table[name]] for name in ("x", "y")}}
    expected = Sequences.from_table(table, id="id", values=["x", "y"])
    found = read_sequences(path, id="id", values=["x", "y"])
    assert found == expected
    assert found.X.tobytes() == expected.X.tobytes()


@pytest.mark.filterwarnings("ignore:.*(single frame|same value)")
@settings(max_examples=40)
@given(st.data())
def test_chunks_do_not_show(tmp_path_factory, data):
    """However the text falls into chunks, and wherever blank lines and quotes are, the answer is the same."""
    n = data.draw(st.integers(1, 30))
    rows = [(f"s{data.draw(st.integers(0, 3))}", str(t), str(data.draw(st.integers(-9, 9)))) for t in range(n)]
    lines = ["id,time,x", *(",".join(row) for row in rows)]
    for place in data.draw(st.lists(st.integers(1, len(lines)), max_size=3)):
        lines.insert(place, data.draw(st.sampled_from(["", ",,"])))
    quoted = data.draw(st.integers(1, len(lines)))
    lines = [line.replace("s1", '"s1"') if k > quoted else line for k, line in enumerate(lines)]
    path = tmp_path_factory.getbasetemp() / "chunks.csv"
    path.write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vhem.sequences.readers.delimited._CHARACTERS", data.draw(st.integers(1, 60)))
        patch.setattr("vhem.sequences.readers.blocks._ROWS", data.draw(st.integers(1, 5)))
        found = read_sequences(path)
    table = {"id": [r[0] for r in rows], "time": [int(r[1]) for r in rows], "x": [float(r[2]) for r in rows]}
    assert found == Sequences.from_table(table, "id", "time", ["x"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("id,x\na,1\na,2\nb,oops\n", r"row 4: column 'x' has 'oops', which is not a number"),
        ("id,x\na,1\n\na,2\nb,inf\n", r"row 5: column 'x' has 'inf'; values must be finite"),
        ("id,x\na,1\na,2\nb,1_0\n", r"row 4: column 'x' has '1_0', which is not a number"),
        ("id;x\na;1,5\nb;2.5\n", r"row 3: column 'x' has '2\.5', with a point, where other decimals have commas"),
        ("id,x\na,1\n,2\n", r"row 3: column 'id' is empty; fill it or drop the row"),
        ("id,time,x\na,1,1\nb,1,2\na,2,3\na,1,4\n", r"sequence 'a' has two rows with time = 1\.0 \(row 2 and row 5\)"),
        ("id,time,x\na,1,1\na,,2\n", r"row 3: column 'time' is empty; give every row its time"),
        ("id,time,x\na,early,1\na,late,2\n", r"row 2: column 'time' has 'early', neither a number nor a date"),
        ("id,x\na,1\nb,1,5\n", r"row 3: 3 cells instead of 2.*decimal comma"),
        ("id,x\na,1\nb\n", r"row 3: 1 cells instead of 2"),
        ("id,x,x\na,1,2\n", "two columns named 'x'"),
        ("1,2\n3,4\n", r"no header: its first row is 1, 2"),
        ("id,x\n", "a header but no rows"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n1,2\n", r"which column identifies the sequences\? The columns are 'a', 'b'\. Give id"),
        ("first,second,x\nu,v,1\n", r"which column identifies the sequences\? The columns are 'first', 'second', 'x'"),
        ("id,name\na,b\n", "no column of numbers is left for the values"),
        ("id,sequence,x\na,b,1\n", "which column identifies the sequences"),
    ],
)
def test_refusals_name_the_row_and_the_cure(tmp_path, lines, message):
    path = tmp_path / "table.csv"
    path.write_text(lines)
    with pytest.raises(ValueError, match=message) as caught:
        read_sequences(path)
    assert str(path) in str(caught.value)


def test_groups_that_contradict_each_other(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,sex,x\na,f,1\nb,m,2\na,m,3\n")
    with pytest.raises(
        ValueError, match=r"'a' has sex = 'f' \(row 2\) and 'm' \(row 4\); a sequence has only one group"
    ):
        read_sequences(path, group="sex")
    with pytest.raises(ValueError, match=r"there is no column 'z'; the columns are 'id', 'sex', 'x'"):
        read_sequences(path, values="z")
    with pytest.raises(ValueError, match="decimal must be"):
        read_sequences(path, decimal=";")


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("id,x,y", (["id"], None, ["x", "y"], None)),
        ("SubjectID,TrialID,FixX,FixY", (["SubjectID", "TrialID"], None, ["FixX", "FixY"], "SubjectID")),
        ("participant,t,x", (["participant"], "t", ["x"], None)),
        (",id,frame,x", (["id"], "frame", ["x"], None)),
        ("id,time,timestamp,x", (["id"], None, ["x"], None)),
    ],
)
def test_guesses(tmp_path, header, roles):
    path = tmp_path / "t.csv"
    path.write_text(header + "\n" + ",".join("1" for _ in header.split(",")) + "\n")
    assert read_with_roles(path, Options()).roles[:4] == roles


def test_a_text_column_is_taken_for_the_id(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("who,x\nann,1\nann,2\nbob,3\n")
    assert read_sequences(path).ids == ["ann", "bob"]


def test_names_stay_as_they_are_written(tmp_path):
    path = tmp_path / "t.csv"
    for written, ids in ((["1", "20"], [1, 20]), (["007", "8"], ["007", "8"]), (["1.0", "2"], ["1.0", "2"])):
        path.write_text("id,x\n" + "".join(f"{name},1\n" for name in written))
        assert read_sequences(path).ids == ids


def test_dates_and_one_sequence(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("date,x\n2024-02-01,2\n2024-01-01 12:30:00,1\n")
    found = read_sequences(path, id=[])
    assert found.ids == ["walk"]
    assert found[0].ravel().tolist() == [1.0, 2.0]


def test_parquet_and_spreadsheets(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {name: [row[k] for row in ROWS[1:]] for k, name in enumerate(ROWS[0])}
    numbers = {k: [float(v) if v not in ("", "NA") else None for v in table[k]] for k in ("time", "x", "y")}
    pq.write_table(pa.table({**table, **numbers}), tmp_path / "t.parquet")
    assert read_sequences(tmp_path / "t.parquet") == EXPECTED
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "one.parquet")
    assert read_sequences(tmp_path / "one.parquet", id=[]).ids == ["one"]
    with pytest.raises(ValueError, match=r"one\.parquet: which column identifies the sequences"):
        read_sequences(tmp_path / "one.parquet")
    for broken in ("broken.parquet", "broken.xls", "broken.npz"):
        (tmp_path / broken).write_bytes(b"no such thing")
        with pytest.raises(ValueError, match=broken):
            read_sequences(tmp_path / broken)
    (tmp_path / "notes.docx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"unknown extension; known are \.bvh, \.csv"):
        read_sequences(tmp_path / "notes.docx")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_sequences(tmp_path / "none.csv")


def write_xlsx(path, rows):
    """Write the least that a spreadsheet program would: numbers, and text in the cells themselves."""

    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>' if value else "<c/>"
        return f"<c><v>{value}</v></c>"

    schemas = "http://schemas.openxmlformats.org"
    main, package = f"{schemas}/spreadsheetml/2006/main", f"{schemas}/package/2006"
    office = f"{schemas}/officeDocument/2006/relationships"
    kind = "application/vnd.openxmlformats"
    sheet = f"{kind}-officedocument.spreadsheetml"
    links = f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/'
    body = "".join("<row>" + "".join(map(cell, row)) + "</row>" for row in rows)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Default Extension="rels" ContentType="{kind}-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{sheet}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{sheet}.worksheet+xml"/></Types>',
        "_rels/.rels": f'{links}officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}">'
        '<sheets><sheet name="Data" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{links}worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text_of_part in parts.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text_of_part)


def test_xlsx(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "t.xlsx"
    header = ["subject", "trial", "time", "x", "y"]
    rows = [["ann", 1, 2, 0.5, 1], ["bob", 1, 1, 7, 0.8], ["ann", 1, 1, 0.25, ""], [""] * 5, ["ann", 2, 1, -1, "NA"]]
    write_xlsx(path, [header, *rows])
    assert read_sequences(path) == read_sequences(path, sheet="Data") == EXPECTED
    rows[2][3] = "a lot"
    write_xlsx(path, [header, *rows])
    with pytest.raises(ValueError, match=r"t\.xlsx, row 4: column 'x' has 'a lot', which is not a number"):
        read_sequences(path)


def test_npz(tmp_path):
    path = tmp_path / "s.npz"
    arrays = [np.arange(6.0).reshape(3, 2), np.ones((1, 2))]
    np.savez(path, X=np.concatenate(arrays), lengths=[3, 1], ids=["a", "b"], groups=[1, 1])
    assert read_sequences(path) == Sequences(arrays, ["a", "b"], [1, 1])
    np.savez(path, a=arrays[0], b=arrays[1])
    assert read_sequences(path) == Sequences(arrays, ["a", "b"])
    cube = np.arange(40.0).reshape(4, 5, 2)
    np.savez(path, cube)
    assert read_sequences(path) == Sequences(cube)
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"s\.npz cannot be read.*plain arrays"):
        read_sequences(path)


def test_folders_and_patterns(tmp_path):
    for who in ("ann", "bob"):
        (tmp_path / "data" / who).mkdir(parents=True)
        for trial in (1, 2):
            (tmp_path / "data" / who / f"t{trial}.csv").write_text(f"time,x\n2,{trial}\n1,0\n")
    (tmp_path / "data" / "README.md").write_text("not data")
    found = read_sequences(tmp_path / "data")
    assert found.ids == ["ann/t1", "ann/t2", "bob/t1", "bob/t2"]
    assert found.groups == ["ann", "ann", "bob", "bob"]
    assert found[1].ravel().tolist() == [0.0, 2.0]
    assert read_sequences(tmp_path / "data" / "ann").groups is None
    assert read_sequences(str(tmp_path / "data" / "*" / "t2.csv")).ids == ["ann/t2", "bob/t2"]
    (tmp_path / "data" / "bob" / "t2.csv").write_text("time,z\n1,2\n")
    with pytest.raises(ValueError, match=r"bob/t2\.csv has the columns \['z'\], but .*ann/t1\.csv has \['x'\]"):
        read_sequences(tmp_path / "data")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no file that could be read"):
        read_sequences(tmp_path / "empty")


def test_parts_of_one_table(tmp_path):
    (tmp_path / "1.csv").write_text("id,x\na,1\na,2\n")
    (tmp_path / "2.csv").write_text("id,x\nb,3\n")
    assert read_sequences(tmp_path, id="id").ids == ["a", "b"]
    (tmp_path / "3.csv").write_text("id,x\na,3\n")
    with pytest.raises(ValueError, match=r"sequence 'a' is in .* and in"):
        read_sequences(tmp_path, id="id")


def test_motion(tmp_path):
    path = tmp_path / "walk.bvh"
    path.write_text(BVH)
    whole = read_with_roles(path, Options())
    motion = vhem.sequences.readers.bvh.read_bvh(path)
    np.testing.assert_array_equal(whole.sequences[0], motion.channels)
    one = read_sequences(path, values=[whole.roles.values[2]])
    np.testing.assert_array_equal(one[0][:, 0], motion.channels[:, 2])


def test_memory_stays_near_the_size_of_the_numbers(tmp_path):
    path, n = tmp_path / "t.csv", 200_000
    with open(path, "w") as file:
        file.write("id,x,y\n")
        file.writelines(f"s{k // 100},{k}.125,{k}.5\n" for k in range(n))
    tracemalloc.start()
    read_sequences(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 16 * n


def test_a_real_spreadsheet():
    pytest.importorskip("python_calamine")
    path = faces_folder() / "demodata.xls"
    found = read_with_roles(path, Options())
    assert found.roles[:4] == (["SubjectID", "TrialID"], None, ["FixX", "FixY"], "SubjectID")
    assert len(found.sequences) == 399
    assert found.sequences.X.shape == (1010, 2)
    assert found.sequences.groups == sorted(found.sequences.groups)
    assert set(found.sequences.groups) == set(range(1, 11))
    with pytest.raises(ValueError, match="has no sheet 'Nowhere'; it has"):
        read_sequences(path, sheet="Nowhere")


def test_channels_first_and_padded_forms():
    rng = np.random.default_rng(0)
    plain = [rng.normal(size=(T, 2)) for T in (4, 2, 3)]
    plain[0][1, 0] = np.nan
    s = Sequences(plain)
    assert Sequences.from_channels_first(s.to_channels_first()) == s
    assert Sequences.from_channels_first([x.T for x in plain]) == s
    cube = rng.normal(size=(3, 2, 5))
    assert Sequences.from_channels_first(cube) == Sequences(np.swapaxes(cube, 1, 2))
    padded = s.to_padded()
    assert padded.shape == (3, 4, 2)
    assert np.isnan(padded[1, 2:]).all()
    assert Sequences.from_padded(padded) == s
    with pytest.raises(ValueError, match="series 1 is NaN throughout"):
        Sequences.from_padded([[1.0, 2.0], [np.nan, np.nan]])
    with pytest.raises(ValueError, match=r"series 0 has shape \(1, 1, 1\)"):
        Sequences.from_channels_first(np.ones((1, 1, 1, 1)))


def test_multi_index_frames():
    pd = pytest.importorskip("pandas")
    s = Sequences([[[1.0, 2.0], [3.0, np.nan]], [[5.0, 6.0]]], ids=["b", "a"])
    frame = s.to_multiindex(["x", "y"])
    assert frame.index.names == ["instance", "time"]
    assert list(frame.columns) == ["x", "y"]
    assert Sequences.from_multiindex(frame) == s
    assert Sequences.from_multiindex(frame.iloc[::-1]) == s[[1, 0]]
    with pytest.raises(ValueError, match="instance 'b' has two rows with the same time"):
        Sequences.from_multiindex(pd.concat([frame, frame.iloc[:1]]))
    with pytest.raises(TypeError, match="index of two levels"):
        Sequences.from_multiindex(frame.reset_index())


def test_tslearn_form():
    utils = pytest.importorskip("tslearn.utils", reason="tslearn is not installed: pip install tslearn")
    s = Sequences([[1.0, 2.0, 3.0], [4.0, np.nan, 6.0], [5.0]])
    cube = utils.to_time_series_dataset(list(s))
    np.testing.assert_array_equal(cube, s.to_padded())
    assert Sequences.from_padded(cube) == s


def test_aeon_form():
    check = pytest.importorskip("aeon.utils.validation.collection", reason="aeon is not installed: pip install aeon")
    s = Sequences([np.arange(6.0).reshape(3, 2), np.ones((2, 2))])
    assert check.get_type(s.to_channels_first()) == "np-list"
    from aeon.datasets import load_japanese_vowels

    X, _ = load_japanese_vowels(split="train")
    found = Sequences.from_channels_first(X)
    assert found.n_dims == X[0].shape[0]
    assert found.lengths.tolist() == [x.shape[1] for x in X]


def test_sktime_form():
    datatypes = pytest.importorskip("sktime.datatypes", reason="sktime is not installed: pip install sktime")
    s = Sequences([np.arange(6.0).reshape(3, 2), np.ones((2, 2))])
    frame = s.to_multiindex()
    assert datatypes.check_is_scitype(frame, "Panel")
    lists = datatypes.convert(frame, from_type="pd-multiindex", to_type="df-list")
    assert Sequences([part.to_numpy() for part in lists]) == s
    assert Sequences.from_multiindex(frame) == s


def test_labels_are_written_beside_the_ids(tmp_path):
    z = np.array([[0.9, 0.1], [0.25, 0.75]])
    vhem.write_labels(tmp_path / "l.csv", ["a,b", "c"], [0, 1], z, first=1)
    with open(tmp_path / "l.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["id", "cluster", "probability", "p1", "p2"]
    assert rows[1] == ["a,b", "1", "0.9", "0.9", "0.1"]
    vhem.write_labels(tmp_path / "l.tsv", [3, 4], np.array([[0, 1], [2, 1]]))
    assert (tmp_path / "l.tsv").read_text() == "id\tlevel1\tlevel2\n3\t0\t1\n4\t2\t1\n"
    pq = pytest.importorskip("pyarrow.parquet")
    vhem.write_labels(tmp_path / "l.parquet", ["a", 7], [0, 1], z)
    assert pq.read_table(tmp_path / "l.parquet").to_pydict() == {
        "id": ["a", "7"], "cluster": [0, 1], "probability": [0.9, 0.75], "p0": [0.9, 0.25], "p1": [0.1, 0.75]
    }  # fmt: skip
    with pytest.raises(ValueError, match="must end in"):
        vhem.write_labels(tmp_path / "l.doc", ["a"], [0])
    with pytest.raises(ValueError, match="an integer for each of the 1 ids"):
        vhem.write_labels(tmp_path / "l.csv", ["a"], [0.5])
    with pytest.raises(ValueError, match=r"responsibilities have shape \(1, 2\)"):
        vhem.write_labels(tmp_path / "l.csv", ["a", "b"], [0, 1], z[:1])


@pytest.mark.filterwarnings("ignore:.*(single frame|same value)")
@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.sampled_from(["csv", "tsv"]))
def test_written_probabilities_are_read_to_the_last_bit(tmp_path_factory, shares, ending):
    path = tmp_path_factory.getbasetemp() / f"labels.{ending}"
    z = np.column_stack([shares, 1 - np.array(shares)])
    vhem.write_labels(path, [f"s{k}" for k in range(len(z))], z.argmax(1), z)
    back = read_sequences(path, id="id", values=["p0", "p1"])
    assert back.X.tobytes() == z.tobytes()


@pytest.mark.parametrize("name", ["fixation", "Fixation_No", "FixationIndex", "index"])
def test_a_running_number_is_no_value(tmp_path, name):
    path = tmp_path / "table.csv"
    path.write_text(f"viewer,{name},x,y\na,2,7,8\na,1,5,6\nb,1,1,2\n")
    sequences = vhem.read_sequences(path)
    np.testing.assert_array_equal(sequences[0], [[5, 6], [7, 8]])


def test_numbers_that_name_something_are_no_values(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("viewer,trial,x,y,id\na,1,5,6,one\na,1,5,7,one\na,2,7,8,two\nb,1,1,2,three\n")
    sequences = vhem.read_sequences(path)
    assert sequences.n_dims == 2
    assert sequences.groups == ["a", "a", "b"]
