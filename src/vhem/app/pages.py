"""The app's pages: one HTML page, its scripts, and the answers that they ask for, in JSON."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import vhem
from vhem.app import answers, results
from vhem.app.jobs import Queue
from vhem.app.security import ENTRY, Guard, Keys
from vhem.app.settings import ChoiceError
from vhem.app.store import NotFoundError, Store
from vhem.app.workers import Workers

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_LEAD_ON = (
    '<!doctype html><html lang="en"><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">'
    "<title>vhem</title>"
)
#: Names of the report's drawing code that the app's scripts import.
_SHARED = "COLORS, byId, el, svg, fill, percent, short, count, tick, categoryColor, stretches"


def make_app(store: Store, port: int, keys: Keys, speed: float = 1.0) -> Starlette:
    """Return the app; it answers only the browser that has the key. `speed` is about the machine: see estimate.py."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        queue = Queue(store)
        app.state.store, app.state.queue, app.state.workers, app.state.speed = store, queue, Workers(), speed
        serving = asyncio.create_task(queue.serve())
        try:
            yield
        finally:
            await queue.close()
            await serving
            app.state.workers.close()

    def enter(request: Request) -> Response:
        return _entered(request, keys)

    routes = [
        Route("/", _page),
        Route(ENTRY, enter, methods=["GET"]),
        Route("/static/{name}", _static),
        *(Route(path, answer, methods=[method]) for method, path, answer in [*answers.ROUTES, *results.ROUTES]),
    ]
    faults: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        NotFoundError: _not_found, ChoiceError: _bad_choice, HTTPException: _http_fault,
    }  # fmt: skip
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, port=port, keys=keys)],
        lifespan=lifespan,
        exception_handlers=faults,
    )


def _entered(request: Request, keys: Keys) -> Response:
    """Exchange the token of the address for a cookie; a browser that has it already may come again."""
    if not keys.known(request.headers.get("cookie", "")) and not keys.spend(request.query_params.get("token", "")):
        return PlainTextResponse(
            "This address has been used, or is not complete. It works once: end the app with Ctrl-C and start it again "
            "for a new one.\n",
            401,
        )
    # A page that leads on, not a redirect: the next request is then the app's own, whoever opened the address.
    answer = HTMLResponse(_LEAD_ON)
    keys.give(answer)
    return answer


def _page(request: Request) -> Response:
    request.app.state.workers.start()

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return HTMLResponse(environment.from_string(_text("page.html")).render(version=vhem.__version__))


def _static(request: Request) -> Response:
    """Return a script or a style; those that the report uses too come from there."""
    name = request.path_params["name"]
    kind = _TYPES.get(name[name.rfind(".") :])
    own = {path.name for path in resources.files("vhem.app").joinpath("static").iterdir()}
    if name == "drawing.js":
        return Response(f"{_report_part(name)}\nexport {{ {_SHARED} }};\n", media_type=kind)
    if name == "report.css":
        return Response(_report_part("page.css"), media_type=kind)
    if name not in own or kind is None:
        raise NotFoundError("There is no such page.")
    return Response(_text(name), media_type=kind)


def _text(name: str) -> str:
    return resources.files("vhem.app").joinpath("static", name).read_text(encoding="utf-8")


def _report_part(name: str) -> str:
    return resources.files("vhem.report").joinpath("parts", name).read_text(encoding="utf-8")


async def _not_found(request: Request, fault: NotFoundError) -> Response:
    del request
    return JSONResponse({"error": str(fault)}, 404)


async def _bad_choice(request: Request, fault: ChoiceError) -> Response:
    del request
    return JSONResponse({"error": str(fault)}, 400)


async def _http_fault(request: Request, fault: HTTPException) -> Response:
    del request
    return JSONResponse({"error": fault.detail}, fault.status_code)
