"""H3MClassifier: one mixture of HMMs per class; a sequence belongs to the class that makes it likeliest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_integer
from vhem._support.errors import Count, InputError, ParameterError, warn_if_any
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.aligned_start import aligned_start
from vhem.em.estimator import Estimator
from vhem.em.parameters import check_parameters, documented
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.estimators.vhem import VHEM
from vhem.models import H3M
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.supervised.checks import check_observed
from vhem.supervised.class_polish import polished, with_shared_variances

_PRIORS = "must be 'empirical', 'uniform' or one probability per class"


_TAU = 10  # frames by which ergodic HMMs are compared
_POLISH = 5  # iterations of EM on the sequences of a class
_MOST_COMPARED = 500  # training sequences by which it is decided whether classes share their variances
_LEAST_GAIN = 0.01  # nats per sequence


@documented
@dataclass(eq=False, repr=False)
class H3MClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Classify sequences with one mixture of HMMs per class.

    With "vhem", an HMM is learned from every training sequence, and those of a class are reduced by `VHEM` to
    `n_components` centres, which a few iterations of EM then fit to the sequences. With "em", `MixtureOfHMMs` learns
    the mixture from the sequences of the class directly. A sequence y belongs to the class c with the highest
    p(c) p(y | c).

    Parameters
    ----------
    method : {"vhem", "em"}
        How the mixtures are learned. Only "vhem" can add data to a class without its old sequences (`partial_fit`).
    n_components : int
        HMMs per class. A class with fewer training sequences has one HMM for each, with a warning.
    <sizes>
    topology : {"ergodic", "left-right", "left-right-skip"}
        Which transitions are possible; see `fit_hmms`. Left-right HMMs are for sequences that take the same course
        every time, such as letters or gestures. Their reduction starts once, from averages state by state, which is
        faster and better than restarts from single HMMs.
    tau : int or "auto"
        Length of VHEM's virtual sequences. "auto": 10 for ergodic HMMs; for left-right HMMs twice the number of states
        but no more than the median length of the class's sequences, because shorter ones never reach the last states.
    n_virtual : float
        Virtual sequences per HMM, see `VHEM`.
    priors : {"empirical", "uniform"} or array of shape (n_classes,)
        Probabilities of the classes, in the order of `classes_`.
    likelihood : {"sequence", "frame"}
        Whether log p(y | c) is used as it is, or divided by the number of frames. The first is Bayes' rule; with long
        sequences its probabilities are close to 0 and 1, and priors have no effect. The second keeps them soft.
    n_init : int, optional
        Restarts of every sequence's HMM and of the reduction, or of EM. None: one of each (two of EM), which is faster
        and, for HMMs of single sequences, better.
    polish : int, optional
        Iterations of EM on the sequences of a class, starting from its centres; the classes then share what they say
        about variances (method "vhem"; not for classes that `partial_fit` adds to, whose old sequences are gone).
        None: 5. 0: the centres stay as VHEM made them.
    max_iter, tol : int, float
        When VHEM, or EM, stops.
    reg_covar : float
        Variance floor of the HMMs as a share of the data's variance, see `fit_hmms`.
    covars_prior : float
        Prior on the variances of each sequence's HMM, in pseudo-counts, see `fit_hmms` (method "vhem" only). HMMs with
        many states relative to the length of their sequence are often better with less than the default.
    time_limit : float, optional
        Seconds per class after which EM begins no further iteration (method "em" only).
    <random_state>
    <n_jobs>
    <emissions>
    <verbose>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    class_models_ : list of H3M
        The mixture of each class.
    class_counts_ : ndarray of shape (n_classes,)
        Training sequences of each class, those of every `partial_fit` together.
    n_features_in_ : int
        Dimensions of the sequences.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> rng = np.random.default_rng(0)
    >>> slow = [np.repeat([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(8)]
    >>> quick = [np.tile([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(8)]
    >>> classifier = vhem.H3MClassifier(n_components=2, random_state=0)
    >>> classifier.fit(slow[1:] + quick[1:], ["slow"] * 7 + ["quick"] * 7).predict([slow[0], quick[0]])
    array(['slow', 'quick'], dtype='<U5')
    """

    method: str = "vhem"
    n_components: int = 2
    n_states: int = 2
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "ergodic"
    tau: int | str = "auto"
    n_virtual: float = 100.0
    priors: str | npt.ArrayLike = "empirical"
    likelihood: str = "sequence"
    n_init: int | None = None
    max_iter: int = 100
    tol: float = 1e-4
    reg_covar: float = 1e-3
    covars_prior: float = 0.1
    time_limit: float | None = None
    random_state: Any = None
    n_jobs: int | None = None
    polish: int | None = None
    emissions: Any = "gaussian"
    verbose: bool | None = None

    classes_: npt.NDArray[Any] = field(init=False)
    class_models_: list[H3M] = field(init=False)
    class_counts_: IntArray = field(init=False)
    n_features_in_: int = field(init=False)

    def fit(self, X: SequencesLike, y: Iterable[Any]) -> Self:
        """Learn a mixture for every class.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The sequences; NaN is marginalised.
        y : array of shape (n,)
            The class of each.

        Returns
        -------
        H3MClassifier
            This classifier, fitted.
        """
        self._check_parameters()
        sequences, classes, index = _labelled(X, y)
        if not isinstance(self.priors, str):
            self._given_priors(len(classes))
        self.classes_, self.class_models_ = classes, self._learned(sequences, index, [None] * len(classes), [])
        self.class_counts_ = np.bincount(index)
        self.n_features_in_ = sequences.n_dims
        return self

    def partial_fit(self, X: SequencesLike, y: Iterable[Any], classes: Iterable[Any] | None = None) -> Self:
        """Learn further classes, or more of old ones, without the sequences of earlier calls.

        For a known class, its centres, weighted by the sequences they represent, are pooled with the HMMs of the new
        sequences and reduced again. `priors` cannot be an array here.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The new sequences.
        y : array of shape (n,)
            The class of each: old or new.
        classes : ignored
            Ignored; present for API consistency. Classes may be added one by one.

        Returns
        -------
        H3MClassifier
            This classifier.
        """
        del classes
        if not hasattr(self, "classes_"):
            return self.fit(X, y)
        self._check_parameters()
        if not isinstance(self.priors, str):
            raise InputError("{priors} is an array, which cannot grow with the classes", "use 'empirical' or 'uniform'")
        sequences, new, index = _labelled(X, y)
        if sequences.n_dims != self.n_features_in_:
            raise InputError(
                "{X} has {n:dimension}, but earlier sequences had {before}",
                n=Count(sequences.n_dims), before=self.n_features_in_,
            )  # fmt: skip
        before, now = _label_types(self.classes_), _label_types(new)
        if before != now:
            problem = "y holds {now}, but the classes so far are {before}"
            raise InputError(problem, "give labels of the same type", now=now, before=before)
        places = {c: k for k, c in enumerate(self.classes_.tolist())}
        known = [places.get(c) for c in new.tolist()]
        if self.method == "em" and any(k is not None for k in known):
            old = next(c for c, k in zip(new.tolist(), known, strict=True) if k is not None)
            raise InputError(
                "class {old!r} is already known, and {method:'em'} cannot add to it without its old sequences",
                "use {method:'vhem'}",
                "fit again with all of them",
                old=old,
            )
        models = self._learned(sequences, index, [None if k is None else self.class_models_[k] for k in known], known)
        self._merge(new, models, np.bincount(index))
        return self

    def predict(self, X: SequencesLike) -> npt.NDArray[Any]:
        """Return the most probable class of each sequence."""
        return np.asarray(self.classes_[self.decision_function(X).argmax(axis=1)])

    def predict_proba(self, X: SequencesLike) -> FloatArray:
        """Return the probability of each class for each sequence, (n, n_classes)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict_log_proba(self, X: SequencesLike) -> FloatArray:
        """Return the logarithms of the probabilities."""
        return np.asarray(log_softmax(self.decision_function(X), axis=1))

    def decision_function(self, X: SequencesLike) -> FloatArray:
        """Return log p(c) + log p(y | c), the latter per frame if `likelihood` says so, (n, n_classes)."""
        check_is_fitted(self)
        sequences = as_sequences(X)
        scores = class_log_likelihoods(self.class_models_, sequences, self.n_jobs)
        if self.likelihood == "frame":
            scores /= sequences.lengths[:, None]
        return scores + self._log_priors()

    def _check_parameters(self) -> None:
        check_choice("method", self.method, ("vhem", "em"))
        check_parameters(self, but=("tau",) if self.tau == "auto" else ())
        if self.polish is not None:
            check_integer("polish", self.polish, 0)
        check_choice("likelihood", self.likelihood, ("sequence", "frame"))
        if isinstance(self.priors, str) and self.priors not in ("empirical", "uniform"):
            raise ParameterError("priors", self.priors, _PRIORS)

    def _given_priors(self, n: int) -> FloatArray:
        priors = np.asarray(self.priors, dtype=np.float64)
        if priors.shape != (n,) or not np.isfinite(priors).all() or (priors < 0).any() or not priors.sum() > 0:
            raise ParameterError("priors", self.priors, _PRIORS)
        return np.asarray(priors / priors.sum())

    def _log_priors(self) -> FloatArray:
        n = len(self.classes_)
        if not isinstance(self.priors, str):
            shares = self._given_priors(n)
        elif self.priors == "uniform":
            shares = np.full(n, 1 / n)
        else:
            shares = self.class_counts_ / self.class_counts_.sum()
        with np.errstate(divide="ignore"):
            return np.log(shares)

    def _learned(
        self, sequences: Sequences, index: IntArray, old: list[H3M | None], known: list[int | None]
    ) -> list[H3M]:
        """Return one mixture for each class, including the old one if there is one."""
        n_classes = int(index.max()) + 1
        counts = np.bincount(index)
        self._warn_of_small_classes(counts, old)
        rng = generator(self.random_state)
        if self.method == "em":
            return [self._by_em(sequences[index == c], seed) for c, seed in enumerate(rng.spawn(n_classes))]
        hmms = fit_hmms(
            sequences, self.n_states, self.n_mix, self.covariance_type, topology=self.topology, n_init=self.n_init or 1,
            reg_covar=self.reg_covar, covars_prior=self.covars_prior, pooling=None, random_state=rng,
            n_jobs=self.n_jobs, emissions=self.emissions,
        )  # fmt: skip
        models = []
        for c, seed in enumerate(rng.spawn(n_classes)):
            members, before = hmms[index == c], old[c]
            if before is not None:
                weights = [self.class_counts_[known[c]], counts[c]]
                members = H3M.pool([before, members], weights=weights)
            part = sequences[index == c]
            made, z = self._reduced(members, self._tau(part), seed)
            if before is None and self._n_polish:
                made = polished(made, z.argmax(axis=1), part, self._n_polish, self.reg_covar, self.n_jobs)
            models.append(made)
        return self._sharing(models, counts, old, known, sequences, index) if self._n_polish else models

    def _sharing(
        self, models: list[H3M], counts: IntArray, old: list[H3M | None], known: list[int | None],
        sequences: Sequences, index: IntArray,
    ) -> list[H3M]:  # fmt: skip
        """Return the models with variances shared, if that tells the training sequences apart better.

        New classes share with each other and with all known ones, which stay as they are.
        """
        others, numbers = (self.class_models_, self.class_counts_) if known else ([], [])
        shared = with_shared_variances([*models, *others], np.concatenate([counts, numbers]))
        after = [now if before is None else made for made, now, before in zip(models, shared, old, strict=False)]
        some = np.unique(np.linspace(0, len(index) - 1, min(len(index), _MOST_COMPARED)).astype(int))
        part, classes = sequences[some], index[some]
        gain = log_chances(after, part, classes, self.n_jobs) - log_chances(models, part, classes, self.n_jobs)
        return after if gain > _LEAST_GAIN else models

    @property
    def _n_polish(self) -> int:
        return _POLISH if self.polish is None else self.polish

    def _tau(self, sequences: Sequences) -> int:
        if not isinstance(self.tau, str):
            return self.tau
        return _TAU if self.topology == "ergodic" else min(2 * self.n_states, int(np.median(sequences.lengths)))

    def _warn_of_small_classes(self, counts: IntArray, old: list[H3M | None]) -> None:
        small = sum(n < self.n_components and before is None for n, before in zip(counts, old, strict=True))
        warn_if_any(
            small,
            "{n} of {classes} classes {n:has|have} fewer sequences than {n_components:{k}}: each of these sequences "
            "has its own HMM",
            classes=len(counts),
            k=self.n_components,
        )

    def _reduced(self, hmms: H3M, tau: int, rng: np.random.Generator) -> tuple[H3M, FloatArray]:
        """Return the centres of a class, and the responsibilities of its HMMs."""
        if len(hmms) <= self.n_components:
            return hmms, np.eye(len(hmms))
        aligned = self.topology != "ergodic"
        fit = VHEM(
            self.n_components, self.n_states, self.n_mix, tau=tau, n_virtual=self.n_virtual,
            init=aligned_start(hmms, self.n_components, rng) if aligned else "auto", n_init=self.n_init,
            max_iter=self.max_iter, tol=self.tol, random_state=rng, n_jobs=self.n_jobs,
        ).fit(hmms)  # fmt: skip
        z = fit.responsibilities_
        return fit.centers_.with_weights(hmms.weights @ z), z  # old centres count for many sequences

    def _by_em(self, sequences: Sequences, rng: np.random.Generator) -> H3M:
        shape = (min(self.n_components, len(sequences)), self.n_states, self.n_mix, self.covariance_type, self.topology)
        fit = MixtureOfHMMs(
            *shape, n_init=self.n_init or 2, max_iter=self.max_iter, tol=self.tol, reg_covar=self.reg_covar,
            time_limit=self.time_limit, random_state=rng, n_jobs=self.n_jobs, emissions=self.emissions,
        )  # fmt: skip
        return fit.fit(sequences).model_

    def _merge(self, new: npt.NDArray[Any], models: list[H3M], counts: IntArray) -> None:
        """Replace the mixtures of some classes, or insert those of new classes."""
        merged = dict(
            zip(self.classes_.tolist(), zip(self.class_models_, self.class_counts_, strict=True), strict=True)
        )
        for c, model, n in zip(new.tolist(), models, counts, strict=True):
            merged[c] = model, n + (merged[c][1] if c in merged else 0)
        self.classes_ = np.unique(np.concatenate([self.classes_, new]))
        ordered = [merged[c] for c in self.classes_.tolist()]
        self.class_models_ = [model for model, _ in ordered]
        self.class_counts_ = np.array([n for _, n in ordered], dtype=np.int64)


def class_log_likelihoods(models: list[H3M], sequences: Sequences, n_jobs: int | None = None) -> FloatArray:
    """Return log Σ_k ω_k p(y | HMM k) of every sequence under every mixture, (n, number of mixtures).

    All mixtures are evaluated together, so that many small ones cost no more than one large one.
    """
    pooled = H3M.pool(models)
    with np.errstate(divide="ignore"):
        joint = pooled.log_likelihoods(sequences, n_jobs) + np.log(np.concatenate([m.weights for m in models]))
    begins = np.cumsum([0, *(len(model) for model in models[:-1])])
    return np.asarray(np.logaddexp.reduceat(joint, begins, axis=1))


def log_chances(models: list[H3M], sequences: Sequences, classes: IntArray, n_jobs: int | None = None) -> float:
    """Return the mean log probability that sequences belong to their own classes, all equally likely beforehand."""
    scores = class_log_likelihoods(models, sequences, n_jobs)
    own = scores[np.arange(len(classes)), classes]
    return float((own - logsumexp(scores, axis=1)).mean())


def _labelled(X: SequencesLike, y: Iterable[Any]) -> tuple[Sequences, npt.NDArray[Any], IntArray]:
    """Return the sequences, the classes and the class of each sequence by number."""
    sequences = as_sequences(X)
    labels = np.asarray(y if isinstance(y, np.ndarray) else list(y))
    if isinstance(y, str) or labels.shape != (len(sequences),):
        problem = "{y} has shape {shape} for {n:sequence}"
        raise InputError(problem, "give one class for each", shape=labels.shape, n=Count(len(sequences)))
    if any(label is None or label != label for label in labels.tolist()):  # noqa: PLR0124  (NaN is not a class)
        raise InputError("{y} has missing values", "give every sequence a class", "leave it out")
    check_observed(sequences)
    classes, index = np.unique(labels, return_inverse=True)
    return sequences, classes, index


def _label_types(classes: npt.NDArray[Any]) -> str:
    words = {str: "text", bool: "booleans", int: "numbers", float: "numbers"}
    return " and ".join(sorted({words.get(type(c), type(c).__name__) for c in classes.tolist()}))


def _check_fitted(classifier: H3MClassifier) -> None:
    n = len(classifier.class_models_)
    if classifier.classes_.shape != (n,) or classifier.class_counts_.shape != (n,):
        raise InputError("classes, their models and their counts differ in number")
    if any(model.n_dims != classifier.n_features_in_ for model in classifier.class_models_):
        raise InputError("the models of the classes differ in their dimensions")


register_estimator(H3MClassifier, text_arrays=["classes_"], check=_check_fitted)
