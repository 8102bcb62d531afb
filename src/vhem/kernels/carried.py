"""What an E-step of VHEM knows about pairs far apart, carried to the next one.

Elkan and Hamerly do this for k-means, with distances and the triangle inequality. Here J_ij, or the bound by which the
compiled engine skips a pair, is, but for a constant, minus half the square of a number g_ij that behaves as a distance:
if reduced model j moves, g_ij'² ≥ (shrink_j (g_ij - √v_i shift_j))² - 2 v_i gain_j.
The proof is in docs/performance.md; it holds for mixtures, and for variances as for full matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray
from vhem.emissions.gaussian import Gaussian
from vhem.kernels.models import Models

_MIN_CLUSTERS = 32  # with fewer, emissions are a small part of an E-step
_MOST_DISTANCES = 2**27  # of all shards: half a gigabyte
_SLACK = 0.5  # nats between a reduced model's constants and its ceiling: roots of small numbers would move much


class Moved(NamedTuple):
    """What is known about the reduced models, (K_r,) each."""

    ceiling: FloatArray  #: above all constants of the components
    shrink: FloatArray  #: to the square of this, or less far, the precisions have fallen since the last E-step
    shift: FloatArray  #: how far means have moved, in standard deviations, and constants
    gain: FloatArray  #: by how much logs of probabilities have risen, at most


class Carried:
    """Distances between the base models of a shard and the reduced models of one run, as the last E-step left them."""

    def __init__(self, n_shards: int = 1) -> None:
        self.most = _MOST_DISTANCES // n_shards
        self.models: Models | None = None
        self.distance, self.nearest = np.empty((0, 0), np.float32), np.empty(0, np.int64)

    def pays_for(self, n_base: int, reduced: Models) -> bool:
        """Whether there are enough reduced models, not too many pairs, and Gaussians."""
        size = _MIN_CLUSTERS <= len(reduced) <= self.most / n_base
        return size and isinstance(reduced.components, Gaussian)

    def since(self, n_base: int, reduced: Models) -> Moved:
        """Return how the reduced models have moved since the last E-step."""
        before, self.models = self.models, None  # if the E-step fails, nothing is known
        if before is None or before.shape != reduced.shape or self.distance.shape != (n_base, len(reduced)):
            self.distance = np.zeros((n_base, len(reduced)), np.float32)
            self.nearest = np.full(n_base, -1)
            before = reduced
        return Moved(_ceiling(reduced), *_gaussians_moved(before, reduced), _gain(before, reduced))

    def known_for(self, reduced: Models) -> None:
        """Remember for which reduced models the distances hold."""
        self.models = reduced


def _gaussian(models: Models) -> Gaussian:
    """Return the Gaussians, with some covariance where there is none."""
    gaussian, real = models.components, _real(models)
    assert isinstance(gaussian, Gaussian), "see pays_for"
    if real.all():
        return gaussian
    covars = gaussian.covars.copy()
    covars[~real] = 1.0 if gaussian.is_diagonal else np.eye(covars.shape[-1])
    return Gaussian(gaussian.means, covars)


def _constants(models: Models) -> FloatArray:
    """Return log c_ρℓ - ½ (d log 2π + log|Σ_ρℓ|), (K, S, M)."""
    gaussian = _gaussian(models)
    d = gaussian.means.shape[-1]
    det = np.log(gaussian.covars).sum(-1) if gaussian.is_diagonal else np.linalg.slogdet(gaussian.covars)[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(models.mix_weights) - 0.5 * (d * np.log(2 * np.pi) + det))


def _real(models: Models) -> BoolArray:
    """Return which components exist: those of weight, in states that are not padding."""
    states = np.arange(models.shape[1]) < models.n_states[:, None]
    return np.asarray((models.mix_weights > 0) & states[:, :, None])


def _peak(models: Models) -> FloatArray:
    return np.asarray(np.where(_real(models), _constants(models), -np.inf).max(axis=(1, 2)))


def _ceiling(models: Models) -> FloatArray:
    return np.asarray(_peak(models) + _SLACK + np.log(models.shape[2]))


def _gain(before: Models, after: Models) -> FloatArray:
    """Return the largest rise of a log of start and transition probabilities."""
    rise = np.zeros(len(after))
    for old, new in ((before.startprob, after.startprob), (before.transmat, after.transmat)):
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(new > old, np.log(new) - np.log(old), 0.0)
        rise = np.maximum(rise, logs.reshape(len(after), -1).max(axis=1))
    return rise


def _gaussians_moved(before: Models, after: Models) -> tuple[FloatArray, FloatArray]:
    """Return shrink and shift (K_r,): the worst of each reduced model's components."""
    shrink, shift = _components_moved(_gaussian(before), _gaussian(after))
    with np.errstate(invalid="ignore"):  # components that do not exist
        heights = [np.sqrt(2 * (_peak(m)[:, None, None] + _SLACK - _constants(m))) for m in (before, after)]
        shift = np.hypot(shift, heights[1] - heights[0])
    real = _real(after)
    least, most = np.where(real, shrink, 1.0).min(axis=(1, 2)), np.where(real, shift, 0.0).max(axis=(1, 2))
    return np.asarray(np.clip(least, 0.0, 1.0)), np.asarray(most)


def _components_moved(before: Gaussian, after: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Return the root of the largest r² with Σ'⁻¹ ≥ r² Σ⁻¹ (or less), and |Σ^-½ (μ' - μ)|."""
    step = after.means - before.means
    if before.is_diagonal:
        shrink = np.sqrt((before.covars / after.covars).min(axis=-1))
        return shrink, np.sqrt((step**2 / before.covars).sum(axis=-1))
    white = np.linalg.inv(np.linalg.cholesky(after.covars))
    change = white @ (before.covars - after.covars) @ np.swapaxes(white, -1, -2)
    least = 1 - np.sqrt((change**2).sum(axis=(-2, -1)))  # of the eigenvalues, by Frobenius' norm
    whitened = np.linalg.solve(np.linalg.cholesky(before.covars), step[..., None])[..., 0]
    return np.sqrt(np.maximum(least, 0.0)), np.sqrt((whitened**2).sum(axis=-1))
