"""What can be saved: one registry of kinds.

A kind says how a class becomes a dictionary, and comes back from it. The values of the dictionary may be arrays,
numbers, text, None, truth values, lists, tuples and dictionaries of these, `Ids`, and objects of other registered
kinds; the file takes care of the rest. To add a class to what `save` and `vhem.load` know, write in its own module,
below it:

for a scikit-learn estimator whose constructor's parameters and attributes ending in "_" are of these types::

    register_estimator(H3MClassifier)

for a named tuple of such values::

    register_record(Restart, "VHEM.Restart")

for anything else, two functions::

    register(Kind("Tree", Tree, lambda tree: {"layers": tree.layers, …}, lambda state: Tree(state["layers"], …)))

and let the class inherit from `vhem._support.saving.Saveable`, which has the method `save`. Names of kinds are part of
the file format: they must not change. `unpack` must check what it gets, as a constructor does: a file may come from
anywhere. When a kind needs to change what it keeps, let `unpack` take the older form too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

State = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How objects of a class are kept in files."""

    name: str  #: in the file
    cls: type
    pack: Callable[[Any], State]
    unpack: Callable[[State], Any]
    rows: tuple[str, ...] = ()  #: entries with one row per member, that `load(path, index)` cuts


class Ids(list[Any]):
    """A list of names, perhaps long: kept so that some of them can be read without the rest.

    Names are text, numbers, truth values, None, or tuples of these.
    """


_by_name: dict[str, Kind] = {}
_by_class: dict[type, Kind] = {}


def register(kind: Kind) -> None:
    """Make a kind known to `save` and `load`.

    Examples
    --------
    >>> from vhem.files import Kind, register
    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> register(Kind("doc/Pair", Pair, lambda p: {"left": p.left, "right": p.right}, lambda s: Pair(**s)))
    """
    if _by_name.get(kind.name, kind).cls is not kind.cls:
        raise ValueError(f"there is already a kind {kind.name!r}, for {_by_name[kind.name].cls}; choose another name.")
    _by_name[kind.name] = _by_class[kind.cls] = kind


def kind_of(thing: Any) -> Kind | None:
    """Return the kind of an object, if it has one."""
    return _by_class.get(type(thing))


def kind_named(name: Any) -> Kind | None:
    """Return the kind of a name in a file, if it is known."""
    return _by_name.get(name) if isinstance(name, str) else None


def register_record(cls: Any, name: str | None = None) -> None:
    """Register a named tuple.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from vhem.files import register_record
    >>> class Result(NamedTuple):
    ...     score: float
    >>> register_record(Result, "doc/Result")
    """

    def unpack(state: State) -> Any:
        return cls(**state)

    register(Kind(name or cls.__name__, cls, lambda record: dict(record._asdict()), unpack))


def register_estimator(cls: Any, name: str | None = None) -> None:
    """Register an estimator: the parameters of its constructor, and what it has learned.

    A source of randomness, a callback and a cluster are not kept: `random_state`, `callback` and `executor` become None
    in the file, unless they are a number or a name.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from vhem.files import register_estimator
    >>> class Nothing(BaseEstimator):
    ...     pass
    >>> register_estimator(Nothing, "doc/Nothing")
    """

    def pack(estimator: Any) -> State:
        params = {key: _plain(key, value) for key, value in estimator.get_params(deep=False).items()}
        fitted = {key: value for key, value in vars(estimator).items() if _is_fitted_attribute(cls, key)}
        return {"params": params, "fitted": fitted}

    def unpack(state: State) -> Any:
        made = cls(**state["params"])
        for key, value in state["fitted"].items():
            if not _is_fitted_attribute(cls, key):
                raise ValueError(f"{key!r} is no attribute that {cls.__name__} learns")
            setattr(made, key, value)
        return made

    register(Kind(name or cls.__name__, cls, pack, unpack))


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    alive = name in ("random_state", "callback", "executor") and not isinstance(value, (int, np.integer, str))
    return None if alive else value


def _is_fitted_attribute(cls: type, name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and not hasattr(cls, name)
