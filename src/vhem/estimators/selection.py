"""How many clusters? Three answers side by side: held-out likelihood, a BIC on virtual samples, and stability."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_enough, check_integer, check_integers, check_real
from vhem._support.errors import InputError, ParameterError
from vhem._support.randomness import RandomState, generator
from vhem.em.display import showing_call
from vhem.em.parameters import documented
from vhem.estimators.vhem import VHEM
from vhem.models import H3M, HMM
from vhem.models.checks import check_h3m


class ClusterNumbers(NamedTuple):
    """The criteria for each number of clusters; one entry per candidate."""

    n_clusters: IntArray  #: the candidates
    held_out: (
        FloatArray  #: objective per virtual sequence of inputs left out of the fit, mean over folds: higher is better
    )
    held_out_spread: FloatArray  #: its standard error over the folds
    bic: FloatArray  #: -2 · objective + (free parameters) · log(samples), on virtual samples: lower is better
    stability: FloatArray  #: mean adjusted Rand index between fits to resampled inputs: higher is better

    @property
    def best(self) -> dict[str, int]:
        """The number of clusters each criterion prefers.

        Held out: the smallest within one standard error of the highest. Stability: the largest within 0.02 of the
        highest.
        """
        top = np.argmax(self.held_out)
        close = np.flatnonzero(self.held_out >= self.held_out[top] - self.held_out_spread[top])[0]
        stable = np.flatnonzero(self.stability >= self.stability.max() - 0.02)[-1]
        return {
            "held_out": int(self.n_clusters[close]),
            "bic": int(self.n_clusters[np.argmin(self.bic)]),
            "stability": int(self.n_clusters[stable]),
        }

    def __str__(self) -> str:
        lines = [f"{'clusters':>8} {'held-out':>14} {'± s.e.':>10} {'BIC':>14} {'stability':>9}"]
        lines += [f"{k:8d} {h:14.4f} {e:10.4f} {b:14.2f} {s:9.3f}" for k, h, e, b, s in zip(*self, strict=True)]
        return "\n".join([*lines, "best: " + ", ".join(f"{name} {k}" for name, k in self.best.items())])


@documented
@showing_call
def choose_n_clusters(
    X: H3M | list[HMM],
    candidates: Iterable[int] = range(1, 9),
    estimator: VHEM | None = None,
    n_folds: int = 5,
    n_resamples: int = 10,
    samples_per_input: float = 10.0,
    random_state: RandomState = None,
    verbose: bool | None = None,
) -> ClusterNumbers:
    """Compare numbers of clusters for a collection of HMMs.

    Parameters
    ----------
    X : H3M or list of HMM
        The inputs.
    candidates : iterable of int
        Numbers of clusters to try.
    estimator : VHEM, optional
        Its settings are used; the number of clusters and the seed are set here.
    n_folds : int
        Number of folds, each left out in turn, for the held-out objective.
    n_resamples : int
        Pairs of random halves of the inputs whose clusterings of all inputs are compared, for stability. One cluster is
        trivially stable, so its stability is given as chance level, 0.
    samples_per_input : float
        Sequences of length τ that each HMM represents in the BIC: about as many as it was learned from. `n_virtual`,
        which hardens the assignments, would count as far more evidence than there is.
    <random_state>
    <verbose>

    Returns
    -------
    ClusterNumbers
        The table; print it, draw it (`vhem.plotting.plot_n_clusters`), or read its `best`.

    Examples
    --------
    >>> import vhem
    >>> from vhem.datasets import simulated_study
    >>> numbers = vhem.choose_n_clusters(simulated_study().hmms, range(2, 6), n_resamples=4, random_state=0)
    >>> numbers.best["stability"]
    3
    """
    del verbose  # read where progress is shown
    h3m, rng = check_h3m("X", X), generator(random_state)
    if not isinstance(candidates, Iterable):
        raise ParameterError("candidates", candidates, "must be numbers of clusters to try, such as range(2, 9)")
    numbers = np.unique(check_integers("candidates", list(candidates), 1)).astype(np.int64)
    n_folds = min(check_integer("n_folds", n_folds, 2), len(h3m))
    if not len(numbers):
        raise ParameterError("candidates", candidates, "is empty: give numbers of clusters to try")
    if len(h3m) < 2:
        raise InputError("{X} has a single HMM", "give at least 2 HMMs")
    check_enough("candidates", int(numbers[-1]), len(h3m), "HMM")
    check_integer("n_resamples", n_resamples, 1)
    samples = check_real("samples_per_input", samples_per_input, 0.0, open_interval=True) * len(h3m)
    model = VHEM() if estimator is None else clone(estimator)
    folds = np.array_split(rng.permutation(len(h3m)), n_folds)
    halves = [np.array_split(rng.permutation(len(h3m)), 2) for _ in range(n_resamples)]
    rows, seed = [], int(rng.integers(2**63))
    for k in numbers:
        model.set_params(random_state=np.random.default_rng([seed, k]))  # whichever other candidates are compared
        held_out = [_held_out(model, k, h3m, fold) for fold in folds]
        stability = np.mean([_agreement(model, k, h3m, *pair) for pair in halves]) if k > 1 else 0.0
        bic = _bic(_fitted(model, k, h3m), h3m, samples)
        rows.append((np.mean(held_out), np.std(held_out) / np.sqrt(n_folds), bic, stability))
    return ClusterNumbers(numbers, *np.array(rows, dtype=np.float64).T)


def _held_out(model: VHEM, k: int, h3m: H3M, fold: IntArray) -> float:
    rest = np.setdiff1d(np.arange(len(h3m)), fold)
    return float(_fitted(model, k, h3m[rest]).score(h3m[fold]))


def _agreement(model: VHEM, k: int, h3m: H3M, first: IntArray, second: IntArray) -> float:
    one, other = (_fitted(model, k, h3m[half]).predict(h3m) for half in (first, second))
    return float(adjusted_rand_score(one, other))


def _fitted(model: VHEM, k: int, part: H3M) -> VHEM:
    """Fit k clusters to some of the HMMs; if there are fewer than k, each has its own cluster."""
    model.set_params(n_clusters=min(int(k), len(part)))
    return model.fit(part)


def _bic(fit: VHEM, h3m: H3M, samples: float) -> float:
    return float(-2 * samples * fit.score(h3m) + fit.centers_.n_parameters() * np.log(samples))
