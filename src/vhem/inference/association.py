"""Tests of one covariate against clusters, by scipy.stats; logistic regression on responsibilities by statsmodels."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import stats

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.optional import how_to_install
from vhem._support.randomness import generator

_SMALL = 5.0  # expected counts below this: the χ² distribution is not to be trusted
_PERMUTATIONS = 9999
_SEPARATED = 10.0  # slopes of a logistic regression that stand for an infinite one: odds of 22,000 per SD


class Found(NamedTuple):
    """The outcome of one test."""

    test: str
    statistic: float
    df: str
    p: float
    measure: str  #: name of the effect size
    effect: float
    strength: float  #: the effect as a correlation between 0 and 1, by which covariates are ordered


def categories(values: list[str], labels: IntArray, random_state: int = 0) -> Found:
    """Compare the shares of categories between clusters: χ², or an exact or permutation test if counts are small."""
    table = counts(values, labels)
    if min(table.shape) < 2:
        return Found("none", np.nan, "", np.nan, "Cramér's V", np.nan, np.nan)
    chi2, p, df, expected = stats.chi2_contingency(table, correction=False)
    v = float(stats.contingency.association(table.astype(np.int64), method="cramer"))
    if expected.min() >= _SMALL:
        return Found("χ²", float(chi2), str(df), float(p), "Cramér's V", v, v)
    if table.shape == (2, 2):
        odds, exact = stats.fisher_exact(table)
        return Found("Fisher's exact", float(odds), "", float(exact), "Cramér's V", v, v)
    return Found(
        "χ², permuted", float(chi2), str(df), _permuted(values, labels, chi2, random_state), "Cramér's V", v, v
    )


def effect_of_categories(values: list[str], labels: IntArray) -> Found:
    """Return Cramér's V without a test."""
    table = counts(values, labels)
    v = (
        float(stats.contingency.association(table.astype(np.int64), method="cramer"))
        if min(table.shape) > 1
        else np.nan
    )
    return Found("none", np.nan, "", np.nan, "Cramér's V", v, v)


def counts(values: list[str], labels: IntArray) -> FloatArray:
    """Return how many members of each cluster (columns) are in each category (rows)."""
    _, rows = np.unique(np.asarray(values), return_inverse=True)
    _, columns = np.unique(labels, return_inverse=True)
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1)
    return table


def _permuted(values: list[str], labels: IntArray, seen: float, seed: int) -> float:
    """Return the share of random assignments of categories whose χ² is as large.

    With the margins fixed, χ² = n (Σ n_ij² / (n_i n_j) - 1), so that only the table is needed.
    """
    rng = generator(seed)
    _, rows = np.unique(np.asarray(values), return_inverse=True)
    _, columns = np.unique(labels, return_inverse=True)
    n, R, C = len(rows), rows.max() + 1, columns.max() + 1
    shuffled = rng.permuted(np.broadcast_to(rows, (_PERMUTATIONS, n)), axis=1)
    cells = shuffled * C + columns
    tables = np.zeros((_PERMUTATIONS, R * C))
    np.add.at(tables, (np.arange(_PERMUTATIONS)[:, None], cells), 1)
    expected = np.outer(np.bincount(rows), np.bincount(columns)).ravel() / n
    chi2 = ((tables - expected) ** 2 / expected).sum(axis=1)
    return float((1 + (chi2 >= seen * (1 - 1e-12)).sum()) / (1 + _PERMUTATIONS))


def kruskal(values: FloatArray, labels: IntArray) -> Found:
    """Compare the ranks of a number between clusters (Kruskal-Wallis); ε² = H / (n - 1)."""
    parts = [values[labels == k] for k in np.unique(labels)]
    if np.ptp(values) == 0 or len(parts) < 2:
        return Found("none", np.nan, "", np.nan, "ε²", np.nan, np.nan)
    h, p = stats.kruskal(*parts)
    effect = float(h / (len(values) - 1))
    return Found("Kruskal-Wallis", float(h), str(len(parts) - 1), float(p), "ε²", effect, effect**0.5)


def anova(values: FloatArray, labels: IntArray) -> Found:
    """Compare the means of a number between clusters (analysis of variance); η² is the share of variance explained."""
    parts = [values[labels == k] for k in np.unique(labels)]
    if np.ptp(values) == 0 or len(parts) < 2:
        return Found("none", np.nan, "", np.nan, "η²", np.nan, np.nan)
    f, p = stats.f_oneway(*parts)
    a, b = len(parts) - 1, len(values) - len(parts)
    effect = float(f * a / (f * a + b))
    return Found("ANOVA", float(f), f"{a}, {b}", float(p), "η²", effect, effect**0.5)


def logistic(values: FloatArray, responsibilities: FloatArray) -> Found:
    """Regress the probability of every cluster on a number: logistic regression, weights instead of hard labels.

    Standard errors are robust (HC1), tests by Student's t. Of several clusters, the one with the strongest association
    is given, each against the rest, with p corrected for their number (Bonferroni). The effect is the odds ratio per
    standard deviation. If the number tells a cluster from the rest without a mistake, the odds ratio is infinite, or
    zero, and has no standard error; p is then that of the correlation, by permutation.
    """
    try:
        import statsmodels.api as sm  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"logistic regression needs statsmodels: {how_to_install('paper')}.") from None
    x = sm.add_constant((values - values.mean()) / values.std(ddof=1))
    K = responsibilities.shape[1]
    family = sm.families.Binomial()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of data that are separated, below
        fits = [
            sm.GLM(responsibilities[:, k], x, family).fit(cov_type="HC1", use_t=True) for k in range(1 if K == 2 else K)
        ]
    if separated := [k for k, fit in enumerate(fits) if not abs(fit.params[1]) < _SEPARATED]:
        return _separated(values, responsibilities[:, separated[0]], separated[0], len(fits))
    best = min(range(len(fits)), key=lambda k: float(fits[k].pvalues[1]))
    slope, p = float(fits[best].params[1]), min(1.0, float(fits[best].pvalues[1]) * len(fits))
    d = slope * 3**0.5 / np.pi  # a slope per standard deviation as a difference of means, and that as a correlation
    strength = abs(d) / float(np.sqrt(d**2 + 4))
    test, effect = float(fits[best].tvalues[1]), float(np.exp(slope))
    return Found("logistic", test, "", p, _odds_of(best, len(fits)), effect, strength)


def _odds_of(cluster: int, n_fits: int) -> str:
    return "odds ratio per SD" if n_fits == 1 else f"odds ratio per SD, cluster {cluster + 1}"


def _separated(values: FloatArray, shares: FloatArray, cluster: int, n_fits: int) -> Found:
    """Return the test of a number that tells a cluster from the rest without a mistake."""
    r = float(np.corrcoef(values, shares)[0, 1])
    exchanged = generator(0).permuted(np.broadcast_to(values, (_PERMUTATIONS, len(values))), axis=1)
    products = np.abs((exchanged - values.mean()) @ (shares - shares.mean()))
    seen = abs(float((values - values.mean()) @ (shares - shares.mean())))
    p = float((1 + (products >= seen * (1 - 1e-12)).sum()) / (1 + _PERMUTATIONS))
    odds = np.inf if r > 0 else 0.0
    return Found("logistic, permuted", r, "", min(1.0, p * n_fits), _odds_of(cluster, n_fits), odds, 1.0)
