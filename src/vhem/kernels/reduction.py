"""VHEM's kernels as the algorithms call them: on the engine in use, with what a fit can prepare once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Components
from vhem.kernels import compiled
from vhem.kernels.carried import Carried
from vhem.kernels.models import Models, ModelSums, Pieces
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
    pieces: Pieces | None = None  #: if states are pieces of states, which saves the compiled engine most of the work
    carried: Carried | None = None  #: of one run of EM: what each E-step leaves for the next

    @staticmethod
    def of(
        models: Models, counts: FloatArray, scales: FloatArray, tau: int, pieces: Pieces | None = None
    ) -> BaseModels:
        """Return models with their numbers of virtual sequences."""
        return BaseModels(models, expected_visits(models, tau), counts, scales, tau, pieces)

    def take(self, index: Any) -> BaseModels:
        """Return the base models at `index`."""
        arrays = (self.visits[index], self.counts[index], self.scales[index])
        return BaseModels(self.models.take(index), *arrays, self.tau, self.pieces and self.pieces.take(index))

    def for_one_run(self, n_shards: int = 1) -> BaseModels:
        """Return these base models, one of so many shards, with a memory of their own."""
        return replace(self, carried=Carried(n_shards))

    def carried_for(self, reduced: Models) -> Carried | None:
        """Return what is carried from E-step to E-step, if that pays."""
        pays = self.carried is not None and self.carried.pays_for(len(self.counts), reduced)
        return self.carried if pays else None

    @cached_property
    def to_self(self) -> FloatArray:
        """J_ii of every base model, (K_b,); computed once for all starts."""
        return self_log_likelihood(self.models, self.tau)


class Reduction(NamedTuple):
    """What one E-step of VHEM leaves: sums over base models i, for every reduced model j of one mixture or several."""

    bounds: FloatArray  #: (n,) 𝒥 of each mixture
    mass: FloatArray  #: (K_r,) Σ z_ij, or Σ N_i z_ij in the second form of the weights
    sums: ModelSums  #: Σ w ν̂₁, Σ w ξ̂ and the family's sums with u = w ν̂(ρ,β) c_βm η(ℓ|m;β,ρ), where w = z_ij N_i
    responsibilities: FloatArray | None  #: (K_b, K_r) z_ij, if asked for
    n_evaluated: int  #: pairs whose J was computed
    n_forward: int  #: pairs whose statistics were computed

    @property
    def bound(self) -> float:
        """𝒥 of one mixture."""
        return float(self.bounds[0])

    def take(self, mixtures: IntArray, index: IntArray) -> Reduction:
        """Return what belongs to some of the mixtures, whose reduced models are at `index`."""
        z = None if self.responsibilities is None else self.responsibilities[:, index]
        return self._replace(
            bounds=self.bounds[mixtures], mass=self.mass[index], sums=self.sums.take(index), responsibilities=z
        )

    @staticmethod
    def total(parts: Iterable[Reduction]) -> Reduction:
        """Return the sums over several sets of base models, added up in the order given."""
        every = list(parts)
        rows = [part.responsibilities for part in every if part.responsibilities is not None]
        return Reduction(
            np.add.reduce([part.bounds for part in every]),
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
    base: Models,
    reduced: Models,
    tau: int,
    early_stop: bool = True,
    n_threads: int = 1,
    pieces: Pieces | None = None,
) -> FloatArray:
    """Return J (K_b, K_r)."""
    if not compiled.knows(base, reduced):
        return reference.expected_log_likelihood(base, reduced, tau)
    return compiled.expected_log_likelihood(
        base=base, reduced=reduced, tau=tau, early_stop=early_stop, n_threads=n_threads, pieces=pieces
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
    n_mixtures: int = 1,
) -> Reduction:
    """Return the bound and the sums of the M-step, about `anchors` or the reduced models' own components.

    The reduced models may belong to several mixtures of one size, as those of restarts do; base models are assigned to
    the models of each mixture as if the others were not there.
    """
    anchors = reduced.components if anchors is None else anchors
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    if not compiled.knows(base.models, reduced):
        return _reference_e_step(base, reduced, log_weights, anchors, n_mixtures)
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
        n_mixtures=n_mixtures,
        pieces=base.pieces,
        carried=base.carried_for(reduced) if shortcuts.prune and n_mixtures == 1 else None,
    )
    return Reduction(*made)


def _reference_e_step(
    base: BaseModels, reduced: Models, log_weights: FloatArray, anchors: Components, n_mixtures: int
) -> Reduction:
    parts = []
    for rows in np.split(np.arange(len(reduced)), n_mixtures):
        mixture = (reduced.take(rows), log_weights[rows], base.counts, base.scales, anchors.take(rows))
        parts.append(reference.e_step(base.models, *mixture, base.tau))
    z = np.concatenate([part[1] for part in parts], axis=1)
    bounds = np.array([part[0].sum() for part in parts])
    return Reduction(bounds, base.scales @ z, ModelSums.joined([part[2] for part in parts]), z, z.size, z.size)
