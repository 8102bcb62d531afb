"""Runs, one after another: each is a child process `vhem …`. What is asked for and how it went is on disk.

A run's state is "queued", "running", "done", "failed" or "stopped". If the app ends, what runs is interrupted as by
Ctrl-C and queued again: the command resumes after the parts that it has finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from vhem.app.estimate import Stage, crowd, how_far
from vhem.app.progress import PROGRESS, Progress, begin_command
from vhem.app.settings import AUTO, Model, cluster_command, number_command, report_command, statistics_command
from vhem.app.store import NotFoundError, Record, Store, now
from vhem.cli.commands import INTERRUPTED
from vhem.cli.run_folder import RunFolder

OUTPUT, OUT = "output.txt", "out"
_PATIENCE = 5.0  # seconds until a process that was asked to stop is killed


class Queue:
    """The runs that wait, and the one that runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._progress: dict[str, Progress] = {}
        self._wake = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._running: str | None = None
        self._stopping: set[str] = set()
        self._hopeless: set[str] = set()  # runs whose failure could not even be written down
        self._closing = False

    async def serve(self) -> None:
        """Run what is queued, until cancelled."""
        self._queue_again()
        while not self._closing:
            self._wake.clear()
            runs = [record for record in reversed(self._store.all_runs()) if record.id not in self._hopeless]
            waiting = [record for record in runs if record.read()["state"] == "queued"]
            if not waiting:
                await self._wake.wait()
                continue
            try:
                await self._run(waiting[0])
            except Exception as fault:  # whatever it is, the next run must not wait for ever
                self._fail(waiting[0], fault)

    def _fail(self, record: Record, fault: Exception) -> None:
        self._hopeless.add(record.id)
        with contextlib.suppress(NotFoundError, OSError):  # it was removed, or there is no room on the disk
            record.update(state="failed", ended=now(), pid=None, error=f"The run could not be started: {fault}")
            self._hopeless.discard(record.id)

    def add(self) -> None:
        """Note that something was queued."""
        self._wake.set()

    async def stop(self, record: Record) -> None:
        """Stop a run; parts that it has finished are kept, and it can be resumed."""
        if record.read()["state"] == "queued":
            record.update(state="stopped", ended=now())
        elif self._running == record.id:
            self._stopping.add(record.id)
            await self._interrupt()

    async def close(self) -> None:
        """Interrupt what runs; it is queued again."""
        self._closing = True
        self._wake.set()
        await self._interrupt()

    def status(self, record: Record) -> dict[str, Any]:
        """Return where a run stands."""
        job = record.read()
        progress = self._followed(record)
        step = {
            "command": progress.command, "step": progress.step, "done": progress.done, "detail": progress.detail,
            "bounds": progress.bounds, "notes": progress.notes, "steps": progress.steps,
        }  # fmt: skip
        told = {**job, "id": record.id, "progress": step, "stopping": record.id in self._stopping, "now": now()}
        if job["state"] == "running" and job.get("stages"):
            parts, factor = [Stage(*stage) for stage in job["stages"]], job.get("factor", 1.0)
            far = how_far(parts, progress, now() - job["started"], factor)
            told |= {} if far is None else {"left": far.seconds, "share": far.share}
        return {**told, "before": self._before(record)} if job["state"] == "queued" else told

    def _before(self, record: Record) -> list[dict[str, Any]]:
        """Return the runs that a run waits for: the one that runs, then those that were queued earlier."""
        jobs = [{**other.read(), "id": other.id} for other in reversed(self._store.all_runs())]
        running = [job for job in jobs if job["state"] == "running"]
        ids = [job["id"] for job in jobs]
        waiting = [job for job in jobs[: ids.index(record.id)] if job["state"] == "queued"]
        shown = ("id", "data_name", "clusters", "range", "of")
        return [{key: job.get(key) for key in shown} for job in [*running, *waiting]]

    def last_words(self, record: Record) -> str:
        """Return what a run's last command said."""
        return self._followed(record).last_words()

    def _followed(self, record: Record) -> Progress:
        progress = self._progress.setdefault(record.id, Progress(record.folder / PROGRESS))
        progress.refresh()
        return progress

    def _queue_again(self) -> None:
        """Queue what was running when the app ended; if its process still runs, it is asked to stop first."""
        for record in self._store.all_runs():
            job = record.read()
            if job["state"] == "running":
                _interrupt_orphan(job.get("pid"), record.folder)
                record.update(state="queued")

    async def _run(self, record: Record) -> None:
        self._running = record.id
        (record.folder / PROGRESS).write_text("", encoding="utf-8")
        self._progress.pop(record.id, None)
        job = record.update(state="running", started=now(), ended=None, error=None, crowd=crowd())
        try:
            end = await self._commands(record, job)
        finally:
            self._running = None
            stopped = record.id in self._stopping
            self._stopping.discard(record.id)
        if end == 0:
            record.update(state="done", ended=now(), pid=None)
        elif stopped:
            record.update(state="stopped", ended=now(), pid=None)
        elif self._closing:
            record.update(state="queued", pid=None)
        else:
            record.update(state="failed", ended=now(), pid=None, error=self._reason(record, end))

    async def _commands(self, record: Record, job: dict[str, Any]) -> int:
        """Run a job's commands one after another; return the exit code of the first that fails."""
        if job.get("of"):
            return await self._statistics(record, self._store.run(job["of"]))
        data = self._store.data(job["data"])
        table, out = self._store.table(data), record.folder / OUT
        clusters = AUTO if job.get("probable") else job["clusters"]
        if clusters is None:
            model = Model.of(job["model"], 1)
            end = await self._command(record, number_command(table, job["roles"], model, *job["range"]))
            if end:
                return end
            numbers = json.loads((record.folder / OUTPUT).read_text(encoding="utf-8"))
            clusters = int(numbers["best"]["stability"])
            record.update(clusters=clusters, numbers=numbers)
        model = Model.of(job["model"], clusters)
        end = await self._command(record, [*cluster_command(table, job["roles"], model, out), "--overwrite"])
        if end:
            return end
        found = RunFolder(out).summary
        record.update(clusters=len(found["clusters"]), odds=found.get("probabilities"))
        return await self.report(record)

    async def _statistics(self, record: Record, run: Record) -> int:
        """Test the clusters of a finished run, and write its report again, which then shows what was found."""
        end = await self._command(record, statistics_command(run.folder / OUT))
        return end or await self._command(record, self._report_of(run))

    async def report(self, record: Record) -> int:
        """Write the report of a finished run."""
        return await self._command(record, self._report_of(record))

    def _report_of(self, record: Record) -> list[str]:
        job = record.read()
        picture = self._store.picture(self._store.data(job["data"]))
        return report_command(record.folder / OUT, job.get("look", {}), picture, job["title"])

    async def _command(self, record: Record, arguments: list[str]) -> int:
        begin_command(record.folder / PROGRESS, arguments[0], now())
        shown = [] if arguments[0] == "report" else ["--progress", "json"]
        words = [sys.executable, "-P", "-m", "vhem.cli", *arguments, *shown]
        with open(record.folder / OUTPUT, "wb") as out, open(record.folder / PROGRESS, "ab") as err:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err, cwd=record.folder,
                start_new_session=True,  # Ctrl-C in the terminal is for the server, which decides what ends
            )  # fmt: skip
        record.update(pid=process.pid)
        if self._running == record.id:
            self._process = process
            if record.id in self._stopping or self._closing:
                await self._interrupt()
        try:
            return await process.wait()
        finally:
            if self._process is process:
                self._process = None

    async def _interrupt(self) -> None:
        """Ask the running process to stop, and insist if it does not."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if os.name == "posix":
                process.send_signal(signal.SIGINT)
            else:  # Windows has no such signal; parts that are finished are on disk
                process.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), _PATIENCE)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def _reason(self, record: Record, end: int) -> str:
        """Return why a run failed, in the command's words if it had any."""
        if end < 0:
            return (
                f"The process that did the work was killed from outside ({signal.Signals(-end).name}), perhaps because "
                "memory ran out. What it had finished is kept: run it again to resume."
            )
        if end == INTERRUPTED:
            return "The process that did the work was interrupted from outside. Run it again to resume."
        return self._followed(record).last_words() or f"The command ended with exit code {end}."


def _interrupt_orphan(pid: Any, folder: Path) -> None:
    """Stop the process of an app that was killed, if it is still there and really is that process."""
    try:
        mine = str(folder).encode() in Path(f"/proc/{int(pid)}/cmdline").read_bytes()
    except (OSError, TypeError, ValueError):
        return
    if mine:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(int(pid), signal.SIGINT)
