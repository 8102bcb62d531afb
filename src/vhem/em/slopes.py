"""Slopes of smooth sequences as further channels, where HMMs are learned.

A state takes its frames to be independent. Where values change smoothly they are not: where a curve is going is then
known from its neighbours, and tells items apart that pass through the same values in other ways. A slope beside each
value lets a state know both. Where neighbours differ by noise, slopes are noise too, and only blur what is there.
"""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import IntArray
from vhem.em.grouped import Batch
from vhem.emissions import Gaussian
from vhem.kernels.models import Models
from vhem.sequences.slopes import slopes


def with_slopes(batch: Batch, channels: IntArray) -> Batch:
    """Return Gaussian sequences with the slopes of some channels after their own."""
    if not len(channels):
        return batch
    X = np.hstack([batch.X, slopes(batch.X[:, channels], batch.offsets)])
    like = Gaussian(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    assert isinstance(batch.emissions, Gaussian)
    return batch._replace(X=X, emissions=like if batch.emissions.is_diagonal else like.full())


def without_slopes(models: Models, n_dims: int) -> Models:
    """Return the same HMMs of the values alone, whatever the slopes: their marginal distributions."""
    if models.n_dims == n_dims:
        return models
    gaussians = models.components
    assert isinstance(gaussians, Gaussian)
    covars = gaussians.covars[..., :n_dims] if gaussians.is_diagonal else gaussians.covars[..., :n_dims, :n_dims]
    kept = Gaussian(np.ascontiguousarray(gaussians.means[..., :n_dims]), np.ascontiguousarray(covars))
    return models.with_components(kept)
