"""How the command ends: wrong input is told in one line, and Ctrl-C says what was kept."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from vhem.cli import session
from vhem.learning.iteration import BoundError

FAILED, INTERRUPTED, PIPE_CLOSED = 1, 130, 141  # exit codes; 2 is for options that do not exist or lack a value

_TOLD = (ValueError, TypeError, OSError, ImportError, BoundError, MemoryError)


class Commands(TyperGroup):
    """The subcommands; their errors become one line, unless `--debug` stands anywhere among the words."""

    _debug = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` out of the words, wherever it is."""
        self._debug = "--debug" in args
        return list(super().parse_args(ctx, [word for word in args if word != "--debug"]))

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(f"vhem: interrupted. {session.kept}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # `vhem score … | head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        except _TOLD as fault:
            if self._debug:
                raise
            message = " ".join(str(fault).split()) or type(fault).__name__
            typer.echo(f"vhem: {message}", err=True)
            raise typer.Exit(FAILED) from None
