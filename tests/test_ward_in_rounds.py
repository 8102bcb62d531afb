"""Ward's tree of very many HMMs, grown in rounds: the whole tree where it can be compared, and the memory it needs."""

import numpy as np
import pytest
from helpers import random_h3m
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from vhem import H3M, HMM, VHEM
from vhem.em import cluster_starts, ward_in_rounds
from vhem.em.ward import ward_labels
from vhem.kernels.reduction import BaseModels


def base_of(h3m, tau=8):
    return BaseModels.of(h3m.parameters, np.ones(len(h3m)), np.ones(len(h3m)), tau)


def families(rng, n_clusters, each, spread=3.0, S=2, d=4):
    """Return HMMs around others, and of which each is."""
    centers = [spread * rng.normal(size=(S, d)) for _ in range(n_clusters)]
    label = rng.permutation(np.repeat(np.arange(n_clusters), each))
    transmat = [[0.8, 0.2], [0.3, 0.7]]
    hmms = [HMM([0.5, 0.5], transmat, centers[k] + 0.3 * rng.normal(size=(S, d)), np.ones((S, d))) for k in label]
    return H3M(hmms), label


@pytest.mark.parametrize("n_clusters", [1, 2, 7, 39, 40])
def test_all_at_once_is_the_tree_of_scipy(n_clusters):
    base = base_of(random_h3m(np.random.default_rng(0), 40))
    labels = ward_in_rounds.ward_in_rounds(base, n_clusters, np.random.default_rng(0))
    assert adjusted_rand_score(ward_labels(base, n_clusters), labels) == 1.0
    assert len(np.unique(labels)) == n_clusters


def test_clusters_cut_apart_by_parts_come_together_again(monkeypatch):
    monkeypatch.setattr(ward_in_rounds, "AT_ONCE", 60)
    monkeypatch.setattr(ward_in_rounds, "_PART", 40)
    h3m, truth = families(np.random.default_rng(1), 50, 12)
    base, compared = base_of(h3m), []
    plain = ward_in_rounds.symmetrised
    monkeypatch.setattr(
        ward_in_rounds, "symmetrised", lambda models, *a: compared.append(len(models)) or plain(models, *a)
    )
    labels = ward_in_rounds.ward_in_rounds(base, 50, np.random.default_rng(2))
    assert adjusted_rand_score(truth, labels) > 0.99
    assert compared[0] <= 40
    assert sum(n**2 for n in compared) < 0.5 * len(h3m) ** 2


@pytest.mark.parametrize("each", [1, 3, 200])
def test_exactly_as_many_clusters_even_of_duplicates(each, monkeypatch):
    monkeypatch.setattr(ward_in_rounds, "AT_ONCE", 20)
    monkeypatch.setattr(ward_in_rounds, "_PART", 10)
    h3m = random_h3m(np.random.default_rng(3), 200 // each + 1)
    base = base_of(H3M([h3m[k] for k in range(len(h3m)) for _ in range(each)]))
    for n_clusters in (5, 30):
        labels = ward_in_rounds.ward_in_rounds(base, n_clusters, np.random.default_rng(4))
        assert np.array_equal(np.unique(labels), np.arange(n_clusters))


def test_one_seed_makes_one_partition(monkeypatch):
    monkeypatch.setattr(ward_in_rounds, "AT_ONCE", 30)
    monkeypatch.setattr(ward_in_rounds, "_PART", 20)
    base = base_of(families(np.random.default_rng(5), 20, 10, spread=0.5)[0])
    first, again, two_threads = (
        ward_in_rounds.ward_in_rounds(base, 20, np.random.default_rng(6), n_threads) for n_threads in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert np.array_equal(first, two_threads)


def test_medoids_know_how_far_off_they_are():
    """Among points all distances are known, so that estimates can be compared with them."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(12, 300)) + 2 * rng.normal(size=300)
    squares = cdist(points, points, "sqeuclidean").astype(np.float32)
    single = ward_in_rounds._Clusters(np.arange(12), np.ones(12), np.zeros(12))
    a, b, both = (
        ward_in_rounds._as_one(single.take(rows), squares[np.ix_(rows, rows)])
        for rows in (np.arange(5), np.arange(5, 12), np.arange(12))
    )
    for (medoid, size, off), rows in ((a, slice(5)), (b, slice(5, 12)), (both, slice(12))):
        exact = ((points - points[rows].mean(axis=0)) ** 2).sum(axis=1)
        assert medoid == np.arange(12)[rows][exact[rows].argmin()]
        assert size == len(points[rows])
        assert off == pytest.approx(exact[medoid], rel=1e-5)
    two = ward_in_rounds._Clusters(*(np.array(array) for array in zip(a, b, strict=True)))
    between = ward_in_rounds._between_centroids(two, squares[np.ix_(two.medoids, two.medoids)])[0, 1]
    assert between == pytest.approx(((points[:5].mean(axis=0) - points[5:].mean(axis=0)) ** 2).sum(), rel=0.25)
    assert squares[two.medoids[0], two.medoids[1]] > 4 * between  # what it would be without
    medoid, size, off = ward_in_rounds._as_one(two, squares[np.ix_(two.medoids, two.medoids)])
    assert size == 12
    assert off == pytest.approx(((points[medoid] - points.mean(axis=0)) ** 2).sum(), rel=0.1)


def test_vhem_begins_with_rounds_where_there_are_too_many_pairs(monkeypatch):
    h3m, truth = families(np.random.default_rng(8), 30, 10)
    at_once = VHEM(30, random_state=0).fit(h3m)
    for module in (cluster_starts, ward_in_rounds):
        monkeypatch.setattr(module, "AT_ONCE", 100)
    monkeypatch.setattr(ward_in_rounds, "_PART", 50)
    monkeypatch.setattr(cluster_starts, "ward_labels", lambda *_: pytest.fail("all pairs were compared"))
    rounds = VHEM(30, random_state=0).fit(h3m)
    assert adjusted_rand_score(truth, rounds.labels_) == 1.0
    assert rounds.lower_bounds_[-1] == pytest.approx(at_once.lower_bounds_[-1], rel=1e-9)


def test_a_giant_cluster_needs_no_table_of_all_its_pairs(monkeypatch):
    for module in (cluster_starts, ward_in_rounds):
        monkeypatch.setattr(module, "AT_ONCE", 60)
    monkeypatch.setattr(ward_in_rounds, "_PART", 40)
    monkeypatch.setattr(cluster_starts, "MOST_COMPARED", 50)
    rng, largest = np.random.default_rng(9), []
    near = [HMM([1.0], [[1.0]], [[0.01 * rng.normal()]], [[1.0]]) for _ in range(380)]
    far = [HMM([1.0], [[1.0]], [[100.0 + 50.0 * k]], [[1.0]]) for k in range(20)]
    plain = cluster_starts.expected_log_likelihood
    monkeypatch.setattr(
        cluster_starts, "expected_log_likelihood",
        lambda a, b, *rest, **options: largest.append(len(a) * len(b)) or plain(a, b, *rest, **options),
    )  # fmt: skip
    fit = VHEM(21, random_state=0).fit(H3M(near + far))
    assert len(set(fit.labels_[:380])) == 1
    assert len(set(fit.labels_)) == 21
    assert max(largest) <= 50**2


def test_divergences_that_are_no_numbers_are_refused(monkeypatch):
    base = base_of(random_h3m(np.random.default_rng(10), 12))
    plain = ward_in_rounds.symmetrised
    monkeypatch.setattr(ward_in_rounds, "symmetrised", lambda *given: np.full_like(plain(*given), np.nan))
    with pytest.raises(ValueError, match="a divergence between HMMs is not finite"):
        ward_in_rounds.ward_in_rounds(base, 3, np.random.default_rng(0))
