"""Values that a family cannot emit, and columns that look like another family: where they are, and what to do."""

import itertools
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import vhem
from vhem._support.errors import InputWarning
from vhem.cli.main import app

RNG = np.random.default_rng


def table(path, column, bad=None, n=4, T=8):
    """Write a long table with unsorted rows and a bad value; return the row of the file that has it."""
    rng = RNG(0)
    good = {"calls": "2", "share": "0.5", "rest": "1.5", "turn": "0.3"}
    cells = list(itertools.product([f"p{i}" for i in range(n)], range(T)))
    rng.shuffle(cells)
    lines = [f"who,time,{column}"]
    for k, (who, t) in enumerate(cells):
        lines.append(f"{who},{t},{bad if bad is not None and k == 13 else good[column]}")
        if k == 5:
            lines.append("")  # an empty row is a row of the file
    path.write_text("\n".join(lines) + "\n")
    return 16


BAD = [
    ("calls", "poisson", "-1", "negative.*correct it"),
    ("calls", "negativebinomial", "2.5", "not an integer.*choose another family"),
    ("share", "beta", "1", "divide percentages by 100"),
    ("rest", "gamma", "0", "'zero-gamma' instead of 'gamma'"),
    ("turn", "vonmises", "90", "give 'vonmises:degrees'"),
    ("turn", "vonmises:degrees", "-400", "modulo 360"),
    ("calls", "poisson", "many", "not a number.*categories"),
]


@pytest.mark.parametrize(("column", "family", "bad", "words"), BAD)
def test_errors_name_the_row_of_the_file_and_the_cure(tmp_path, column, family, bad, words):
    row = table(tmp_path / "t.csv", column, bad)
    with pytest.raises(vhem.InputError, match=rf"t\.csv, row {row}: column '{column}' has '?{bad}.*{words}"):
        vhem.fit_hmms(vhem.read_sequences(tmp_path / "t.csv"), 1, emissions=family)


def test_the_command_names_the_row(tmp_path):
    row = table(tmp_path / "t.csv", "calls", "-1")
    said = ["fit", str(tmp_path / "t.csv"), "-o", str(tmp_path / "out"), "--emissions", "poisson", "-q"]
    found = CliRunner().invoke(app, said)
    assert found.exit_code
    assert f"t.csv, row {row}: column 'calls' has -1" in " ".join(found.output.split())


def test_rows_of_parts_of_the_sequences_and_of_wide_and_joined_tables(tmp_path):
    row = table(tmp_path / "t.csv", "calls", "-1")
    ys = vhem.read_sequences(tmp_path / "t.csv")
    some = ys[[i for i in range(len(ys)) if ys[i].min() < 0]]
    with pytest.raises(vhem.InputError, match=rf"row {row}: "):
        vhem.HMM([1.0], [[1.0]], emissions=vhem.Poisson([1.0])).score(some)
    (tmp_path / "wide.csv").write_text("id,w1,w2,w3\na,1,2,3\nb,1,-2,3\n")
    with pytest.raises(vhem.InputError, match=r"wide\.csv, row 3: column 'w2' has -2"):
        vhem.fit_hmms(vhem.read_sequences(tmp_path / "wide.csv", wide="w1:w3"), 1, emissions="poisson")
    (tmp_path / "more.csv").write_text("id,w1,w2,w3\nb,1,1,1\na,1,1,0.5\n")
    both = vhem.read_sequences([tmp_path / "wide.csv", tmp_path / "more.csv"], wide="w1:w3")
    with pytest.raises(vhem.InputError, match=r"more\.csv, row 3: column 'w3' has 0\.5"):
        vhem.fit_hmms(both, 1, emissions={"wide": "gaussian", "more": "poisson"})


def test_rows_of_files_in_folders(tmp_path):
    for name in ("one", "two"):
        table(tmp_path / f"{name}.csv", "calls", "-1" if name == "two" else None, n=1, T=20)
    with pytest.raises(vhem.InputError, match=r"two\.csv, row 16: column 'calls' has -1"):
        vhem.fit_hmms(vhem.read_sequences(tmp_path, values=["calls"]), 1, emissions="poisson")


def test_without_the_file_the_sequence_is_named(tmp_path):
    table(tmp_path / "t.csv", "calls", "-1")
    ys = vhem.read_sequences(tmp_path / "t.csv")
    (tmp_path / "t.csv").unlink()
    with pytest.raises(vhem.InputError, match=r"sequence . \(id 'p.'\) has -1 at frame ., column 'calls'"):
        vhem.fit_hmms(ys, 1, emissions="poisson")


def test_a_category_where_a_number_was_promised_is_shown_where_it_is(tmp_path):
    (tmp_path / "t.csv").write_text("id,page\n" + "a,cart\na,item\nb,item\nb,cart\n" * 3)
    ys = vhem.read_sequences(tmp_path / "t.csv", categories=["page"])
    with pytest.raises(vhem.InputError, match=r"row 2: column 'page' has 'cart', a category, but .* 'categorical'"):
        vhem.fit_hmms(ys, 1, emissions="poisson")


# -- degrees


def test_angles_in_degrees_are_those_in_radians():
    rng = RNG(1)
    radians = [rng.vonmises(mu, 4.0, size=30) for mu in (0.0, 0.0, 3.0, 3.0)]
    degrees = [np.degrees(y) for y in radians]
    one = vhem.fit_hmms(radians, 2, emissions="vonmises", random_state=0)
    two = vhem.fit_hmms(degrees, 2, emissions={"x1": "vonmises:degrees"}, random_state=0)
    part = two.emissions.parts[0]
    np.testing.assert_allclose(np.radians(part.directions), one.emissions.directions, atol=1e-9)
    np.testing.assert_allclose(part.concentrations, one.emissions.concentrations, rtol=1e-9)
    per_frame = np.log(np.pi / 180)  # the density of a degree
    np.testing.assert_allclose(two.score_samples(degrees), one.score_samples(radians) + 30 * per_frame, rtol=1e-9)
    assert np.abs(two[0].sample(1, 50, random_state=0)[0]).max() > 2 * np.pi


# -- hints


def looks(emissions="gaussian", **columns):
    ys = vhem.Sequences([np.column_stack(list(columns.values()))], channels=list(columns))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vhem.fit_hmms(ys, 1, n_init=1, max_iter=2, tol=0, emissions=emissions)
    return [str(w.message) for w in caught if issubclass(w.category, InputWarning)]


def test_columns_that_look_like_another_family_are_hinted_at_in_one_line_each():
    rng = RNG(2)
    found = looks(
        calls=rng.poisson(2.0, 300), happened=rng.random(300) < 0.3, heading=rng.uniform(0, 360, 300),
        rain=np.where(rng.random(300) < 0.3, 0.0, rng.gamma(1.0, 2.0, 300)), x=rng.normal(size=300),
    )  # fmt: skip
    words = ["counts", "yes and no", "angles in degrees", "amounts with exact zeros"]
    families = ["poisson", "bernoulli", "vonmises:degrees", "zero-gamma"]
    assert len(found) == 4
    for text, word, family in zip(found, words, families, strict=True):
        assert word in text
        assert f"emissions='{family}'" in text


def test_large_counts_are_hinted_at_if_many_are_zero():
    cases = np.where(RNG(5).random(300) < 0.5, 0, RNG(6).geometric(0.01, 300))
    assert "emissions='negativebinomial'" in looks(cases=cases)[0]


def test_measurements_are_not_taken_for_something_else():
    rng = RNG(3)
    pixels, ratings = rng.integers(1, 800, 300), rng.integers(1, 6, 300)
    assert not looks(x=pixels, rating=ratings, height=rng.uniform(0, 360, 300).cumsum() % 7, y=rng.normal(size=300))


def test_whoever_names_the_family_is_not_asked():
    calls = RNG(4).poisson(2.0, 100)
    assert looks(calls=calls)
    assert not looks({"calls": "gaussian"}, calls=calls)
