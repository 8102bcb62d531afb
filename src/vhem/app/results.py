"""What the pages ask about a finished run: the report, its looks, files to take away, comparisons, new people."""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response

from vhem.app.comparison import NotComparableError, compare
from vhem.app.estimate import statistics_of
from vhem.app.exports import commands_of, script_of, write_zip
from vhem.app.jobs import OUT
from vhem.app.questions import Answer, body_of, queue_of, run_of, store_of
from vhem.app.scoring import PEOPLE, SCORES, associated, notes_on, score
from vhem.app.security import report_headers
from vhem.app.settings import COMPARE, DRAWS, ChoiceError, explicit_roles, in_words
from vhem.app.store import NotFoundError, Record, Store, now
from vhem.cli.run_folder import CENTERS, HMMS, LABELS, REPORT, RUN, SUMMARY_JSON, SUMMARY_TEXT, RunFolder
from vhem.inference.bootstrap import Stopping
from vhem.report.payload import state_colors
from vhem.report.side_by_side import Side, comparison_page

_FILES = {LABELS, CENTERS, HMMS, SUMMARY_TEXT, SUMMARY_JSON, RUN, REPORT}
_SCORED = {SCORES, PEOPLE}
RESULTS = "results.txt"
_TABLES = ("tables.docx", "tables.xlsx", "tables.tex", "methods.txt", RESULTS)  # of the statistics
_LONGEST = 80  # characters of a name that a cluster is given


async def about(request: Request) -> Response:
    """Return what the page of a result shows around the report."""
    store, record = store_of(request), run_of(request)
    run, job = _finished(record), record.read()
    sizes = [len(row["members"]) for row in run.summary["clusters"]]
    colors = 1 + max(color for center in state_colors([run.centers])[0] for color in center)
    picture, expected = store.picture(store.data(job["data"])), statistics_of(job)
    return JSONResponse(
        {
            "sizes": sizes, "colors": colors, "dims": _n_dims(run.summary["clusters"][0]["states"][0]),
            "commands": commands_of(store, record), "siblings": _siblings(store, record),
            "picture": picture is not None,
            "statistics": _statistics(run.path / COMPARE), "testing": _testing(store, record), "draws": DRAWS,
            "smallest_p": Stopping.of(DRAWS).smallest_p,
            "expected": expected and expected.seconds(), "values": run.feature_names,
            "files": sorted(name for name in _FILES if (run.path / name).is_file()), "numbers": job.get("numbers"),
            "others": [_short(other) for other in store.all_runs() if _is_done(other) and other.id != record.id],
        }
    )  # fmt: skip


def _finished(record: Record) -> RunFolder:
    try:
        return RunFolder(record.folder / OUT)
    except FileNotFoundError:
        raise NotFoundError("This run has not finished.") from None


def _is_done(record: Record) -> bool:
    job = record.read()
    return bool(job["state"] == "done") and not job.get("of")


def _short(record: Record) -> dict[str, Any]:
    job = record.read()
    return {key: job.get(key) for key in ("data", "data_name", "clusters", "made")} | {
        "id": record.id,
        "words": in_words(job),
    }


def _statistics(folder: Path) -> dict[str, Any] | None:
    """Return what the statistics of a run say, and their files; None if there are none."""
    results = folder / RESULTS
    if not results.is_file():
        return None
    sentences = results.read_text(encoding="utf-8").splitlines()
    return {"sentences": sentences, "files": [name for name in _TABLES if (folder / name).is_file()]}


def _testing(store: Store, record: Record) -> str | None:
    """Return the run that is testing the clusters of another one now, or waits to."""
    jobs = ((other.id, other.read()) for other in store.all_runs())
    return next((id for id, job in jobs if job.get("of") == record.id and job["state"] in ("queued", "running")), None)


def _siblings(store: Store, record: Record) -> list[dict[str, Any]]:
    """Return finished runs that differ in nothing but the number of clusters, the latest of each number."""
    job, found = record.read(), dict[int, str]()
    for other in store.all_runs():
        its = other.read()
        same = all(its[key] == job[key] for key in ("data", "roles")) and _settings(its) == _settings(job)
        if same and _is_done(other):
            found.setdefault(its["clusters"], other.id)
    return [{"clusters": k, "id": found[k]} for k in sorted(found)]


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job["model"].items() if name != "page"}


async def queue_statistics(request: Request) -> Response:
    """Queue the statistics of a run."""
    record = run_of(request)
    _finished(record)
    kept = ("data", "data_name", "title", "model", "roles", "clusters", "look")
    whole = record.read()
    expected = statistics_of(whole)
    job = {name: whole[name] for name in kept if name in whole}
    job |= {} if expected is None else expected._asdict()
    queued = store_of(request).new_run()
    queued.write({**job, "of": record.id, "range": None, "state": "queued", "made": now()})
    queue_of(request).add()
    return JSONResponse({"id": queued.id})


async def report(request: Request) -> Response:
    """Return a run's report, as a page that cannot act as one of the app's."""
    return FileResponse(_file(run_of(request), REPORT), media_type="text/html", headers=report_headers())


async def change_look(request: Request) -> Response:
    """Write the report again with other names, colours or edges."""
    record, given = run_of(request), await body_of(request)
    run = _finished(record)
    before = record.read().get("look", {})
    record.update(look=_checked_look(given, len(run.summary["clusters"])))
    if await queue_of(request).report(record):
        record.update(look=before)
        raise ChoiceError(queue_of(request).last_words(record))
    return JSONResponse({})


def _checked_look(given: dict[str, Any], n_clusters: int) -> dict[str, Any]:
    names, colors = given.get("names") or [], given.get("colors") or []
    if not isinstance(names, list) or len(names) > n_clusters or not all(isinstance(n, str) for n in names):
        raise ChoiceError("The names of the clusters were not understood.")
    if not isinstance(colors, list) or not all(re.fullmatch(r"#[0-9a-fA-F]{6}", str(c)) for c in colors):
        raise ChoiceError("The colours were not understood.")
    said = [name.strip()[:_LONGEST] for name in names]
    while said and not said[-1]:  # clusters without a name are numbered
        said.pop()
    look: dict[str, Any] = {"names": said, "colors": colors}
    for key in ("crop", "extent"):
        edges = given.get(key)
        if edges is None:
            continue
        if not isinstance(edges, list) or len(edges) != 4 or not all(isinstance(e, int | float) for e in edges):
            raise ChoiceError("The edges of the picture must be four numbers: left, right, bottom and top.")
        look[key] = edges
    return look


def _file(record: Record, name: str) -> Path:
    path = record.folder / OUT / (COMPARE if name in _TABLES else "") / name
    if name not in {*_FILES, *_TABLES} or not path.is_file():
        raise NotFoundError("This run has no such file.")
    return path


async def file(request: Request) -> Response:
    """Return one of a run's files, to be saved."""
    path = _file(run_of(request), request.path_params["name"])
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


async def archive(request: Request) -> Response:
    """Return everything about a run in one file."""
    record = run_of(request)
    _finished(record)
    with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as made:
        target = Path(made.name)
    await asyncio.to_thread(write_zip, store_of(request), record, target)
    name = f"{Path(record.read()['data_name']).stem}-{record.read()['clusters']}-clusters.zip"
    return FileResponse(target, filename=name, background=BackgroundTask(target.unlink))


async def script(request: Request) -> Response:
    """Return the Python script that repeats a run."""
    record = run_of(request)
    _finished(record)
    headers = {"content-disposition": 'attachment; filename="repeat.py"'}
    return PlainTextResponse(script_of(store_of(request), record), headers=headers)


async def comparison(request: Request) -> Response:
    """Return two runs side by side, as a page that cannot act as one of the app's."""
    store = store_of(request)
    one, other = (store.run(request.path_params[name]) for name in ("id", "other"))
    titles = _titles(one.read(), other.read())
    sides = *_side(one, titles[0]), *_side(other, titles[1])
    try:
        page = await request.app.state.workers.run(compared, *sides, _picture(store, one))
    except NotComparableError as fault:
        raise ChoiceError(str(fault)) from None
    return HTMLResponse(page, headers=report_headers())


def _titles(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return what two runs are called: their numbers of clusters, and whatever else it takes to tell them apart."""
    pair = (one, other)
    titles = [f"{job['clusters']} clusters" for job in pair]
    if one["data"] != other["data"]:
        titles = [f"{job['data_name']}, {title}" for job, title in zip(pair, titles, strict=True)]
    if titles[0] == titles[1]:
        titles = [f"{title} ({in_words(job)})" for job, title in zip(pair, titles, strict=True)]
    if titles[0] == titles[1]:
        titles = [f"{title}, made {_clock(job['made'])}" for job, title in zip(pair, titles, strict=True)]
    return titles


def _clock(at: float) -> str:
    return time.strftime("%d %B, %H:%M", time.localtime(at)).lstrip("0")


def _side(record: Record, title: str) -> tuple[Path, str, list[str]]:
    """Return the folder of a run, what it is called, and the names of its clusters."""
    _finished(record)
    return record.folder / OUT, title, record.read().get("look", {}).get("names", [])


def _picture(store: Store, record: Record) -> Path | None:
    return store.picture(store.data(record.read()["data"]))


def compared(
    one: Path, title: str, names: list[str], other: Path, other_title: str, other_names: list[str], picture: Path | None
) -> str:
    """Return the page on two runs."""
    found = compare(one, other)
    a, b = RunFolder(one), RunFolder(other)
    if a.centers.n_dims != b.centers.n_dims:
        raise NotComparableError("These runs are about different values: their clusters cannot be compared.")
    if title == other_title:
        title, other_title = f"{title} (first)", f"{other_title} (second)"
    left, right = _drawn_side(a, title, names), _drawn_side(b, other_title, other_names)
    return comparison_page(left, right, found, int(a.summary.get("tau") or 10), a.feature_names, picture)


def _drawn_side(run: RunFolder, title: str, names: list[str]) -> Side:
    sizes = [len(row["members"]) for row in run.summary["clusters"]]
    said = [names[k] if k < len(names) and names[k] else f"Cluster {k + 1}" for k in range(len(sizes))]
    return Side(title, run.centers, said, sizes)


async def associate(request: Request) -> Response:
    """Test which columns of a table about the people go with the clusters of a run."""
    store, record, given = store_of(request), run_of(request), await body_of(request)
    data = store.data(given.get("data"))
    _finished(record)
    return JSONResponse(await associated(record.folder / OUT, store.table(data)))


async def score_new(request: Request) -> Response:
    """Score another table under a run."""
    store, record, given = store_of(request), run_of(request), await body_of(request)
    data = store.data(given.get("data"))
    table = data.read()
    if not table.get("facts"):
        raise ChoiceError("This table has not been read to its end yet. Look at its page first.")
    _finished(record)
    job, run, out = record.read(), record.folder / OUT, record.folder / "scores"
    found = await score(run, store.table(data), explicit_roles(table), out / data.id)
    own = store.table(store.data(job["data"])), job["roles"]
    notes = await notes_on(run, own, table["understood"]["values"], out / data.id, out / job["data"])
    return JSONResponse({**found, "notes": notes})


async def scores_file(request: Request) -> Response:
    """Return scores of another table, to be saved."""
    data, name = store_of(request).data(request.path_params["data"]), request.path_params["name"]
    path = run_of(request).folder / "scores" / data.id / name
    if name not in _SCORED or not path.is_file():
        raise NotFoundError("There are no such scores.")
    return FileResponse(path, filename=name, media_type="application/octet-stream")


ROUTES: list[tuple[str, str, Answer]] = [
    ("GET", "/api/runs/{id}/about", about),
    ("POST", "/api/runs/{id}/statistics", queue_statistics),
    ("GET", "/api/runs/{id}/report", report),
    ("POST", "/api/runs/{id}/look", change_look),
    ("GET", "/api/runs/{id}/file/{name}", file),
    ("GET", "/api/runs/{id}/zip", archive),
    ("GET", "/api/runs/{id}/script", script),
    ("GET", "/api/compare/{id}/{other}", comparison),
    ("POST", "/api/runs/{id}/associate", associate),
    ("POST", "/api/runs/{id}/score", score_new),
    ("GET", "/api/runs/{id}/scores/{data}/{name}", scores_file),
]


def _n_dims(state: dict[str, Any]) -> int:
    """Return how many channels a state of a summary has."""
    return len(state.get("mean", state.get("emits", ())))
