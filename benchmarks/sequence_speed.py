"""Learning from sequences, as ratios against hmmlearn in one run: many short sequences, one long one, EM-H3M.

Every time is process time on one thread, except for the last table, which is wall-clock time on one and two threads.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from hmmlearn.hmm import GaussianHMM
from sklearn.cluster import KMeans

from vhem import H3M, HMM, MixtureOfHMMs, Sequences, fit_hmms
from vhem.kernels.counting import Pairs, expectations

PLAIN = {"reg_covar": 0.0, "startprob_prior": 0.0, "transmat_prior": 0.0, "covars_prior": 0.0}


def best_time(work, repeats=5, clock=time.process_time):
    """Return the shortest of several times, and the last result."""
    times = []
    for _ in range(repeats):
        begin = clock()
        result = work()
        times.append(clock() - begin)
    return min(times), result


def peak_memory():
    """Return the most memory this process has held since `forget_peak`, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def random_hmm(rng, S, d, spread=2.0):
    trans = rng.gamma(1.0, size=(S, S)) + 0.05 + 2 * np.eye(S)
    trans /= trans.sum(axis=1, keepdims=True)
    return HMM(np.full(S, 1 / S), trans, spread * rng.normal(size=(S, d)), rng.uniform(0.3, 2.0, size=(S, d)))


def rival(S, n_iter, **arguments):
    quiet = {"tol": -np.inf, "covars_prior": 0.0, "min_covar": 0.0, "implementation": "scaling"}
    return GaussianHMM(S, n_iter=n_iter, **{**quiet, **arguments})


def short_sequences(n=1000, T=50, d=3, S=3):
    """Return sequences as an array, and an HMM for each to start from: means by k-means, all else uninformed."""
    rng = np.random.default_rng(0)
    X = np.stack([random_hmm(rng, S, d).sample(1, T, random_state=i)[0] for i in range(n)])
    means = np.stack([KMeans(S, n_init=1, random_state=0).fit(x).cluster_centers_ for x in X])
    uniform = np.full((n, S, S), 1 / S)
    return X, H3M.from_arrays(uniform[:, 0], uniform, means, np.repeat(X.var(axis=1)[:, None], S, axis=1))


def learn(sequences, start, n_iter):
    return fit_hmms(sequences, init=start, max_iter=n_iter, tol=0, n_jobs=1, return_report=True, **PLAIN)[1]


def many_short_sequences(n_iter=20, n_rival=100):
    X, start = short_sequences()
    sequences, n, S = Sequences(X), len(X), start.startprob.shape[1]

    def theirs():
        scores = []
        for k in range(n_rival):
            model = rival(S, n_iter, init_params="")
            model.startprob_, model.transmat_ = start.startprob[k], start.transmat[k]
            model.means_, model.covars_ = start.means[k, :, 0], start.covars[k, :, 0]
            scores.append(model.fit(X[k]).score(X[k]))
        return np.array(scores)

    theirs_given, scores = best_time(theirs, 2)
    ours_given, report = best_time(lambda: learn(sequences, start, n_iter), 10)
    error = np.abs(report.log_likelihoods[:n_rival] / scores - 1)
    row(f"{n} HMMs, given start", theirs_given * n / n_rival, ours_given, "200")
    print(f"{'':36}log-likelihoods differ by {np.median(error):.1e} (median), {error.max():.1e} (largest), relative")
    theirs_own, _ = best_time(lambda: [rival(S, n_iter).fit(X[k]) for k in range(n_rival // 2)], 1)
    for name, pooling in (("own start", None), ("borrowing from the most similar", "auto")):
        own = partial(fit_hmms, sequences, S, max_iter=n_iter, tol=0, n_jobs=1, random_state=0, pooling=pooling)
        row(f"{n} HMMs, {name}", theirs_own * 2 * n / n_rival, best_time(own, 10)[0], "300" if pooling is None else "")


def against_dynamax(n_iter=20):
    """JAX on one thread, in double precision: all HMMs at once (vmap), all iterations in one compiled loop."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    try:
        import jax  # noqa: PLC0415  (not a dependency, not even of the benchmarks)
        from dynamax.hidden_markov_model import DiagonalGaussianHMM  # noqa: PLC0415
    except ModuleNotFoundError:
        print("dynamax is not installed, so it is not compared: pip install dynamax")
        return
    jax.config.update("jax_enable_x64", True)
    X, start = short_sequences()
    means, scales = start.means[:, :, 0], np.sqrt(start.covars[:, :, 0])
    S, d = means.shape[1:]
    almost_flat = {"initial_probs_concentration": 1.0001, "transition_matrix_concentration": 1.0001}
    hmm = DiagonalGaussianHMM(S, d, **almost_flat)

    def fit(x, means, scales):
        chain = {"initial_probs": np.full(S, 1 / S), "transition_matrix": np.full((S, S), 1 / S)}
        first, fixed = hmm.initialize(**chain, emission_means=means, emission_scale_diags=scales)

        def iteration(now, _):
            sums, log_likelihood = hmm.e_step(now, x)
            together = jax.tree_util.tree_map(lambda one: one[None], sums)
            return hmm.m_step(now, fixed, together, hmm.initialize_m_step_state(now, fixed))[0], log_likelihood

        return jax.lax.scan(iteration, first, None, length=n_iter)[1]

    compiled, sequences = jax.jit(jax.vmap(fit)), Sequences(X)
    jax.block_until_ready(compiled(X, means, scales))
    theirs, _ = best_time(lambda: jax.block_until_ready(compiled(X, means, scales)), 10)
    ours, _ = best_time(lambda: learn(sequences, start, n_iter), 20)
    row(f"{len(X)} HMMs, given start; dynamax, compiled", theirs, ours, "30")


def one_long_sequence(T=1_000_000, d=10, S=8):
    rng = np.random.default_rng(1)
    hmm = random_hmm(rng, S, d)
    x = hmm.sample(1, T, random_state=0)[0]
    model = rival(S, 1, init_params="")
    model.startprob_, model.transmat_ = hmm.startprob, hmm.transmat
    model.means_, model.covars_ = hmm.means[:, 0], hmm.covars[:, 0]
    sequences = Sequences([x])
    before = forget_peak()
    one, _ = best_time(lambda: fit_hmms(sequences, init=hmm, max_iter=0, n_jobs=1, tol=0), 2)
    three, _ = best_time(lambda: fit_hmms(sequences, init=hmm, max_iter=2, n_jobs=1, tol=0), 2)
    memory = (peak_memory() - before) / T
    theirs, _ = best_time(lambda: model.fit(x), 2)
    row(f"one sequence of {T} frames, an iteration", theirs, (three - one) / 2, "5")
    print(f"{'':36}memory beyond the data: {memory / (8 * S):.1f} floats x S per frame (wanted: under 4)")


def on_two_threads(T=1_000_000, d=10, S=8):
    hmm = random_hmm(np.random.default_rng(1), S, d)
    x = Sequences([hmm.sample(1, T, random_state=0)[0]])
    pairs, weights, models = Pairs.crossed(x.lengths, 1), np.ones(1), H3M([hmm]).parameters
    one, two = (
        best_time(lambda n=n: expectations(models, x.X, x.offsets, pairs, weights, n), 5, time.perf_counter)[0]
        for n in (1, 2)
    )
    row(f"one sequence of {T} frames, two threads", one, two, "1.7")


def em_h3m(n=5000, K=10, T=50, d=3, S=3, n_iter=10):
    rng = np.random.default_rng(2)
    h3m = H3M([random_hmm(rng, S, d) for _ in range(K)])
    sequences, _ = h3m.sample(n, T, random_state=0)

    def fit(n_jobs):
        return MixtureOfHMMs(K, S, init=h3m, max_iter=n_iter, tol=0, n_jobs=n_jobs).fit(sequences)

    one, _ = best_time(lambda: fit(1), 10, time.perf_counter)
    two, _ = best_time(lambda: fit(2), 10, time.perf_counter)
    row(f"EM-H3M, {n} sequences, K {K}, two threads", one, two, "1.7")


def row(name, theirs, ours, wanted):
    goal = f"   (wanted: {wanted}x)" if wanted else ""
    print(f"{name:42}{theirs:10.3f} s{ours:10.4f} s{theirs / ours:9.1f}x{goal}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    print(f"{'learning from sequences':42}{'hmmlearn':>12}{'vhem':>12}{'ratio':>10}")
    many_short_sequences()
    against_dynamax()
    one_long_sequence()
    print(f"{'threads (wall-clock time)':42}{'one':>12}{'two':>12}{'ratio':>10}")
    em_h3m()
    on_two_threads()
