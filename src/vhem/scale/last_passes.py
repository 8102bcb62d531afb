"""From the summaries of all parts to the final mixture: the last merge, EM on the sample, passes over all data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.em.grouped import Batch
from vhem.estimators import mixture as em_h3m
from vhem.estimators.fit_hmms import as_h3m
from vhem.estimators.vhem import canonical_order
from vhem.kernels.counting import m_step
from vhem.kernels.parameters import Parameters
from vhem.models import H3M
from vhem.scale.condense import (
    Plan,
    Restart,
    Summary,
    as_one_group,
    em_options,
    generator_for,
    prior_of_mixture,
    restarts,
)
from vhem.scale.merge_order import everything
from vhem.scale.sample import Sample
from vhem.scale.state import State
from vhem.scale.tasks import EMCounts

_PLACE = 2**32 - 1  # of the last merge's randomness: no level of the tree is as high
_CLOSE = 0.01  # nats per frame
_ENOUGH = 50  # sequences of the sample that an HMM must explain to be refined by it; rarer ones stay as VHEM made them


def final_mixture(state: State, plan: Plan, n_components: int) -> H3M:
    """Return the mixture that stands for everything learned so far."""
    pool = everything(state.levels)
    assert pool is not None
    if len(pool.sequences) <= n_components:
        best = pool
    else:
        made = list(restarts(pool, n_components, plan, generator_for(plan, _PLACE, state.n_taken), plan.n_init))
        best = _best(made, state.sample, plan.n_virtual * state.n_frames)
    parameters, weights = best.parameters, best.sequences / best.sequences.sum()
    if state.sample.sequences is not None:
        parameters, weights = _refined(parameters, weights, state.sample, plan)
    return _ordered(parameters, weights, plan)


def _best(made: list[Restart], sample: Sample, virtual_frames: float) -> Summary:
    """Return the restart with the highest bound; of those that come close, the one that makes the sample likeliest.

    VHEM's bound prefers blurred HMMs where states overlap, so it cannot judge small differences; but only the bound
    knows of clusters too rare to be in the sample. Restarts that lost a cluster come last.
    """
    most = max(len(restart.summary.sequences) for restart in made)
    full = [restart for restart in made if len(restart.summary.sequences) == most]
    highest = max(restart.bound for restart in full)
    close = [restart for restart in full if restart.bound >= highest - _CLOSE * virtual_frames]
    if sample.sequences is None:
        return max(close, key=lambda restart: restart.bound).summary
    scores = [restart.summary.h3m.score(sample.sequences) for restart in close]
    return close[int(np.argmax(scores))].summary


def _refined(parameters: Parameters, weights: FloatArray, sample: Sample, plan: Plan) -> tuple[Parameters, FloatArray]:
    """EM on the sample; HMMs that explain too little of it to be learned from it stay as they were."""
    batch = _batch(sample)
    prior = prior_of_mixture(parameters, batch, plan)
    done = em_h3m.run(batch, parameters, weights, prior, em_options(plan), em_h3m.Clock.start(None))
    common = done.weights * len(sample.keys) >= _ENOUGH
    mixed = Parameters._make(
        np.where(common.reshape(-1, *[1] * (new.ndim - 1)), new, old)
        for new, old in zip(done.parameters, parameters, strict=True)
    )
    shares = np.where(common, done.weights, weights)
    return mixed, shares / shares.sum()


def em_pass(model: H3M, count: Callable[..., Iterator[EMCounts]], sample: Sample, plan: Plan) -> tuple[H3M, float]:
    """Return the mixture after one iteration of EM over all data, and the data's log-likelihood before it.

    `count` makes the E-step on all parts: it takes parameters, weights and anchors, and yields the sums of each part,
    which are added up in order.
    """
    now = model.parameters
    prior = prior_of_mixture(now, _batch(sample), plan)
    total = reduce(EMCounts.plus, count(now, model.weights, None))
    made = m_step(total.expectations, now, prior)
    if made.far:  # the variances lost digits: count again, about the new means
        anchors = made.parameters.means
        again = reduce(EMCounts.plus, count(now, model.weights, anchors))
        made = m_step(again.expectations, now, prior, anchors)
    return as_h3m(made.parameters, total.mass / total.mass.sum()), total.log_likelihood


def _batch(sample: Sample) -> Batch:
    assert sample.sequences is not None
    return as_one_group(Batch.of(sample.sequences, None, None))


def _ordered(parameters: Parameters, weights: FloatArray, plan: Plan) -> H3M:
    """Return the mixture heaviest HMM first; states of left-right HMMs keep their order."""
    if plan.learning.topology == "ergodic":
        return as_h3m(*canonical_order(parameters, weights))
    order = np.argsort(-weights, kind="stable")
    return as_h3m(parameters.take(order), weights[order])
