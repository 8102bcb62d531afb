"""Tables as they come: odd times, odd decimals, damaged and hostile files, and what looks wrong in a sound one."""

from __future__ import annotations

import datetime
import gzip
import os
import resource
import subprocess
import sys
import time
import warnings
import zipfile
import zoneinfo

import numpy as np
import pytest
from test_bvh import FILE as BVH
from test_read_sequences import write_xlsx

import vhem
from vhem import InputError, Sequences, read_parts, read_sequences


@pytest.fixture
def table(tmp_path):
    def written(content, name="table.csv"):
        (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path / name

    return written


# Times

# Clocks in Berlin went back from 3:00 to 2:00 that night; by the clock alone, these rows are in another order.
ZONED = ["2024-10-27 02:10:00+01:00", "2024-10-27 02:30:00+02:00", "2024-10-27 02:50:00+02:00"]
IN_ORDER = [2.0, 3.0, 1.0]


def test_rows_across_a_clock_change(table):
    path = table("id,time,x\n" + "".join(f"a,{t},{k + 1}\n" for k, t in enumerate(ZONED)))
    assert read_sequences(path)[0].ravel().tolist() == IN_ORDER


def berlin(hour, minute, fold):
    return datetime.datetime(2024, 10, 27, hour, minute, fold=fold, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize("form", ["python", "text", "pandas", "polars", "pyarrow"])
def test_times_with_zones_in_frames(form):
    moments = [berlin(2, 10, 1), berlin(2, 30, 0), berlin(2, 50, 0)]
    columns = {"id": [0, 0, 0], "t": moments, "x": [1.0, 2.0, 3.0]}
    if form == "text":
        columns["t"] = ZONED
    elif form == "pandas":
        pd = pytest.importorskip("pandas")
        columns = pd.DataFrame({**columns, "t": pd.to_datetime(ZONED, utc=True).tz_convert("Europe/Berlin")})
    elif form == "polars":
        pl = pytest.importorskip("polars")
        columns = pl.DataFrame(columns).with_columns(pl.col("t").dt.convert_time_zone("Europe/Berlin"))
    elif form == "pyarrow":
        columns = pytest.importorskip("pyarrow").table(columns)
    assert Sequences.from_table(columns, "id", "t", ["x"])[0].ravel().tolist() == IN_ORDER


def test_numbers_written_as_text_sort_as_numbers():
    columns = {"id": [0, 0, 0], "t": ["10", "9", "1e2"], "x": [1.0, 2.0, 3.0]}
    assert Sequences.from_table(columns, "id", "t", ["x"])[0].ravel().tolist() == [2.0, 1.0, 3.0]
    columns["t"] = ["10", "early", "1"]
    with pytest.raises(ValueError, match=r"column 't' has '10', neither|'early', neither a number nor a date"):
        Sequences.from_table(columns, "id", "t", ["x"])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2024-01-01 10:00", "2024-01-01 11:00+01:00"], r"row 3: column 'time' has .*with a time zone, but other"),
        (["2024-01-01 10:00Z", "2024-01-01 11:00"], r"row 3: column 'time' has .*without a time zone, but other"),
    ],
)
def test_zones_in_some_rows_only(table, times, message):
    path = table("id,time,x\n" + "".join(f"a,{t},1\n" for t in times))
    with pytest.raises(ValueError, match=message):
        read_sequences(path)


def test_zones_in_a_later_chunk_only(table, monkeypatch):
    monkeypatch.setattr("vhem.sequences.readers.delimited._CHARACTERS", 30)
    path = table("id,time,x\na,2024-01-01 10:00:00,1\na,2024-01-01 11:00:00+01:00,2\n")
    with pytest.raises(ValueError, match="dates with time zones and dates without time zones; use one form"):
        read_sequences(path)


@pytest.mark.parametrize("missing", [[0, None, 1], [0.0, float("nan"), 1.0]])
def test_missing_times_in_parts_of_parquet(tmp_path, missing):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": [7, 7, 7], "t": missing, "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    (part,) = read_parts(tmp_path / "t.parquet", "id", "t", ["x"])
    with pytest.raises(ValueError, match=r"row 1: column 't' is empty"):
        part.read()


# Cells


@pytest.mark.parametrize("cells", [("1.500", "2.750"), ("1.500", "2"), ("1,5", "2.5")])
def test_points_where_decimals_have_commas(table, cells):
    path = table("id;x\n" + "".join(f"a;{cell}\n" for cell in cells))
    with pytest.raises(ValueError, match=r"column 'x' has '\d\.5\d*', with a point, where other decimals have commas"):
        read_sequences(path, decimal=",")


def test_whole_numbers_have_no_decimals(table):
    assert read_sequences(table("id;x\na;1\na;20\n"), decimal=",").X.ravel().tolist() == [1.0, 20.0]


@pytest.mark.parametrize("header", ['"id", "x"', ' "id" , "x"', '"id","x"'])
def test_quotes_in_the_header(table, header):
    found = read_sequences(table(f'{header}\n"a", 1\n"a", 2\n'), id="id", values=["x"])
    assert found.ids == ["a"]


@pytest.mark.parametrize("cell", ["1e300", "-1e200", "inf", "1e400"])
def test_a_value_whose_square_is_not_a_double(table, cell):
    with pytest.raises(ValueError, match=rf"row 3: column 'x' has '{cell}'; values must be finite and below 1e\+150"):
        read_sequences(table(f"id,x\na,1\na,{cell}\n"))
    with pytest.raises(ValueError, match=r"sequence 0 has -?(1e\+|inf).* at frame 1, dimension 0.*rescale"):
        Sequences([[1.0, float(cell)]])


def test_ids_of_very_many_digits_are_names(table):
    long = "1" * 5000  # more than Python turns into a number without a ValueError
    assert read_sequences(table(f"id,x\n{long},1\n{long},2\n7,3\n")).ids == [long, "7"]


def test_long_cells_are_shortened(table):
    with pytest.raises(ValueError, match=r"has 'z{39}… \(5002 characters\), which is not a number"):
        read_sequences(table("id,x\na,1\na,2\na," + "z" * 5000 + "\n"))


# Damaged files


def test_damaged_compression(tmp_path):
    whole = gzip.compress(b"id,x\n" + b"".join(b"a,%d\n" % k for k in range(9999)))
    for name, content in {
        "truncated": whole[: len(whole) // 2],
        "corrupt": whole[:100] + b"\xff" * 50 + whole[150:],
        "not": b"id,x\na,1\n",
    }.items():
        path = tmp_path / f"{name}.csv.gz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}\.csv\.gz is truncated or damaged"):
            read_sequences(path)


@pytest.mark.parametrize("name", ["t.npz", "t.xlsx", "t.parquet", "t.csv.gz", "t.csv", "t.bvh"])
def test_damaged_files_give_errors_of_vhem(tmp_path, name):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("python_calamine")
    path = tmp_path / name
    {
        "t.npz": lambda: np.savez(path, X=np.arange(8.0).reshape(4, 2), lengths=[1, 3]),
        "t.xlsx": lambda: write_xlsx(path, [["id", "x"], ["a", 1], ["a", 2]]),
        "t.parquet": lambda: pq.write_table(pa.table({"id": [1, 1, 2], "x": [1.0, 2.0, 3.0]}), path),
        "t.csv.gz": lambda: path.write_bytes(gzip.compress(b"id,time,x\na,1,2\na,2,3\nb,1,4\n")),
        "t.csv": lambda: path.write_text("id,time,x\na,1,2\na,2,3\nb,1,4\n"),
        "t.bvh": lambda: path.write_text(BVH),
    }[name]()
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    n_refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole) // 2, len(whole) + 1)])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_sequences(path)
        except InputError:
            n_refused += 1
    assert n_refused > 20


def test_rows_of_delimiters_before_the_header(table):
    assert read_sequences(table(",,\n  \n,\nid,x\na,1\na,2\n")).ids == ["a"]


def test_encodings(table):
    path = table("id,x\na,1\n")
    for encoding in ("foo", "hex"):
        with pytest.raises(ValueError, match=f"encoding '{encoding}' is not known; give one like 'utf-8'"):
            read_sequences(path, encoding=encoding)
    with pytest.raises(ValueError, match=r"is not in utf-16"):
        read_sequences(path, encoding="utf-16")
    with pytest.raises(ValueError, match=r"is not in ascii: byte 0xc3"):
        read_sequences(table("id,x\nä,1\n"), encoding="ascii")


@pytest.mark.parametrize("frames", ["-1", "0"])
def test_motion_without_frames(table, frames):
    text = BVH.replace("Frames: 3", f"Frames: {frames}")
    with pytest.raises(ValueError, match=rf"motion\.bvh: {frames} frames of 15 channels"):
        read_sequences(table(text, "motion.bvh"))
    no_channels = "HIERARCHY ROOT a { OFFSET 0 0 0 CHANNELS 0 }\nMOTION\nFrames: -1\nFrame Time: 1\n\n"
    with pytest.raises(ValueError, match="-1 frames of 0 channels"):
        read_sequences(table(no_channels, "motion.bvh"))


# Small files, large memory: read by a process of its own, with little of it

READ = "import sys, vhem\ntry:\n    vhem.read_sequences(sys.argv[1])\nexcept ValueError as e:\n    print(e)"


def refusal(path, gigabytes=4):
    """Return what a process with little memory says to a file."""

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))

    command = [sys.executable, "-c", READ, path]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=True).stdout


def test_a_cell_at_the_far_corner(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "far.xlsx"
    write_xlsx(path, [["id", "x"], ["a", 1]])
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)
    assert "far.xlsx is small, but has cells as far out as row 1,048,576 and column 16,384" in refusal(path)


def test_files_that_unpack_to_far_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("vhem.sequences.readers.budget._FREE", 1000)
    with gzip.open(tmp_path / "bomb.csv.gz", "wb") as file:
        file.write(b"id,x\n" + b"a,1\n" * 999_999)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((999_999, 1)), lengths=[999_999])
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/sheet1.xml", b" " * 9_999_999)
    for name in ("bomb.csv.gz", "bomb.npz", "bomb.xlsx"):
        with pytest.raises(ValueError, match=rf"{name} has [\d,]+ bytes, but unpacks to more than 300 times as much"):
            read_sequences(tmp_path / name)


def test_very_many_columns(table):
    names = [f"x{k}" for k in range(100_000)]
    path = table("id," + ",".join(names) + "\n" + "\n".join(f"{who}" + ",1.5" * len(names) for who in "aab"))
    begin = time.process_time()
    with pytest.warns(UserWarning, match=r"'x29', … \(100000 in all\)"):
        assert read_sequences(path).n_dims == 100_000
    frame = {name: [1.0, 2.0] for name in names} | {"id": [1, 1]}
    assert Sequences.from_table(frame, "id", values=names).n_dims == 100_000
    assert time.process_time() - begin < 60  # seconds; about 3 are needed, look-ups in lists took minutes


# Tables in memory given for files


def test_a_table_is_not_the_name_of_a_file():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"id": ["a"] * 100, "x": np.arange(100.0)}
    for given, words in (
        (pd.DataFrame(columns), r"path is a DataFrame, .*from_table\(frame, id="),
        (pl.DataFrame(columns).lazy(), r"path is a LazyFrame, .*from_table\(frame\.collect\(\), id="),
        (columns, "path is a dict"),
    ):
        with pytest.raises(TypeError, match=words) as caught:
            read_sequences(given)
        assert len(str(caught.value)) < 200
    lazy = pl.DataFrame(columns).lazy()
    with pytest.raises(TypeError, match=r"frame\.collect\(\)"):
        Sequences.from_table(lazy, "id", values=["x"])
    with pytest.raises(TypeError, match=r"LazyFrame.*\.collect\(\)"):
        Sequences(lazy)


def test_odd_frames():
    pd = pytest.importorskip("pandas")
    twice = pd.DataFrame([[0, 1.0, 2.0]], columns=["id", "x", "x"])
    with pytest.raises(ValueError, match="two columns named 'x'"):
        Sequences.from_table(twice, "id", values=["x"])
    with pytest.raises(ValueError, match="column 'x' has 1 rows, but the ids have 2"):
        Sequences.from_table({"id": [0, 0], "x": [1.0]}, "id", values=["x"])
    with pytest.raises(ValueError, match="id is empty"):
        Sequences.from_table({"id": [0, 0], "x": [1.0, 2.0]}, [], values=["x"])


# What looks wrong


def warned(path, **arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_sequences(path, **arguments)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ([1, 5, -9999, 3, -9999], "-9999"),
        ([0.1, 0.7, 999, 0.3, 999], "999"),
        ([120, 5, -99, 300, -99], "-99"),
        ([1, 5, -9999, 3, 2], None),  # once: it may be an outlier
        ([-120, 5, -99, 300, -99], None),  # within the range
        ([90, 97, 99, 99, 98], None),  # a natural end of the range
        ([1, 5, 7, 7, 1], None),
    ],
)
def test_codes_of_missing_values(table, cells, code):
    (*found,) = warned(table("id,x\n" + "".join(f"a,{cell}\n" for cell in cells)))
    assert len(found) == (code is not None)
    if code:
        assert found[0].startswith(f"column 'x' is {code} in 2 rows, and between ")


def test_columns_that_never_change(table):
    path = table("id,x,y\na,1,5\na,2,5\nb,3,\n")
    (message,) = warned(path)
    assert message.startswith("column 'y' has the same value in every row")
    assert warned(path, values=["x"]) == []


def test_wide_tables(table):
    path = table("id,t1,t2,t3\na,1,5,6\nb,2,6,7\nc,3,7,9\n")
    (message,) = warned(path)
    assert message.startswith("each of the 3 sequences (by 'id') has a single frame. ")
    assert "If each row is a whole sequence, name its columns with wide" in message


@pytest.mark.parametrize(
    "read", [read_sequences, vhem.load, vhem.from_emhmm, vhem.files.from_npz, vhem.files.from_json, vhem.files.describe]
)
def test_devices_and_pipes_are_not_read(read, tmp_path):
    """They may have no end, or wait for a writer forever."""
    os.mkfifo(tmp_path / "pipe.json")
    for place in (tmp_path / "pipe.json", "/dev/zero"):
        with pytest.raises(InputError, match=r"^\S+ is a device or a pipe, not a file; save what it holds"):
            read(place)


def test_a_range_of_wide_columns_that_ends_nowhere_names_the_end(tmp_path):
    table = tmp_path / "lives.csv"
    table.write_text("id,m01,m02\na,school,work\nb,work,work\n")
    with pytest.raises(ValueError, match="there is no column 'm99'"):
        vhem.read_sequences(table, wide="m01:m99")


def test_a_pattern_of_wide_columns_beside_a_column_without_a_name(tmp_path):
    table = tmp_path / "lives.csv"
    table.write_text(",m01,m02\na,school,work\nb,work,work\n")
    assert vhem.read_sequences(table, wide="m*").lengths.tolist() == [2, 2]
