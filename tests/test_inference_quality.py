"""Quality, consensus, gap, descriptions, differences, centres in pieces, and what is written for papers."""

from __future__ import annotations

import re
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from vhem import (
    H3M,
    HMM,
    VHEM,
    Bernoulli,
    Beta,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    InputError,
    NegativeBinomial,
    Poisson,
    Product,
    VonMises,
    divergence,
    fit_hmms,
)
from vhem.datasets import simulated_study
from vhem.inference import (
    Comparison,
    Members,
    Table,
    cluster_differences,
    clustering_quality,
    consensus,
    describe_hmm,
    disconnected_centers,
    gap_statistic,
    likeliest_paths,
)
from vhem.inference.bootstrap import Stopping
from vhem.inference.gap import log_spreads, principal_coordinates
from vhem.paper import methods_paragraph, write_comparison, write_tables
from vhem.paper.write import latex


@pytest.fixture(scope="module")
def study():
    return simulated_study(n_viewers=21, n_trials=6)


@pytest.fixture(scope="module")
def fit(study):
    return VHEM(3, random_state=0, n_jobs=1).fit(study.hmms)


def test_quality_by_hand(study, fit):
    found = clustering_quality(fit, study.hmms)
    D = divergence(study.hmms, study.hmms)
    distances = np.sqrt(np.maximum(D + D.T, 0))
    np.fill_diagonal(distances, 0)
    assert found.silhouette == pytest.approx(silhouette_score(distances, fit.labels_, metric="precomputed"))
    shares = np.array([[0.9, 0.1], [0.6, 0.4], [0.5, 0.5]])
    soft = clustering_quality(Members([], np.array([0, 0, 1]), shares), study.hmms[:3])
    np.testing.assert_allclose(soft.classification, [[0.75, 0.25], [0.5, 0.5]])
    entropy = -(shares * np.log(shares)).sum() / (3 * np.log(2))
    assert soft.certainty == pytest.approx(1 - entropy)
    with pytest.raises(InputError, match="there are 2 HMMs for 21 labels"):
        clustering_quality(fit, study.hmms[:2])


def test_consensus_is_clear_where_clusters_are(study, fit):
    found = consensus(study.hmms, 3, n_resamples=8, random_state=0)
    same = fit.labels_[:, None] == fit.labels_
    assert np.nanmean(found.matrix[same]) > 0.9
    assert np.nanmean(found.matrix[~same]) < 0.1
    blurred = consensus(study.hmms, 5, n_resamples=8, random_state=0)
    assert blurred.ambiguous > found.ambiguous


def test_the_gap_says_when_nothing_is_there(study):
    assert gap_statistic(study.hmms, range(1, 6), random_state=0, n_reference=20).best == 3
    found = []
    for seed in range(6):
        means = np.random.default_rng(seed).normal(size=(40, 1, 2))
        alike = H3M([HMM([1.0], [[1.0]], m, np.ones((1, 2))) for m in means])
        found.append(gap_statistic(alike, range(1, 6), random_state=0, n_reference=20).best)
    assert found.count(1) >= 5


def test_spread_within_clusters_is_that_about_means():
    points = np.random.default_rng(0).normal(size=(12, 3))
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    made = principal_coordinates(squares)
    np.testing.assert_allclose(((made[:, None] - made) ** 2).sum(axis=2), squares, atol=1e-9)
    spread = np.exp(log_spreads(points, np.array([1])))[0]
    assert spread == pytest.approx(((points - points.mean(axis=0)) ** 2).sum())


def test_information_of_a_known_chain():
    """Far apart, observations tell the state: the information about the next is that of the chain, ln 2 - H(0.1)."""
    hmm = HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.0], [50.0]], [[1.0], [1.0]])
    found = describe_hmm(hmm, length=4)
    h = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert found.state_information == pytest.approx(np.log(2) - h)
    assert found.entropy_rate == pytest.approx(h)
    assert found.information == pytest.approx(np.log(2) - h, abs=0.03)
    assert found.entropy == pytest.approx(np.log(2) + 0.5 * np.log(2 * np.pi * np.e), abs=0.03)
    assert found.entropy - found.conditional_entropy == pytest.approx(found.information)
    np.testing.assert_allclose(found.time_share, [0.5, 0.5])
    with pytest.raises(ValueError, match="paths of 2 states"):
        likeliest_paths(hmm, 40)


def test_differences_are_found_where_they_are():
    rng = np.random.default_rng(2)
    arrays, owner = [], []
    for person in range(16):
        stay = 0.5 if person % 2 else 0.9
        hmm = HMM([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], [[0.0], [6.0]], [[1.0], [1.0]])
        arrays += list(hmm.sample(8, 10, rng))
        owner += [person] * 8
    center = HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.0], [6.0]], [[1.0], [1.0]])
    centers = fit_hmms(arrays, groups=[person % 2 for person in owner], init=center)
    found = cluster_differences(centers, np.arange(16) % 2, arrays, owner, ["x"], 60)[0]
    named = {row.what: row for row in found.estimates}
    assert not named["state 1: x"].clear
    assert named["from 1 to 2"].interval[1] < 0
    assert named["from 1 to 2"].interval[0] < -0.4 < named["from 1 to 2"].interval[1]
    assert named["state 1: observations per visit"].clear
    with pytest.raises(InputError, match="labels has 3 entries for 16 people"):
        cluster_differences(centers, [0, 1, 0], arrays, owner)
    with pytest.raises(TypeError, match="give a fitted clustering instead of its centres"):
        cluster_differences(centers, None, arrays, owner)
    fit = SimpleNamespace(centers_=centers, labels_=np.arange(16) % 2)
    assert cluster_differences(fit, None, arrays, owner, ["x"], 60)[0].states == found.states


FAMILIES = {
    "gaussian": Gaussian([[0.0], [5.0]], [[1.0], [1.0]]),
    "categorical": Categorical([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]),
    "bernoulli": Bernoulli([0.2, 0.9]),
    "poisson": Poisson([2.0, 9.0]),
    "negative binomial": NegativeBinomial([2.0, 9.0], [3.0, 3.0]),
    "exponential": Exponential([0.5, 6.0]),
    "gamma": Gamma([0.5, 6.0], [2.0, 4.0], [0.3, 0.0]),
    "beta": Beta([0.2, 0.8], [9.0, 9.0]),
    "von mises": VonMises([3.0, 0.5], [4.0, 2.0]),
    "product": Product([Poisson([2.0, 9.0]), Categorical([[0.9, 0.1], [0.2, 0.8]])]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_described_as_their_draws_are(family):
    """Means, rates and probabilities are those of many random frames, whatever the family."""
    hmm = HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], emissions=FAMILIES[family])
    columns = [f"x{j + 1}" for j in range(hmm.n_dims)]
    numbers = hmm.parameters.components.numbers(hmm.parameters.mix_weights, columns, [None] * hmm.n_dims)
    X = hmm.emissions.draw(np.repeat([0, 1], 20_000), np.random.default_rng(0)).reshape(2, 20_000, -1)
    for number in numbers:
        name, _, category = number.name.partition(" = ")
        x = X[..., columns.index(name.split()[0])]
        vector = np.exp(1j * x).mean(axis=1)
        expected = (x == float(category)).mean(axis=1) if category else x.mean(axis=1)
        if "degrees" in name:
            expected = np.degrees(np.angle(vector))
        elif "concentration" in name:
            expected = np.abs(vector)
        np.testing.assert_allclose(number.values[0], expected, rtol=0.04, atol=0.04)


def test_angles_differ_the_shorter_way_round():
    arrays, owner = [], []
    for person in range(8):
        turns = VonMises([3.0 + 0.5 * (person % 2)], [20.0])
        arrays += list(HMM([1.0], [[1.0]], emissions=turns).sample(2, 20, np.random.default_rng(person)))
        owner += [person] * 2
    centers = H3M([HMM([1.0], [[1.0]], emissions=VonMises([3.0 + 0.5 * k], [20.0])) for k in (0, 1)])
    found = cluster_differences(centers, np.arange(8) % 2, arrays, owner, ["turn"], 10)[0].estimates[0]
    assert found.what == "state 1: turn (degrees)"
    assert found.difference == pytest.approx(-np.degrees(0.5))
    assert found.interval[1] < 0 < found.interval[1] + 40


def test_a_centre_that_joins_three_activities_is_reported():
    apart = HMM([0.4, 0.3, 0.3], np.eye(3) * 0.99 + 0.01 / 3, [[0.0], [5.0], [9.0]], [[1.0]] * 3)
    moving = HMM([1, 0, 0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]], [[0.0], [5.0], [9.0]], [[1.0]] * 3)
    found = disconnected_centers(H3M([moving, apart], ids=["m", "a"]), length=10)
    assert [(piece.center, piece.pieces) for piece in found] == [("a", [[0], [1], [2]])]
    assert "cluster 2 joins unlike members: its centre falls into 3 pieces" in found[0].sentence()
    assert disconnected_centers(apart, length=500) == []  # long sequences do move between its states


def test_a_centre_in_pieces_joins_unlike_members_only_if_they_keep_to_different_pieces():
    """People with sequences of each kind are alike; so is a cluster of people of whom each is always in one place."""
    means, covars = [[0.0], [9.0]], [[1.0], [1.0]]
    center = HMM([0.5, 0.5], np.eye(2), means, covars)
    of_each_kind = H3M([center] * 4)
    loyal = H3M([HMM([1.0], [[1.0]], [means[k % 2]], [covars[0]]) for k in range(4)])
    assert disconnected_centers(center, 10, of_each_kind, np.zeros(4, dtype=int)) == []
    assert len(disconnected_centers(center, 10, loyal, np.zeros(4, dtype=int))) == 1
    assert disconnected_centers(center, 10, loyal[[0, 2]], [0, 0]) == []


def test_tables_in_four_formats(tmp_path):
    docx, openpyxl = pytest.importorskip("docx"), pytest.importorskip("openpyxl")
    table = Table("effects", "Effects & sizes", ["", "p", "=1+1"], [["age_1", "< .001", "0.5"]], "A note: 50 %.")
    found = Comparison([table], ["It was so."], ["Careful."], "k")
    files = write_comparison(tmp_path, found, "We did it.")
    assert {path.name for path in files} == {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "effects.csv").read_text() == "column 1,p,=1+1\nage_1,< .001,0.5\n"
    grid = docx.Document(tmp_path / "tables.docx").tables[0]
    assert sum(column.width for column in grid.columns) > 0.9 * 15.2 * 360_000  # the width of the text, in cm
    sheet = openpyxl.load_workbook(tmp_path / "tables.xlsx")["effects"]
    assert [cell.value for cell in sheet[2]] == ["age_1", "< .001", 0.5]
    text = "\n".join(p.text for p in docx.Document(tmp_path / "tables.docx").paragraphs)
    assert all(
        said in text for said in ("We did it.", "It was so.", "Careful.", "Table 1", "Effects & sizes", "Note. A")
    )
    assert zipfile.is_zipfile(tmp_path / "tables.docx")
    assert r"age\_1 & $<$ .001" in latex(table)
    assert Comparison.from_json((tmp_path / "statistics.json").read_text()) == found._replace(methods="We did it.")


def test_without_the_extra_the_other_formats_are_written(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "docx", None)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    files = write_tables(tmp_path, [Table("t", "T", ["a"], [["1"]])])
    assert [path.name for path in files] == ["t.csv", "tables.tex"]


@pytest.mark.parametrize(
    ("rule", "smallest"), [(Stopping.of(69), 0.025), (Stopping(99, 10), 0.025), (Stopping.of(199), 0.0125)]
)
def test_the_look_at_the_bootstrap_keeps_its_level(rule, smallest):
    n, most = 20_000, rule.most
    ranks = np.random.default_rng(0).random((n, most + 1))
    above = (ranks[:, 1:] >= ranks[:, :1]).cumsum(axis=1)  # data that are like those drawn
    found = np.empty(n)
    for k, counts in enumerate(above):
        end = next(m for m in range(1, most + 1) if rule.is_over(m, counts[m - 1]))
        found[k] = rule.p(end, counts[end - 1])
    assert rule.smallest_p == rule.p(rule.look, 0) == pytest.approx(smallest) == found.min()
    for level in (0.01, 0.025, 0.05, 0.1, 0.3):
        assert (found <= level).mean() <= level + 3 * np.sqrt(level / n)
    assert (found <= 0.05).mean() > 0.042


def test_p_of_the_bootstrap_adds_up_the_outcomes_that_say_more():
    """Every outcome's probability by enumeration: the rank of the data is uniform, so q is the share of draws above."""
    rule, q = Stopping(69, 3), np.polynomial.legendre.leggauss(60)
    outcomes: dict[tuple[int, int], float] = {}
    for share, weight in zip((q[0] + 1) / 2, q[1] / 2, strict=True):
        paths = {0: weight}
        for n in range(1, 70):
            paths = {a: paths.get(a, 0) * (1 - share) + paths.get(a - 1, 0) * share for a in range(4)}
            for a in [a for a in paths if a <= n and rule.is_over(n, a)]:
                outcomes[n, a] = outcomes.get((n, a), 0) + paths.pop(a)
    assert sum(outcomes.values()) == pytest.approx(1)
    order = sorted(outcomes, key=lambda outcome: (outcome != (39, 0), outcome[1], -outcome[0]))
    for outcome, p in zip(order, np.cumsum([outcomes[outcome] for outcome in order]), strict=True):
        assert rule.p(*outcome) == pytest.approx(p, rel=1e-9)


def test_few_data_sets_of_the_bootstrap_are_all_drawn():
    rule = Stopping(19, 10)
    assert not rule.is_over(18, 0)
    assert rule.is_over(19, 0)
    assert rule.p(19, 0) == 0.05
    assert rule.p(12, 10) == 10 / 12


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_states": 3, "topology": "auto"}, "one per person, with three states and Gaussian emissions with diagonal"),
        (
            {"n_states": "auto", "covariance_type": "full"},
            "with as many states as BIC preferred and Gaussian emissions",
        ),
        ({"n_states": 2, "topology": "left-right"}, "with two states in a left-right topology and Gaussian emissions"),
    ],
)
def test_methods_say_what_the_models_were(settings, said):
    facts = {"people": 10, "sequences": 40, "observations": 400, "dimensions": ["x", "y", "z"]}
    tests = {"n_folds": 5, "n_bootstrap": 39, "n_bootstrap_most": 69, "seed": 0}
    text = methods_paragraph(settings | {"n_clusters": 2}, facts, tests)
    assert said in text
    assert "400 observations of x, y and z" in text
    assert "39 data sets of the same size (of at most 69; the result was then clear)" in text
    single = methods_paragraph(settings | {"n_clusters": 2}, facts | {"people": 40}, tests)
    assert single.startswith("40 sequences (400 observations")
    assert "people" not in single


def test_wide_tables_fit_on_a_page_of_latex():
    narrow = latex(Table("t", "Title", ["a", "b"], [["1", "2"]]))
    assert r"\begin{tabular}{ll}" in narrow
    wide = latex(Table("t", "Title", [f"a long heading {k}" for k in range(8)], [["1"] * 8]))
    shares = [float(x) for x in re.findall(r"dimexpr([.\d]+)", wide)]
    assert len(shares) == 8
    assert sum(shares) == pytest.approx(1.0, abs=0.01)
