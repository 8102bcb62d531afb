"""Blocks of distributions whose parameters lie in arrays with common leading axes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.immutable import frozen


class Block(ABC):
    """Several distributions of one kind; everything generic is built on their arrays."""

    family: ClassVar[str]  #: of the components, in files, messages and engines
    fields: ClassVar[tuple[str, ...]]  #: the names of the arrays
    trailing: ClassVar[int] = 1  #: axes of the first array after the leading ones: (d,), or (d, V)

    def __repr__(self) -> str:
        """Return the kind and its parameters, the middle of long ones left out."""
        shown = partial(np.array2string, precision=4, separator=", ", threshold=30, edgeitems=2)
        parameters = (f"{name}={' '.join(shown(array).split())}" for name, array in self.arrays().items())
        return f"{type(self).__name__}({', '.join(parameters)})"

    @property
    def _first(self) -> FloatArray:
        array: FloatArray = getattr(self, self.fields[0])
        return array

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""
        return self._first.shape[: -self.trailing]

    @property
    def n_dims(self) -> int:
        """Columns of a frame."""
        return int(self._first.shape[-self.trailing])

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


class BlockOfParts(Block):
    """Blocks of several kinds side by side, each of its own columns."""

    family: ClassVar[str] = "product"
    fields: ClassVar[tuple[str, ...]] = ()

    parts: tuple[Any, ...]
    columns: tuple[tuple[int, ...], ...]

    def __repr__(self) -> str:
        """Return the parts."""
        return f"{type(self).__name__}({list(self.parts)}, columns={list(self.columns)})"

    def _of(self, parts: Iterable[Any]) -> Self:
        """Return other parts, each of the same columns."""
        made = type(self).__new__(type(self))
        made.parts, made.columns = tuple(parts), self.columns
        return made

    def _pairs(self, other: Any) -> Iterator[tuple[Any, Any]]:
        assert isinstance(other, type(self))
        return zip(self.parts, other.parts, strict=True)

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""
        lead: tuple[int, ...] = self.parts[0].lead
        return lead

    @property
    def n_dims(self) -> int:
        """Columns of a frame."""
        return sum(part.n_dims for part in self.parts)

    @property
    def layout(self) -> Any:
        """The families with their columns, in plain data."""
        return [[part.layout, list(group)] for part, group in zip(self.parts, self.columns, strict=True)]

    def arrays(self) -> dict[str, FloatArray]:
        """Return the parameters, as "0.means", "1.rates", …."""
        return {f"{i}.{name}": array for i, part in enumerate(self.parts) for name, array in part.arrays().items()}

    def map(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return a block with every array changed in the same way, along leading axes."""
        return self._of(part.map(change) for part in self.parts)

    def put(self, index: Any, other: Self) -> None:
        """Overwrite the distributions at `index`."""
        for mine, theirs in self._pairs(other):
            mine.put(index, theirs)

    @classmethod
    def joined(cls, parts: Sequence[Self], join: Callable[..., FloatArray] = np.concatenate) -> Self:
        """Return several blocks as one, along their first axis."""
        return parts[0]._of(same[0].joined(same, join) for same in zip(*(p.parts for p in parts), strict=True))

    def padding(self) -> Self:
        """Return one harmless distribution."""
        return self._of(part.padding() for part in self.parts)
