"""Why a clustering differs from known classes: something better was missed, or something else is preferred."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import IntArray
from vhem._support.errors import Count, InputError
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vhem import VHEM
from vhem.models import H3M
from vhem.models.checks import check_h3m
from vhem.sequences import as_sequences

_ALIKE = 0.95  # adjusted Rand index from which on two clusterings tell the same story


class Diagnosis(NamedTuple):
    """What was found, beside what the same algorithm makes of the truth."""

    agreement: float  #: adjusted Rand index of the clusters with the truth
    kept: float  #: the same for what the algorithm ends in if it starts from the truth
    found_objective: float  #: what the algorithm maximises, for the clusters found
    truth_objective: float  #: the same if it starts from the truth
    cause: str  #: "none", "search", "objective" or "estimation"
    cure: str = ""  #: what may find a better solution, if the search missed one

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """What follows, in words."""
        found = f"The clusters agree with the classes by {self.agreement:.2f} (adjusted Rand index)."
        if self.cause == "none":
            return f"{found} There is nothing to explain."
        higher = self.truth_objective - self.found_objective
        if self.cause == "search":
            return (
                f"{found} Started from the classes, the objective is higher by {higher:.4g}: a better solution was "
                f"missed. {self.cure}"
            )
        if self.cause == "estimation":
            return (
                f"{found} To VHEM other clusters describe the HMMs better than the classes do, by {-higher:.4g}; what "
                "describes the sequences behind them best is nearer to the classes. The HMMs have lost what tells the "
                "classes apart: use SequenceClustering, or learn each HMM from more sequences."
            )
        stays = "stay as they are" if self.kept >= _ALIKE else f"are left (agreement {self.kept:.2f})"
        return (
            f"{found} Started from the classes, these {stays}, and the objective is lower by {-higher:.4g}: to the "
            "model other clusters describe the data better. Other states, channels or emissions may see what tells the "
            "classes apart; more restarts will not."
        )


def diagnose(fit: Any, truth: npt.ArrayLike, X: Any, groups: Any = None, sequences: Any = None) -> Diagnosis:
    """Compare a fitted clustering with known classes, and say why they differ.

    The same algorithm is started from the classes. If that ends in a higher objective than what was found, a better
    solution was missed (the search is to blame); otherwise the model prefers other clusters to the classes. If HMMs
    were clustered and their sequences are given, these are clustered too, from the classes and from what was found: if
    the better solution is nearer to the classes, the HMMs have lost what tells these apart (estimation is to blame).

    Parameters
    ----------
    fit : VHEM, MixtureOfHMMs or SequenceClustering
        A fitted estimator.
    truth : array of shape (n,)
        The class of each HMM, sequence or item.
    X : H3M or list of HMMs, or sequences
        What it was fitted to.
    groups : list, optional
        The groups that `SequenceClustering`, or `fit_hmms`, was given.
    sequences : sequences, optional
        For `VHEM`: what the HMMs were learned from.

    Returns
    -------
    Diagnosis
        Agreement, objectives, the cause, and a sentence.

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> study = simulated_study(n_viewers=12)
    >>> fit = vhem.VHEM(3, random_state=0).fit(study.hmms)
    >>> vhem.diagnose(fit, study.strategies, study.hmms).cause
    'none'
    """
    if not isinstance(fit, VHEM | MixtureOfHMMs | SequenceClustering):
        cure = "give a fitted VHEM, MixtureOfHMMs or SequenceClustering"
        raise InputError("{kind} cannot be diagnosed", cure, kind=type(fit).__name__)
    check_is_fitted(fit)
    classes = _numbered(truth)
    if len(classes) != len(fit.labels_):
        raise InputError(
            "truth has {n} classes for {m:item}", "give one for each", n=len(classes), m=Count(len(fit.labels_)),
        )  # fmt: skip
    if len(np.unique(classes)) < 2:
        raise InputError("truth has a single class", "give at least two")
    _check_clusters(fit, int(classes.max()) + 1)
    X = check_h3m("X", X) if isinstance(fit, VHEM) else X
    _check_data(fit, X, groups)
    found, objective, labels = _from_classes(fit, classes, X, groups)
    agreement = float(adjusted_rand_score(classes, fit.labels_))
    better = objective > found + 1e-9 * abs(found)
    cause = "none" if agreement >= _ALIKE else "search" if better else "objective"
    if cause == "objective" and isinstance(fit, VHEM) and sequences is not None:
        asked = [_of_sequences(sequences, groups, X, start) for start in (classes, fit.labels_)]
        best = max(asked, key=lambda one: one.lower_bound_)
        nearer = float(adjusted_rand_score(classes, best.labels_)) - agreement
        cause = "estimation" if nearer > 1 - _ALIKE else cause
    return Diagnosis(agreement, float(adjusted_rand_score(classes, labels)), found, objective, cause, _cure(fit, cause))


def _numbered(truth: npt.ArrayLike) -> IntArray:
    try:
        return np.unique(np.asarray(truth), return_inverse=True)[1].astype(np.int64)
    except TypeError as fault:
        raise InputError("truth must have names or numbers, all of one kind", "leave out what has no class") from fault


def _check_clusters(fit: Any, n_classes: int) -> None:
    """Refuse to compare objectives of different numbers of clusters: more clusters always explain more."""
    n = len(fit.model_ if isinstance(fit, MixtureOfHMMs) else fit.centers_)
    if n != n_classes:
        raise InputError(
            "truth has {classes} classes, but {n:cluster} were asked for", "fit with as many clusters as classes",
            classes=n_classes, n=Count(n),
        )  # fmt: skip


def _check_data(fit: Any, X: Any, groups: Any) -> None:
    """Check that X can be what was fitted."""
    data = X if isinstance(fit, VHEM) else as_sequences(X)
    n = len(data) if isinstance(fit, VHEM) or groups is None else len(set(groups))
    for what, given, fitted in (("items", n, len(fit.labels_)), ("channels", data.n_dims, fit.n_features_in_)):
        if given != fitted:
            raise InputError(
                "X has {given} {what}, but {fitted} were fitted", "give what was fitted",
                given=given, what=what, fitted=fitted,
            )  # fmt: skip


def _cure(fit: Any, cause: str) -> str:
    """Return what the user can do if a better solution was missed."""
    if cause != "search":
        return ""
    if isinstance(fit, SequenceClustering):
        return "MixtureOfHMMs with several restarts (n_init), or another random_state, may find it."
    return "More restarts (n_init), or search='genetic', may find it."


def _from_classes(fit: Any, classes: IntArray, X: Any, groups: Any) -> tuple[float, float, IntArray]:
    """Return the objective found, and objective and labels of the same algorithm started from the classes."""
    K = int(classes.max()) + 1
    if isinstance(fit, SequenceClustering):
        again = (
            clone(fit)
            .set_params(n_clusters=K, n_states=fit.n_states_, topology=fit.topology_)
            .fit(X, groups=groups, partition=classes)
        )
        return fit.lower_bound_, again.lower_bound_, again.labels_
    if isinstance(fit, MixtureOfHMMs):
        sizes = {name: getattr(fit, name) for name in ("n_mix", "covariance_type", "topology", "emissions")}
        hmms = fit_hmms(as_sequences(X), fit.n_states, groups=classes.tolist(), random_state=0, **sizes)
        order = np.argsort([int(name) for name in hmms.ids])
        start = hmms[order].with_weights(np.bincount(classes) / len(classes))
        again = clone(fit).set_params(n_components=K, init=start).fit(X)
        return fit.lower_bound_, again.lower_bound_, again.labels_
    return _of_hmms(fit, classes, X, K)


def _of_hmms(fit: VHEM, classes: IntArray, X: H3M, K: int) -> tuple[float, float, IntArray]:
    """Compare by the bound, whether or not clusters were polished."""
    plain = {"tau": fit.tau_, "polish": False, "n_virtual": 100.0 if fit.n_virtual == "auto" else fit.n_virtual}
    sizes = {"n_states": int(fit.centers_.n_states.max()), "n_mix": fit.centers_.n_mix}
    alone = clone(fit).set_params(n_clusters=1, init="auto", n_init=1, search=None, **sizes, **plain)
    members = [np.flatnonzero(classes == k) for k in range(K)]
    centers = H3M.pool([clone(alone).fit(X[own]).centers_ for own in members])
    start = centers.with_weights(np.bincount(classes) / len(classes))
    again = clone(fit).set_params(n_clusters=K, init=start, **plain).fit(X)
    ended = clone(fit).set_params(init=fit.centers_, **plain).fit(X)
    return ended.lower_bound_, again.lower_bound_, again.labels_


def _of_sequences(sequences: Any, groups: Any, hmms: H3M, start: IntArray) -> SequenceClustering:
    """Return the clusters of the sequences behind the HMMs that are found from a start."""
    again = SequenceClustering(int(start.max()) + 1, "auto", covariance_type=hmms.covariance_type, random_state=0)
    return again.fit(sequences, groups=groups, hmms=hmms, partition=start)
