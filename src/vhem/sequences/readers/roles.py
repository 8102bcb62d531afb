"""Which column of a table is what: as the user says, or guessed if there is no doubt."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from vhem._support.errors import InputError

_ID = {"id", "sequence", "sequenceid", "seq", "seqid", "series", "seriesid", "caseid", "recording", "recordingid"}
_SUBJECT = {"subject", "subjectid", "participant", "participantid", "person", "personid", "viewer", "viewerid"}
_SUBJECT |= {"user", "userid", "patient", "patientid", "subj", "observer"}
_GROUP = {"group", "groupid", "groupname"}
_TRIAL = {"trial", "trialid", "session", "sessionid", "trialno", "trialnumber"}
_TIME = {"time", "t", "timestamp", "frame", "frameid", "frameno", "date", "datetime", "seconds", "timems"}
_TIME |= {"fixation", "fixationid", "fixationno", "fixationnumber", "fixationindex", "fixid", "fixno", "index", "order"}
_COUNTER = {"step"}  # of a simulation; of animals it is a length, as a rule beside a time


_LISTED = 30  # columns in a message
_NONE: Mapping[str, tuple[str, ...] | None] = MappingProxyType({})


class Roles(NamedTuple):
    """What the columns of a long table are."""

    id: list[str]  #: together they identify the sequence of a row; none: all rows are one sequence
    time: str | None
    values: list[str]
    group: str | None
    ignored: list[str] | None = None  #: columns that are not used
    categories: Mapping[str, tuple[str, ...] | None] = _NONE  #: values that are categories, with their names if given
    guessed: tuple[str, ...] = ()  #: those of them that nobody said to be categories
    weights: str | None = None


class Asked(NamedTuple):
    """What the user says about columns of categories, and of case weights."""

    categories: Mapping[str, tuple[str, ...] | None] = _NONE
    weights: str | None = None


NOTHING = Asked()


def given_or_guessed(
    columns: list[str],
    is_numeric: Callable[[str], bool],
    id: str | Iterable[str] | None,
    time: str | None,
    values: str | Iterable[str] | None,
    group: str | None,
    asked: Asked = NOTHING,
    is_category: Callable[[str], bool] = lambda _: False,
) -> Roles:
    """Return the role of each column.

    Parameters
    ----------
    columns : list of str
        All columns.
    is_numeric : callable
        Whether a column holds numbers.
    id, time, values, group
        What the user says; None is guessed, except for a group if an id is given. An empty `time`: there is none.
    asked : Asked
        Columns of categories, and of weights.
    is_category : callable
        Whether a column that nobody said to be one of categories can be nothing else.

    Returns
    -------
    Roles
        All names are columns of the table.

    Examples
    --------
    >>> given_or_guessed(["SubjectID", "TrialID", "FixX", "FixY"], lambda name: True, None, None, None, None)
    Roles(id=['SubjectID', 'TrialID'], time=None, values=['FixX', 'FixY'], group='SubjectID', ignored=[], ...)
    """
    told = {
        *listed(id),
        *listed(values),
        *listed(time or None),
        *listed(group),
        *asked.categories,
        *listed(asked.weights),
    }
    check_known(told, columns)
    free = [name for name in columns if name not in told and not name.startswith("(unnamed")]
    ids, group = _guessed_id(free, is_numeric, group) if id is None else (listed(id), group)
    if not time:
        like_time = [name for name in free if _plain(name) in _TIME and name not in ids]
        like_time = like_time or [name for name in free if _plain(name) in _COUNTER and name not in ids]
        time = like_time[0] if len(like_time) == 1 and time is None else None
        free = [name for name in free if name not in like_time]
    chosen = listed(values)
    if values is None:
        left = [name for name in free if name not in (*ids, group)]
        chosen = _guessed_values(left, is_numeric, is_category if not asked.categories else lambda _: False)
    guessed = [n for n in chosen if n not in asked.categories and not is_numeric(n) and is_category(n)]
    categories = {**asked.categories, **dict.fromkeys(guessed)}
    place = {name: k for k, name in enumerate(columns)}
    chosen = sorted({*chosen, *categories}, key=place.__getitem__) if values is None else [
        *chosen, *(n for n in categories if n not in chosen)
    ]  # fmt: skip
    if not chosen:
        problem = "no column of numbers is left for the values; the columns are {columns}"
        raise InputError(problem, "Give {values}", "name columns of {categories}", columns=shortened(columns))
    used = {*ids, *listed(time), *chosen, *listed(group), *listed(asked.weights)}
    ignored = [name for name in columns if name not in used]
    return Roles(ids, time, chosen, group, ignored, categories, tuple(guessed), asked.weights)


def _guessed_values(
    free: list[str], is_numeric: Callable[[str], bool], is_category: Callable[[str], bool]
) -> list[str]:
    """Return the columns of numbers, or of categories if there are none."""
    naming = _ID | _SUBJECT | _TRIAL | _GROUP  # their numbers are names, not measurements
    left = [name for name in free if _plain(name) not in naming]
    return [name for name in left if is_numeric(name)] or [name for name in left if is_category(name)]


def check_known(told: Iterable[str], columns: list[str]) -> None:
    """Refuse names that are not columns."""
    for name in sorted(set(told) - set(columns)):
        problem = "there is no column {column!r}; the columns are {columns}"
        raise InputError(problem, column=name, columns=shortened(columns))


def guessed_row_id(columns: list[str]) -> list[str]:
    """Return the column that names the rows of a wide table, if there is one by its name.

    Examples
    --------
    >>> guessed_row_id(["id", "sex", "a15", "a16"])
    ['id']
    """
    for names in (_ID, _SUBJECT):
        found = [name for name in columns if _plain(name) in names]
        if len(found) == 1:
            return found
    return []


def _guessed_id(free: list[str], is_numeric: Callable[[str], bool], group: str | None) -> tuple[list[str], str | None]:
    """Return the columns that identify sequences, and that of the group."""
    named = [name for name in free if _plain(name) in _ID]
    subjects = [name for name in free if _plain(name) in _SUBJECT]
    trials = [name for name in free if _plain(name) in _TRIAL]
    groups = [name for name in free if _plain(name) in _GROUP] or subjects
    if len(named) == 1:
        return named, group or (groups[0] if len(groups) == 1 else None)
    if not named and len(subjects) == 1 and len(trials) == 1:
        return [*subjects, *trials], group or subjects[0]
    if not named and len(subjects) + len(trials) == 1:
        return subjects + trials, group
    texts = [name for name in free if not is_numeric(name)]
    if not (named or subjects or trials) and len(texts) == 1:
        return texts, group
    raise InputError(
        "which column identifies the sequences? The columns are {columns}",
        "Give {id}, one or several of them (subject and trial, say), or {id:[]} if all rows are one sequence",
        columns=shortened(free),
    )


def likely_group(id_columns: list[str]) -> str | None:
    """Return the one of several id columns that groups sequences, by its name.

    Examples
    --------
    >>> likely_group(["SubjectID", "TrialID"])
    'SubjectID'
    """
    subjects = [name for name in id_columns if _plain(name) in _SUBJECT | _GROUP]
    return subjects[0] if len(id_columns) > 1 and len(subjects) == 1 else None


@functools.lru_cache(maxsize=1 << 17)
def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def listed(names: str | Iterable[str] | None) -> list[str]:
    """Return one name, several or none as a list."""
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def shortened(columns: list[str]) -> str:
    """Return the names of columns as messages list them: only the first of very many."""
    more = f", … ({len(columns)} in all)" if len(columns) > _LISTED else ""
    return ", ".join(map(repr, columns[:_LISTED])) + more
