"""The probability product kernel between HMMs: compiled, against NumPy over one pair at a time and over many at once.

Five states, ten dimensions, sequences of ten frames, one thread; seconds of CPU, in ratios.
"""

import time

import numpy as np

from vhem import H3M
from vhem.kernels.engine import engine
from vhem.kernels.overlap import log_ppk

S, D, T = 5, 10, 10


def models(K, seed):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(S), size=(K, S + 1))
    means, covars = rng.normal(size=(K, S, D)), rng.uniform(0.5, 2.0, size=(K, S, D))
    return H3M.from_arrays(rows[:, 0], rows[:, 1:], means, covars)


def one_pair(a, b, i, j):
    """Log k of one pair, rho = ½, as one would write it in NumPy: scaled, no logs inside the loop."""
    spread = 0.5 * (a.covars[i, :, None, 0] + b.covars[j, None, :, 0])
    difference = a.means[i, :, None, 0] - b.means[j, None, :, 0]
    log_dets = np.log(a.covars[i, :, 0]).sum(-1)[:, None] + np.log(b.covars[j, :, 0]).sum(-1)
    log_kappa = -0.125 * (difference**2 / spread).sum(-1) + 0.25 * log_dets - 0.5 * np.log(spread).sum(-1)
    kappa = np.exp(log_kappa - log_kappa.max())
    F = np.sqrt(np.outer(a.startprob[i], b.startprob[j])) * kappa
    A, B, result = np.sqrt(a.transmat[i]).T, np.sqrt(b.transmat[j]), T * log_kappa.max()
    for _ in range(T - 1):
        total = F.sum()
        result += np.log(total)
        F = (A @ (F / total) @ B) * kappa
    return result + np.log(F.sum())


def pair_by_pair(a, b):
    return np.array([[one_pair(a, b, i, j) for j in range(len(b.means))] for i in range(len(a.means))])


def batched(a, b):
    """Log k of all pairs: one model of b at a time against all of a, matrix products over the stack."""
    out = np.empty((len(a.means), len(b.means)))
    A = np.ascontiguousarray(np.swapaxes(np.sqrt(a.transmat), 1, 2))
    own = np.log(a.covars[:, :, 0]).sum(-1)
    for j in range(len(b.means)):
        spread = 0.5 * (a.covars[:, :, None, 0] + b.covars[j, None, :, 0])
        difference = a.means[:, :, None, 0] - b.means[j, None, :, 0]
        log_dets = own[:, :, None] + np.log(b.covars[j, :, 0]).sum(-1)
        log_kappa = -0.125 * (difference**2 / spread).sum(-1) + 0.25 * log_dets - 0.5 * np.log(spread).sum(-1)
        top = log_kappa.max(axis=(1, 2), keepdims=True)
        kappa = np.exp(log_kappa - top)
        F = np.sqrt(a.startprob[:, :, None] * b.startprob[j]) * kappa
        B, result = np.sqrt(b.transmat[j]), T * top[:, 0, 0]
        for _ in range(T - 1):
            total = F.sum(axis=(1, 2))
            result += np.log(total)
            F = (A @ ((F / total[:, None, None]).reshape(-1, S) @ B).reshape(-1, S, S)) * kappa
        out[:, j] = result + np.log(F.sum(axis=(1, 2)))
    return out


def seconds_per_pair(work, a, b, trials=4):
    found = []
    for _ in range(trials):
        begin = time.process_time()
        work(a, b)
        found.append(time.process_time() - begin)
    return min(found) / (len(a) * len(b))


def main():
    a, b, few = models(400, 0), models(400, 1), models(12, 2)
    print(f"engine {engine().name}, instruction set {engine().instruction_set}")
    expected = pair_by_pair(few, few)
    for work in (batched, compiled):
        np.testing.assert_allclose(work(few, few), expected, rtol=1e-10, atol=1e-10)
    times = {
        "compiled": seconds_per_pair(compiled, a, b),
        "NumPy, batched": seconds_per_pair(batched, a, b[:40]),
        "NumPy, pair by pair": seconds_per_pair(pair_by_pair, few, few),
    }
    print(f"\nPPK, {S} states, {D} dimensions, T = {T}: time per pair, and how many times the compiled kernel's")
    for name, seconds in times.items():
        print(f"{name:22}{seconds * 1e6:9.2f} µs {seconds / times['compiled']:8.1f}×")


def compiled(a, b):
    return log_ppk(a.parameters, b.parameters, T, 0.5)


if __name__ == "__main__":
    main()
