"""Baum-Welch for many HMMs at once, on the engine in use; `reference.counting` has the equations of the E-step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.kernels import compiled
from vhem.kernels.engine import engine
from vhem.kernels.parameters import Expectations, Parameters
from vhem.kernels.reference import counting as reference

_FAR_SHIFT = 1e6  # squared standard deviations: moments about an anchor this far off have lost six digits


class Pairs(NamedTuple):
    """Which sequences are seen under which HMMs. Neighbours should be of similar length: they are done side by side."""

    sequence: IntArray  #: (n_pairs,)
    model: IntArray  #: (n_pairs,)

    @staticmethod
    def grouped(lengths: IntArray, groups: IntArray) -> Pairs:
        """Every sequence under the HMM of its group."""
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        return Pairs(order, np.ascontiguousarray(groups[order]))

    @staticmethod
    def crossed(lengths: IntArray, n_models: int) -> Pairs:
        """Every sequence under every HMM, one HMM after the other."""
        order = np.argsort(lengths, kind="stable").astype(np.int64)
        return Pairs(np.tile(order, n_models), np.repeat(np.arange(n_models), len(order)))

    def take(self, index: np.ndarray) -> Pairs:
        """Return the pairs at `index`."""
        return Pairs(self.sequence[index], self.model[index])


def log_likelihoods(
    parameters: Parameters, X: FloatArray, offsets: IntArray, pairs: Pairs, n_threads: int = 1
) -> FloatArray:
    """Return log p(y | HMM) of every pair, (n_pairs,)."""
    return expectations(parameters, X, offsets, pairs, np.zeros(len(pairs.model)), n_threads).log_likelihoods


def expectations(
    parameters: Parameters,
    X: FloatArray,
    offsets: IntArray,
    pairs: Pairs,
    weights: FloatArray,
    n_threads: int = 1,
    anchors: FloatArray | None = None,
) -> Expectations:
    """Return the sums that the M-step needs, over all pairs with their weights; the anchors default to the means.

    The result has the same bits for any number of threads.
    """
    anchors = parameters.means if anchors is None else anchors
    if engine().module is None:
        return reference.expectations(parameters, X, offsets, *pairs, weights, anchors)
    return compiled.expectations(
        parameters=parameters,
        X=X,
        offsets=offsets,
        sequence=pairs.sequence,
        model=pairs.model,
        weights=weights,
        anchors=anchors,
        n_threads=n_threads,
    )


def advance(
    parameters: Parameters,
    X: FloatArray,
    offsets: IntArray,
    pairs: Pairs,
    weights: FloatArray,
    prior: Prior,
    limits: Limits,
    objectives: FloatArray,
    n_iter: IntArray,
) -> None:
    """Iterate EM inside the compiled engine, in place, for as long as nothing happens that needs a closer look.

    A shortcut for many HMMs with one sequence each and one diagonal Gaussian a state; others are left as they are. Each
    HMM stops before the iteration in which it has settled or gone down, a state has died, a mean has moved so far that
    digits are lost, or `max_iter` is reached. `objectives` then has the objective before its last M-step, and `n_iter`
    counts its M-steps.
    """
    one_each = (np.bincount(pairs.model, minlength=len(parameters.n_states)) == 1).all()
    same_size = (parameters.n_states == parameters.startprob.shape[1]).all()
    if engine().module is None or not (
        one_each and same_size and parameters.is_diagonal and parameters.mix_weights.shape[2] == 1
    ):
        return
    compiled.learn(
        parameters=parameters,
        X=X,
        offsets=offsets,
        sequence=pairs.sequence,
        model=pairs.model,
        weights=weights,
        prior_start=prior.start,
        prior_trans=prior.trans,
        prior_covar=prior.covar,
        prior_scale=prior.scale,
        floor=prior.floor,
        least=limits.least,
        tolerance=limits.tolerance,
        max_iter=limits.max_iter,
        n_threads=limits.n_threads,
        objectives=objectives,
        n_iter=n_iter,
    )


class Prior(NamedTuple):
    """What is known before the data: imagined counts and variances, and a floor under the variances.

    Dirichlet priors on startprob and rows of transmat, an inverse-gamma (or inverse-Wishart) prior on covariances, all
    written as counts of imagined observations; zeros switch them off.
    """

    start: FloatArray  #: (K, S) imagined first frames
    trans: FloatArray  #: (K, S, S) imagined transitions
    covar: float  #: imagined frames of every Gaussian
    scale: FloatArray  #: (K, d) the variances of those
    floor: FloatArray  #: (K, d) the smallest variances

    def take(self, index: np.ndarray) -> Prior:
        """Return the priors of the HMMs at `index`."""
        return Prior(self.start[index], self.trans[index], self.covar, self.scale[index], self.floor[index])

    @property
    def is_flat(self) -> bool:
        """Whether nothing but the floor is left."""
        return not (self.covar or self.start.any() or self.trans.any())


def log_prior(parameters: Parameters, prior: Prior) -> FloatArray:
    """Return the log of the prior density of every HMM, up to a constant, (K,).

    Σ_s ε_s log π_s + Σ_rs ε_rs log a_rs - ½ κ Σ_sm ( log|Σ_sm| + tr Σ_sm⁻¹ V )
    """
    if prior.is_flat:
        return np.zeros(len(parameters.n_states))
    total = _weighted_log(prior.start, parameters.startprob) + _weighted_log(prior.trans, parameters.transmat)
    if prior.covar:
        scale, covars = prior.scale[:, None, None], parameters.covars
        if parameters.is_diagonal:
            spread = (np.log(covars) + scale / covars).sum(axis=-1)
        else:
            precision = np.diagonal(np.linalg.inv(covars), axis1=-2, axis2=-1)
            spread = np.linalg.slogdet(covars)[1] + (precision * scale).sum(axis=-1)
        total -= 0.5 * prior.covar * spread.sum(axis=(1, 2))
    return total


def _weighted_log(counts: FloatArray, p: FloatArray) -> FloatArray:
    logs = np.log(np.where(counts > 0, p, 1.0))
    return np.asarray((counts * logs).reshape(len(p), -1).sum(axis=1))


class Limits(NamedTuple):
    """When `advance` stops."""

    least: FloatArray  #: (K,) weighted frames below which a state has died
    tolerance: FloatArray  #: (K,) gain below which an HMM has settled
    max_iter: int
    n_threads: int


class Update(NamedTuple):
    """The M-step's result, and what was done to it."""

    parameters: Parameters
    n_floored: IntArray  #: (K,) Gaussians with a variance at its floor
    far: bool  #: whether means moved so far from the anchors that variances lost digits


def m_step(e: Expectations, now: Parameters, prior: Prior, anchors: FloatArray | None = None) -> Update:
    """Return the HMMs that maximise expected log-likelihood plus log prior, among those above the floor.

    With n = Σ u:  μ = a + Σ u (y-a) / n,  Σ = [ Σ u (y-μ)(y-μ)ᵀ + κ V ] / (n + κ),  raised to the floor. Where nothing
    was counted, the present value stays.
    """
    anchors = now.means if anchors is None else anchors
    n = e.occupancy[..., None]
    offset = e.first / _nonzero(n)
    weight = (n if now.is_diagonal else n[..., None]) + prior.covar
    scatter = (_scatter if now.is_diagonal else _full_scatter)(e, offset, prior)
    covars = _where(weight > 0, scatter / _nonzero(weight), now.covars)
    covars, n_floored = (_floored_variances if now.is_diagonal else _floored_matrices)(covars, prior.floor)
    parameters = Parameters(
        normalised(e.start + prior.start, now.startprob),
        normalised(e.trans + prior.trans, now.transmat),
        normalised(e.occupancy, now.mix_weights),
        _where(n > 0, anchors + offset, now.means),
        covars,
        now.n_states,
    )
    variances = covars if now.is_diagonal else np.diagonal(covars, axis1=-2, axis2=-1)
    return Update(parameters, n_floored, bool((offset**2 > _FAR_SHIFT * variances).any()))


def floored(parameters: Parameters, prior: Prior) -> Parameters:
    """Return the HMMs with covariances raised to the floor: where EM must start, lest its first step go down."""
    raise_to_floor = _floored_variances if parameters.is_diagonal else _floored_matrices
    return parameters._replace(covars=raise_to_floor(parameters.covars, prior.floor)[0])


def normalised(sums: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return rows that sum to one, in proportion to `sums`; where all are zero, those of `otherwise`."""
    total = (sums @ np.ones(sums.shape[-1]))[..., None]  # several times faster than sum over a short axis
    return _where(total > 0, sums / _nonzero(total), otherwise)


def _nonzero(divisor: FloatArray) -> FloatArray:
    return divisor if divisor.all() else np.where(divisor > 0, divisor, 1.0)


def _where(known: np.ndarray, new: FloatArray, old: FloatArray) -> FloatArray:
    return new if known.all() else np.where(known, new, old)


def _scatter(e: Expectations, offset: FloatArray, prior: Prior) -> FloatArray:
    """Return Σ u (y-μ)² + κ V."""
    return np.asarray(e.second - e.first * offset + prior.covar * prior.scale[:, None, None])


def _full_scatter(e: Expectations, offset: FloatArray, prior: Prior) -> FloatArray:
    scatter = e.second - e.first[..., :, None] * offset[..., None, :]
    scatter += prior.covar * prior.scale[:, None, None, :, None] * np.eye(scatter.shape[-1])
    return np.asarray(0.5 * (scatter + np.swapaxes(scatter, -1, -2)))


def _floored_variances(covars: FloatArray, floor: FloatArray) -> tuple[FloatArray, IntArray]:
    floor = floor[:, None, None]
    low = covars < floor
    if not low.any():
        return covars, np.zeros(len(covars), dtype=np.int64)
    return np.maximum(covars, floor), low.any(axis=-1).sum(axis=(1, 2))


def _floored_matrices(covars: FloatArray, floor: FloatArray) -> tuple[FloatArray, IntArray]:
    """Raise the eigenvalues of D^-½ Σ D^-½ to one, D being the floor: the maximum of the likelihood among Σ ⪰ D."""
    root = np.sqrt(floor[:, None, None])
    unit = covars / (root[..., :, None] * root[..., None, :])
    try:
        np.linalg.cholesky(unit - np.eye(covars.shape[-1]))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(unit)
        low = values[..., 0] < 1.0
        raised = (vectors * np.maximum(values, 1.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        raised *= root[..., :, None] * root[..., None, :]
        return np.where(low[..., None, None], raised, covars), low.sum(axis=(1, 2))
    return covars, np.zeros(len(covars), dtype=np.int64)
