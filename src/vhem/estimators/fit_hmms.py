"""fit_hmms: one HMM for every sequence, or for every group of sequences, all at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_integer, check_integers, check_real
from vhem._support.errors import Count, FitWarning, NotConvergedWarning, ParameterError, warn_if_any
from vhem._support.phrases import AT_FLOOR, LOWERED, REINITIALISED
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import register_record
from vhem.em.grouped import Batch, Scale
from vhem.em.many_hmms import Fits, Settings, run
from vhem.em.progress import FitProgress, FitReporter, check_callback
from vhem.em.sequence_starts import STARTS, Shape, start_names
from vhem.em.topology import TOPOLOGIES, allowed
from vhem.kernels.counting import Pairs, Prior, log_likelihoods
from vhem.kernels.engine import n_threads
from vhem.kernels.parameters import Parameters
from vhem.models import H3M, HMM
from vhem.models.stacking import stack
from vhem.sequences import SequencesLike, as_sequences

LEAST_FLOOR = 1e-8  # of the data's variance, whatever reg_covar is: below it, sums over frames are rounding errors


class FitReport(NamedTuple):
    """How the HMMs of `fit_hmms` came out; arrays have one entry, or row, for each."""

    log_likelihoods: FloatArray  #: of the group's sequences (times their weights) under its HMM
    n_iter: IntArray  #: iterations made
    converged: np.ndarray  #: whether the likelihood had settled
    n_states: IntArray  #: numbers of states
    candidates: list[int]  #: numbers of states that were tried
    scores: FloatArray  #: (K, candidates) the criterion of each, higher is better; of the one candidate, its BIC
    n_floored: IntArray  #: Gaussians whose variances ended at their floor
    n_reseeded: IntArray  #: states that had died and were started again
    n_falls: IntArray  #: iterations in which the objective fell beyond rounding


class Options(NamedTuple):
    """What all fits of one call share."""

    n_mix: int
    covariance_type: str
    topology: str
    init: str | H3M | HMM
    n_init: int
    max_iter: int
    tol: float
    reg_covar: float
    startprob_prior: float
    transmat_prior: float
    covars_prior: float
    n_threads: int
    reporter: FitReporter = FitReporter()

    def checked(self) -> Options:
        """Return the options if all are right."""
        check_integer("n_mix", self.n_mix, 1)
        check_choice("covariance_type", self.covariance_type, ("diag", "full"))
        check_choice("topology", self.topology, list(TOPOLOGIES))
        if not isinstance(self.init, (H3M, HMM)):
            check_choice("init", self.init, ("auto", *STARTS))
        check_integer("n_init", self.n_init, 1)
        check_integer("max_iter", self.max_iter, 0)
        for name in ("tol", "reg_covar", "startprob_prior", "transmat_prior", "covars_prior"):
            check_real(name, getattr(self, name), 0.0)
        return self


@overload
def fit_hmms(sequences: SequencesLike, *args: Any, return_report: Literal[False] = False, **kwargs: Any) -> H3M: ...
@overload
def fit_hmms(
    sequences: SequencesLike, *args: Any, return_report: Literal[True], **kwargs: Any
) -> tuple[H3M, FitReport]: ...
def fit_hmms(  # type: ignore[misc]  # the overloads only tell what return_report does
    sequences: SequencesLike,
    n_states: int | Iterable[int] = 3,
    n_mix: int = 1,
    covariance_type: str = "diag",
    groups: Iterable[Any] | None = None,
    topology: str = "ergodic",
    n_init: int = 1,
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
    callback: Callable[[FitProgress], None] | None = None,
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
        States of each HMM. Of several, such as ``range(1, 6)``, each HMM has the number that `criterion` likes best.
    n_mix : int
        Gaussians a state.
    covariance_type : {"diag", "full"}
        Form of the covariances.
    groups : list, optional
        One label per sequence (a person, a song): those with equal labels share an HMM. Groups stored in a `Sequences`
        are not taken by themselves, because they often are classes to be found, not persons; write
        ``groups=sequences.groups``.
    topology : {"ergodic", "left-right", "left-right-skip"}
        Which transitions are possible: all; to stay or move on to the next state; or also to skip one. Left-right HMMs
        start in their first state.
    n_init : int
        Restarts; of each HMM the best is kept. One is enough for VHEM, which averages over many HMMs.
    max_iter : int
        Largest number of iterations.
    tol : float
        An HMM has settled when an iteration gains less than this many nats per frame: independent of the units of the
        data and of lengths. The default stops where a 100-frame sequence would gain a hundredth of a nat.
    reg_covar : float
        Floor under the variances, as a share of the variance of the group's values in that dimension: 1e-3 allows
        deviations down to 3 % of the data's. It is a constraint under which the likelihood is maximised exactly, so
        it never falls. (For full covariances, Σ - floor stays positive semi-definite.)
    random_state : int, numpy Generator, RandomState or None
        Seed of the starts. One seed gives one answer, whatever `n_jobs`.
    n_jobs : int, optional
        Threads. None or -1 uses every core.
    init : {"auto", "kmeans", "segments", "random"}, H3M or HMM
        Where to start: k-means on the frames of each group; stretches of equal length, one a state (restarts cut at
        random); random frames as means. "auto" is "kmeans" for ergodic HMMs and "segments" for others. An H3M has one
        HMM per group, an HMM serves all; the order of their states is kept, and their sizes, covariances and zeros
        take the place of `n_states`, `n_mix`, `covariance_type` and `topology`.
    criterion : {"bic", "aic", "held-out"}
        How to choose among several `n_states`. "held-out" learns without every fifth sequence of a group, or without
        the last fifth of a single sequence, and takes the likelihood of what was left out.
    sample_weight : array of shape (n,), optional
        How much each sequence counts.
    startprob_prior, transmat_prior : float
        Dirichlet priors: so many imagined first frames, and transitions from every state, spread over all that are
        possible. The default of 0.1 is nothing against a hundred frames, and keeps an HMM learned from thirty from
        calling impossible what it merely has not seen. 0 switches a prior off.
    covars_prior : float
        Inverse-gamma (inverse-Wishart) prior: so many imagined frames of every Gaussian, with the variance of the
        group's values. The default of 0.1 gives a state of one frame a tenth of that variance instead of none.
    callback : callable, optional
        Called after every few iterations with a `FitProgress` (fields start, n_starts, n_settled, n_hmms). To stop,
        raise an exception in it.
    return_report : bool
        Whether to return a :class:`FitReport` too.

    Returns
    -------
    h3m : H3M
        One HMM per sequence, with the ids of the sequences, or per group, with the labels as ids, in the order of first
        appearance; uniform weights. States that explain most frames come first, but in their order in time in
        left-right HMMs, and as given where `init` is a model.
    report : FitReport
        What happened; only with `return_report`.

    Notes
    -----
    The data's variance, for floor and prior, is each group's own; the fewer frames it has, the more of the variance
    within all groups is mixed in. A state that comes to explain less than a hundredth of a frame has died, and is
    started again from a random frame; that is counted and warned of.

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
    options = Options(
        n_mix, covariance_type, topology, init, n_init, max_iter, tol, reg_covar, startprob_prior, transmat_prior,
        covars_prior, n_threads(n_jobs),
    ).checked()  # fmt: skip
    check_choice("criterion", criterion, ("bic", "aic", "held-out"))
    check_callback(callback)
    batch = Batch.of(as_sequences(sequences), groups, sample_weight)
    candidates = _candidates(n_states) if isinstance(init, str) else [0]
    options = options._replace(reporter=_reporter(callback, len(candidates), criterion, options))
    chosen, scores = choose_sizes(batch, candidates, criterion, options, generator(random_state))
    report = FitReport(
        *(chosen.log_likelihoods, chosen.n_iter, chosen.converged, chosen.parameters.n_states, candidates, scores),
        *(chosen.n_floored, chosen.n_reseeded, chosen.n_falls),
    )
    _warn(report, batch, options)
    h3m = as_h3m(chosen.parameters, ids=batch.ids)
    return (h3m, report) if return_report else h3m


def _reporter(
    callback: Callable[[FitProgress], None] | None, n_candidates: int, criterion: str, options: Options
) -> FitReporter:
    rounds = 2 if criterion == "held-out" and n_candidates > 1 else 1
    return FitReporter(callback, rounds * n_candidates * (options.n_init if isinstance(options.init, str) else 1))


def as_h3m(p: Parameters, weights: FloatArray | None = None, ids: list[Any] | None = None) -> H3M:
    """Return checked parameters as an H3M."""
    arrays = (p.startprob, p.transmat, p.means, p.covars, p.mix_weights)
    return H3M.from_arrays(*arrays, weights=weights, n_states=p.n_states, ids=ids)


def _candidates(n_states: Any) -> list[int]:
    if not isinstance(n_states, Iterable):
        return [check_integer("n_states", n_states, 1)]
    sizes = sorted(set(check_integers("n_states", list(n_states), 1)))
    if not sizes:
        raise ParameterError("n_states", n_states, "is empty: give one number of states, or several to choose from")
    return sizes


def choose_sizes(
    batch: Batch, candidates: list[int], criterion: str, options: Options, rng: np.random.Generator
) -> tuple[Fits, FloatArray]:
    """Fit HMMs of every size, and keep of each group the one that the criterion likes best."""
    scale = Scale.of(batch)
    fits = [fit_batch(batch, scale, S, options, rng) for S in candidates]
    if criterion == "held-out" and len(candidates) > 1:
        scores = np.column_stack([held_out_scores(batch, scale, S, options, rng) for S in candidates])
    else:
        scores = np.column_stack([information_scores(criterion, batch, fit, options.topology) for fit in fits])
    if len(fits) == 1:
        return fits[0], scores
    rows = np.arange(len(batch.ids))
    place = scores.argmax(axis=1) * len(rows) + rows
    results = (np.concatenate(arrays)[place] for arrays in zip(*(_padded(f, fits) for f in fits), strict=True))
    return Fits(stack([fit.parameters for fit in fits]).take(place), *results), scores


def _padded(fit: Fits, fits: list[Fits]) -> tuple[Any, ...]:
    most = max(f.occupancy.shape[1] for f in fits)
    occupancy = np.pad(fit.occupancy, ((0, 0), (0, most - fit.occupancy.shape[1])))
    return fit._replace(occupancy=occupancy)[1:]


def fit_batch(batch: Batch, scale: Scale, n_states: int, options: Options, rng: np.random.Generator) -> Fits:
    """Fit one HMM to every group, from every start, and keep the best of each."""
    settings = Settings(options.max_iter, options.tol, is_plain(options), options.n_threads)
    if not isinstance(options.init, str):
        start = given_start(options.init, len(batch.ids), batch.X.shape[1])
        prior = prior_for(start.startprob > 0, start.transmat > 0, scale, options)
        options.reporter.begin(len(batch.ids))
        return run(batch, start, prior, scale, settings, rng, options.reporter.settled)
    shape = Shape(n_states, options.n_mix, options.covariance_type, options.topology)
    prior = prior_for(*allowed(options.topology, n_states), scale, options)
    best: Fits | None = None
    for make in start_names(options.init, options.topology, options.n_init):
        options.reporter.begin(len(batch.ids))
        start = make(batch, scale, shape, rng, options.n_threads)
        now = run(batch, start, prior, scale, settings, rng, options.reporter.settled)
        if best is None:
            best = now
        else:
            better = np.flatnonzero(now.objectives > best.objectives)
            best.put(better, now, better)
    assert best is not None
    return best if options.topology != "ergodic" else _most_visited_first(best)


def is_plain(options: Options) -> bool:
    """Whether nothing but the likelihood is maximised."""
    return not (options.reg_covar or options.startprob_prior or options.transmat_prior or options.covars_prior)


def prior_for(start: npt.NDArray[np.bool_], trans: npt.NDArray[np.bool_], scale: Scale, options: Options) -> Prior:
    """Spread the imagined counts over what is possible; masks of one HMM serve all."""
    K, S = len(scale.mean), start.shape[-1]
    return Prior(
        np.broadcast_to(options.startprob_prior * start / np.maximum(start.sum(-1, keepdims=True), 1), (K, S)),
        np.broadcast_to(options.transmat_prior * trans / np.maximum(trans.sum(-1, keepdims=True), 1), (K, S, S)),
        options.covars_prior,
        scale.variance,
        max(options.reg_covar, LEAST_FLOOR) * scale.variance,
    )


def given_start(init: H3M | HMM, n: int, n_dims: int) -> Parameters:
    """Return copies of the HMMs to start from, one for each of n groups."""
    if init.n_dims != n_dims:
        raise ValueError(f"init has {init.n_dims} dimensions, but the sequences have {n_dims}; they must agree.")
    if isinstance(init, HMM):
        init = H3M([init])
        index = np.zeros(n, dtype=np.intp)
    elif len(init) != n:
        raise ValueError(f"init has {len(init)} HMMs for {n} sequences or groups: give one for each, or one HMM.")
    else:
        index = np.arange(n)
    return init.parameters.take(index)


def _most_visited_first(fits: Fits) -> Fits:
    order = np.argsort(-fits.occupancy, axis=1, kind="stable")
    k, p = np.arange(len(order))[:, None], fits.parameters
    parameters = Parameters(
        p.startprob[k, order],
        p.transmat[k[:, :, None], order[:, :, None], order[:, None, :]],
        p.mix_weights[k, order],
        p.means[k, order],
        p.covars[k, order],
        p.n_states,
    )
    return fits._replace(parameters=parameters, occupancy=fits.occupancy[k, order])


def n_parameters(parameters: Parameters, topology: str) -> IntArray:
    """Return the number of free parameters of every HMM, (K,)."""
    M, d = parameters.means.shape[2:]
    per_gaussian = d + (d if parameters.is_diagonal else d * (d + 1) // 2)
    numbers = np.zeros(parameters.n_states.max() + 1, dtype=np.int64)
    for S in np.unique(parameters.n_states):
        start, trans = allowed(topology, int(S))
        numbers[S] = start.sum() - 1 + trans.sum() - S + S * (M - 1 + M * per_gaussian)
    return numbers[parameters.n_states]


def information_scores(criterion: str, batch: Batch, fits: Fits, topology: str) -> FloatArray:
    """Return log L - ½ p log n (BIC) or log L - p (AIC) for p parameters and n observed frames: higher is better."""
    n = np.diff(batch.frame_offsets).astype(np.float64)
    if np.isnan(batch.X.min()):
        n -= np.add.reduceat(np.isnan(batch.X).all(axis=1), batch.frame_offsets[:-1], dtype=np.float64)
    price = np.ones_like(n) if criterion == "aic" else 0.5 * np.log(np.maximum(n, 1.0))
    return np.asarray(fits.log_likelihoods - price * n_parameters(fits.parameters, topology))


def held_out_scores(
    batch: Batch, scale: Scale, n_states: int, options: Options, rng: np.random.Generator
) -> FloatArray:
    """Return the log-likelihood of every fifth sequence, or of the last fifth of a single one, after the rest."""
    size = np.bincount(batch.groups)
    place = np.arange(len(batch.groups)) - np.searchsorted(batch.groups, batch.groups)
    n = size[batch.groups]
    held = (n > 1) & ((place % 5 == 4) | ((n < 5) & (place == n - 1)))
    lengths = np.where(n > 1, batch.lengths, batch.lengths - batch.lengths // 5)
    kept = np.flatnonzero(~held)
    training = batch.cut(kept, lengths[kept], batch.groups[kept], batch.ids)
    parameters = fit_batch(training, scale, n_states, options, rng).parameters
    scores = np.zeros(len(batch.ids))
    for part, index, sign in ((batch, held | (n == 1), 1.0), (training, (n == 1)[kept], -1.0)):
        pairs = Pairs(np.flatnonzero(index), part.groups[index])
        found = log_likelihoods(parameters, part.X, part.offsets, pairs, options.n_threads)
        scores += sign * np.bincount(pairs.model, part.weights[index] * found, len(scores))
    return scores


def _warn(report: FitReport, batch: Batch, options: Options) -> None:
    K = len(report.n_iter)
    _warn_of_thin_data(report, batch)
    unseen = [j for j in range(batch.X.shape[1]) if np.isnan(batch.X[0, j]) and np.isnan(batch.X[:, j]).all()]
    if unseen:
        warnings.warn(
            FitWarning(
                "dimensions {unseen} are missing everywhere: what the HMMs say about them means nothing",
                "leave them out",
                unseen=unseen,
            ),
            stacklevel=3,
        )
    if options.tol > 0 and not report.converged.all():
        who = f"{K - report.converged.sum()} of {K} HMMs"
        warnings.warn(NotConvergedWarning(who, "their likelihood", options.max_iter), stacklevel=3)
    _warn_of_counts(report.n_floored, AT_FLOOR)
    _warn_of_counts(report.n_reseeded, REINITIALISED, "{n_states} may be too large")
    _warn_of_counts(report.n_falls, LOWERED)


def _warn_of_counts(counts: IntArray, problem: str, *cures: str) -> None:
    some, n_hmms = int((counts > 0).sum()), Count(len(counts))
    text = problem + " ({some} of {hmms:HMM})"
    warn_if_any(int(counts.sum()), text, *cures, some=some, hmms=n_hmms, stacklevel=4)


def _warn_of_thin_data(report: FitReport, batch: Batch) -> None:
    """Name the sequences or groups that have too few frames to learn from, or nothing but missing values."""
    seen = ~np.isnan(batch.X).all(axis=1) if np.isnan(batch.X).any() else np.ones(len(batch.X), dtype=bool)
    n_seen = np.add.reduceat(seen, batch.frame_offsets[:-1], dtype=np.int64)
    nothing = _named(batch, n_seen == 0)
    if nothing:
        warnings.warn(
            FitWarning("there is nothing but missing values in {names}", "drop it", names=nothing), stacklevel=4
        )
    thin = _named(batch, (n_seen > 0) & (n_seen < report.n_states))
    if thin:
        warnings.warn(
            FitWarning("there are fewer frames than states in {names}", "use fewer states, or groups", names=thin),
            stacklevel=4,
        )


def _named(batch: Batch, chosen: npt.NDArray[np.bool_]) -> str:
    """Return the names of some sequences or groups, the first five of them in words."""
    names = ", ".join(repr(batch.ids[k]) for k in np.flatnonzero(chosen)[:5])
    return names + (f" and {chosen.sum() - 5} more" if chosen.sum() > 5 else "")


register_record(FitReport)
