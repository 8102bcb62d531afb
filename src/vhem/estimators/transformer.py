"""HMMTransformer: one HMM per sequence, as a step of scikit-learn's pipelines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from sklearn.base import TransformerMixin

from vhem._support.saving import register_estimator
from vhem.em.estimator import Estimator
from vhem.em.parameters import documented
from vhem.estimators.fit_hmms import FitReport, fit_hmms
from vhem.models import H3M
from vhem.sequences import SequencesLike, as_sequences


@documented
@dataclass(eq=False, repr=False)
class HMMTransformer(TransformerMixin, Estimator):  # type: ignore[misc]
    """Turn sequences into an H3M with one HMM per sequence.

    Nothing is learned from one set of sequences for another: `transform` fits an HMM to every sequence it is given.

    Parameters
    ----------
    n_states, n_mix, covariance_type, topology, n_init, max_iter, tol, reg_covar, init, criterion
        As in `fit_hmms`.
    startprob_prior, transmat_prior, covars_prior : float
        As in `fit_hmms`.
    <random_state>
    <n_jobs>
    <emissions>
    <verbose>

    Attributes
    ----------
    report_ : FitReport
        What happened in the last `transform`.
    n_features_in_ : int
        Dimensions of the sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from vhem import VHEM, HMMTransformer
    >>> rng = np.random.default_rng(0)
    >>> ys = [np.repeat([m, m + 4.0], 20) + rng.normal(size=40) for m in (0, 0, 0, 9, 9, 9)]
    >>> make_pipeline(HMMTransformer(n_states=2, random_state=0), VHEM(2, random_state=0)).fit_predict(ys)
    array([0, 0, 0, 1, 1, 1])
    """

    n_states: Any = 3
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "ergodic"
    n_init: int = 1
    max_iter: int = 100
    tol: float = 1e-4
    reg_covar: float = 1e-3
    init: str = "auto"
    criterion: str = "bic"
    startprob_prior: float = 0.1
    transmat_prior: float = 0.1
    covars_prior: float = 0.1
    random_state: Any = None
    n_jobs: int | None = None
    emissions: Any = "gaussian"
    verbose: bool | None = None

    report_: FitReport = field(init=False)
    n_features_in_: int = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        """Nothing has to be learned before `transform`."""
        return True

    def fit(self, X: SequencesLike, y: Any = None) -> Self:
        """Check the sequences; there is nothing to learn from them.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The sequences.
        y : ignored
            Ignored; present for API consistency.

        Returns
        -------
        HMMTransformer
            This transformer.
        """
        del y
        self.n_features_in_ = as_sequences(X).n_dims
        return self

    def transform(self, X: SequencesLike) -> H3M:
        """Return an H3M with one HMM for each sequence."""
        h3m, self.report_ = fit_hmms(X, return_report=True, **self.get_params(deep=False))
        return h3m


register_estimator(HMMTransformer)
