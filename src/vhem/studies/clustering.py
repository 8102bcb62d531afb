"""Against the field: vhem and other ways of clustering sequences, on sets that anyone can load.

Every method runs at its defaults or as its authors recommend, is told the true number of clusters and nothing else, and
has ten seeds and a limit of CPU time per run. A seed is another order of the items and another seed of the method; for
simulated sets and letters it is another draw. Every method and set is a process of its own. All runs end up in
clustering.json, and what is in there is not run again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from vhem._support.checks import check_choice
from vhem.kernels.stopping import stoppable_threads
from vhem.studies.clustering_data import SETS, TROUBLES
from vhem.studies.clustering_methods import METHODS
from vhem.studies.clustering_tables import Results, Rows, all_tables, matrix
from vhem.studies.ranks import average_ranks, draw_ranks
from vhem.studies.results import provenance, remembered, renew_tables, write

#: Sets for worse data, and those for new sequences, which come in two parts.
ROBUST = ("letters", "sensor", "BasicMotions")
APART = ("BasicMotions",)
TROUBLED_METHODS = ("SequenceClustering", "VHEM on HMMs", "k-means, mean and sd", "k-means, resampled", "R-Clustering",
                    "KASBA", "k-means, DBA (tslearn)")  # fmt: skip
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
_PACKAGES = ("aeon", "tslearn", "sktime", "pyts", "pycatch22", "numba")


def run(
    out: Path,
    seeds: int = 10,
    budget: int = 20,
    only: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
    pages: tuple[Path, ...] = (),
) -> list[Path]:
    """Run the study, `jobs` processes at a time, and write its tables, also into `pages`; finished parts are kept."""
    for name, given, known_names in (("data", only, SETS), ("method", methods, METHODS)):
        for value in given:
            check_choice(name, value, list(known_names))
    settings = {"seeds": seeds, "run_budget": budget}
    chosen = [name for name in SETS if not only or name in only]
    compared = [name for name in METHODS if not methods or name in methods]
    tasks = [{**task, **settings} for task in _tasks(chosen, compared)]
    known = _Known.read(out / "clustering.json", settings)

    def compute(task: dict[str, Any]) -> Rows:
        if rows := known.rows(task):
            return rows
        kind = "new sequences" if "apart" in task else task.get("trouble", "as it is")
        progress(f"{task['data']}, {task['method']}, {kind}")
        parts = [str(task[key]) for key in ("method", "data", "seeds", "trouble", "apart") if key in task]
        name = "_".join("".join(c if c.isalnum() else "-" for c in part) for part in parts)
        return list(remembered(out, f"clustering_{name}", task, lambda: in_a_process(task)))

    with stoppable_threads(jobs) as pool:
        found = list(pool.map(compute, tasks))
    for task, rows in zip(tasks, found, strict=True):
        known.keep(task, rows)
    return _written(out, known, chosen, compared, pages)


def _tasks(chosen: list[str], compared: list[str]) -> list[dict[str, Any]]:
    """Return what there is to do: a method on a set as it is, then on worse data, then on new sequences."""
    tasks: list[dict[str, Any]] = [{"method": m, "data": s} for s in chosen for m in compared]
    troubled = [m for m in TROUBLED_METHODS if m in compared]
    tasks += [{"method": m, "data": s, "trouble": t} for s in ROBUST if s in chosen for m in troubled for t in TROUBLES]
    able = [m for m in compared if METHODS[m].assigns_new]
    return tasks + [{"method": m, "data": s, "apart": True} for s in APART if s in chosen for m in able]


def in_a_process(task: dict[str, Any]) -> Rows:
    """Return what a method says about a set, one row per seed that it finished."""
    command = [sys.executable, "-m", "vhem.studies.clustering_part", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **_ONE_THREAD})
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if rows or done.returncode == 0:
        return rows
    if done.returncode == -signal.SIGXCPU:
        return [{"failed": f"more than {task['run_budget']} s of CPU time"}]
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return [{"failed": last[:200] if done.returncode > 0 else f"ended by signal {-done.returncode}"}]


class _Known(NamedTuple):
    """What clustering.json holds."""

    plain: Results
    troubled: dict[str, Results]
    apart: Results
    made_by: dict[str, Any]

    @staticmethod
    def read(path: Path, settings: dict[str, Any]) -> _Known:
        """Return the runs of a file, if they were made with these settings; otherwise none."""
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["settings"] == settings:
                return _Known(kept.pop("plain"), kept.pop("troubled"), kept.pop("apart"), kept)
        return _Known({}, {}, {}, provenance(settings, _PACKAGES))

    def _of(self, task: dict[str, Any]) -> Results:
        if "trouble" in task:
            return self.troubled.setdefault(task["trouble"], {})
        return self.apart if "apart" in task else self.plain

    def rows(self, task: dict[str, Any]) -> Rows:
        """Return what is known of a task, if anything."""
        return self._of(task).get(task["data"], {}).get(task["method"], [])

    def keep(self, task: dict[str, Any], rows: Rows) -> None:
        """Add what was found."""
        self._of(task).setdefault(task["data"], {})[task["method"]] = rows

    def of(self, chosen: list[str]) -> _Known:
        """Return the runs on some sets, in their order."""
        plain, apart = ({s: r[s] for s in chosen if s in r} for r in (self.plain, self.apart))
        troubled = {t: {s: r[s] for s in chosen if s in r} for t, r in self.troubled.items()}
        return _Known(plain, {t: r for t, r in troubled.items() if r}, apart, self.made_by)


def _written(out: Path, known: _Known, chosen: list[str], methods: list[str], pages: tuple[Path, ...]) -> list[Path]:
    """Write the runs, their tables and the picture of ranks."""
    shown, kept = known.of(chosen), known.of(list(SETS))
    tables = all_tables(shown.plain, shown.troubled, shown.apart, methods)
    text = "# All tables of the study against the field\n\n" + "\n".join(f"## {k}\n\n{v}\n" for k, v in tables.items())
    numbers = {"plain": kept.plain, "troubled": kept.troubled, "apart": kept.apart, **kept.made_by}
    paths = write(out, "clustering", text, numbers)
    for page in pages:
        renew_tables(page, tables)
    if len(methods) > 2 and len(shown.plain) > 2:
        paths.append(out / "clustering_ranks.png")
        draw_ranks(paths[-1], methods, average_ranks(matrix(shown.plain, methods)))
    return [*paths, *pages]
