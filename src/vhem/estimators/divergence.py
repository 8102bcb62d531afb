"""Expected log-likelihoods between HMMs, and the divergence based on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_in_range, check_integer
from vhem._support.docstrings import sharing
from vhem._support.errors import Count, InputError
from vhem._support.randomness import RandomState, generator
from vhem.em.observed import check_bound, in_pieces, nodes
from vhem.em.parameters import documented
from vhem.emissions import Components, Gaussian
from vhem.kernels import reduction as kernels
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models, Pieces
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m
from vhem.models.hmm import infinite_if_impossible

_either = sharing(
    bound="""\
tau : int
    Length of the virtual sequences.
bound : {"paper", "observed"}
    "paper": the paper's. "observed": a tighter one, for which Gaussians are cut into pieces around `n_nodes` nodes
    each; it sees roughly where an observation lies, and takes about five times as long.
n_nodes : int
    Nodes of the observed bound, an even number.
random_state : int, numpy Generator, RandomState or None
    Seed of the nodes."""
)


@_either
@documented
def expected_log_likelihood(
    base: H3M | HMM,
    reduced: H3M | HMM,
    tau: int = 10,
    *,
    bound: str = "paper",
    n_nodes: int = 8,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> FloatArray:
    """Lower bound on how likely sequences of one HMM are under another.

    J_ij ≤ E_{y ~ base i} [ log p(y_1:τ | reduced j) ], by the variational recursion of VHEM. The bound can be loose,
    and J_ii is not the negative entropy of model i: compare models through :func:`divergence`, not through J alone.

    Parameters
    ----------
    base : H3M or HMM
        The models that the virtual sequences come from.
    reduced : H3M or HMM
        The models that score them.
    <bound>
    <n_jobs>

    Returns
    -------
    ndarray of shape (K_base, K_reduced)
        J; minus infinity where a model emits what another cannot.

    Examples
    --------
    >>> import vhem
    >>> calm = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    >>> wild = vhem.HMM([1.0], [[1.0]], [[0.0]], [[4.0]])
    >>> vhem.expected_log_likelihood(calm, [calm, wild], tau=1).round(4)
    array([[-1.4189, -1.7371]])
    """
    base_h3m, reduced_h3m = check_h3m("base", base), check_h3m("reduced", reduced)
    tau = check_integer("tau", tau, 1)
    check_bound(bound, n_nodes)
    check_dimensions("base", base_h3m, "reduced", reduced_h3m)
    models, pieces = seen_by(base_h3m.parameters, reduced_h3m.emissions), None
    if bound == "observed":
        models, pieces = observed(models, n_nodes, generator(random_state)), Pieces(models, n_nodes)
    options: dict[str, Any] = {"n_threads": n_threads(n_jobs), "pieces": pieces}
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked
        J = kernels.expected_log_likelihood(models, reduced_h3m.parameters, tau, **options)
    check_in_range("an expected log-likelihood", J)
    return infinite_if_impossible(J, reduced_h3m.emissions)


@_either
@documented
def divergence(
    a: H3M | HMM,
    b: H3M | HMM,
    tau: int = 10,
    *,
    bound: str = "paper",
    n_nodes: int = 8,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> FloatArray:
    """How badly model j of `b` stands in for model i of `a`: J_ii - J_ij.

    It is zero for equal models, not symmetric, and, since J is a bound, may be slightly below zero.

    Parameters
    ----------
    a, b : H3M or HMM
        The models to compare.
    <bound>
    <n_jobs>

    Returns
    -------
    ndarray of shape (K_a, K_b)
        The divergences, in nats per sequence of length τ.

    Examples
    --------
    >>> import vhem
    >>> calm = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    >>> wild = vhem.HMM([1.0], [[1.0]], [[0.0]], [[4.0]])
    >>> vhem.divergence([calm, wild], [calm, wild], tau=1).round(4)
    array([[0.    , 0.3181],
           [0.8069, 0.    ]])
    """
    first, tau = check_h3m("a", a), check_integer("tau", tau, 1)
    seed = int(generator(random_state).integers(2**32))  # the same nodes for both
    options: dict[str, Any] = {"bound": bound, "n_nodes": n_nodes, "random_state": seed, "n_jobs": n_jobs}
    if bound == "observed":
        rows = [slice(k, k + 1) for k in range(len(first))]
        to_self = np.array([expected_log_likelihood(first[k], first[k], tau, **options)[0, 0] for k in rows])
    else:
        to_self = kernels.self_log_likelihood(first.parameters, tau, n_threads=n_threads(n_jobs))
    return np.asarray(to_self[:, None] - expected_log_likelihood(first, b, tau, **options))


def observed(models: Models, n_nodes: int, rng: np.random.Generator) -> Models:
    """Return base models for the observed bound, around fresh nodes."""
    diagonal = isinstance(models.components, Gaussian) and models.components.is_diagonal
    return in_pieces(models, nodes(n_nodes, models.n_dims, rng, diagonal))


def check_dimensions(name: str, h3m: H3M, other_name: str, other: H3M) -> None:
    """Refuse models of different kinds of observations."""
    if h3m.emissions.kind != other.emissions.kind:
        raise InputError(
            "the emissions of {name} are {kind}, those of {other_name} are {others}: both must model the same kind of "
            "observation",
            name=name, other_name=other_name, kind=h3m.emissions.kind, others=other.emissions.kind,
        )  # fmt: skip
    if h3m.n_dims != other.n_dims:
        raise InputError(
            "{name} has HMMs of {n:dimension}, {other_name} of {m}: both must model the same kind of observation",
            name=name, other_name=other_name, n=Count(h3m.n_dims), m=other.n_dims,
        )  # fmt: skip


def seen_by(base: Models, reduced: Components) -> Models:
    """Return base models whose emissions have the form of the reduced models'."""
    return base.with_components(base.components.seen_by(reduced))
