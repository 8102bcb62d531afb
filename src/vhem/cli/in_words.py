"""What came out of a run, in words and in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.phrases import Count
from vhem.cli.inputs import Input
from vhem.emissions import Gaussian
from vhem.emissions.dirichlet import mean_rows
from vhem.models import H3M, HMM
from vhem.models.marginals import in_words, marginals
from vhem.models.stationary import time_shares
from vhem.sequences import Sequences

_NAMES = 12  # members named in the text
_FEW = 8  # categories named in the text
_SHOWN = 6  # channels of a state


def of_input(found: Input) -> dict[str, Any]:
    """Return what was read."""
    content = found.content
    if isinstance(content, Sequences):
        low, high = int(content.lengths.min()), int(content.lengths.max())
        numbers: dict[str, Any] = {
            "sequences": len(content),
            "frames": len(content.X),
            "shortest": low,
            "longest": high,
        }
        numbers |= {"missing_values": int(np.isnan(content.X).sum())}
        if content.groups is not None:
            numbers["groups"] = len(set(content.groups))
        if content.categories:
            numbers["categories"] = {name: list(names) for name, names in content.categories.items()}
    else:
        numbers = {"hmms": len(content)}
    roles = {} if found.roles is None else found.roles._asdict()
    if not roles.get("id"):  # one sequence per file: its columns have no roles, but some may be ignored
        roles = {"ignored": roles.get("ignored")}
    return {**numbers, "dimensions": content.n_dims, "columns": {k: v for k, v in roles.items() if v}}


def input_text(found: Input) -> str:
    """Return what was read, in one line."""
    numbers = of_input(found)
    words = {"sequences": "sequence", "groups": "group", "frames": "frame", "hmms": "HMM"}
    what = ", ".join(format(Count(numbers[key]), word) for key, word in words.items() if key in numbers)
    missing = f", {Count(numbers['missing_values']):value} missing" if numbers.get("missing_values") else ""
    names = found.feature_names or [f"{Count(numbers['dimensions']):dimension}"]
    categories = numbers.get("categories", {})
    names = [f"{name} ({_counted(categories[name])})" if name in categories else name for name in names]
    return f"Read {what}{missing}; values: {_few(names)}{_other_columns(numbers['columns'])}."


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")


def _other_columns(columns: dict[str, Any]) -> str:
    """Return by what rows were sorted, and which columns have no part in anything."""
    order = f"; in order of {columns['time']}" if columns.get("time") else ""
    return order + (f"; not used: {_few(columns['ignored'])}" if columns.get("ignored") else "")


def _counted(names: list[str]) -> str:
    """Return how many categories there are, and which, if they are few."""
    return ("1 category" if len(names) == 1 else f"{len(names)} categories") + (
        f": {', '.join(names)}" if len(names) <= _FEW else ""
    )


def restarts_found_best(fit: Any) -> tuple[int, int]:
    """Return how many restarts ended with the best bound, up to rounding, and how many there were."""
    bounds = np.array([restart.lower_bounds[-1] for restart in fit.restarts_])
    return int((bounds >= bounds.max() - 1e-5 * abs(bounds.max())).sum()), len(bounds)


def restarts_text(fit: Any) -> str:
    """Return a line that says whether other starts, if any, gave the same clusters."""
    found, n = restarts_found_best(fit)
    if n == 1:
        return ""
    advice = "; there may be better ones: raise --restarts" if found == 1 else ""
    return f"{found} of {n} restarts found the best clusters{advice}.\n"


def of_hmm(hmm: HMM, length: int, names: list[str] | None = None) -> list[dict[str, Any]]:
    """Return the states of an HMM: what they emit, their share of time in sequences of a given length, what follows."""
    share = time_shares(hmm.startprob[None], hmm.transmat[None], length)[0]
    emitted = _gaussian(hmm) if isinstance(hmm.emissions, Gaussian) else _channels(hmm, names)
    return [
        {"state": s + 1, "share_of_time": float(share[s]), **emitted[s], "next": (hmm.transmat[s]).tolist()}
        for s in range(hmm.n_states)
    ]


def _gaussian(hmm: HMM) -> list[dict[str, Any]]:
    """Return where the states are, and how far they spread."""
    mean = np.einsum("sm,smd->sd", hmm.mix_weights, hmm.means)
    spread = _spread(hmm, mean)
    return [{"mean": mean[s].tolist(), "deviation": spread[s].tolist()} for s in range(hmm.n_states)]


def _channels(hmm: HMM, names: list[str] | None) -> list[dict[str, Any]]:
    """Return what the states emit in each channel, in words, and the probabilities of categories."""
    found = marginals(hmm, names=names)
    shares = [(m, m.channel.categories) for m in found if m.channel.categories is not None]
    return [
        {
            "emits": [in_words(one, s) for one in found],
            "probabilities": {
                m.channel.name: dict(zip(words, m.density[s].round(6).tolist(), strict=True)) for m, words in shares
            },
        }
        for s in range(hmm.n_states)
    ]


def _spread(hmm: HMM, mean: FloatArray) -> FloatArray:
    """Return the standard deviation of each state's mixture of Gaussians."""
    full = hmm.covariance_type == "full"
    variances = np.diagonal(hmm.covars, axis1=2, axis2=3) if full else hmm.covars
    apart = (hmm.means - mean[:, None]) ** 2
    return np.asarray(np.sqrt(np.einsum("sm,smd->sd", hmm.mix_weights, variances + apart)))


def of_clusters(
    centers: H3M,
    ids: list[Any],
    labels: IntArray,
    length: int,
    responsibilities: FloatArray | None = None,
    names: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the members of each cluster, and the states of its centre."""
    rows = []
    for k, center in enumerate(centers):
        members = np.flatnonzero(labels == k)
        row: dict[str, Any] = {"cluster": k + 1, "members": [_plain(ids[i]) for i in members]}
        row |= {"weight": float(centers.weights[k]), "states": of_hmm(center, length, names)}
        _add_uncertainty(row["states"], centers, k)
        if responsibilities is not None:
            row["doubtful"] = [_plain(ids[i]) for i in members if responsibilities[i, k] < 0.9]
        rows.append(row)
    return rows


def _add_uncertainty(states: list[dict[str, Any]], centers: H3M, k: int) -> None:
    """Add how sure a posterior, if there is one, is of means and transitions."""
    if centers.posterior is None:
        return
    low, high = centers.posterior.transition_intervals()
    expected = mean_rows(centers.posterior.epsilon)
    wide = centers.posterior.deviations().get("means")
    for s, state in enumerate(states):
        state["next_expected"] = expected[k, s, : len(states)].tolist()
        state["next_interval"] = [low[k, s, : len(states)].tolist(), high[k, s, : len(states)].tolist()]
        if wide is not None and "mean" in state:
            state["mean_deviation"] = wide[k, s].tolist()


def _plain(name: Any) -> Any:
    return name if isinstance(name, (str, int, float)) else str(name)


def clusters_text(rows: list[dict[str, Any]], names: list[str] | None, what: str) -> str:
    """Return a paragraph per cluster."""
    lines = []
    sizes = [row.get("n_members", len(row.get("members", []))) for row in rows]
    total = sum(sizes)
    for row, n in zip(rows, sizes, strict=True):
        lines.append(f"Cluster {row['cluster']}: {n:,} of {total:,} {what}")
        lines += [f"    {_first(row['members'], n)}"] if row.get("members") else []
        lines += [f"    {_state_text(state, row['states'], names)}" for state in row["states"]]
        if row.get("doubtful"):
            lines.append(f"    in doubt: {_first(row['doubtful'], len(row['doubtful']))}")
        lines.append("")
    return "\n".join(lines).rstrip()


def _first(members: list[Any], n: int) -> str:
    """Return the names of the first of n members."""
    shown = ", ".join(map(str, members[:_NAMES]))
    return f"{shown} and {n - _NAMES} more" if n > _NAMES else shown


def _emitted_text(state: dict[str, Any], names: list[str] | None) -> str:
    """Return what a state emits: "x 3.1 ± 0.4, y 2 ± 1", or "page: search 62 %, cart 11 %"."""
    if "emits" in state:
        return "; ".join(state["emits"][:_SHOWN])
    labels = names or [f"x{j + 1}" for j in range(len(state["mean"]))]
    known = state.get("mean_deviation")
    sure = [""] * len(labels) if known is None else [f" (mean known to ± {sd:.2g})" for sd in known]
    shown = list(zip(labels, state["mean"], state["deviation"], sure, strict=True))[:_SHOWN]
    return ", ".join(f"{label} {mean:.4g} ± {spread:.3g}{to}" for label, mean, spread, to in shown)


def _state_text(state: dict[str, Any], states: list[dict[str, Any]], names: list[str] | None) -> str:
    where = _emitted_text(state, names)
    more = " …" if len(state.get("mean", state.get("emits", ()))) > _SHOWN else ""
    text = f"state {state['state']}, {100 * state['share_of_time']:3.0f} % of the time: {where}{more}"
    if len(states) == 1:
        return text
    shares = state.get(
        "next_expected", state["next"]
    )  # an estimate of 100 % need not lie within an interval: a mean does
    onward, between = int(np.argmax(shares)), ""
    if "next_interval" in state:
        low, high = (100 * ends[onward] for ends in state["next_interval"])
        between = f", 95 % interval {low:.0f} to {high:.0f} %"
    verb = "stays there" if onward + 1 == state["state"] else f"then most often state {onward + 1}"
    return f"{text}; {verb} ({100 * shares[onward]:.0f} %{between})"
