"""Text that several docstrings share, written once."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import TypeVar

T = TypeVar("T")


def sharing(**texts: str) -> Callable[[T], T]:
    """Return a decorator that replaces the lines ``<name>`` of a docstring.

    Examples
    --------
    >>> @sharing(ax="ax : matplotlib Axes, optional")
    ... def draw(ax=None):
    ...     '''Draw.
    ...
    ...     <ax>
    ...     '''
    >>> print(draw.__doc__.splitlines()[2])
        ax : matplotlib Axes, optional
    """

    def filled(thing: T) -> T:
        for name, text in texts.items():
            thing.__doc__ = (thing.__doc__ or "").replace(f"    <{name}>\n", indent(text, "    ") + "\n")
        return thing

    return filled
