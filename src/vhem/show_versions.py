"""What is installed: for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata

from vhem._support.version import VERSION
from vhem.kernels.engine import engine, n_threads

_LIBRARIES = ("numpy", "scipy", "scikit-learn")


def show_versions() -> None:
    """Print the versions of vhem and its libraries, the engine, its instruction set and the number of threads.

    Examples
    --------
    >>> import vhem
    >>> vhem.show_versions()
            vhem  ...
          engine  ...
    """
    running = engine()
    rows = {
        "vhem": VERSION,
        "engine": running.name,
        "instruction set": running.instruction_set,
        "threads": str(n_threads(None)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }
    for name, value in rows.items():
        print(f"{name:>16}  {value}")
