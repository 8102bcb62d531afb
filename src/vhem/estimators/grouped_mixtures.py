"""EM-H3M for many groups of sequences at once: a small mixture of HMMs for every song, say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from vhem._support.checks import check_integer
from vhem._support.randomness import RandomState, generator
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import run
from vhem.em.mixture_starts import sequence_statistics
from vhem.em.mixtures import Items, MixtureProblem, Mixtures
from vhem.em.parameters import documented
from vhem.em.topology import allowed
from vhem.kernels.engine import n_threads
from vhem.kernels.kmeans import kmeans
from vhem.models import H3M
from vhem.sequences import SequencesLike, as_sequences
from vhem.sequences.channels import Channels

_START_ITERATIONS = 5  # of Baum-Welch, for the HMMs that EM starts from
_PRIOR = 0.1  # pseudo-counts, as in `fit_hmms`
_NO_WEIGHT = 1e-12  # of an HMM that no sequence belongs to


@documented
def fit_mixtures(
    sequences: SequencesLike,
    groups: Iterable[Any],
    n_components: int = 2,
    n_states: int = 3,
    n_mix: int = 1,
    covariance_type: str = "diag",
    topology: str = "ergodic",
    max_iter: int = 20,
    tol: float = 1e-3,
    reg_covar: float = 1e-3,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    emissions: Any = "gaussian",
) -> list[H3M]:
    """Learn a mixture of HMMs for every group of sequences, all groups at once.

    EM as in `MixtureOfHMMs`, with the priors of `fit_hmms`, started from k-means on statistics of the sequences of each
    group.

    Parameters
    ----------
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences; NaN is marginalised.
    groups : list
        One label per sequence; those with equal labels make a group.
    n_components : int
        HMMs per mixture. A group with fewer sequences has one for each.
    n_states, n_mix, covariance_type, topology, reg_covar
        As in `fit_hmms`.
    max_iter, tol : int, float
        EM stops after this many iterations, or when an iteration gains less than this many nats per frame.
    <random_state>
    <n_jobs>
    <emissions>

    Returns
    -------
    list of H3M
        One mixture per group, in the order of first appearance; the heaviest HMM first.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> ys = [rng.normal(size=(30, 1)) + shift for shift in (0, 0, 5, 5, 20, 20, 25, 25)]
    >>> first, second = fit_mixtures(ys, ["a"] * 4 + ["b"] * 4, n_components=2, n_states=1, random_state=0)
    >>> np.sort(second.means.ravel()).round(0), second.weights
    (array([20., 25.]), array([0.5, 0.5]))
    """
    check_integer("n_components", n_components, 1)
    check_integer("n_states", n_states, 1)
    plan = FitPlan.checked(
        n_mix=n_mix, covariance_type=covariance_type, topology=topology, max_iter=max_iter, tol=tol,
        reg_covar=reg_covar, startprob_prior=_PRIOR, transmat_prior=_PRIOR, covars_prior=_PRIOR,
        emissions=emissions, n_threads=n_threads(n_jobs),
    ).with_states(n_states)  # fmt: skip
    checked = as_sequences(sequences)
    batch = Batch.of(checked, groups, None, plan.template(checked))
    problem, start = _begin(batch, n_components, plan, generator(random_state))
    result = run(problem, start, plan.limits)
    done = {
        int(g): _mixture(part.state, row, n_components, checked._remembered)
        for part in result.ended
        for row, g in enumerate(part.rows)
    }
    return [done[g] for g in range(len(batch.ids))]


def _begin(batch: Batch, K: int, plan: FitPlan, rng: np.random.Generator) -> tuple[MixtureProblem, Mixtures]:
    """Split the sequences of each group in K, and learn an HMM from every part; an empty part copies another."""
    G = len(batch.ids)
    bounds = np.searchsorted(batch.groups, np.arange(G + 1))
    labels = kmeans(sequence_statistics(batch), bounds, rng.random((G, K)), plan.n_threads)
    parts = batch.groups * K + labels
    order = np.argsort(parts, kind="stable")
    present, index = np.unique(parts[order], return_inverse=True)
    split = batch.cut(order, batch.lengths[order], index, present.tolist())
    fitted = fit_batch(split, Scale.of(split), plan.brief(_START_ITERATIONS), rng).models
    weights = np.bincount(parts, minlength=G * K).reshape(G, K).astype(np.float64)
    heaviest = np.arange(G) * K + weights.argmax(axis=1)
    source = np.where(weights.ravel() > 0, np.arange(G * K), np.repeat(heaviest, K))
    masks = allowed(plan.shape.topology, plan.shape.n_states)
    prior = plan.priors.spread(*masks, Scale.of(batch).repeated(K))
    problem = MixtureProblem(
        batch=batch, items=Items.single(batch, batch.groups), prior=prior, n_components=K, strict=False,
        n_threads=plan.n_threads,
    )  # fmt: skip
    models = prior.possible(fitted.take(np.searchsorted(present, source)))
    return problem, Mixtures(models, weights / weights.sum(axis=1, keepdims=True))


def _mixture(mixtures: Mixtures, row: int, K: int, channels: Channels | None) -> H3M:
    """Return one mixture, without HMMs that no sequence belongs to."""
    weights = mixtures.weights[row]
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > _NO_WEIGHT]
    models = mixtures.models.take(row * K + order)
    return H3M.of_models(models, weights[order] / weights[order].sum(), channels=channels)
