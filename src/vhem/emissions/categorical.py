"""Categories: areas of interest, pages, keys, behaviours, states of a life course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

from vhem._support.arrays import BoolArray, FloatArray, IntArray, row_sums
from vhem._support.errors import InputError
from vhem._support.places import Names
from vhem.emissions.components import FamilyPrior, Fault, Number, Sums
from vhem.emissions.linear import LinearFamily, LinearPrior, log

_SUM_TOLERANCE = 1e-8  # how far from one the sum of probabilities may be
_ROUNDING = 1e-14  # sums this close to one are left alone, so that checking twice changes nothing
_MOST_FEATURES = 64  # categories that k-means tells apart exactly; more are projected
_PROJECTED = 32
_MOST_CATEGORIES = 100_000  # more are not codes of categories, but something else


class Categorical(LinearFamily):
    """One of V categories in every column, independent given the state; frames hold codes 0, 1, …, V-1.

    Parameters
    ----------
    probabilities : array of shape (S, V), (S, d, V) or (S, M, d, V)
        The probability of each category, of S states (with M components) and d columns; rows sum to one. If columns
        have different numbers of categories, V is the largest, and what a column does not have has probability zero.

    Examples
    --------
    >>> import vhem
    >>> emissions = vhem.Categorical([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=emissions)
    >>> hmm.decode([[0, 0, 1, 0, 2, 2, 2]])[1]
    [array([0, 0, 0, 0, 1, 1, 1])]
    """

    family: ClassVar[str] = "categorical"
    fields: ClassVar[tuple[str, ...]] = ("probabilities",)
    trailing: ClassVar[int] = 2

    probabilities: FloatArray  #: (*lead, d, V)

    @property
    def n_categories(self) -> int:
        """Categories of a column, V."""
        return int(self.probabilities.shape[-1])

    @property
    def kind(self) -> str:
        """The family and the number of categories."""
        return f"categorical with {self.n_categories} categories"

    @property
    def possible(self) -> BoolArray:
        """Which categories each column has, (d, V): those with a probability anywhere."""
        d, V = self.probabilities.shape[-2:]
        rows = self.probabilities.reshape(-1, d * V)
        return np.asarray(np.ones(len(rows)) @ rows > 0).reshape(d, V)  # faster than the largest of each column

    @classmethod
    def template(cls, X: FloatArray, n_categories: Sequence[int | None], covariance_type: str) -> Categorical:
        """Return equal probabilities of the categories of each column: those that are named, or else the codes seen."""
        del covariance_type
        seen = np.nan_to_num(np.fmax.reduce(X, axis=0, initial=0.0), nan=0.0)
        sizes = [int(top) + 1 if n is None else n for top, n in zip(seen, n_categories, strict=True)]
        if max(sizes) > _MOST_CATEGORIES:
            raise InputError(
                "column {column} has the category code {top:g}: codes count from 0",
                "number the categories from 0 on",
                column=int(np.argmax(sizes)), top=max(sizes) - 1,
            )  # fmt: skip
        rows = [np.arange(max(sizes)) < n for n in sizes]
        return Categorical.of(np.array([row / row.sum() for row in rows]))

    def padding(self) -> Categorical:
        """Return equal probabilities."""
        possible = self.possible.astype(np.float64)
        return Categorical.of(possible / possible.sum(axis=-1, keepdims=True))

    def _check_ranges(self, names: Names) -> None:
        p = self.probabilities
        total = row_sums(p)[..., None]
        off = np.abs(total - 1)
        if p.min(initial=0.0) < 0 or off.max() > _SUM_TOLERANCE:
            k, s, m, j, _ = (int(i) for i in np.argwhere((p < 0) | (off > _SUM_TOLERANCE))[0])
            row = p[k, s, m, j]
            fault = f"are not all positive ({row.min():.6g})" if row.min() < 0 else f"sum to {row.sum():.12g}"
            raise InputError(
                "{place}: the probabilities of dimension {j} {fault}; they must be at least 0 and sum to 1",
                "Divide counts by their sum",
                place=names.place(k, s, m), j=j, fault=fault,
            )  # fmt: skip
        if off.max() > _ROUNDING:
            np.divide(p, np.where(off > _ROUNDING, total, 1.0), out=p)

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a value that is not the code of a category."""
        if len(X) and X.min() >= 0 and X.max() < self.n_categories and (np.floor(X) == X).all():
            return None  # mostly; what is missing, or wrong, needs a closer look
        with np.errstate(invalid="ignore"):
            wrong = (X < 0) | (np.floor(X) != X) | (self.n_categories <= X)
        wrong &= ~np.isnan(X)
        if not wrong.any():
            return None
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        why = InputError(
            "which is not one of the codes 0 to {last} of the categories",
            "use the same categories that the model was learned from",
            "write NaN for a missing value",
            last=self.n_categories - 1,
        )
        return Fault(row, column, why)

    def features(self, X: FloatArray) -> FloatArray:
        """Return indicators, in which two different categories have distance one."""
        N, d, V = len(X), self.n_dims, self.n_categories
        codes = np.where(np.isnan(X), -1, X).astype(np.int64)
        table = np.eye(V) / np.sqrt(2)
        if V > _MOST_FEATURES:
            table = np.random.default_rng(0).choice([-1.0, 1.0], size=(V, _PROJECTED)) / np.sqrt(2 * _PROJECTED)
        table = np.concatenate([table, np.full((1, table.shape[1]), np.nan)])  # code -1: missing
        return np.asarray(table[codes].reshape(N, d * table.shape[1]))

    def feature_moments(self, X: FloatArray, offsets: IntArray) -> tuple[FloatArray, ...] | None:
        """Return the moments of indicators, which follow from the shares of the categories."""
        if self.n_categories > _MOST_FEATURES:
            return None
        K = len(offsets) - 1
        sums = self.sums_by_label(X, np.repeat(np.arange(K), np.diff(offsets)), K)
        n = np.broadcast_to(sums.sum(axis=-1, keepdims=True), sums.shape)
        share = sums / np.maximum(n, 1.0)
        made = (n, share / np.sqrt(2), 0.5 * sums * (1 - share), (sums > 0) / np.sqrt(2))
        return tuple(np.asarray(a, np.float64).reshape(K, -1) for a in made)

    @property
    def own_units(self) -> BoolArray:
        """All: indicators are comparable."""
        width = self.n_categories if self.n_categories <= _MOST_FEATURES else _PROJECTED
        return np.ones(self.n_dims * width, dtype=bool)

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return indicators of the categories."""
        return np.asarray(X[..., None] == np.arange(self.n_categories), np.float64)

    def coefficients(self) -> FloatArray:
        """Return log probabilities."""
        return log(self.probabilities)

    def expected_statistics(self) -> FloatArray:
        """Return the probabilities."""
        return self.probabilities

    def observed(self, sums: FloatArray) -> FloatArray:
        """Return the total over categories."""
        return np.asarray(sums.sum(axis=-1))

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return Σ_columns log p of the categories seen, read from a table."""
        eta = self.coefficients().reshape(-1, self.n_dims, self.n_categories)
        table = np.concatenate([eta, np.zeros((*eta.shape[:2], 1))], axis=-1)  # the last entry: missing
        codes = np.where(np.isnan(X), self.n_categories, X).astype(np.int64)
        total = sum(table[:, j, codes[:, j]] for j in range(self.n_dims))
        return np.ascontiguousarray(np.asarray(total).T).reshape(len(X), *self.lead)

    def frame_sums(self, X: FloatArray, u: FloatArray, anchors: Self) -> Sums:
        """Return the sums over frames: how often each category was seen."""
        del anchors
        flat = u.reshape(len(X), -1)
        columns = [self._indicators(X[:, j]) @ flat for j in range(self.n_dims)]  # each (V, n)
        sums = np.stack(columns).transpose(2, 0, 1)
        return {"count": u.sum(axis=0), "statistics": sums.reshape(*self.lead, *sums.shape[1:])}

    def _indicators(self, codes: FloatArray) -> csr_matrix:
        rows = np.flatnonzero(~np.isnan(codes))
        entries = (np.ones(len(rows)), (codes[rows].astype(np.int64), rows))
        return csr_matrix(entries, shape=(self.n_categories, len(codes)))

    def sums_by_label(self, X: FloatArray, labels: IntArray, n: int) -> FloatArray:
        """Return how often each category was seen with each label, (n, d, V)."""
        V, out = self.n_categories, np.empty((n, self.n_dims, self.n_categories))
        for j in range(self.n_dims):
            seen = ~np.isnan(X[:, j])
            rows = slice(None) if seen.all() else seen
            place = labels[rows] * V + X[rows, j].astype(np.int64)
            out[:, j] = np.bincount(place, minlength=n * V).reshape(n, V)
        return out

    def log_overlap(self, other: Categorical, power: float) -> FloatArray:
        """Return Σ_columns log Σ_v p_v^power q_v^power of every pair."""
        a, b = (c.reshaped(-1).coefficients() for c in (self, other))
        total = logsumexp(power * (a[:, None] + b), axis=-1).sum(axis=-1)
        return np.asarray(total.reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random categories."""
        return self.quantiles(index, rng.random((len(index), self.n_dims)))

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return categories; their probabilities up to a category sum to more than u."""
        sums = np.cumsum(self.reshaped(-1).probabilities, axis=-1)
        sums /= sums[..., -1:]
        return np.asarray((u[:, :, None] >= sums[index]).sum(axis=-1), np.float64)

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Categorical:
        """Return the shares of the categories, none below its floor."""
        total = sums.sum(axis=-1, keepdims=True)
        return Categorical.of(self._clipped(prior, "probabilities", sums / np.where(total > 0, total, 1.0)))

    def prior(self, typical: FamilyPrior, count: float, floor: float) -> LinearPrior:
        """Return pseudo-frames with the average shares, and `floor` more in each category: none is ever ruled out."""
        made = super().prior(typical, count, floor)
        return replace(made, sums=made.sums + floor * self.possible)

    def within_reach(self, n: int, share: float) -> LinearPrior:
        """Return a share of the smallest probability here as the floor of all categories that occur at all."""
        p, possible = self.probabilities.reshape(-1, *self.probabilities.shape[-2:]), self.possible
        least = np.where(p > 0, p, 1.0).min(axis=(0, 2))
        floor = share * np.minimum(least, 1 / self.n_categories)[:, None] * possible
        return replace(super().within_reach(n, share), low={"probabilities": np.tile(floor, (n, 1, 1))})

    def _clipped(self, prior: LinearPrior | None, name: str, values: FloatArray) -> FloatArray:
        """Return the likeliest probabilities of which none is below its floor: the others make room."""
        if prior is None or name not in prior.low:
            return values
        low = prior.low[name][:, None, None]
        at = values < low
        while True:
            room = 1 - np.where(at, low, 0.0).sum(axis=-1, keepdims=True)
            rest = np.where(at, 0.0, values).sum(axis=-1, keepdims=True)
            made = np.where(at, low, values * (room / np.where(rest > 0, rest, 1.0)))
            below = ~at & (made < low)
            if not below.any():
                return made
            at |= below

    def above_floor(self, prior: FamilyPrior) -> Categorical:
        """Return categories of which none is ruled out that the prior allows."""
        assert isinstance(prior, LinearPrior)
        p = self._clipped(prior, "probabilities", self.probabilities)
        missing = (p == 0) & (prior.sums > 0)[:, None, None]
        if not missing.any():
            return Categorical.of(p)
        filled = np.where(missing, np.finfo(float).eps, p)
        return Categorical.of(filled / filled.sum(axis=-1, keepdims=True))

    def shifted(self, steps: FloatArray) -> Categorical:
        """Return probabilities with their logarithms moved."""
        moved = self.probabilities * np.exp(np.clip(steps, -2.0, 2.0))
        return Categorical.of(moved / moved.sum(axis=-1, keepdims=True))

    def ways_apart(self) -> FloatArray:
        """Return opposite directions for categories that are next to each other in probability."""
        rank = (-self.probabilities).argsort(axis=-1, kind="stable").argsort(axis=-1, kind="stable")
        return np.where(rank % 2, -1.0, 1.0)

    def n_parameters(self) -> int:
        """Return the number of free probabilities of one component."""
        return int(np.maximum(self.possible.sum(axis=-1) - 1, 0).sum())

    def numbers(
        self, mix_weights: FloatArray, columns: Sequence[str], categories: Sequence[Sequence[str] | None]
    ) -> list[Number]:
        """Return the probability of every category that a column has."""
        each = np.einsum("ksm,ksmdv->dvks", mix_weights, self.probabilities)
        named = [names or [str(code) for code in range(self.n_categories)] for names in categories]
        return [
            Number(f"{columns[j]} = {named[j][v]}", each[j, v], limit=1.0)
            for j, v in np.argwhere(self.possible)
            if v < len(named[j])
        ]

    def centre(self) -> FloatArray:
        """Return square roots of the probabilities, whose distance is Hellinger's."""
        return np.sqrt(self.probabilities).reshape(*self.lead, -1)
