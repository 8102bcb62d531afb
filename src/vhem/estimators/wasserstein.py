"""The aggregated Wasserstein distance between HMMs (Chen, Ye and Li)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_in_range, check_integer, check_real
from vhem._support.errors import ParameterError
from vhem.estimators.divergence import check_dimensions
from vhem.kernels.reduction import expected_visits
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m

_CHUNK = 4000  # variables of one linear program: enough to hide the solver's overhead, few enough to stay fast


class _States(NamedTuple):
    """One HMM as this distance sees it: weighted Gaussians and how they follow one another."""

    share: FloatArray  #: (S,) of time spent in each state
    transmat: FloatArray  #: (S, S)
    means: FloatArray  #: (S, d)
    covars: FloatArray  #: (S, d) or (S, d, d)


def aggregated_wasserstein(
    a: H3M | HMM | list[HMM], b: H3M | HMM | list[HMM], alpha: float = 0.5, *, length: int | None = None
) -> FloatArray:
    """Measure how far apart HMMs are: match their states, then compare states and transitions.

    d = (1 - α) R + α P, for models with states s and s', shares of time u, u', and transitions A, A':

    - the matching W (S, S') is the optimal transport of u to u' at the cost c(s,s') of turning one state's Gaussian
      into the other's (squared 2-Wasserstein distance), and R² = Σ W c its price;
    - Ã' = W_r A' W_cᵀ carries the second model's transitions over to the first one's states, W_r and W_c being W with
      rows or columns divided by their sums; Ã = W_cᵀ A W_r is the way back;
    - P² = Σ_s u_s T(A_s·, Ã'_s·) + Σ_s' u'_s' T(A'_s'·, Ã_s'·), with T the price of transporting one row to the other
      at the costs between the states of one model.

    All transports are solved exactly, as linear programs.

    Parameters
    ----------
    a, b : H3M, HMM or list of HMM
        The models. A state with several Gaussians counts as one Gaussian with their mean and covariance.
    alpha : float
        Share of the transitions in the distance, 0 to 1.
    length : int, optional
        The shares of time are those of the first `length` frames; None: those of the long run, as in the paper, which
        leaves a left-right model with nothing but its last state.

    Returns
    -------
    ndarray of shape (K_a, K_b)
        The distances, in units of the observations.

    References
    ----------
    Y. Chen, J. Ye, J. Li, "Aggregated Wasserstein distance and state registration for hidden Markov models", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 42, 2020. The form is the paper's minimised distance with
    p = 2.

    Examples
    --------
    >>> import vhem
    >>> low = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    >>> high = vhem.HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], [[3.0], [3.0]], [[1.0], [1.0]])
    >>> vhem.aggregated_wasserstein(low, high).round(4)
    array([[1.5]])
    """
    first = check_h3m("a", a)
    second = first if b is a else check_h3m("b", b)
    check_dimensions("a", first, "b", second)
    alpha = check_real("alpha", alpha, 0.0)
    if alpha > 1:
        raise ParameterError("alpha", alpha, "must be a number from 0 to 1")
    if length is not None:
        check_integer("length", length, 1)
    left, right = _states(first, length), _states(second, length)
    rows, columns = np.triu_indices(len(left), 1) if first is second else _all_pairs(len(left), len(right))
    distance = np.zeros((len(left), len(right)))
    distance[rows, columns] = _distances([(left[i], right[j]) for i, j in zip(rows, columns, strict=True)], alpha)
    check_in_range("a distance between two HMMs", distance)
    return distance + distance.T if first is second else distance


def _all_pairs(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(n), m), np.tile(np.arange(m), n)


def _states(h3m: H3M, length: int | None) -> list[_States]:
    p = h3m.parameters
    share = h3m.stationary() if length is None else expected_visits(p, length) / length
    means = np.einsum("ksm,ksmd->ksd", p.mix_weights, h3m.means)
    spread = h3m.means - means[:, :, None]
    if h3m.covariance_type == "diag":
        covars = np.einsum("ksm,ksmd->ksd", p.mix_weights, h3m.covars + spread**2)
    else:
        covars = np.einsum("ksm,ksmde->ksde", p.mix_weights, h3m.covars + spread[..., None] * spread[..., None, :])
    return [
        _States(share[k, :S] / share[k, :S].sum(), p.transmat[k, :S, :S], means[k, :S], covars[k, :S])
        for k, S in enumerate(p.n_states)
    ]


def _distances(pairs: list[tuple[_States, _States]], alpha: float) -> FloatArray:
    costs = [gaussian_costs(a, b) for a, b in pairs]
    plans = transport([(a.share, b.share, cost) for (a, b), cost in zip(pairs, costs, strict=True)])
    states = np.array([(plan * cost).sum() for plan, cost in zip(plans, costs, strict=True)])
    found = (1 - alpha) * np.sqrt(np.maximum(states, 0.0))
    if alpha > 0:
        found += alpha * np.sqrt(np.maximum(_transition_prices(pairs, plans), 0.0))
    return np.asarray(found)


def _transition_prices(pairs: list[tuple[_States, _States]], plans: list[FloatArray]) -> FloatArray:
    """Return P² of every pair."""
    problems, weights, owner = [], [], []
    for n, ((a, b), plan) in enumerate(zip(pairs, plans, strict=True)):
        forth, back = _shares(plan), _shares(plan.T)
        carried_b, carried_a = forth @ b.transmat @ back, back @ a.transmat @ forth
        for model, carried in ((a, carried_b), (b, carried_a)):
            cost = gaussian_costs(model, model)
            for share, row, other in zip(model.share, model.transmat, carried, strict=True):
                problems.append((row, other, cost))
                weights.append(share)
                owner.append(n)
    prices = [(plan * cost).sum() for plan, (_, _, cost) in zip(transport(problems), problems, strict=True)]
    return np.bincount(owner, np.array(weights) * prices, minlength=len(pairs)).astype(np.float64)


def _shares(plan: FloatArray) -> FloatArray:
    """Return rows divided by their sums; a state never visited is matched evenly with all, and has no weight."""
    total = plan.sum(1, keepdims=True)
    return np.where(total > 0, plan / np.where(total > 0, total, 1.0), 1.0 / plan.shape[1])


def gaussian_costs(a: _States, b: _States) -> FloatArray:
    """Return the squared 2-Wasserstein distances of states, |μ-μ'|² + tr(Σ + Σ' - 2 (Σ^½ Σ' Σ^½)^½), (S, S')."""
    distance = ((a.means[:, None] - b.means) ** 2).sum(-1)
    if a.covars.ndim == 2 and b.covars.ndim == 2:
        return np.asarray(distance + ((np.sqrt(a.covars)[:, None] - np.sqrt(b.covars)) ** 2).sum(-1))
    left, right = _matrices(a.covars), _matrices(b.covars)
    values, vectors = np.linalg.eigh(left)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    inner = np.linalg.eigvalsh(root[:, None] @ right @ root[:, None])
    overlap = np.sqrt(np.maximum(inner, 0.0)).sum(-1)
    traces = np.trace(left, axis1=1, axis2=2)[:, None] + np.trace(right, axis1=1, axis2=2)
    return np.asarray(distance + np.maximum(traces - 2 * overlap, 0.0))


def _matrices(covars: FloatArray) -> FloatArray:
    return covars[:, :, None] * np.eye(covars.shape[1]) if covars.ndim == 2 else covars


def transport(problems: list[tuple[FloatArray, FloatArray, FloatArray]]) -> list[FloatArray]:
    """Return the cheapest plan with the given row sums, column sums and costs, for every problem."""
    plans: list[FloatArray] = []
    chunk: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    size = 0
    for problem in problems:
        chunk.append(problem)
        size += problem[2].size
        if size >= _CHUNK:
            plans += _solve(chunk)
            chunk, size = [], 0
    return plans + _solve(chunk) if chunk else plans


def _solve(problems: list[tuple[FloatArray, FloatArray, FloatArray]]) -> list[FloatArray]:
    """Many small transport problems as one linear program, block by block."""
    from scipy.optimize import linprog  # noqa: PLC0415  (slow to import)
    from scipy.sparse import block_diag  # noqa: PLC0415

    blocks, sums, costs = [], [], []
    for p, q, cost in problems:
        n, m = cost.shape
        blocks.append(np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))]))
        sums += [p, q]
        costs.append(cost.ravel() / (cost.max() or 1.0))
    found = linprog(
        np.concatenate(costs), A_eq=block_diag(blocks, format="csr"), b_eq=np.concatenate(sums), method="highs"
    )
    if not found.success:
        raise RuntimeError(f"the matching of states failed: {found.message} Rescale the observations to unit variance.")
    ends = np.cumsum([cost.size for cost in costs])[:-1]
    parts = np.split(np.maximum(found.x, 0.0), ends)
    return [part.reshape(cost.shape) for part, (_, _, cost) in zip(parts, problems, strict=True)]
