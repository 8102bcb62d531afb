"""t-tests of log-likelihoods, as eye-movement studies use them.

These take the models as given. Where the models were learned from the same subjects, as the centres of a clustering
are, they reject too often: :func:`vhem.inference.cross_fitted_test` and :func:`vhem.inference.bootstrap_test` do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_choice
from vhem._support.errors import Count, InputError
from vhem.inference.tables import Table, interval, number, p_value

_ALTERNATIVES = ("greater", "two-sided", "less")


class TTest(NamedTuple):
    """A t-test of a mean difference."""

    mean: float  #: of the differences
    sd: float  #: their standard deviation
    t: float
    df: float
    p: float
    interval: tuple[float, float]  #: 95 % confidence interval of the mean; one-sided tests have one end at infinity
    d: float  #: Cohen's d
    n: int
    alternative: str

    def table(self, title: str = "t-test of log-likelihoods") -> Table:
        """Return the test as a table of one row."""
        return t_test_table([("", self)], title)


def t_test_table(named: list[tuple[str, TTest]], title: str, note: str = "") -> Table:
    """Return several tests as one table."""
    columns = ["comparison", "n", "mean difference", "SD", "t", "df", "p", "95 % interval", "Cohen's d"]
    rows = [
        [name, str(x.n), number(x.mean), number(x.sd), number(x.t, 2), number(x.df, 1).removesuffix(".0"), p_value(x.p),
         interval(*x.interval), number(x.d, 2)]
        for name, x in named
    ]  # fmt: skip
    if any(x.alternative != "two-sided" for _, x in named):
        note = f"{note} Tests and intervals are one-sided.".strip()
    return Table("t_tests", title, columns, rows, note)


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike, alternative: str = "greater") -> TTest:
    """Test whether subjects fit one model better than another: a paired t-test of their scores.

    Parameters
    ----------
    first, second : arrays of shape (n,)
        Scores of the same subjects under two models, such as two columns of ``subject_scores(…).per_frame``; NaN
        leaves a subject out.
    alternative : {"greater", "two-sided", "less"}
        What is claimed of the first score.

    Returns
    -------
    TTest
        With Cohen's d of paired values, the mean of the differences divided by their standard deviation.

    Examples
    --------
    >>> from vhem.inference import paired_t_test
    >>> found = paired_t_test([-3.1, -2.9, -3.0, -2.7], [-3.3, -3.2, -3.1, -3.2])
    >>> round(found.t, 2), round(found.p, 3), round(found.d, 2)
    (3.22, 0.024, 1.61)
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise InputError(
            "first has shape {a} and second {b}", "give one score of each subject under each model",
            a=one.shape, b=other.shape,
        )  # fmt: skip
    return one_sample(one - other, alternative)


def one_sample(differences: npt.ArrayLike, alternative: str = "greater") -> TTest:
    """Return the t-test of a mean against zero; NaN is left out."""
    check_choice("alternative", alternative, _ALTERNATIVES)
    d = _seen(differences)
    found = stats.ttest_1samp(d, 0.0, alternative=alternative)
    ends = found.confidence_interval(0.95)
    mean, sd = float(d.mean()), float(d.std(ddof=1))
    return TTest(
        mean, sd, float(found.statistic), float(found.df), float(found.pvalue), (float(ends.low), float(ends.high)),
        mean / sd, len(d), alternative,
    )  # fmt: skip


def independent_t_test(
    first: npt.ArrayLike, second: npt.ArrayLike, alternative: str = "two-sided", equal_variances: bool = True
) -> TTest:
    """Test whether two groups of subjects differ in a score or in an outside measure.

    Parameters
    ----------
    first, second : arrays
        The values of each group; NaN leaves a subject out.
    alternative : {"two-sided", "greater", "less"}
        What is claimed of the first group.
    equal_variances : bool
        Student's test, or Welch's.

    Returns
    -------
    TTest
        With Cohen's d for independent groups: the difference divided by the pooled standard deviation.

    Examples
    --------
    >>> from vhem.inference import independent_t_test
    >>> found = independent_t_test([2.0, 2.5, 3.0], [1.0, 1.5, 2.0])
    >>> round(found.t, 2), round(found.d, 2)
    (2.45, 2.0)
    """
    check_choice("alternative", alternative, _ALTERNATIVES)
    one, other = _seen(first), _seen(second)
    found = stats.ttest_ind(one, other, equal_var=equal_variances, alternative=alternative)
    ends = found.confidence_interval(0.95)
    pooled = _pooled_deviation(one, other)
    gap = float(one.mean() - other.mean())
    return TTest(
        gap, pooled, float(found.statistic), float(found.df), float(found.pvalue), (float(ends.low), float(ends.high)),
        gap / pooled, len(one) + len(other), alternative,
    )  # fmt: skip


def _pooled_deviation(one: FloatArray, other: FloatArray) -> float:
    squares = ((one - one.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum()
    return float(np.sqrt(squares / (len(one) + len(other) - 2)))


class SymmetricTest(NamedTuple):
    """Whether two groups of subjects each fit their own model better than the other's."""

    test: TTest  #: of all subjects' differences, own model minus the other
    mean: float  #: their mean
    group_mean: float  #: mean of the two groups' means: the symmetric KL divergence per observation


def symmetric_kl_test(own: npt.ArrayLike, other: npt.ArrayLike, groups: npt.ArrayLike) -> SymmetricTest:
    """Test whether subjects of two groups fit their own group's model better than that of the other group.

    Parameters
    ----------
    own, other : arrays of shape (n,)
        Scores of the subjects under the model of their own group, and under the other.
    groups : array of shape (n,)
        The group of each subject.

    Returns
    -------
    SymmetricTest
        A one-sided t-test of all differences, and the symmetric KL divergence.

    Examples
    --------
    >>> from vhem.inference import symmetric_kl_test
    >>> found = symmetric_kl_test([-3.0, -2.9, -3.1, -3.3], [-3.2, -3.3, -3.2, -3.4], [1, 1, 2, 2])
    >>> round(found.test.t, 2), round(found.group_mean, 2)
    (2.83, 0.2)
    """
    gap = np.asarray(own, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    kinds, codes = np.unique(np.asarray(groups), return_inverse=True)
    if len(kinds) != 2 or len(codes) != len(gap):
        raise InputError("the symmetric test is for two groups; {groups} has {n}", n=len(kinds))
    means = [float(np.nanmean(gap[codes == k])) for k in (0, 1)]
    test = one_sample(gap)
    return SymmetricTest(test, test.mean, float(np.mean(means)))


def stimulus_anova(scores: npt.ArrayLike, repeated: bool = True) -> Table:
    """Analyse scores of the same subjects for several stimuli and two or more models by analysis of variance.

    Parameters
    ----------
    scores : array of shape (n, stimuli, models)
        Score of each subject for each stimulus under each model.
    repeated : bool
        Whether subjects are a repeated factor, as they are: each gives all scores. False treats every score as one of
        an independent subject, as published studies with EMHMM do; the test is then less sensitive, or too optimistic.

    Returns
    -------
    Table
        One row per effect: stimulus, model and interaction. Needs statsmodels, of the extra `paper`.

    Examples
    --------
    >>> import numpy as np
    >>> from vhem.inference import stimulus_anova
    >>> scores = np.random.default_rng(0).normal(size=(6, 3, 2)) + [0.0, 2.0]
    >>> [row[0] for row in stimulus_anova(scores).rows]
    ['stimulus', 'model', 'stimulus × model']
    """
    from vhem.inference.stimuli import analysed  # noqa: PLC0415  (statsmodels is an extra, and slow to import)

    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 3 or min(values.shape) < 2 or not np.isfinite(values).all():
        raise InputError(
            "scores must be finite, of shape (subjects, stimuli, models) with at least 2 of each, got {shape}",
            shape=values.shape,
        )  # fmt: skip
    effects = analysed(values, repeated)
    rows = [[e.name, number(e.f, 2), f"{e.df:g}", f"{e.df_error:g}", p_value(e.p)] for e in effects]
    how = "subjects as a repeated factor" if repeated else "subjects not as a repeated factor"
    return Table("anova", "Analysis of variance of scores", ["effect", "F", "df", "df of error", "p"], rows, how)


def _seen(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    seen = np.asarray(array[~np.isnan(array)])
    if len(seen) < 3:
        raise InputError("a t-test of {n:subject} says nothing", "give at least 3 with a value", n=Count(len(seen)))
    if np.ptp(seen) == 0:
        raise InputError("all {n} values are equal, so there is nothing to test", n=len(seen))
    return seen
