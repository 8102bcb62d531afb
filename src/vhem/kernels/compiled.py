"""The only place that calls the compiled module: one function per kernel, arrays in, new arrays out.

Every function but `knows` needs a compiled engine. `reference/` has the same kernels in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import AnyIntArray, FloatArray, IntArray
from vhem.emissions.components import Components
from vhem.emissions.conjugate import Conjugate
from vhem.emissions.gaussian import Gaussian, GaussianPrior
from vhem.emissions.normal_wishart import NormalWishart
from vhem.kernels import parts
from vhem.kernels.carried import Carried
from vhem.kernels.engine import engine
from vhem.kernels.maximise import Prior
from vhem.kernels.models import Models, ModelSums, Pieces
from vhem.kernels.parts import Split
from vhem.kernels.reference.overlap import log_power
from vhem.kernels.stopping import stop_flag

_LOG_ZERO = -1e300  # the kernels' way to write log 0
_THREAD_WORK = 2e6  # multiplications below which starting a thread costs more than it saves


def knows(*models: Models) -> bool:
    """Whether there is a compiled engine, and it knows the emissions of these models."""
    return engine().module is not None and all(parts.can_be_split(m.components) for m in models)


def knows_m_step(models: Models) -> bool:
    """Whether the compiled engine can also make the M-step of such models, and so iterate without Python."""
    if not knows(models) or models.shape[2] != 1:
        return False
    components = models.components
    return components.is_diagonal if isinstance(components, Gaussian) else parts.is_learnable(components)


def knows_posteriors(conjugate: Conjugate) -> bool:
    """Whether the compiled engine can iterate variational Bayes with such posteriors of the emissions."""
    return engine().module is not None and isinstance(conjugate, NormalWishart) and conjugate.is_diagonal


def knows_overlap(*models: Models) -> bool:
    """Whether there is a compiled engine that computes the probability product kernel of such models."""
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


def _chains(module: Any, models: Models) -> Any:
    start, trans = map(_floats, (models.startprob, models.transmat))
    return module.Chains(startprob=start, transmat=trans, n_states=_integers(models.n_states))


def _models(module: Any, models: Models) -> Any:
    """Return Gaussian models."""
    gaussian = _gaussian(models.components)
    mix, means, covars = map(_floats, (models.mix_weights, gaussian.means, gaussian.covars))
    emissions = module.GaussianMixtures(weights=mix, means=means, covars=covars)
    return module.GaussianModels(chains=_chains(module, models), emissions=emissions)


def _mixtures(module: Any, weights: FloatArray, split: Split) -> Any:
    arrays = {name: np.ascontiguousarray(array) for name, array in split.mixtures.items()}
    return module.PartMixtures(weights=_floats(weights), **arrays, chances=split.by_chance)


def _split_models(module: Any, models: Models, split: Split) -> Any:
    """Return models of any family."""
    emissions = _mixtures(module, models.mix_weights, split)
    return module.PartModels(chains=_chains(module, models), emissions=emissions)


def _pair_of_models(module: Any, base: Models, reduced: Models) -> tuple[Any, Any, Split | None]:
    """Return base and reduced models for VHEM, and the parts of the latter, unless they are Gaussian."""
    if isinstance(base.components, Gaussian):
        return _models(module, base), _models(module, reduced), None
    full = _any_full(base, reduced)
    one, two = parts.of_base(base.components, full), parts.of_reduced(reduced.components, full)
    return _split_models(module, base, one), _split_models(module, reduced, two), two


def _any_full(*models: Models) -> bool:
    return any(parts.is_full(m.components) for m in models)


def _with_frames(module: Any, models: Models, X: FloatArray, offsets: IntArray) -> dict[str, Any]:
    """Return models and sequences, in parts if the family is another than Gaussians."""
    if isinstance(models.components, Gaussian):
        return {"models": _models(module, models), "sequences": _sequences(module, X, offsets)}
    split = parts.of_frames(models.components, X)
    frames = _sequences(module, split.frames, offsets)
    return {"models": _split_models(module, models, split), "sequences": frames}


def _anchors(components: Components) -> FloatArray:
    return _floats(_gaussian(components).means)


def _sums_of_parts(module: Any, models: Models, split: Split) -> tuple[Any, Callable[[], ModelSums]]:
    """Return where a kernel leaves its sums, and what makes the family's of them."""
    K, S, M = models.shape
    start, trans, count = np.zeros((K, S)), np.zeros((K, S, S)), np.zeros((K, S, M))
    made = np.zeros((K, S * M * split.width))
    room = module.Sums(start=start, trans=trans, occupancy=count, first=made, second=np.empty(0))
    return room, lambda: ModelSums(start, trans, split.sums(count, made))


def _sequences(module: Any, X: FloatArray, offsets: IntArray, may_be_empty: bool = False) -> Any:
    return module.Sequences(X=_floats(X), offsets=_integers(offsets), may_be_empty=may_be_empty)


def _pairs(module: Any, sequence: IntArray, model: IntArray, weights: FloatArray) -> Any:
    return module.Pairs(sequence=_integers(sequence), model=_integers(model), weight=_floats(weights))


def _sums(module: Any, sums: ModelSums) -> Any:
    count, first, second = (sums.components[name] for name in ("count", "first", "second"))
    return module.Sums(start=sums.start, trans=sums.trans, occupancy=count, first=first, second=second)


def _pieces(module: Any, pieces: Pieces | None) -> dict[str, Any]:
    """Return what is behind base states in pieces."""
    if pieces is None:
        return {}
    weights = _floats(pieces.whole.mix_weights)
    return {"whole": _chains(module, pieces.whole), "mix_weights": weights, "n_nodes": pieces.n_nodes}


def expected_log_likelihood(
    *, base: Models, reduced: Models, tau: int, early_stop: bool, n_threads: int, pieces: Pieces | None = None
) -> FloatArray:
    """Return J (K_b, K_r)."""
    J = np.empty((len(base), len(reduced)))
    _fill_bounds(J, base, reduced, tau, early_stop, n_threads, pieces)
    return J


def self_log_likelihood(*, models: Models, tau: int, early_stop: bool, n_threads: int) -> FloatArray:
    """Return J_ii (K,), every model against itself; give few at a time: emissions are computed for all pairs."""
    J = np.empty(len(models))
    _fill_bounds(J, models, models, tau, early_stop, n_threads)
    return J


def _fill_bounds(
    J: FloatArray,
    base: Models,
    reduced: Models,
    tau: int,
    early_stop: bool,
    n_threads: int,
    pieces: Pieces | None = None,
) -> None:
    """Fill J, of all pairs (K_b, K_r) or of those on the diagonal (K,)."""
    module = engine().module
    one, two, _ = _pair_of_models(module, base, reduced)
    share = J.size / (len(base) * len(reduced))
    module.expected_log_likelihood(
        base=one,
        reduced=two,
        recursion=module.Recursion(tau=tau, prune=False, early_stop=early_stop),
        diagonal=J.ndim == 1,
        J=J,
        run=_run(module, n_threads, share * _reduction_work(base, reduced, tau)),
        **_pieces(module, pieces),
    )


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
    n_mixtures: int = 1,
    pieces: Pieces | None = None,
    carried: Carried | None = None,
) -> tuple[FloatArray, FloatArray, ModelSums, FloatArray | None, int, int]:
    """Return what `vhem.kernels.reduction.Reduction` has: VHEM's bounds, and the sums that its M-step needs."""
    module = engine().module
    bounds, mass = np.zeros(n_mixtures), np.zeros(len(reduced))
    z = np.zeros((len(base), len(reduced))) if want_responsibilities else None
    one, two, split = _pair_of_models(module, base, reduced)
    step, about, room, sums = _e_step_for(module, reduced, split, anchors)
    evaluated, forwarded = step(
        base=one,
        weights=module.BaseWeights(occupancy=_floats(occupancy), counts=_floats(counts), scales=_floats(scales)),
        reduced=two,
        log_weights=_floats(log_weights),
        anchors=about,
        recursion=module.Recursion(tau=tau, prune=prune, early_stop=early_stop),
        bounds=bounds,
        mass=mass,
        sums=room,
        responsibilities=z,
        run=_run(module, n_threads, _reduction_work(base, reduced, tau)),
        **_pieces(module, pieces),
        **_carried(module, carried, len(base), reduced),
    )
    if carried is not None:
        carried.known_for(reduced)
    return bounds, mass, sums(), z, evaluated, forwarded


def _carried(module: Any, carried: Carried | None, n_base: int, reduced: Models) -> dict[str, Any]:
    if carried is None:
        return {}
    moved = {name: _floats(array) for name, array in carried.since(n_base, reduced)._asdict().items()}
    return {"carried": module.Carried(distance=carried.distance, nearest=carried.nearest, **moved)}


def _e_step_for(
    module: Any, reduced: Models, split: Split | None, anchors: Components
) -> tuple[Any, Any, Any, Callable[[], ModelSums]]:
    """Return the kernel for this family, its anchors, where it leaves its sums, and what makes the family's of them."""
    if split is None:
        sums = ModelSums.zeros(reduced)
        return module.e_step, _anchors(anchors), _sums(module, sums), lambda: sums
    about = _mixtures(module, reduced.mix_weights, parts.of_anchors(anchors, split.is_full))
    return module.e_step_of_parts, about, *_sums_of_parts(module, reduced, split)


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
    scores = np.empty(len(weights))
    step, own, room, sums = _counting_for(module, models, X, offsets, anchors)
    pairs = _pairs(module, sequence, model, weights)
    run = _run(module, n_threads, _counting_work(models, offsets, sequence))
    step(**own, pairs=pairs, scores=scores, sums=room, run=run)
    return scores, sums()


def _counting_for(
    module: Any, models: Models, X: FloatArray, offsets: IntArray, anchors: Components
) -> tuple[Any, dict[str, Any], Any, Callable[[], ModelSums]]:
    """Return the kernel for this family, models and frames, where its sums go, and what makes the family's of them."""
    if isinstance(models.components, Gaussian):
        sums = ModelSums.zeros(models)
        own = {**_with_frames(module, models, X, offsets), "anchors": _anchors(anchors)}
        return module.expectations, own, _sums(module, sums), lambda: sums
    split = parts.of_frames(models.components, X)
    about = _mixtures(module, models.mix_weights, parts.of_anchors(anchors, parts.is_full(anchors)))
    frames = _sequences(module, split.frames, offsets)
    own = {"models": _split_models(module, models, split), "sequences": frames, "anchors": about}
    return module.expectations_of_parts, own, *_sums_of_parts(module, models, split)


class Iterations(NamedTuple):
    """How long EM inside the engine goes on, and how far it came; one entry per HMM.

    Each HMM stops before the iteration in which its objective has converged (gained less than `tolerance`) or fallen,
    a state has become empty (fewer than `least` weighted frames), a mean has moved so far that digits are lost, or
    `max_iter` is reached.
    """

    max_iter: int
    tolerance: FloatArray
    objectives: FloatArray  #: before the last M-step; changed in place
    n_iter: IntArray  #: M-steps so far; changed in place
    least: FloatArray


def learn(
    *, models: Models, X: FloatArray, offsets: IntArray, sequence: IntArray, model: IntArray, weights: FloatArray,
    prior: Prior, iterations: Iterations, n_threads: int,
) -> None:  # fmt: skip
    """Iterate Baum-Welch: `models` and `iterations` are changed in place.

    For HMMs of one size that `knows_m_step`; pairs of an HMM must be neighbours.
    """
    module = engine().module
    common = _learning(module, models, offsets, sequence, model, weights, iterations, n_threads)
    chain = {"startprob": models.startprob, "transmat": models.transmat}
    if isinstance(models.components, Gaussian):
        _learn_gaussians(module, models, _sequences(module, X, offsets), prior, chain, common)
    else:
        _learn_parts(module, models, X, offsets, prior, chain, common)


def learn_posteriors(
    *, models: Models, X: FloatArray, offsets: IntArray, sequence: IntArray, model: IntArray, weights: FloatArray,
    prior: dict[str, FloatArray], posterior: dict[str, FloatArray], iterations: Iterations, n_threads: int,
) -> None:  # fmt: skip
    """Iterate variational Bayes: `posterior` and `iterations` are changed in place.

    `models` are exp E log of the posterior, which has Dirichlet distributions (start, trans) and, for every state,
    Normal-Gamma ones (beta, v, m, rate); the prior has one of these for all states. Otherwise as `learn`.
    """
    module = engine().module
    module.learn_posteriors(
        models=_models(module, models),
        sequences=_sequences(module, X, offsets),
        prior=module.BeliefsBefore(**{name: _floats(array) for name, array in prior.items()}),
        posterior=module.BeliefsAfter(**posterior),
        **_learning(module, models, offsets, sequence, model, weights, iterations, n_threads),
    )


def _learning(
    module: Any, models: Models, offsets: IntArray, sequence: IntArray, model: IntArray, weights: FloatArray,
    iterations: Iterations, n_threads: int,
) -> dict[str, Any]:  # fmt: skip
    limits = module.Limits(
        least=_floats(iterations.least),
        tolerance=_floats(iterations.tolerance),
        max_iter=iterations.max_iter,
        objective=iterations.objectives,
        n_iter=iterations.n_iter,
    )
    run = _run(module, n_threads, _counting_work(models, offsets, sequence))
    return {"pairs": _pairs(module, sequence, model, weights), "limits": limits, "run": run}


def _learn_gaussians(
    module: Any, models: Models, sequences: Any, prior: Prior, chain: dict[str, Any], common: dict[str, Any]
) -> None:
    gaussian, known = _gaussian(models.components), prior.emissions
    assert isinstance(known, GaussianPrior)
    start, trans, scale, floor = map(_floats, (prior.start, prior.trans, known.scale, known.floor))
    module.learn(
        models=_models(module, models),
        sequences=sequences,
        prior=module.Prior(start=start, trans=trans, covar=known.count, scale=scale, floor=floor),
        learned=module.Learned(**chain, means=gaussian.means, covars=gaussian.covars),
        **common,
    )


def _learn_parts(
    module: Any, models: Models, X: FloatArray, offsets: IntArray, prior: Prior, chain: dict[str, Any],
    common: dict[str, Any],
) -> None:  # fmt: skip
    own = parts.learnable(models.components, prior.emissions, X)
    known = {name: np.ascontiguousarray(array) for name, array in own.prior.items()}
    module.learn_parts(
        models=_split_models(module, models, own.split),
        sequences=_sequences(module, own.split.frames, offsets),
        prior=module.PartPrior(start=_floats(prior.start), trans=_floats(prior.trans), **known),
        learned=module.PartLearned(**chain, probabilities=own.probabilities, coefficients=own.coefficients),
        **common,
    )
    own.put_into(models.components)


def _counting_work(models: Models, offsets: IntArray, sequence: IntArray) -> float:
    _, S, M = models.shape
    frames = len(sequence) * float(offsets[-1] - offsets[0]) / max(1, len(offsets) - 1)
    return float(frames * S * (S + M * models.n_dims + 5))


def posteriors(*, models: Models, X: FloatArray, offsets: IntArray, n_threads: int) -> tuple[FloatArray, FloatArray]:
    """Return log p(y_i), (n,), and the posterior probabilities of the states of one HMM, (T, S)."""
    module = engine().module
    scores = np.empty(len(offsets) - 1)
    gamma = np.empty((len(X), models.n_states[0]))
    module.posteriors(
        **_with_frames(module, models, X, offsets),
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
        **_with_frames(module, models, X, offsets),
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


def number_pairs(codes: AnyIntArray, others: AnyIntArray) -> tuple[AnyIntArray, list[int]]:
    """Return the numbers of pairs (n,) in order of first appearance, and the row in which each is first met."""
    made = codes.astype(np.int32)
    return made, engine().module.number_pairs(codes=made, others=others.astype(np.int32, copy=False))


class RowOrder(NamedTuple):
    """Rows sorted by code, then by time."""

    order: IntArray  #: (n,)
    ends: IntArray  #: where in the order the rows of each code end
    twice: int  #: the first place that equals the next in both, or -1


def order_rows(codes: AnyIntArray, times: FloatArray, n_codes: int) -> RowOrder:
    """Sort rows; those that are equal stay as they are."""
    order, ends = np.empty(len(codes), np.int64), np.empty(n_codes, np.int64)
    small = codes.astype(np.int32, copy=False)
    return RowOrder(order, ends, engine().module.order_rows(codes=small, times=_floats(times), order=order, ends=ends))


def permute_rows(X: FloatArray, order: IntArray) -> None:
    """Sort the rows of X in place: row order[i] comes to place i."""
    engine().module.permute_rows(X=X, order=order)
