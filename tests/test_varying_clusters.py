"""HMMs as items that vary, and numbers of clusters that do not grow with what is known about each member."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import vhem
from vhem.datasets import simulated_study
from vhem.em.virtual_items import VirtualItems
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_every_item_is_counted_under_its_own_hmms_as_vhem_counts(covariance_type):
    study = simulated_study(4, 5, random_state=1)
    fits = [
        vhem.fit_hmms(
            study.sequences, S, groups=study.sequences.groups, covariance_type=covariance_type, random_state=0
        )
        for S in (2, 3)
    ]
    base = BaseModels.of(fits[0].parameters, np.array([3.0, 1.0, 2.0, 5.0]), np.ones(4), 6)
    own = fits[1].parameters.take(np.array([0, 1, 1, 2, 2, 3, 3, 0]))  # two HMMs for each item
    anchors = fits[1].parameters.take(np.array([0, 0, 1, 1, 2, 2, 3, 3])).components
    score, sums = VirtualItems(base).item_expectations(own, anchors, np.arange(8) // 2, 1)
    for k in range(8):
        one, about = own.take(slice(k, k + 1)), anchors.take(slice(k, k + 1))
        made = e_step(base.take(slice(k // 2, k // 2 + 1)), one, np.ones(1), Shortcuts(), anchors=about)
        assert_allclose(score[k], made.bound, rtol=1e-10)
        assert_allclose(sums.start[k], made.sums.start[0], rtol=1e-9, atol=1e-12)
        assert_allclose(sums.trans[k], made.sums.trans[0], rtol=1e-9, atol=1e-12)
        for name, array in made.sums.components.items():
            assert_allclose(sums.components[name][k], array[0], rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_kinds_of_people_are_found_although_no_two_people_are_alike(covariance_type):
    """However much is known about each: the dispersion says how much less their sequences count."""
    study = simulated_study(12, 80, random_state=3)
    hmms = vhem.fit_hmms(
        study.sequences, 3, groups=study.sequences.groups, covariance_type=covariance_type, method="vb", random_state=0
    )
    fit = vhem.VBHEM(range(2, 5), 3, random_state=0).fit(hmms)
    assert fit.n_clusters_ == 3
    assert fit.cluster_probabilities_[fit.cluster_counts_ == 3] > 0.9
    assert fit.dispersion_ > 5


def test_search_and_restarts_are_those_of_vhem():
    study = simulated_study(6, 8, random_state=3)
    hmms = vhem.fit_hmms(study.sequences, 2, groups=study.sequences.groups, method="vb", n_init=2, random_state=0)
    one = vhem.VBHEM(2, 2, n_init=4, random_state=0).fit(hmms)
    sure = vhem.VBHEM(2, 2, n_init="auto", random_state=0).fit(hmms)
    found = vhem.VBHEM(2, 2, n_init=4, search="genetic", max_iter=30, random_state=0).fit(hmms)
    assert one.how_sure_.n_restarts == 4
    assert sure.how_sure_.n_best >= 3
    assert min(sure.lower_bound_, found.lower_bound_) >= one.lower_bound_ - 1e-3
    with pytest.raises(ValueError, match="search must be one of"):
        vhem.VBHEM(2, 2, search="restarts").fit(hmms)
