"""Sequences with categories, case weights and wide tables: container, readers, files, and what is refused."""

from __future__ import annotations

import pickle
import time
import warnings

import numpy as np
import pytest

import vhem
from vhem import Sequences, read_sequences
from vhem._support.errors import InputWarning

DAYS = [["sun", "rain", "rain"], ["fog", "sun"]]
CLICKS = "user,t,page,price\nann,1,search,5\nann,2,cart,\nann,3,,7\nbob,1,search,1\nbob,2,paid,2\n"
LIVES = "id,weight,sex,a15,a16,a17,a18\n1,0.5,f,school,school,work,work\n2,2,m,school,,work,\n3,1,f,work,work,,\n"


def written(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_names_become_codes_in_sorted_order():
    days = Sequences(DAYS, channels=["sky"], categories=True)
    assert days.categories == {"sky": ("fog", "rain", "sun")}
    assert days.X.ravel().tolist() == [2, 1, 1, 0, 2]
    assert days.decoded(0) == [["sun"], ["rain"], ["rain"]]
    assert "sky: 3 categories" in repr(days)


def test_given_names_keep_their_order_and_numbers_are_codes():
    named = {"x1": ["sun", "rain", "fog"]}
    by_name, by_code = Sequences(DAYS, categories=named), Sequences([[0, 1, 1], [2, 0]], categories=named)
    assert by_name == by_code
    assert by_name.X.ravel().tolist() == [0, 1, 1, 2, 0]


def test_numbers_are_names_if_the_names_are_numerals():
    assert Sequences([[3, 1, 10]], categories=True).categories == {"x1": ("1", "3", "10")}
    assert Sequences([[3, 1, 10]], categories={0: [1, 3, 10]}).X.ravel().tolist() == [1, 0, 2]


def test_mixed_channels_and_missing_values():
    both = Sequences([[["a", 1.5], [None, 2.0], ["b", np.nan]]], channels=["key", "force"], categories=["key"])
    assert both.categories == {"key": ("a", "b")}
    assert np.array_equal(both.X, [[0, 1.5], [np.nan, 2], [1, np.nan]], equal_nan=True)
    assert both.decoded(0) == [["a", 1.5], [None, 2.0], ["b", None]]


def test_slices_files_and_copies_keep_everything(tmp_path):
    days = Sequences(DAYS, ids=["mon", "tue"], channels=["sky"], categories=True, weights=[0.5, 2])
    days.save(tmp_path / "days.vhem")
    for same in (vhem.load(tmp_path / "days.vhem"), pickle.loads(pickle.dumps(days)), Sequences(days), days[:]):
        assert same == days
        assert same.channels == ["sky"]
    assert days[[1]].weights.tolist() == [2]
    assert days[[1]].categories == days.categories
    assert Sequences(days, weights=[1, 1]) != days


def test_files_without_categories_are_as_before(tmp_path):
    Sequences([[1.0, 2.0]]).save(tmp_path / "plain.vhem")
    assert b"channels" not in (tmp_path / "plain.vhem").read_bytes()
    assert vhem.load(tmp_path / "plain.vhem").channels == ["x1"]


def test_categories_are_matched_by_name():
    days = Sequences(DAYS, categories=True)
    turned = days.with_categories({"x1": ["sun", "snow", "rain", "fog"]})
    assert turned.X.ravel().tolist() == [0, 2, 2, 3, 0]
    assert [turned.decoded(i) for i in range(2)] == [days.decoded(i) for i in range(2)]
    with pytest.raises(
        ValueError, match="have 'fog' in channel 'x1', which the model has not seen: it knows 'rain', 'sun'"
    ):
        days.with_categories({"x1": ["rain", "sun"]})
    other = days.with_categories({"x1": ["rain", "sun", "other"]}, other="other")
    assert other.decoded(1) == [["other"], ["sun"]]
    with pytest.raises(ValueError, match="other must be one of the categories"):
        days.with_categories({"x1": ["rain", "sun"]}, other="else")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Sequences(DAYS), "give categories=True if they are categories"),
        (lambda: Sequences(DAYS, categories={0: ["sun", "rain"]}), r"sequence 1 has 'fog' in channel 'x1'.*add it"),
        (lambda: Sequences(DAYS, categories={0: ["sun", "sun"]}), "lists 'sun' twice"),
        (lambda: Sequences(DAYS, categories=["sky"]), "no channel 'sky'; there are 'x1'"),
        (
            lambda: Sequences([[0, 1, 5]], categories={0: ["a", "b"]}),
            "has 5, but its 2 categories have the codes 0 to 1",
        ),
        (lambda: Sequences([[0, 1.5]], categories={0: ["a", "b"]}), "has 1.5, but"),
        (lambda: Sequences(DAYS, categories=True, weights=[1, -1]), "weights must be 2 numbers"),
        (lambda: Sequences(DAYS, categories=True, channels=["a", "b"]), "channels must be a list of 1 name"),
        (lambda: Sequences(["sun", "rain"], categories=True), r"write \[x\] instead of x"),
        (lambda: Sequences([[["a", "x"]]], categories=[0]), "channel 'x2' is not numeric.*list it in categories"),
    ],
)
def test_what_is_refused(made, message):
    with pytest.raises((ValueError, TypeError), match=message):
        made()


def test_long_table_with_told_categories(tmp_path):
    found = read_sequences(written(tmp_path, CLICKS), id="user", time="t", categories="page")
    assert found.channels == ["page", "price"]
    assert found.categories == {"page": ("cart", "paid", "search")}
    assert found.decoded(0) == [["search", 5.0], ["cart", None], [None, 7.0]]


def test_categories_are_guessed_only_without_doubt_and_said(tmp_path):
    text = "user,page\n" + "".join(f"ann,{'search' if t % 2 else 'cart'}\n" for t in range(6))
    path = written(tmp_path, text)
    with pytest.warns(
        InputWarning, match="'page' holds text and is read as 2 categories: 'cart', 'search'; name it in cat"
    ):
        found = read_sequences(path, id="user")
    assert found.categories == {"page": ("cart", "search")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_sequences(path, id="user", categories="page") == found
    with pytest.warns(InputWarning, match="holds text"):
        assert read_sequences(written(tmp_path, text.replace("ann,", "ann,1.5,").replace("user,", "user,x,")),
                              id="user", values=["page"]).categories  # fmt: skip
    names = "user,note\n" + "".join(f"ann,remark {t}\n" for t in range(6))
    with pytest.raises(ValueError, match="no column of numbers is left"):
        read_sequences(written(tmp_path, names), id="user")


def test_a_category_where_a_number_was_promised_names_row_and_cure(tmp_path):
    text = "user,x\n" + "".join(f"ann,{t}\n" for t in range(5)) + "ann,left\n"
    with pytest.raises(ValueError, match=r"row 7: column 'x' has 'left', which is not a number;.* categories"):
        read_sequences(written(tmp_path, text), id="user", values=["x"])


def test_declared_categories_and_other(tmp_path):
    path = written(tmp_path, CLICKS)
    names = {"page": ["search", "cart"]}
    with pytest.raises(
        ValueError, match=r"row 6: column 'page' has 'paid', which is not one of the categories 'search', 'c"
    ):
        read_sequences(path, id="user", values=["page"], categories=names)
    found = read_sequences(path, id="user", values=["page"], categories=names, other="rest")
    assert found.categories == {"page": ("search", "cart", "rest")}
    assert found.decoded(1) == [["search"], ["rest"]]


def test_both_ways_of_reading_text_agree(tmp_path):
    """The compiled kernel cuts text without quotes, Python reads the rest; the first block is always Python's."""
    rng = np.random.default_rng(0)
    pages = rng.choice(["search", "cart", " paid ", "", "NA", "über"], 60_000)
    plain = "user,page,w\n" + "".join(f"u{i // 10},{page},{i // 10 % 7}\n" for i, page in enumerate(pages))
    found = [
        read_sequences(written(tmp_path, text, name), id="user", values=[], categories="page", weights="w")
        for name, text in (("plain.csv", plain), ("quoted.csv", plain.replace("u5999,", '"u5999",')))
    ]
    assert found[0] == found[1]
    assert found[0].categories == {"page": ("cart", "paid", "search", "über")}
    assert found[0].decoded(0)[:3] == [[None if p in ("", "NA") else p.strip()] for p in pages[:3]]
    assert found[0].weights.tolist() == [i % 7 for i in range(6000)]


def test_weights_belong_to_sequences(tmp_path):
    text = "id,x,w\n1,0,0.5\n1,1,0.5\n2,3,2\n2,4,2\n"
    assert read_sequences(written(tmp_path, text), weights="w").weights.tolist() == [0.5, 2]
    with pytest.raises(ValueError, match=r"sequence 2 has the weight 2 \(row 4\) and 3 \(row 5\)"):
        read_sequences(written(tmp_path, text.replace("4,2", "4,3")), weights="w")
    with pytest.raises(ValueError, match=r"row 4: column 'w' has the weight -2"):
        read_sequences(written(tmp_path, text.replace("3,2", "3,-2")), weights="w")


def test_wide_table(tmp_path):
    path = written(tmp_path, LIVES)
    found = read_sequences(path, wide="a15:a18", weights="weight", group="sex")
    assert found.ids == [1, 2, 3]
    assert found.groups == ["f", "m", "f"]
    assert found.weights.tolist() == [0.5, 2, 1]
    assert found.lengths.tolist() == [4, 3, 2]  # empty cells at the end are after the end
    assert found.decoded(1) == [["school"], [None], ["work"]]
    assert found.categories == {"state": ("school", "work")}
    assert read_sequences(path, wide="a1*", weights="weight", group="sex") == found
    assert read_sequences(path, wide=["a15", "a16", "a17", "a18"], weights="weight", group="sex") == found


def test_wide_tables_of_other_kinds_agree(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    import pyarrow.parquet as pq

    expected = read_sequences(written(tmp_path, LIVES), wide="a15:a18", weights="weight")
    frame = pd.read_csv(tmp_path / "table.csv")
    assert Sequences.from_wide(frame, "a15:a18", weights="weight") == expected
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "table.parquet")
    assert read_sequences(tmp_path / "table.parquet", wide="a15:a18", weights="weight") == expected


@pytest.mark.parametrize(
    ("wide", "message"),
    [
        ("a18:a15", "goes from 'a18' back to 'a15'"),
        ("b*", r"no column matches 'b\*' of wide"),
        ({"one": "a15:a16", "two": "a15"}, r"differ in their number of columns \(one: 2, two: 1\)"),
        (["a15", "a15"], "names column 'a15' twice"),
    ],
)
def test_wide_columns_that_are_refused(tmp_path, wide, message):
    with pytest.raises(ValueError, match=message):
        read_sequences(written(tmp_path, LIVES), wide=wide)


def test_wide_rows_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="rows 1 and 2 both have the id 1"):
        read_sequences(written(tmp_path, LIVES.replace("\n2,2", "\n1,2")), wide="a15:a18")
    with pytest.raises(ValueError, match="sequence 3 has no value"):
        read_sequences(written(tmp_path, LIVES.replace("f,work,work,,", "f,,,,")), wide="a15:a18")
    path = written(tmp_path, LIVES)
    with pytest.raises(
        ValueError, match=r"row 4: column 'a15' has 'work', which is not one of the categories 'school'"
    ):
        read_sequences(path, wide="a15:a18", categories={"state": ["school"]})


def test_tables_of_several_channels_are_joined_by_id(tmp_path):
    work = written(tmp_path, "id,y1,y2\n1,school,job\n2,job,job\n", "work.csv")
    home = written(tmp_path, "id,y1,y2\n2,own,own\n1,parents,own\n", "home.csv")
    found = read_sequences([work, home], wide="y*", categories=True)
    assert found.channels == ["work", "home"]
    assert found.decoded(0) == [["school", "parents"], ["job", "own"]]
    assert read_sequences({"work": work, "home": home}, wide="y*", categories=True) == found
    written(tmp_path, "id,y1,y2\n2,own,own\n7,parents,own\n", "home.csv")
    with pytest.raises(ValueError, match=r"1 sequence \(1\) is not in channel 'home'"):
        read_sequences([work, home], wide="y*")
    written(tmp_path, "id,y1,y2\n8,own,own\n7,parents,own\n", "home.csv")
    with pytest.raises(ValueError, match=r"2 sequences \(1, 2\) are not in channel 'home'"):
        read_sequences([work, home], wide="y*")
    written(tmp_path, "id,y1,y2\n2,own,own\n1,parents,\n", "home.csv")
    with pytest.warns(InputWarning, match="1 sequence is not equally long"):
        assert read_sequences([work, home], wide="y*").decoded(0)[1] == ["job", None]


def test_weights_of_joined_tables_are_a_column_of_the_first(tmp_path):
    work = written(tmp_path, "id,w,y1,y2\n1,0.5,school,job\n2,2,job,job\n", "work.csv")
    home = written(tmp_path, "id,y1,y2\n2,own,own\n1,parents,own\n", "home.csv")
    assert read_sequences([work, home], wide="y*", weights="w").weights.tolist() == [0.5, 2.0]


def test_a_wide_table_read_as_long_gets_a_hint(tmp_path):
    text = "id,y1,y2\n" + "".join(f"{i},{i},{i + 1}\n" for i in range(5))
    with pytest.warns(InputWarning, match="name its columns with wide, as a range"):
        read_sequences(written(tmp_path, text))


def test_parts_of_a_table_are_matched_by_name(tmp_path):
    written(tmp_path, "id,page\na,search\na,cart\n", "1.csv")
    written(tmp_path, "id,page\nb,paid\nb,search\n", "2.csv")
    found = read_sequences(tmp_path, id="id", categories="page")
    assert found.categories == {"page": ("cart", "paid", "search")}
    assert found.decoded(1) == [["paid"], ["search"]]


def test_tables_in_memory():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"who": [1, 1, 2], "page": pd.Categorical(["b", None, "a"], ["b", "a"]), "w": [2.0, 2.0, 1.0]})
    found = Sequences.from_table(frame, id="who", values=["page"], weights="w")
    assert found.categories == {"page": ("b", "a")}
    assert found.weights.tolist() == [2, 1]
    assert found.decoded(0) == [["b"], [None]]
    assert found.to_multiindex()["page"].tolist()[0] == "b"
    text = {"who": [1, 1, 2], "page": ["b", None, "a"]}
    with pytest.raises(TypeError, match=r"column 'page' .*list it in categories"):
        Sequences.from_table(text, id="who", values=["page"])
    assert Sequences.from_table(text, id="who", values=["page"], categories=True).categories == {"page": ("a", "b")}


@pytest.mark.slow
def test_reading_categories_takes_at_most_twice_as_long_as_numbers(tmp_path):
    rng = np.random.default_rng(0)
    n = 200_000
    pages = np.array(["search", "cart", "paid", "help"])[rng.integers(4, size=n)]
    numbers = written(
        tmp_path, "id,x\n" + "".join(f"{i // 50},{x:.4f}\n" for i, x in enumerate(rng.random(n))), "n.csv"
    )
    names = written(tmp_path, "id,x\n" + "".join(f"{i // 50},{page}\n" for i, page in enumerate(pages)), "c.csv")

    def seconds(**options):
        best = np.inf
        for _ in range(3):
            start = time.process_time()
            read_sequences(**options)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(path=names, categories="x") < 2 * seconds(path=numbers)


def test_a_wide_table_of_text_is_not_read_as_single_rows(tmp_path):
    rows = ["person,m1,m2,m3", *(f"{i},school,work,{'work' if i % 2 else 'school'}" for i in range(5))]
    (tmp_path / "life.csv").write_text("\n".join(rows))
    with pytest.raises(
        ValueError, match="one row per sequence; name the columns of the sequences with wide, as a range m1:m3"
    ):
        vhem.read_sequences(tmp_path / "life.csv", id="person")
