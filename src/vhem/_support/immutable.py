"""Objects whose attributes and arrays cannot be changed once they are made."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from vhem._support.saving import Kind, Saveable, State, attributes, register

Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return a read-only, C-contiguous view of `array`, or a copy where its memory is not contiguous."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class Immutable(Saveable):
    """Base of the library's values: attributes are set once, through `_set`, and arrays are read-only.

    Two of one type are equal if all their attributes are; missing values (NaN) count as equal.
    """

    def _set(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, frozen(value) if isinstance(value, np.ndarray) else value)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be set. Make a new object instead.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be deleted.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickled arrays come back writeable.
        self._set(**state)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_equal(value, getattr(other, name)) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]


def register_model(cls: type[Immutable], *names: str) -> None:
    """Register a class whose constructor takes these attributes.

    The constructor checks what is in a file. It also divides probabilities by their sum; those of a file are the result
    of that, and must not change, so the arrays are then kept as they are.
    """

    def unpack(state: State) -> Immutable:
        made: Immutable = cls(**state)
        made._set(**state)
        return made

    register(Kind(cls.__name__, cls, attributes(*names), unpack))


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else bool(a == b)
