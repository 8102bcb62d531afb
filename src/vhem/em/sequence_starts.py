"""Where Baum-Welch starts: HMMs made from the frames of each group, in several ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.em.grouped import Batch, Scale
from vhem.em.settings import Shape
from vhem.em.topology import allowed
from vhem.kernels.kmeans import kmeans
from vhem.kernels.maximise import normalised
from vhem.kernels.models import Models

_NEIGHBOURS = 2  # frames on either side that tell the state of a frame which says little by itself
_BLUR = 1.0  # pseudo-transitions (and first frames) per row, so that what happens not to occur stays possible


Start = Callable[[Batch, Scale, Shape, np.random.Generator, int], Models]


def start_kmeans(batch: Batch, scale: Scale, shape: Shape, rng: np.random.Generator, n_threads: int) -> Models:
    """k-means on the frames of each group, in units of its deviations; transitions counted from the labels."""
    Z = _standardised(batch, scale)
    uniforms = rng.random((len(batch.ids), shape.n_states))
    labels = kmeans(Z, batch.frame_offsets, uniforms, n_threads)
    if shape.topology != "ergodic":
        labels = _in_order_of_time(batch, labels, shape.n_states)
    return _from_labels(batch, scale, shape, labels, rng, n_threads)


def start_segments(batch: Batch, scale: Scale, shape: Shape, rng: np.random.Generator, n_threads: int) -> Models:
    """Cut every sequence into as many stretches of equal length as there are states."""
    T = np.repeat(batch.lengths, batch.lengths)
    labels = _time(batch) * shape.n_states // T
    return _from_labels(batch, scale, shape, labels, rng, n_threads)


def start_cuts(batch: Batch, scale: Scale, shape: Shape, rng: np.random.Generator, n_threads: int) -> Models:
    """Cut every sequence into stretches of random lengths, the same shares for all sequences of a group."""
    cuts = np.sort(rng.random((len(batch.ids), shape.n_states - 1)), axis=1)
    share = (_time(batch) + 0.5) / np.repeat(batch.lengths, batch.lengths)
    labels = (share[:, None] > cuts[batch.owner]).sum(axis=1)
    return _from_labels(batch, scale, shape, labels, rng, n_threads)


def start_random(batch: Batch, scale: Scale, shape: Shape, rng: np.random.Generator, n_threads: int) -> Models:
    """Take components around random frames, as wide as the group's frames, and random transitions."""
    if shape.topology != "ergodic":
        return start_cuts(batch, scale, shape, rng, n_threads)
    K, S, M = len(batch.ids), shape.n_states, shape.n_mix
    begins, ends = batch.frame_offsets[:-1, None], batch.frame_offsets[1:, None]
    rows = begins + (rng.random((K, S * M)) * (ends - begins)).astype(np.int64)
    owner = np.repeat(np.arange(K), S * M)
    components = batch.emissions.seeded(batch.X[rows.ravel()], scale.typical, owner).map(np.ascontiguousarray)
    return Models(
        rng.dirichlet(np.ones(S), size=K),
        rng.dirichlet(np.ones(S), size=(K, S)),
        np.full((K, S, M), 1 / M),
        components.reshaped(K, S, M),
        np.full(K, S, dtype=np.int64),
    )


STARTS: dict[str, Start] = {"kmeans": start_kmeans, "segments": start_segments, "random": start_random}


def start_names(init: str, topology: str, n_init: int) -> list[Start]:
    """Return one start per restart; "auto" is k-means for ergodic HMMs and segments for left-right ones."""
    name = ("kmeans" if topology == "ergodic" else "segments") if init == "auto" else init
    again = start_cuts if name == "segments" else STARTS[name]
    return [STARTS[name]] + [again] * (n_init - 1)


def _time(batch: Batch) -> IntArray:
    return np.arange(len(batch.X)) - np.repeat(batch.offsets[:-1], batch.lengths)


def _standardised(batch: Batch, scale: Scale) -> FloatArray:
    sizes = np.diff(batch.frame_offsets)
    unit = np.where(batch.emissions.own_units, 1.0, np.sqrt(scale.variance))
    mean, deviation = (np.repeat(a, sizes, axis=0) for a in (scale.mean, unit))
    Z = np.nan_to_num((batch.features - mean) / deviation, copy=False)
    together = batch.emissions.tell_together
    if together.any():
        Z[:, together] = _averaged(Z[:, together], batch)
    return np.asarray(Z)


def _averaged(Z: FloatArray, batch: Batch) -> FloatArray:
    """Return the averages over each frame and its neighbours in the same sequence.

    One click, or one count, may come from any state; a few in a row show which. Without this, a state would start as a
    set of categories of its own, and EM cannot leave such a start.
    """
    total = np.concatenate([np.zeros((1, Z.shape[1])), Z.cumsum(axis=0)])
    begins, ends = (np.repeat(at, batch.lengths) for at in (batch.offsets[:-1], batch.offsets[1:]))
    now = np.arange(len(Z))
    low, high = np.maximum(now - _NEIGHBOURS, begins), np.minimum(now + _NEIGHBOURS + 1, ends)
    return np.asarray((total[high] - total[low]) / (high - low)[:, None])


def _in_order_of_time(batch: Batch, labels: IntArray, S: int) -> IntArray:
    """Return each group's labels numbered by the average share of the sequence that has passed."""
    K, place = len(batch.ids), batch.owner * S + labels
    share = _time(batch) / np.repeat(batch.lengths, batch.lengths)
    count = np.bincount(place, minlength=K * S)
    when = np.bincount(place, share, K * S) / np.maximum(count, 1)
    when = np.where(count > 0, when, 2.0).reshape(K, S)
    rank = when.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return np.asarray(rank.ravel()[place])


def _from_labels(
    batch: Batch, scale: Scale, shape: Shape, labels: IntArray, rng: np.random.Generator, n_threads: int
) -> Models:
    K, S, M = len(batch.ids), shape.n_states, shape.n_mix
    state = batch.owner * S + labels
    component = _components(batch, scale, state, K * S, M, rng, n_threads)
    components = batch.emissions.labelled(batch.X, component, scale.repeated(S * M).typical, rng)
    count = np.bincount(component, minlength=K * S * M).reshape(K, S, M).astype(np.float64)
    start_mask, trans_mask = allowed(shape.topology, S)
    start, trans = _counts(batch, state, K, S)
    return Models(
        normalised((start + _BLUR / S) * start_mask, np.ones((K, S))),
        normalised((trans + _BLUR / S) * trans_mask, np.ones((K, S, S))),
        normalised(count + 1 / M, np.ones((K, S, M))),
        components.reshaped(K, S, M),
        np.full(K, S, dtype=np.int64),
    )


def _components(
    batch: Batch, scale: Scale, state: IntArray, n: int, M: int, rng: np.random.Generator, n_threads: int
) -> IntArray:
    """Return the component of every frame: k-means once more, on the frames of each state."""
    if M == 1:
        return state
    order = np.argsort(state, kind="stable")
    offsets = np.searchsorted(state[order], np.arange(n + 1)).astype(np.int64)
    inside = np.empty(len(state), dtype=np.int64)
    inside[order] = kmeans(_standardised(batch, scale)[order], offsets, rng.random((n, M)), n_threads)
    return state * M + inside


def _counts(batch: Batch, state: IntArray, K: int, S: int) -> tuple[FloatArray, FloatArray]:
    start = np.bincount(state[batch.offsets[:-1]], minlength=K * S).reshape(K, S)
    moves = np.ones(len(state), dtype=bool)
    moves[batch.offsets[1:] - 1] = False
    at = np.flatnonzero(moves)
    trans = np.bincount(state[at] * S + state[at + 1] % S, minlength=K * S * S).reshape(K, S, S)
    return start.astype(np.float64), trans.astype(np.float64)
