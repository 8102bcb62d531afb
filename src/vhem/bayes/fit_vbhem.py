"""VBHEM from a given posterior with fixed hyperparameters: numbers that anyone can check."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice
from vhem._support.errors import InputError
from vhem.bayes.beliefs import Beliefs
from vhem.bayes.clusters import ClusterBeliefs, Clusters, VariationalClusters
from vhem.bayes.fit_hmm import prior_of
from vhem.bayes.records import Hyperparameters, Posterior
from vhem.em.loop import Limits, improved, run
from vhem.em.parameters import check_values
from vhem.em.sharding import Shards
from vhem.emissions.normal_wishart import NormalWishart
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels
from vhem.models import H3M


class VBHEMFit(NamedTuple):
    """The result of `fit_vbhem`."""

    posterior: Posterior  #: after the M-step that follows the last E-step
    lower_bounds: FloatArray  #: the bound at every E-step
    converged: bool  #: whether the last change was within `tol`
    responsibilities: FloatArray  #: (B, K) probability of each cluster for each base HMM at the last E-step
    labels: IntArray  #: (B,) the most probable cluster of each


def fit_vbhem(
    base: H3M,
    start: Posterior,
    hyperparameters: Hyperparameters,
    tau: int = 10,
    n_virtual: float = 10.0,
    max_iter: int = 200,
    tol: float = 1e-5,
    compatible: str | None = None,
) -> VBHEMFit:
    """Run VBHEM from a given posterior, with fixed hyperparameters.

    Use :class:`vhem.VBHEM` to cluster. This function leaves nothing open, so that its numbers can be compared with
    those of other programs.

    Parameters
    ----------
    base : H3M
        The HMMs to cluster, with one Gaussian per state. If they carry a posterior, as those of ``fit_hmms(...,
        method="vb")`` do, its expected logs of the probabilities are used, and the covariances of the next frame;
        otherwise the HMMs as they are. Each counts as `n_virtual` virtual sequences, times its weight relative to the
        average.
    start : Posterior
        Where to start: alpha (K,), eta (K, S), epsilon (K, S, S), `lambda_` (K, S), v (K, S), m (K, S, d), W.
    hyperparameters : Hyperparameters
        The priors, with eta0 and lambda0.
    tau, n_virtual : int, float
        Length and number of the virtual sequences of each HMM.
    max_iter : int
        Largest number of M-steps between two E-steps.
    tol : float
        Stop when the bound changes by less than this, relative to its size.
    compatible : {"emhmm"}, optional
        Give the precisions one more degree of freedom than conjugacy does, as the EMHMM toolbox does (v0 + N + 1). The
        bound may then fall.

    Returns
    -------
    VBHEMFit
        The posterior, the bounds and the assignments.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> from vhem.bayes import Hyperparameters, Posterior, fit_vbhem
    >>> base = vhem.H3M([vhem.HMM([1.0], [[1.0]], [[x]], [[1.0]]) for x in (0.0, 0.2, 6.0)])
    >>> ones, one_each = np.ones((2, 1)), np.ones(2)
    >>> start = Posterior(
    ...     alpha=one_each, eta=ones, epsilon=ones[:, None], lambda_=ones, v=3 * ones, m=[[[0.0]], [[5.0]]],
    ...     W=np.ones((2, 1, 1, 1)))
    >>> priors = Hyperparameters(alpha0=1, eta0=1, epsilon0=1, lambda0=1, v0=3, W0=1.0, m0=[3.0])
    >>> fit_vbhem(base, start, priors).labels
    array([0, 0, 1])
    """
    check_values(max_iter=max_iter, tol=tol, tau=tau, n_virtual=n_virtual)
    if compatible is not None:
        check_choice("compatible", compatible, ("emhmm",))
    models = base_models(base, diagonal=start.W.ndim == 3)
    counts = n_virtual * len(base) * base.weights
    problem = VariationalClusters(
        base=Shards.of(BaseModels.of(models, counts, counts, tau)), extra=1.0 if compatible else 0.0,
        strict=compatible is None,
    )  # fmt: skip
    state = _checked_start(start, hyperparameters, base.n_dims)
    done = run(problem, state, Limits(max_iter=max_iter, tol=tol, relative=True))
    last = improved(problem, done.state, done.expected).state.posterior
    z = problem.reduced(done.state.posterior, responsibilities=True).responsibilities
    assert z is not None
    return VBHEMFit(
        posterior=_record(last), lower_bounds=np.array(done.bounds), converged=bool(done.converged[0]),
        responsibilities=z, labels=z.argmax(1),
    )  # fmt: skip


def base_models(base: H3M, diagonal: bool) -> Models:
    """Return the inputs as VBHEM takes them."""
    if base.n_mix > 1:
        raise InputError(
            "VBHEM takes HMMs with one component per state, not {n}", "learn them with {n_mix:1}", n=base.n_mix
        )
    models = base.parameters if base.posterior is None else base.posterior.geometric()
    return models.with_components(models.components.with_covariances("diag" if diagonal else "full"))


def _checked_start(start: Posterior, h: Hyperparameters, d: int) -> Clusters:
    if start.eta is None or start.lambda_ is None:
        raise InputError("{start} is the posterior of one HMM", "give one of clusters, with eta and lambda_")
    if h.eta0 is None or h.lambda0 is None:
        raise InputError("the hyperparameters lack {lack}", lack="eta0" if h.eta0 is None else "lambda0")
    K, S = start.eta.shape
    shapes = {"alpha": (K,), "epsilon": (K, S, S), "lambda_": (K, S), "v": (K, S), "m": (K, S, d)}
    for name, shape in shapes.items():
        if (found := getattr(start, name).shape) != shape:
            problem = "{name} of {start} has shape {found}; it must be {shape}"
            raise InputError(problem, name=name, found=found, shape=shape)
    diagonal = start.W.ndim == 3
    rate = 1 / start.W if diagonal else np.asarray(np.linalg.inv(start.W), np.float64)
    q = Beliefs(start.eta, start.epsilon, NormalWishart(start.lambda_, start.v, start.m, rate))
    own = Hyperparameters(alpha0=h.eta0, epsilon0=h.epsilon0, beta0=h.lambda0, v0=h.v0, W0=h.W0, m0=h.m0)
    prior = ClusterBeliefs(np.full(K, float(h.alpha0)), prior_of(own, S, K, diagonal, d))
    return Clusters(ClusterBeliefs(start.alpha, q), prior)


def _record(q: ClusterBeliefs) -> Posterior:
    own = q.hmms.emissions
    assert isinstance(own, NormalWishart)
    return Posterior(
        alpha=q.weights, eta=q.hmms.start, epsilon=q.hmms.trans, lambda_=own.beta, v=own.v, m=own.m, W=own.W
    )
