"""How long a run may take: a count of its work, times how long such work has taken on this machine so far."""

from __future__ import annotations

import os
from statistics import median
from typing import Any, NamedTuple

from vhem.app.progress import Progress
from vhem.app.settings import COMPARE, DRAWS, Model, states_range
from vhem.app.store import Store
from vhem.cli.shared import LONGEST_TAU

# Seconds on a machine on which a command takes three until it does anything: all that matters are the proportions.
_START, _WRITING = 3.0, 0.4
_LEARNING, _REFINING, _PAIR = 3e-9, 4e-10, 1.6e-8  # per unit of work
_LEARN, _REFINE, _FIT = 0.1, 0.25, 0.065  # however little there is to do
_FIT_HMM, _REFINE_HMM, _APART = 2.5e-4, 1.5e-3, 7e-5  # per HMM, and per pair of HMMs
_ITERATIONS, _ROUNDS = 30, 250  # of learning, and of refining
_PER_DRAW = 1.4  # clusterings of a data set drawn: into all clusters, and into one, which takes less
_FOLDS = 8  # clusterings of the statistics beside those of draws: five folds, and three of all people
_FITS, _SEPARATING = 26, 12  # clusterings per number of clusters that is compared: the criteria, and how separate
_SHARED = 0.6  # with 8 to 10 processes per core, runs took 3.7 to 4.1 times as long
_LATEST = 5  # runs from which the machine's speed is known
_DOUBT = 2.0  # seconds of work that must be done before the speed of a run is believed


class Stage(NamedTuple):
    """A part of a run: the command, how its step begins, and how long it should take."""

    command: str
    step: str
    seconds: float


def stages(
    facts: dict[str, Any], n_values: int, given: dict[str, Any], numbers: list[int], compare: bool
) -> list[Stage]:
    """Return the parts of a run, with the times they should take on the machine on which the constants were measured.

    Parameters
    ----------
    facts : dict
        What is known about the table.
    n_values : int
        Values per row.
    given : dict
        The settings, as the page sends them.
    numbers : list of int
        Numbers of clusters.
    compare : bool
        Whether these are compared first, and one of them is then used.
    """
    model = Model.of(given, max(numbers))
    low, high = states_range(given.get("states", 3))
    hmms = facts["people"] if facts["people"] and model.choices.get("per") != "sequence" else facts["sequences"]
    width = n_values if model.choices.get("covariance") != "full" else n_values * (n_values + 1) / 2
    mix = model.numbers.get("mix", 1)
    per_frame = [s * (s + 6 * width * mix) for s in range(low, high + 1)]
    starts = model.numbers.get("starts", 5)
    learning = _LEARN + _LEARNING * facts["rows"] * starts * _ITERATIONS * sum(per_frame)
    pairs = _PAIR * hmms * high**2 * model.numbers.get("tau", min(facts["median"], LONGEST_TAU))
    found = list[Stage]()
    if compare:
        fit = sum(_FIT + _FIT_HMM * hmms + pairs * k for k in numbers)
        found = [Stage("number", "", _START), Stage("number", "learning", learning)]
        found += [Stage("number", "comparing", _FITS * fit)]
        found += [Stage("number", "measuring", _SEPARATING * fit + _APART * hmms**2)]
    for k in [numbers[len(numbers) // 2]] if compare else numbers:
        work = _REFINING * facts["rows"] * k * per_frame[-1] * _ROUNDS
        refining = _REFINE + _REFINE_HMM * hmms + work if model.polish else 0.0
        found += [Stage("cluster", "", _START), Stage("cluster", "learning", learning)]
        found += [Stage("cluster", "clustering", _FIT + _FIT_HMM * hmms + pairs * k)]
        found += [Stage("cluster", "refining", refining)]
        found += [Stage("report", "", _START + _WRITING)]
    return found


def seconds(facts: dict[str, Any], n_values: int, given: dict[str, Any], numbers: list[int], compare: bool) -> float:
    """Return the time that a run should take; the parameters are those of `stages`."""
    return float(sum(stage.seconds for stage in stages(facts, n_values, given, numbers, compare)))


class Left(NamedTuple):
    """How far a run is."""

    seconds: float  #: that it will still take, at the speed that it has had so far
    share: float  #: of its work that is done


def how_far(parts: list[Stage], progress: Progress, passed: float, factor: float) -> Left | None:
    """Return how far a run is, and how long it will still take.

    Parameters
    ----------
    parts : list of Stage
        The parts of the run.
    progress : Progress
        Where it stands.
    passed : float
        Seconds since it began.
    factor : float
        How much longer things were expected to take here than the parts say; it counts little once more is known.
    """
    at = _place(parts, progress)
    if at is None:
        return None
    finished = sum(part.seconds for part in parts[:at])
    done = finished + parts[at].seconds * (progress.done or 0.0)
    speed = (passed + _DOUBT * factor) / (done + _DOUBT)
    if not progress.done:  # how far this part is can only be told from how long it has taken
        spent = max(0.0, passed - finished * factor)
        done += parts[at].seconds * min(0.9, spent / (parts[at].seconds * factor + 1e-9))
        speed = max(factor, (passed + _DOUBT * factor) / (done + _DOUBT))
    whole = sum(part.seconds for part in parts)
    return Left(float(speed * (whole - done)), float(done / whole))


def _place(parts: list[Stage], progress: Progress) -> int | None:
    """Return which part is being done: of those of the command, the last that has begun."""
    own = [k for k, part in enumerate(parts) if part.command == progress.command]
    begun = [k for k in own if not parts[k].step or any(step.startswith(parts[k].step) for step in progress.steps_now)]
    return max(begun, default=None)


class Statistics(NamedTuple):
    """How long the statistics of a run take at most: each fold and each draw clusters again."""

    stages: list[Stage]
    factor: float  #: how much longer than they say things took in that run

    def seconds(self) -> float:
        """Return how long all of it takes."""
        return self.factor * sum(stage.seconds for stage in self.stages)


def statistics_of(job: dict[str, Any]) -> Statistics | None:
    """Return how long the statistics of a finished run take, if it is known how long the run took."""
    if not job.get("stages") or not job.get("ended"):
        return None
    parts = [Stage(*part) for part in job["stages"]]
    once = sum(part.seconds for part in parts if part.command == "cluster" and part.step)
    testing = Stage(COMPARE, "comparing", (_PER_DRAW * DRAWS + _FOLDS) * once)
    return Statistics(
        [Stage(COMPARE, "", _START), testing, Stage("report", "", _START + _WRITING)],
        (job["ended"] - job["started"]) / job["estimate"],
    )


def speed_of(seconds: float) -> float:
    """Return how much slower this machine is than the one of the constants, if a program takes so long to start."""
    return min(4.0, max(0.2, seconds / _START))


def machine_factor(store: Store, speed: float = 1.0) -> float:
    """Return how much longer things take than the constants say: as with the latest runs, if as much is going on.

    Before anything has been run, `speed` says it.
    """
    ratios = []
    for record in store.all_runs():
        job = record.read()
        if job["state"] == "done" and job.get("estimate") and job.get("started") and job.get("ended"):
            ratios.append((job["ended"] - job["started"]) / job["estimate"] / job.get("crowd", 1.0))
        if len(ratios) == _LATEST:
            break
    return min(50.0, max(0.1, (median(ratios) if ratios else speed) * crowd()))


def crowd() -> float:
    """Return how much slower a process is because others share its core; they do not use all of their shares."""
    if not hasattr(os, "getloadavg"):
        return 1.0
    return float(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) ** _SHARED)
