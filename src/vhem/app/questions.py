"""What a question from a page is about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from vhem.app.jobs import Queue
from vhem.app.settings import ChoiceError
from vhem.app.store import Record, Store

Answer = Callable[[Request], Awaitable[Response]]


def store_of(request: Request) -> Store:
    """Return the app's folder."""
    store: Store = request.app.state.store
    return store


def queue_of(request: Request) -> Queue:
    """Return the runs that wait."""
    queue: Queue = request.app.state.queue
    return queue


def data_of(request: Request) -> Record:
    """Return the table that the address names."""
    return store_of(request).data(request.path_params["id"])


def run_of(request: Request) -> Record:
    """Return the run that the address names."""
    return store_of(request).run(request.path_params["id"])


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that was sent."""
    try:
        given = await request.json()
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise ChoiceError("This request was not understood.")
    return given
