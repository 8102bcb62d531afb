"""Any family as the compiled kernels compute with it: log-densities as sums of parts (`native/families/parts.hpp`).

A component's log-density is that of a Gaussian in some columns, a dot product of statistics of the frame and
coefficients of the component, and entries of tables at codes that the frame holds; any of these may be absent. Kernels
return the sums of the parts, which are put together here under the names that the families know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.categorical import Categorical
from vhem.emissions.components import Components, FamilyPrior, Sums
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.linear import LinearFamily
from vhem.emissions.poisson import Poisson

_MOST_STATISTICS = 8  # per column; beyond that a table over the values that occur is faster than products
_NO_FRAMES = np.empty((0, 0))
_TABLE_NUMBERS = 1 << 25  # what such tables may hold


class _Leaf(NamedTuple):
    """One family of a product, or the only one."""

    prefix: str  #: of its sums
    components: Any
    columns: list[int]


def leaves(components: Components) -> list[_Leaf]:
    """Return the families that components are made of."""
    parts = getattr(components, "parts", None)
    if parts is None:
        return [_Leaf("", components, list(range(components.n_dims)))]
    groups: Any = components.columns  # type: ignore[attr-defined]
    return [_Leaf(f"{i}.", part, list(group)) for i, (part, group) in enumerate(zip(parts, groups, strict=True))]


def can_be_split(components: Components) -> bool:
    """Whether components are made of families that have such parts."""
    return all(isinstance(leaf.components, (Gaussian, LinearFamily)) for leaf in leaves(components))


class _Table(NamedTuple):
    """One column of a family, by the values that occur in it."""

    leaf: _Leaf
    column: int  #: of the leaf's
    entries: FloatArray  #: (K, S, M, n + 1) logs, or probabilities; the last is for missing values
    codes: IntArray  #: (T,)
    statistics: FloatArray | None  #: (n, P) of the values; None if they are indicators of them

    def summed(self, counts: FloatArray) -> FloatArray:
        """Return the sums of the statistics, (K, S, M, P), given how often each value occurred."""
        seen = counts[..., :-1]
        return seen if self.statistics is None else seen @ self.statistics


class Split(NamedTuple):
    """Components in parts."""

    mixtures: dict[str, Any]  #: arguments of the compiled `PartMixtures`, without the weights
    sums: Callable[[FloatArray, FloatArray], Sums]  #: counts and the kernel's sums, (K, …), to the family's
    width: int  #: sums per component
    frames: FloatArray  #: as the kernel reads them
    by_chance: bool  #: whether the only table has probabilities, not their logs

    @property
    def is_full(self) -> bool:
        """Whether its Gaussians have covariance matrices."""
        return bool(self.mixtures["full_means"].shape[-1])


def of_frames(components: Components, X: FloatArray) -> Split:
    """Return components and frames in parts."""
    gaussians, others = _sorted(components)
    tabled = [leaf for leaf in others if _suits_table(leaf, X)]
    linear = [leaf for leaf in others if leaf not in tabled]
    by_chance = isinstance(_only_column(tabled), Categorical)
    tables = [table for leaf in tabled for table in _tables(leaf, X, by_chance)]
    frames = _frames(X, gaussians, linear, tables)
    eta = [array for leaf in linear for array in _coefficients(leaf)]
    return _split(components, gaussians, linear, tables, eta, [np.zeros_like(a) for a in eta], frames, None, by_chance)


def _frames(X: FloatArray, gaussians: list[_Leaf], linear: list[_Leaf], tables: list[_Table]) -> FloatArray:
    """Return the columns of Gaussians, statistics and codes side by side."""
    columns = [column for leaf in gaussians for column in leaf.columns]
    in_place = [*columns, *(table.leaf.columns[table.column] for table in tables)]
    if not linear and in_place == list(range(X.shape[1])):  # mostly: six times as fast as joining narrow blocks
        if len(tables) == X.shape[1] == 1:
            return tables[0].codes.view(np.float64)[:, None]
        frames = X.copy()
        for j, table in enumerate(tables, start=len(columns)):
            frames.view(np.int64)[:, j] = table.codes
        return frames
    statistics = [array for leaf in linear for array in _statistics(leaf, X[:, leaf.columns])]
    own = [X[:, leaf.columns] for leaf in gaussians]
    codes = [table.codes.view(np.float64)[:, None] for table in tables]
    return np.concatenate([*own, *statistics, *codes], axis=1)


def _only_column(leaves: list[_Leaf]) -> Components | None:
    """Return the components of leaves that have one column in all."""
    return leaves[0].components if len(leaves) == 1 and len(leaves[0].columns) == 1 else None


def of_base(components: Components, full: bool) -> Split:
    """Return base components in parts, with the statistics expected of each: VHEM's expectations are over these."""
    gaussians, linear = _sorted(components)
    expected = [array for leaf in linear for array in _expected(leaf)]
    # Nobody reads the coefficients of base components.
    return _split(components, gaussians, linear, [], expected, expected, _NO_FRAMES, full)


def of_reduced(components: Components, full: bool) -> Split:
    """Return reduced components in parts, with the coefficients of the statistics expected."""
    gaussians, linear = _sorted(components)
    eta = [array for leaf in linear for array in _coefficients(leaf)]
    return _split(components, gaussians, linear, [], eta, [np.zeros_like(a) for a in eta], _NO_FRAMES, full)


def of_anchors(components: Components, full: bool) -> Split:
    """Return what sums are taken about: the Gaussians' means."""
    return _split(components, _sorted(components)[0], [], [], [], [], _NO_FRAMES, full)


class Learnable(NamedTuple):
    """Categories and rates that the compiled engine learns by itself."""

    split: Split
    probabilities: FloatArray  #: (K, S, 1, …) entries of the tables, which the engine changes
    coefficients: FloatArray  #: (K, S, 1, …) likewise
    prior: dict[str, Any]  #: arguments of the compiled `PartPrior`, without those of the chain

    def put_into(self, components: Components) -> None:
        """Overwrite components by what was learned."""
        at_table = at_rate = 0
        for leaf in leaves(components):
            if isinstance(leaf.components, Categorical):
                shape = leaf.components.probabilities.shape
                size = shape[-2] * (shape[-1] + 1)
                own = self.probabilities[..., at_table : at_table + size].reshape(*shape[:-1], -1)
                leaf.components.probabilities[...] = own[..., :-1]
                at_table += size
            else:
                n = 2 * leaf.components.n_dims
                leaf.components.rates[...] = -self.coefficients[..., at_rate : at_rate + n : 2]
                at_rate += n + 1


def is_learnable(components: Components) -> bool:
    """Whether the compiled engine has the M-step of components: Gaussians are another matter."""
    return all(isinstance(leaf.components, (Categorical, Poisson)) for leaf in leaves(components))


def learnable(components: Components, prior: FamilyPrior, X: FloatArray) -> Learnable:
    """Return categories and rates with their prior, ready to be learned."""
    split = of_frames(components, X)
    priors: list[Any] = list(getattr(prior, "parts", [prior]))
    pairs = list(zip(leaves(components), priors, strict=True))
    categories = [(leaf, own) for leaf, own in pairs if isinstance(leaf.components, Categorical)]
    rates = [(leaf, own) for leaf, own in pairs if isinstance(leaf.components, Poisson)]
    lead, K = components.lead, components.lead[0]
    chances = [_with(1.0, leaf.components.probabilities).reshape(*lead, -1) for leaf, _ in categories]
    pseudo = [_with(0.0, own.sums).reshape(K, -1) for _, own in categories]
    return Learnable(
        split,
        _side_by_side(lead, chances),
        split.mixtures["coefficients"].copy(),
        {
            "tables": _side_by_side((K,), pseudo),
            "linear": _side_by_side((K,), [_with_log_base(own.sums) for _, own in rates]),
            "low": _side_by_side((K,), [_with_log_base(_lowest(own)) for _, own in rates]),
            "is_rate": np.concatenate([np.empty(0, dtype=np.int64), *(_is_rate(leaf) for leaf, _ in rates)]),
        },
    )


def _with_log_base(array: FloatArray) -> FloatArray:
    """Return rows (K, 2 d + 1) of arrays (K, d, 2): log h has a column, too."""
    return _with(0.0, array.reshape(len(array), -1))


def _lowest(prior: Any) -> FloatArray:
    low = prior.low.get("rates", np.zeros(prior.sums.shape[:-1]))
    return np.stack([low, low], axis=-1)


def _is_rate(leaf: _Leaf) -> IntArray:
    return np.array([1, 0] * leaf.components.n_dims + [0], dtype=np.int64)


def is_full(components: Components) -> bool:
    """Whether some Gaussian has covariance matrices."""
    return any(not leaf.components.is_diagonal for leaf in _sorted(components)[0])


def _sorted(components: Components) -> tuple[list[_Leaf], list[_Leaf]]:
    every = leaves(components)
    gaussians = [leaf for leaf in every if isinstance(leaf.components, Gaussian)]
    return gaussians, [leaf for leaf in every if not isinstance(leaf.components, Gaussian)]


# -- linear parts: the statistics of a family, and log h, unless it is zero, as one more with the coefficient 1


def _statistics(leaf: _Leaf, X: FloatArray) -> Iterator[FloatArray]:
    yield leaf.components.statistics(X).reshape(len(X), -1)
    if leaf.components.has_base:
        yield leaf.components.log_base(X)[:, None]


def _coefficients(leaf: _Leaf) -> Iterator[FloatArray]:
    eta = leaf.components.coefficients()
    yield eta.reshape(*leaf.components.lead, -1)
    if leaf.components.has_base:
        yield np.ones((*leaf.components.lead, 1))


def _expected(leaf: _Leaf) -> Iterator[FloatArray]:
    yield leaf.components.expected_statistics().reshape(*leaf.components.lead, -1)
    if leaf.components.has_base:
        yield leaf.components.expected_log_base()[..., None]


# -- tables


def _suits_table(leaf: _Leaf, X: FloatArray) -> bool:
    if isinstance(leaf.components, Categorical):
        return True
    if leaf.components.coefficients().shape[-1] <= _MOST_STATISTICS:
        return False
    n_values = sum(len(_distinct(X[:, column])[0]) for column in leaf.columns)
    return bool(n_values * np.prod(leaf.components.lead) <= _TABLE_NUMBERS)


def _tables(leaf: _Leaf, X: FloatArray, by_chance: bool) -> Iterator[_Table]:
    for j, column in enumerate(leaf.columns):
        if isinstance(leaf.components, Categorical):
            yield _table_of_categories(leaf, j, X[:, column], by_chance)
        else:
            yield _table_of_values(leaf, j, X[:, column])


def _table_of_categories(leaf: _Leaf, j: int, x: FloatArray, by_chance: bool) -> _Table:
    all_entries = leaf.components.probabilities if by_chance else leaf.components.coefficients()
    entries, missing = all_entries[..., j, :], np.isnan(x)
    codes = (np.where(missing, entries.shape[-1], x) if missing.any() else x).astype(np.int64)
    return _Table(leaf, j, _with(1.0 if by_chance else 0.0, entries), codes, None)


def _table_of_values(leaf: _Leaf, j: int, x: FloatArray) -> _Table:
    values, codes = _distinct(x)
    alone = np.full((len(values), leaf.components.n_dims), np.nan)  # other columns are missing, which adds nothing
    alone[:, j] = values
    entries = np.moveaxis(leaf.components.log_density(alone), 0, -1)
    return _Table(leaf, j, _with(0.0, entries), codes.astype(np.int64), leaf.components.statistics(alone)[:, j])


def _distinct(x: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct values, and the place among them of each x; missing values have the place behind the last.

    This is done in every E-step, so small whole numbers, as counts are, are not sorted.
    """
    missing = np.isnan(x)
    known = x[~missing] if missing.any() else x
    whole = known.astype(np.int64) if ((known >= 0) & (known < len(x))).all() else np.empty(0, dtype=np.int64)
    if np.array_equal(whole, known):
        occurs = np.bincount(whole) > 0
        values, places = np.flatnonzero(occurs).astype(np.float64), (np.cumsum(occurs) - 1)[whole]
    else:
        values, places = np.unique(known, return_inverse=True)
    if len(known) == len(x):
        return values, places
    codes = np.full(len(x), len(values), dtype=np.int64)
    codes[~missing] = places
    return values, codes


def _with(last: float, entries: FloatArray) -> FloatArray:
    """Return entries with one more behind them, for missing values."""
    out = np.empty((*entries.shape[:-1], entries.shape[-1] + 1))
    out[..., :-1], out[..., -1] = entries, last
    return out


# -- all parts together


def _split(
    components: Components, gaussians: list[_Leaf], linear: list[_Leaf], tables: list[_Table],
    coefficients: list[FloatArray], statistics: list[FloatArray], frames: FloatArray, full: bool | None = None,
    by_chance: bool = False,
) -> Split:  # fmt: skip
    lead = components.lead
    nothing = np.empty((*lead, 0))
    full = any(not leaf.components.is_diagonal for leaf in gaussians) if full is None else full
    means = _side_by_side(lead, [leaf.components.means for leaf in gaussians])
    variances = _side_by_side(lead, [leaf.components.variances for leaf in gaussians])
    d = means.shape[-1]
    mixtures = {
        "means": nothing if full else means,
        "variances": nothing if full else variances,
        "full_means": means if full else nothing,
        "full_covars": _block_diagonal(gaussians, lead, d) if full else np.empty((*lead, 0, 0)),
        "coefficients": _side_by_side(lead, coefficients),
        "statistics": _side_by_side(lead, statistics),
        "tables": _side_by_side(lead, [table.entries for table in tables]),
        "sizes": np.array([table.entries.shape[-1] for table in tables], dtype=np.int64),
    }
    parts = [(d,), (d, d)] if full else [(d,), (d,)]
    shapes = [*parts, (mixtures["coefficients"].shape[-1],), (mixtures["tables"].shape[-1],)]

    def sums(count: FloatArray, made: FloatArray) -> Sums:
        first, second, statistics, counts = _cut(made, lead, shapes)
        out = {"count": count, **dict(_gaussian_sums(gaussians, first, second))}
        return {**out, **dict(_linear_sums(linear, statistics)), **_table_sums(tables, counts)}

    return Split(mixtures, sums, sum(int(np.prod(shape)) for shape in shapes), frames, by_chance)


def _side_by_side(lead: tuple[int, ...], arrays: list[FloatArray]) -> FloatArray:
    """Return arrays (*lead, …) as one; of one alone no copy is made."""
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty((*lead, 0)), *arrays], axis=-1)


def _block_diagonal(gaussians: list[_Leaf], lead: tuple[int, ...], d: int) -> FloatArray:
    out, at = np.zeros((*lead, d, d)), 0
    for leaf in gaussians:
        n = leaf.components.n_dims
        out[..., at : at + n, at : at + n] = leaf.components.full().covars
        at += n
    return out


def _cut(sums: FloatArray, lead: tuple[int, ...], shapes: list[tuple[int, ...]]) -> list[FloatArray]:
    """Return the sums of each part, (K, S, M, …), of those of all, (K, …): an HMM's parts follow each other."""
    K, G, at, out = lead[0], int(np.prod(lead[1:])), 0, []
    for shape in shapes:
        size = G * int(np.prod(shape))
        out.append(sums[:, at : at + size].reshape(K, *lead[1:], *shape))
        at += size
    return out


def _gaussian_sums(gaussians: list[_Leaf], first: FloatArray, second: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    full, at = second.ndim > first.ndim, 0
    for leaf in gaussians:
        span = slice(at, at + leaf.components.n_dims)
        own = second[..., span, span] if full else second[..., span]
        if full and leaf.components.is_diagonal:
            own = np.diagonal(own, axis1=-2, axis2=-1)
        elif full:
            own = np.tril(own) + np.swapaxes(np.tril(own, -1), -1, -2)  # kernels may leave the upper triangle empty
        yield f"{leaf.prefix}first", np.ascontiguousarray(first[..., span])
        yield f"{leaf.prefix}second", np.ascontiguousarray(own)
        at = span.stop


def _linear_sums(linear: list[_Leaf], sums: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    at = 0
    for leaf in linear:
        shape = leaf.components.coefficients().shape
        size = shape[-2] * shape[-1]
        yield f"{leaf.prefix}statistics", np.ascontiguousarray(sums[..., at : at + size]).reshape(shape)
        at += size + leaf.components.has_base  # whose sum is not needed


def _table_sums(tables: list[_Table], counts: FloatArray) -> dict[str, FloatArray]:
    columns: dict[str, list[FloatArray]] = {}
    at = 0
    for table in tables:
        size = table.entries.shape[-1]
        columns.setdefault(f"{table.leaf.prefix}statistics", []).append(table.summed(counts[..., at : at + size]))
        at += size
    return {name: np.stack(each, axis=-2) for name, each in columns.items()}
