"""Starts the app: a free port on this machine, the address with its token, the browser."""

from __future__ import annotations

import socket
import threading
import time
import webbrowser
from pathlib import Path

import uvicorn

from vhem.app.estimate import speed_of
from vhem.app.pages import make_app
from vhem.app.security import ENTRY, Keys
from vhem.app.store import Store

_HOST = "127.0.0.1"


def serve(port: int, open_browser: bool, folder: Path | None = None) -> None:
    """Serve until Ctrl-C; the first line printed is the address."""
    listening = _socket(port)
    port = listening.getsockname()[1]
    keys = Keys(port)
    address = f"http://{_HOST}:{port}{ENTRY}?token={keys.token}"
    print(address, flush=True)
    print("The address works once, in one browser. Ctrl-C ends the app; unfinished runs resume next time.", flush=True)
    speed = speed_of(time.process_time())  # so far everything has been imported, as by a command
    app = make_app(Store(folder), port, keys, speed)
    settings = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="none", server_header=False,
        timeout_graceful_shutdown=3,
    )  # fmt: skip
    if open_browser:  # the socket listens already: the browser waits until it is answered
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        uvicorn.Server(settings).run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn has shut down, and says so in this way
        print("The app has ended.")


def _socket(port: int) -> socket.socket:
    """Return a socket that listens on this machine only."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
    except OSError:
        raise OSError(f"port {port} is in use; choose another with --port, or leave it out.") from None
    listening.listen(64)
    return listening
