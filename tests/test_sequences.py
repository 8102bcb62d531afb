"""The ragged container: what it takes, what it refuses, how it is cut."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from vhem import Sequences
from vhem.sequences import as_sequences

ARRAYS = [np.arange(6.0).reshape(3, 2), np.arange(10.0).reshape(5, 2), np.ones((1, 2))]


def test_parts_and_whole():
    s = Sequences(ARRAYS, ids=["a", "b", "c"])
    assert len(s) == 3
    assert s.n_dims == 2
    assert s.lengths.tolist() == [3, 5, 1]
    assert s.offsets.tolist() == [0, 3, 8, 9]
    assert all(np.array_equal(x, y) for x, y in zip(s, ARRAYS, strict=True))
    assert np.array_equal(s[-1], ARRAYS[-1])
    assert repr(s) == "Sequences(n=3, n_dims=2, lengths 1 to 5, 9 frames)"


def test_accepted_forms_agree():
    cube = np.arange(24.0).reshape(2, 3, 4)
    assert Sequences(cube) == Sequences(list(cube)) == Sequences(cube.tolist())
    assert Sequences([[1, 2], [3]]) == Sequences([np.array([[1.0], [2.0]]), np.array([[3.0]])])
    assert Sequences.from_concatenated(np.concatenate(ARRAYS), [3, 5, 1]) == Sequences(ARRAYS)
    ragged = np.empty(2, dtype=object)
    ragged[:] = ARRAYS[:2]
    assert Sequences(ragged) == Sequences(ARRAYS[:2])


def test_a_sequences_is_shared_not_copied():
    s = Sequences(ARRAYS)
    assert as_sequences(s) is s
    named = Sequences(s, ids=["x", "y", "z"])
    assert np.shares_memory(named.X, s.X)
    assert named.ids == ["x", "y", "z"]


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 4),
    st.sampled_from(["fortran", "strided", "reversed", "float32", "int", "list", "transposed"]),
    st.integers(0, 2**31),
)
def test_memory_layout_does_not_matter(lengths, d, layout, seed):
    rng = np.random.default_rng(seed)
    plain = [rng.integers(-9, 9, size=(T, d)).astype(float) for T in lengths]
    forms = {
        "fortran": np.asfortranarray,
        "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": lambda x: x[::-1].copy()[::-1],
        "float32": lambda x: x.astype(np.float32),
        "int": lambda x: x.astype(np.int16),
        "list": lambda x: x.tolist(),
        "transposed": lambda x: x.T.copy().T,
    }
    made = Sequences([forms[layout](x) for x in plain])
    assert made == Sequences(plain)
    assert made.X.flags.c_contiguous
    assert made.X.dtype == np.float64


@settings(max_examples=80)
@given(st.lists(st.integers(1, 5) | st.integers(60, 130), min_size=1, max_size=8), st.data())
def test_indexing_equals_indexing_a_list(lengths, data):
    plain = [i + np.arange(2.0 * T).reshape(T, 2) / 1000 for i, T in enumerate(lengths)]
    s = Sequences(plain, ids=[f"s{i}" for i in range(len(plain))])
    index = data.draw(st.lists(st.integers(-len(plain), len(plain) - 1), min_size=1, max_size=10))
    chosen = s[index]
    assert chosen == s[np.array(index)]
    assert chosen.ids == chosen.keys == [s.ids[i] for i in index]
    assert all(np.array_equal(x, plain[i]) for x, i in zip(chosen, index, strict=True))
    mask = np.isin(np.arange(len(plain)), np.array(index) % len(plain))
    assert s[mask] == s[np.flatnonzero(mask)] == s[mask.tolist()]
    assert s[::-1] == s[np.arange(len(plain))[::-1]]


def test_scikit_learn_can_split():
    s = Sequences([np.full((T, 1), T, dtype=float) for T in range(1, 11)], ids=list("abcdefghij"))
    assert _num_samples(s) == 10
    for train, test in KFold(5).split(s):
        assert isinstance(_safe_indexing(s, train), Sequences)
        assert _safe_indexing(s, test).ids == [s.ids[i] for i in test]
    train, test = train_test_split(s, test_size=0.3, random_state=0)
    assert sorted(train.ids + test.ids) == s.ids
    assert len(list(GroupKFold(2).split(s, groups=[0, 1] * 5))) == 2


def test_groups_follow_an_index():
    table = {"id": [1, 1, 2, 3], "x": [0.0, 1.0, 2.0, 3.0], "who": ["p", "p", "q", "p"]}
    s = Sequences.from_table(table, id="id", values=["x"], group="who")
    assert s.groups == ["p", "q", "p"]
    assert s[[2, 1]].groups == ["p", "q"]
    assert Sequences(s).groups == s.groups


def test_immutable_even_after_pickling():
    given_array = np.zeros((3, 2))
    s = Sequences([given_array])
    given_array[:] = 7.0
    assert not s.X.any()
    for thing in (s, copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s[[0]]):
        with pytest.raises(AttributeError, match="immutable: 'X' cannot be set"):
            thing.X = None
        with pytest.raises(AttributeError, match="cannot be deleted"):
            del thing.X
        with pytest.raises(ValueError, match="read-only"):
            thing.X[0, 0] = 1.0
        assert thing == s
    with pytest.raises(TypeError, match="unhashable"):
        hash(s)


def test_missing_values_are_kept():
    assert np.isnan(Sequences([[1.0, np.nan]])[0][1, 0])
    assert Sequences([[1.0, None]]) == Sequences([[1.0, np.nan]])
    assert Sequences([[1.0, 2.0]]) != Sequences([[1.0, np.nan]])
    assert Sequences([[1.0]]) != 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([[1.0], [2.0, np.inf]], r"sequence 1 \(id 'b'\) has inf at frame 1, dimension 0.*write NaN"),
        ([[1.0], []], r"sequence 1 \(id 'b'\) has shape \(0, 1\).*Drop empty"),
        ([np.ones((2, 2)), np.ones((2, 3))], r"sequence 1 \(id 'b'\) has 3 dimensions, but sequence 0"),
        ([np.ones((2, 2)), np.ones((2, 2, 2))], r"sequence 1 \(id 'b'\) has shape \(2, 2, 2\)"),
        (np.ones((2, 5)), r"array of shape \(2, 5\).*\[x\] for one sequence"),
        ([1.0, 2.0], r"flat list of numbers.*\[x\]"),
        ([], "there are no sequences"),
        ([[1.0]], "ids has 2 entries for 1 sequences"),
    ],
)
def test_refusals_name_the_sequence_and_the_cure(arrays, message):
    with pytest.raises(ValueError, match=message):
        Sequences(arrays, ids=["a", "b"])


@pytest.mark.parametrize("arrays", ["text", 3.0, {"a": [1.0]}, [["x", "y"]], [[1.0, object()]]])
def test_refused_types(arrays):
    with pytest.raises(TypeError, match=r"numbers|list of \(T, d\)"):
        Sequences(arrays)


def test_ragged_rows_in_one_sequence_are_named():
    with pytest.raises(ValueError, match=r"sequence 1 .*rows of different lengths"):
        Sequences([[[1.0, 2.0]], [[1.0], [1.0, 2.0]]])


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([2, 2], "add up to 4, but X has 5"), ([5, 0], "sequence 1 has length 0"), ([2.5, 2.5], "integers")],
)
def test_refused_lengths(lengths, message):
    with pytest.raises(ValueError, match=message):
        Sequences.from_concatenated(np.ones(5), lengths)


def test_an_index_that_chooses_nothing():
    with pytest.raises(ValueError, match="selects no sequence"):
        Sequences(ARRAYS)[[]]
    with pytest.raises(IndexError):
        Sequences(ARRAYS)[3]


COLUMNS = {
    "who": ["b", "a", "b", "a", "b"],
    "when": [3, 1, 1, 2, 2],
    "x": [0.3, 1.0, 0.1, 2.0, None],
    "y": [3, 4, 5, 6, 7],
    "sex": ["f", "m", "f", "m", "f"],
}


def as_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def as_nullable_pandas(columns):
    with np.errstate(invalid="ignore"):  # pandas 2.2 tries whether inf is an integer
        return as_pandas(columns).convert_dtypes()


def as_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def as_pyarrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


class OnlyAStream:
    """A table that shows nothing but Arrow's stream, as those of DuckDB and others do."""

    def __init__(self, columns):
        self._table = as_pyarrow(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


TABLES = [as_pandas, as_nullable_pandas, as_polars, as_pyarrow, OnlyAStream, dict]


@pytest.mark.parametrize("table", TABLES)
def test_tables(table):
    frame = table(COLUMNS)
    s = Sequences.from_table(frame, id="who", time="when", values=["x", "y"], group="sex")
    assert s.ids == ["b", "a"]
    assert s.groups == ["f", "m"]
    np.testing.assert_array_equal(s[0], [[0.1, 5], [np.nan, 7], [0.3, 3]])
    np.testing.assert_array_equal(s[1], [[1.0, 4], [2.0, 6]])
    untimed = Sequences.from_table(frame, id="who", values=["y"])
    assert untimed[0].ravel().tolist() == [3.0, 5.0, 7.0]
    assert untimed.groups is None


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"when": [3, 1, 2, 2, 2]}, "sequence 'b' has two rows with when = 2.*several trials"),
        ({"sex": ["f", "m", "m", "m", "f"]}, "sequence 'b' has sex = 'f' .row 0. and 'm' .row 2."),
        ({"who": ["b", None, "b", "a", "b"]}, "row 1: column 'who' is empty"),
        ({"x": [0.1, float("inf"), 0.2, 0.3, 0.4]}, r"sequence 1 \(id 'a'\) has inf at frame 0"),
        ({"x": ["u", "v", "w", "x", "y"]}, "column 'x' .*numbers"),
    ],
)
def test_refused_tables(table, change, message):
    changed = {**COLUMNS, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        Sequences.from_table(table(changed), id="who", time="when", values=["x", "y"], group="sex")


def test_a_table_is_no_list_of_sequences():
    with pytest.raises(TypeError, match=r"got DataFrame\. Use Sequences.from_table"):
        Sequences(as_pandas(COLUMNS))


def test_tables_name_the_column_they_lack():
    with pytest.raises(ValueError, match="no column 'z'; it has 'who', 'when', 'x', 'y', 'sex'"):
        Sequences.from_table(as_pandas(COLUMNS), id="who", values=["z"])
    with pytest.raises(ValueError, match="values is empty"):
        Sequences.from_table(as_pandas(COLUMNS), id="who", values=[])
    with pytest.raises(TypeError, match="named columns, got list"):
        Sequences.from_table([1, 2], id="who", values=["x"])
    with pytest.raises(ValueError, match="no rows"):
        Sequences.from_table({"who": [], "x": []}, id="who", values=["x"])


def test_dates_sort_as_times():
    table = {"i": [0, 0], "t": np.array(["2024-02-01", "2024-01-01"], dtype="datetime64[D]"), "x": [2.0, 1.0]}
    assert Sequences.from_table(table, id="i", time="t", values="x")[0].ravel().tolist() == [1.0, 2.0]


def test_sequences_named_by_several_columns():
    frame = {"subject": [1, 1, 1, 2, 2], "trial": [1, 1, 2, 1, 1], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}
    sequences = Sequences.from_table(frame, id=["subject", "trial"], values=["x"], group="subject")
    assert sequences.ids == ["1 / 1", "1 / 2", "2 / 1"]
    assert sequences.groups == [1, 1, 2]
    assert sequences.lengths.tolist() == [2, 1, 2]


def test_groups_can_be_given():
    sequences = Sequences([[0.0, 1.0], [2.0]], groups=["a", "b"])
    assert sequences.groups == ["a", "b"]
    assert Sequences(sequences, groups=["c", "d"]).groups == ["c", "d"]
    for wrong in (["a"], "ab"):
        with pytest.raises(ValueError, match="groups must have one value for each of the 2 sequences"):
            Sequences([[0.0, 1.0], [2.0]], groups=wrong)


def test_text_and_models_are_no_sequences():
    with pytest.raises(TypeError, match="a list of text"):
        Sequences(["hello", "you"])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int16])
def test_frames_are_copied_once_whatever_their_type(kind):
    cube = np.ones((200, 500, 4), dtype=kind)
    tracemalloc.start()
    sequences = Sequences(cube)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sequences.X.dtype == np.float64
    assert peak < 1.3 * sequences.X.nbytes
