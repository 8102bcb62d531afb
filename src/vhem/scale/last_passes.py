"""From the summaries of all parts to the final mixture: the last merge, EM on the sample, passes over all data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.em.grouped import Batch
from vhem.em.loop import Problem, Step, improved, run
from vhem.em.mixtures import Mixtures
from vhem.em.ordering import canonical_order
from vhem.emissions.components import Components
from vhem.kernels.maximise import Prior, maximise
from vhem.kernels.models import Models, ModelSums
from vhem.models import H3M
from vhem.scale.condense import Plan, Restart, Summary, generator_for, mixture_problem, mixtures, restarts
from vhem.scale.merge_order import everything
from vhem.scale.state import State
from vhem.scale.tasks import EMCounts
from vhem.sequences import Sequences

_PLACE = 2**32 - 1  # seeds the last merge: no level of the tree is this high
_CLOSE = 0.01  # nats per frame
_HELD_OUT = 1000  # sequences of the sample that passes over all data are judged by
_ENOUGH = 50  # sequences of the sample that an HMM must explain to be refined on it; rarer ones stay as VHEM made them


def spared_key(state: State) -> float:
    """Return the key up to which sequences are held out, to judge passes over all data by; -1 for none."""
    most = min(_HELD_OUT, len(state.sample.keys) // 5, state.n_sequences // 10)
    return state.sample.key_of(most)


def final_mixture(state: State, plan: Plan, n_components: int, spared: float = -1.0) -> H3M:
    """Return the mixture that represents everything learned so far; some of the sample may be spared."""
    pool = everything(state.levels)
    assert pool is not None
    sample = state.sample.split(spared)[0]
    if len(pool.sequences) <= n_components:
        best = pool
    else:
        made = list(restarts(pool, n_components, plan, generator_for(plan, _PLACE, state.n_taken), plan.n_init))
        best = _best(made, sample, plan.n_virtual * state.n_frames, plan.learning.n_threads)
    models, weights = best.parameters, best.sequences / best.sequences.sum()
    if sample is not None:
        models, weights = _refined(best, sample, plan)
    return _ordered(models, weights, plan)


def _best(made: list[Restart], sample: Sequences | None, virtual_frames: float, n_threads: int) -> Summary:
    """Return the restart with the highest bound; among close ones, that under which the sample is likeliest.

    VHEM's bound prefers blurred HMMs if states overlap, so it cannot judge small differences; but only the bound sees
    clusters too rare to be in the sample. Restarts that lost a cluster come last.
    """
    most = max(len(restart.summary.sequences) for restart in made)
    full = [restart for restart in made if len(restart.summary.sequences) == most]
    highest = max(restart.bound for restart in full)
    close = [restart for restart in full if restart.bound >= highest - _CLOSE * virtual_frames]
    if sample is None:
        return max(close, key=lambda restart: restart.bound).summary
    scores = [restart.summary.h3m.score(sample, n_threads) for restart in close]
    return close[int(np.argmax(scores))].summary


def _refined(best: Summary, sample: Sequences, plan: Plan) -> tuple[Models, FloatArray]:
    """EM on the sample; HMMs that explain too little of it are left unchanged."""
    problem = mixture_problem(best.parameters, _batch(sample, best.parameters), plan)
    done = run(problem, mixtures(problem, best), plan.learning.limits).state
    common = done.weights[0] * len(sample) >= _ENOUGH
    mixed = best.parameters.copy()
    mixed.put(common, done.models.take(common))
    shares = np.where(common, done.weights[0], best.sequences / best.sequences.sum())
    return mixed, shares / shares.sum()


CountParts = Callable[[Models, FloatArray, Components | None], Iterator[EMCounts]]


@dataclass(frozen=True, kw_only=True)
class _Pass(Problem[Mixtures, EMCounts]):
    """EM-H3M over all data, counted part by part, wherever the parts are."""

    count_parts: CountParts
    prior: Prior

    def e_step(self, state: Mixtures) -> EMCounts:
        """Return likelihood and sums, added up in the order of the parts."""
        return reduce(EMCounts.plus, self.count_parts(state.models, state.weights[0], None))

    def count(self, state: Mixtures, expected: EMCounts, anchors: Any) -> ModelSums:
        """Return the sums, or make another pass about other anchors."""
        if anchors is None:
            return expected.sums
        return reduce(EMCounts.plus, self.count_parts(state.models, state.weights[0], anchors)).sums

    def m_step(self, state: Mixtures, expected: EMCounts, sums: ModelSums, anchors: Any) -> Step:
        """Return the next mixture."""
        update = maximise(sums, state.models, self.prior, anchors)
        if update.far and anchors is None:
            return Step(state, update.models.components)
        return Step(Mixtures(update.models, (expected.mass / expected.mass.sum())[None]))


def em_pass(model: H3M, count_parts: CountParts, sample: Sequences | None, plan: Plan) -> tuple[H3M, float]:
    """Return the mixture after one iteration of EM over all data, and the data's log-likelihood before it."""
    assert sample is not None
    now = Mixtures(model.parameters, model.weights[None])
    problem = _Pass(count_parts=count_parts, prior=mixture_problem(now.models, _batch(sample, now.models), plan).prior)
    expected = problem.e_step(now)
    made = improved(problem, now, expected).state
    return _ordered(made.models, made.weights[0], plan), expected.log_likelihood


def _batch(sample: Sequences, models: Models) -> Batch:
    return Batch.of(sample, None, None, models.components.padding())


def _ordered(models: Models, weights: FloatArray, plan: Plan) -> H3M:
    """Return the mixture with the heaviest HMM first; states of left-right HMMs keep their order."""
    if plan.learning.shape.topology == "ergodic":
        return H3M.of_models(*canonical_order(models, weights))
    order = np.argsort(-weights, kind="stable")
    return H3M.of_models(models.take(order), weights[order])
