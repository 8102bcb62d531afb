"""Text that several docstrings share, written once."""

from __future__ import annotations

import re
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
    place = re.compile(rf"^( +)<({'|'.join(texts)})>$", re.MULTILINE)

    def filled(thing: T) -> T:
        thing.__doc__ = place.sub(lambda found: indent(texts[found[2]], found[1]), thing.__doc__ or "")
        return thing

    return filled
