"""associate: which covariates go with the clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_integer
from vhem._support.errors import Count, InputError, InputTypeError
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference import association
from vhem.inference.covariates import Covariate, Covariates, covariates_of
from vhem.inference.permutations import SMALLEST, holm
from vhem.inference.pipeline import Study, check_pipeline, run_again
from vhem.inference.tables import Table, interval, number, p_value, p_words
from vhem.sequences import SequencesLike


class Members(NamedTuple):
    """Who is in which cluster."""

    ids: list[Any]
    labels: IntArray
    responsibilities: FloatArray


class Association(NamedTuple):
    """One covariate, and how it goes with the clusters."""

    name: str
    n: int  #: people with a value
    found: association.Found
    p_holm: float
    interval: tuple[float, float]  #: 95 % of the effect; NaN if none was made
    by_cluster: list[str]  #: mean and standard deviation, or the most common categories, of each cluster


class Associations(NamedTuple):
    """What goes with the clusters, strongest first."""

    rows: list[Association]
    skipped: dict[str, str]  #: columns that were left out, and why
    absent: list[str]  #: people whom the table lacks
    clusters: list[int]  #: clusters compared
    reclustered: bool  #: whether intervals carry the uncertainty of the clustering
    n_bootstrap: int
    key: str = ""  #: the column of the table that names the people

    def table(self) -> Table:
        """Return one row per covariate."""
        columns = ["covariate", "n", *(f"cluster {k + 1}" for k in self.clusters), "test", "statistic", "p",
                   "p (Holm)", "effect", "95 % interval"]  # fmt: skip
        rows = [
            [x.name, str(x.n), *x.by_cluster, x.found.test, _statistic(x.found), p_value(x.found.p), p_value(x.p_holm),
             f"{x.found.measure} = {number(x.found.effect, 2)}", interval(*x.interval, 2)]
            for x in self.rows
        ]  # fmt: skip
        return Table("associations", "What goes with the clusters", columns, rows, self.note())

    def note(self) -> str:
        """Return how it was tested, in words."""
        text = "Numbers: mean (SD); categories: the most frequent ones. "
        text += "The covariates took no part in the clustering, so tests on its labels are valid."
        text += f" Rows were matched by the column {self.key!r}." if self.key else ""
        if self.n_bootstrap:
            how = "clustering again in each" if self.reclustered else "with the clusters as they are"
            text += f" Intervals: {self.n_bootstrap} bootstrap samples of people, {how}."
            if self.reclustered:
                text += " They are wider than p suggests, since p takes the clusters as they are."
        text += f" Left out: {self._left_out()}." if self.skipped else ""
        return text + (f" {len(self.absent)} people are not in the table." if self.absent else "")

    def _left_out(self) -> str:
        """Say which columns were left out, those for the same reason together."""
        reasons = dict[str, list[str]]()
        for name, why in self.skipped.items():
            reasons.setdefault(why, []).append(name)
        return "; ".join(
            f"{names[0]} {why}" if len(names) == 1 else f"each of {', '.join(names)} {why}"
            for why, names in reasons.items()
        )

    def methods(self) -> str:
        """Return how it was tested, for the Methods section."""
        tests = ", ".join(dict.fromkeys(f"{x.found.test} ({x.found.measure})" for x in self.rows))
        text = f"Covariates were compared between clusters by the following tests (and effect sizes): {tests}. "
        text += "p-values were corrected by Holm's method."
        if not self.n_bootstrap:
            return text
        how = ", with the clustering run again in each" if self.reclustered else ""
        return f"{text} Intervals of effects are percentiles of {self.n_bootstrap} bootstrap samples of people{how}."

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        real = [x for x in self.rows if x.p_holm <= 0.05]
        if not real:
            return "No covariate went with the clusters (all Holm-corrected p > .05)."
        parts = [f"{x.name} ({x.found.measure} = {number(x.found.effect, 2)}, {p_words(x.p_holm)})" for x in real]
        return f"Clusters differed in {', '.join(parts)}; p-values are Holm-corrected."


def _statistic(found: association.Found) -> str:
    df = f"({found.df})" if found.df else ""
    letter = {
        "Kruskal-Wallis": "H",
        "ANOVA": "F",
        "logistic": "t",
        "logistic, permuted": "r",
        "Fisher's exact": "odds ratio",
    }.get(found.test, "χ²")
    return f"{letter}{df} = {number(found.statistic, 2)}"


@documented
def associate(
    fit: Any,
    table: Any,
    id: str | None = None,
    columns: Iterable[str] | None = None,
    categorical: Iterable[str] = (),
    numeric: str = "kruskal",
    missing: str = "drop",
    sequences: SequencesLike | None = None,
    groups: Iterable[Any] | None = None,
    estimator: SequenceClustering | None = None,
    n_bootstrap: int = 199,
    random_state: RandomState = 0,
    callback: Callable[[float], None] | None = None,
    exclude: Iterable[str] = (),
) -> Associations:
    """Test which covariates go with the clusters: accuracy, age, diagnosis, condition.

    Parameters
    ----------
    fit : SequenceClustering, VHEM or Members
        The clustering. VHEM does not know whom its HMMs stand for: give ``Members(hmms.ids, fit.labels_,
        fit.responsibilities_)``.
    table : data frame, dictionary of columns, or path
        One row per person, or a long table in which each person's rows agree.
    id : str, optional
        The column that names the people; by default the one whose cells do.
    columns : list of str, optional
        The covariates; by default every other column with one value per person.
    categorical : list of str
        Columns of numbers that are codes of categories. Columns with two different numbers are so anyway.
    numeric : {"kruskal", "anova", "logistic"}
        The test of numbers: Kruskal-Wallis (ε²), analysis of variance (η²), or logistic regression of the
        responsibilities (odds ratio; needs statsmodels), in which people who are between clusters count as such.
    missing : {"drop", "refuse"}
        People whom the table lacks are left out with a warning, or are an error. Empty cells are left out column by
        column.
    sequences : list of arrays or Sequences, optional
        What a SequenceClustering was fitted to: bootstrap samples are then clustered again, so that the intervals carry
        the uncertainty of the clusters too.
    <people>
    estimator : SequenceClustering, optional
        How to cluster again, if `fit` is not itself one.
    n_bootstrap : int
        Bootstrap samples of people for the intervals; 0 for none.
    <random_state>
    <share_done>
    exclude : list of str
        Columns that took part in the clustering, such as those of the sequences in a wide table: they differ between
        clusters by construction. Left out unless `columns` names them.

    Returns
    -------
    Associations
        Ordered by the size of the effect, with Holm-corrected p-values.

    Notes
    -----
    Categories are compared by χ² and Cramér's V; if an expected count is below 5, by Fisher's exact test (2 × 2) or by
    permutation. Intervals are percentiles of the bootstrap after twice the level of chance is taken off, once for the
    sample and once for the bootstrap (as in the adjusted R²), so that an effect of zero can be inside.

    Examples
    --------
    >>> from vhem import VHEM
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import Members, associate
    >>> study = simulated_study(n_viewers=30)
    >>> fit = VHEM(3, random_state=0).fit(study.hmms)
    >>> table = {"viewer": study.hmms.ids, "strategy": study.strategies.astype(str), "age": list(range(20, 50))}
    >>> members = Members(study.hmms.ids, fit.labels_, fit.responsibilities_)
    >>> [(row.name, round(row.found.strength, 1)) for row in associate(members, table).rows]
    [('strategy', 1.0), ('age', 0.1)]
    """
    members = members_of(fit)
    check_choice("numeric", numeric, ("kruskal", "anova", "logistic"))
    n = check_integer("n_bootstrap", n_bootstrap, 0)
    given = covariates_of(table, members.ids, id, columns, categorical, missing, exclude)
    kept = _large_clusters(members, given)
    given = _with_values(given, members, kept)
    tested = [_tested(column, members, kept, numeric) for column in given.columns]
    again = None if sequences is None else _reclustering(estimator or fit, Study.of(sequences, groups), members)
    drawn = _drawn(given.columns, members, kept, numeric, n, again, generator(random_state), callback)
    ends = [_percentiles(effects, found.effect) for effects, found in zip(drawn, tested, strict=True)]
    corrected = holm(found.p for found in tested)
    rows = [
        Association(
            column.name, sum(v is not None for v in column.values), found, p, between, _summaries(column, members, kept)
        )
        for column, found, p, between in zip(given.columns, tested, corrected, ends, strict=True)
    ]
    rows.sort(key=lambda row: -np.nan_to_num(row.found.strength, nan=-1.0))
    return Associations(rows, given.skipped, given.absent, kept, again is not None, n, given.key)


def members_of(fit: Any) -> Members:
    """Return who is in which cluster."""
    if isinstance(fit, Members):
        return Members(list(fit.ids), np.asarray(fit.labels), np.asarray(fit.responsibilities, dtype=np.float64))
    if not hasattr(fit, "ids_") or not hasattr(fit, "responsibilities_"):
        raise InputTypeError(
            "{kind} does not say whose clusters these are",
            "give Members(ids, labels, responsibilities) instead", kind=type(fit).__name__,
        )  # fmt: skip
    return Members(list(fit.ids_), fit.labels_, fit.responsibilities_)


def _large_clusters(members: Members, given: Covariates) -> list[int]:
    """Return the clusters that have at least three people in the table; there must be two."""
    here = np.array([str(name) not in set(given.absent) for name in members.ids])
    sizes = np.bincount(members.labels[here], minlength=members.responsibilities.shape[1])
    kept = [int(k) for k in np.flatnonzero(sizes >= SMALLEST)]
    for k in np.flatnonzero((sizes > 0) & (sizes < SMALLEST)):
        given.skipped[f"cluster {k + 1}"] = (
            f"has {format(Count(int(sizes[k])), 'member')} in the table, too few to test"
        )
    if len(kept) < 2:
        raise InputError(
            "there are not two clusters with at least {least} people in the table, so there is nothing to compare",
            "give a table of more people", "ask for fewer clusters", least=SMALLEST,
        )  # fmt: skip
    if not given.columns:
        raise _nothing_to_test(given)
    return kept


def _with_values(given: Covariates, members: Members, kept: list[int]) -> Covariates:
    """Leave out columns that have values for too few people of the clusters compared."""
    columns = list[Covariate]()
    for column in given.columns:
        sizes = np.bincount(members.labels[_chosen(column, members, kept)], minlength=max(kept) + 1)[kept]
        if (sizes >= SMALLEST).sum() >= 2:
            columns.append(column)
        else:
            given.skipped[column.name] = f"has values for {format(Count(int(sizes.sum())), 'member')}, too few to test"
    if not columns:
        raise _nothing_to_test(given)
    return given._replace(columns=columns)


def _nothing_to_test(given: Covariates) -> InputError:
    why = "; ".join(f"{name} {fault}" for name, fault in given.skipped.items())
    return InputError("the table has no covariate to test ({why})", why=why or "no column besides the id")


def _chosen(column: Covariate, members: Members, kept: list[int], people: IntArray | None = None) -> IntArray:
    """Return the people who have a value and are in one of the clusters compared."""
    seen = np.array([value is not None for value in column.values]) & np.isin(members.labels, kept)
    return np.flatnonzero(seen) if people is None else people[seen[people]]


def _tested(column: Covariate, members: Members, kept: list[int], numeric: str) -> association.Found:
    return _on(column, _chosen(column, members, kept), members.labels, members.responsibilities, numeric)


def _on(
    column: Covariate, people: IntArray, labels: IntArray, responsibilities: FloatArray, numeric: str
) -> association.Found:
    """Return the test of some people; labels and responsibilities are of everybody."""
    values = [column.values[i] for i in people]
    if len(set(values)) < 2 or len(set(labels[people])) < 2:
        return association.Found("none", np.nan, "", np.nan, "effect", np.nan, np.nan)
    if not column.numeric:
        return association.categories(values, labels[people])
    numbers = np.array(values, dtype=np.float64)
    if numeric == "logistic":
        return association.logistic(numbers, responsibilities[people])
    test = association.kruskal if numeric == "kruskal" else association.anova
    return test(numbers, labels[people])


Again = Callable[[IntArray, int], tuple[IntArray, FloatArray]]


def _reclustering(fit: Any, study: Study, members: Members) -> Again:
    """Return a function that clusters some people again."""
    if not isinstance(fit, SequenceClustering):
        raise InputTypeError(
            "only a SequenceClustering can be run again on {sequences}", "give one as {estimator}", "leave them out"
        )
    if [str(name) for name in study.batch.ids] != [str(name) for name in members.ids]:
        raise InputError("the sequences belong to other people than the clustering", "give those it was fitted to")

    model, study = check_pipeline(fit, study)

    def again(people: IntArray, seed: int) -> tuple[IntArray, FloatArray]:
        found = run_again(model, study.take(people), model.n_clusters, seed)
        return found.labels, found.responsibilities

    return again


def _drawn(
    columns: list[Covariate], members: Members, kept: list[int], numeric: str, n: int, again: Again | None,
    rng: np.random.Generator, callback: Callable[[float], None] | None,
) -> list[list[float]]:  # fmt: skip
    """Return the effect of every covariate in bootstrap samples of people."""
    everybody = np.flatnonzero(np.isin(members.labels, kept))
    drawn: list[list[float]] = [[] for _ in columns]
    for b in range(n):
        people = rng.choice(everybody, len(everybody))
        labels, shares = members.labels[people], members.responsibilities[people]
        if again is not None:
            labels, shares = again(people, b)
        for effects, column in zip(drawn, columns, strict=True):
            mine = column._replace(values=[column.values[i] for i in people])
            with_value = np.flatnonzero([value is not None for value in mine.values])
            effects.append(_without_chance(_quick(mine, with_value, labels, shares, numeric), mine, with_value, labels))
        if callback is not None:
            callback((b + 1) / n)
    return drawn


def _quick(
    column: Covariate, people: IntArray, labels: IntArray, responsibilities: FloatArray, numeric: str
) -> association.Found:
    """Return the effect without the p-values that only permutations give."""
    if column.numeric or len(people) == 0:
        return _on(column, people, labels, responsibilities, numeric)
    return association.effect_of_categories([column.values[i] for i in people], labels[people])


def _without_chance(found: association.Found, column: Covariate, people: IntArray, labels: IntArray) -> float:
    """Return an effect without what chance alone would give, twice: in the sample, and in the bootstrap.

    As in the adjusted R², what chance gives shrinks with what is left to explain.
    """
    if found.measure.startswith("odds") or np.isnan(found.effect):
        return found.effect
    n, k = len(people), len(set(labels[people]))
    if column.numeric:
        return _adjusted(found.effect, 2 * (k - 1), n)
    r = len({column.values[i] for i in people})
    return float(np.sqrt(_adjusted(found.effect**2, 2 * max(r - 1, k - 1), n)))


def _adjusted(share: float, df: int, n: int) -> float:
    """Return a share of variance adjusted for df parameters that explain something by chance."""
    return max(0.0, 1 - (1 - share) * (n - 1) / (n - 1 - df)) if n - 1 > df else 0.0


def _percentiles(effects: list[float], effect: float) -> tuple[float, float]:
    """Return the interval, which includes the effect itself."""
    seen = [x for x in effects if not np.isnan(x)]
    if len(seen) < 10 or np.isnan(effect):
        return (np.nan, np.nan)
    low, high = np.percentile(seen, [2.5, 97.5], method="inverted_cdf")  # odds may be infinite, which has no middle
    return min(float(low), effect), max(float(high), effect)


def _summaries(column: Covariate, members: Members, kept: list[int]) -> list[str]:
    people = _chosen(column, members, kept)
    return [_summary(column, people[members.labels[people] == k]) for k in kept]


def _summary(column: Covariate, people: IntArray) -> str:
    values = [column.values[i] for i in people]
    if not values:
        return "–"
    if column.numeric:
        spread = f" ({number(float(np.std(values, ddof=1)), 2)})" if len(values) > 1 else ""
        return f"{number(float(np.mean(values)), 2)}{spread}"
    names, n = np.unique(values, return_counts=True)
    top = np.argsort(-n, kind="stable")[:3]
    return ", ".join(f"{names[k]} {100 * n[k] / len(values):.0f} %" for k in top)
