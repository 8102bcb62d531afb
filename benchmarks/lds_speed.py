"""Linear dynamical systems: the compiled kernels against the same equations in batched NumPy.

Seven states, 39 dimensions, 125 frames, one thread; seconds of CPU, in ratios. NumPy takes all sequences or systems of
a call at once, so its cost per pair falls with their number.
"""

import time

import numpy as np

from vhem.kernels import compiled_systems as compiled
from vhem.kernels.engine import engine
from vhem.kernels.reference import lds, lds_pairs
from vhem.kernels.systems import Systems

N, D, T = 7, 39, 125


def systems(K, seed):
    rng = np.random.default_rng(seed)
    A = 0.9 * np.linalg.qr(rng.normal(size=(K, N, N)))[0]
    root = 0.3 * rng.normal(size=(K, N, N))
    Q = root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(N)
    looks, noise = rng.normal(size=(K, D, N)), rng.uniform(0.5, 2.0, size=(K, D))
    return Systems(A, looks, Q, noise, rng.normal(size=(K, N)), Q.copy(), rng.normal(size=(K, D)))


def seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def line(name, numpy, ours, n_pairs):
    """Print the shortest times; in turns, because a processor that others use too is slow for seconds on end."""
    ours()
    slow = fast = np.inf
    for _ in range(8):
        slow = min(slow, seconds(numpy))
        fast = min([fast, *(seconds(ours) for _ in range(8))])
    print(f"{name:54}{slow / n_pairs * 1e6:9.1f} µs{fast / n_pairs * 1e6:9.1f} µs{slow / fast:8.1f}×")


def main():
    print(f"engine {engine().name}, instruction set {engine().instruction_set}")
    print(f"\n{N} states, {D} dimensions, {T} frames: time per pair{'':21}NumPy    compiled   ratio")
    X = np.random.default_rng(0).normal(size=(200 * T, D))
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    for K, n in ((1, 20), (4, 200)):
        s, w, ends = systems(K, K), np.full(K, 1 / K), T * np.arange(n + 1)
        name = f"{K} system{'s' * (K > 1)}, {n} sequences"
        for what, frames in (("E-step", X[: n * T]), ("E-step, values missing", gaps[: n * T])):
            line(
                f"{name}: {what}",
                lambda s=s, w=w, x=frames, o=ends: lds.e_step(s, w, x, o),
                lambda s=s, w=w, x=frames, o=ends: compiled.e_step(s, w, x, o), n * K,
            )  # fmt: skip
        line(
            f"{name}: likelihoods",
            lambda s=s, x=X[: n * T], o=ends: lds.log_likelihoods(s, x, o),
            lambda s=s, x=X[: n * T], o=ends: compiled.log_likelihoods(s, x, o), n * K,
        )  # fmt: skip
    for base, reduced in ((8, 1), (100, 4)):
        a, b, w = systems(base, 5), systems(reduced, 6), np.random.default_rng(2).random((base, reduced))
        name = f"{base} systems, {reduced} cluster{'s' * (reduced > 1)}"
        line(
            f"{name}: expectations",
            lambda a=a, b=b: lds_pairs.expected_log_likelihood(a, b, T),
            lambda a=a, b=b: compiled.expected_log_likelihood(a, b, T), base * reduced,
        )  # fmt: skip
        line(
            f"{name}: sums",
            lambda a=a, b=b, w=w: lds_pairs.sums(a, b, w, T),
            lambda a=a, b=b, w=w: compiled.sums(a, b, w, T), base * reduced,
        )  # fmt: skip


if __name__ == "__main__":
    main()
