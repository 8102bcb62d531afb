"""compare_groups: whether known groups of HMMs differ, by PERMANOVA on VHEM's divergence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_integer
from vhem._support.randomness import RandomState, generator
from vhem.em.parameters import documented
from vhem.estimators.divergence import divergence
from vhem.inference.permutations import Design, design_of, holm, share_as_large
from vhem.inference.tables import Table, number, p_value, p_words
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m

_BLOCK = 500  # permutations at a time


class PairOfGroups(NamedTuple):
    """Two groups compared."""

    first: Any
    second: Any
    f: float  #: pseudo-F
    r2: float
    p: float
    p_holm: float  #: corrected for the number of pairs


class GroupComparison(NamedTuple):
    """Whether known groups differ."""

    f: float  #: pseudo-F: spread between groups over spread within
    r2: float  #: share of the spread that the groups explain
    p: float
    df: tuple[int, int]
    n_permutations: int
    groups: list[Any]
    sizes: IntArray
    within: FloatArray  #: (groups,) mean squared distance of members from their group's centre
    p_dispersion: float  #: of equal spread within groups; if small, a difference may be one of spread
    pairs: list[PairOfGroups]  #: every pair of groups, if there are more than two
    exchanged: str  #: what was permuted

    def table(self) -> Table:
        """Return the comparison of all groups, and of every pair."""
        rows = [["all groups", number(self.f, 2), number(self.r2), p_value(self.p), ""]]
        rows += [
            [f"{x.first} – {x.second}", number(x.f, 2), number(x.r2), p_value(x.p), p_value(x.p_holm)]
            for x in self.pairs
        ]
        return Table("groups", "Differences between groups", ["", "pseudo-F", "R²", "p", "p (Holm)"], rows, self.note())

    def note(self) -> str:
        """Return how it was tested, in words."""
        spread = f"A test of equal spread within groups gives {p_words(self.p_dispersion)}"
        if self.p_dispersion < 0.05:
            spread += ", so that the groups differ in spread, and perhaps only in that"
        return (
            f"PERMANOVA on VHEM's symmetrised divergence, {self.n_permutations:,} permutations of {self.exchanged}. "
            f"{spread}."
        )

    def sentence(self) -> str:
        """Return the result as a paper states it."""
        a, b = self.df
        return (
            f"Groups {'differed' if self.p <= 0.05 else 'did not differ significantly'}, pseudo-F({a}, {b}) = "
            f"{self.f:.2f}, R² = {self.r2:.3f}, {p_words(self.p)}{self._spread()}."
        )

    def _spread(self) -> str:
        """Say that a difference may be one of spread only."""
        if self.p > 0.05 or self.p_dispersion >= 0.05:
            return ""
        return f"; they also differed in how much their members vary ({p_words(self.p_dispersion)})"


@documented
def compare_groups(
    hmms: H3M | list[HMM],
    groups: Iterable[Any],
    strata: Iterable[Any] | None = None,
    tau: int = 10,
    n_permutations: int = 9999,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> GroupComparison:
    """Test whether known groups of HMMs differ, by a permutation test on the divergences between HMMs (PERMANOVA).

    The squared distance of two HMMs is the symmetrised divergence D_ij + D_ji. With SS the sum of squared distances
    over all pairs divided by n, pseudo-F = [SS_between / (g - 1)] / [SS_within / (n - g)] and R² = SS_between / SS. The
    divergences are computed once; permutations only exchange the groups.

    Parameters
    ----------
    hmms : H3M or list of HMM
        One HMM per subject, or per subject and condition. They must have been learned without looking at the groups.
    groups : list
        The group (diagnosis, condition, class) of each HMM.
    strata : list, optional
        What repeated measures belong to, such as the person: groups are then exchanged only within a person. If no
        person has several groups, people are exchanged as wholes.
    tau : int
        Length of the virtual sequences that HMMs are compared by: about that of the real ones.
    n_permutations : int
        Permutations. The smallest p-value is 1 / (n_permutations + 1).
    <random_state>
    <n_jobs>

    Returns
    -------
    GroupComparison
        pseudo-F, R² and p of all groups and of every pair (Holm-corrected), and a test of equal spread: PERMANOVA
        reacts to differences in spread too.

    References
    ----------
    M. J. Anderson, "A new method for non-parametric multivariate analysis of variance", Austral Ecology 26:32-46, 2001.

    Examples
    --------
    >>> from vhem.datasets import simulated_study
    >>> from vhem.inference import compare_groups
    >>> study = simulated_study(n_viewers=18)
    >>> found = compare_groups(study.hmms, study.strategies, n_permutations=199, random_state=0)
    >>> round(found.r2, 2), found.p
    (0.79, 0.005)
    """
    h3m, rng = check_h3m("hmms", hmms), generator(random_state)
    n = check_integer("n_permutations", n_permutations, 1)
    design = design_of(groups, len(h3m), strata)
    return compare_by_distance(squared_distances(h3m, tau, n_jobs), design, n, rng)


def squared_distances(h3m: H3M, tau: int, n_jobs: int | None = None) -> FloatArray:
    """Return the symmetrised divergence between all HMMs, (n, n); not below zero."""
    found = divergence(h3m, h3m, tau, n_jobs=n_jobs)
    return np.maximum(found + found.T, 0.0)


def compare_by_distance(
    squares: FloatArray, design: Design, n_permutations: int, rng: np.random.Generator
) -> GroupComparison:
    """Compare groups by a matrix of squared distances."""
    whole = _tested(squares, design, n_permutations, rng)
    pairs = _pairs(squares, design, n_permutations, rng) if len(design.names) > 2 else []
    centred = _from_centres(squares, design)
    within = np.array([(centred[design.codes == k] ** 2).mean() for k in range(len(design.names))])
    exchanged = "groups" if design.strata is None else "whole strata" if design.whole else "groups within strata"
    df = (len(design.names) - 1, len(design.codes) - len(design.names))
    return GroupComparison(
        *whole, df, n_permutations, design.names, design.sizes, within, _equal_spread(centred, design), pairs, exchanged
    )


def _tested(
    squares: FloatArray, design: Design, n_permutations: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return pseudo-F, R² and p."""
    total = squares.sum() / (2 * len(squares))
    if total <= 0:
        return float("nan"), 0.0, 1.0  # all HMMs are equal
    seen = float(_within(squares, design.codes[None], len(design.names))[0])
    found = [
        _within(squares, design.permuted(min(_BLOCK, n_permutations - begin), rng), len(design.names))
        for begin in range(0, n_permutations, _BLOCK)
    ]
    # Since the total is fixed, F is large where the sum within groups is small.
    p = share_as_large(-seen, -np.concatenate(found))
    a, b = len(design.names) - 1, len(squares) - len(design.names)
    f = ((total - seen) / a) / (seen / b) if seen > 0 else float("inf")
    return f, float(1 - seen / total), p


def _within(squares: FloatArray, codes: IntArray, n_groups: int) -> FloatArray:
    """Return Σ_g Σ_{i<j in g} d²_ij / n_g for every row of codes."""
    made = np.zeros(len(codes))
    for g in range(n_groups):
        members = (codes == g).astype(np.float64)
        made += ((members @ squares) * members).sum(axis=1) / (2 * members.sum(axis=1))
    return made


def _pairs(squares: FloatArray, design: Design, n_permutations: int, rng: np.random.Generator) -> list[PairOfGroups]:
    found = []
    for a, b in itertools.combinations(range(len(design.names)), 2):
        part, items = design.only(a, b)
        found.append((part.names, _tested(squares[np.ix_(items, items)], part, n_permutations, rng)))
    corrected = holm(p for _, (_, _, p) in found)
    return [PairOfGroups(a, b, f, r2, p, p_holm) for ((a, b), (f, r2, p)), p_holm in zip(found, corrected, strict=True)]


def _from_centres(squares: FloatArray, design: Design) -> FloatArray:
    """Return the distance of every item from the centre of its group, in the space that the distances span."""
    out = np.zeros(len(squares))
    for g in range(len(design.names)):
        members = np.flatnonzero(design.codes == g)
        own = squares[np.ix_(members, members)]
        out[members] = own.mean(axis=1) - own.mean() / 2
    return np.sqrt(np.maximum(out, 0.0))


def _equal_spread(distances: FloatArray, design: Design) -> float:
    parts = [distances[design.codes == g] for g in range(len(design.names))]
    if np.ptp(distances) == 0:
        return 1.0
    if all(np.ptp(part) == 0 for part in parts):  # F is infinite; SciPy's versions differ in what they say then
        return 0.0
    return float(stats.f_oneway(*parts).pvalue)
