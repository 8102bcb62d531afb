"""Gaussian emissions, with variances or full covariance matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray, floats
from vhem._support.places import Names, check_finite
from vhem.emissions.components import Components, FamilyPrior, Maximised, Sums
from vhem.emissions.evenly import standardised, whitened
from vhem.emissions.gaussian_checks import check_shapes, checked_matrices, checked_variances

LOG_TWO_PI = float(np.log(2 * np.pi))
LEAST_FLOOR = 1e-8  # of the data's variance, whatever the floor is: below it, sums over frames are rounding errors
LEAST_SHARE = 1e-2  # of the group's variance, that a state's variance starts with
FAR_SHIFT = 1e6  # squared standard deviations: moments about an anchor this far off have lost six digits


@dataclass(frozen=True, kw_only=True)
class GaussianPrior(FamilyPrior):
    """An inverse-gamma (or inverse-Wishart) prior of the covariances as pseudo-counts, and limits of the variances."""

    count: float  #: κ, pseudo-frames of every component
    mean: FloatArray  #: (K, d) of the data: where states are re-initialised if no value is known
    scale: FloatArray  #: (K, d) V, the variances of the pseudo-frames
    floor: FloatArray  #: (K, d) the smallest variances
    added: float = 0.0  #: added to the variances of every M-step, outside the objective

    def take(self, index: Any) -> GaussianPrior:
        """Return the priors of the HMMs at `index`."""
        return replace(self, mean=self.mean[index], scale=self.scale[index], floor=self.floor[index])

    @property
    def is_flat(self) -> bool:
        """Whether it adds nothing to the objective."""
        return not self.count

    @staticmethod
    def none(n_hmms: int, n_dims: int, added: float = 0.0) -> GaussianPrior:
        """Return a prior that does nothing, except perhaps add to the variances."""
        zeros = np.zeros((n_hmms, n_dims))
        return GaussianPrior(count=0.0, mean=zeros, scale=zeros + 1.0, floor=zeros, added=added)


class Gaussian(Components):
    """Gaussians N(μ, Σ).

    `vhem.HMM` takes means and covariances directly; this is for parts of a product.

    Parameters
    ----------
    means : array of shape (S, d) or (S, M, d)
        The means, of S states (with M components) and d columns.
    covars : array of the same shape, or with one more axis d
        Variances, or covariance matrices.

    Examples
    --------
    >>> import vhem
    >>> vhem.HMM([1.0], [[1.0]], emissions=vhem.Gaussian([[0.0, 1.0]], [[1.0, 4.0]]))
    HMM(n_states=1, n_mix=1, n_dims=2, covariance_type='diag')
    """

    family: ClassVar[str] = "gaussian"
    fields: ClassVar[tuple[str, ...]] = ("means", "covars")
    __slots__ = ("covars", "means")

    means: FloatArray  #: (*lead, d)
    covars: FloatArray  #: (*lead, d) variances, or (*lead, d, d) matrices

    def __init__(self, means: npt.ArrayLike, covars: npt.ArrayLike) -> None:
        self.means, self.covars = np.asarray(means, np.float64), np.asarray(covars, np.float64)

    @staticmethod
    def shaped(means: npt.ArrayLike, covars: npt.ArrayLike, names: Names) -> Gaussian:
        """Return Gaussians (K, S, M) of arrays that may lack the component axis."""
        made = Gaussian(floats(means, "means"), floats(covars, "covars"))
        check_shapes(made.means, made.covars, names)
        return made if made.means.ndim == 4 else made.reshaped(*made.lead, 1)

    def checked(self, used: BoolArray, mix_weights: FloatArray, names: Names) -> Gaussian:
        """Return Gaussians with harmless padding (unit variances, repeats of a real component), if all are valid."""
        check_shapes(self.means, self.covars, names)
        check_finite(self.means, "means", names)
        check_finite(self.covars, "covars", names)
        self.put(~used, self.padding())
        blank = (mix_weights == 0) & ~self.covars.reshape(*mix_weights.shape, -1).any(axis=-1)
        k, s, m = np.nonzero(blank)
        self.put((k, s, m), self.take((k, s, mix_weights[k, s].argmax(axis=-1))))
        check = checked_variances if self.is_diagonal else checked_matrices
        return Gaussian(self.means, check(self.covars, names))

    @property
    def is_diagonal(self) -> bool:
        """Whether the covariances are variances."""
        return self.covars.ndim == self.means.ndim

    @property
    def variances(self) -> FloatArray:
        """The diagonals of the covariances, (*lead, d)."""
        return self.covars if self.is_diagonal else np.diagonal(self.covars, axis1=-2, axis2=-1)

    @property
    def log_det(self) -> FloatArray:
        """The logs of the determinants of the covariances."""
        return np.asarray(np.log(self.covars).sum(-1) if self.is_diagonal else np.linalg.slogdet(self.covars)[1])

    def full(self) -> Gaussian:
        """Return the same distributions with covariance matrices."""
        return Gaussian(self.means, self.covars[..., None] * np.eye(self.n_dims)) if self.is_diagonal else self

    def diagonal(self) -> Gaussian:
        """Return the marginal distributions of the dimensions."""
        return self if self.is_diagonal else Gaussian(self.means, np.ascontiguousarray(self.variances))

    def with_covariances(self, covariance_type: str) -> Gaussian:
        """Return covariance matrices, or the marginal distributions."""
        return self.full() if covariance_type == "full" else self.diagonal()

    def seen_by(self, other: Gaussian) -> Gaussian:
        """Return Gaussians with the same form of covariances as `other`.

        Exact both ways: a variance is a matrix with zeros, and Gaussians with variances see only the diagonal of
        another's matrix.
        """
        return self.diagonal() if other.is_diagonal else self.full()

    def matched(self, others: Sequence[Gaussian]) -> Gaussian:
        """Return matrices if one of the others has them."""
        return self if all(other.is_diagonal for other in others) else self.full()

    @classmethod
    def template(cls, X: FloatArray, n_categories: Sequence[int | None], covariance_type: str) -> Gaussian:
        """Return a Gaussian with the wanted form of covariances."""
        del n_categories
        return Gaussian(np.zeros(X.shape[1]), np.ones(X.shape[1])).with_covariances(covariance_type)

    def padding(self) -> Gaussian:
        """Return a Gaussian of unit variance at the origin."""
        return Gaussian(np.zeros(self.n_dims), np.ones(self.n_dims) if self.is_diagonal else np.eye(self.n_dims))

    # -- frames

    def features(self, X: FloatArray) -> FloatArray:
        """Return the values themselves."""
        return X

    @property
    def tell_together(self) -> BoolArray:
        """None: values of different states lie apart."""
        return np.zeros(self.n_dims, dtype=bool)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return log N(y; μ, Σ) over the observed entries of each frame, ``(T, *lead)``."""
        total = np.zeros((len(X), *self.lead))
        if self.is_diagonal:
            for j in range(self.n_dims):
                total += _log_density_along(X[:, j], self.means[..., j], self.covars[..., j])
            return total
        patterns, which = np.unique(~np.isnan(X), axis=0, return_inverse=True)
        for i, observed in enumerate(patterns):
            if observed.any():
                rows = np.flatnonzero(which.ravel() == i)
                seen = Gaussian(self.means[..., observed], self.covars[..., observed, :][..., observed])
                total[rows] = seen._log_density_of_complete(X[rows][:, observed])
        return total

    def _log_density_of_complete(self, X: FloatArray) -> FloatArray:
        factor = np.linalg.cholesky(self.covars)  # (*lead, d, d)
        offset = np.moveaxis(X.reshape(len(X), *(1,) * len(self.lead), -1) - self.means, 0, -1)  # (*lead, d, T)
        with np.errstate(over="ignore"):
            distance = np.square(np.linalg.solve(factor, offset)).sum(axis=-2)
        half_log_det = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
        log_density = -0.5 * (X.shape[1] * LOG_TWO_PI + distance) - half_log_det[..., None]
        return np.asarray(np.moveaxis(log_density, -1, 0))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return one random frame for each entry of `index`."""
        noise = rng.standard_normal((len(index), self.n_dims))
        flat = self.reshaped(-1)
        if self.is_diagonal:
            return flat.means[index] + noise * np.sqrt(flat.covars[index])
        present, starts = np.unique(np.sort(index), return_index=True)
        factors = np.linalg.cholesky(flat.covars[present])
        for rows, factor in zip(np.split(np.argsort(index), starts[1:]), factors, strict=True):
            noise[rows] = noise[rows] @ factor.T
        return flat.means[index] + noise

    def drawn_evenly(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return frames that have the mean and the covariance of their component exactly, if there are enough."""
        flat = self.reshaped(-1)
        noise = standardised(rng.standard_normal((len(index), self.n_dims)), index, len(flat.means))
        if self.is_diagonal:
            return np.asarray(flat.means[index] + noise * np.sqrt(flat.covars)[index])
        noise = whitened(noise, index, len(flat.means))
        return np.asarray(flat.means[index] + np.einsum("nij,nj->ni", np.linalg.cholesky(flat.covars)[index], noise))

    # -- sums: Σ u, Σ u (y-a) and Σ u (y-a)(y-a)ᵀ about anchors a, so that no digits are lost far from the origin

    def no_sums(self) -> Sums:
        """Return sums of nothing."""
        return {
            "count": np.zeros(self.lead),
            "first": np.zeros(self.means.shape),
            "second": np.zeros(self.covars.shape),
        }

    def frame_sums(self, X: FloatArray, u: FloatArray, anchors: Gaussian) -> Sums:
        """Return the sums over frames; what is missing enters with its conditional mean and covariance."""
        out = self.no_sums()
        out["count"] += u.sum(axis=0)
        for at in np.ndindex(self.lead):
            mean, covar = self._filled_in(X, at)
            offset, share = mean - anchors.means[at], u[(slice(None), *at)]
            out["first"][at] += share @ offset
            out["second"][at] += np.tensordot(share, self._square(offset) + covar, axes=1)
        return out

    def expected_sums(self, u: FloatArray, anchors: Gaussian) -> Sums:
        """Return Σ u, Σ u (μ-a) and Σ u [Σ + (μ-a)(μ-a)ᵀ] over these Gaussians."""
        n, d, shape = anchors.lead, self.n_dims, int(np.prod(anchors.lead))
        u = u.reshape(-1, shape)
        flat, about = self.reshaped(-1), anchors.reshaped(-1)
        difference = flat.means[:, None] - about.means
        first = np.einsum("bk,bkd->kd", u, difference)
        if self.is_diagonal:
            second = np.einsum("bk,bkd->kd", u, flat.covars[:, None] + difference**2)
            return {"count": u.sum(0).reshape(n), "first": first.reshape(*n, d), "second": second.reshape(*n, d)}
        second = np.einsum("bk,bde->kde", u, flat.covars)
        second += np.einsum("bk,bkd,bke->kde", u, difference, difference, optimize=True)
        return {"count": u.sum(0).reshape(n), "first": first.reshape(*n, d), "second": second.reshape(*n, d, d)}

    def maximised(self, sums: Sums, anchors: Gaussian, prior: FamilyPrior | None) -> Maximised:
        """Return the Gaussians that maximise expected log-likelihood plus log prior, among those above the floor.

        With n = Σ u:  μ = a + Σ u (y-a) / n,  Σ = [ Σ u (y-μ)(y-μ)ᵀ + κ V ] / (n + κ),  raised to the floor.
        """
        assert prior is None or isinstance(prior, GaussianPrior)
        kappa = prior.count if prior else 0.0
        n = sums["count"][..., None]
        offset = sums["first"] / _nonzero(n)
        weight = (n if self.is_diagonal else n[..., None]) + kappa
        scatter = sums["second"] - (
            sums["first"] * offset if self.is_diagonal else sums["first"][..., :, None] * offset[..., None, :]
        )
        if prior and kappa:
            scatter = scatter + kappa * _per_hmm(prior.scale, self)
        if not self.is_diagonal:
            scatter = 0.5 * (scatter + np.swapaxes(scatter, -1, -2))
        covars = _where(weight > 0, scatter / _nonzero(weight), self.covars)
        made = Gaussian(_where(n > 0, anchors.means + offset, self.means), covars)
        if prior and prior.added:
            widened = covars + _per_hmm(np.full_like(prior.scale, prior.added), self)
            made = Gaussian(made.means, np.where(weight > 0, widened, covars))
        if prior:
            made = made.above_floor(prior)
        # If cancellation leaves a variance of zero or less, any shift is too far.
        far = bool((offset**2 > FAR_SHIFT * np.maximum(made.variances, 0.0)).any())
        return Maximised(made, far)

    def _square(self, offset: FloatArray) -> FloatArray:
        return offset**2 if self.is_diagonal else offset[:, :, None] * offset[:, None, :]

    def _filled_in(self, frames: FloatArray, at: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the frames with gaps filled by their conditional means, and the covariances of what was filled in.

        With o observed and h missing under N(μ, Σ):  E[y_h|y_o] = μ_h + Σ_ho Σ_oo⁻¹ (y_o - μ_o)  and
        Cov[y_h|y_o] = Σ_hh - Σ_ho Σ_oo⁻¹ Σ_oh. For variances these are μ_h and Σ_hh themselves.
        """
        mean, covar, missing = self.means[at], self.covars[at], np.isnan(frames)
        if self.is_diagonal:
            return np.where(missing, mean, frames), np.where(missing, covar, 0.0)
        filled, spread = frames.copy(), np.zeros((len(frames), *covar.shape))
        for t in np.flatnonzero(missing.any(axis=1)):
            h, o = np.flatnonzero(missing[t]), np.flatnonzero(~missing[t])
            gain = np.linalg.solve(covar[np.ix_(o, o)], covar[np.ix_(o, h)]).T
            filled[t, h] = mean[h] + gain @ (frames[t, o] - mean[o])
            spread[t][np.ix_(h, h)] = covar[np.ix_(h, h)] - gain @ covar[np.ix_(o, h)]
        return filled, spread

    # -- pairs

    def expected_log_density(self, other: Gaussian) -> FloatArray:
        """Return g = -½ [ d log 2π + log|Σ'| + tr(Σ'⁻¹ Σ) + (μ'-μ)ᵀ Σ'⁻¹ (μ'-μ) ] of every pair."""
        a, b = self.reshaped(-1), other.reshaped(-1)
        difference = a.means[:, None] - b.means
        if self.is_diagonal:
            quadratic = ((a.covars[:, None] + difference**2) / b.covars).sum(-1)
        else:
            precision = np.linalg.inv(b.covars)
            quadratic = np.einsum("akl,bkl->ab", a.covars, precision)
            quadratic += np.einsum("abk,bkl,abl->ab", difference, precision, difference, optimize=True)
        g = -0.5 * (self.n_dims * LOG_TWO_PI + b.log_det + quadratic)
        return np.asarray(g.reshape(*self.lead, *other.lead))

    def log_overlap(self, other: Gaussian, power: float) -> FloatArray:
        """Return log ∫ N^power N'^power = w + w' - ½ log|Σ+Σ'| - ½ power · Δᵀ (Σ+Σ')⁻¹ Δ with Δ = μ-μ'."""
        a, b = self.reshaped(-1), other.reshaped(-1)
        difference = a.means[:, None] - b.means
        spread = a.covars[:, None] + b.covars
        if self.is_diagonal:
            log_det, distance = np.log(spread).sum(-1), (difference**2 / spread).sum(-1)
        else:
            log_det = np.linalg.slogdet(spread)[1]
            distance = (difference * np.linalg.solve(spread, difference[..., None])[..., 0]).sum(-1)
        own = a.log_overlap_weight(power)[:, None] + b.log_overlap_weight(power)
        return np.asarray((own - 0.5 * (log_det + power * distance)).reshape(*self.lead, *other.lead))

    def log_overlap_weight(self, power: float) -> FloatArray:
        """Return w = ½ (1 - power) log|Σ| + ½ d [ (½ - power) log 2π - ½ log power ], each Gaussian's own part."""
        constant = 0.5 * self.n_dims * ((0.5 - power) * LOG_TWO_PI - 0.5 * np.log(power))
        return np.asarray(0.5 * (1 - power) * self.log_det + constant)

    # -- priors, starts, summaries

    def typical(self, X: FloatArray, offsets: IntArray, mean: FloatArray, variance: FloatArray) -> GaussianPrior:
        """Return the mean and variances of each group."""
        del X, offsets
        return GaussianPrior(count=0.0, mean=mean, scale=variance, floor=np.zeros_like(variance))

    def prior(self, typical: FamilyPrior, count: float, floor: float) -> GaussianPrior:
        """Return pseudo-frames with the data's variances, and a share of these as the smallest variances."""
        assert isinstance(typical, GaussianPrior)
        return replace(typical, count=count, floor=max(floor, LEAST_FLOOR) * typical.scale)

    def within_reach(self, n: int, share: float) -> GaussianPrior:
        """Return a share of the smallest variance as the floor."""
        zeros = np.zeros((n, self.n_dims))
        smallest = float((self.covars if self.is_diagonal else np.linalg.eigvalsh(self.covars)).min())
        return GaussianPrior(count=0.0, mean=zeros, scale=zeros + 1.0, floor=zeros + share * smallest)

    def labelled(self, X: FloatArray, labels: IntArray, typical: FamilyPrior, rng: np.random.Generator) -> Gaussian:
        """Return the mean of each label's frames, and their variances with a pseudo-frame of the group's variance."""
        assert isinstance(typical, GaussianPrior)
        center, own = typical.mean, typical.scale
        n, d = center.shape
        count = np.bincount(labels, minlength=n).astype(np.float64)
        mean, variance, gaps = np.empty((n, d)), np.empty((n, d)), np.isnan(X)
        if gaps.any():
            X = np.where(gaps, center[labels], X)
        for j in range(d):
            x = X[:, j]
            offset = np.bincount(labels, x - center[labels, j], n) / np.maximum(count, 1)
            mean[:, j] = center[:, j] + offset
            squares = np.bincount(labels, (x - mean[labels, j]) ** 2, n)
            variance[:, j] = np.maximum((squares + own[:, j]) / (count + 1), LEAST_SHARE * own[:, j])
        empty = np.flatnonzero(count == 0)
        mean[empty] += np.sqrt(own[empty]) * rng.standard_normal((len(empty), d))
        made = Gaussian(mean, variance)
        return made if self.is_diagonal else made.full()

    def log_prior(self, prior: FamilyPrior) -> FloatArray:
        """Return -½ κ Σ_sm ( log|Σ_sm| + tr Σ_sm⁻¹ V ), (K,)."""
        assert isinstance(prior, GaussianPrior)
        if not prior.count:
            return np.zeros(len(self.means))
        scale = prior.scale[:, None, None]
        if self.is_diagonal:
            spread = (np.log(self.covars) + scale / self.covars).sum(axis=-1)
        else:
            precision = np.diagonal(np.linalg.inv(self.covars), axis1=-2, axis2=-1)
            spread = self.log_det + (precision * scale).sum(axis=-1)
        return np.asarray(-0.5 * prior.count * spread.sum(axis=(1, 2)))

    def above_floor(self, prior: FamilyPrior) -> Gaussian:
        """Return the best Gaussians among Σ ⪰ D, D being the floor: eigenvalues of D^-½ Σ D^-½ are raised to one."""
        assert isinstance(prior, GaussianPrior)
        if not prior.floor.any():
            return self
        if self.is_diagonal:
            floor = prior.floor[:, None, None]
            return Gaussian(self.means, np.maximum(self.covars, floor)) if (self.covars < floor).any() else self
        unit, root = self._in_units_of(prior.floor)
        try:
            np.linalg.cholesky(unit - np.eye(self.n_dims))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(unit)
            low = values[..., 0] < 1.0
            raised = (vectors * np.maximum(values, 1.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2) * root
            return Gaussian(self.means, np.where(low[..., None, None], raised, self.covars))
        return self

    def n_at_floor(self, prior: FamilyPrior) -> IntArray:
        """Return how many Gaussians of each HMM have a variance at its floor."""
        assert isinstance(prior, GaussianPrior)
        if not prior.floor.any():
            return np.zeros(len(self.means), dtype=np.int64)
        if self.is_diagonal:
            low = (self.covars <= prior.floor[:, None, None]).any(axis=-1)
        else:
            low = np.linalg.eigvalsh(self._in_units_of(prior.floor)[0])[..., 0] <= 1.0 + 1e-9
        return np.asarray(low.sum(axis=(1, 2)), dtype=np.int64)

    def _in_units_of(self, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
        root = np.sqrt(variances[:, None, None])
        root = root[..., :, None] * root[..., None, :]
        return self.covars / root, root

    def seeded(self, frames: FloatArray, prior: FamilyPrior, k: int | IntArray) -> Gaussian:
        """Return Gaussians of HMM k around single frames, with the variance of the data."""
        assert isinstance(prior, GaussianPrior)
        variances = np.broadcast_to(prior.scale[k], frames.shape)
        around = Gaussian(np.where(np.isnan(frames), prior.mean[k], frames), variances)
        return around if self.is_diagonal else around.full()

    def nudged(self, amount: float, rng: np.random.Generator) -> Gaussian:
        """Return the Gaussians with their means moved at random."""
        noise = rng.standard_normal(self.means.shape)
        return Gaussian(self.means + amount * np.sqrt(self.variances) * noise, self.covars)

    def apart(self, amount: float, whole: Gaussian) -> tuple[Gaussian, Gaussian]:
        """Return the Gaussians moved apart along the widest axis of `whole`."""
        away = amount * whole._principal_deviation()
        return Gaussian(self.means - away, self.covars), Gaussian(self.means + away, self.covars)

    def _principal_deviation(self) -> FloatArray:
        """Return one standard deviation along the widest axis, (*lead, d)."""
        if self.is_diagonal:
            widest = self.covars.argmax(-1)[..., None] == np.arange(self.n_dims)
            return np.where(widest, np.sqrt(self.covars), 0.0)
        values, vectors = np.linalg.eigh(self.covars)
        return np.asarray(vectors[..., -1] * np.sqrt(values[..., -1:]))

    def n_parameters(self) -> int:
        """Return the number of free parameters of one Gaussian."""
        d = self.n_dims
        return d + (d if self.is_diagonal else d * (d + 1) // 2)

    def centre(self) -> FloatArray:
        """Return the means."""
        return self.means


def _log_density_along(x: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return -½ [log 2πσ² + (x-μ)²/σ²] of one dimension, (T, *lead); 0 where x is missing."""
    x = x.reshape(-1, *(1,) * mean.ndim)
    with np.errstate(over="ignore"):
        term = -0.5 * (LOG_TWO_PI + np.log(variance) + (x - mean) ** 2 / variance)
    return np.where(np.isnan(x), 0.0, term)


def _per_hmm(variances: FloatArray, like: Gaussian) -> FloatArray:
    """Return variances (K, d) in the form of the covariances (K, S, M, …)."""
    wide = variances[:, None, None]
    return wide if like.is_diagonal else wide[..., None] * np.eye(variances.shape[-1])


def _nonzero(divisor: FloatArray) -> FloatArray:
    return divisor if divisor.all() else np.where(divisor > 0, divisor, 1.0)


def _where(known: np.ndarray, new: FloatArray, old: FloatArray) -> FloatArray:
    return new if known.all() else np.where(known, new, old)
