"""Hierarchies of HMMs, the tree they make, and the choice of the number of clusters."""

import json
import warnings

import numpy as np
import pytest
from helpers import random_covars, random_rows
from scipy.cluster.hierarchy import cut_tree, fcluster, is_valid_linkage, linkage
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from vhem import H3M, VHEM, HierarchicalVHEM, choose_n_clusters, expected_log_likelihood
from vhem.em.ward import merged_by_ward


def nested(seed=0, n_inputs=96, sizes=(8, 4, 2), S=2, d=3):
    """HMMs around 8 centres around 4 around 2, each scale far below the next, and the truth at every level."""
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((1, S, 1, d))
    truth = []
    for size, scale in zip(sizes[::-1], (400.0, 40.0, 6.0), strict=True):
        shift = np.tile([[[[-1.0]]], [[[1.0]]]], (len(places), 1, 1, 1)) * scale
        places = np.repeat(places, 2, axis=0) + shift
        truth.insert(0, np.arange(n_inputs) * size // n_inputs)
    labels = truth[0]
    h3m = H3M.from_arrays(
        random_rows(rng, (n_inputs, S)),
        0.5 * np.eye(S) + 0.5 * random_rows(rng, (n_inputs, S, S)),
        places[labels] + 0.1 * rng.standard_normal((n_inputs, S, 1, d)),
        random_covars(rng, (n_inputs, S, 1, d), "diag"),
        ids=[f"h{k}" for k in range(n_inputs)],
    )
    return h3m, truth


@pytest.fixture(scope="module", params=["centres", "inputs"])
def hierarchy(request):
    h3m, truth = nested()
    return HierarchicalVHEM(variant=request.param, n_init=6, random_state=0).fit(h3m), h3m, truth


def test_a_separated_hierarchy_is_recovered_exactly(hierarchy):
    fit, _, truth = hierarchy
    assert [len(level) for level in fit.levels_] == [8, 4, 2]
    for labels, expected in zip(fit.labels_, truth, strict=True):
        assert adjusted_rand_score(expected, labels) == 1.0


def test_levels_fit_together(hierarchy):
    fit, h3m, _ = hierarchy
    labels = np.arange(len(h3m))
    for level, parents, expected in zip(fit.levels_, fit.parents_, fit.labels_, strict=True):
        assert level.weights.sum() == pytest.approx(1.0)
        labels = parents[labels]
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(labels, fit.tree_.cut(len(level)))


def test_a_level_of_one_cluster_is_vhem_on_the_level_below():
    h3m, _ = nested()
    fit = HierarchicalVHEM(levels=(4, 1), n_init=2, random_state=0).fit(h3m)
    one = VHEM(1, n_init=2, random_state=3).fit(fit.levels_[0])
    assert fit.fits_[1].lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-4)
    np.testing.assert_allclose(fit.levels_[1].stationary(), one.centers_.stationary(), atol=0.02)
    polished = VHEM(1, init=fit.levels_[1], tol=1e-12, max_iter=500).fit(fit.levels_[0]).centers_
    np.testing.assert_allclose(polished.means, fit.levels_[1].means, rtol=1e-2, atol=0.5)


def test_weights_are_carried_upwards():
    h3m, truth = nested()
    weights = np.where(truth[2] == 0, 3.0, 1.0)
    h3m = h3m.with_weights(weights / weights.sum())
    fit = HierarchicalVHEM(weight_form="virtual", n_init=6, random_state=0).fit(h3m)
    np.testing.assert_allclose(fit.levels_[-1].weights, [0.75, 0.25], atol=1e-9)


def test_walking_the_tree(hierarchy):
    fit, h3m, _ = hierarchy
    nodes = list(fit.tree_.walk())
    assert len(nodes) == 2 + 4 + 8 + 96
    assert sorted(n.index for n in nodes if n.level == 0) == list(range(96))
    for node in nodes:
        assert set(node.children) == set(fit.tree_.children(node.level, node.index))
        members = fit.tree_.members(node.level, node.index)
        if node.level:
            np.testing.assert_array_equal(members, np.flatnonzero(fit.labels_[node.level - 1] == node.index))
        else:
            assert node.name == h3m.ids[node.index]
            assert node.hmm == h3m[node.index]
    with pytest.raises(ValueError, match=r"size of a level, one of \[8, 4, 2\], got 5"):
        fit.tree_.cut(5)


def test_exports(hierarchy):
    fit, h3m, _ = hierarchy
    tree = fit.tree_
    newick = tree.to_newick()
    assert newick.endswith(")root;")
    assert newick.count("(") == newick.count(")") == 1 + 2 + 4 + 8
    assert all(f"{name}:1" in newick for name in h3m.ids)
    nested_objects = json.loads(tree.to_json())
    assert [o["level"] for o in nested_objects] == [3, 3]
    assert sum(len(b["children"]) for a in nested_objects for b in a["children"]) == 8

    linkage = tree.to_linkage()
    assert is_valid_linkage(linkage)
    assert linkage.shape == (95, 4)
    for level, labels in enumerate(fit.labels_, start=1):
        assert adjusted_rand_score(labels, fcluster(linkage, level, "distance")) == 1.0

    networkx = pytest.importorskip("networkx", reason="networkx is an optional library")
    graph = tree.to_networkx()
    assert networkx.is_forest(graph)
    assert graph.number_of_nodes() == 110
    assert set(graph.successors("L3.0")) == {f"L2.{k}" for k in tree.children(3, 0)}


def test_names_that_newick_could_misread_are_quoted():
    h3m, _ = nested(n_inputs=16)
    named = H3M(list(h3m), ids=[f"it's (no. {k})" for k in range(16)])
    tree = HierarchicalVHEM(levels=(2,), random_state=0).fit(named).tree_
    assert "'it''s (no. 3)'" in tree.to_newick()


@pytest.mark.parametrize("kind", ["hmm", "sequences"])
def test_search_finds_most_of_what_an_exhaustive_search_finds(kind):
    h3m, _ = nested(n_inputs=192)
    fit = HierarchicalVHEM(levels=(16, 8, 4, 2), n_init=3, random_state=0).fit(h3m)
    rng = np.random.default_rng(1)
    chosen = rng.choice(192, 24, replace=False)
    if kind == "hmm":
        queries = h3m[chosen]
        exhaustive = expected_log_likelihood(queries, h3m, 10)
    else:
        queries = [h3m[int(k)].sample(1, 30, rng)[0] for k in chosen]
        exhaustive = h3m.log_likelihoods(queries)
    truth = np.argsort(-exhaustive, axis=1)[:, :3]
    recall = {}
    for beam in (1, 3, 1000):
        found = fit.search(queries, k=3, beam_width=beam)
        recall[beam] = np.mean([len(set(a) & set(b)) / 3 for a, b in zip(found.indices, truth, strict=True)])
        query, rank = np.nonzero(found.indices >= 0)
        scores = exhaustive[query, found.indices[query, rank]]
        np.testing.assert_allclose(found.scores[query, rank], scores, rtol=1e-9)
        if beam == 1:
            assert found.n_scored.mean() < 192 / 4
    assert recall[1000] == 1.0
    assert recall[1] <= recall[3]
    assert recall[3] > 0.9


def test_search_reaches_only_what_is_there():
    h3m, _ = nested(n_inputs=16)
    fit = HierarchicalVHEM(levels=(8,), n_init=6, random_state=0).fit(h3m)
    found = fit.search(h3m[0], k=5, beam_width=1)
    assert found.indices.shape == (1, 5)
    assert (found.indices[0] == -1).sum() == 3
    assert np.isneginf(found.scores[found.indices == -1]).all()


def test_a_tree_of_some_holds_all():
    h3m, _ = nested(n_inputs=192)
    few = HierarchicalVHEM(levels=(8, 2), random_state=0).fit(h3m[np.arange(0, 192, 4)]).tree_
    tree = few.with_inputs(h3m, beam_width=8)
    assert [len(layer) for layer in tree.layers] == [192, 8, 2]
    nearest = expected_log_likelihood(h3m, few.layers[1], few.tau).argmax(axis=1)
    np.testing.assert_array_equal(tree.parents[0], nearest)
    best = expected_log_likelihood(h3m, h3m, few.tau).argmax(axis=1)
    np.testing.assert_array_equal(tree.search(h3m, beam_width=8).indices[:, 0], best)
    assert [len(layer) for layer in few.layers] == [48, 8, 2]


def test_one_seed_one_tree():
    h3m, _ = nested(n_inputs=32)
    fits = [HierarchicalVHEM(levels=(4, 2), random_state=5, n_jobs=n).fit(h3m) for n in (1, 2)]
    assert fits[0].levels_[1] == fits[1].levels_[1]
    assert clone(fits[0]).get_params() == fits[0].get_params()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": (2, 4)}, "strictly decrease"),
        ({"levels": ()}, "at least one level"),
        ({"levels": 3}, "levels must be a sequence"),
        ({"levels": (4, 0)}, "levels must hold integers of at least 1, got 0"),
        ({"variant": "leaves"}, "variant must be one of 'centres', 'inputs'"),
        ({"tau": 0}, "tau must be"),
    ],
)
def test_bad_parameters_are_named(change, message):
    h3m, _ = nested(n_inputs=16)
    with pytest.raises(ValueError, match=message):
        HierarchicalVHEM(**change).fit(h3m)


@pytest.mark.slow
def test_the_number_of_clusters_is_found():
    h3m, _ = nested(n_inputs=48)
    model = VHEM(n_init=2, tau=5)
    numbers = choose_n_clusters(h3m, range(1, 7), model, n_folds=3, n_resamples=3, random_state=0)
    assert numbers.n_clusters.tolist() == [1, 2, 3, 4, 5, 6]
    assert numbers.stability[1] == pytest.approx(1.0)
    assert numbers.held_out[3] > numbers.held_out[1] > numbers.held_out[0]
    assert numbers.bic[3] < numbers.bic[1] < numbers.bic[0]
    assert str(numbers).count("\n") == 7
    assert set(numbers.best) == {"held_out", "bic", "stability"}
    alone = choose_n_clusters(h3m, [2], model, n_folds=3, n_resamples=3, random_state=0)
    assert [column[0] for column in alone] == [column[1] for column in numbers]  # whatever it is compared with
    again = choose_n_clusters(h3m, range(1, 7), model, n_folds=3, n_resamples=3, random_state=0)
    np.testing.assert_array_equal(again.stability, numbers.stability)


def test_free_parameters_are_counted():
    h3m, _ = nested(n_inputs=4, S=2, d=3)
    assert h3m.n_parameters() == 3 + 4 * (1 + 2 + 0 + 2 * 6)


def test_choosing_needs_something_to_choose_from():
    h3m, _ = nested(n_inputs=16)
    with pytest.raises(ValueError, match="X has a single HMM; give at least 2 HMMs"):
        choose_n_clusters(h3m[:1])
    with pytest.raises(ValueError, match="candidates must hold integers"):
        choose_n_clusters(h3m, [0, 1])


def test_only_the_tree_that_is_kept_warns(monkeypatch):
    """One tree is said not to have settled, and it is another one that is kept."""
    h3m, _ = nested(n_inputs=16)
    clean = HierarchicalVHEM((4, 2), n_trees=3, n_init=1, random_state=0).fit(h3m)
    kept = int(np.argmax(clean.tree_scores_[:, -1]))
    grow, made = HierarchicalVHEM._grow, []

    def complaining(self, *arguments):
        made.append(None)
        warnings.warn(f"tree {len(made) - 1}", ConvergenceWarning, stacklevel=1)
        return grow(self, *arguments)

    monkeypatch.setattr(HierarchicalVHEM, "_grow", complaining)
    with pytest.warns(ConvergenceWarning) as caught:
        HierarchicalVHEM((4, 2), n_trees=3, n_init=1, random_state=0).fit(h3m)
    assert [str(warning.message) for warning in caught] == [f"tree {kept}"]
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.*visited by no input")  # of centres with one input, in folds of five
def test_more_clusters_than_inputs_are_refused():
    h3m, _ = nested(n_inputs=16)
    with pytest.raises(ValueError, match="levels asks for 8, but there are only 5 HMMs; ask for at most 5"):
        HierarchicalVHEM().fit(h3m[:5])
    with pytest.raises(ValueError, match="candidates asks for 6, but there are only 5 HMMs"):
        choose_n_clusters(h3m[:5], [2, 6])
    # Half of the inputs may be fewer than the clusters: each then has a cluster to itself.
    numbers = choose_n_clusters(h3m[:5], [2, 5], n_resamples=1, random_state=0)
    assert np.isfinite(numbers.stability).all()


def test_merges_go_on_as_wards_tree_would():
    """From single inputs, Ward's merges give the tree that SciPy makes; from a cut of it, the same higher up."""
    points = np.random.default_rng(4).standard_normal((24, 3))
    tree, squares = linkage(points, "ward"), pdist(points) ** 2
    singles, six = np.arange(24), cut_tree(tree, 6)[:, 0]
    for start in (singles, six):
        for n in (4, 2):
            found = merged_by_ward(squares, start, n)[start]
            assert adjusted_rand_score(cut_tree(tree, n)[:, 0], found) == 1.0


def test_one_tree_is_enough_where_wards_merges_are_right():
    h3m, truth = nested()
    fit = HierarchicalVHEM(random_state=0).fit(h3m)
    assert fit.tree_scores_.shape == (1, 3)
    assert [adjusted_rand_score(a, b) for a, b in zip(fit.labels_, truth, strict=True)] == [1.0] * 3
