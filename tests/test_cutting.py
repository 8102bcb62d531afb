"""Text cut by the compiled kernel gives what the readers in Python give: the same numbers, names and errors."""

import numpy as np
import pytest

import vhem
from vhem.kernels import compiled
from vhem.kernels.engine import engine
from vhem.sequences.readers import delimited, growing, rows
from vhem.sequences.readers.plain_text import Cut

pytestmark = pytest.mark.skipif(engine().module is None, reason="needs a compiled engine")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """The first part of a file is always read by Python: make it a few lines."""
    monkeypatch.setattr(delimited, "_CHARACTERS", 150)


@pytest.fixture
def n_cut(monkeypatch):
    """Counts the rows that the kernel cut."""
    counted = []
    original = rows.Rows._cut_or_cells

    def counting(self, text):
        block = original(self, text)
        counted.append(block.n_rows if isinstance(block, Cut) else 0)
        return block

    monkeypatch.setattr(rows.Rows, "_cut_or_cells", counting)
    return counted


def read(path, monkeypatch, engine_name, **options):
    monkeypatch.setenv("VHEM_ENGINE", engine_name)
    try:
        found = vhem.read_sequences(path, **options)
    except ValueError as fault:
        return type(fault).__name__, str(fault)
    return found.X.tolist(), found.lengths.tolist(), list(found.ids), found.groups


CELLS = [
    "1",
    "-2.5",
    "+3",
    "0.1",
    ".5",
    "7.",
    "1e3",
    "-1.25E-4",
    "12345678901234567890",
    "0.30000000000000004",
    "1e-320",
]
CELLS += [
    "",
    "NA",
    "nan",
    "null",
    "-",
    ".",
    " 4 ",
    "5 ",
    "0007",
    "1e22",
    "1e23",
    "9007199254740993",
    "123456789.123456789",
]
ODD = ["x", "1_0", "1,5", "inf", "1e400", "--1", "1e", "٣", "0x10", "1e160", "1 2"]
NAMES = ["ann", "bob", " ann", "ann ", "Émile", "7", "07", "NA ch"]


def table(rng, n, cells, ending, delimiter, extra):
    lines = [delimiter.join(["id", "time", "x", "y", *extra])]
    times = rng.permutation(n) if rng.random() < 0.9 else rng.integers(n, size=n)  # a few twice in a sequence
    for time in times.tolist():
        row = [rng.choice(NAMES), str(time), rng.choice(cells), rng.choice(cells), *("" for _ in extra)]
        lines.append(delimiter.join(row))
    return ending.join(lines) + (ending if rng.random() < 0.5 else "")


@pytest.mark.parametrize("seed", range(40))
def test_both_engines_read_the_same(seed, tmp_path, monkeypatch, n_cut):
    rng = np.random.default_rng(seed)
    odd = [*CELLS, rng.choice(ODD)] if seed % 2 else CELLS
    delimiter, ending = rng.choice([",", ";", "\t"]), rng.choice(["\n", "\r\n"])
    path = tmp_path / "t.csv"
    text = table(rng, 60, odd, ending, delimiter, [[], ["note"], [""]][seed % 3])
    if seed % 5 == 4:  # a line that is short, long, blank, or quoted
        lines = text.split(ending)
        lines.insert(int(rng.integers(20, 50)), rng.choice(["ann", "", delimiter.join("a12345678"), '"ann";1']))
        text = ending.join(lines)
    path.write_bytes(text.encode())
    native = read(path, monkeypatch, "native")
    assert str(native) == str(read(path, monkeypatch, "reference"))  # NaN equals NaN in print
    if not seed % 2 and seed % 5 != 4:
        assert sum(n_cut) > 20, "the kernel must have been used"


def test_numbers_are_the_nearest_doubles(tmp_path, monkeypatch, n_cut):
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.normal(size=500), 10.0 ** rng.uniform(-140, 140, 500), rng.integers(0, 10**9, 500) / 1000]
    )
    path = tmp_path / "t.csv"
    path.write_text("id,x\n" + "".join(f"a,{v!r}\n" for v in values.tolist()))
    monkeypatch.setenv("VHEM_ENGINE", "native")
    assert np.array_equal(vhem.read_sequences(path).X[:, 0], values)
    assert sum(n_cut) > 1400


def test_decimal_commas(tmp_path, monkeypatch, n_cut):
    path = tmp_path / "t.csv"
    path.write_text("id;x\n" + "".join(f"a;{k},5\n" for k in range(100)))
    monkeypatch.setenv("VHEM_ENGINE", "native")
    assert np.array_equal(vhem.read_sequences(path).X[:, 0], np.arange(100) + 0.5)
    assert sum(n_cut) > 50


def test_an_error_deep_in_a_file_names_its_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x\n" + "a,1\n" * 500 + "a,oops\n" + "a,1\n" * 500)
    with pytest.raises(ValueError, match=r"row 502.*'oops'"):
        vhem.read_sequences(path)


def test_a_time_must_be_there(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,time,x\n" + "".join(f"a,{k},1.{k}\n" for k in range(300)) + "a,,2\n")
    with pytest.raises(ValueError, match="row 302: column 'time' is empty"):
        vhem.read_sequences(path)


@pytest.mark.parametrize("n", [1, 7, 500])
def test_rows_are_sorted_as_numpy_sorts_them(n):
    rng = np.random.default_rng(n)
    codes, times, X = rng.integers(5, size=n), rng.integers(30, size=n) / 4, rng.normal(size=(n, 3))
    found = compiled.order_rows(codes, times, 6)
    expected = np.lexsort((times, codes))
    assert np.array_equal(found.order, expected)
    assert np.array_equal(np.diff(found.ends, prepend=0), np.bincount(codes, minlength=6))
    same = (np.diff(codes[expected]) == 0) & (np.diff(times[expected]) == 0)
    assert found.twice == (int(np.argmax(same)) if same.any() else -1)
    wanted = X[expected]
    compiled.permute_rows(X, found.order)
    assert np.array_equal(X, wanted)


def test_pairs_are_numbered_as_they_appear():
    rng = np.random.default_rng(0)
    a, b = rng.integers(2**31 - 1, size=4)[rng.integers(4, size=300)], rng.integers(9, size=300)
    codes, first = compiled.number_pairs(a, b)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    met = list(dict.fromkeys(pairs))
    assert codes.tolist() == [met.index(pair) for pair in pairs]
    assert first == [pairs.index(pair) for pair in met]
    with pytest.raises(ValueError, match="same length"):
        compiled.number_pairs(a, b[1:])


def test_columns_in_large_blocks(monkeypatch):
    monkeypatch.setattr(growing, "_BLOCK", 200)
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(int(rng.integers(40)), 2)) for _ in range(20)]
    column = growing.Growing()
    for part in parts:
        column.append(part)
    assert np.array_equal(column.whole(), np.concatenate(parts))
