"""associate: tests of covariates against scipy's and statsmodels' own, tables of all kinds, and bad input."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats

from vhem import InputError, SequenceClustering
from vhem.datasets import simulated_study
from vhem.inference import Members, associate
from vhem.inference.association import categories, kruskal, logistic
from vhem.inference.covariates import covariates_of
from vhem.inference.pipeline import run_again


@pytest.fixture(scope="module")
def members():
    labels = np.repeat([0, 1, 2], 12)
    shares = np.full((36, 3), 0.05)
    shares[np.arange(36), labels] = 0.9
    return Members([f"p{i:02d}" for i in range(36)], labels, shares)


@pytest.fixture
def table(members):
    rng = np.random.default_rng(0)
    return {
        "person": members.ids,
        "age": 30 + 5 * members.labels + rng.normal(size=36),
        "score": rng.normal(size=36),
        "site": np.where(np.arange(36) % 4 < 2, "north", "south"),
        "group": np.array(["a", "b", "c"])[members.labels],
    }


def by_name(found):
    return {row.name: row for row in found.rows}


def test_covariates_are_tested_as_scipy_does(members, table):
    rows = by_name(associate(members, table, n_bootstrap=0))
    parts = [table["age"][members.labels == k] for k in range(3)]
    h, p = stats.kruskal(*parts)
    age = rows["age"].found
    assert (age.statistic, age.p, age.effect) == pytest.approx((h, p, h / 35))
    counts = stats.contingency.crosstab(table["site"], members.labels).count
    chi2, p, df, _ = stats.chi2_contingency(counts, correction=False)
    site = rows["site"].found
    assert (site.statistic, site.p, site.df) == pytest.approx((chi2, p, str(df)))
    assert site.effect == pytest.approx(stats.contingency.association(counts, method="cramer"))
    f, p = stats.f_oneway(*parts)
    anova = by_name(associate(members, table, numeric="anova", n_bootstrap=0))["age"].found
    between = sum(12 * (part.mean() - table["age"].mean()) ** 2 for part in parts)
    assert (anova.statistic, anova.p) == pytest.approx((f, p))
    assert anova.effect == pytest.approx(between / ((table["age"] - table["age"].mean()) ** 2).sum())


def test_the_strongest_comes_first_and_p_is_corrected(members, table):
    found = associate(members, table, n_bootstrap=0)
    assert [row.name for row in found.rows][:2] == ["group", "age"]
    raw = sorted((row.found.p, row.p_holm) for row in found.rows)
    assert raw[0][1] == pytest.approx(min(1, 4 * raw[0][0]))


def test_small_tables_are_tested_exactly():
    labels = np.repeat([0, 1], [7, 5])
    values = ["yes"] * 6 + ["no"] * 5 + ["yes"]
    found = categories(values, labels)
    assert found.test == "Fisher's exact"
    table = stats.contingency.crosstab(values, labels).count
    assert found.p == pytest.approx(stats.fisher_exact(table)[1])
    many = categories(list("aabbccaabbcc"), labels)
    assert many.test == "χ², permuted"
    assert many.p > 0.1


def test_permuted_p_agrees_with_the_distribution_where_counts_are_large():
    rng = np.random.default_rng(0)
    labels, values = rng.integers(3, size=300), rng.choice(list("abc"), 300).tolist()
    from vhem.inference import association

    seen = categories(values, labels)
    permuted = association._permuted(values, labels, seen.statistic, 0)
    assert permuted == pytest.approx(seen.p, abs=0.02)


def test_a_number_that_tells_clusters_without_a_mistake_has_infinite_odds():
    x, labels = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]), np.repeat([0, 1], 4)
    found = logistic(x, np.eye(2)[labels])
    assert (found.effect, found.strength) == (0.0, 1.0)  # of the first cluster, whose numbers are small
    assert found.p == pytest.approx(2 / 70, abs=0.005)  # two of the 70 ways to choose four are as clear
    assert logistic(-x, np.eye(2)[labels]).effect == np.inf


def test_logistic_regression_with_hard_labels_is_statsmodels_logit():
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    labels = (x + rng.normal(size=80) > 0).astype(int)
    shares = np.column_stack([1.0 - labels, labels])
    found = logistic(x, shares)
    other = sm.Logit(1 - labels, sm.add_constant((x - x.mean()) / x.std(ddof=1))).fit(disp=0)
    assert found.effect == pytest.approx(np.exp(other.params[1]), rel=1e-6)
    doubtful = logistic(x, 0.5 + 0.2 * (shares - 0.5))
    assert abs(np.log(doubtful.effect)) < abs(np.log(found.effect))  # people between clusters count as such


@pytest.mark.slow
def test_intervals_cover_the_truth_and_chance():
    rng = np.random.default_rng(4)
    inside, at_zero, repeats = 0, 0, 30
    for _ in range(repeats):
        labels = np.repeat([0, 1], 40)
        x, noise = rng.normal(size=80) + 0.8 * labels, rng.normal(size=80)
        ids = list(range(80))
        found = by_name(associate(Members(ids, labels, np.eye(2)[labels]), {"id": ids, "x": x, "noise": noise},
                                  numeric="anova", n_bootstrap=99, random_state=rng))  # fmt: skip
        truth = 0.4**2 / (0.4**2 + 1)  # groups ±0.4 about their mean, deviation 1
        low, high = found["x"].interval
        inside += low <= truth <= high
        at_zero += found["noise"].interval[0] == 0
    assert inside >= 0.85 * repeats
    assert at_zero >= 0.9 * repeats


def test_clusters_are_made_again_inside_the_bootstrap(monkeypatch):
    study = simulated_study(n_viewers=12, n_trials=4)
    fit = SequenceClustering(2, 2, random_state=0, n_jobs=1).fit(study.sequences, groups=study.sequences.groups)
    table, runs = {"viewer": fit.ids_, "age": np.arange(12.0)}, []

    def watched(model, part, n_clusters, seed):
        runs.append(part)
        return run_again(model, part, n_clusters, seed)

    monkeypatch.setattr(sys.modules["vhem.inference.associate"], "run_again", watched)
    again = associate(fit, table, sequences=study.sequences, n_bootstrap=3)
    assert [part.n for part in runs] == [12] * 3
    assert again.reclustered
    assert "clustering again in each" in again.note()
    fixed = associate(fit, table, n_bootstrap=3)
    assert not fixed.reclustered
    assert again.rows[0].found == fixed.rows[0].found
    with pytest.raises(InputError, match="belong to other people"):
        associate(fit, table, sequences=study.sequences[:30])


def test_tables_of_all_kinds(members, table, tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = associate(members, table, n_bootstrap=0).rows
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_csv(tmp_path / "people.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "people.parquet")
    files = [tmp_path / f"people.{suffix}" for suffix in ("csv", "tsv", "parquet")]
    for given in (frame, pl.DataFrame(table), frame.sample(frac=1, random_state=0), *files):
        found = associate(members, given, n_bootstrap=0).rows
        assert [row.name for row in found] == [row.name for row in expected]
        assert [row.found.p for row in found] == pytest.approx([row.found.p for row in expected])


def test_spreadsheets_name_people_by_numbers(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"subject": [float(i) for i in range(12)], "age": np.arange(12.0) ** 2})
    frame.to_excel(tmp_path / "people.xlsx", index=False)
    people = Members(list(range(12)), np.repeat([0, 1], 6), np.eye(2)[np.repeat([0, 1], 6)])
    assert associate(people, tmp_path / "people.xlsx", n_bootstrap=0).rows[0].n == 12


def test_long_tables_have_one_value_per_person(members):
    owner = np.repeat(members.ids, 3)
    long = {"person": owner, "x": np.arange(108.0), "age": np.repeat(20 + members.labels, 3)}
    found = associate(members, long, n_bootstrap=0)
    assert [row.name for row in found.rows] == ["age"]
    assert found.skipped == {"x": "has several values per person"}
    with pytest.raises(InputError, match="column 'x' has several values for 'p00': '0', '1'"):
        associate(members, long, columns=["x"])


def test_what_says_nothing_is_left_out_with_a_reason(members, table):
    table |= {"planet": ["earth"] * 36, "empty": [None] * 36, "note": [f"text {i}" for i in range(36)]}
    table["age"][:3] = np.nan
    found = associate(members, table, n_bootstrap=0)
    assert found.skipped == {
        "planet": "is constant (earth)", "empty": "has no values", "note": "has a different text for everybody"
    }  # fmt: skip
    assert by_name(found)["age"].n == 33
    assert "planet is constant (earth)" in found.table().note


def test_people_whom_the_table_lacks_are_listed(members, table):
    short = {name: np.asarray(column)[4:] for name, column in table.items()}
    with pytest.warns(UserWarning, match="4 of 36 people are left out, since the table lacks them: p00, p01, p02, p03"):
        found = associate(members, short, n_bootstrap=0)
    assert found.absent == ["p00", "p01", "p02", "p03"]
    assert found.rows[0].n == 32
    with pytest.raises(InputError, match="lacks 4 of 36 people: p00"):
        associate(members, short, missing="refuse")


def test_bad_tables_are_named(members, table):
    with pytest.raises(
        InputError, match="no column of the table clearly names the people of the clustering, such as 'p00'"
    ):
        associate(members, {"person": ["x", "y"], "age": [1, 2]})
    with pytest.raises(InputError, match="has no column 'height'; it has person, age"):
        associate(members, table, columns=["height"])
    with pytest.raises(InputError, match="no covariate to test \\(planet is constant"):
        associate(members, {"person": members.ids, "planet": ["earth"] * 36})
    with pytest.raises(InputError, match="not two clusters with at least 3 people"):
        associate(members._replace(labels=np.zeros(36, dtype=int)), table)
    with pytest.raises(TypeError, match="does not say whose clusters these are"):
        associate(object(), table)
    few = members._replace(labels=np.r_[members.labels[:-2], 3, 3], responsibilities=np.full((36, 4), 0.25))
    assert "cluster 4" in associate(few, table, n_bootstrap=0).skipped


def test_numbers_of_two_kinds_are_categories(members):
    found = covariates_of({"id": members.ids, "sex": [1, 2] * 18, "code": [1, 2, 3] * 12}, members.ids,
                          categorical=["code"])  # fmt: skip
    assert [column.numeric for column in found.columns] == [False, False]


def test_ties_everywhere_are_not_a_test():
    assert np.isnan(kruskal(np.ones(10), np.repeat([0, 1], 5)).p)


def test_intervals_of_strong_effects_include_them():
    """What chance gives is little where nothing is left to explain: a perfect association is not moved down."""
    labels = np.repeat([0, 1, 2], 10)
    members = Members(list(range(30)), labels, np.eye(3)[labels])
    table = {"id": list(range(30)), "same": [f"kind {k}" for k in labels], "other": ["a", "b"] * 15}
    found = {row.name: row for row in associate(members, table, n_bootstrap=50).rows}
    assert found["same"].interval == pytest.approx((1.0, 1.0))
    low, high = found["other"].interval
    assert low == 0.0
    assert found["other"].found.effect <= high


def test_columns_that_cannot_be_tested_are_named():
    labels = np.repeat([0, 1], 6)
    members = Members(list(range(12)), labels, np.eye(2)[labels])
    table = {
        "id": list(range(12)), "age": list(range(12)), "late": [None] * 10 + [3.0, 4.0],
        "endless": [np.inf, *range(11)], "site": ["a"] * 12,
    }  # fmt: skip
    found = associate(members, table, n_bootstrap=0)
    assert [row.name for row in found.rows] == ["age"]
    assert found.skipped == {
        "late": "has values for 2 members, too few to test", "endless": "has infinite values",
        "site": "is constant (a)",
    }  # fmt: skip
    with pytest.raises(InputError, match=r"no covariate to test \(late has values for 2 members"):
        associate(members, {key: table[key] for key in ("id", "late")})
    with pytest.raises(InputError, match="the table has no columns"):
        associate(members, {})


def test_a_covariate_is_not_taken_for_the_names_of_people():
    people = [str(k) for k in range(1, 33)]
    names = [f"S{k:02d}" for k in range(1, 33)]
    with pytest.raises(InputError, match="'age' has 15 of these 32 names, but may be a covariate"):
        covariates_of({"who": names, "age": list(range(18, 50))}, people)
    with pytest.raises(InputError, match="'rank_score' has 32 of these 32 names"):
        covariates_of({"who": names, "rank_score": list(range(1, 33))}, people)
    with pytest.raises(InputError, match="column 'who' of the table names nobody in the clustering: it has 'S01'"):
        covariates_of({"who": names, "rank_score": list(range(1, 33))}, people, id="who")
    table = {"rank_score": list(range(32, 0, -1)), "x": np.arange(32) % 5, "subject": people}
    assert covariates_of(table, people, id="subject").key == "subject"
    assert (
        covariates_of({"age": list(range(18, 50)), "x": np.arange(32) % 5, "subject": people}, people).key == "subject"
    )
