"""Solutions that vote: clusters are matched first, weights count, and a vote never loses a cluster."""

import numpy as np

import vhem
from vhem.em.grouped import Batch
from vhem.em.neighbours import neighbours
from vhem.em.polish import Candidate, elected
from vhem.em.votes import averaged

TRUTH = np.repeat([0, 1, 2], [8, 6, 4])


def _candidate(labels: np.ndarray, objective: float, first: np.ndarray = TRUTH) -> Candidate:
    z = np.eye(3)[labels]
    return Candidate("some", first, labels, None, z.mean(axis=0), z, objective, z)  # type: ignore[arg-type]


def test_clusters_are_matched_before_votes_are_counted():
    rng = np.random.default_rng(0)
    wrong = []
    for k in range(5):  # each solution errs in an item of its own and numbers clusters in its own way
        labels = TRUTH.copy()
        labels[3 * k] = (labels[3 * k] + 1) % 3
        wrong.append(np.eye(3)[rng.permutation(3)[labels]])
    found = averaged(wrong, np.ones(5), first=0)
    assert len({(a, b) for a, b in zip(found.argmax(axis=1), TRUTH, strict=True)}) == 3
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.sort(found.max(axis=1))[:5], 0.8)


def test_solutions_that_explain_less_count_less():
    other = np.roll(TRUTH, 2)
    better, worse = _candidate(TRUTH, 0.0), _candidate(other, -3.0 * len(TRUTH))
    np.testing.assert_array_equal(elected([worse, better, worse]).responsibilities.argmax(axis=1), TRUTH)
    as_good = _candidate(other, 0.0)
    np.testing.assert_array_equal(elected([better, as_good, as_good]).responsibilities.argmax(axis=1), other)


def test_wards_parts_vote_as_much_as_they_are_said_to():
    other = np.roll(TRUTH, 2)
    candidates = [_candidate(other, 0.0, first=TRUTH)]
    np.testing.assert_array_equal(elected(candidates, ward=0.9).responsibilities.argmax(axis=1), other)
    np.testing.assert_array_equal(elected(candidates, ward=1.1).responsibilities.argmax(axis=1), TRUTH)


def test_a_vote_does_not_lose_a_cluster():
    two = np.minimum(TRUTH, 1)
    found = elected([_candidate(TRUTH, 1.0), _candidate(two, 0.9), _candidate(two, 0.9)])
    assert set(found.responsibilities.argmax(axis=1)) == {0, 1, 2}


def test_the_neighbour_of_an_item_is_another_of_its_kind():
    rng = np.random.default_rng(1)
    ys = [mean + rng.normal(size=(rng.integers(20, 300), 2)) for mean in np.tile([0.0, 6.0, 12.0], 50)]
    hmms = vhem.fit_hmms(ys, 1, pooling=None, random_state=0)
    found = neighbours(Batch.of(vhem.Sequences(ys), None, None), hmms.parameters, rng)
    assert (found % 3 == np.arange(150) % 3).all()
    assert (found != np.arange(150)).all()
    assert len(np.unique(found)) <= 100


def test_states_of_similar_sequences_mean_the_same():
    """A ramp can be cut into two states anywhere; HMMs that start from each other's cut it in the same place."""
    rng = np.random.default_rng(2)
    ramps = [np.linspace(0, 4, 40) + 0.3 * rng.normal(size=40) for _ in range(24)]
    alone, together = (vhem.fit_hmms(ramps, 3, random_state=0, pooling=how) for how in (None, "auto"))
    spread = [np.sort(h3m.means[:, :, 0, 0], axis=1).std(axis=0).mean() for h3m in (alone, together)]
    assert spread[1] < spread[0]
