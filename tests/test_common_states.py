"""Clusters of items that share their states and differ in how they move between them."""

import numpy as np
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.datasets import simulated_study
from vhem.datasets.simulated_sets import rhythms
from vhem.em.common_states import by_common_states, clustered_chains
from vhem.em.fitting import FitPlan
from vhem.em.grouped import Batch


def test_counts_of_known_chains_are_told_apart():
    rng = np.random.default_rng(0)
    chains = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.3, 0.7], [0.7, 0.3]]])
    truth = np.repeat([0, 1], 40)
    counts = np.stack([[rng.multinomial(15, row) for row in chains[k]] for k in truth]).astype(float)
    assert adjusted_rand_score(truth, clustered_chains(counts, 2, rng)) > 0.9


def test_items_without_any_transition_join_some_cluster():
    counts = np.zeros((9, 3, 2))
    counts[:, 0, 0] = 1.0
    counts[3:6, 1], counts[6:, 1] = [0.0, 9.0], [9.0, 0.0]
    labels = clustered_chains(counts, 2, np.random.default_rng(0))
    assert len(set(labels[3:6])) == len(set(labels[6:])) == 1
    assert labels[3] != labels[6]
    assert set(labels[:3]) <= {0, 1}


def test_rhythms_that_single_hmms_do_not_show():
    study = rhythms(200)
    fit = vhem.SequenceClustering(3, 4, random_state=0).fit(study.sequences)
    assert len(fit.candidates_) == 5
    assert max(fit.candidates_, key=fit.candidates_.__getitem__) == "common states"
    assert adjusted_rand_score(study.truth, fit.labels_) > 0.3

    plan = FitPlan.checked(
        n_mix=1, covariance_type="diag", topology="ergodic", reg_covar=1e-3, startprob_prior=0.1, transmat_prior=0.1,
        covars_prior=0.1, max_iter=100, tol=1e-4,
    ).with_states(4)  # fmt: skip
    batch = Batch.of(vhem.Sequences(study.sequences), None, None)
    labels = by_common_states(batch, 3, plan, np.random.default_rng(0))
    assert adjusted_rand_score(study.truth, labels) > 0.5
    assert adjusted_rand_score(study.truth, vhem.VHEM(3, polish=False, random_state=0).fit_predict(fit.hmms_)) < 0.2


def test_clusters_that_hmms_of_items_show_are_left_alone():
    study = simulated_study(n_viewers=20)
    fit = vhem.SequenceClustering(3, 3, random_state=0).fit(study.sequences, groups=study.sequences.groups)
    assert "common states" not in fit.candidates_


def test_left_right_hmms_have_no_common_states():
    courses = [np.repeat([0.0, 3.0, 1.0], 8) + 0.1 * np.random.default_rng(i).normal(size=24) for i in range(8)]
    fit = vhem.SequenceClustering(2, 3, topology="left-right", random_state=0).fit(courses)
    assert "common states" not in fit.candidates_
