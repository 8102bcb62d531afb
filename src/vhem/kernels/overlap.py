"""The probability product kernel between HMMs, on the engine in use; `reference.overlap` has the equations."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.kernels import compiled
from vhem.kernels.models import Models
from vhem.kernels.reference import overlap as reference


def log_ppk(a: Models, b: Models, length: int, power: float, n_threads: int = 1) -> FloatArray:
    """Return log k (K_a, K_b); `a` and `b` have one type of covariance. It is symmetric if they are the same object."""
    if compiled.knows_overlap(a, b):
        kernel = compiled.log_ppk(a=a, b=b, length=length, power=power, n_threads=n_threads)
    else:
        kernel = reference.log_ppk(a, b, length, power)
    return np.triu(kernel) + np.triu(kernel, 1).T if a is b else kernel
