"""vhem app: the whole way in a browser."""

from __future__ import annotations

import ipaddress
import runpy
import sys
from typing import Annotated

import typer

from vhem._support.errors import InputError


def app(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; any free one if not given.", show_default=False)
    ] = 0,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
    host: Annotated[
        str, typer.Option(help="Address to listen on: only those of this machine itself.", show_default=False)
    ] = "127.0.0.1",
) -> None:
    """Open vhem in the browser: from a table to a report without typing commands.

    The first line printed is the address. Nothing leaves this machine; Ctrl-C ends the app, and runs that have not
    finished resume when it is started again.

    For example:

        vhem app

        vhem app --no-open --port 8600
    """
    _check_host(host)
    # The app uses the command, not the other way round: it is started as a program in its own right, which its worker
    # processes can import (`alter_sys`).
    sys.argv = ["vhem app", str(port), "open" if open_it else "no-open"]
    runpy.run_module("vhem.app", run_name="__main__", alter_sys=True)


def _check_host(host: str) -> None:
    """Refuse to serve other machines."""
    try:
        own = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        own = False
    if not own:
        raise InputError(
            "vhem app serves one person on one machine, and has no accounts: it listens on 127.0.0.1, not on {host}. "
            "Start it on the machine in front of you",
            "for a remote one, forward its port with ssh -L",
            host=host,
        )  # fmt: skip
