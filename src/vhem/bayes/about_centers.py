"""How sure centres are that were found without Bayes: the posterior that their members' sequences leave about them."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import IntArray
from vhem.bayes.cluster_search import dispersion_about
from vhem.bayes.fitting import Chains, VBPlan, first_prior, problem_of
from vhem.em.grouped import Batch, Scale
from vhem.em.loop import Limits
from vhem.em.settings import Shape
from vhem.emissions.gaussian import Gaussian
from vhem.kernels.reduction import BaseModels
from vhem.models import H3M
from vhem.models.posterior import ModelPosterior
from vhem.sequences import Sequences


def dispersion_of_members(hmms: H3M, centers: H3M) -> float:
    """Return how much more HMMs differ from their nearest centre than chance explains, given the data behind them."""
    tau = hmms.evidence.typical_length
    if tau is None or not hmms.evidence.is_known.all() or len(hmms) <= len(centers):
        return 1.0
    counts = hmms.evidence.n_frames / tau
    base = BaseModels.of(hmms.parameters, counts, np.ones(len(hmms)), tau)
    return dispersion_about(base, centers.parameters)


def with_posterior(
    centers: H3M, sequences: Sequences, labels: IntArray, dispersion: float = 1.0, topology: str = "ergodic"
) -> H3M:
    """Return the centres with the posterior that one E-step of variational Bayes makes of their members' sequences.

    `labels` says which centre each sequence belongs to. Sequences count the less, the more members vary. If a
    centre has no members, or states have several components, there is no posterior.
    """
    members = np.bincount(labels, minlength=len(centers))
    if centers.n_mix > 1 or not members.all() or len(set(centers.n_states)) > 1:
        return centers
    weights = np.ones(len(sequences)) if sequences.weights is None else np.asarray(sequences.weights)
    own = centers.emissions
    batch = Batch.of(sequences, labels, weights / dispersion, own.take((0, 0, 0)))
    covariance = centers.covariance_type if isinstance(own, Gaussian) else "diag"
    shape = Shape(n_states=int(centers.n_states[0]), covariance_type=covariance, topology=topology)
    plan = VBPlan(shape=shape, limits=Limits())
    chains, places = Chains.one_each(batch), np.array(batch.ids)
    prior = first_prior(Scale.of(batch), chains, plan)
    q = problem_of(batch, chains, plan).begin(centers.parameters.take(places), prior).posterior
    amount = batch.evidence
    found = ModelPosterior(q.start, q.trans, q.emissions, amount.n_frames, amount.n_sequences)
    return centers.with_posterior(found.take(np.argsort(places)))
