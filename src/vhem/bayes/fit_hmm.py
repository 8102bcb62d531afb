"""One VB-HMM from a given posterior with fixed hyperparameters: numbers that anyone can check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_choice
from vhem._support.errors import InputError
from vhem.bayes.beliefs import Beliefs
from vhem.bayes.priors import prior_given, with_rows
from vhem.bayes.records import Hyperparameters, Posterior
from vhem.bayes.variational import Variational, VariationalHMMs
from vhem.em.grouped import Batch
from vhem.em.loop import Limits, improved, run
from vhem.em.parameters import check_values
from vhem.emissions.normal_wishart import NormalWishart
from vhem.kernels.counting import Pairs
from vhem.sequences import SequencesLike, as_sequences


class VBFit(NamedTuple):
    """The result of `fit_hmm`."""

    posterior: Posterior  #: after the M-step that follows the last E-step
    lower_bounds: FloatArray  #: the bound at every E-step
    converged: bool  #: whether the last change was within `tol`
    occupancy: FloatArray  #: (S,) expected frames in each state at the last E-step
    groups: list[Any]  #: labels of the groups, in the order of the posterior's first axis; empty without groups


def fit_hmm(
    sequences: SequencesLike,
    start: Posterior,
    hyperparameters: Hyperparameters,
    max_iter: int = 100,
    tol: float = 1e-5,
    groups: Iterable[Any] | None = None,
    compatible: str | None = None,
) -> VBFit:
    """Run variational Bayes for one HMM from a given posterior, with fixed hyperparameters.

    Use :func:`vhem.fit_hmms` with ``method="vb"`` to learn from data. This function leaves nothing open, so that its
    numbers can be compared with those of other programs.

    Parameters
    ----------
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences.
    start : Posterior
        Where to start; the order of its states is kept.
    hyperparameters : Hyperparameters
        The priors.
    max_iter : int
        Largest number of E-steps.
    tol : float
        Stop when the bound changes by less than this, relative to its size.
    groups : list, optional
        One label per sequence: groups have their own start and transition probabilities and share the emissions.
    compatible : {"emhmm"}, optional
        Give the precisions one more degree of freedom than conjugacy does, as the EMHMM toolbox does (v0 + N + 1). The
        bound may then fall.

    Returns
    -------
    VBFit
        The posterior and the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from vhem.bayes import Hyperparameters, Posterior, fit_hmm
    >>> priors = Hyperparameters(alpha0=1.0, epsilon0=1.0, beta0=1.0, v0=3.0, W0=1.0, m0=[0.0])
    >>> start = Posterior(alpha=[1.0], epsilon=[[1.0]], beta=[1.0], v=[3.0], m=[[0.0]], W=[[[1.0]]])
    >>> fit = fit_hmm([[0.5, 1.5]], start, priors)
    >>> fit.posterior.beta, fit.posterior.m.round(3)
    (array([3.]), array([[0.667]]))
    """
    check_values(max_iter=max_iter, tol=tol)
    if compatible is not None:
        check_choice("compatible", compatible, ("emhmm",))
    data = as_sequences(sequences)
    batch = Batch.of(data, [0] * len(data) if groups is None else groups, None)
    state = _checked_start(start, hyperparameters, len(batch.ids), batch.X.shape[1])
    problem = VariationalHMMs(
        X=batch.X, offsets=batch.offsets, pairs=Pairs.grouped(batch.lengths, batch.groups),
        weights=np.ones(len(batch.groups)), owner=np.zeros(len(batch.ids), dtype=np.int64),
        frames=np.array([batch.n_frames.sum()]), names=["the HMM"], extra=1.0 if compatible else 0.0,
        strict=compatible is None,
    )  # fmt: skip
    done = run(problem, state, Limits(max_iter=max(max_iter - 1, 0), tol=tol, relative=True))
    last = improved(problem, done.state, done.expected).state.posterior
    return VBFit(
        posterior=_record(last, grouped=groups is not None), lower_bounds=np.array(done.bounds),
        converged=bool(done.converged[0]), occupancy=done.expected.sums.occupancy.sum(0),
        groups=[] if groups is None else batch.ids,
    )  # fmt: skip


def prior_of(h: Hyperparameters, n_states: int, n_chains: int, diagonal: bool, d: int) -> Beliefs:
    """Return hyperparameters as the prior of one fit."""
    possible = np.ones((n_states, n_states), dtype=bool)
    return with_rows(prior_given(h, 1, d, diagonal), possible[0], possible, n_chains, h.alpha0, h.epsilon0)


def _checked_start(start: Posterior, h: Hyperparameters, n_chains: int, d: int) -> Variational:
    if start.beta is None or start.eta is not None:
        raise InputError("{start} is the posterior of clusters", "give one of an HMM, with beta and without eta")
    S = len(start.v)
    _check_shapes(start, S, n_chains, d)
    diagonal = start.W.ndim == 2
    rate = 1 / start.W if diagonal else np.asarray(np.linalg.inv(start.W), np.float64)
    emissions = NormalWishart(start.beta[None], start.v[None], start.m[None], rate[None])
    alpha = np.ascontiguousarray(np.broadcast_to(start.alpha, (n_chains, S)))
    epsilon = np.ascontiguousarray(np.broadcast_to(start.epsilon, (n_chains, S, S)))
    return Variational(Beliefs(alpha, epsilon, emissions), prior_of(h, S, n_chains, diagonal, d))


def _check_shapes(start: Posterior, S: int, n_chains: int, d: int) -> None:
    wanted: dict[str, list[tuple[int, ...]]] = {
        "alpha": [(S,), (n_chains, S)], "epsilon": [(S, S), (n_chains, S, S)], "beta": [(S,)], "m": [(S, d)],
        "W": [(S, d), (S, d, d)],
    }  # fmt: skip
    for name, shapes in wanted.items():
        shape = getattr(start, name).shape
        if shape not in shapes:
            right = " or ".join(map(str, shapes))
            raise InputError(
                "{name} of {start} has shape {shape}; it must be {right}", name=name, shape=shape, right=right
            )


def _record(q: Beliefs, grouped: bool) -> Posterior:
    own = q.emissions
    assert isinstance(own, NormalWishart)
    rows = (q.start, q.trans) if grouped else (q.start[0], q.trans[0])
    return Posterior(alpha=rows[0], epsilon=rows[1], beta=own.beta[0], v=own.v[0], m=own.m[0], W=own.W[0])
