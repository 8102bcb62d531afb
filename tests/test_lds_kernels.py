"""Kalman filter, smoother and expectations between systems, against the joint Gaussian written out."""

import numpy as np
import pytest
from helpers import available_engines, use_engine
from scipy.stats import multivariate_normal

from vhem.kernels import lds, lds_pairs
from vhem.kernels.engine import engine
from vhem.kernels.reference import lds as reference_lds
from vhem.kernels.reference import lds_pairs as reference_pairs
from vhem.kernels.systems import Sums, Systems


@pytest.fixture(autouse=True, params=available_engines())
def _on_every_engine(request, monkeypatch):
    use_engine(monkeypatch, request.param)


def random_systems(seed=0, K=1, n=2, d=3, radius=0.9, singular=False):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(K, n, n))
    A *= radius / np.array([lds.spectral_radius(a) for a in A])[:, None, None]

    def covars(rank):
        factor = rng.normal(size=(K, n, rank))
        return factor @ np.swapaxes(factor, 1, 2) * 0.5

    rank = 1 if singular else n + 1
    return Systems(
        A, rng.normal(size=(K, d, n)), covars(rank), rng.uniform(0.2, 1.5, size=(K, d)), rng.normal(size=(K, n)),
        covars(rank), rng.normal(size=(K, d)),
    )  # fmt: skip


def joint(systems, T, k=0):
    """Mean and covariance of [x_1 … x_T, y_1 … y_T], the sizes n and d, written out."""
    A, C, Q, R, mean, covar, offset = (array[k] for array in systems)
    n = len(A)
    mu = [np.linalg.matrix_power(A, t) @ mean for t in range(T)]
    P = [covar]
    for _ in range(T - 1):
        P.append(A @ P[-1] @ A.T + Q)
    xx = np.zeros((T * n, T * n))
    for s in range(T):
        for t in range(s, T):
            block = np.linalg.matrix_power(A, t - s) @ P[s]
            xx[t * n : t * n + n, s * n : s * n + n] = block
            xx[s * n : s * n + n, t * n : t * n + n] = block.T
    see = np.kron(np.eye(T), C)
    yy = see @ xx @ see.T + np.kron(np.eye(T), np.diag(R))
    mean_x = np.concatenate(mu)
    return mean_x, see @ mean_x + np.tile(offset, T), xx, see @ xx, yy


def drawn_from(systems, k, T):
    """A random sequence of T frames."""
    A, C, Q, R, mean, covar, offset = (array[k] for array in systems)
    rng, n = np.random.default_rng(k), len(A)
    x, frames = rng.multivariate_normal(mean, covar), []
    for _ in range(T):
        frames.append(C @ x + offset + np.sqrt(R) * rng.normal(size=len(R)))
        x = A @ x + rng.multivariate_normal(np.zeros(n), Q)
    return np.array(frames)


def posterior(systems, T, k=0):
    """E[x|y] = a + B y and Cov(x|y)."""
    mean_x, mean_y, xx, yx, yy = joint(systems, T, k)
    B = np.linalg.solve(yy, yx).T
    return mean_x - B @ mean_y, B, xx - B @ yx


def blocks(matrix, n, lag=0):
    T = len(matrix) // n
    return [matrix[(t + lag) * n : (t + lag + 1) * n, t * n : (t + 1) * n] for t in range(T - lag)]


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize(("n", "d", "T"), [(2, 3, 5), (3, 1, 4), (1, 4, 1)])
def test_likelihood_and_smoother(n, d, T, singular):
    systems = random_systems(1, 2, n, d, singular=singular)
    rng = np.random.default_rng(0)
    X, offsets = rng.normal(size=(3 * T, d)), np.array([0, T, 2 * T, 3 * T])
    found = lds.log_likelihoods(systems, X, offsets)
    for k in range(2):
        _, mean_y, _, _, yy = joint(systems, T, k)
        truth = multivariate_normal(mean_y, yy).logpdf(X.reshape(3, -1))
        np.testing.assert_allclose(found[:, k], truth, rtol=1e-9)
        a, B, covar = posterior(systems, T, k)
        smoothed = lds.smooth(systems.take(slice(k, k + 1)), X, offsets)[0]
        np.testing.assert_allclose(smoothed.means.ravel(), a + B @ X[:T].ravel(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(smoothed.covars, blocks(covar, n), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(smoothed.lag_covars, np.reshape(blocks(covar, n, 1), (T - 1, n, n)), atol=1e-9)


def weighted_sums(systems, k, sequences, w):
    """The M-step's sums of one system from `lds.smooth`, sequence by sequence."""
    one = systems.take(slice(k, k + 1))
    n, offset = one.A.shape[-1], one.offset[0]
    total = dict.fromkeys(Sums._fields[1:], 0.0)
    for y, weight in zip(sequences, w, strict=True):
        s = lds.smooth(one, y, np.array([0, len(y)]))[0]
        second = s.covars + s.means[:, :, None] * s.means[:, None, :]
        lag = s.lag_covars + s.means[1:, :, None] * s.means[:-1, None, :]
        c = y - offset
        parts = {
            "weight": 1.0, "frames": len(y), "steps": len(y) - 1, "first": s.means[0], "first_second": second[0],
            "x": s.means.sum(0), "xx": second.sum(0), "xx_before": second[:-1].sum(0), "lag": lag.sum(0).reshape(n, n),
            "y": c.sum(0), "yx": c.T @ s.means, "yy": (c**2).sum(0),
        }  # fmt: skip
        for name, part in parts.items():
            total[name] = total[name] + weight * part
    return total


@pytest.mark.parametrize("chunk", [1, 10**6])
def test_sums_over_ragged_sequences(chunk, monkeypatch):
    monkeypatch.setattr(reference_lds, "_CHUNK", chunk)
    systems = random_systems(2, 3, 2, 3)
    rng = np.random.default_rng(1)
    sequences = [rng.normal(size=(T, 3)) for T in (4, 1, 7, 4, 2)]
    offsets = np.concatenate([[0], np.cumsum([len(y) for y in sequences])])
    weights = np.array([0.5, 0.2, 0.3])
    bound, sums, z = lds.e_step(systems, weights, np.concatenate(sequences), offsets)
    scores = lds.log_likelihoods(systems, np.concatenate(sequences), offsets) + np.log(weights)
    assert bound == pytest.approx(np.logaddexp.reduce(scores, axis=1).sum(), rel=1e-12)
    np.testing.assert_allclose(z, np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)), rtol=1e-9)
    for k in range(3):
        for name, value in weighted_sums(systems, k, sequences, z[:, k]).items():
            np.testing.assert_allclose(getattr(sums, name)[k], value, rtol=1e-9, atol=1e-10, err_msg=name)


def with_gaps(systems, T, seed=0):
    """A sequence with missing values, one frame of them without any, and which values are there."""
    rng = np.random.default_rng(seed)
    d = systems.C.shape[1]
    seen = rng.random((T, d)) < 0.6
    seen[T // 2] = False
    return np.where(seen, rng.normal(size=(T, d)), np.nan), seen


def posterior_of_gaps(systems, y, seen, k=0):
    """Mean and covariance of all states and observations given those that are there, and log p of these."""
    T = len(y)
    mean_x, mean_y, xx, yx, yy = joint(systems, T, k)
    mean, covar = np.concatenate([mean_x, mean_y]), np.block([[xx, yx.T], [yx, yy]])
    there = len(mean_x) + np.flatnonzero(seen.ravel())
    gain = np.linalg.solve(covar[np.ix_(there, there)], covar[there]).T
    rest = y.ravel()[seen.ravel()] - mean[there]
    score = multivariate_normal(mean[there], covar[np.ix_(there, there)]).logpdf(y.ravel()[seen.ravel()])
    return mean + gain @ rest, covar - gain @ covar[there], score


@pytest.mark.parametrize(("n", "d", "T"), [(2, 3, 6), (3, 1, 5), (1, 4, 3)])
def test_missing_values_are_integrated_out(n, d, T):
    systems = random_systems(21, 2, n, d)
    broken = [with_gaps(systems, length, seed) for seed, length in enumerate((T, T - 1))]
    sequences = [broken[0][0], np.random.default_rng(9).normal(size=(T, d)), broken[1][0]]
    offsets = np.concatenate([[0], np.cumsum([len(y) for y in sequences])])
    X, weights = np.concatenate(sequences), np.array([0.3, 0.7])
    scores = lds.log_likelihoods(systems, X, offsets)
    _, sums, z = lds.e_step(systems, weights, X, offsets)
    for k in range(2):
        total = dict.fromkeys(("x", "xx", "xx_before", "lag", "y", "yx", "yy"), 0.0)
        for i, y in enumerate(sequences):
            mean, covar, score = posterior_of_gaps(systems, y, ~np.isnan(y), k)
            assert scores[i, k] == pytest.approx(score, rel=1e-9)
            for name, part in sums_by_joint(mean, covar, len(y), n, systems.offset[k]).items():
                total[name] = total[name] + z[i, k] * part
            smoothed = lds.smooth(systems.take(slice(k, k + 1)), X, offsets)[i]
            inner = covar[: len(y) * n, : len(y) * n]
            np.testing.assert_allclose(smoothed.means.ravel(), mean[: len(y) * n], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(smoothed.covars, blocks(inner, n), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(smoothed.lag_covars, blocks(inner, n, 1), rtol=1e-9, atol=1e-9)
        for name, value in total.items():
            np.testing.assert_allclose(getattr(sums, name)[k], value, rtol=1e-9, atol=1e-9, err_msg=name)


def sums_by_joint(mean, covar, T, n, offset):
    """The M-step's sums of one sequence from the posterior of all its states and observations."""
    d = len(offset)
    mean = mean - np.concatenate([np.zeros(T * n), np.tile(offset, T)])
    second = covar + np.outer(mean, mean)
    inner, cross, outer = second[: T * n, : T * n], second[T * n :, : T * n], np.diagonal(second)[T * n :]
    squares = np.array(blocks(inner, n))
    return {
        "x": mean[: T * n].reshape(T, n).sum(0), "xx": squares.sum(0), "xx_before": squares[:-1].sum(0),
        "lag": np.sum(blocks(inner, n, 1), axis=0), "y": mean[T * n :].reshape(T, d).sum(0),
        "yx": sum(cross[t * d : t * d + d, t * n : t * n + n] for t in range(T)), "yy": outer.reshape(T, d).sum(0),
    }  # fmt: skip


def test_m_step_is_monotone_with_gaps():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3)).cumsum(axis=0)
    X[rng.random(X.shape) < 0.3] = np.nan
    systems, weights, offsets, bounds = random_systems(22, 2), np.full(2, 0.5), 12 * np.arange(6), []
    for _ in range(15):
        bound, sums, _ = lds.e_step(systems, weights, X, offsets)
        bounds.append(bound)
        systems, weights, *_ = lds.m_step(sums, systems, 1e-6, False, True)
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[1:]))
    assert bounds[-1] > bounds[0] + 1


def by_the_engine_and_by_numpy(systems, X, offsets):
    """Return the likelihoods and the sums of an E-step, (found, truth) each."""
    weights = np.full(len(systems.A), 1 / len(systems.A))
    likelihoods = tuple(e.log_likelihoods(systems, X, offsets) for e in (lds, reference_lds))
    return likelihoods, tuple(e.e_step(systems, weights, X, offsets)[1] for e in (lds, reference_lds))


@pytest.mark.parametrize(("noise", "offset"), [(1.0, 0.0), (1e-9, 0.0), (1.0, 1e6)])
def test_many_systems_share_sequences_of_all_lengths(noise, offset):
    """More systems and frames than are taken at a time; states that predict all but a billionth; far from zero."""
    if engine().module is None:
        pytest.skip("the NumPy engine is what is compared with")
    s = random_systems(25, 18, 2, 5)
    systems = s._replace(R=noise * s.R, Q=noise * s.Q, covar=noise * s.covar, offset=s.offset + offset)
    lengths = [1, 2, 40, 128, 129, 130, 300, 7, 64, 65]
    drawn = [drawn_from(systems, k, length) for k, length in enumerate(lengths)]
    X, offsets = np.concatenate(drawn), np.concatenate([[0], np.cumsum(lengths)])
    (found, truth), (sums, expected) = by_the_engine_and_by_numpy(systems, X, offsets)
    np.testing.assert_allclose(found, truth, rtol=1e-9 if not offset else 1e-7)
    for one, other in zip(sums, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(other).max())


@pytest.mark.parametrize(
    "case",
    [
        "as drawn",
        "other units",
        "unseen state",
        "singular",
        "slow to settle",
        "anything at first",
        "unstable, a long gap",
    ],
)
def test_many_frames_share_a_steady_filter(case):
    """Enough of them that the kernel looks for a basis in which the filter costs little; not every system has one."""
    if engine().module is None:
        pytest.skip("the NumPy engine is what is compared with")
    s = random_systems(31, 3, 3, 5, 0.998 if case == "slow to settle" else 0.9, case == "singular")
    if case == "anything at first":
        s = s._replace(covar=np.stack([np.diag([1e6, 1.0, 1e-6])] * 3))
    if case == "other units":
        by = np.diag([1e-6, 1.0, 1e6])
        back = np.linalg.inv(by)
        s = s._replace(A=by @ s.A @ back, C=s.C @ back, Q=by @ s.Q @ by, mean=s.mean @ by, covar=by @ s.covar @ by)
    if case == "unseen state":
        A, C = s.A.copy(), s.C.copy()
        A[:, :2, 2], C[:, :, 2] = 0, 0
        s = s._replace(A=A, C=C)
    lengths = np.repeat([200, 190, 33, 2, 1], 11)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(lengths.sum(), 5)).cumsum(axis=0) * 0.1 + rng.normal(size=(lengths.sum(), 5))
    if case == "unstable, a long gap":
        s = s._replace(A=np.stack([np.diag([1.1, 0.5, 0.3])] * 3))
        X[50:160] = np.nan  # in which what is not known becomes a billion times as much
    rtol = 1e-5 if case == "unstable, a long gap" else 1e-9
    (found, truth), (sums, expected) = by_the_engine_and_by_numpy(s, X, np.concatenate([[0], lengths.cumsum()]))
    np.testing.assert_allclose(found, truth, rtol=rtol)
    for one, other in zip(sums, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=max(rtol, 1e-7), atol=rtol * np.abs(other).max())


@pytest.mark.parametrize("at", [0, 7, 8, 60, 99])
def test_gaps_are_found_wherever_they_begin(at):
    """The kernel looks at the first frames, and at others on its way; only the longest sequence has the last ones."""
    if engine().module is None:
        pytest.skip("the NumPy engine is what is compared with")
    lengths = np.array([100, *range(60, 90, 3)])
    offsets = np.concatenate([[0], lengths.cumsum()])
    X = np.random.default_rng(5).normal(size=(offsets[-1], 4))
    X[at, 2] = X[offsets[5] + 50] = np.nan
    (found, truth), (sums, expected) = by_the_engine_and_by_numpy(random_systems(32, 2, 3, 4), X, offsets)
    np.testing.assert_allclose(found, truth, rtol=1e-9)
    for one, other in zip(sums, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(other).max())


def test_a_system_with_next_to_no_share_has_its_own_sums():
    """What cannot show is left out, by what a system has, not by what there is."""
    if engine().module is None:
        pytest.skip("the NumPy engine is what is compared with")
    systems, weights = random_systems(26, 3, 2, 3), np.array([1.0, 1e-40, 1e-290])
    X, offsets = np.random.default_rng(3).normal(size=(300, 3)), 10 * np.arange(31)
    (_, found, z), (_, truth, _) = (e.e_step(systems, weights, X, offsets) for e in (lds, reference_lds))
    assert np.log10(z.sum(axis=0))[1:] == pytest.approx([-40, -290], abs=15)
    for one, other in zip(found[4:], truth[4:], strict=True):
        for k in range(3):
            np.testing.assert_allclose(one[k], other[k], rtol=1e-9, atol=1e-9 * np.abs(other[k]).max())


@pytest.mark.parametrize("tau", [1, 2, 3, 150])
@pytest.mark.parametrize("noise", [1e-6, 1.0, 1e8, np.inf])
def test_pairs_see_nearly_all_or_next_to_nothing(noise, tau):
    """The less is seen, the longer it takes until frames forget the beginning and the end; infinite: nothing is."""
    if engine().module is None:
        pytest.skip("the NumPy engine is what is compared with")
    base, reduced = random_systems(27, 6, 3, 5, 0.95), random_systems(28, 3, 2, 5, 0.98)
    seen = (0.0 * reduced.C, reduced.R) if noise == np.inf else (reduced.C, noise * reduced.R)
    reduced = reduced._replace(C=seen[0], R=seen[1])
    found, truth = (e.expected_log_likelihood(base, reduced, tau) for e in (lds_pairs, reference_pairs))
    np.testing.assert_allclose(found, truth, rtol=1e-9)


@pytest.mark.parametrize("radius", [0.5, 0.99, 1.02])
def test_engines_agree_over_long_sequences(radius):
    """The compiled engine leaves out steps that change nothing, where there are any."""
    if engine().module is None:
        pytest.skip("the NumPy engine is what is compared with")
    systems, base = random_systems(23, 3, 3, 4, radius), random_systems(24, 10, 2, 4, min(radius, 0.99))
    X = np.random.default_rng(0).normal(size=(900, 4))
    found, expected = (e.e_step(systems, np.full(3, 1 / 3), X, np.array([0, 300, 900])) for e in (lds, reference_lds))
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
    np.testing.assert_allclose(
        lds_pairs.expected_log_likelihood(base, systems, 300),
        reference_pairs.expected_log_likelihood(base, systems, 300), rtol=1e-9,
    )  # fmt: skip
    counts = np.full(10, 1e-4)
    _, sums, z = lds_pairs.e_step(base, systems, np.full(3, 1 / 3), counts, 300)
    truth = reference_pairs.sums(base, systems, z * counts[:, None], 300)
    for name in Sums._fields[1:]:
        one, other = getattr(sums, name), getattr(truth, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max(), err_msg=name)


@pytest.mark.parametrize(("n_b", "n_r", "d", "tau"), [(2, 2, 3, 5), (1, 3, 2, 4), (3, 1, 1, 6), (2, 2, 2, 1)])
@pytest.mark.parametrize("chunk", [1, 10**7])
def test_expectations_between_systems(n_b, n_r, d, tau, chunk, monkeypatch):
    monkeypatch.setattr(reference_pairs, "_CHUNK", chunk)
    base, reduced = random_systems(3, 3, n_b, d), random_systems(4, 2, n_r, d)
    weights, counts = np.array([0.4, 0.6]), np.array([0.3, 0.05, 0.2])
    bound, sums, z = lds_pairs.e_step(base, reduced, weights, counts, tau)
    E = lds_pairs.expected_log_likelihood(base, reduced, tau)
    truth = np.array([[expected_by_joint(base, i, reduced, j, tau) for j in range(2)] for i in range(3)])
    np.testing.assert_allclose(E, truth, rtol=1e-9)
    logits = np.log(weights) + counts[:, None] * truth
    assert bound == pytest.approx(np.logaddexp.reduce(logits, axis=1).sum(), rel=1e-9)
    np.testing.assert_allclose(z.sum(1), 1.0)
    for j in range(2):
        expected = dict.fromkeys(Sums._fields[1:], 0.0)
        for i in range(3):
            for name, part in moments_by_joint(base, i, reduced, j, tau).items():
                expected[name] = expected[name] + z[i, j] * counts[i] * part
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(sums, name)[j], value, rtol=1e-9, atol=1e-9, err_msg=name)


def expected_by_joint(base, i, reduced, j, tau):
    """E_b[log p(y|r)] = -½ [ log|2π Σ_r| + tr(Σ_r⁻¹ (Σ_b + (μ_b-μ_r)(μ_b-μ_r)ᵀ)) ] of all frames together."""
    _, mean_b, _, _, yy_b = joint(base, tau, i)
    _, mean_r, _, _, yy_r = joint(reduced, tau, j)
    spread = yy_b + np.outer(mean_b - mean_r, mean_b - mean_r)
    return -0.5 * (np.linalg.slogdet(2 * np.pi * yy_r)[1] + np.trace(np.linalg.solve(yy_r, spread)))


def moments_by_joint(base, i, reduced, j, tau):
    """The expected sums of r's smoother over sequences of b, from E[x|y] = a + B y under r and y's moments under b."""
    n, d, offset = reduced.A.shape[-1], reduced.C.shape[1], reduced.offset[j]
    _, mean, _, _, yy = joint(base, tau, i)
    a, B, covar = posterior(reduced, tau, j)
    x = a + B @ mean
    xx = covar + B @ yy @ B.T + np.outer(x, x)
    c = mean - np.tile(offset, tau)
    yx = yy @ B.T + np.outer(c, x)
    cc = np.diagonal(yy).reshape(tau, d) + c.reshape(tau, d) ** 2
    second = np.array(blocks(xx, n))
    return {
        "weight": 1.0, "frames": tau, "steps": tau - 1, "first": x[:n], "first_second": second[0],
        "x": x.reshape(tau, n).sum(0), "xx": second.sum(0), "xx_before": second[:-1].sum(0).reshape(n, n),
        "lag": np.reshape(blocks(xx, n, 1), (-1, n, n)).sum(0), "y": c.reshape(tau, d).sum(0),
        "yx": sum(yx[t * d : t * d + d, t * n : t * n + n] for t in range(tau)), "yy": cc.sum(0),
    }  # fmt: skip


def sampled(systems, n_sequences, T, rng):
    A, C, Q, R, mean, covar, offset = (array[0] for array in systems)
    x = rng.multivariate_normal(mean, covar, size=n_sequences)
    frames = []
    for _ in range(T):
        frames.append(x @ C.T + offset + np.sqrt(R) * rng.normal(size=(n_sequences, len(C))))
        x = x @ A.T + rng.multivariate_normal(np.zeros(len(A)), Q, size=n_sequences)
    return np.stack(frames, axis=1)


def test_expectations_between_systems_by_monte_carlo():
    base, reduced, tau = random_systems(5), random_systems(6), 6
    y = sampled(base, 40_000, tau, np.random.default_rng(0))
    offsets = tau * np.arange(len(y) + 1)
    scores = lds.log_likelihoods(reduced, y.reshape(-1, 3), offsets)[:, 0]
    error = scores.std() / np.sqrt(len(y))
    assert lds_pairs.expected_log_likelihood(base, reduced, tau)[0, 0] == pytest.approx(scores.mean(), abs=4 * error)
    _, sums, _ = lds.e_step(reduced, np.ones(1), y.reshape(-1, 3), offsets)
    _, expected, _ = lds_pairs.e_step(base, reduced, np.ones(1), np.array([1.0]), tau)
    for name in Sums._fields[2:]:
        drawn, exact = getattr(sums, name) / len(y), getattr(expected, name)
        np.testing.assert_allclose(drawn, exact, atol=0.03 * max(1.0, np.abs(exact).max()), err_msg=name)


def test_a_system_judges_its_own_sequences_best():
    base = random_systems(7, 4)
    E = lds_pairs.expected_log_likelihood(base, base, 10)
    assert np.all(np.diagonal(E)[:, None] >= E - 1e-9)  # Gibbs' inequality: E is exact, not a bound


@pytest.mark.parametrize("isotropic", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_m_step_is_monotone(isotropic, stable):
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(size=(6, 12, 3)), axis=1) * np.linspace(1, 3, 12)[:, None]  # wants to grow
    X, offsets = y.reshape(-1, 3), 12 * np.arange(7)
    systems, weights, bounds, held = random_systems(8, 2), np.full(2, 0.5), [], 0
    for _ in range(25):
        bound, sums, _ = lds.e_step(systems, weights, X, offsets)
        bounds.append(bound)
        update = lds.m_step(sums, systems, 1e-3, isotropic, stable)
        systems, weights, held = update.systems, update.weights, held + update.n_held_back
        if stable:
            assert max(lds.spectral_radius(A) for A in systems.A) < 1
        if isotropic:
            assert np.ptp(systems.R, axis=1).max() == 0
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[1:]))
    assert (held > 0) == stable


def test_m_step_between_systems_is_monotone():
    base, systems, weights = random_systems(9, 8, 2, 4), random_systems(10, 2, 2, 4), np.full(2, 0.5)
    bounds = []
    for _ in range(25):
        bound, sums, _ = lds_pairs.e_step(base, systems, weights, np.full(8, 3.0), 8)
        bounds.append(bound)
        update = lds.m_step(sums, systems, 1e-6, False, True)
        systems, weights = update.systems, update.weights
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[1:]))
    assert bounds[-1] > bounds[0] + 1


def test_wide_observations_form_nothing_of_their_size_squared():
    import tracemalloc

    systems = random_systems(11, 1, 5, 300)
    y = np.random.default_rng(0).normal(size=(20, 300))
    _, mean_y, _, _, yy = joint(systems, 3)
    found = lds.log_likelihoods(systems, y[:3], np.array([0, 3]))[0, 0]
    assert found == pytest.approx(multivariate_normal(mean_y, yy).logpdf(y[:3].ravel()), rel=1e-9)
    tracemalloc.start()
    lds.e_step(systems, np.ones(1), y, np.array([0, 20]))
    lds_pairs.e_step(systems, systems, np.ones(1), np.ones(1), 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 * 300 * 8
