"""VHEM's kernels as the algorithms call them: on the engine in use, with what a fit can prepare once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.emissions.components import Components
from vhem.kernels import compiled
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reference import reduction as reference

_SELF_BLOCK = 32  # models at a time against themselves: emissions are computed for all pairs of a block


class Shortcuts(NamedTuple):
    """What the compiled engine may skip; results stay those of the full equations."""

    prune: bool = True  #: pairs whose responsibility is provably below 1e-27, and their statistics
    early_stop: bool = True  #: steps of a long recursion that has become stationary

    @staticmethod
    def of(allowed: bool) -> Shortcuts:
        """All of them, or none."""
        return Shortcuts(allowed, allowed)


@dataclass(frozen=True)
class BaseModels:
    """The base models of a fit, with what does not change from one iteration to the next."""

    models: Models
    visits: FloatArray  #: (K_b, S) Σ_t p_t(β): how often each state is visited in τ steps
    counts: FloatArray  #: (K_b,) N_i
    scales: FloatArray  #: (K_b,) a_i
    tau: int

    @staticmethod
    def of(models: Models, counts: FloatArray, scales: FloatArray, tau: int) -> BaseModels:
        """Return models with their numbers of virtual sequences."""
        return BaseModels(models, expected_visits(models, tau), counts, scales, tau)

    def take(self, index: Any) -> BaseModels:
        """Return the base models at `index`."""
        arrays = (self.visits[index], self.counts[index], self.scales[index])
        return BaseModels(self.models.take(index), *arrays, self.tau)

    @cached_property
    def to_self(self) -> FloatArray:
        """J_ii of every base model, (K_b,); computed once for all starts."""
        return self_log_likelihood(self.models, self.tau)


class Reduction(NamedTuple):
    """What one E-step of VHEM leaves: sums over base models i, for every reduced model j."""

    bound: float  #: 𝒥
    mass: FloatArray  #: (K_r,) Σ z_ij, or Σ N_i z_ij in the second form of the weights
    sums: ModelSums  #: Σ w ν̂₁, Σ w ξ̂ and the family's sums with u = w ν̂(ρ,β) c_βm η(ℓ|m;β,ρ), where w = z_ij N_i
    responsibilities: FloatArray | None  #: (K_b, K_r) z_ij, if asked for
    n_evaluated: int  #: pairs whose J was computed
    n_forward: int  #: pairs whose statistics were computed

    @property
    def bounds(self) -> FloatArray:
        """The bound in the form that the EM loop needs."""
        return np.array([self.bound])

    @staticmethod
    def total(parts: Iterable[Reduction]) -> Reduction:
        """Return the sums over several sets of base models, added up in the order given."""
        every = list(parts)
        rows = [part.responsibilities for part in every if part.responsibilities is not None]
        return Reduction(
            sum(part.bound for part in every),
            np.add.reduce([part.mass for part in every]),
            ModelSums.total(part.sums for part in every),
            np.concatenate(rows) if rows else None,
            sum(part.n_evaluated for part in every),
            sum(part.n_forward for part in every),
        )


def expected_visits(models: Models, tau: int) -> FloatArray:
    """Return Σ_{t=1..τ} π Aᵗ⁻¹ of every model, in about log₂ τ matrix products."""
    power, sums = models.transmat, np.broadcast_to(np.eye(models.transmat.shape[1]), models.transmat.shape)
    now, total = models.startprob[:, None, :], np.zeros_like(models.startprob)[:, None, :]
    while tau:
        if tau & 1:
            total = total + now @ sums
            now = now @ power
        sums, power, tau = sums + power @ sums, power @ power, tau >> 1
    return np.ascontiguousarray(total[:, 0])


def expected_log_likelihood(
    base: Models, reduced: Models, tau: int, early_stop: bool = True, n_threads: int = 1
) -> FloatArray:
    """Return J (K_b, K_r)."""
    if not compiled.knows(base, reduced):
        return reference.expected_log_likelihood(base, reduced, tau)
    return compiled.expected_log_likelihood(
        base=base, reduced=reduced, tau=tau, early_stop=early_stop, n_threads=n_threads
    )


def self_log_likelihood(models: Models, tau: int, early_stop: bool = True, n_threads: int = 1) -> FloatArray:
    """Return J_ii (K,), every model against itself."""
    J = np.empty(len(models))
    for i in range(0, len(J), _SELF_BLOCK):
        rows = slice(i, i + _SELF_BLOCK)
        part = models.take(rows)
        if compiled.knows(part):
            J[rows] = compiled.self_log_likelihood(models=part, tau=tau, early_stop=early_stop, n_threads=n_threads)
        else:
            J[rows] = np.diagonal(reference.expected_log_likelihood(part, part, tau))
    return J


def e_step(
    base: BaseModels,
    reduced: Models,
    weights: FloatArray,
    shortcuts: Shortcuts,
    n_threads: int = 1,
    anchors: Components | None = None,
    want_responsibilities: bool = False,
) -> Reduction:
    """Return the bound and the sums of the M-step, about `anchors` or the reduced models' own components."""
    anchors = reduced.components if anchors is None else anchors
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    if not compiled.knows(base.models, reduced):
        both = (base.counts, base.scales)
        total, z, sums = reference.e_step(base.models, reduced, log_weights, *both, anchors, base.tau)
        return Reduction(float(total.sum()), base.scales @ z, sums, z, z.size, z.size)
    made = compiled.e_step(
        base=base.models,
        occupancy=base.visits,
        counts=base.counts,
        scales=base.scales,
        reduced=reduced,
        log_weights=log_weights,
        anchors=anchors,
        tau=base.tau,
        prune=shortcuts.prune,
        early_stop=shortcuts.early_stop,
        want_responsibilities=want_responsibilities,
        n_threads=n_threads,
    )
    return Reduction(*made)
