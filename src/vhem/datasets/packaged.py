"""Data that other Python packages bring along: life courses, clicks, and counts of measles.

The packages are not imported, only their files are read; ``pip install --no-deps NAME`` is enough. The licences below
are those of the packages; where these say nothing about the data beneath, that is said.

- mvad and biofam, from `sequenzo` (BSD 3-clause, Y. Liang and others), which has no separate licence for them. Both are
  also data sets of the R package TraMineR (GPL), with their sources. mvad: D. McVicar, M. Anyadike-Danes, "Predicting
  successful and unsuccessful transitions from school to work by using sequence methods", J. R. Statist. Soc. A 165(2),
  2002. biofam: the biographical survey of the Swiss Household Panel 2002 (www.swisspanel.ch), whose full data ask for a
  contract; this is a sample of 2,000 people. N. S. Müller, M. Studer, G. Ritschard, "Classification de parcours de vie
  à l'aide de l'optimal matching", 2007.
- Clicks in a shop, from `retentioneering` (Apache 2.0, Retentioneering User Trajectory Analysis Lab): simulated, so the
  package's licence is that of the data.
- Weekly measles in England and Wales 1944-1965, from `pypomp` (MIT, A. Abkemeier, J. Chen, E. Ionides, J. Wheeler, K.
  Tan), which has no separate licence for them: H. Korevaar, C. J. Metcalf, B. T. Grenfell, "Structure, space and size:
  competing drivers of variation in urban and rural measles transmission", J. R. Soc. Interface 17, 2020, from the
  Registrar General's weekly returns.
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


class Measles(NamedTuple):
    """Towns, and what else is known about them."""

    sequences: Sequences  #: one per town, of weekly counts
    covariates: dict[str, npt.NDArray[Any]]  #: one value per town


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


def load_measles() -> Measles:
    """Load weekly counts of measles in 1,422 towns and rural districts of England and Wales, 1944 to 1965.

    Returns
    -------
    Measles
        1,108 weeks of counts; covariates: population (in 1950), longitude, latitude (NaN where unknown) and rural.

    Examples
    --------
    >>> from vhem.datasets import load_measles
    >>> load_measles().sequences  # doctest: +SKIP
    Sequences(n=1422, n_dims=1, length 1108, 1575576 frames)
    """
    folder = packaged("pypomp", "data/uk_measles/measles.csv.gz").parent
    sequences = read_sequences(folder / "measles.csv.gz", id="unit", values=["cases"])
    people = {row["unit"]: float(row["pop"]) for row in rows_of(folder / "demog.csv") if row["year"] == "1950"}
    places = {row["unit"]: row for row in rows_of(folder / "coord.csv")}
    known: dict[str, npt.NDArray[Any]] = {
        "population": np.array([people.get(town, np.nan) for town in sequences.ids]),
        "rural": np.array([town.endswith(".RD") for town in sequences.ids]),
    }
    for name, column in (("longitude", "long"), ("latitude", "lat")):
        known[name] = np.array([float(places.get(town, {}).get(column) or np.nan) for town in sequences.ids])
    return Measles(sequences, known)


def packaged(package: str, file: str) -> Path:
    """Return a file of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(f"these data come with the package {package}: pip install --no-deps {package}")
    path = Path(next(iter(found.submodule_search_locations))) / file
    if not path.exists():
        raise FileNotFoundError(f"the installed {package} has no {file}; another version may have it.")
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, as text."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def columns_of(path: Path, before: str, but: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a table in front of one of them, as text."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    wanted = [name for name in header[: header.index(before)] if name not in but]
    return {name: np.array([row[header.index(name)] for row in rows]) for name in wanted}
