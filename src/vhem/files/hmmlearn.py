"""HMMs from hmmlearn; `HMM.to_hmmlearn` converts them back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputTypeError
from vhem.emissions import Categorical, Components, Poisson
from vhem.models import H3M, HMM

_TOLERANCE = 1e-5  # how far from one hmmlearn lets sums of probabilities be


@overload
def from_hmmlearn(model: list[Any] | tuple[Any, ...], ids: Iterable[Any] | None = None) -> H3M: ...
@overload
def from_hmmlearn(model: Any, ids: None = None) -> HMM: ...
def from_hmmlearn(model: Any, ids: Iterable[Any] | None = None) -> HMM | H3M:
    """Return a fitted hmmlearn model as an HMM, or a list of them as an H3M.

    Parameters
    ----------
    model : hmmlearn model, or list of them
        Fitted: `GaussianHMM` or `GMMHMM` with covariances of any type ("spherical" becomes diagonal, "tied" full),
        `CategoricalHMM`, `PoissonHMM`, or a `MultinomialHMM` with one trial per frame, which is categorical: its
        frames are then codes 0, 1, … instead of rows with a single 1.
    ids : list, optional
        One name per model of a list.

    Returns
    -------
    HMM or H3M
        With the same likelihoods.

    Examples
    --------
    >>> import numpy as np
    >>> from hmmlearn.hmm import GaussianHMM
    >>> import vhem
    >>> model = GaussianHMM(2, random_state=0).fit(np.repeat([[0.0], [5.0], [0.5], [5.5]], 10, axis=0))
    >>> vhem.from_hmmlearn(model)
    HMM(n_states=2, n_mix=1, n_dims=1, covariance_type='diag')
    """
    if isinstance(model, (list, tuple)):
        return H3M([_hmm(one) for one in model], ids=ids)
    return _hmm(model)


def _hmm(model: Any) -> HMM:
    kind = type(model).__name__
    if hasattr(model, "startprob_") and hasattr(model, "transmat_"):
        emissions = _other_emissions(model)
        if emissions is not None:
            return HMM(_rows(model.startprob_), _rows(model.transmat_), emissions=emissions)
    if not all(hasattr(model, name) for name in ("startprob_", "transmat_", "means_", "covariance_type")):
        fitted = "it has not been fitted" if hasattr(model, "covariance_type") else f"it is a {kind}"
        kinds = "GaussianHMM, GMMHMM, CategoricalHMM, PoissonHMM or MultinomialHMM"
        raise InputTypeError("a fitted {kinds} from hmmlearn is needed, but {fitted}", kinds=kinds, fitted=fitted)
    mixture = np.asarray(model.means_).ndim == 3
    weights = _rows(model.weights_) if mixture else None
    covars = _mixture_covars(model) if mixture else _gaussian_covars(model)
    return HMM(_rows(model.startprob_), _rows(model.transmat_), model.means_, covars, weights)


def _other_emissions(model: Any) -> Components | None:
    """Return what a model emits if that is not Gaussian: categories or counts."""
    if hasattr(model, "lambdas_"):
        return Poisson(np.asarray(model.lambdas_, dtype=np.float64))
    if not hasattr(model, "emissionprob_"):
        return None
    trials = np.unique(getattr(model, "n_trials", None) or 1)
    if trials.tolist() != [1]:
        raise InputTypeError(
            "this MultinomialHMM has {n} trials per frame; only with one does it have the meaning of categories",
            "Give its counts as Poisson channels, or one trial per frame",
            n=trials[-1],
        )  # fmt: skip
    return Categorical(_rows(model.emissionprob_))


def _rows(probabilities: Any) -> FloatArray:
    """Normalise rows that hmmlearn accepts as normalised."""
    rows = np.array(probabilities, dtype=np.float64)
    sums = rows.sum(axis=-1, keepdims=True)
    off = np.abs(sums - 1)
    return np.where((off > 1e-14) & (off < _TOLERANCE), rows / np.where(sums > 0, sums, 1.0), rows)


def _gaussian_covars(model: Any) -> FloatArray:
    if model.covariance_type == "spherical":  # covars_ of a fitted model has a wrong shape in hmmlearn 0.3
        kept = np.asarray(model._covars_)
        return np.array(np.broadcast_to(kept[:, None] if kept.ndim == 1 else kept, np.shape(model.means_)))
    full = np.asarray(model.covars_)  # always matrices, whatever the covariance type
    return np.array(np.diagonal(full, axis1=1, axis2=2)) if model.covariance_type == "diag" else full


def _mixture_covars(model: Any) -> FloatArray:
    covars, shape = np.asarray(model.covars_), np.shape(model.means_)
    if model.covariance_type == "spherical":
        return np.array(np.broadcast_to(covars[..., None], shape))
    if model.covariance_type == "tied":
        return np.array(np.broadcast_to(covars[:, None], (*shape, shape[-1])))
    return covars
