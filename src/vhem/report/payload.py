"""The data that a report's page draws, small enough to be sent by email."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from vhem._support.arrays import FloatArray, IntArray
from vhem.emissions import Gaussian
from vhem.emissions.normal_wishart import NormalWishart
from vhem.estimators.divergence import divergence
from vhem.models import H3M, HMM
from vhem.models.marginals import CURVE, Channel, channels_of, histogram, in_words, marginals
from vhem.models.posterior import ModelPosterior
from vhem.models.stationary import time_shares
from vhem.report.clustering import Clustering

_LONGEST = 400  # frames drawn per sequence; of longer ones every second, third, …
_PROBABILITIES = 4  # decimals
_BYTES_PER_NUMBER = 7.0  # of coordinates, in JSON: an estimate that determines how many sequences are kept
_OTHER_DECIMALS = 3  # of values that are not Gaussian
_ALIKE = 0.5  # mean squared distance of states, in the spread of all centres' states, from which on they are not alike
_MANY_CENTERS = 60  # with more, a table of distances between centres is of no use


def payload(content: Clustering, room: float, notes: list[str], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return everything the page draws, in about `room` bytes; what had to be left out is added to `notes`."""
    decimals = n_decimals(content.levels[0])
    channels = drawn_channels(content.levels[:1], names)
    data: dict[str, Any] = {
        "dims": content.levels[0].n_dims,
        "channels": channels_data(channels),
        "members": _members(content),
        "tau": content.tau,
        "layers": [[], *(drawn_models(level, decimals, content.tau, channels) for level in content.levels)],
        "weights": [np.round(level.weights, _PROBABILITIES).tolist() for level in content.levels],
        "parents": [parent.tolist() for parent in content.parents],
        "restarts": [restart._asdict() for restart in content.run.restarts],
        "divergence": _divergence(content),
    }
    for models, colors in zip(data["layers"][1:], state_colors(content.levels), strict=True):
        for made, like in zip(models, colors, strict=True):
            made["like"] = like
    _add_histograms(data, content, channels)
    _note_other_labels(content, notes)
    room -= len(json.dumps(data))
    room -= _add_member_models(data, content, decimals, room, notes, channels)
    _add_sequences(data, content, decimals, room, notes)
    return data


def _add_histograms(data: dict[str, Any], content: Clustering, channels: list[Channel] | None) -> None:
    """Add to every centre how often the values of each channel were observed among its members."""
    sequences, owners = content.sequences, content.owners
    if sequences is None or owners is None or (channels is None and sequences.n_dims > 1):
        return
    known = content.levels[0].coded(sequences)
    if np.isnan(known.X).all():
        return
    drawn = [Channel("", CURVE, np.array(_ends(known.X)), None)] if channels is None else channels
    for models, labels in zip(data["layers"][1:], content.labels, strict=True):
        of_frame = np.repeat(labels[owners], known.lengths)
        for k, made in enumerate(models):
            found = [histogram(c, x[of_frame == k]) for c, x in zip(drawn, known.X.T, strict=False)]
            made["seen"] = [{"ends": _significant(h.edges[[0, -1]]), "share": _significant(h.density)} for h in found]


def _ends(X: FloatArray) -> tuple[float, float]:
    return float(np.nanmin(X)), float(np.nanmax(X)) + 1e-12


def state_colors(levels: Sequence[H3M]) -> list[list[list[int]]]:
    """Return the colour of each state of each centre of each level: the same if states are alike, another if not."""
    places = [[_places(center) for center in level] for level in levels]
    scale = np.concatenate([own for level in places for own in level]).std(axis=0) + 1e-12
    known = np.empty((0, len(scale)))
    colors: list[list[list[int]]] = [[] for _ in levels]
    for made, level in zip(colors, places, strict=True):
        for own in level:
            apart = (((own[:, None] - known) / scale) ** 2).mean(axis=2)
            matched = zip(*linear_sum_assignment(np.minimum(apart, _ALIKE)), strict=True)
            pairs = {r: int(c) for r, c in matched if apart[r, c] < _ALIKE}
            new = [s for s in range(len(own)) if s not in pairs]
            made.append([pairs[s] if s in pairs else len(known) + new.index(s) for s in range(len(own))])
            known = np.concatenate([known, own[new]])
    return colors


def _places(hmm: HMM) -> FloatArray:
    """Return the mean of what each state emits."""
    return np.asarray(np.einsum("sm,smd->sd", hmm.mix_weights, hmm.emissions.centre()))


def _note_other_labels(content: Clustering, notes: list[str]) -> None:
    """Note if a level's clusters are not unions of those below it (`variant="inputs"`), as the tree shows them."""
    place = np.arange(len(content.names))
    for level, (parent, labels) in enumerate(zip(content.parents, content.labels, strict=True)):
        place = parent[place]
        moved = int((place != labels).sum())
        if moved:
            notes.append(
                f"Level {level + 1} was fitted to all members again: {moved} of them belong to another cluster of that "
                "level than the one above their own in the tree."
            )


def as_script(data: Any) -> str:
    r"""Return JSON that is safe inside a script element: no text in it can end the element or start a comment.

    Examples
    --------
    >>> as_script("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def n_decimals(centers: H3M) -> int:
    """Return how many decimals show a hundredth of the smallest spread: offsets and units do not matter."""
    if not isinstance(centers.emissions, Gaussian):
        return 0 if len(centers.categories) == centers.n_dims else _OTHER_DECIMALS
    variances = centers.covars if centers.covariance_type == "diag" else np.diagonal(centers.covars, 0, -2, -1)
    real = np.arange(centers.startprob.shape[1]) < centers.n_states[:, None]
    smallest = float(np.sqrt(variances[real].min()))
    return int(np.clip(2 - np.floor(np.log10(max(smallest, 1e-12))), 0, 14))


def _significant(values: FloatArray) -> list[Any]:
    """Return the values to four significant digits."""
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    scale = 10.0 ** (3 - size)
    return list((np.round(values * scale) / scale).tolist())


def _to_highest(density: FloatArray) -> list[Any]:
    """Return densities to about a ten-thousandth of the highest: those of milliseconds are small."""
    size = np.ceil(np.log10(max(float(density.max(initial=0.0)), 1e-290)))
    return list(np.round(density, max(_PROBABILITIES - int(size), _PROBABILITIES)).tolist())


def drawn_channels(levels: Sequence[H3M], names: Sequence[str] | None) -> list[Channel] | None:
    """Return the channels of states that do not emit Gaussians, with the same values for all HMMs."""
    if isinstance(levels[0].emissions, Gaussian):
        return None
    return channels_of([hmm for level in levels for hmm in level], names)


def channels_data(channels: list[Channel] | None) -> list[dict[str, Any]] | None:
    """Return channels as the page takes them."""
    if channels is None:
        return None
    return [
        {"name": c.name, "kind": c.kind, "values": _significant(c.values), "names": c.categories and list(c.categories)}
        for c in channels
    ]


def drawn_models(h3m: H3M, decimals: int, tau: int, channels: list[Channel] | None = None) -> list[dict[str, Any]]:
    """Return HMMs as the page draws them."""
    shares = time_shares(h3m.startprob, h3m.transmat, tau)
    made = [_model(hmm, decimals, shares[k, : hmm.n_states], channels) for k, hmm in enumerate(h3m)]
    if h3m.posterior is not None:
        for k, one in enumerate(made):
            one["unsure"] = _uncertainty(h3m.posterior, k, len(one["start"]))
    return made


def _uncertainty(posterior: ModelPosterior, k: int, n_states: int) -> dict[str, Any]:
    """Return intervals of the transition probabilities and, of Gaussians, how well means are known.

    The covariance of a mean is that of its state, divided by the number of frames behind it.
    """
    low, high = (array[k, :n_states, :n_states] for array in posterior.transition_intervals())
    made: dict[str, Any] = {name: np.round(a, _PROBABILITIES).tolist() for name, a in (("low", low), ("high", high))}
    if isinstance(posterior.emissions, NormalWishart):
        made["mean"] = _significant(posterior.deviations()["means"][k, :n_states])
        made["share"] = _significant(1 / posterior.beta[k, :n_states])
    return made


def _model(hmm: HMM, decimals: int, time: FloatArray, channels: list[Channel] | None) -> dict[str, Any]:
    """Return an HMM as the page draws it: Gaussians in one or two dimensions, means and deviations in more.

    Other families are the densities of their channels.
    """
    made: dict[str, Any] = {
        "start": np.round(hmm.startprob, _PROBABILITIES).tolist(),
        "next": np.round(hmm.transmat, _PROBABILITIES).tolist(),
        "time": np.round(time, _PROBABILITIES).tolist(),
    }
    if channels is not None:
        found = marginals(hmm, channels)
        words = [[in_words(one, s) for one in found] for s in range(hmm.n_states)]
        return {**made, "channels": [_to_highest(one.density) for one in found], "words": words}
    variances = hmm.covars if hmm.covariance_type == "diag" else np.diagonal(hmm.covars, 0, -2, -1)
    mean = np.einsum("sm,smd->sd", hmm.mix_weights, hmm.means)
    spread = np.einsum("sm,smd->sd", hmm.mix_weights, variances + (hmm.means - mean[:, None]) ** 2)
    made["mean"], made["sd"] = np.round(mean, decimals).tolist(), _significant(np.sqrt(spread))
    if hmm.n_dims <= 2 and (hmm.n_mix > 1 or hmm.covariance_type == "full"):
        full = hmm.covars if hmm.covariance_type == "full" else hmm.covars[..., None] * np.eye(hmm.n_dims)
        made["parts"] = {
            "weight": np.round(hmm.mix_weights, _PROBABILITIES).tolist(),
            "mean": np.round(hmm.means, decimals).tolist(),
            "cov": _significant(full),
        }
    return made


def _members(content: Clustering) -> dict[str, Any]:
    z = content.responsibilities
    n = len(content.names)
    kinds = sorted(set(content.classes)) if content.classes else []
    owned = np.zeros(n, dtype=np.int64) if content.owners is None else np.bincount(content.owners, minlength=n)
    shares = [] if z is None else [_shares(row) for row in z]
    codes = None if content.classes is None else [kinds.index(c) for c in content.classes]
    return {"names": content.names, "shares": shares, "class": codes, "classes": kinds, "sequences": owned.tolist()}


def _shares(row: FloatArray) -> list[list[float]]:
    """Return the clusters that a member belongs to, most probable first, down to a thousandth."""
    best = np.argsort(-row, kind="stable")[:4]
    return [[int(k), round(float(row[k]), 4)] for k in best if row[k] >= 0.001]


def _divergence(content: Clustering) -> list[list[float]] | None:
    """Return how far apart the centres of the first level are, in nats per virtual frame."""
    centers = content.levels[0]
    if not 1 < len(centers) <= _MANY_CENTERS:
        return None
    apart = np.asarray(divergence(centers, centers, content.tau)) / content.tau
    return list(np.round(np.nan_to_num(apart, posinf=1e9), 3).tolist())


def _add_member_models(
    data: dict[str, Any], content: Clustering, decimals: int, room: float, notes: list[str],
    channels: list[Channel] | None,
) -> float:  # fmt: skip
    """Add the members' own HMMs if they fit; return the bytes they take."""
    if content.inputs is None:
        return 0.0
    models = drawn_models(content.inputs, decimals, content.tau, channels)
    labels, centers = content.labels[0], content.levels[0]
    for k, (hmm, made) in enumerate(zip(content.inputs, models, strict=True)):
        of_center = data["layers"][1][int(labels[k])]["like"]
        found = likeness(hmm, centers[int(labels[k])]).tolist()
        made["like"] = [of_center[s] if s < len(of_center) else s for s in found]
    size = len(json.dumps(models, separators=(",", ":")))
    if size > room:
        notes.append(
            f"The members' own HMMs are not drawn: they would make this file {size / 1e6:.1f} MB larger. "
            "A larger max_megabytes includes them."
        )
        return 0.0
    data["layers"][0] = models
    return float(size)


def likeness(hmm: HMM, center: HMM) -> IntArray:
    """Return for each state the most similar state of the centre, whose colour it gets; no two share one."""
    means = [_places(h) for h in (hmm, center)]
    scale = means[1].std(axis=0) + 1e-12
    apart = (((means[0][:, None] - means[1]) / scale) ** 2).sum(axis=2)
    like = np.full(hmm.n_states, -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(apart)
    like[rows] = columns
    spare = iter(range(center.n_states, center.n_states + hmm.n_states))
    return np.array([next(spare) if s < 0 else s for s in like], dtype=np.int64)


def _add_sequences(
    data: dict[str, Any], content: Clustering, decimals: int, room: float, notes: list[str]
) -> None:  # fmt: skip
    """Add as many sequences of each member as fit, states decoded by its HMM, or else the centre's."""
    if content.sequences is None or content.owners is None:
        return
    kept = _chosen(content, room)
    if len(kept) < len(content.sequences):
        notes.append(
            f"{len(kept)} of {len(content.sequences)} sequences are included, none of a member twice before all others "
            "have one, to keep this file small. A larger max_megabytes (--max-megabytes) includes more."
        )
    own = content.inputs is not None and bool(data["layers"][0])
    labels = content.labels[0]
    by_model: dict[int, list[int]] = {}
    for i in kept.tolist():
        owner = int(content.owners[i])
        by_model.setdefault(owner if own else int(labels[owner]), []).append(i)
    models = content.inputs if own and content.inputs is not None else content.levels[0]
    rows = []
    for k, places in by_model.items():
        paths = models[k].decode(content.sequences[places])[1]
        rows += [_sequence(content, i, path, decimals) for i, path in zip(places, paths, strict=True)]
    data["sequences"], data["decodedBy"] = rows, "member" if own else "center"


def _chosen(content: Clustering, room: float) -> IntArray:
    """Return the sequences that fit into `room` bytes: the first of every member, then the second of each, …."""
    assert content.sequences is not None
    assert content.owners is not None
    owners, d = content.owners, content.sequences.n_dims
    order = np.argsort(owners, kind="stable")
    turn = np.empty(len(owners), dtype=np.int64)
    turn[order] = np.arange(len(owners)) - np.searchsorted(owners[order], owners[order])
    by_turn = np.lexsort([np.arange(len(owners)), turn])
    cost = 60 + np.minimum(content.sequences.lengths[by_turn], _LONGEST) * (2 + _BYTES_PER_NUMBER * d)
    return np.sort(by_turn[np.cumsum(cost) <= room])


def _sequence(content: Clustering, i: int, path: IntArray, decimals: int) -> dict[str, Any]:
    assert content.sequences is not None
    assert content.owners is not None
    values = content.sequences[i]
    step = -(-len(values) // _LONGEST)
    shown = np.round(values[::step], decimals)
    rows = [[None if np.isnan(v) else v for v in row] for row in shown.tolist()]
    name = str(content.sequences.ids[i])
    return {"of": int(content.owners[i]), "name": name, "step": step, "x": rows, "path": path[::step].tolist()}
