"""Libraries that only some parts of the package need: how to get them."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Return what to type for the libraries of an extra; vhem is installed from its own folder, not from a registry.

    Examples
    --------
    >>> how_to_install("plot")
    'in the folder of vhem, pip install ".[plot]"'
    """
    return f'in the folder of vhem, pip install ".[{extra}]"'
