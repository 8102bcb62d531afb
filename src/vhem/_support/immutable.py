"""Objects whose attributes and arrays cannot be changed once created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from vhem._support.errors import InputError, InputTypeError
from vhem._support.saving import Kind, Saveable, State, attributes, register

Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return a read-only, C-contiguous view of `array`, or a copy if its memory is not contiguous."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class FixedList(list[Any]):
    """A list that cannot be changed, and equals any list of the same items."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise InputTypeError("this list belongs to an immutable object", "make a copy with list()", "make a new object")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[type[FixedList], tuple[list[Any]]]:
        return FixedList, (list(self),)


class Immutable(Saveable):
    """Base of the library's values: attributes are set once, through `_set`; arrays and lists are read-only.

    Two of the same type are equal if all their attributes are; missing values (NaN) count as equal.
    """

    def _set(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, _frozen(value))

    def _restore(self, state: State) -> None:
        """Keep the values of a file exactly."""
        self._set(**state)

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
    if isinstance(value, list):
        return FixedList(value)
    return value.frozen() if hasattr(value, "frozen") else value


def check_alike(state: State, made: Mapping[str, Any]) -> None:
    """Refuse arrays of a file that a constructor would change: those of other types or axes than it `made`."""
    for name, own in made.items():
        value = state[name]
        if not isinstance(value, np.ndarray) or value.dtype != own.dtype or value.shape[:1] != own.shape[:1]:
            raise InputError(
                "{name} is not an array of {dtype} with {n} rows",
                name=name, dtype=own.dtype, n=own.shape[0],
            )  # fmt: skip
        if value.ndim != own.ndim:
            raise InputError("{name} has {ndim} axes instead of {needed}", name=name, ndim=value.ndim, needed=own.ndim)


def register_model(cls: type[Immutable], *names: str) -> None:
    """Register a class whose constructor takes these attributes.

    The constructor checks what is in a file. It also divides probabilities by their sum; those of a file have been
    divided already and must not change, so the arrays are kept as they are.
    """

    def unpack(state: State) -> Immutable:
        made: Immutable = cls(**state)
        check_alike(state, {name: getattr(made, name) for name in names})
        made._restore(state)
        return made

    register(Kind(cls.__name__, cls, attributes(*names), unpack))


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else bool(a == b)
