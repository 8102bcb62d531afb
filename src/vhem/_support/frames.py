"""Results as data frames (pandas, an extra)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from vhem._support.errors import Count, InputError
from vhem._support.optional import how_to_install


def data_frame(columns: dict[str, list[Any]]) -> Any:
    """Return columns as a pandas data frame."""
    try:
        import pandas as pd  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"data frames need pandas: {how_to_install('tables')}.") from None
    return pd.DataFrame(columns)


class LabelFrame:
    """Mixin of clusterings that have labels and responsibilities: their method `to_frame`."""

    def to_frame(self, ids: Iterable[Any] | None = None) -> Any:
        """Return who is in which cluster as a pandas data frame: id, cluster, probability, and p0, p1, ….

        Parameters
        ----------
        ids : list, optional
            Names of the inputs, such as ``hmms.ids``, for estimators that do not know them.

        Returns
        -------
        DataFrame
            One row per input; clusters are counted from 0.
        """
        labels, shares = np.asarray(self.labels_), np.asarray(self.responsibilities_)  # type: ignore[attr-defined]
        names = list(getattr(self, "ids_", range(len(labels))) if ids is None else ids)
        if len(names) != len(labels):
            raise InputError(
                "ids has {k} entries for {n:input}", "give one for each", k=len(names), n=Count(len(labels))
            )
        best = shares[np.arange(len(labels)), labels]
        columns = {"id": names, "cluster": labels.tolist(), "probability": best.tolist()}
        return data_frame(columns | {f"p{k}": share.tolist() for k, share in enumerate(shares.T)})
