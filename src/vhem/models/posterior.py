"""What the data leave open about the parameters of HMMs: the posterior distribution that variational Bayes finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem._support.immutable import frozen
from vhem._support.saving import Kind, State, register
from vhem.emissions.conjugate import Conjugate
from vhem.emissions.conjugates import conjugate_of
from vhem.emissions.dirichlet import deviation_of_rows, drawn_rows, geometric_rows, interval_of_rows, mean_rows
from vhem.emissions.normal_wishart import NormalWishart
from vhem.kernels.models import Models

_ROWS = ("alpha", "epsilon", "n_frames", "n_sequences")  # arrays with one row per HMM


@dataclass(frozen=True, eq=False)
class ModelPosterior:
    """Distributions of the parameters of K HMMs, each of which factorises.

    Start probabilities and rows of the transition matrix are Dirichlet, emissions have their conjugate distribution.
    States beyond an HMM's own have pseudo-counts of zero.
    """

    alpha: FloatArray  #: (K, S) of the start probabilities
    epsilon: FloatArray  #: (K, S, S) of the transition probabilities, row by row
    emissions: Conjugate  #: (K, S) of them
    n_frames: FloatArray  #: (K,) frames learned from
    n_sequences: FloatArray  #: (K,) sequences learned from

    def __len__(self) -> int:
        return len(self.alpha)

    @property
    def beta(self) -> FloatArray:
        """β of Gaussian emissions, (K, S): how many frames a mean is worth."""
        return self._gaussian().beta

    @property
    def v(self) -> FloatArray:
        """ν of Gaussian emissions, (K, S): degrees of freedom of the precisions."""
        return self._gaussian().v

    @property
    def m(self) -> FloatArray:
        """Means of the means of Gaussian emissions, (K, S, d)."""
        return self._gaussian().m

    @property
    def W(self) -> FloatArray:  # noqa: N802  (the symbol of the literature)
        """Scale matrices of the precisions of Gaussian emissions, (K, S, d, d); (K, S, d) if diagonal."""
        return self._gaussian().W

    def _gaussian(self) -> NormalWishart:
        if isinstance(self.emissions, NormalWishart):
            return self.emissions
        raise AttributeError(f"only Gaussian emissions have beta, v, m and W; these are {self.emissions.family}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelPosterior):
            return NotImplemented
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ROWS)
        return same and self.emissions == other.emissions

    __hash__ = None  # type: ignore[assignment]

    def frozen(self) -> ModelPosterior:
        """Return a posterior whose arrays are read-only."""
        rows = {name: frozen(getattr(self, name)) for name in _ROWS}
        return ModelPosterior(**rows, emissions=self.emissions.frozen())

    def take(self, index: Any) -> ModelPosterior:
        """Return the posterior of the HMMs at `index`."""
        rows = {name: getattr(self, name)[index] for name in _ROWS}
        return ModelPosterior(**rows, emissions=self.emissions.take(index))

    def states(self, index: IntArray) -> ModelPosterior:
        """Return the posterior of some states, in this order: (K, n) for each HMM."""
        k = np.arange(len(self))[:, None]
        trans = self.epsilon[k[:, :, None], index[:, :, None], index[:, None, :]]
        return replace(self, alpha=self.alpha[k, index], epsilon=trans, emissions=self.emissions.take((k, index)))

    def padded(self, n_states: int) -> ModelPosterior:
        """Return the posterior with room for more states."""
        K, S = self.alpha.shape
        more = n_states - S
        if more == 0:
            return self
        empty = self.emissions.padding()
        room = empty.map(lambda a: np.broadcast_to(a, (K, n_states, *a.shape)).copy())
        room.put((slice(None), slice(S)), self.emissions)
        alpha, epsilon = np.pad(self.alpha, ((0, 0), (0, more))), np.pad(self.epsilon, ((0, 0), (0, more), (0, more)))
        return replace(self, alpha=alpha, epsilon=epsilon, emissions=room)

    @staticmethod
    def joined(parts: list[ModelPosterior]) -> ModelPosterior:
        """Return several posteriors as one, padded to the largest number of states."""
        S = max(part.alpha.shape[1] for part in parts)
        wide = [part.padded(S) for part in parts]
        rows = {name: np.concatenate([getattr(part, name) for part in wide]) for name in _ROWS}
        return ModelPosterior(**rows, emissions=wide[0].emissions.joined([part.emissions for part in wide]))

    # -- HMMs made of it

    def _models(self, start: FloatArray, trans: FloatArray, components: Any) -> Models:
        K, S = self.alpha.shape
        used = (self.alpha > 0) | (self.epsilon > 0).any(1)  # left-right HMMs have states that no sequence begins in
        shaped = components.map(np.ascontiguousarray).reshaped(K, S, 1)
        return Models(start, trans, used[..., None].astype(np.float64), shaped, used.sum(1).astype(np.int64))

    def point(self) -> Models:
        """Return the HMMs at the posterior means."""
        return self._models(mean_rows(self.alpha), mean_rows(self.epsilon), self.emissions.point())

    def predictive(self) -> Models:
        """Return HMMs whose emissions are as wide as the predictive distribution of the next frame."""
        return self._models(mean_rows(self.alpha), mean_rows(self.epsilon), self.emissions.predictive())

    def drawn(self, rng: np.random.Generator) -> Models:
        """Return HMMs drawn at random."""
        return self._models(drawn_rows(self.alpha, rng), drawn_rows(self.epsilon, rng), self.emissions.drawn(rng))

    def geometric(self) -> Models:
        """Return predictive emissions with chains exp E log: rows sum to less than one. These are VBHEM's inputs."""
        return self._models(geometric_rows(self.alpha), geometric_rows(self.epsilon), self.emissions.predictive())

    def transition_intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return between which values each transition probability lies with a probability of `level`, (K, S, S)."""
        return interval_of_rows(self.epsilon, level)

    def deviations(self) -> dict[str, FloatArray]:
        """Return posterior standard deviations by the names of an H3M's arrays."""
        chain = {"startprob": deviation_of_rows(self.alpha), "transmat": deviation_of_rows(self.epsilon)}
        return {**chain, **self.emissions.deviations()}


def joint_posterior(parts: list[ModelPosterior | None]) -> ModelPosterior | None:
    """Return the posteriors of several mixtures as one, if all have one and all are of one kind."""
    known = [part for part in parts if part is not None]
    kinds = {
        (str(part.emissions.layout), *(array.shape[2:] for array in part.emissions.arrays().values())) for part in known
    }
    return ModelPosterior.joined(known) if len(known) == len(parts) and len(kinds) == 1 else None


def _pack(posterior: ModelPosterior) -> State:
    rows = {name: getattr(posterior, name) for name in _ROWS}
    return {**rows, "family": posterior.emissions.layout, **posterior.emissions.arrays()}


def _unpack(state: State) -> ModelPosterior:
    own = {name: array for name, array in state.items() if name not in (*_ROWS, "family")}
    emissions = conjugate_of(state["family"], own)
    made = ModelPosterior(**{name: state[name] for name in _ROWS}, emissions=emissions)
    _check(made)
    return made


def _check(posterior: ModelPosterior) -> None:
    """Refuse arrays of a file that do not belong together."""
    K, S = posterior.alpha.shape
    shapes = {"epsilon": (K, S, S), "n_frames": (K,), "n_sequences": (K,)}
    for name, shape in shapes.items():
        if getattr(posterior, name).shape != shape:
            raise InputError(
                "{name} has shape {shape} instead of {needed}",
                name=name, shape=getattr(posterior, name).shape, needed=shape,
            )  # fmt: skip
    for name, array in {**posterior.emissions.arrays(), "alpha": posterior.alpha, "epsilon": posterior.epsilon}.items():
        if array.dtype != np.float64 or array.shape[:2] != (K, S) or not np.isfinite(array).all():
            raise InputError("{name} is not an array of finite numbers for {K} HMMs of {S} states", name=name, K=K, S=S)
    if (posterior.alpha < 0).any() or (posterior.epsilon < 0).any():
        raise InputError("pseudo-counts must not be negative")


register(Kind("ModelPosterior", ModelPosterior, _pack, _unpack))
