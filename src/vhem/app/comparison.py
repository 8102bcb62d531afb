"""Two runs side by side: who is where in both, which clusters correspond, and their centres drawn in one frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from vhem.cli.run_folder import RunFolder
from vhem.estimators.divergence import divergence
from vhem.models import H3M


class NotComparableError(ValueError):
    """The runs have nothing in common."""


def compare(one: Path, other: Path) -> dict[str, Any]:
    """Return how the clusters of two runs correspond.

    Returns
    -------
    dict
        ``table``: members of both, rows are clusters of the first run, columns of the second. ``pairs``: clusters that
        correspond, matched so that as many members as possible stay together, with the divergence of their centres in
        nats per frame. ``moved``: members whose clusters do not correspond.
    """
    a, b = RunFolder(one), RunFolder(other)
    first, second = dict(zip(a.labels.ids, a.labels.labels.tolist(), strict=True)), _labels(b)
    common = [name for name in first if name in second]
    if not common:
        raise NotComparableError("These runs have no person or sequence in common, so there is nothing to compare.")
    table = np.zeros((len(a.centers), len(b.centers)), dtype=np.int64)
    np.add.at(table, ([first[name] for name in common], [second[name] for name in common]), 1)
    rows, columns = (index.tolist() for index in linear_sum_assignment(-table))
    partner = dict(zip(rows, columns, strict=True))
    apart = _apart(a.centers, b.centers, int(a.summary.get("tau") or 10))
    return {
        "table": table.tolist(),
        "pairs": [[i, j, None if apart is None else apart[i][j]] for i, j in partner.items()],
        "moved": [[name, first[name], second[name]] for name in common if partner.get(first[name]) != second[name]],
        "common": len(common),
        "only": [len(first) - len(common), len(second) - len(common)],
        "agreement": float(adjusted_rand_score([first[n] for n in common], [second[n] for n in common])),
    }


def _labels(run: RunFolder) -> dict[str, int]:
    return dict(zip(run.labels.ids, run.labels.labels.tolist(), strict=True))


def _apart(one: H3M, other: H3M, tau: int) -> list[list[float]] | None:
    """Return the divergences between centres, if these describe the same values."""
    if one.n_dims != other.n_dims:
        return None
    both = np.asarray(divergence(one, other, tau)) + np.asarray(divergence(other, one, tau)).T
    return [[round(float(v), 4) for v in row] for row in np.nan_to_num(both / (2 * tau), posinf=1e9)]
