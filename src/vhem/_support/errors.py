"""Errors and warnings are data: what is wrong, the parameters involved, the values, and the cures.

A message is a template. A field is a value if it is given by keyword, and otherwise names a parameter; ``{tol:1e-5}``
is a parameter with a value. Python shows parameters as they are; the command shows its own options. Users' own words
are values, and are never rewritten.

>>> error = InputError("there are {n:HMM} for {what}", "raise {n_init}", "set {tol:0}", n=Count(1), what="{n_init}.csv")
>>> str(error)
'there are 1 HMM for {n_init}.csv; raise n_init, or set tol=0.'
>>> error.told(lambda name, value: {"n_init": "--restarts"}.get(name))
'there are 1 HMM for {n_init}.csv; raise --restarts.'
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from sklearn.exceptions import ConvergenceWarning

from vhem._support.phrases import Count

_PACKAGE = str(Path(__file__).parents[1])  # the folder of vhem

#: From a parameter's name, and its value if one is shown, to what is displayed; None if there is no such thing.
Naming = Callable[[str, str | None], str | None]


def in_python(name: str, value: str | None) -> str:
    """Return a parameter as Python users write it."""
    return name if value is None else f"{name}={value}"


class _NotOfferedError(LookupError):
    """There is no such parameter where the message is shown."""


class _Parameter:
    """A parameter within a template."""

    def __init__(self, name: str, naming: Naming) -> None:
        self._name, self._naming = name, naming

    def __format__(self, value: str) -> str:
        shown = self._naming(self._name, value or None)
        if shown is None:
            raise _NotOfferedError(self._name)
        return shown


class _Fields(dict[str, Any]):
    """Values by name; whatever is not among them is a parameter."""

    def __init__(self, values: Mapping[str, Any], naming: Naming) -> None:
        super().__init__({k: v.told(naming) if isinstance(v, Explained) else v for k, v in values.items()})
        self._naming = naming

    def __missing__(self, name: str) -> _Parameter:
        return _Parameter(name, self._naming)


class Explained(Exception):  # noqa: N818  (base of warnings too)
    """Base of errors and warnings whose message is data.

    Parameters
    ----------
    problem : str
        What is wrong: a template, without a full stop.
    *cures : str
        What can be done about it, each a template. Cures that name a parameter which does not exist where the message
        is shown are left out.
    **values : object
        Values of the templates' fields. An error among them is shown with the same naming.

    Attributes
    ----------
    problem, cures, values
        As given.
    """

    def __init__(self, problem: str, /, *cures: str, **values: Any) -> None:
        self.problem, self.cures, self.values = problem, cures, values
        super().__init__(self.told())

    def told(self, naming: Naming = in_python) -> str:
        """Return the message, with parameters as `naming` shows them."""
        try:
            text = self.problem.format_map(_Fields(self.values, naming))
        except _NotOfferedError:
            text = self.problem.format_map(_Fields(self.values, lambda *said: naming(*said) or in_python(*said)))
        if cures := self._cures_told(naming):
            joint = ". " if cures[0].isupper() else "; "
            text = text.rstrip(".") + joint + cures
        return text if text.endswith((".", "?", "!")) else f"{text}."

    def _cures_told(self, naming: Naming) -> str:
        told = []
        for cure in self.cures:
            try:
                told.append(cure.format_map(_Fields(self.values, naming)))
            except _NotOfferedError:
                continue
        return ", or ".join(told)

    def __reduce__(self) -> Any:  # the text does not give back the template: copies bypass __init__
        return _copy, (type(self), self.args, self.__dict__)


def _copy(kind: type[Explained], args: tuple[Any, ...], attributes: dict[str, Any]) -> Explained:
    made = kind.__new__(kind, *args)
    made.args = args
    made.__dict__.update(attributes)
    return made


class InputError(Explained, ValueError):
    """What was given cannot be used."""


class InputTypeError(Explained, TypeError):
    """What was given is of the wrong type."""


class ParameterError(InputError):
    """A parameter has an invalid value.

    Parameters
    ----------
    name : str
        The parameter.
    value : object
        Its value; shown at the end, unless `problem` has a field `value`.
    problem : str
        What is wrong, in words that follow the name, "must be positive", or that have a field `name`, "each of {name}
        must be positive".
    *cures, **values
        As for any error.

    Examples
    --------
    >>> raise ParameterError("n_init", 0, "must be an integer of at least {minimum}", minimum=1)
    Traceback (most recent call last):
    vhem._support.errors.ParameterError: n_init must be an integer of at least 1, got 0.
    """

    def __init__(self, name: str, value: Any, problem: str, /, *cures: str, **values: Any) -> None:
        self.name, self.value = name, value
        text = problem if "{name}" in problem else f"{{name}} {problem}"
        got = "" if "{value" in problem else ", got {value!r}"
        super().__init__(text.replace("{name}", f"{{{name}}}") + got, *cures, value=value, **values)


class CellError(InputError):
    """A cell of a table that cannot be read.

    Parameters
    ----------
    problem : str
        What is wrong, in words that follow the column's name: "has {value!r}, which is not a number".
    *cures : str
        As for any error.
    value : object
        What the cell holds.
    file : str or Path, optional
        The file.
    row : int or str, optional
        The row, counted from 1, or a description of its place.
    column : str, optional
        The column's name.
    **values
        As for any error.

    Examples
    --------
    >>> found = CellError("has {value!r}, which is not a number", "correct it, or leave the cell empty", value="x7")
    >>> print(found.at("eyes.csv", row=3, column="FixX"))
    eyes.csv, row 3: column 'FixX' has 'x7', which is not a number; correct it, or leave the cell empty.
    """

    def __init__(
        self,
        problem: str,
        /,
        *cures: str,
        value: Any,
        file: str | Path | None = None,
        row: int | str | None = None,
        column: str | None = None,
        **values: Any,
    ) -> None:
        self.file, self.row, self.column, self.value = file, row, column, value
        self._said = problem, cures, values
        place = ", ".join(f"row {part}" if part is row and isinstance(row, int) else str(part)
                          for part in (file, row) if part is not None)  # fmt: skip
        where = ("{place}: " if place else "") + ("column {column!r} " if column is not None else "")
        super().__init__(where + problem, *cures, value=value, column=column, place=place, **values)

    def at(self, file: str | Path | None, row: int | str | None, column: str | None) -> Self:
        """Return the same error with the location of its cell."""
        problem, cures, values = self._said
        return type(self)(problem, *cures, value=self.value, file=file, row=row, column=column, **values)


class InputWarning(Explained, UserWarning):
    """What was given can be used, but may not be what was meant."""


class FitWarning(Explained, RuntimeWarning):
    """The result of a fit can be used, but there is something to know about it."""


def warn(warning: Warning | str) -> None:
    """Issue a warning that names the line outside this package from which it was called."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def warn_if_any(n: int, problem: str, /, *cures: str, **values: Any) -> None:
    """Warn about things that were counted, if there are any; the templates' field `n` is their number."""
    if n:
        warn(FitWarning(problem, *cures, n=Count(n), **values))


class NotConvergedWarning(Explained, ConvergenceWarning):  # type: ignore[misc]  # scikit-learn has no types
    """A fit stopped before it had converged: `who` after `max_iter` iterations, before `what` had converged."""

    def __init__(self, who: str, what: str, max_iter: int) -> None:
        self.max_iter = max_iter
        super().__init__(
            "{who} stopped after {n:iteration}, before {what} had converged", "raise {max_iter}", "raise {tol}",
            who=who, what=what, n=Count(max_iter),
        )  # fmt: skip


class BoundError(Explained, RuntimeError):
    """What EM maximises fell, although nothing but rounding may lower it.

    Parameters
    ----------
    what : str
        What fell: "the lower bound".
    before, after : float
        Its values.
    iteration : int, optional
        When it fell.
    """

    def __init__(self, what: str, before: float, after: float, iteration: int | None = None) -> None:
        when = "" if iteration is None else " in iteration {iteration}"
        super().__init__(
            "{what} fell from {before!r} to {after!r}" + when + ". This should be impossible: it is a bug in "
            "vhem, or values are so extreme, or covariances so ill-conditioned, that digits are lost",
            "Rescale the observations",
            "raise {reg_covar}",
            "report it if that does not help",
            what=what, before=before, after=after, iteration=iteration,
        )  # fmt: skip


__all__ = [
    "BoundError",
    "CellError",
    "Count",
    "Explained",
    "FitWarning",
    "InputError",
    "InputTypeError",
    "InputWarning",
    "Naming",
    "NotConvergedWarning",
    "ParameterError",
    "warn",
    "warn_if_any",
]
