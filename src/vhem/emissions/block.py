"""Blocks of distributions whose parameters lie in arrays with common leading axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.immutable import frozen


class Block(ABC):
    """Several distributions of one kind; everything generic is built on their arrays."""

    family: ClassVar[str]  #: of the components, in files, messages and engines
    fields: ClassVar[tuple[str, ...]]  #: the names of the arrays

    @property
    @abstractmethod
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""

    @property
    def layout(self) -> Any:
        """The family in plain data, as files hold it."""
        return self.family

    def arrays(self) -> dict[str, FloatArray]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self.fields}

    @classmethod
    def of(cls, *arrays: FloatArray) -> Self:
        """Return a block of these arrays exactly as they are; a constructor may add axes that users leave out."""
        return cls(*arrays)

    def map(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return a block with every array changed in the same way, along leading axes."""
        return self.of(*(change(getattr(self, name)) for name in self.fields))

    def take(self, index: Any) -> Self:
        """Return the distributions at `index` of the leading axes."""
        return self.map(lambda array: array[index])

    def put(self, index: Any, other: Self) -> None:
        """Overwrite the distributions at `index`."""
        for name in self.fields:
            getattr(self, name)[index] = getattr(other, name)

    @classmethod
    def joined(cls, parts: Sequence[Self], join: Callable[..., FloatArray] = np.concatenate) -> Self:
        """Return several blocks as one, along their first axis (`np.stack`: along a new one)."""
        return cls.of(*(join([getattr(part, name) for part in parts]) for name in cls.fields))

    def frozen(self) -> Self:
        """Return a block whose arrays are read-only."""
        return self.map(frozen)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self.arrays().values(), other.arrays().values(), strict=True)
        return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]
