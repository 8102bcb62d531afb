"""fit_hmms by variational Bayes: what users ask for, made into problems, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.checks import check_choice
from vhem._support.errors import Count, InputError
from vhem.bayes.fitting import Chains, VBFits, VBPlan, check_one_component, chosen_sizes, fit_sizes
from vhem.bayes.records import Hyperparameters
from vhem.em.fitting import FitPlan
from vhem.em.grouped import Batch
from vhem.em.progress import FitProgress, FitReporter
from vhem.emissions.components import Components
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.known import Known
from vhem.models import H3M
from vhem.sequences import Sequences

_MANY = 8  # HMMs from which "auto" shares hyperparameters among them
_BOX = 4.0  # standard deviations from side to side of a region


@dataclass(frozen=True, kw_only=True)
class Bayesian:
    """What only variational Bayes is asked."""

    hyperparameters: str | Hyperparameters = "auto"
    conditions: Iterable[Any] | None = None
    regions: Any = None
    template: Components | None = None  #: one component of the family to learn; a Gaussian if not given


class BayesianFit(NamedTuple):
    """The results; arrays have one entry, or row, per HMM."""

    h3m: H3M
    n_iter: IntArray
    converged: BoolArray
    candidates: list[int]
    scores: FloatArray
    lower_bounds: FloatArray
    n_removed: IntArray


def fit_bayesian(
    data: Sequences,
    groups: Iterable[Any] | None,
    sample_weight: npt.ArrayLike | None,
    sizes: list[int],
    plan: FitPlan,
    asked: Bayesian,
    callback: Callable[[FitProgress], None] | None,
    rng: np.random.Generator,
) -> tuple[Batch, BayesianFit]:
    """Return one HMM per group, or per group and condition, with its posterior."""
    check_one_component(plan.shape.n_mix)
    _check_gaussian(asked)
    batch, chains = _grouped(data, groups, sample_weight, asked)
    vb = _plan(plan, asked, batch, callback, len(sizes))
    if vb.regions is not None:
        sizes = [vb.regions.lead[1]]
    elif not isinstance(plan.init, str):
        sizes = [int(plan.init.parameters.startprob.shape[1])]
        if isinstance(plan.init.emissions, Gaussian):
            vb = replace(vb, shape=replace(vb.shape, covariance_type=plan.init.covariance_type))
    fits = fit_sizes(batch, chains, sizes, vb, rng)
    keeps_order = vb.regions is not None or plan.shape.topology != "ergodic" or not isinstance(plan.init, str)
    chosen = chosen_sizes(batch, chains, fits, keeps_order)
    h3m = H3M.of_posterior(chosen.posterior, ids=chains.ids)
    groups_of = chains.owner
    bounds = np.column_stack([fit.bounds for fit in fits])
    n_iter, converged = (_picked(fits, chosen.size, name)[groups_of] for name in ("n_iter", "converged"))
    made = BayesianFit(
        h3m, n_iter, converged, sizes, chosen.scores[groups_of], bounds[groups_of], chosen.n_removed
    )  # fmt: skip
    return batch._replace(groups=chains.of_sequence, ids=chains.ids), made


def _check_gaussian(asked: Bayesian) -> None:
    """Refuse what only Gaussians have for other families."""
    if asked.template is None or isinstance(asked.template, Gaussian):
        return
    given = {"regions": asked.regions is not None}
    given["hyperparameters"] = isinstance(asked.hyperparameters, Hyperparameters)
    for name in (name for name, is_given in given.items() if is_given):
        raise InputError("{name} are those of Gaussian states, not {kind}", name=name, kind=asked.template.family)


def _picked(fits: list[VBFits], size: IntArray, name: str) -> Any:
    return np.stack([getattr(fit, name) for fit in fits])[size, np.arange(len(size))]


def _plan(
    plan: FitPlan, asked: Bayesian, batch: Batch, callback: Callable[[FitProgress], None] | None, n_sizes: int
) -> VBPlan:
    given = asked.hyperparameters
    if not isinstance(given, Hyperparameters):
        check_choice("hyperparameters", given, ("auto", "data", "each", "shared"))
        if given == "auto":
            given = "shared" if len(batch.ids) >= _MANY else "data"
    regions = None if asked.regions is None else regions_of(asked.regions, batch.X.shape[1])
    shape = plan.shape
    if regions is not None:
        shape = replace(shape, n_states=regions.lead[1], covariance_type="diag" if _is_diagonal(regions) else "full")
    rounds = n_sizes * (2 if given == "each" else 1) + (given == "shared")
    return VBPlan(
        shape=shape, limits=plan.limits, init=plan.init, n_init=plan.n_init, hyperparameters=given, regions=regions,
        n_threads=plan.n_threads, reporter=FitReporter(callback, rounds),
    )  # fmt: skip


def _is_diagonal(regions: Known) -> bool:
    return regions.covars.ndim == regions.means.ndim


def regions_of(regions: Any, d: int) -> Known:
    """Return boxes, or means and covariances, as known emissions (1, R)."""
    if isinstance(regions, tuple) and len(regions) == 2:
        means, covars = (np.asarray(part, np.float64) for part in regions)
        right = means.ndim == 2 and means.shape[1] == d and covars.shape in (means.shape, (*means.shape, d))
    else:
        boxes = np.asarray(regions, np.float64)
        right = boxes.ndim == 2 and boxes.shape[1] == 2 * d
        means, covars = (boxes[:, :d], (boxes[:, d:] / _BOX) ** 2) if right else (boxes, boxes)
    if not right or not len(means):
        raise InputError(
            "{regions} must be rows of {n} numbers (centre and size), or a pair of means (R, {d}) and covariances",
            n=2 * d, d=d,
        )  # fmt: skip
    variances = covars if covars.ndim == 2 else np.linalg.eigvalsh(covars)
    if not (np.isfinite(means).all() and np.isfinite(covars).all() and (variances > 0).all()):
        raise InputError("{regions} must be finite, and sizes and variances positive")
    return Known(means[None].copy(), covars[None].copy())


def _grouped(
    data: Sequences, groups: Iterable[Any] | None, sample_weight: npt.ArrayLike | None, asked: Bayesian
) -> tuple[Batch, Chains]:
    conditions = asked.conditions
    if conditions is None:
        batch = Batch.of(data, groups, sample_weight, asked.template)
        return batch, Chains.one_each(batch)
    labels = conditions.tolist() if isinstance(conditions, np.ndarray) else list(conditions)
    if len(labels) != len(data):
        problem = "{conditions} has {k} entries for {n:sequence}"
        raise InputError(problem, "give one value for each sequence", k=len(labels), n=Count(len(data)))
    if groups is None:
        raise InputError("{conditions} needs {groups}: whose conditions are they?")
    names = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    by_chain = Batch.of(data, list(zip(names, labels, strict=False)), sample_weight, asked.template)
    # Chains of one group must be neighbours, and groups in the order of their first sequence.
    first = {name: k for k, name in reversed(list(enumerate(names)))}
    order = sorted(range(len(by_chain.ids)), key=lambda c: first[by_chain.ids[c][0]])
    by_chain = by_chain.take(np.array(order))
    owners = [first[name] for name, _ in by_chain.ids]
    people, owner = np.unique(owners, return_inverse=True)
    batch = by_chain._replace(groups=owner[by_chain.groups], ids=[names[k] for k in people])
    return batch, Chains(by_chain.groups, owner.astype(np.int64), by_chain.ids)
