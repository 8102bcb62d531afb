"""What the pages ask for: tables, looks at them, runs, results. Ids are looked up in the store, and nowhere else."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from vhem.app.estimate import Stage, machine_factor, stages
from vhem.app.preview import look
from vhem.app.problems import bad_cells, emptied
from vhem.app.questions import Answer, body_of, data_of, queue_of, run_of, store_of
from vhem.app.settings import (
    ChoiceError,
    Model,
    checked_roles,
    explicit_roles,
    in_words,
    smallest_and_largest,
    with_joined,
)
from vhem.app.several import join, stacked
from vhem.app.store import NotFoundError, Record, Store, now
from vhem.app.tables import reading_options
from vhem.app.uploads import described, receive_picture, receive_table
from vhem.app.workers import Workers
from vhem.cli.demo import write_study

_MOST_FILES = 500  # that are put together to one table
_OF_FILE = ("sheet", "encoding")  # roles that a copy as csv does not need
_SHORT = (
    "id",
    "title",
    "state",
    "clusters",
    "range",
    "made",
    "started",
    "ended",
    "data",
    "data_name",
    "error",
    "of",
    "probable",
)


# tables


async def overview(request: Request) -> Response:
    """Return all tables and runs, in short."""
    store = store_of(request)
    runs = [{**r.read(), "id": r.id} for r in store.all_runs()]
    tables = [_described(store, record) for record in store.all_data()]
    short = [{key: run.get(key) for key in _SHORT} | {"words": in_words(run)} for run in runs]
    return JSONResponse({"data": tables, "runs": short})


def _described(store: Store, record: Record) -> dict[str, Any]:
    return {**record.read(), "id": record.id, "picture": store.picture(record) is not None}


async def add_table(request: Request) -> Response:
    """Keep a table."""
    record = await receive_table(request, store_of(request))
    return JSONResponse({"id": record.id})


async def add_demo(request: Request) -> Response:
    """Make the simulated study a table."""
    store, workers = store_of(request), request.app.state.workers
    for known in store.all_data():
        if known.read().get("demo"):
            return JSONResponse({"id": known.id})
    record, path = store.new_data("fixations.csv")
    await workers.run(write_study, path)
    (path.parent / "face.png").rename(path.parent / "picture.png")
    described(record, path, "fixations.csv")
    record.update(demo=True, picture_name="face.png")
    return JSONResponse({"id": record.id})


async def table(request: Request) -> Response:
    """Return what is known about a table."""
    return JSONResponse(_described(store_of(request), data_of(request)))


async def remove_table(request: Request) -> Response:
    """Forget a table that no run needs."""
    record, store = data_of(request), store_of(request)
    if _in_use(store, record):
        raise ChoiceError("Runs were made from this table. Remove them first.")
    record.remove()
    return JSONResponse({})


def _in_use(store: Store, record: Record) -> bool:
    return any(run.read()["data"] == record.id for run in store.all_runs())


async def stack_tables(request: Request) -> Response:
    """Make one table of several with the same columns, and forget these."""
    store, given = store_of(request), await body_of(request)
    parts = [store.data(one) for one in _listed(given.get("data"))]
    names = [part.read()["name"] for part in parts]
    name = f"{len(parts)} files ({Path(names[0]).stem} …).csv"
    made, target = store.new_data(name)
    try:
        roles = await request.app.state.workers.run(stacked, [store.table(part) for part in parts], names, target)
    except ChoiceError:
        made.remove()
        raise
    described(made, target, name).update(roles=roles, files=names)
    _forget(store, parts)
    return JSONResponse({"id": made.id})


async def join_table(request: Request) -> Response:
    """Read other tables together with one, as further values of the same sequences."""
    store, record, given = store_of(request), data_of(request), await body_of(request)
    others = [store.data(one) for one in _listed(given.get("data"))]
    for other in others:
        join(store, record, other)
    _forget(store, others)
    return JSONResponse({})


async def separate_tables(request: Request) -> Response:
    """Read a table alone again; the files stay, since runs may have been made from them."""
    record = data_of(request)
    record.update(joined=[], name=record.read()["name"].split(" + ")[0], facts=None)
    return JSONResponse({})


def _listed(given: Any) -> list[Any]:
    if not isinstance(given, list) or not 0 < len(given) <= _MOST_FILES:
        raise ChoiceError(f"At most {_MOST_FILES} files at a time.")
    return given


def _forget(store: Store, records: list[Record]) -> None:
    """Remove tables that were only parts of another."""
    for record in records:
        if not _in_use(store, record):
            record.remove()


async def look_at(request: Request) -> Response:
    """Return what a table holds, with the roles that its columns were given."""
    record, store, given = data_of(request), store_of(request), await body_of(request)
    roles = checked_roles(given.get("roles") or {})
    workers: Workers = request.app.state.workers
    both = with_joined(roles, record.read().get("joined") or [])
    try:
        found = await workers.run(look, store.table(record), both, bool(given.get("whole")))
    except MemoryError as fault:
        raise ChoiceError(str(fault)) from None
    if found["problem"]:
        found["problem"]["text"] = found["problem"]["text"].replace(
            store.table(record).name, record.read()["name"].split(" + ")[0]
        )
    if given.get("keep"):
        record.update(roles=roles)
        if not found["partial"]:
            record.update(facts=found.get("facts"), understood=found.get("roles"))
    return JSONResponse(found)


async def empty_cells(request: Request) -> Response:
    """Make a copy of a table in which the cells that are not numbers are empty."""
    record, store, given = data_of(request), store_of(request), await body_of(request)
    roles, column = checked_roles(given.get("roles") or {}), given.get("column")
    if not isinstance(column, str):
        raise ChoiceError("This request was not understood.")
    name = _corrected(store, record.read()["name"])
    made, target = store.new_data(name)
    n = await request.app.state.workers.run(empty_bad_cells, store.table(record), roles, column, target)
    picture = store.picture(record)
    joined = record.read().get("joined") or []
    for beside in [*([] if picture is None else [picture]), *(record.folder / other for other in joined)]:
        shutil.copy(beside, made.folder / beside.name)
    kept = {k: v for k, v in roles.items() if k not in _OF_FILE}
    described(made, target, name).update(
        corrected=n, roles=kept, joined=joined, picture_name=record.read().get("picture_name")
    )
    return JSONResponse({"id": made.id})


def _corrected(store: Store, name: str) -> str:
    """Return a name for a corrected copy of a table that no other table has."""
    taken = {record.read()["name"] for record in store.all_data()}
    stem = re.sub(r" \(corrected( \d+)?\)$", "", Path(name).stem)
    names = (f"{stem} (corrected{f' {k}' if k > 1 else ''}).csv" for k in itertools.count(1))
    return next(one for one in names if one not in taken)


def empty_bad_cells(path: Path, roles: dict[str, Any], column: str, target: Path) -> int:
    """Write a copy of a table without the cells that are not numbers, and return how many there were."""
    options = reading_options(roles)
    bad = bad_cells(path, options, column)
    emptied(path, options, bad, target)
    return len(bad)


async def add_picture(request: Request) -> Response:
    """Keep the picture that was looked at."""
    await receive_picture(request, data_of(request))
    return JSONResponse({})


async def picture(request: Request) -> Response:
    """Return the picture that belongs to a table."""
    path = store_of(request).picture(data_of(request))
    if path is None:
        raise NotFoundError("There is no picture.")
    return FileResponse(path)


async def remove_picture(request: Request) -> Response:
    """Forget the picture."""
    path = store_of(request).picture(data_of(request))
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
    probable: bool  #: as many clusters as are probable

    def stages(self, clusters: int | None) -> list[Stage]:
        """Return the parts of the run of one number of clusters, or of the automatic one."""
        numbers = [3] if self.probable else list(range(self.low, self.high + 1)) if clusters is None else [clusters]
        n_values = len(self.table["understood"]["values"])
        return stages(self.table["facts"], n_values, self.model, numbers, compare=self.automatic)

    def clusters(self) -> list[int | None]:
        """Return the number of clusters of each run; None is chosen by the run itself."""
        return [None] if self.automatic or self.probable else list(range(self.low, self.high + 1))


async def _wish(request: Request) -> _Wish:
    given = await body_of(request)
    record, model = store_of(request).data(given.get("data")), given.get("model") or {}
    low, high = _numbers(given.get("clusters"))
    table = record.read()
    if not table.get("facts"):
        raise ChoiceError("This table has not been read to its end yet. Look at its page first.")
    items = table["facts"]["people"] or table["facts"]["sequences"]
    automatic = given.get("mode") == "auto"
    if automatic:
        high = max(low, min(high, items - 1))
    Model.of(model, high)
    return _Wish(record, table, model, low, high, automatic, given.get("mode") == "probable")


async def estimate(request: Request) -> Response:
    """Return how long what was chosen would take, in seconds."""
    wish = await _wish(request)
    total = sum(stage.seconds for clusters in wish.clusters() for stage in wish.stages(clusters))
    return JSONResponse({"seconds": total * machine_factor(store_of(request), request.app.state.speed)})


async def add_runs(request: Request) -> Response:
    """Queue a run, or one for each of several numbers of clusters."""
    store, wish = store_of(request), await _wish(request)
    name = wish.table["name"]
    job = {"data": wish.record.id, "data_name": name, "title": f"Clusters of {name}", "model": wish.model, "look": {}}
    job |= {
        "probable": wish.probable,
        "roles": explicit_roles(wish.table),
        "range": [wish.low, wish.high] if wish.automatic else None,
    }
    made, factor = [], machine_factor(store, request.app.state.speed)
    for place, clusters in enumerate(wish.clusters()):
        run = store.new_run()
        parts = wish.stages(clusters)
        own = {"clusters": clusters, "state": "queued", "stages": parts, "factor": factor}
        run.write({**job, **own, "estimate": sum(stage.seconds for stage in parts), "made": now() + place * 1e-3})
        made.append(run.id)
    wish.record.update(model=wish.model)
    queue_of(request).add()
    return JSONResponse({"ids": made})


def _numbers(given: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of clusters."""
    low, high = smallest_and_largest(given, "clusters", 1000)
    if high - low > 29:
        raise ChoiceError("At most 30 numbers of clusters at a time.")
    return low, high


async def run(request: Request) -> Response:
    """Return where a run stands."""
    return JSONResponse(queue_of(request).status(run_of(request)))


async def stop(request: Request) -> Response:
    """Stop a run; the answer does not wait until it has."""
    record = run_of(request)
    stopping = asyncio.create_task(queue_of(request).stop(record))
    request.app.state.stopping = stopping  # a task needs someone who holds it
    await asyncio.sleep(0)
    return JSONResponse(queue_of(request).status(record))


async def again(request: Request) -> Response:
    """Queue a run that was stopped or failed once more."""
    record = run_of(request)
    if record.read()["state"] not in ("stopped", "failed"):
        raise ChoiceError("This run has not been stopped.")
    record.update(state="queued", error=None)
    queue_of(request).add()
    return JSONResponse({})


async def remove_run(request: Request) -> Response:
    """Forget a run and its results."""
    record = run_of(request)
    if record.read()["state"] == "running":
        raise ChoiceError("This run is running. Stop it first.")
    record.remove()
    return JSONResponse({})


ROUTES: list[tuple[str, str, Answer]] = [
    ("GET", "/api/overview", overview),
    ("POST", "/api/data", add_table),
    ("POST", "/api/stack", stack_tables),
    ("POST", "/api/demo", add_demo),
    ("GET", "/api/data/{id}", table),
    ("DELETE", "/api/data/{id}", remove_table),
    ("POST", "/api/data/{id}/look", look_at),
    ("POST", "/api/data/{id}/join", join_table),
    ("POST", "/api/data/{id}/separate", separate_tables),
    ("POST", "/api/data/{id}/empty", empty_cells),
    ("POST", "/api/data/{id}/picture", add_picture),
    ("GET", "/api/data/{id}/picture", picture),
    ("DELETE", "/api/data/{id}/picture", remove_picture),
    ("POST", "/api/estimate", estimate),
    ("POST", "/api/runs", add_runs),
    ("GET", "/api/runs/{id}", run),
    ("POST", "/api/runs/{id}/stop", stop),
    ("POST", "/api/runs/{id}/again", again),
    ("DELETE", "/api/runs/{id}", remove_run),
]
