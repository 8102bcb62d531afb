"""What all estimators have in common: they can be saved, summarise themselves, and show the progress of long fits."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.phrases import Count
from vhem._support.saving import Saveable
from vhem.em.display import showing
from vhem.models import H3M
from vhem.models.uncertainty import uncertainty_lines

_SHOWN = 20  # clusters, or letters of a value, that are listed


class Estimator(Saveable, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the estimators; mixins of scikit-learn's come before it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = showing(vars(cls)["fit"])

    def summary(self) -> str:
        """Return what was fitted, how that went, and what was found, as text to print.

        Returns
        -------
        str
            Several lines: the call, the course of the fit, the sizes of the clusters, how sure a posterior is of their
            HMMs, and the learned attributes.
        """
        check_is_fitted(self)
        lines = [" ".join(repr(self).split()), *_course(self)]
        for labels in _partitions(self):
            sizes = np.bincount(labels[labels >= 0])
            more = ", …" if len(sizes) > _SHOWN else ""
            shown = ", ".join(map(str, sizes[:_SHOWN])) + more
            lines.append(f"{Count(len(labels)):member} in {Count(len(sizes)):cluster}, of sizes {shown}")
        for model in (getattr(self, name, None) for name in ("centers_", "model_")):
            lines += uncertainty_lines(model) if isinstance(model, H3M) else []
        learned = {name: value for name, value in sorted(vars(self).items()) if name.endswith("_") and name[0] != "_"}
        return "\n".join([*lines, *(f"    {name}: {_short(value)}" for name, value in learned.items())])


class Clusterer(ClusterMixin, Estimator):  # type: ignore[misc]
    """Base of estimators that assign every input to a cluster."""

    labels_: IntArray

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> IntArray:
        """Fit to `X`, with what `fit` takes besides, and return the cluster of each of its members."""
        return np.asarray(self.fit(X, y, **kwargs).labels_)


class EMClusterer(Clusterer):
    """Base of estimators that do so by EM."""

    responsibilities_: FloatArray
    lower_bound_: float
    lower_bounds_: FloatArray
    n_iter_: int
    converged_: bool


def _course(fit: Any) -> list[str]:
    if not hasattr(fit, "n_iter_") or np.ndim(fit.n_iter_):
        return []
    ending = "converged" if getattr(fit, "converged_", True) else "stopped before it had converged,"
    bound = f"; objective {fit.lower_bound_:.7g}" if np.ndim(getattr(fit, "lower_bound_", [])) == 0 else ""
    return [f"{ending} after {Count(int(fit.n_iter_)):iteration}{bound}"]


def _partitions(fit: Any) -> list[Any]:
    labels = getattr(fit, "labels_", None)
    if labels is None:
        return []
    return [np.asarray(part) for part in (labels if isinstance(labels, list) else [labels])]


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if isinstance(value, list | tuple | dict) and len(value) > 3:
        return f"{type(value).__name__} of {len(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 6 * _SHOWN else f"{text[: 6 * _SHOWN]} …"
