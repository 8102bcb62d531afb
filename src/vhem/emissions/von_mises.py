"""Angles: independent von Mises distributions in every column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from scipy.special import i0e, i1e

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.emissions.components import Fault, Number, first_place
from vhem.emissions.linear import LinearFamily, LinearPrior

_MOST = 1e6  # of concentrations: a deviation of a thousandth of a radian
_TURN = 2 * np.pi


class VonMises(LinearFamily):
    """Angles in radians with a direction and a concentration per state: log f(y) = κ cos(y - μ) - log 2π I₀(κ).

    Parameters
    ----------
    directions, concentrations : arrays of shape (S,), (S, d) or (S, M, d)
        The mean directions μ in radians, and κ: 0 is uniform, and for large κ the deviation is about 1/√κ.

    Examples
    --------
    >>> import vhem
    >>> turns = vhem.VonMises(directions=[0.0, 3.14], concentrations=[4.0, 1.0])
    >>> vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=turns).decode([[0.1, -0.2, 3.0, -2.9]])[1]
    [array([0, 0, 1, 1])]
    """

    family: ClassVar[str] = "vonmises"
    fields: ClassVar[tuple[str, ...]] = ("directions", "concentrations")
    harmless: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    ranges: ClassVar[dict[str, tuple[float, float]]] = {"concentrations": (-1e-300, np.inf)}
    limited: ClassVar[tuple[str, ...]] = ("concentrations",)
    words: ClassVar[dict[str, str]] = {"concentrations": "concentration"}

    turn: ClassVar[float] = _TURN  #: a full turn, in the units of angles

    directions: FloatArray  #: (*lead, d)
    concentrations: FloatArray  #: (*lead, d)

    @classmethod
    def radians(cls, angles: FloatArray) -> FloatArray:
        """Return angles in radians."""
        return np.asarray(angles * (_TURN / cls.turn))

    @classmethod
    def of_radians(cls, directions: FloatArray, concentrations: FloatArray) -> Self:
        """Return distributions whose directions are given in radians."""
        return cls.of(directions * (cls.turn / _TURN), concentrations)

    def fault(self, X: FloatArray) -> Fault | None:
        """Return an angle beyond a full turn."""
        place = first_place(np.abs(X) > self.turn)
        return place and Fault(*place, self._beyond())

    def _beyond(self) -> InputError:
        cures = ("if these are degrees, give 'vonmises:degrees' instead of 'vonmises'", "correct it")
        return InputError("which is more than a full turn (2π)", *cures)

    def features(self, X: FloatArray) -> FloatArray:
        """Return points on the circle."""
        angles = self.radians(X)
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    @property
    def own_units(self) -> BoolArray:
        """All: the circle must stay round."""
        return np.ones(2 * self.n_dims, dtype=bool)

    def statistics(self, X: FloatArray) -> FloatArray:
        """Return (1, cos y, sin y)."""
        seen = ~np.isnan(X)
        y = self.radians(np.where(seen, X, 0.0))
        return np.stack([np.ones_like(y), np.cos(y), np.sin(y)], axis=-1) * seen[..., None]

    def coefficients(self) -> FloatArray:
        """Return (-log 2π I₀(κ), κ cos μ, κ sin μ)."""
        mu, kappa = self.radians(self.directions), self.concentrations
        return np.stack([-log_norm(kappa, self.turn), kappa * np.cos(mu), kappa * np.sin(mu)], axis=-1)

    def expected_statistics(self) -> FloatArray:
        """Return (1, A cos μ, A sin μ) with the resultant length A = I₁(κ) / I₀(κ)."""
        mu, length = self.radians(self.directions), resultant(self.concentrations)
        return np.stack([np.ones_like(mu), length * np.cos(mu), length * np.sin(mu)], axis=-1)

    def log_overlap(self, other: VonMises, power: float) -> FloatArray:
        """Return ``Σ_columns log [2π I₀(|η+η'| power) / (2π I₀(κ) 2π I₀(κ'))^power]`` of every pair."""
        one, two = (c.reshaped(-1).coefficients() for c in (self, other))
        both = power * (one[:, None] + two)
        total = both[..., 0] + log_norm(np.hypot(both[..., 1], both[..., 2]), self.turn)
        return np.asarray(total.sum(axis=-1).reshape(*self.lead, *other.lead))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random angles within half a turn of zero."""
        flat = self.reshaped(-1).take(index)
        drawn = rng.vonmises(_wrapped(self.radians(flat.directions)), flat.concentrations)
        return np.asarray(drawn * (self.turn / _TURN))

    def quantiles(self, index: IntArray, u: FloatArray) -> FloatArray:
        """Return angles, counted from the opposite of the mean direction."""
        flat, out = self.reshaped(-1), np.empty_like(u)
        for k in np.unique(index):
            rows = index == k
            for j, (mu, kappa) in enumerate(zip(flat.directions[k], flat.concentrations[k], strict=True)):
                out[rows, j] = self.radians(mu) + _turned(u[rows, j], float(kappa))
        return _wrapped(out) * (self.turn / _TURN)

    def estimated(self, sums: FloatArray, prior: LinearPrior | None) -> Self:
        """Return mean directions, and the concentrations that have the mean resultant lengths."""
        n = np.where(sums[..., 0] > 0, sums[..., 0], 1.0)
        length = np.hypot(sums[..., 1], sums[..., 2]) / n
        kappa = self._clipped(prior, "concentrations", concentration_of(length))
        return self.of_radians(np.arctan2(sums[..., 2], sums[..., 1]), kappa)

    def limits(self, mean: FloatArray, floor: float) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Return as the largest the concentration with this share of the circular variance of all values."""
        length = np.hypot(mean[..., 1], mean[..., 2]) / np.maximum(mean[..., 0], 1e-300)
        return {}, {"concentrations": concentration_of(1 - max(floor, 1e-8) * (1 - np.minimum(length, 1.0)))}

    def shifted(self, steps: FloatArray) -> Self:
        """Return turned directions."""
        deviation = np.sqrt(-2 * np.log(np.clip(resultant(self.concentrations), 1e-3, 1.0)))
        turned = self.radians(self.directions) + np.clip(steps * deviation, -1.0, 1.0)
        return self.of_radians(_wrapped(turned), self.concentrations + 0.0)

    def numbers(
        self, mix_weights: FloatArray, columns: Sequence[str], categories: Sequence[Sequence[str] | None]
    ) -> list[Number]:
        """Return the mean directions in degrees, and the lengths of the mean vectors: 1 is always the same angle."""
        del categories
        x, y = np.moveaxis(np.einsum("ksm,ksmdn->dksn", mix_weights, self.expected_statistics())[..., 1:], -1, 0)
        made = list[Number]()
        for j, column in enumerate(columns):
            made.append(Number(f"{column} (degrees)", np.degrees(np.arctan2(y[j], x[j])), 360.0))
            made.append(Number(f"{column} (concentration, 0 to 1)", np.hypot(x[j], y[j]), limit=1.0))
        return made

    def centre(self) -> FloatArray:
        """Return the mean resultant vectors."""
        return np.concatenate([self.expected_statistics()[..., 1], self.expected_statistics()[..., 2]], axis=-1)


class VonMisesDegrees(VonMises):
    """The same of angles in degrees: those of frames, of random sequences and of `directions`.

    Parameters
    ----------
    directions, concentrations : arrays of shape (S,), (S, d) or (S, M, d)
        The mean directions μ in degrees, and κ, as in `VonMises`.

    Examples
    --------
    >>> import vhem
    >>> turns = vhem.VonMisesDegrees(directions=[0.0, 180.0], concentrations=[4.0, 1.0])
    >>> vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=turns).decode([[6.0, 349.0, 170.0, -165.0]])[1]
    [array([0, 0, 1, 1])]
    """

    family: ClassVar[str] = "vonmises:degrees"
    turn: ClassVar[float] = 360.0

    def _beyond(self) -> InputError:
        return InputError("which is more than a full turn (360 degrees)", "take it modulo 360", "correct it")


def log_norm(kappa: FloatArray, turn: float) -> FloatArray:
    """Return log ∫ exp(κ cos y) over a turn: log 2π I₀(κ), in radians."""
    return np.asarray(np.log(turn * i0e(kappa)) + kappa)


def resultant(kappa: FloatArray) -> FloatArray:
    """Return A(κ) = I₁(κ) / I₀(κ)."""
    return np.asarray(i1e(kappa) / i0e(kappa))


def concentration_of(length: FloatArray) -> FloatArray:
    """Solve A(κ) = length by Newton's method, with A' = 1 - A/κ - A²; from the approximation r (2 - r²) / (1 - r²)."""
    r = np.clip(length, 0.0, 1 - 0.5 / _MOST)
    kappa = np.maximum(r * (2 - r**2) / (1 - r**2), 1e-12)
    for _ in range(20):
        A = resultant(kappa)
        kappa = np.clip(kappa - (A - r) / (1 - A / kappa - A**2), 0.2 * kappa, 5 * kappa)
    return np.clip(kappa, 0.0, _MOST)


def _wrapped(angle: FloatArray) -> FloatArray:
    """Return angles between -π and π."""
    return np.asarray(np.arctan2(np.sin(angle), np.cos(angle)))


def _turned(u: FloatArray, kappa: float) -> FloatArray:
    """Return quantiles of a von Mises distribution about 0, by its density on a grid of twelve deviations."""
    x = np.clip(np.linspace(-12.0, 12.0, 1001) / np.sqrt(1 + kappa), -np.pi, np.pi)
    density = np.exp(kappa * (np.cos(x) - 1))
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(x))])
    return np.asarray(np.interp(u * below[-1], below, x))
