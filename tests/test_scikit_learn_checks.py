"""scikit-learn's own checks of estimators.

They fit tables (n, d), which our estimators refuse, because a table could be one sequence or n of them. Here each row
is made a sequence of one frame, or an HMM of one state, so that all of the checks can run. Those that are expected to
fail are listed, each with its reason; one that comes to pass after all fails the test.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6", reason="older versions of scikit-learn have fewer checks")
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from vhem import H3M, VHEM, HMMTransformer, MixtureOfHMMs


def checked(estimator, X, reset):
    if not reset:
        check_is_fitted(estimator)
    return validate_data(estimator, X, dtype=np.float64, reset=reset)


def frames(estimator, X, reset=False):
    return checked(estimator, X, reset)[:, None, :]


def hmms(estimator, X, reset=False):
    if isinstance(X, H3M):  # VHEM's methods call one another
        return X
    X = checked(estimator, X, reset)
    one = np.ones((len(X), 1, 1))
    return H3M.from_arrays(one[:, 0], one, X[:, None], np.ones((len(X), 1, X.shape[1])))


class RowsMixture(MixtureOfHMMs):
    def fit(self, X, y=None, sample_weight=None):
        return super().fit(frames(self, X, reset=True), y, sample_weight=sample_weight)

    def predict(self, X):
        return super().predict(frames(self, X))

    def predict_proba(self, X):
        return super().predict_proba(frames(self, X))

    def score_samples(self, X):
        return super().score_samples(frames(self, X))

    def score(self, X, y=None):
        return super().score(frames(self, X), y)


class RowsTransformer(HMMTransformer):
    def fit(self, X, y=None):
        return super().fit(frames(self, X, reset=True), y)

    def transform(self, X):
        return super().transform(frames(self, X))


class RowsVHEM(VHEM):
    def fit(self, X, y=None):
        return super().fit(hmms(self, X, reset=True), y)

    def predict(self, X):
        return super().predict(hmms(self, X))

    def predict_proba(self, X):
        return super().predict_proba(hmms(self, X))

    def transform(self, X):
        return super().transform(hmms(self, X))

    def score(self, X, y=None):
        return super().score(hmms(self, X), y)


OUTPUT = "transform returns an H3M, which has neither shape nor dtype, and HMMs do not subtract"
STATELESS = "there is nothing to fit: transform works at once"
FAILING = {
    RowsMixture: {
        "check_sample_weight_equivalence_on_dense_data": "starts draw sequences: one given twice is drawn more often, "
        "one of weight two is not, and EM ends elsewhere",
    },
    RowsTransformer: {
        "check_pipeline_consistency": OUTPUT,
        "check_estimators_pickle": OUTPUT,
        "check_transformer_data_not_an_array": OUTPUT,
        "check_transformer_general": OUTPUT,
        "check_transformer_preserve_dtypes": OUTPUT,
        "check_methods_sample_order_invariance": OUTPUT,
        "check_methods_subset_invariance": OUTPUT,
        "check_fit_idempotent": OUTPUT,
        "check_transformers_unfitted": STATELESS,
        "check_fit_check_is_fitted": STATELESS,
        "check_transformer_n_iter": "every HMM has its own number of iterations, in report_",
        "check_dict_unchanged": "transform leaves its report in report_",
    },
    RowsVHEM: {},
}
ESTIMATORS = [
    RowsMixture(2, 1, max_iter=300, random_state=0),
    RowsTransformer(1, random_state=0),
    RowsVHEM(2, max_iter=300, random_state=0),
]
CHECKS = [(e, check) for e in ESTIMATORS for _, check in estimator_checks.estimator_checks_generator(e)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=lambda x: getattr(x, "func", type(x)).__name__)
def test_checks_of_scikit_learn(estimator, check):
    name = check.func.__name__
    if name == "check_array_api_input":
        pytest.skip("needs SCIPY_ARRAY_API set before anything is imported; other arrays than NumPy's are not promised")
    if name in FAILING[type(estimator)]:
        with pytest.raises((AssertionError, AttributeError, TypeError)):
            check(estimator)
    else:
        check(estimator)


@pytest.mark.parametrize("estimator", [MixtureOfHMMs(n_components=2), HMMTransformer()], ids=lambda e: type(e).__name__)
def test_a_table_alone_is_refused(estimator):
    with pytest.raises(ValueError, match="could be one sequence or many"):
        estimator.fit(np.zeros((10, 2)))
