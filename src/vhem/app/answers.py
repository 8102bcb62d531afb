"""What the pages ask for: tables, looks at them, runs, results. Ids are looked up in the store, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from vhem.app.estimate import machine_factor, seconds
from vhem.app.jobs import OUT, Queue
from vhem.app.preview import look
from vhem.app.security import report_headers
from vhem.app.settings import ChoiceError, Model, checked_roles, explicit_roles
from vhem.app.store import NotFoundError, Record, Store, now
from vhem.app.uploads import described, receive_picture, receive_table
from vhem.app.workers import Workers
from vhem.cli.demo import write_study
from vhem.cli.run_folder import REPORT

Answer = Callable[[Request], Awaitable[Response]]
_SHORT = ("id", "title", "state", "clusters", "range", "made", "started", "ended", "data", "data_name", "error")


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


def _queue(request: Request) -> Queue:
    queue: Queue = request.app.state.queue
    return queue


def _data(request: Request) -> Record:
    return _store(request).data(request.path_params["id"])


def _run(request: Request) -> Record:
    return _store(request).run(request.path_params["id"])


async def _body(request: Request) -> dict[str, Any]:
    try:
        given = await request.json()
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise ChoiceError("This request was not understood.")
    return given


# tables


async def overview(request: Request) -> Response:
    """Return all tables and runs, in short."""
    store = _store(request)
    runs = [{**r.read(), "id": r.id} for r in store.all_runs()]
    tables = [_described(store, record) for record in store.all_data()]
    return JSONResponse({"data": tables, "runs": [{key: run.get(key) for key in _SHORT} for run in runs]})


def _described(store: Store, record: Record) -> dict[str, Any]:
    return {**record.read(), "id": record.id, "picture": store.picture(record) is not None}


async def add_table(request: Request) -> Response:
    """Keep a table."""
    record = await receive_table(request, _store(request))
    return JSONResponse({"id": record.id})


async def add_demo(request: Request) -> Response:
    """Make the simulated study a table."""
    store, workers = _store(request), request.app.state.workers
    record, path = store.new_data("fixations.csv")
    await workers.run(write_study, path)
    (path.parent / "face.png").rename(path.parent / "picture.png")
    described(record, path, "fixations.csv")
    record.update(demo=True)
    return JSONResponse({"id": record.id})


async def table(request: Request) -> Response:
    """Return what is known about a table."""
    return JSONResponse(_described(_store(request), _data(request)))


async def remove_table(request: Request) -> Response:
    """Forget a table that no run needs."""
    record, store = _data(request), _store(request)
    if any(run.read()["data"] == record.id for run in store.all_runs()):
        raise ChoiceError("Runs were made from this table. Remove them first.")
    record.remove()
    return JSONResponse({})


async def look_at(request: Request) -> Response:
    """Return what a table holds, with the roles that its columns were given."""
    record, store, given = _data(request), _store(request), await _body(request)
    roles = checked_roles(given.get("roles") or {})
    workers: Workers = request.app.state.workers
    try:
        found = await workers.run(look, store.table(record), roles, bool(given.get("whole")))
    except MemoryError as fault:
        raise ChoiceError(str(fault)) from None
    if given.get("keep"):
        record.update(roles=roles)
        if not found["partial"]:
            record.update(facts=found.get("facts"), understood=found.get("roles"))
    return JSONResponse(found)


async def add_picture(request: Request) -> Response:
    """Keep the picture that was looked at."""
    await receive_picture(request, _data(request))
    return JSONResponse({})


async def picture(request: Request) -> Response:
    """Return the picture that belongs to a table."""
    path = _store(request).picture(_data(request))
    if path is None:
        raise NotFoundError("There is no picture.")
    return FileResponse(path)


async def remove_picture(request: Request) -> Response:
    """Forget the picture."""
    path = _store(request).picture(_data(request))
    if path is not None:
        path.unlink()
    return JSONResponse({})


# runs


class _Wish(NamedTuple):
    """What a page wants to be run."""

    record: Record
    table: dict[str, Any]
    model: dict[str, Any]
    low: int
    high: int
    automatic: bool

    def seconds(self, clusters: int | None) -> float:
        """Return how long the run of one number of clusters, or the automatic one, should take."""
        numbers = list(range(self.low, self.high + 1)) if clusters is None else [clusters]
        n_values = len(self.table["understood"]["values"])
        return seconds(self.table["facts"], n_values, self.model, numbers, compare=clusters is None)

    def clusters(self) -> list[int | None]:
        """Return the number of clusters of each run; None is chosen by the run itself."""
        return [None] if self.automatic else list(range(self.low, self.high + 1))


async def _wish(request: Request) -> _Wish:
    given = await _body(request)
    record, model = _store(request).data(given.get("data")), given.get("model") or {}
    low, high = _numbers(given.get("clusters"))
    table = record.read()
    if not table.get("facts"):
        raise ChoiceError("This table has not been read to its end yet. Look at its page first.")
    items = table["facts"]["people"] or table["facts"]["sequences"]
    automatic = given.get("mode") == "auto"
    if automatic:
        high = max(low, min(high, items - 1))
    Model.of(model, high)
    return _Wish(record, table, model, low, high, automatic)


async def estimate(request: Request) -> Response:
    """Return how long what was chosen would take, in seconds."""
    wish = await _wish(request)
    total = sum(map(wish.seconds, wish.clusters()))
    return JSONResponse({"seconds": total * machine_factor(_store(request))})


async def add_runs(request: Request) -> Response:
    """Queue a run, or one for each of several numbers of clusters."""
    store, wish = _store(request), await _wish(request)
    name = wish.table["name"]
    job = {"data": wish.record.id, "data_name": name, "title": f"Clusters of {name}", "model": wish.model, "look": {}}
    job |= {"roles": explicit_roles(wish.table), "range": [wish.low, wish.high] if wish.automatic else None}
    made = []
    for place, clusters in enumerate(wish.clusters()):
        run = store.new_run()
        own = {"clusters": clusters, "state": "queued", "estimate": wish.seconds(clusters)}
        run.write({**job, **own, "made": now() + place * 1e-3})
        made.append(run.id)
    wish.record.update(model=wish.model)
    _queue(request).add()
    return JSONResponse({"ids": made})


def _numbers(given: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of clusters."""
    pair = given if isinstance(given, list) else [given, given]
    if len(pair) != 2 or not all(isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= 1000 for k in pair):
        raise ChoiceError("The number of clusters must be between 1 and 1000.")
    if pair[0] > pair[1]:
        raise ChoiceError("The smallest number of clusters is larger than the largest.")
    if pair[1] - pair[0] > 29:
        raise ChoiceError("At most 30 numbers of clusters at a time.")
    return pair[0], pair[1]


async def run(request: Request) -> Response:
    """Return where a run stands."""
    return JSONResponse(_queue(request).status(_run(request)))


async def stop(request: Request) -> Response:
    """Stop a run; the answer does not wait until it has."""
    record = _run(request)
    stopping = asyncio.create_task(_queue(request).stop(record))
    request.app.state.stopping = stopping  # a task needs someone who holds it
    await asyncio.sleep(0)
    return JSONResponse(_queue(request).status(record))


async def again(request: Request) -> Response:
    """Queue a run that was stopped or failed once more."""
    record = _run(request)
    if record.read()["state"] not in ("stopped", "failed"):
        raise ChoiceError("This run has not been stopped.")
    record.update(state="queued", error=None)
    _queue(request).add()
    return JSONResponse({})


async def remove_run(request: Request) -> Response:
    """Forget a run and its results."""
    record = _run(request)
    if record.read()["state"] == "running":
        raise ChoiceError("This run is running. Stop it first.")
    record.remove()
    return JSONResponse({})


async def report(request: Request) -> Response:
    """Return a run's report, as a page that cannot act as one of the app's."""
    return FileResponse(_result(_run(request), REPORT), media_type="text/html", headers=report_headers())


def _result(record: Record, name: str) -> Path:
    path = record.folder / OUT / name
    if not path.is_file():
        raise NotFoundError("This run has no such result.")
    return path


ROUTES: list[tuple[str, str, Answer]] = [
    ("GET", "/api/overview", overview),
    ("POST", "/api/data", add_table),
    ("POST", "/api/demo", add_demo),
    ("GET", "/api/data/{id}", table),
    ("DELETE", "/api/data/{id}", remove_table),
    ("POST", "/api/data/{id}/look", look_at),
    ("POST", "/api/data/{id}/picture", add_picture),
    ("GET", "/api/data/{id}/picture", picture),
    ("DELETE", "/api/data/{id}/picture", remove_picture),
    ("POST", "/api/estimate", estimate),
    ("POST", "/api/runs", add_runs),
    ("GET", "/api/runs/{id}", run),
    ("POST", "/api/runs/{id}/stop", stop),
    ("POST", "/api/runs/{id}/again", again),
    ("DELETE", "/api/runs/{id}", remove_run),
    ("GET", "/api/runs/{id}/report", report),
]
