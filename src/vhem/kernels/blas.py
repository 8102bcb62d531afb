"""One thread for NumPy's products of small matrices, which many threads only slow down."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import threadpoolctl

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()  # looks through all loaded libraries: once is enough


def single_threaded(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function` run with one thread of BLAS.

    Recursions over time multiply thousands of small matrices one after another. Starting threads for each costs more
    than the product, and on a busy machine thirty times as much.
    """

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
