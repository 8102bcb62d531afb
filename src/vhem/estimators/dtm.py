"""EM-DTM: mixtures of linear dynamical systems (dynamic textures) learned from sequences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_as_many, check_choice, check_enough
from vhem._support.errors import Count, InputError
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.dynamic_textures import TextureProblem, Textures, keep, warn_of_run
from vhem.em.estimator import EMClusterer
from vhem.em.loop import Limits, Run
from vhem.em.parameters import check_parameters, documented
from vhem.kernels import lds as kernels
from vhem.kernels.blas import single_threaded
from vhem.kernels.lds import spectral_radius
from vhem.kernels.systems import Systems
from vhem.models.lds import MixtureOfLDS
from vhem.sequences import Sequences, SequencesLike, as_sequences

_STARTS = ("splitting", "pca")
_LEAST_NOISE = 0.01  # of a dimension's variance: the noise that EM starts with even if the states explain all of it
_LLOYD = 3  # rounds of reassignment when the members of a component are split in two
_GROWTH_ITERATIONS = 15  # EM iterations between two splits


@documented
@dataclass(eq=False, repr=False)
class DynamicTextureMixture(EMClusterer):
    """Learn a mixture of linear dynamical systems from sequences by EM.

    Missing values (NaN) are integrated out exactly.

    Parameters
    ----------
    n_components : int
        Number of systems.
    n_states : int
        Dimensions of each system's state.
    noise : {"diag", "isotropic"}
        Noise of the observations: one variance per dimension, or one for all.
    init : {"auto", "splitting", "pca"} or MixtureOfLDS
        "splitting": one system is learned from all sequences, then the heaviest are split in two, 1, 2, 4, … up to
        `n_components`, with EM in between. "pca": sequences are grouped by their means and spreads, and each group
        gives a system, its states being the principal components. "auto": every restart tries both, and the likelier
        result is kept. A mixture is used as it is, and its order is kept.
    n_init : int
        Restarts; the one with the highest likelihood is kept.
    <limits>
    noise_floor : float
        Smallest variance of the noise, as a share of the mean variance of the observations.
    stable : bool
        Whether every A is kept stable (spectral radius below one). If False, it is whatever fits the data best, and
        ``model_[k].spectral_radius`` reports it.
    <random_state>
    <verbose>

    Attributes
    ----------
    model_ : MixtureOfLDS
        The mixture, heaviest system first.
    labels_, responsibilities_ : ndarray of shape (n,) and (n, n_components)
        System of each sequence, and the probabilities.
    lower_bound_, lower_bounds_ : float, ndarray
        Log-likelihood of all sequences, at the end and after every E-step of the final run. It never falls.
    n_iter_, converged_ : int, bool
        Iterations of the final run, and whether it converged.
    n_empty_, n_floored_, n_held_back_ : int
        Components without members, variances at the floor, and systems held back by `stable`, at the end.

    References
    ----------
    A. B. Chan, N. Vasconcelos, "Modeling, clustering, and segmenting video with mixtures of dynamic textures", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 30, 2008.

    Examples
    --------
    >>> from vhem import DynamicTextureMixture, LinearDynamicalSystem, MixtureOfLDS
    >>> slow = LinearDynamicalSystem([[0.98]], [[1.0], [1.0]], [[0.1]], 0.1)
    >>> fast = LinearDynamicalSystem([[-0.9]], [[1.0], [-1.0]], [[1.0]], 0.1)
    >>> sequences, truth = MixtureOfLDS([slow, fast]).sample(12, length=30, random_state=0)
    >>> fit = DynamicTextureMixture(n_components=2, n_states=1, random_state=0).fit(sequences)
    >>> bool((fit.labels_ == truth).all() or (fit.labels_ == 1 - truth).all())
    True
    """

    n_components: int = 1
    n_states: int = 2
    noise: str = "diag"
    init: str | MixtureOfLDS = "auto"
    n_init: int = 1
    max_iter: int = 200
    tol: float = 1e-4
    noise_floor: float = 1e-6
    stable: bool = True
    random_state: Any = None
    verbose: bool | None = None

    model_: MixtureOfLDS = field(init=False)

    def fit(self, X: SequencesLike, y: Any = None) -> Self:
        """Learn from the sequences `X`."""
        del y
        self._check_parameters()
        sequences = as_sequences(X)
        check_enough("n_components", self.n_components, len(sequences), "sequence")
        if isinstance(self.init, MixtureOfLDS):
            check_same_dimensions(self.init, sequences.n_dims)
        problem, filled = self._problem(sequences), _filled(sequences)
        seeds = generator(self.random_state).spawn(1 if isinstance(self.init, MixtureOfLDS) else self.n_init)
        runs = self._runs(filled, problem, seeds)
        best = max(runs, key=lambda r: r.bounds[-1])
        self.model_ = keep(self, best, ordered=not isinstance(self.init, MixtureOfLDS))
        warn_of_run(best, type(self).__name__, self.max_iter, self.tol)
        return self

    def predict(self, X: SequencesLike) -> IntArray:
        """Return the most probable system of each sequence."""
        check_is_fitted(self)
        return self.model_.predict(X)

    def predict_proba(self, X: SequencesLike) -> FloatArray:
        """Return the probability of each system for each sequence."""
        check_is_fitted(self)
        return self.model_.predict_proba(X)

    def score(self, X: SequencesLike, y: Any = None) -> float:
        """Return the mean log-likelihood of the sequences."""
        del y
        check_is_fitted(self)
        return float(self.model_.score_samples(X).mean())

    def sample(self, n_sequences: int, length: Any, random_state: Any = None) -> tuple[Sequences, IntArray]:
        """Return random sequences from `model_`, and the system of each."""
        check_is_fitted(self)
        return self.model_.sample(n_sequences, length, random_state)

    def _check_parameters(self) -> None:
        check_parameters(self)
        if isinstance(self.init, MixtureOfLDS):
            check_start(self.init, "n_components", self.n_components, self.stable)
        else:
            check_choice("init", self.init, ("auto", *_STARTS))

    def _starts(self) -> Sequence[str | MixtureOfLDS]:
        """Return where a restart begins: either way of making starts finds optima that the other one misses."""
        if self.init == "auto":
            return _STARTS if self.n_components > 1 else _STARTS[:1]  # one system starts alike
        return [self.init]

    def _problem(self, sequences: Sequences) -> TextureProblem:
        empty = np.flatnonzero(np.isnan(sequences.X).all(axis=0))
        if len(empty):
            raise InputError("dimension {j} has no value at all (NaN everywhere)", "leave it out", j=empty[0])
        variance = float(np.nanvar(sequences.X, axis=0).mean())
        if not variance > 0:
            raise InputError("the sequences are constant: there is nothing to learn a dynamical system from")
        return TextureProblem(
            sums_of=partial(kernels.e_step, X=sequences.X, offsets=sequences.offsets),
            n_frames=len(sequences.X),
            floor=self.noise_floor * variance,
            isotropic=self.noise == "isotropic",
            stable=self.stable,
        )

    def _runs(self, filled: Sequences, problem: TextureProblem, seeds: list[np.random.Generator]) -> list[Run]:
        """Return the runs from all starts; one that the data are too short for is left out if there are others."""
        runs, refused = list[Run](), list[InputError]()
        for rng in seeds:
            for start in self._starts():
                try:
                    runs.append(self._run(filled, problem, start, deepcopy(rng)))  # as it would be alone
                except InputError as error:
                    refused.append(error)
        if not runs or (refused and self.init != "auto"):
            raise refused[0]
        return runs

    def _run(
        self, filled: Sequences, problem: TextureProblem, start: str | MixtureOfLDS, rng: np.random.Generator
    ) -> Run:
        limits = Limits(max_iter=self.max_iter, tol=self.tol)
        if isinstance(start, MixtureOfLDS):
            return problem.learn(Textures(start.parameters, start.weights), limits)
        if start == "pca":
            uniform = np.full(self.n_components, 1 / self.n_components)
            return problem.learn(Textures(self._from_groups(filled, rng), uniform), limits)
        now = Textures(pca_system(list(filled), self.n_states), np.ones(1))
        brief = replace(limits, max_iter=min(_GROWTH_ITERATIONS, self.max_iter))
        while len(now.weights) < self.n_components:
            now = _split(problem.learn(now, brief), list(filled), self.n_components, rng)
        return problem.learn(now, limits)

    def _from_groups(self, sequences: Sequences, rng: np.random.Generator) -> Systems:
        from sklearn.cluster import KMeans  # noqa: PLC0415  (slow to import)
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

        features = np.array([np.concatenate([y.mean(0), y.std(0)]) for y in sequences])
        spread = features.std(0)
        scaled = (features - features.mean(0)) / np.where(spread > 0, spread, 1.0)
        with warnings.catch_warnings():  # fewer groups than components: the others start from all sequences
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = KMeans(self.n_components, n_init=3, random_state=int(rng.integers(2**31))).fit_predict(scaled)
        every = list(sequences)
        groups = [[every[i] for i in np.flatnonzero(labels == k)] or every for k in range(self.n_components)]
        return stacked([pca_system(group, self.n_states) for group in groups])


def _filled(sequences: Sequences) -> Sequences:
    """Return sequences without gaps, to start from: interpolated, or the mean where a sequence has no value."""
    X, gaps = sequences.X.copy(), np.isnan(sequences.X)
    mean = np.nanmean(X, axis=0)
    for i in np.unique(np.searchsorted(sequences.offsets, np.flatnonzero(gaps.any(axis=1)), side="right")) - 1:
        rows = slice(sequences.offsets[i], sequences.offsets[i + 1])
        for j in np.flatnonzero(gaps[rows].any(axis=0)):
            gone, column = gaps[rows, j], X[rows, j]
            column[gone] = mean[j] if gone.all() else np.interp(gone.nonzero()[0], (~gone).nonzero()[0], column[~gone])
    return Sequences.from_concatenated(X, sequences.lengths)


def check_start(init: MixtureOfLDS, name: str, n: int, stable: bool) -> None:
    """Refuse a start that violates the constraints."""
    check_as_many(len(init), "system", name, n)
    for k, system in enumerate(init):
        if stable and system.spectral_radius >= 1:
            raise InputError(
                "system {k} of {init} has spectral radius {radius:.6g} and is not stable",
                "scale its A", "set {stable:False}", k=k, radius=system.spectral_radius,
            )  # fmt: skip


def check_same_dimensions(init: MixtureOfLDS, n_dims: int) -> None:
    """Refuse a start made for other observations."""
    if init.n_dims != n_dims:
        problem = "{init} has {n:dimension}, but the input has {d}; they must agree"
        raise InputError(problem, n=Count(init.n_dims), d=n_dims)


def stacked(parts: list[Systems]) -> Systems:
    """Return several sets of systems as one."""
    return Systems._make(map(np.concatenate, zip(*parts, strict=True)))


@single_threaded
def pca_system(sequences: list[FloatArray], n: int) -> Systems:
    """Return one system whose states are the principal components of the sequences (Doretto's start).

    If n exceeds the number of dimensions, the components are those of as many successive frames as are needed.
    """
    d = sequences[0].shape[1]
    span = -(-n // d)
    X = np.concatenate(sequences)
    offset, variances = X.mean(0), X.var(0)
    long_enough = [y - offset for y in sequences if len(y) >= span]
    if not long_enough:
        raise InputError(
            "no sequence has the {span} frames that {n_states:{n}} in {d:dimension} needs", "ask for fewer states",
            span=span, n=n, d=Count(d),
        )  # fmt: skip
    windows = [np.concatenate([y[k : len(y) - span + 1 + k] for k in range(span)], axis=1) for y in long_enough]
    axes = np.zeros((span * d, n))
    found = np.linalg.svd(np.concatenate(windows), full_matrices=False)[2][:n]
    axes[:, : len(found)] = found.T
    states = [window @ axes for window in windows]
    every, y_now = np.concatenate(states), np.concatenate([window[:, :d] for window in windows])
    C = np.linalg.lstsq(every, y_now, rcond=None)[0].T
    A, Q = _autoregression(states)
    R = np.maximum((y_now - every @ C.T).var(axis=0), _LEAST_NOISE * variances + 1e-9 * variances.mean())
    first = np.array([x[0] for x in states]).mean(0)
    spread = every.T @ every / len(every) + Q
    return Systems(*(array[None] for array in (A, C, Q, R, first, spread, offset)))


def _autoregression(states: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return A, shrunk until it is stable, and Q, kept positive definite so that EM can change it in all directions."""
    n = states[0].shape[1]
    before, after = np.concatenate([x[:-1] for x in states]), np.concatenate([x[1:] for x in states])
    every = np.concatenate(states)
    least = 1e-3 * (every**2).mean() * np.eye(n) + 1e-12 * np.eye(n)
    if not len(before):
        return 0.5 * np.eye(n), least + np.diag((every**2).mean(0))
    A = np.linalg.lstsq(before, after, rcond=None)[0].T
    radius = spectral_radius(A)
    A = A * (0.99 / radius) if radius >= 0.99 else A
    left = after - before @ A.T
    return A, left.T @ left / len(left) + least


def _split(run: Run, sequences: list[FloatArray], n_components: int, rng: np.random.Generator) -> Textures:
    """Return the systems with the heaviest split in two, twice as many or as many as wanted."""
    grown, K = run.state, len(run.state.weights)
    chosen = np.argsort(-grown.weights, kind="stable")[: min(K, n_components - K)]
    labels = run.expected.responsibilities.argmax(1)
    parts, weights = [grown.systems.take(np.setdiff1d(np.arange(K), chosen))], [np.delete(grown.weights, chosen)]
    for k in chosen:
        members = np.flatnonzero(labels == k)
        if len(members) < 2:  # nothing to split: two copies of each, which their randomness will separate
            members = np.arange(len(sequences))
        halves, share = _halves([sequences[i] for i in members], grown.systems.A.shape[-1], rng)
        parts.append(halves)
        weights.append(grown.weights[k] * np.array([share, 1 - share]))
    together = np.concatenate(weights) + 1e-6
    return Textures(stacked(parts), together / together.sum())


def _halves(sequences: list[FloatArray], n: int, rng: np.random.Generator) -> tuple[Systems, float]:
    """Split sequences in two by how well systems made from them explain them, and return a system for each part.

    One seed is drawn, the other is the sequence that the first one's system explains worst.
    """
    lengths = np.array([len(y) for y in sequences])
    X, offsets = np.concatenate(sequences), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = pca_system([sequences[rng.integers(len(sequences))]], n)
    worst = int((kernels.log_likelihoods(first, X, offsets)[:, 0] / lengths).argmin())
    pair = stacked([first, pca_system([sequences[worst]], n)])
    for _ in range(_LLOYD):
        nearer = kernels.log_likelihoods(pair, X, offsets).argmax(1) == 0
        if nearer.all() or not nearer.any():
            nearer = rng.permutation(len(sequences)) < len(sequences) // 2
        groups = ([y for y, here in zip(sequences, nearer, strict=True) if here == side] for side in (True, False))
        pair = stacked([pca_system(group, n) for group in groups])
    return pair, float(nearer.mean())


register_estimator(DynamicTextureMixture)
