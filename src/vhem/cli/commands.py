"""How the command ends: wrong input is reported in one line, and Ctrl-C says what was kept."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from vhem._support.errors import Explained
from vhem.cli import session
from vhem.cli.naming import told
from vhem.em.display import silenced

FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141  # exit codes

_TOLD = (Explained, ValueError, TypeError, OSError, ImportError, MemoryError)
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # click's, or that of typer's own copy of click


class _PlainFlags:
    """Mixin of commands whose help shows flags without a value: `--help`, not `--help <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of typer's commands
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(_PlainFlags, TyperCommand):
    """A subcommand."""


class Commands(_PlainFlags, TyperGroup):
    """The subcommands; their errors become one line, unless `--debug` appears anywhere on the command line."""

    _debug = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` out of the arguments, wherever it appears."""
        self._debug = "--debug" in args
        try:
            return list(super().parse_args(ctx, [word for word in args if word != "--debug"]))
        except _UsageError as fault:
            _misused(fault, ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command and flush its output; a reader that has gone away is not an error."""
        try:
            return super().main(*args, **kwargs)
        finally:
            try:
                sys.stdout.flush()
            except BrokenPipeError:
                _discard_output()

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        session.start_afresh()
        try:
            with warnings.catch_warnings(), silenced():  # the command has progress bars of its own
                warnings.simplefilter("always")
                warnings.showwarning = _note
                return super().invoke(ctx)
        except _UsageError as fault:
            _misused(fault, ctx)
        except KeyboardInterrupt:
            typer.echo(f"vhem: interrupted. {session.kept}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # `vhem score … | head` has seen enough
            _discard_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except _TOLD as fault:
            if self._debug:
                raise
            typer.echo(f"vhem: {_told(fault)}", err=True)
            raise typer.Exit(FAILED) from None


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning as a line in the command's words; commands with progress gather theirs."""
    typer.echo(f"note: {told(message, session.doing)}", err=True)


def _discard_output() -> None:
    """Discard what is still to be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(fault: Exception) -> str:
    """Return an error in one line."""
    if isinstance(fault, OSError) and fault.strerror and fault.filename is not None:  # the system's, with its number
        return f"{fault.filename}: {fault.strerror.lower()}. Check the name, the disk and the permissions."
    return told(fault, session.doing)


def _misused(fault: Any, ctx: Any) -> NoReturn:
    """Say in one line which arguments were not understood."""
    if type(fault).__name__ == "NoArgsIsHelpError":  # `vhem` alone shows its help
        raise fault
    path = fault.ctx.command_path if fault.ctx else f"{ctx.command_path} {ctx.invoked_subcommand}"
    known = [name for parameter in fault.ctx.command.params for name in parameter.opts] if fault.ctx else []
    alike = difflib.get_close_matches(getattr(fault, "option_name", ""), known, n=1)
    said = " ".join((fault.message if alike else fault.format_message()).split())
    text = said.rstrip(".") + (f"; did you mean {alike[0]}?" if alike else "")
    end = "" if text.endswith("?") else "."
    typer.echo(f"{path}: {text[:1].lower()}{text[1:]}{end} See `{path} --help`.", err=True)
    raise typer.Exit(MISUSED) from None
