"""The probability product kernel between HMMs, on the engine in use; `reference.overlap` has the equations."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.kernels.engine import engine
from vhem.kernels.parameters import Parameters
from vhem.kernels.reference import overlap as reference

_THREAD_WORK = 2e6  # multiplications below which starting a thread costs more than it saves


def log_ppk(a: Parameters, b: Parameters, length: int, power: float, n_threads: int = 1) -> FloatArray:
    """Return log k (K_a, K_b); `a` and `b` have one type of covariance. Where they are one object, it is symmetric."""
    module = engine().module
    if module is None:
        kernel = reference.log_ppk(a, b, length, power)
    else:
        kernel = np.empty((len(a.means), len(b.means)))
        n_threads = _useful_threads(a, b, length, n_threads)
        module.log_ppk(*_prepared(a, power), *_prepared(b, power), length, power, a is b, n_threads, kernel)
    return np.triu(kernel) + np.triu(kernel, 1).T if a is b else kernel


def _prepared(models: Parameters, power: float) -> tuple[np.ndarray, ...]:
    logs = reference.log_power(models.startprob, power), reference.log_power(models.transmat, power)
    weights = np.maximum(reference.log_weights(models, power), -1e300)  # the kernel's way to write log 0
    return *logs, weights, models.means, models.covars, models.n_states


def _useful_threads(a: Parameters, b: Parameters, length: int, n_threads: int) -> int:
    (K_a, S_a, M_a, d), (K_b, S_b, M_b, _) = a.means.shape, b.means.shape
    emissions = M_a * M_b * (d if a.is_diagonal else d**3 / 6) * 4
    work = K_a * K_b * S_a * S_b * (emissions + length * (S_a + S_b))
    return max(1, min(n_threads, int(work / _THREAD_WORK)))
