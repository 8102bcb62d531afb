"""How messages refer to the parts of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError


class Names(NamedTuple):
    """How messages refer to a model: by index and id, or without either if there is only one."""

    ids: list[Any] | None = None
    single: bool = False

    def place(self, k: int, state: int | None = None, component: int | None = None) -> str:
        """Return a place, such as "HMM 3 (id 'a'), state 1, component 0"."""
        words = ["the HMM" if self.single else f"HMM {k}"]
        if not self.single and self.ids is not None and self.ids[k] != k:
            words[0] += f" (id {self.ids[k]!r})"
        words += [] if state is None else [f"state {state}"]
        words += [] if component is None else [f"component {component}"]
        return ", ".join(words)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape as the user gave it."""
        return shape[1:] if self.single else shape


def check_finite(array: FloatArray, name: str, names: Names) -> None:
    """Refuse NaN and infinity, and say where they are."""
    bad = ~np.isfinite(array)
    if bad.any():
        index = [int(i) for i in np.argwhere(bad)[0]]
        raise InputError(
            "{place}: {name} has {value}. Parameters must be finite",
            "was the model fitted to constant or missing data?",
            place=names.place(*index[:2]), name=name, value=array[tuple(index)],
        )  # fmt: skip
