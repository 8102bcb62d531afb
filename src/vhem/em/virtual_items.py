"""HMMs in place of the sequences that they were learned from: an HMM of N sequences of length τ stands for N τ frames.

What Baum-Welch counts in sequences of an item is then what VHEM's recursion expects of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions import Gaussian
from vhem.emissions.components import Components
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reduction import BaseModels
from vhem.kernels.reference.reduction import ReducedModel, backward, forward


@dataclass(frozen=True)
class VirtualItems:
    """Items that are known by HMMs with one Gaussian per state."""

    base: BaseModels

    @property
    def ids(self) -> range:
        """One number per item."""
        return range(len(self.base.counts))

    @property
    def n_frames(self) -> FloatArray:
        """Virtual frames of each item."""
        return np.asarray(self.base.counts * self.base.tau)

    def item_expectations(
        self, models: Models, anchors: Components, items: IntArray, n_threads: int
    ) -> tuple[FloatArray, ModelSums]:
        """Return expected log-likelihoods and sums of items under HMMs: `items` has the item of each HMM."""
        del n_threads
        base, counts = self.base.models.take(items), self.base.counts[items]
        with np.errstate(divide="ignore"):
            start, trans = np.log(models.startprob)[:, None], np.log(models.transmat)[:, None]
        own = ReducedModel(start, trans, np.zeros(1), models.components)
        J, phi = backward(base, own, _pairwise(base, models), self.base.tau)
        first, visits, steps = forward(base, phi)
        sums = ModelSums(
            counts[:, None] * first, counts[:, None, None] * steps,
            _moments(base, anchors, counts[:, None, None] * visits),
        )  # fmt: skip
        return counts * J, sums


def _gaussian(models: Models) -> Gaussian:
    gaussian: Any = models.components
    return Gaussian(gaussian.means[:, :, 0], gaussian.covars[:, :, 0])


def _pairwise(base: Models, models: Models) -> FloatArray:
    """Return E log N of every state of an item's HMM under every state of the other, (n, β, ρ)."""
    one, two = _gaussian(base), _gaussian(models)
    offset = one.means[:, :, None] - two.means[:, None]
    d = offset.shape[-1]
    if two.is_diagonal:
        wide = one.variances[:, :, None] + offset**2
        return np.asarray(-0.5 * (wide / two.covars[:, None] + np.log(2 * np.pi * two.covars)[:, None]).sum(-1))
    precision = np.linalg.inv(two.covars)
    second = one.full().covars[:, :, None] + offset[..., :, None] * offset[..., None, :]
    log_det = np.linalg.slogdet(two.covars)[1] + d * np.log(2 * np.pi)
    return np.asarray(-0.5 * (np.einsum("nbrxy,nrxy->nbr", second, precision) + log_det[:, None]))


def _moments(base: Models, anchors: Components, u: FloatArray) -> dict[str, FloatArray]:
    """Return the sums of frames that count u (n, β, ρ), about the anchors."""
    one = _gaussian(base)
    means: FloatArray = anchors.arrays()["means"][:, :, 0]
    offset = one.means[:, :, None] - means[:, None]
    if anchors.arrays()["covars"].ndim == 4:
        second = np.einsum("nbr,nbrx->nrx", u, one.variances[:, :, None] + offset**2)
    else:
        second = np.einsum("nbr,nbxy->nrxy", u, one.full().covars)
        second = second + np.einsum("nbr,nbrx,nbry->nrxy", u, offset, offset)
    first = np.einsum("nbr,nbrx->nrx", u, offset)
    return {"count": u.sum(1)[..., None], "first": first[:, :, None], "second": second[:, :, None]}
