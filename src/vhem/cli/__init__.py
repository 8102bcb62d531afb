"""The command `vhem`."""

from vhem.cli.main import app

__all__ = ["app"]
