"""Objects whose attributes and arrays cannot be changed once they are made."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from vhem._support.saving import Saveable

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
            object.__setattr__(self, name, _frozen(value))

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


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return frozen(value)
    return value.frozen() if hasattr(value, "frozen") else value


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else bool(a == b)
