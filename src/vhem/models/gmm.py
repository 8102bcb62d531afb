"""Gaussian mixtures over single observations."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from vhem._support.arrays import FloatArray, IntArray, floats
from vhem._support.errors import InputError
from vhem._support.immutable import Immutable, register_model
from vhem._support.places import Names
from vhem._support.randomness import RandomState, generator
from vhem.emissions import Gaussian
from vhem.kernels import filtering as kernels
from vhem.kernels.models import Models
from vhem.models.sampling import checked_lengths, sample
from vhem.models.validation import checked_models, checked_weights


class _Places(Names):
    """How messages refer to a mixture, which is checked as the only state of an HMM."""

    def place(self, k: int, state: int | None = None, component: int | None = None) -> str:
        del k, state
        return "the mixture" if component is None else f"component {component}"

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[2:]


class GMM(Immutable):
    """A Gaussian mixture: p(y) = Σ_m c_m N(y; μ_m, Σ_m).

    Parameters
    ----------
    weights : array of shape (M,)
        Weights c, which sum to one.
    means : array of shape (M, d)
        Means.
    covars : array of shape (M, d) or (M, d, d)
        Variances, or covariance matrices.

    Attributes
    ----------
    weights, means, covars : arrays
        The parameters, read-only.

    Examples
    --------
    >>> from vhem import GMM
    >>> gmm = GMM([0.5, 0.5], means=[[0.0], [4.0]], covars=[[1.0], [1.0]])
    >>> gmm
    GMM(n_components=2, n_dims=1, covariance_type='diag')
    >>> gmm.predict([[0.3], [3.9]])
    array([0, 1])
    """

    weights: FloatArray
    means: FloatArray
    covars: FloatArray

    def __init__(self, weights: npt.ArrayLike, means: npt.ArrayLike, covars: npt.ArrayLike) -> None:
        mu, sigma = floats(means, "means"), floats(covars, "covars")
        if mu.ndim != 2 or 0 in mu.shape:
            raise InputError("{means} has shape {shape}; it must be (M, d), none of them 0", shape=mu.shape)
        c, one = checked_weights(floats(weights, "weights"), len(mu), "component"), np.ones((1, 1))
        names = _Places(single=True)
        gaussian = Gaussian.shaped(mu[None, None], sigma[None, None], names)
        checked = checked_models(one, one[None], gaussian, c[None, None], None, names)
        self._set(weights=checked.mix_weights[0, 0], **checked.components.take((0, 0)).arrays())

    @classmethod
    def from_sklearn(cls, model: Any) -> GMM:
        """Return the mixture of a fitted scikit-learn `GaussianMixture`, whatever its covariance type.

        Examples
        --------
        >>> from sklearn.mixture import GaussianMixture
        >>> fitted = GaussianMixture(2, covariance_type="tied", random_state=0).fit([[0.0], [0.1], [5.0], [5.1]])
        >>> GMM.from_sklearn(fitted)
        GMM(n_components=2, n_dims=1, covariance_type='full')
        """
        K, d = model.means_.shape
        covars = model.covariances_
        if model.covariance_type == "spherical":
            covars = np.repeat(covars[:, None], d, axis=1)
        elif model.covariance_type == "tied":
            covars = np.repeat(covars[None], K, axis=0)
        return cls(model.weights_ / model.weights_.sum(), model.means_, covars)

    @property
    def n_dims(self) -> int:
        """The number of dimensions d."""
        return int(self.means.shape[1])

    @property
    def covariance_type(self) -> Literal["diag", "full"]:
        """The form of the covariances."""
        return "diag" if self.covars.ndim == 2 else "full"

    @property
    def components(self) -> Models:
        """The Gaussians as HMMs of one state each, the form that HEM needs."""
        K = len(self)
        ones = np.ones((K, 1, 1))
        gaussian = Gaussian(self.means[:, None, None], self.covars[:, None, None])
        return Models(ones[:, 0], ones, ones, gaussian, np.ones(K, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.weights)

    def _log_joint(self, X: npt.ArrayLike) -> FloatArray:
        points = floats(X, "X")
        if points.ndim != 2 or points.shape[1] != self.n_dims:
            problem = "{X} has shape {shape}; the mixture takes points of shape (n, {d})"
            raise InputError(problem, shape=points.shape, d=self.n_dims)
        if np.isinf(points).any():
            raise InputError("{X} holds infinite values", "write NaN for a missing one")
        density = kernels.log_likelihoods(self.components, points, np.arange(len(points) + 1, dtype=np.int64))
        with np.errstate(divide="ignore"):
            return density + np.log(self.weights)

    def score_samples(self, X: npt.ArrayLike) -> FloatArray:
        """Return log p(y) of each row of `X`, (n,); NaN is marginalised."""
        return np.asarray(np.logaddexp.reduce(self._log_joint(X), axis=1))

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """Return the probability of each component for each row of `X`, (n, M)."""
        return np.asarray(softmax(self._log_joint(X), axis=1))

    def predict(self, X: npt.ArrayLike) -> IntArray:
        """Return the most probable component of each row of `X`, (n,)."""
        return np.asarray(self._log_joint(X).argmax(axis=1), dtype=np.int64)

    def sample(self, n_samples: int, random_state: RandomState = None) -> tuple[FloatArray, IntArray]:
        """Return random points, (n, d), and the component of each."""
        lengths = checked_lengths(n_samples, 1)
        rng = generator(random_state)
        labels = rng.choice(len(self), size=n_samples, p=self.weights).astype(np.int64)
        return sample(self.components, labels, lengths, rng)[0], labels

    def __repr__(self) -> str:
        return f"GMM(n_components={len(self)}, n_dims={self.n_dims}, covariance_type={self.covariance_type!r})"


register_model(GMM, "weights", "means", "covars")
