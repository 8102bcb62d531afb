"""The one switch between the compiled kernels and the NumPy ones.

`VHEM_ENGINE` (native or reference) and `VHEM_INSTRUCTION_SET` (avx512, avx2 or baseline) override the choice, for tests
and debugging; otherwise the fastest that this machine supports is used.
"""

from __future__ import annotations

import functools
import importlib.util
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


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(f"vhem.kernels.{name}")
    except ModuleNotFoundError:
        return None


def usable_instruction_sets() -> list[str]:
    """Return the instruction sets that are built and that this processor has, the best first."""
    processor = _import("_processor")
    if processor is None:
        return []
    best = INSTRUCTION_SETS.index(processor.best_instruction_set())
    return [name for name in INSTRUCTION_SETS[best::-1] if _is_built(name)]


def _is_built(instruction_set: str) -> bool:
    """Say whether there is such a module, without loading it: on another processor that may end the process."""
    return importlib.util.find_spec(f"vhem.kernels._native_{instruction_set}") is not None


@functools.cache
def _detect() -> Engine:
    usable, wanted = usable_instruction_sets(), os.environ.get("VHEM_INSTRUCTION_SET")
    if not usable:
        warn(_without_kernels())
        return Engine("reference", "numpy", None)
    if wanted and wanted not in usable:
        problem, cure = "VHEM_INSTRUCTION_SET={wanted!r} is not built, or not for this processor", "use {usable}"
        raise InputError(problem, cure, wanted=wanted, usable=" or ".join(reversed(usable)))
    name = wanted or usable[0]
    return Engine("native", name, _import(f"_native_{name}"))


def _without_kernels() -> FitWarning:
    built = [name for name in INSTRUCTION_SETS if _is_built(name)]
    if built:
        problem = (
            "vhem runs on its NumPy engine, many times slower than the compiled one: it was compiled on another "
            "machine, for {built}, which this processor does not have"
        )
        cure = "Reinstall vhem here, or for all processors, with --config-settings=cmake.define.VHEM_ENGINES=all"
        return FitWarning(problem, cure, built=" and ".join(built))
    problem = (
        "vhem runs on its NumPy engine, many times slower than the compiled one: no C++ compiler was available "
        "when it was installed"
    )
    return FitWarning(problem, "Install one (GCC or Clang) and reinstall vhem")


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
