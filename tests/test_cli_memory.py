"""What commands know about the table of a run: `score` reads others like it, `associate` tests other columns."""

import numpy as np
import pytest
from typer.testing import CliRunner

from vhem.cli.in_words import clusters_text
from vhem.cli.main import app
from vhem.emissions import Gamma, Product, VonMises
from vhem.sequences.readers.roles import given_or_guessed


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """A wide table of 40 people, half of whom work early, and a run of it."""
    folder = tmp_path_factory.mktemp("lives")
    rng = np.random.default_rng(0)
    rows = ["who,weight,sex,m1,m2,m3,m4,m5,m6,m7,m8"]
    for i in range(40):
        months = ["school" if m < (2 if i % 2 else 6) + rng.integers(2) else "work" for m in range(8)]
        rows.append(",".join([f"p{i}", "1.0", "fm"[rng.integers(2)], *months]))
    (folder / "lives.csv").write_text("\n".join(rows))
    made = run("cluster", folder / "lives.csv", "--wide", "m1:m8", "--id", "who", "--weights", "weight", "-k", 2,
               "-s", 2, "-o", folder / "out", "--quiet")  # fmt: skip
    assert made.exit_code == 0, made.output
    return folder


def test_info_reads_wide_tables(lives):
    said = run("info", lives / "lives.csv", "--wide", "m1:m8", "--id", "who")
    assert said.exit_code == 0
    assert "categories: state" in said.output


def test_score_reads_a_table_as_the_run_did(lives):
    said = run("score", lives / "out", lives / "lives.csv")
    assert said.exit_code == 0, said.output
    assert len(said.stdout.splitlines()) == 41


def test_score_guesses_where_the_columns_are_others(lives):
    (lives / "long.csv").write_text("id,state\n" + "\n".join(f"{i},{s}" for i in "ab" for s in ["school", "work"] * 4))
    said = run("score", lives / "out", lives / "long.csv")
    assert said.exit_code == 0, said.output
    assert len(said.stdout.splitlines()) == 3


def test_score_counts_unknown_categories_as_another(lives):
    table = (lives / "lives.csv").read_text().replace("school", "college", 3)
    (lives / "new.csv").write_text(table)
    assert "'college'" in run("score", lives / "out", lives / "new.csv").output
    assert run("score", lives / "out", lives / "new.csv", "--other", "school").exit_code == 0


def test_associate_leaves_out_what_was_clustered(lives):
    said = run("associate", lives / "out", "--table", lives / "lives.csv", "--no-recluster", "--bootstrap", 9)
    assert said.exit_code == 0, said.output
    assert "weight, m1, … m8 (9 columns) took part in the clustering" in said.output.replace("\n", " ")
    tested = [line.split()[0] for line in said.stdout.splitlines() if "χ²" in line or "Fisher" in line]
    assert tested == ["sex"]
    assert "Case weights were not used" in said.output


def test_steps_beside_a_time_are_lengths():
    roles = given_or_guessed(["animal", "t", "step", "turn"], lambda name: name != "animal", "animal", None, None, None)
    assert (roles.time, roles.values) == ("t", ["step", "turn"])
    alone = given_or_guessed(["run", "step", "x"], lambda name: name != "run", "run", None, None, None)
    assert (alone.time, alone.values) == ("step", ["x"])


def test_emissions_show_their_parameters():
    shown = repr(Product([Gamma([1.0, 2.0], [3.0, 4.0]), VonMises([0.0, 1.0], [2.0, 2.0])]))
    assert shown.startswith("Product([Gamma(means=[[1.], [2.]], shapes=")
    assert "concentrations=" in shown


def test_probabilities_of_transitions_lie_within_their_intervals():
    states = [{"state": 1, "share_of_time": 1.0, "emits": ["x 1"], "next": [0.0, 1.0], "next_expected": [0.6, 0.4],
               "next_interval": [[0.1, 0.05], [0.95, 0.9]]}]  # fmt: skip
    said = clusters_text(
        [{"cluster": 1, "members": ["a"], "states": [*states, states[0] | {"state": 2}]}], None, "HMMs"
    )
    assert "stays there (60 %, 95 % interval 10 to 95 %)" in said
    assert "then most often state 1 (60 %" in said
