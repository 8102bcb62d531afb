"""The one switch between the compiled kernels and the NumPy ones.

`VHEM_ENGINE` (native or reference) and `VHEM_INSTRUCTION_SET` (avx512, avx2 or baseline) override the choice, for tests
and debugging; otherwise the fastest that this machine supports is used.
"""

from __future__ import annotations

import functools
import importlib
import os
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from vhem._support.errors import FitWarning, InputError, ParameterError, warn

INSTRUCTION_SETS = ("baseline", "avx2", "avx512")  #: from the plainest to the best
_THREADS_PER_CORE = 4  # at most, however large n_jobs is


class Engine(NamedTuple):
    """Which kernels run."""

    name: str  #: "native" or "reference"
    instruction_set: str  #: "avx512", "avx2" or "baseline"; "numpy" for the reference engine
    module: Any  #: the compiled module, or None


def _import(instruction_set: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"vhem.kernels._native_{instruction_set}")
    except ModuleNotFoundError:
        return None


@functools.cache
def _detect() -> Engine:
    baseline = _import("baseline")
    if baseline is None:
        problem = (
            "vhem runs on its NumPy engine, many times slower than the compiled one: no C++ compiler was available "
            "when it was installed"
        )
        warn(FitWarning(problem, "Install one (GCC or Clang) and reinstall vhem"))
        return Engine("reference", "numpy", None)
    wanted = os.environ.get("VHEM_INSTRUCTION_SET")
    if wanted:
        return _built(wanted)
    best = INSTRUCTION_SETS.index(baseline.best_instruction_set())
    # What was compiled on another machine may lack the best for this one.
    found = next((name, module) for name in INSTRUCTION_SETS[best::-1] if (module := _import(name)) is not None)
    return Engine("native", *found)


def _built(instruction_set: str) -> Engine:
    module = _import(instruction_set)
    if module is None:
        built = [name for name in INSTRUCTION_SETS if _import(name) is not None]
        problem, cure = "VHEM_INSTRUCTION_SET={wanted!r} is not built here", "use {built}"
        raise InputError(problem, cure, wanted=instruction_set, built=" or ".join(built))
    return Engine("native", instruction_set, module)


def engine() -> Engine:
    """Return the engine in use."""
    choice = os.environ.get("VHEM_ENGINE", "")
    if choice == "reference":
        return Engine("reference", "numpy", None)
    if choice not in ("", "native"):
        raise InputError("VHEM_ENGINE={choice!r} is unknown", "use 'native' or 'reference'", choice=choice)
    found = _detect()
    if choice == "native" and found.name != "native":
        raise RuntimeError("VHEM_ENGINE=native, but the compiled kernels are not built here.")
    return found


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`.

    None means every core this process may use, as in scikit-learn's own compiled loops; -1 likewise, -2 one
    fewer. More than four threads per core only cost memory: larger numbers mean that many.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ParameterError("n_jobs", n_jobs, "must be None, a positive or a negative integer")
    return min(int(n_jobs), _THREADS_PER_CORE * cores) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))
