"""VB-HMM as a problem of EM: many hidden Markov models at once, each with a posterior distribution and its own bound.

    L = Σ_n log Z_n - KL[q(π) ‖ prior] - Σ_s KL[q(a_s) ‖ prior] - Σ_s KL[q(θ_s) ‖ prior]

where log Z_n is the log-likelihood of sequence n under exp E log of the parameters, computed by Baum-Welch's kernel.
A fit may have several chains that share emissions, such as one per condition of an experiment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.bayes.beliefs import Beliefs, models_of_logs
from vhem.bayes.empirical import Learner
from vhem.em.loop import Limits, Problem, Step
from vhem.emissions.components import Components
from vhem.emissions.dirichlet import KnownRows, expected_logs
from vhem.kernels.compiled import Iterations, knows_posteriors
from vhem.kernels.counting import Counts, Pairs, advance_posteriors, expectations
from vhem.kernels.models import Models, ModelSums


class Variational(NamedTuple):
    """Where EM is: the posteriors, and the priors if these are learned too."""

    posterior: Beliefs
    prior: Beliefs


class Counted(NamedTuple):
    """What an E-step leaves."""

    bounds: FloatArray  #: (F,)
    sums: ModelSums  #: of the chains


@dataclass(frozen=True, kw_only=True)
class VariationalHMMs(Problem[Variational, Counted]):
    """Sequences, and which chain sees them."""

    X: FloatArray
    offsets: IntArray
    pairs: Pairs  #: sequences and chains
    weights: FloatArray  #: of the pairs
    owner: IntArray  #: (C,) the fit of each chain, never falling
    frames: FloatArray  #: (F,)
    names: list[Any]  #: (F,) for messages
    learner: Learner | None = None  #: of the priors, fit by fit
    extra: float = 0.0  #: EMHMM's own degree of freedom, with which the bound may fall
    strict: bool = True
    n_threads: int = 1

    def name(self, row: np.int64) -> str:
        """Return whose bound it is."""
        return f"the lower bound of {self.names[row]!r}"

    def _counted(self, models: Models, anchors: Components | None) -> Counts:
        return expectations(models, self.X, self.offsets, self.pairs, self.weights, self.n_threads, anchors)

    def begin(self, models: Models, prior: Beliefs) -> Variational:
        """Return the posteriors that follow from an E-step under given HMMs, one per fit."""
        sums = self._counted(models.take(self.owner), None).sums
        own = {name: self._by_fit(array) for name, array in sums.components.items()}
        emissions = prior.emissions.updated(own, models.components).posterior
        return Variational(Beliefs(prior.start + sums.start, prior.trans + sums.trans, emissions), prior)

    def advance(self, state: Variational, bounds: FloatArray, n_iter: IntArray, limits: Limits) -> None:
        """Iterate inside the compiled engine, if it can; posteriors are changed in place."""
        q, prior = state
        alone = len(self.owner) == len(self.frames) and self.learner is None and not self.extra
        if not alone or limits.relative or prior.emissions.lead[1] != 1 or not knows_posteriors(q.emissions):
            return
        iterations = Iterations(limits.max_iter, limits.tol * self.frames, bounds, n_iter, 0.0 * self.frames)
        models = self._models(q, expected_logs(q.rows()))
        advance_posteriors(
            models, self.X, self.offsets, self.pairs, self.weights, prior.arrays(), q.arrays(), iterations,
            self.n_threads,
        )  # fmt: skip

    def e_step(self, state: Variational) -> Counted:
        """Return the bounds and the sums."""
        q, prior = state
        rows = KnownRows.of(q.rows())
        e = self._counted(self._models(q, rows.logs), None)
        scores = np.bincount(self.pairs.model, self.weights * e.log_likelihoods, len(self.owner))
        chains = scores - rows.divergence(prior.rows()).sum(1)
        return Counted(self._by_fit(chains) - q.emissions.divergence(prior.emissions).sum(1), e.sums)

    def _by_fit(self, chains: FloatArray) -> FloatArray:
        """Add up what belongs to the chains of every fit."""
        if len(self.owner) == len(self.frames):
            return chains
        begins = np.searchsorted(self.owner, np.arange(len(self.frames)))
        return np.asarray(np.add.reduceat(chains, begins, axis=0))

    def _models(self, q: Beliefs, logs: FloatArray) -> Models:
        components, log_loss = q.emissions.expected()
        if len(self.owner) > len(self.frames):
            components, log_loss = components.take(self.owner), log_loss[self.owner]
        return models_of_logs(logs[:, 0], logs[:, 1:], components, log_loss)

    def count(self, state: Variational, expected: Counted, anchors: Any) -> ModelSums:
        """Return the sums of the E-step, or others about new means."""
        if anchors is None:
            return expected.sums
        q = state.posterior
        return self._counted(self._models(q, expected_logs(q.rows())), anchors).sums

    def m_step(self, state: Variational, expected: Counted, sums: ModelSums, anchors: Any) -> Step:
        """Return the posteriors that the sums make of the priors, and then better priors if these are learned."""
        del expected
        q, prior = state
        about = q.emissions.anchors()
        about = about.reshaped(*about.lead, 1) if anchors is None else anchors.take(self._first_chains())
        own = {name: self._by_fit(array) for name, array in sums.components.items()}
        made = prior.emissions.updated(own, about, self.extra)
        if made.far and anchors is None:
            means = made.posterior.anchors().take(self.owner)
            return Step(state, means.reshaped(*means.lead, 1))
        q = Beliefs(prior.start + sums.start, prior.trans + sums.trans, made.posterior)
        return Step(Variational(q, self.learner(q, prior, self.owner) if self.learner else prior))

    def _first_chains(self) -> IntArray:
        return np.searchsorted(self.owner, np.arange(len(self.frames)))

    def take(
        self, state: Variational, expected: Counted, rows: IntArray
    ) -> tuple[VariationalHMMs, Variational, Counted]:
        """Return some of the fits, and their sequences."""
        place = np.full(len(self.frames), -1)
        place[rows] = np.arange(len(rows))
        chains = np.flatnonzero(place[self.owner] >= 0)
        number = np.full(len(self.owner), -1)
        number[chains] = np.arange(len(chains))
        kept = np.flatnonzero(number[self.pairs.model] >= 0)
        problem = replace(
            self, pairs=Pairs(self.pairs.sequence[kept], number[self.pairs.model[kept]]), weights=self.weights[kept],
            owner=place[self.owner[chains]], frames=self.frames[rows], names=[self.names[r] for r in rows],
        )  # fmt: skip
        part = Variational(*(beliefs.take(chains, rows) for beliefs in state))
        return problem, part, Counted(expected.bounds[rows], expected.sums.take(chains))
