"""HMMs as a table with one row per state, for spreadsheets and papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vhem.kernels.models import Models


def state_table(
    models: Models, weights: Any, ids: Sequence[Any], names: Sequence[str] | None = None
) -> dict[str, list[Any]]:
    """Return the columns of a table with one row per HMM, state and component.

    hmm, weight, state and component (from 1), startprob, to_1, to_2, … (transitions), mix_weight, and the parameters of
    the emissions, named after the dimensions.
    """
    K, S, M = models.shape
    k, s, m = (index.ravel() for index in np.indices((K, S, M)))
    kept = (s < models.n_states[k]) & (models.mix_weights[k, s, m] > 0)
    k, s, m = k[kept], s[kept], m[kept]
    columns: dict[str, list[Any]] = {"hmm": [ids[i] for i in k], "weight": np.asarray(weights)[k].tolist()}
    columns |= {"state": (s + 1).tolist(), "startprob": models.startprob[k, s].tolist()}
    columns |= {f"to_{t + 1}": models.transmat[k, s, t].tolist() for t in range(S)}
    if M > 1:
        columns |= {"component": (m + 1).tolist(), "mix_weight": models.mix_weights[k, s, m].tolist()}
    for field, array in models.components.arrays().items():
        columns |= _named(field, np.asarray(array)[k, s, m], names)
    return columns


def _named(field: str, values: Any, names: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the entries of a parameter as columns: means_x, covars_x_y."""
    word = {"means": "mean", "covars": "covariance"}.get(field, field)
    if values.ndim == 1:
        return {word: values.tolist()}
    made = {}
    for index in np.ndindex(values.shape[1:]):
        labels = [names[j] if names is not None and j < len(names) else f"x{j + 1}" for j in index]
        title = "variance" if field == "covars" and values.ndim == 2 else word
        made["_".join([title, *labels])] = values[(slice(None), *index)].tolist()
    return made
