"""fit_hmms: one HMM for every sequence, or for every group of sequences, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_integer, check_integers
from vhem._support.errors import Count, FitWarning, InputError, NotConvergedWarning, ParameterError, warn, warn_if_any
from vhem._support.phrases import AT_FLOOR, LOWERED, REINITIALISED, STILL
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import register_record
from vhem.bayes.records import Hyperparameters
from vhem.em.baum_welch import Fits
from vhem.em.display import showing_call
from vhem.em.fitting import FitPlan, fit_batch
from vhem.em.grouped import (
    Batch,
    Scale,
    frames_seen,
    named,
    still_channels,
    warn_of_items_without_values,
    warn_of_unseen,
)
from vhem.em.parameters import documented
from vhem.em.progress import FitProgress, FitReporter, check_callback
from vhem.estimators.bayesian_hmms import Bayesian, fit_bayesian
from vhem.kernels.counting import Pairs, log_likelihoods
from vhem.kernels.engine import n_threads
from vhem.models import H3M, HMM
from vhem.models.stacking import stack
from vhem.sequences import Sequences, SequencesLike, as_sequences

_STARTS = {"em": 1, "vb": 10}  # restarts by default


class FitReport(NamedTuple):
    """The results of `fit_hmms`; arrays have one entry, or row, per HMM."""

    log_likelihoods: FloatArray  #: of the group's sequences (times their weights) under its HMM
    n_iter: IntArray  #: iterations made
    converged: np.ndarray  #: whether the likelihood converged
    n_states: IntArray  #: numbers of states
    candidates: list[int]  #: numbers of states that were tried
    scores: FloatArray  #: (K, candidates) the criterion of each, higher is better; with a single candidate, its BIC
    n_floored: IntArray  #: Gaussians with a variance at its floor
    n_reseeded: IntArray  #: states that became empty and were re-initialised
    n_falls: IntArray  #: iterations in which the objective fell beyond rounding
    lower_bounds: FloatArray | None = None  #: of "vb": (K, candidates) the bounds, without ln S!
    n_removed: IntArray | None = None  #: of "vb": states that nothing visited and that were removed


@overload
def fit_hmms(sequences: SequencesLike, *args: Any, return_report: Literal[False] = False, **kwargs: Any) -> H3M: ...
@overload
def fit_hmms(
    sequences: SequencesLike, *args: Any, return_report: Literal[True], **kwargs: Any
) -> tuple[H3M, FitReport]: ...
@documented  # type: ignore[misc]  # the overloads only say what return_report does
@showing_call
def fit_hmms(
    sequences: SequencesLike,
    n_states: int | Iterable[int] = 3,
    n_mix: int = 1,
    covariance_type: str = "diag",
    groups: Iterable[Any] | None = None,
    topology: str = "ergodic",
    n_init: int | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
    reg_covar: float = 1e-3,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    *,
    init: str | H3M | HMM = "auto",
    criterion: str = "bic",
    sample_weight: npt.ArrayLike | None = None,
    startprob_prior: float = 0.1,
    transmat_prior: float = 0.1,
    covars_prior: float = 0.1,
    pooling: str | None = "auto",
    method: str = "em",
    hyperparameters: str | Hyperparameters = "auto",
    conditions: Iterable[Any] | None = None,
    regions: Any = None,
    emissions: Any = "gaussian",
    callback: Callable[[FitProgress], None] | None = None,
    verbose: bool | None = None,
    return_report: bool = False,
) -> H3M | tuple[H3M, FitReport]:
    """Learn one HMM for every sequence, or for every group of sequences, all at once.

    Baum-Welch: with γ and ξ the posterior probabilities of states and transitions, π ∝ Σ γ_1, a_rs ∝ Σ_t ξ_t(r,s), and
    means and covariances are those of the frames weighted by γ. Every iteration raises the log-likelihood plus the
    logs of the priors.

    Parameters
    ----------
    sequences : list of (T_i, d) arrays, 3-D array or Sequences
        The sequences. NaN marks missing values, which are integrated out exactly, in the learning too.
    n_states : int, or several to choose from
        States of each HMM. Of several, such as ``range(1, 6)``, each HMM gets the number that is best by `criterion`.
    n_mix : int
        Gaussians per state.
    covariance_type : {"diag", "full"}
        Form of the covariances.
    groups : list, optional
        One label per sequence (a person, a song): those with equal labels share an HMM. Groups stored in a `Sequences`
        are not used automatically, because they are often classes to be found, not people; write
        ``groups=sequences.groups``.
    <topology>
    n_init : int, optional
        Restarts; of each HMM the best is kept. None: 1, which is enough for VHEM, because it averages over many HMMs;
        10 with ``method="vb"``.
    <limits>
    reg_covar : float
        Floor under the variances, as a share of the variance of the group's values in that dimension: 1e-3 allows
        deviations down to 3 % of the data's. It is a constraint under which the likelihood is maximised exactly, so
        it never falls. (For full covariances, Σ - floor stays positive semi-definite.)
    <random_state>
    <n_jobs>
    init : {"auto", "kmeans", "segments", "random"}, H3M or HMM
        Where to start: k-means on the frames of each group; stretches of equal length, one per state (restarts cut at
        random); random frames as means. "auto" is "kmeans" for ergodic HMMs and "segments" for others. Give an H3M with
        one HMM per group, or one HMM for all; the order of their states is kept, and their sizes, covariances and zeros
        replace `n_states`, `n_mix`, `covariance_type` and `topology`.
    criterion : {"bic", "aic", "held-out"}
        How to choose among several `n_states`. "held-out" learns without every fifth sequence of a group, or without
        the last fifth of a single sequence, and takes the likelihood of what was left out.
    sample_weight : array of shape (n,), optional
        How much each sequence counts. If not given, the case weights of the sequences, if they have any: they count
        inside groups, and become the weights of the HMMs.
    startprob_prior, transmat_prior : float
        Dirichlet priors: pseudo-counts of first frames, and of transitions from every state, spread over all that are
        possible. The default of 0.1 is negligible against a hundred frames, and keeps an HMM learned from thirty from
        ruling out what it merely has not seen. 0 switches a prior off.
    covars_prior : float
        Inverse-gamma (inverse-Wishart) prior: the number of pseudo-frames per Gaussian, with the variance of the
        group's values. The default of 0.1 gives a state of one frame a tenth of that variance instead of none.
    pooling : {"auto"}, optional
        "auto": HMMs borrow strength from each other. Once all are learned, what they say together about variances
        becomes the prior of each, with as many pseudo-frames as the evidence warrants, and learning continues with it
        (empirical Bayes). Each is then learned again from the HMM of another group that explains its sequences best, so
        that similar sequences are cut into states in the same way. This helps most if each HMM has few frames, and
        takes two to three times as long. Families other than Gaussians do the second only. Nothing is pooled if there
        are fewer than eight HMMs, if states have several Gaussians, if `init` is a model, or with ``covars_prior=0``.
        None: each HMM is learned separately.
    method : {"em", "vb"}
        "em" maximises the likelihood. "vb", variational Bayes, finds a posterior distribution of the parameters; the
        HMMs returned are its means, and carry it (`H3M.posterior`). It needs no criterion and no floor: of several
        `n_states` each HMM gets the one whose lower bound of the evidence, plus ln S! for the S! ways to number the
        states, is largest, and states that nothing visits are removed. `criterion`, `reg_covar`, `pooling` and the
        `*_prior` parameters then have no effect.
    hyperparameters : {"auto", "data", "each", "shared"} or Hyperparameters
        Of "vb": the priors. "data": weak, in units of each group's own data. "each": learned for every HMM from its
        own data. "shared": one set for all HMMs, learned from all of them, so that people with few trials borrow from
        the others. "auto": "shared" if there are at least eight HMMs, otherwise "data". Or fixed ones, as a
        :class:`vhem.bayes.Hyperparameters`.
    conditions : list, optional
        Of "vb": one label per sequence, such as the condition of an experiment. Every group then has one HMM per
        condition: they share the emissions and have start and transition probabilities of their own.
    regions : array of shape (R, 2 d), or a pair of arrays, optional
        Of "vb": areas of interest that are known, so that only start and transition probabilities are learned. Rows are
        centre and size of a box (x, y, width, height for d = 2), which a Gaussian covers with two standard deviations
        to each side; or means (R, d) and covariances (R, d) or (R, d, d). They replace `n_states`.
    <emissions>
    callback : callable, optional
        Called after every few iterations with a `FitProgress` (fields start, n_starts, n_settled, n_hmms). To stop,
        raise an exception in it.
    <verbose>
    return_report : bool
        Whether to return a :class:`FitReport` too.

    Returns
    -------
    h3m : H3M
        One HMM per sequence, with the ids of the sequences, or per group, with the labels as ids, in the order of first
        appearance (with `conditions`, ids are pairs of group and condition); weights are uniform, or those of the
        cases. States that explain the most frames come first, except that left-right HMMs keep their order in time, and
        a given `init` its own.
    report : FitReport
        What happened; only with `return_report`.

    Notes
    -----
    The data's variance, for floor and prior, is each group's own; the fewer frames it has, the more of the variance
    within all groups is mixed in. A state that explains less than a hundredth of a frame has become empty and is
    re-initialised from a random frame; this is counted and reported in a warning.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> rng = np.random.default_rng(0)
    >>> slow = [np.repeat([0.0, 5.0], 30) + rng.normal(size=60) for _ in range(3)]
    >>> h3m = vhem.fit_hmms(slow, n_states=2, random_state=0)
    >>> h3m
    H3M(n_hmms=3, n_states=2, n_mix=1, n_dims=1, covariance_type='diag')
    >>> np.sort(h3m[0].means.ravel()).round(1)
    array([-0.1,  5.3])
    >>> together, report = vhem.fit_hmms(slow, range(1, 4), groups=["a", "a", "a"], random_state=0, return_report=True)
    >>> together.ids, report.n_states
    (['a'], array([2]))
    """
    del verbose  # read where progress is shown
    check_choice("method", method, ("em", "vb"))
    if n_init is None:
        n_init = _STARTS[method]
    plan = FitPlan.checked(
        n_mix=n_mix, covariance_type=covariance_type, topology=topology, init=init, n_init=n_init, max_iter=max_iter,
        tol=tol, reg_covar=reg_covar, startprob_prior=startprob_prior, transmat_prior=transmat_prior,
        covars_prior=covars_prior, emissions=emissions, n_threads=n_threads(n_jobs),
    )  # fmt: skip
    if pooling is not None:
        check_choice("pooling", pooling, ("auto",))
    plan = replace(plan, pooling=pooling is not None and covars_prior > 0)
    check_choice("criterion", criterion, ("bic", "aic", "held-out"))
    check_callback(callback)
    checked = as_sequences(sequences)
    template = plan.template(checked)
    if method == "vb":
        bayesian = Bayesian(hyperparameters=hyperparameters, conditions=conditions, regions=regions, template=template)
        report, h3m = _bayesian(
            checked, groups, sample_weight, n_states, plan, bayesian, callback, generator(random_state)
        )
        return (h3m, report) if return_report else h3m
    _check_unused(hyperparameters=hyperparameters, conditions=conditions, regions=regions)
    batch = Batch.of(checked, groups, sample_weight, template)
    candidates = _candidates(n_states) if isinstance(init, str) else [0]
    plan = replace(plan, reporter=_reporter(callback, len(candidates), criterion, plan))
    report, h3m = _by_em(checked, batch, candidates, criterion, plan, generator(random_state))
    return (h3m, report) if return_report else h3m


def _by_em(
    data: Sequences, batch: Batch, candidates: list[int], criterion: str, plan: FitPlan, rng: np.random.Generator
) -> tuple[FitReport, H3M]:
    """Fit by Baum-Welch, and report it."""
    chosen, scores = choose_sizes(batch, candidates, criterion, plan, rng)
    report = FitReport(
        *(chosen.log_likelihoods, chosen.n_iter, chosen.converged, chosen.models.n_states, candidates, scores),
        *(chosen.n_floored, chosen.n_reseeded, chosen.n_falls),
    )
    _warn(report, batch, plan, data.channels)
    weights = None if batch.cases is None else batch.cases / batch.cases.sum()
    h3m = H3M.of_models(chosen.models, weights, batch.ids, data._remembered).with_evidence(*batch.evidence)
    return report, h3m


def _check_unused(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not (isinstance(value, str) and value == "auto"):
            raise InputError("{parameter} is only for variational Bayes", "add {method:'vb'}", parameter=name)


def _bayesian(
    data: Sequences,
    groups: Iterable[Any] | None,
    sample_weight: npt.ArrayLike | None,
    n_states: Any,
    plan: FitPlan,
    bayesian: Bayesian,
    callback: Callable[[FitProgress], None] | None,
    rng: np.random.Generator,
) -> tuple[FitReport, H3M]:
    """Fit by variational Bayes, and report it in the same form."""
    candidates = _candidates(n_states) if isinstance(plan.init, str) and bayesian.regions is None else [0]
    batch, made = fit_bayesian(data, groups, sample_weight, candidates, plan, bayesian, callback, rng)
    none = np.zeros(len(made.h3m), dtype=np.int64)
    pairs = Pairs(np.arange(len(batch.groups)), batch.groups)
    found = log_likelihoods(made.h3m.parameters, batch.X, batch.offsets, pairs, plan.n_threads)
    likelihoods = np.bincount(batch.groups, batch.weights * found, len(none)).astype(np.float64)
    report = FitReport(
        *(likelihoods, made.n_iter, made.converged, made.h3m.n_states, made.candidates, made.scores),
        *(none, none, none, made.lower_bounds, made.n_removed),
    )
    _warn(report, batch, plan, data.channels)
    return report, made.h3m.with_evidence(*batch.evidence)


def _reporter(
    callback: Callable[[FitProgress], None] | None, n_candidates: int, criterion: str, plan: FitPlan
) -> FitReporter:
    rounds = 2 if criterion == "held-out" and n_candidates > 1 else 1
    return FitReporter(callback, rounds * n_candidates * (plan.n_init if isinstance(plan.init, str) else 1))


def _candidates(n_states: Any) -> list[int]:
    if not isinstance(n_states, Iterable):
        return [check_integer("n_states", n_states, 1)]
    sizes = sorted(set(check_integers("n_states", list(n_states), 1)))
    if not sizes:
        raise ParameterError("n_states", n_states, "is empty: give one number of states, or several to choose from")
    return sizes


def choose_sizes(
    batch: Batch, candidates: list[int], criterion: str, plan: FitPlan, rng: np.random.Generator
) -> tuple[Fits, FloatArray]:
    """Fit HMMs of every size, and keep the best of each group by the criterion."""
    scale = Scale.of(batch)
    fits = [fit_batch(batch, scale, plan.with_states(S), rng) for S in candidates]
    if criterion == "held-out" and len(candidates) > 1:
        scores = np.column_stack([held_out_scores(batch, scale, plan.with_states(S), rng) for S in candidates])
    else:
        scores = np.column_stack([information_scores(criterion, batch, fit) for fit in fits])
    if len(fits) == 1:
        return fits[0], scores
    rows = np.arange(len(batch.ids))
    place = scores.argmax(axis=1) * len(rows) + rows
    results = (np.concatenate(arrays)[place] for arrays in zip(*(_padded(f, fits) for f in fits), strict=True))
    return Fits(stack([fit.models for fit in fits]).take(place), *results), scores


def _padded(fit: Fits, fits: list[Fits]) -> tuple[Any, ...]:
    most = max(f.occupancy.shape[1] for f in fits)
    occupancy = np.pad(fit.occupancy, ((0, 0), (0, most - fit.occupancy.shape[1])))
    return fit._replace(occupancy=occupancy)[1:]


def information_scores(criterion: str, batch: Batch, fits: Fits) -> FloatArray:
    """Return log L - ½ p log n (BIC) or log L - p (AIC) for p parameters and n observed frames: higher is better."""
    n = frames_seen(batch.X, batch.frame_offsets).astype(np.float64)
    price = np.ones_like(n) if criterion == "aic" else 0.5 * np.log(np.maximum(n, 1.0))
    return np.asarray(fits.log_likelihoods - price * fits.models.n_parameters())


def held_out_scores(batch: Batch, scale: Scale, plan: FitPlan, rng: np.random.Generator) -> FloatArray:
    """Return the log-likelihood of every fifth sequence, or of the last fifth of a single one, after the rest."""
    size = np.bincount(batch.groups)
    place = np.arange(len(batch.groups)) - np.searchsorted(batch.groups, batch.groups)
    n = size[batch.groups]
    held = (n > 1) & ((place % 5 == 4) | ((n < 5) & (place == n - 1)))
    lengths = np.where(n > 1, batch.lengths, batch.lengths - batch.lengths // 5)
    kept = np.flatnonzero(~held)
    training = batch.cut(kept, lengths[kept], batch.groups[kept], batch.ids)
    models = fit_batch(training, scale, plan, rng).models
    scores = np.zeros(len(batch.ids))
    for part, index, sign in ((batch, held | (n == 1), 1.0), (training, (n == 1)[kept], -1.0)):
        pairs = Pairs(np.flatnonzero(index), part.groups[index])
        found = log_likelihoods(models, part.X, part.offsets, pairs, plan.n_threads)
        scores += sign * np.bincount(pairs.model, part.weights[index] * found, len(scores))
    return scores


def _warn(report: FitReport, batch: Batch, plan: FitPlan, channels: list[str]) -> None:
    K = len(report.n_iter)
    warn_of_items_without_values(batch.X, batch.frame_offsets, batch.ids)
    _warn_of_short_items(report, batch)
    warn_of_unseen(batch.X)
    if plan.limits.tol > 0 and not report.converged.all():
        who = f"{K - report.converged.sum()} of {K} HMMs"
        warn(NotConvergedWarning(who, "their likelihood", plan.limits.max_iter))
    if report.n_floored.any() and (still := still_channels(batch.X, batch.frame_offsets, channels)):
        _warn_of_counts(report.n_floored, AT_FLOOR, STILL, still=still)
    else:
        _warn_of_counts(report.n_floored, AT_FLOOR)
    _warn_of_counts(report.n_reseeded, REINITIALISED, "{n_states} may be too large")
    _warn_of_counts(report.n_falls, LOWERED)


def _warn_of_counts(counts: IntArray, problem: str, *cures: str, **values: Any) -> None:
    some, n_hmms = int((counts > 0).sum()), Count(len(counts))
    text = problem + " ({some} of {hmms:HMM})"
    warn_if_any(int(counts.sum()), text, *cures, some=some, hmms=n_hmms, **values)


def _warn_of_short_items(report: FitReport, batch: Batch) -> None:
    """Name the sequences or groups that have too few frames to learn from."""
    n_seen = frames_seen(batch.X, batch.frame_offsets)
    thin = named(batch.ids, (n_seen > 0) & (n_seen < report.n_states))
    if thin:
        warn(FitWarning("there are fewer frames than states in {names}", "use fewer states, or groups", names=thin))


register_record(FitReport)
