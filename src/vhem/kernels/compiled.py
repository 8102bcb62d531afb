"""The only place that calls the compiled module: one function per kernel, arrays in, new arrays out.

Every function but `knows` needs a compiled engine. `reference/` has the same kernels in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions.components import Components
from vhem.emissions.gaussian import Gaussian, GaussianPrior
from vhem.kernels.engine import engine
from vhem.kernels.maximise import Prior
from vhem.kernels.models import Models, ModelSums
from vhem.kernels.reference.overlap import log_power
from vhem.kernels.stopping import stop_flag

_LOG_ZERO = -1e300  # the kernels' way to write log 0
_THREAD_WORK = 2e6  # multiplications below which starting a thread costs more than it saves


def knows(*models: Models) -> bool:
    """Whether there is a compiled engine, and it knows the emissions of these models."""
    return engine().module is not None and all(isinstance(m.components, Gaussian) for m in models)


def _run(module: Any, n_threads: int, work: float | None = None) -> Any:
    threads = n_threads if work is None else max(1, min(n_threads, int(work / _THREAD_WORK)))
    return module.Run(n_threads=threads, stop=stop_flag())


def _floats(array: FloatArray) -> FloatArray:
    return np.ascontiguousarray(array, np.float64)


def _integers(array: IntArray) -> IntArray:
    return np.ascontiguousarray(array, np.int64)


def _gaussian(components: Components) -> Gaussian:
    assert isinstance(components, Gaussian), "see knows"
    return components


def _models(module: Any, models: Models) -> Any:
    gaussian, n_states = _gaussian(models.components), _integers(models.n_states)
    start, trans, mix = map(_floats, (models.startprob, models.transmat, models.mix_weights))
    means, covars = map(_floats, (gaussian.means, gaussian.covars))
    return module.GaussianModels(
        chains=module.Chains(startprob=start, transmat=trans, n_states=n_states),
        emissions=module.GaussianMixtures(weights=mix, means=means, covars=covars),
    )


def _anchors(components: Components) -> FloatArray:
    return _floats(_gaussian(components).means)


def _sequences(module: Any, X: FloatArray, offsets: IntArray, may_be_empty: bool = False) -> Any:
    return module.Sequences(X=_floats(X), offsets=_integers(offsets), may_be_empty=may_be_empty)


def _pairs(module: Any, sequence: IntArray, model: IntArray, weights: FloatArray) -> Any:
    return module.Pairs(sequence=_integers(sequence), model=_integers(model), weight=_floats(weights))


def _sums(module: Any, sums: ModelSums) -> Any:
    count, first, second = (sums.components[name] for name in ("count", "first", "second"))
    return module.Sums(start=sums.start, trans=sums.trans, occupancy=count, first=first, second=second)


def expected_log_likelihood(*, base: Models, reduced: Models, tau: int, early_stop: bool, n_threads: int) -> FloatArray:
    """Return J (K_b, K_r)."""
    module = engine().module
    J = np.empty((len(base), len(reduced)))
    module.expected_log_likelihood(
        base=_models(module, base),
        reduced=_models(module, reduced),
        recursion=module.Recursion(tau=tau, prune=False, early_stop=early_stop),
        diagonal=False,
        J=J,
        run=_run(module, n_threads, _reduction_work(base, reduced, tau)),
    )
    return J


def self_log_likelihood(*, models: Models, tau: int, early_stop: bool, n_threads: int) -> FloatArray:
    """Return J_ii (K,), every model against itself; give few at a time: emissions are computed for all pairs."""
    module = engine().module
    J = np.empty(len(models))
    module.expected_log_likelihood(
        base=_models(module, models),
        reduced=_models(module, models),
        recursion=module.Recursion(tau=tau, prune=False, early_stop=early_stop),
        diagonal=True,
        J=J,
        run=_run(module, n_threads, _reduction_work(models, models, tau) / len(models)),
    )
    return J


def e_step(
    *,
    base: Models,
    occupancy: FloatArray,
    counts: FloatArray,
    scales: FloatArray,
    reduced: Models,
    log_weights: FloatArray,
    anchors: Components,
    tau: int,
    prune: bool,
    early_stop: bool,
    want_responsibilities: bool,
    n_threads: int,
) -> tuple[float, FloatArray, ModelSums, FloatArray | None, int, int]:
    """Return what `vhem.kernels.reduction.Reduction` has: VHEM's bound, and the sums that its M-step needs."""
    module = engine().module
    mass, sums = np.zeros(len(reduced)), ModelSums.zeros(reduced)
    z = np.zeros((len(base), len(reduced))) if want_responsibilities else None
    bound, evaluated, forwarded = module.e_step(
        base=_models(module, base),
        weights=module.BaseWeights(occupancy=_floats(occupancy), counts=_floats(counts), scales=_floats(scales)),
        reduced=_models(module, reduced),
        log_weights=_floats(log_weights),
        anchors=_anchors(anchors),
        recursion=module.Recursion(tau=tau, prune=prune, early_stop=early_stop),
        mass=mass,
        sums=_sums(module, sums),
        responsibilities=z,
        run=_run(module, n_threads, _reduction_work(base, reduced, tau)),
    )
    return bound, mass, sums, z, evaluated, forwarded


def _reduction_work(base: Models, reduced: Models, tau: int) -> float:
    pairs = len(base) * len(reduced)
    return float(pairs * min(tau, 100) * 5 * base.startprob.shape[1] * reduced.startprob.shape[1] ** 2)


def expectations(
    *,
    models: Models,
    X: FloatArray,
    offsets: IntArray,
    sequence: IntArray,
    model: IntArray,
    weights: FloatArray,
    anchors: Components,
    n_threads: int,
) -> tuple[FloatArray, ModelSums]:
    """Return what `vhem.kernels.counting.Counts` has: log-likelihoods of pairs of a sequence and a model, and sums."""
    module = engine().module
    scores, sums = np.empty(len(weights)), ModelSums.zeros(models)
    module.expectations(
        models=_models(module, models),
        anchors=_anchors(anchors),
        sequences=_sequences(module, X, offsets),
        pairs=_pairs(module, sequence, model, weights),
        scores=scores,
        sums=_sums(module, sums),
        run=_run(module, n_threads, _counting_work(models, offsets, sequence)),
    )
    return scores, sums


def learn(
    *,
    models: Models,
    X: FloatArray,
    offsets: IntArray,
    sequence: IntArray,
    model: IntArray,
    weights: FloatArray,
    prior: Prior,
    least: FloatArray,
    tolerance: FloatArray,
    max_iter: int,
    n_threads: int,
    objectives: FloatArray,
    n_iter: IntArray,
) -> None:
    """Iterate Baum-Welch in place: `models`, `objectives` and `n_iter` are changed.

    For HMMs of one size with one sequence each and one diagonal Gaussian per state. Each HMM stops before the iteration
    in which it has converged or gone down, a state has died (fewer than `least` weighted frames), a mean has moved so
    far that digits are lost, or `max_iter` is reached. `objectives` then has the objective before its last M-step, and
    `n_iter` counts its M-steps.
    """
    module, gaussian, known = engine().module, _gaussian(models.components), prior.emissions
    assert isinstance(known, GaussianPrior)
    start, trans, scale, floor = map(_floats, (prior.start, prior.trans, known.scale, known.floor))
    module.learn(
        models=_models(module, models),
        sequences=_sequences(module, X, offsets),
        pairs=_pairs(module, sequence, model, weights),
        prior=module.Prior(start=start, trans=trans, covar=known.count, scale=scale, floor=floor),
        limits=module.Limits(least=_floats(least), tolerance=_floats(tolerance), max_iter=max_iter),
        learned=module.Learned(
            startprob=models.startprob,
            transmat=models.transmat,
            means=gaussian.means,
            covars=gaussian.covars,
            objective=objectives,
            n_iter=n_iter,
        ),
        run=_run(module, n_threads, _counting_work(models, offsets, sequence)),
    )


def _counting_work(models: Models, offsets: IntArray, sequence: IntArray) -> float:
    _, S, M = models.shape
    frames = len(sequence) * float(offsets[-1] - offsets[0]) / max(1, len(offsets) - 1)
    return float(frames * S * (S + M * models.n_dims + 5))


def log_likelihoods(*, models: Models, X: FloatArray, offsets: IntArray, n_threads: int) -> FloatArray:
    """Return log p(y_i | HMM k), (n, K)."""
    module = engine().module
    scores = np.empty((len(offsets) - 1, len(models)))
    module.log_likelihoods(
        models=_models(module, models),
        sequences=_sequences(module, X, offsets),
        scores=scores,
        run=_run(module, n_threads),
    )
    return scores


def posteriors(*, models: Models, X: FloatArray, offsets: IntArray, n_threads: int) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities of the states of one HMM, (T, S)."""
    module = engine().module
    scores = np.empty(len(offsets) - 1)
    gamma = np.empty((len(X), models.n_states[0]))
    module.posteriors(
        models=_models(module, models),
        sequences=_sequences(module, X, offsets),
        scores=scores,
        gamma=gamma,
        run=_run(module, n_threads),
    )
    return scores, gamma


def viterbi(*, models: Models, X: FloatArray, offsets: IntArray, n_threads: int) -> tuple[FloatArray, IntArray]:
    """Return max_x log p(x, y_i) under one HMM, (n,), and the paths x that reach it, (T,)."""
    module = engine().module
    scores = np.empty(len(offsets) - 1)
    paths = np.empty(len(X), dtype=np.int64)
    module.viterbi(
        models=_models(module, models),
        sequences=_sequences(module, X, offsets),
        scores=scores,
        paths=paths,
        run=_run(module, n_threads),
    )
    return scores, paths


def log_ppk(*, a: Models, b: Models, length: int, power: float, n_threads: int) -> FloatArray:
    """Return log k (K_a, K_b); where `a` and `b` are one object, its upper triangle."""
    module = engine().module
    kernel = np.empty((len(a), len(b)))
    module.log_ppk(
        a=_models(module, _powers(a, power)),
        b=_models(module, _powers(b, power)),
        length=length,
        power=power,
        symmetric=a is b,
        kernel=kernel,
        run=_run(module, n_threads, _overlap_work(a, b, length)),
    )
    return kernel


def _powers(models: Models, power: float) -> Models:
    own = _gaussian(models.components).log_overlap_weight(power)
    return replace(
        models,
        startprob=log_power(models.startprob, power),
        transmat=log_power(models.transmat, power),
        mix_weights=np.maximum(log_power(models.mix_weights, power) + own, _LOG_ZERO),
    )


def _overlap_work(a: Models, b: Models, length: int) -> float:
    (K_a, S_a, M_a), (K_b, S_b, M_b), d = a.shape, b.shape, a.n_dims
    emissions = M_a * M_b * (d if _gaussian(a.components).is_diagonal else d**3 / 6) * 4
    return float(K_a * K_b * S_a * S_b * (emissions + length * (S_a + S_b)))


def kmeans(
    *, Z: FloatArray, offsets: IntArray, uniforms: FloatArray, max_iter: int, most_points: int, n_threads: int
) -> IntArray:
    """Return the cluster of every point among the points of its group; -1 is never left."""
    module = engine().module
    labels = np.full(len(Z), -1, dtype=np.int64)
    module.kmeans(
        groups=_sequences(module, Z, offsets, may_be_empty=True),
        uniforms=_floats(uniforms),
        max_iter=max_iter,
        most_points=most_points,
        labels=labels,
        run=_run(module, n_threads),
    )
    return labels


def group_moments(*, X: FloatArray, offsets: IntArray) -> list[FloatArray]:
    """Return count, mean, sum of squared deviations and largest absolute value of every group and dimension, (G, d)."""
    module = engine().module
    count, mean, squares, largest = out = [np.empty((len(offsets) - 1, X.shape[1])) for _ in range(4)]
    groups = _sequences(module, X, offsets)
    module.group_moments(groups=groups, count=count, mean=mean, squares=squares, largest=largest, run=_run(module, 1))
    return out


def has_tables() -> bool:
    """Whether there is a compiled engine to cut tables."""
    return hasattr(engine().module, "cut_text")


def names(number: Callable[[str], int]) -> Any:
    """Return the compiled form of a column of names, which asks `number` once per spelling."""
    return engine().module.Names(number)


def cut_text(
    text: str,
    delimiter: str,
    decimal: str,
    largest: float,
    kinds: IntArray,
    names: list[Any],
    values: FloatArray,
    codes: IntArray,
) -> bool:
    """Fill `values` and `codes` from lines of cells; return False at the first cell that is not plain.

    `kinds` has one entry per column: −1 for nothing, 0 for a number, k for names numbered by `names[k - 1]`.
    """
    done: bool = engine().module.cut_text(
        text=text, delimiter=delimiter, decimal=decimal, largest=largest,
        kinds=kinds, names=names, values=values, codes=codes,
    )  # fmt: skip
    return done
