"""The M-step of every HMM in the package: sums to models, with priors and floors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray
from vhem.emissions.components import Components, FamilyPrior
from vhem.kernels.models import Models, ModelSums

#: Of a model's frames: a state or component with less affects no result, and what is counted for it may be rounding, or
#: come from pairs that VHEM's E-step left out. It stays where it is, on every engine.
NEGLIGIBLE = 1e-15


class Prior(NamedTuple):
    """What is known about K HMMs before the data: Dirichlet priors as pseudo-counts, and the emission family's own."""

    start: FloatArray  #: (K, S) first frames
    trans: FloatArray  #: (K, S, S) transitions
    emissions: FamilyPrior

    def take(self, index: Any) -> Prior:
        """Return the priors of the HMMs at `index`."""
        return Prior(self.start[index], self.trans[index], self.emissions.take(index))

    @property
    def is_flat(self) -> bool:
        """Whether it adds nothing to the objective."""
        return self.emissions.is_flat and not (self.start.any() or self.trans.any())

    def log_density(self, models: Models) -> FloatArray:
        """Return Σ_s ε_s log π_s + Σ_rs ε_rs log a_rs plus that of the emissions, (K,)."""
        if self.is_flat:
            return np.zeros(len(models))
        total = _weighted_log(self.start, models.startprob) + _weighted_log(self.trans, models.transmat)
        return total + models.components.log_prior(self.emissions)

    def possible(self, models: Models) -> Models:
        """Return models that the M-step could have made; otherwise EM's first step might lower the bound."""
        return models.with_components(models.components.above_floor(self.emissions))


class Update(NamedTuple):
    """The M-step's result, and what was done to it."""

    models: Models
    visited: BoolArray  #: (K, S) states that something was counted for
    far: bool  #: whether components moved so far from the anchors that digits were lost: count again about these


def maximise(
    sums: ModelSums,
    now: Models,
    prior: Prior | None = None,
    anchors: Components | None = None,
) -> Update:
    """Return the models that maximise the expected log-likelihood plus the log prior.

    If nothing was counted, or next to nothing, the current value stays.
    """
    count = sums.components["count"]
    least = NEGLIGIBLE * count.sum((1, 2), keepdims=True)
    visited = count.sum(-1, keepdims=True) > least
    sums = _without_negligible(sums, count > least, visited)
    made = now.components.maximised(sums.components, anchors or now.components, prior.emissions if prior else None)
    models = Models(
        normalised(sums.start + prior.start if prior else sums.start, now.startprob),
        normalised(sums.trans + prior.trans if prior else sums.trans, now.transmat),
        normalised(np.where(visited, count, 0.0), now.mix_weights),
        made.components,
        now.n_states,
    )
    return Update(models, visited[..., 0], made.far)


def _without_negligible(sums: ModelSums, estimated: BoolArray, visited: BoolArray) -> ModelSums:
    if estimated.all():
        return sums
    components = {
        name: np.where(estimated.reshape(*estimated.shape, *(1,) * (array.ndim - 3)), array, 0.0)
        for name, array in sums.components.items()
    }
    return ModelSums(sums.start, np.where(visited, sums.trans, 0.0), components)


def normalised(sums: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return rows that sum to one, in proportion to `sums`; if all are zero, those of `otherwise`."""
    total = (sums @ np.ones(sums.shape[-1]))[..., None]  # several times faster than sum over a short axis
    if (total > 0).all():
        return np.asarray(sums / total)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), otherwise)


def _weighted_log(counts: FloatArray, p: FloatArray) -> FloatArray:
    logs = np.log(np.where(counts > 0, p, 1.0))
    return np.asarray((counts * logs).reshape(len(p), -1).sum(axis=1))
