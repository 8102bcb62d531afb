"""VHEM's base models in shards: an E-step maps over them, wherever they are kept, and only its sums travel."""

from __future__ import annotations

from typing import Any, NamedTuple

from vhem._support.arrays import FloatArray
from vhem.emissions.components import Components
from vhem.executors.local import Executor, SerialExecutor, ThreadsExecutor
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, Reduction, Shortcuts, e_step

#: Base models in a shard, at most. Sums are made per shard and added up in order, so this number, and nothing about the
#: executor, determines rounding: every executor gives the same bits.
SHARD = 8192


class Shards(NamedTuple):
    """Base models in shards, and the executor that keeps them."""

    kept: list[Any]
    executor: Executor
    virtual_frames: float  #: Σ N_i τ

    @staticmethod
    def of(base: BaseModels, executor: Executor | None = None) -> Shards:
        """Cut base models into shards and bring them to where the executor works."""
        executor = SerialExecutor() if executor is None else executor
        kept = executor.keep(_cut(base), "vhem-shard")
        return Shards(kept, executor, float(base.counts.sum()) * base.tau)

    def for_one_run(self) -> Shards:
        """Return the shards with a memory from E-step to E-step, if they are in this process."""
        here = isinstance(self.executor, SerialExecutor | ThreadsExecutor)
        return self._replace(kept=[base.for_one_run(len(self.kept)) for base in self.kept]) if here else self

    def e_step(
        self,
        reduced: Models,
        weights: FloatArray,
        shortcuts: Shortcuts,
        n_threads: int = 1,
        anchors: Components | None = None,
        want_responsibilities: bool = False,
        n_mixtures: int = 1,
    ) -> Reduction:
        """Return the bound and the sums over all base models; see `vhem.kernels.reduction.e_step`."""
        alone = len(self.kept) == 1 and isinstance(self.executor, ThreadsExecutor)  # it has all threads to itself
        threads = n_threads if alone else self.executor.inner_jobs or n_threads
        arguments = (reduced, weights, shortcuts, threads, anchors, want_responsibilities, n_mixtures)
        return Reduction.total(self.executor.map(e_step, self.kept, *arguments, name="vhem-e-step"))


def _cut(base: BaseModels) -> list[BaseModels]:
    n = len(base.counts)
    n_shards = -(-n // SHARD)
    if n_shards == 1:
        return [base]
    ends = [n * (s + 1) // n_shards for s in range(n_shards)]
    return [base.take(slice(begin, end)) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
