"""Data that other Python packages bring along: life courses, clicks, and counts of measles.

The packages are not imported, only their files are read; ``pip install --no-deps NAME`` is enough.

- mvad and biofam, from `sequenzo` (BSD 3-clause, Y. Liang). Both are also data sets of the R package TraMineR (GPL).
  mvad: D. McVicar, M. Anyadike-Danes, "Predicting successful and unsuccessful transitions from school to work by using
  sequence methods", J. R. Statist. Soc. A 165(2), 2002. biofam: the biographical survey of the Swiss Household Panel
  2002; N. S. Müller, M. Studer, G. Ritschard, "Classification de parcours de vie à l'aide de l'optimal matching", 2007.
- Clicks in a shop, from `retentioneering` (Apache 2.0, M. Godzi, V. Kukushkin, A. Zaytsev): simulated by that package.
- Weekly measles in England and Wales 1944-1964, from `pypomp` (MIT, A. Abkemeier and others): the Registrar-General's
  weekly returns.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem.sequences import Sequences, read_sequences

#: What the codes 0 to 7 of biofam mean.
BIOFAM_STATES = (
    "parents", "left", "married", "left+married", "child", "left+child", "left+married+child", "divorced",
)  # fmt: skip


class LifeCourses(NamedTuple):
    """Sequences of people, and what else is known about them."""

    sequences: Sequences  #: one per person, with case weights
    covariates: dict[str, npt.NDArray[Any]]  #: one value per person


class Clicks(NamedTuple):
    """Visits of a shop."""

    sequences: Sequences  #: one per session, of the pages or events; groups are the users
    covariates: dict[str, npt.NDArray[Any]]  #: one value per session


def load_mvad() -> LifeCourses:
    """Load the transition from school to work of 712 young people in Northern Ireland, monthly from July 1993.

    Returns
    -------
    LifeCourses
        72 months of six states; covariates: male, catholic, funemp (father unemployed), gcse5eq (good exam results), …

    Examples
    --------
    >>> from vhem.datasets import load_mvad
    >>> load_mvad().sequences  # doctest: +SKIP
    Sequences(n=712, n_dims=1, length 72, 51264 frames; state: 6 categories)
    """
    path = packaged("sequenzo", "datasets/mvad.csv")
    names = ["employment", "FE", "HE", "joblessness", "school", "training"]
    sequences = read_sequences(path, wide="Jul.93:Jun.99", weights="weight", categories={"state": names})
    return LifeCourses(sequences, columns_of(path, before="Jul.93", but=("id", "weight")))


def load_biofam(channels: bool = False) -> LifeCourses:
    """Load family life courses of 2,000 people in Switzerland, yearly from age 15 to 30.

    Parameters
    ----------
    channels : bool
        As three channels, married, child and left (the parents' home), each no or yes, instead of eight states.

    Returns
    -------
    LifeCourses
        16 years; covariates: sex, birthyr, nat_1_02, plingu02 (language), p02r01 (confession), ….

    Examples
    --------
    >>> from vhem.datasets import load_biofam
    >>> load_biofam(channels=True).sequences.channels  # doctest: +SKIP
    ['married', 'child', 'left']
    """
    path = packaged("sequenzo", "datasets/biofam.csv")
    whole = read_sequences(path, wide="15:30", id=[], weights="wp00tbgs", categories=["state"])
    known = columns_of(path, before="15", but=("idhous",))
    if not channels:
        return LifeCourses(Sequences(whole, categories={"state": BIOFAM_STATES}), known)
    tables = {name: path.with_name(f"biofam_{name}_domain.csv") for name in ("married", "child", "left")}
    joined = read_sequences(tables, wide="*", categories=True)
    named = Sequences(joined, categories=dict.fromkeys(tables, ("no", "yes")), weights=whole.weights)
    return LifeCourses(named, known)


def load_clicks() -> Clicks:
    """Load simulated clicks: what visitors of a shop did, session by session.

    Returns
    -------
    Clicks
        Sessions of events such as "product_view" and "add_to_cart"; covariates: platform, acquisition_channel, ….

    Examples
    --------
    >>> from vhem.datasets import load_clicks
    >>> load_clicks().sequences.channels  # doctest: +SKIP
    ['event']
    """
    with gzip.open(packaged("retentioneering", "datasets/ecom.csv.gz"), "rt", encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["timestamp"])  # equal times stay in the file's order
    sessions: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        sessions.setdefault(row["session_id"], []).append(row)
    events = [[row["event"] for row in session] for session in sessions.values()]
    users = [session[0]["user_id"] for session in sessions.values()]
    sequences = Sequences(events, list(sessions), users, channels=["event"], categories=True)
    names = ("platform", "acquisition_channel", "user_cohort", "user_lifecycle")
    return Clicks(sequences, {name: np.array([s[0][name] for s in sessions.values()]) for name in names})


def load_measles(towns: int | None = None) -> Sequences:
    """Load weekly counts of measles in towns of England and Wales, 1944 to 1964.

    Parameters
    ----------
    towns : int, optional
        Only so many, those with the most cases.

    Returns
    -------
    Sequences
        One per town, of counts.

    Examples
    --------
    >>> from vhem.datasets import load_measles
    >>> load_measles().sequences.n_dims  # doctest: +SKIP
    1
    """
    path = packaged("pypomp", "data/uk_measles/measles.csv.gz")
    every = read_sequences(path, id="unit", values=["cases"])
    if towns is None:
        return every
    total = np.array([np.nansum(counts) for counts in every])
    return every[np.sort(np.argsort(-total, kind="stable")[:towns])]


def packaged(package: str, file: str) -> Path:
    """Return a file of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(f"these data come with the package {package}: pip install --no-deps {package}")
    path = Path(next(iter(found.submodule_search_locations))) / file
    if not path.exists():
        raise FileNotFoundError(f"the installed {package} has no {file}; another version may have it.")
    return path


def columns_of(path: Path, before: str, but: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a table in front of one of them, as text."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    wanted = [name for name in header[: header.index(before)] if name not in but]
    return {name: np.array([row[header.index(name)] for row in rows]) for name in wanted}
