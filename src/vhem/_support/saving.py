"""What can be saved: the kinds of objects that model files hold, and the method `save`.

A kind says how an object becomes a dictionary and is restored from it. The values of the dictionary may be arrays,
numbers, text, None, booleans, lists, tuples and dictionaries of these, `Ids`, and objects of other registered kinds;
:mod:`vhem.files` takes care of the rest. To let `save` and `vhem.load` handle a class, write in its own module, below
it:

for a scikit-learn estimator whose constructor's parameters and attributes ending in "_" are of these types::

    register_estimator(H3MClassifier)

for a named tuple of such values::

    register_record(Restart, "VHEM.Restart")

for anything else, two functions::

    register(Kind("Tree", Tree, lambda tree: {"layers": tree.layers, …}, lambda state: Tree(state["layers"], …)))

and let the class inherit from `Saveable`, which has the method `save`. Names of kinds are part of the file format: they
must not change. `unpack` must check what it gets, as a constructor does: a file may come from anywhere. If a kind needs
to change what it stores, let `unpack` accept the older form too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from vhem._support.errors import InputError, InputTypeError

State = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """How objects of a class are stored in files."""

    name: str  #: in the file
    cls: type
    pack: Callable[[Any], State]
    unpack: Callable[[State], Any]
    rows: tuple[str, ...] = ()  #: entries with one row per member, which `load(path, index)` selects from
    row_prefix: str | None = None  #: further such entries have names that begin with this

    def has_rows(self, name: str) -> bool:
        """Whether an entry has one row per member."""
        return name in self.rows or (self.row_prefix is not None and name.startswith(self.row_prefix))


class Ids(list[Any]):
    """A list of names, perhaps long, stored so that some of them can be read without the rest.

    Names are text, numbers, booleans, None, or tuples of these.
    """


class Saveable:
    """Mixin of classes that have a kind: their method `save`."""

    def save(
        self, path: str | Path, feature_names: Iterable[str] | None = None, about: dict[str, Any] | None = None
    ) -> None:
        """Write this to a file that `vhem.load` can read.

        Parameters
        ----------
        path : str or Path
            The file, usually with the extension .vhem. An older one is replaced when the new one is complete.
        feature_names : list of str, optional
            Names of the dimensions.
        about : dict, optional
            How it was made: settings, data, anything of numbers and text. `vhem.files.describe` and `vhem info` show
            it.

        Notes
        -----
        The file holds arrays and a JSON header, under checksums; reading it never runs code. Equal models make equal
        files, byte for byte. A `callback`, and a `random_state` that is not an integer, are not stored.
        """
        _writers[0](self, path, feature_names, about)


_writers: list[Callable[..., None]] = []
_by_name: dict[str, Kind] = {}
_by_class: dict[type, Kind] = {}


def install_writer(write: Callable[..., None]) -> None:
    """Let `save` write with this function: `vhem.files` sets its own when the package is imported."""
    _writers[:] = [write]


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
        raise InputError(
            "there is already a kind {name!r}, for {cls}", "choose another name",
            name=kind.name, cls=_by_name[kind.name].cls,
        )  # fmt: skip
    _by_name[kind.name] = _by_class[kind.cls] = kind


def kind_of(thing: Any) -> Kind | None:
    """Return the kind of an object, if it has one."""
    return _by_class.get(type(thing))


def kind_named(name: Any) -> Kind | None:
    """Return the kind of a name in a file, if it is known."""
    return _by_name.get(name) if isinstance(name, str) else None


def attributes(*names: str) -> Callable[[Any], State]:
    """Return a `pack` that takes these attributes of an object."""
    return lambda thing: {name: getattr(thing, name) for name in names}


def check_types(hints: dict[str, Any], values: State, complete: bool = True) -> None:
    """Refuse values that are missing, or not what the annotations of their class say."""
    for name, hint in hints.items():
        if name not in values and complete:
            raise InputError("{name} is missing", name=name)
        if name in values and not _is_of_type(values[name], hint):
            raise InputTypeError(
                "{name} is a {kind}, not {hint}",
                name=name, kind=type(values[name]).__name__, hint=getattr(hint, "__name__", hint),
            )  # fmt: skip


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
        check_types(get_type_hints(cls), {**cls._field_defaults, **state})
        return cls(**state)

    register(Kind(name or cls.__name__, cls, attributes(*cls._fields), unpack))


def register_estimator(
    cls: Any,
    name: str | None = None,
    text_arrays: Iterable[str] = (),
    check: Callable[[Any], None] | None = None,
    completed: Callable[[Any, State], State] | None = None,
) -> None:
    """Register an estimator: the parameters of its constructor, and what it has learned.

    Sources of randomness, callbacks and clusters are not stored: `random_state`, `callback` and `executor` become None
    in the file, unless they are a number or a name. Learned attributes should be annotated in the class: a file must
    have them all, with those types.

    Parameters
    ----------
    cls : type
        The class.
    name : str, optional
        Its name in files; that of the class by default.
    text_arrays : list of str
        Fitted arrays that may hold text, which arrays in files cannot: they are kept as `Ids`.
    check : callable, optional
        Given a fitted estimator from a file, refuses inconsistent attributes.
    completed : callable, optional
        Given an estimator and what a file says that it learned, returns attributes that files of older versions lack.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from vhem.files import register_estimator
    >>> class Nothing(BaseEstimator):
    ...     pass
    >>> register_estimator(Nothing, "doc/Nothing")
    """
    as_ids = tuple(text_arrays)

    def pack(estimator: Any) -> State:
        params = {key: _plain(key, value) for key, value in estimator.get_params(deep=False).items()}
        fitted = {key: value for key, value in vars(estimator).items() if _is_fitted_attribute(cls, key)}
        fitted |= {key: Ids(fitted[key].tolist()) for key in as_ids if key in fitted}
        missing = [key for key in _fitted_types(cls) if key not in fitted]
        if fitted and missing and not hasattr(cls, "__sklearn_is_fitted__"):
            raise InputError(
                "this {cls} lacks {missing}: its fit did not finish", "Fit it, then save it",
                cls=cls.__name__, missing=missing[0],
            )  # fmt: skip
        return {"params": params, "fitted": fitted}

    def unpack(state: State) -> Any:
        made, fitted = cls(**state["params"]), state["fitted"]
        fitted |= {key: np.asarray(fitted[key]) for key in as_ids if key in fitted}
        unknown = [key for key in fitted if not _is_fitted_attribute(cls, key)]
        if unknown:
            raise InputError("{unknown!r} is not an attribute that {cls} learns", unknown=unknown[0], cls=cls.__name__)
        if fitted and completed is not None:
            fitted = {**completed(made, fitted), **fitted}
        if fitted:
            check_types(_fitted_types(cls), fitted, complete=not hasattr(cls, "__sklearn_is_fitted__"))
        vars(made).update(fitted)
        if fitted and check is not None:
            check(made)
        return made

    register(Kind(name or cls.__name__, cls, pack, unpack))


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    alive = name in ("random_state", "callback", "executor") and not isinstance(value, (int, np.integer, str))
    return None if alive else value


def _is_fitted_attribute(cls: type, name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and not hasattr(cls, name)


def _fitted_types(cls: type) -> dict[str, Any]:
    return {key: hint for key, hint in get_type_hints(cls).items() if _is_fitted_attribute(cls, key)}


def _is_of_type(value: Any, hint: Any) -> bool:
    """Return whether a value matches an annotation, of the forms used here."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hasattr(origin, "__value__"):  # an alias that opens on demand: NDArray, from NumPy 2.5 on
        return _is_of_type(value, origin.__value__[inside])
    if origin in (Union, UnionType):
        return any(_is_of_type(value, choice) for choice in inside)
    if origin is np.ndarray:
        (scalar,) = get_args(inside[1])
        family = np.integer if scalar is np.int64 else scalar
        return isinstance(value, np.ndarray) and (family is Any or np.issubdtype(value.dtype, family))
    if origin in (list, tuple):
        pairs = len(inside) == len(value) if origin is tuple and isinstance(value, tuple) else True
        return isinstance(value, origin) and pairs and all(map(_is_of_type, value, itertools.cycle(inside)))
    numbers = isinstance(value, int) and not isinstance(value, bool)
    return numbers if hint is int else (numbers and hint is float) or isinstance(value, origin or hint)
