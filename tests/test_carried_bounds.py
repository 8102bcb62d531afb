"""Bounds carried from one E-step of VHEM to the next: they stay bounds, and nothing is lost by them."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import available_engines, random_h3m, use_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from vhem.em.observed import in_pieces, nodes
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.sharding import Shards
from vhem.emissions import Gaussian
from vhem.kernels.carried import Carried
from vhem.kernels.models import Pieces
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step
from vhem.kernels.reference import reduction as reference

NATIVE = [name for name in available_engines() if name != "reference"]


def bounds_by_emissions(base, reduced):
    """Σ_β (Σ_t p_t(β)) max_ρ E(β,ρ) of all pairs."""
    bounds = []
    for j in range(len(reduced)):
        one = reference.ReducedModel.of(reduced, j)
        E, _ = reference.emission_step(base.models, one)
        bounds.append((base.visits * E.max(axis=-1)).sum(axis=1))
    return np.transpose(bounds)


KNOWN = (bounds_by_emissions, lambda base, reduced: reference.expected_log_likelihood(base.models, reduced, base.tau))


def _stirred_rows(rows, rng, by):
    new = rows * np.exp(by * rng.standard_normal(rows.shape))
    return new / np.maximum(new.sum(axis=-1, keepdims=True), 1e-300)  # rows of padding stay zero


def stirred(models, rng, by):
    """Return models whose Gaussians have moved by about `by` standard deviations."""
    g = models.components
    root = np.sqrt(g.variances)
    scale = np.exp(0.5 * by * rng.standard_normal(root.shape))
    covars = g.covars * scale**2 if g.is_diagonal else g.covars * scale[..., :, None] * scale[..., None, :]
    moved = Gaussian(g.means + by * root * rng.standard_normal(g.means.shape), covars)
    rows = {name: _stirred_rows(getattr(models, name), rng, by) for name in ("startprob", "transmat", "mix_weights")}
    return replace(models, components=moved, **rows)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4), st.sampled_from(["diag", "full"]),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.03, 0.3, 2.0]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_what_is_carried_stays_a_bound(seed, M, d, kind, by):
    rng = np.random.default_rng(seed)
    inputs, centers = (random_h3m(rng, K, 3, M, d, kind).parameters for K in (5, 4))
    base = BaseModels.of(inputs, np.ones(5), np.ones(5), 7)
    visits = base.visits.sum(axis=1)[:, None]
    memory = Carried()
    ceiling = memory.since(5, centers).ceiling
    below = 2 * (visits * ceiling - np.array([known(base, centers) for known in KNOWN]))
    assert (below >= 0).all()
    for _ in range(3):
        memory.known_for(centers)
        centers = stirred(centers, rng, by)
        ceiling, shrink, shift, gain = memory.since(5, centers)
        near = shrink * np.maximum(np.sqrt(below) - np.sqrt(visits) * shift, 0.0)
        below = np.maximum(near**2 - 2 * visits * gain, 0.0)
        bound, true = visits * ceiling - 0.5 * below, np.array([known(base, centers) for known in KNOWN])
        assert (bound >= true - 1e-9 * np.abs(true)).all()
        if by < 1e-5:
            np.testing.assert_allclose(bound, true, rtol=1e-2, atol=1e-2)


def problem(seed, n_virtual, kind="diag", M=1, ragged=False, n_nodes=0):
    """200 HMMs around 40 centres."""
    rng = np.random.default_rng(seed)
    kinds = random_h3m(rng, 40, 3, M, 3, kind, ragged).parameters
    inputs = stirred(kinds.take(rng.integers(40, size=200)), rng, 0.2)
    start = stirred(kinds, rng, 0.5)
    counts = np.full(200, n_virtual)
    base = BaseModels.of(inputs, counts, np.ones(200), 8)
    if n_nodes:
        cut = in_pieces(inputs, nodes(n_nodes, 3, rng, kind == "diag"))
        base = BaseModels.of(cut, counts, np.ones(200), 8, Pieces(inputs, n_nodes))
    weights = rng.dirichlet(np.full(40, 3.0))
    weights[7] = 0.0
    return base, Centers(start, weights / weights.sum())


@pytest.mark.parametrize("engine", NATIVE)
@pytest.mark.parametrize(
    "case",
    [{}, {"kind": "full"}, {"M": 2}, {"M": 2, "kind": "full", "ragged": True}, {"ragged": True}, {"n_nodes": 4}],
    ids=str,
)
@pytest.mark.parametrize("n_virtual", [0.05, 3.0, 1000.0])
def test_nothing_is_lost(engine, case, n_virtual, monkeypatch):
    use_engine(monkeypatch, engine)
    base, state = problem(3, n_virtual, **case)
    remembering = ReductionProblem(base=Shards.of(base)).for_one_run()
    for _ in range(6):
        plain = e_step(base, state.models, state.weights, Shortcuts())
        found = remembering.e_step(state)
        assert found.bound == pytest.approx(plain.bound, rel=1e-12)
        np.testing.assert_allclose(found.mass, plain.mass, rtol=1e-9, atol=1e-15)
        for name, sums in plain.sums.components.items():
            np.testing.assert_allclose(found.sums.components[name], sums, rtol=1e-9, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(found.sums.trans, plain.sums.trans, rtol=1e-9, atol=1e-10)
        state = remembering.m_step(state, found, found, None).state


@pytest.mark.parametrize("engine", NATIVE)
def test_a_cluster_with_next_to_no_mass_keeps_all_that_it_has(engine, monkeypatch):
    """What bounds rule out elsewhere is all that such a cluster is made of."""
    use_engine(monkeypatch, engine)
    base, state = problem(5, 3.0)
    means = state.models.components.means.copy()
    means[3] += 4.0
    far = replace(state.models, components=Gaussian(means, state.models.components.covars))
    remembering = replace(base, carried=Carried())
    for by in (0.0, 1e-3, 2e-3):
        models = stirred(far, np.random.default_rng(0), by)
        found = e_step(remembering, models, state.weights, Shortcuts())
        every = e_step(base, models, state.weights, Shortcuts.of(False))
        assert 0 < every.mass[3] < 1e-40
        assert found.mass[3] == pytest.approx(every.mass[3], rel=1e-9)
        for name, sums in every.sums.components.items():
            np.testing.assert_allclose(found.sums.components[name][3], sums[3], rtol=1e-7, err_msg=name)
        np.testing.assert_allclose(found.sums.trans[3], every.sums.trans[3], rtol=1e-9)


def test_most_emissions_are_not_computed_again():
    base, state = problem(1, 30.0)
    memory = Carried()
    remembering = replace(base, carried=memory)
    for k in range(12):
        found = e_step(remembering, state.models, state.weights, Shortcuts())
        if k == 10:
            before = memory.distance.copy()
            near = memory.nearest.copy()
        state = ReductionProblem(base=None).m_step(state, found, found, None).state
    moved = memory.distance - before
    assert np.mean(moved > 0) < 0.2  # what was computed anew: distances that are carried only fall
    assert np.mean(near == memory.nearest) > 0.9


def test_a_failed_e_step_leaves_nothing_behind():
    base, state = problem(2, 3.0)
    memory = Carried()
    e_step(replace(base, carried=memory), state.models, state.weights, Shortcuts())
    assert (memory.nearest >= 0).all()
    memory.since(200, state.models)  # what an E-step does first; it does not come to its end
    memory.since(200, state.models)
    assert (memory.nearest == -1).all()
    assert not memory.distance.any()


def test_little_is_carried_where_it_does_not_pay():
    base, state = problem(4, 3.0)
    assert Carried().pays_for(200, state.models)
    assert not Carried().pays_for(200, state.models.take(slice(8)))
    assert not Carried(2**20).pays_for(200, state.models)
    few = BaseModels.of(base.models, base.counts, base.scales, base.tau)
    assert few.carried_for(state.models) is None
