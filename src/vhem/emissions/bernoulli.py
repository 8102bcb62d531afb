"""Yes or no: independent events in every column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.emissions.components import FamilyPrior, Fault, Number, first_place, means_by_column
from vhem.emissions.linear import LinearFamily, LinearPrior, log

_SMALLEST = float(np.finfo(float).eps)


class Bernoulli(LinearFamily):
    """Events that happen (1) or do not (0): log f(y) = y log p + (1-y) log(1-p).

    Parameters
    ----------
    probabilities : array of shape (S,), (S, d) or (S, M, d)
        The probability p of each event, of S states (with M components) and d columns.

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=vhem.Bernoulli([[0.9, 0.1], [0.1, 0.9]]))
    >>> hmm.decode([[[1, 0], [1, 0], [0, 1]]])[1]
    [array([0, 0, 1])]
    """

    family: ClassVar[str] = "bernoulli"
    fields: ClassVar[tuple[str, ...]] = ("probabilities",)
    harmless: ClassVar[tuple[float, ...]] = (0.5,)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"probabilities": (-1e-300, 1 + 1e-15)}
    words: ClassVar[dict[str, str]] = {"probabilities": "probability"}

    probabilities: FloatArray  #: (*lead, d)

    def fault(self, X: FloatArray) -> Fault | None:
        """Return a value that is neither 0 nor 1."""
        place = first_place(~np.isnan(X) & (X != 0) & (X != 1))
        return place and Fault(*place, InputError("which is neither 0 nor 1", "write 1 for yes and 0 for no"))

    def features(self, X: FloatArray) -> FloatArray:
        """Return the values themselves."""
        return X

    @property
    def own_units(self) -> BoolArray:
        """All: events are comparable."""
        return np.ones(self.n_dims, dtype=bool)

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return (1-y, y)."""
        return np.stack([X == 0, X == 1], axis=-1).astype(np.float64)

    def observed(self, sums: FloatArray) -> FloatArray:
        """Return how often either was seen."""
        return np.asarray(sums.sum(axis=-1))

    def coefficients(self) -> FloatArray:
        """Return (log(1-p), log p)."""
        return log(self.expected_statistics())

    def expected_statistics(self) -> FloatArray:
        """Return (1-p, p)."""
        return np.stack([1 - self.probabilities, self.probabilities], axis=-1)

    def log_overlap(self, other: Bernoulli, power: float) -> FloatArray:
        """Return Σ_columns log [ (p p')^power + ((1-p)(1-p'))^power ] of every pair."""
        a, b = (c.reshaped(-1).coefficients() for c in (self, other))
        total = np.logaddexp.reduce(power * (a[:, None] + b), axis=-1).sum(axis=-1)
        return np.asarray(total.reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random events."""
        return self.quantiles(index, rng.random((len(index), self.n_dims)))

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return events, which happen where u is small."""
        return np.asarray(u < self.reshaped(-1).probabilities[index], np.float64)

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Bernoulli:
        """Return the shares of events that happened, within the limits."""
        total = sums.sum(axis=-1)
        return Bernoulli.of(self._clipped(prior, "probabilities", sums[..., 1] / np.where(total > 0, total, 1.0)))

    def prior(self, typical: FamilyPrior, count: float, floor: float) -> LinearPrior:
        """Return pseudo-frames with the average share, and `floor` more of either: none is ever ruled out."""
        made = super().prior(typical, count, floor)
        return replace(made, sums=made.sums + floor)

    def within_reach(self, n: int, share: float) -> LinearPrior:
        """Return a share of the smallest probability of either as the floor of both."""
        both = self.expected_statistics().reshape(-1, self.n_dims, 2)
        floor = np.tile(share * np.where(both > 0, both, 1.0).min(axis=(0, 2)) / 2, (n, 1))
        made = super().within_reach(n, share)
        return replace(made, low={"probabilities": floor}, high={"probabilities": 1 - floor})

    def above_floor(self, prior: FamilyPrior) -> Bernoulli:
        """Return probabilities of which none is 0 or 1, if the prior says so."""
        within = super().above_floor(prior)
        return within if prior.is_flat else Bernoulli.of(np.clip(within.probabilities, _SMALLEST, 1 - _SMALLEST))

    def shifted(self, steps: FloatArray) -> Bernoulli:
        """Return probabilities with their log-odds moved."""
        p = self.probabilities
        up, down = p * np.exp(np.clip(steps, -2.0, 2.0)), 1 - p
        return Bernoulli.of(up / (up + down))

    def numbers(
        self, mix_weights: FloatArray, columns: Sequence[str], categories: Sequence[Sequence[str] | None]
    ) -> list[Number]:
        """Return the probabilities of the events."""
        events = [names[1] if names else "1" for names in categories]
        named = [f"{column} = {event}" for column, event in zip(columns, events, strict=True)]
        return means_by_column(mix_weights, self.probabilities, named, 1.0)

    def centre(self) -> FloatArray:
        """Return the angles whose distance is Hellinger's."""
        return np.asarray(np.arcsin(np.sqrt(self.probabilities)))
