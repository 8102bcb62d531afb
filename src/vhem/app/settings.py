"""What was chosen on the pages, checked, as arguments of the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vhem.em.topology import TOPOLOGIES
from vhem.emissions import CHOICES
from vhem.sequences.readers.options import extension

_ROLES: dict[str, type] = {"id": list, "values": list, "time": str, "group": str, "sheet": str, "encoding": str}
_ROLES |= {"decimal": str, "one_sequence": bool, "categories": list, "weights": str, "long": bool}
_LIMITS = {  # of the numbers that may be chosen
    "clusters": (1, 1000), "mix": (1, 20), "starts": (1, 200), "restarts": (1, 1000), "tau": (1, 100_000),
    "center_states": (1, 100), "seed": (0, 2**31 - 1), "max_iter": (1, 100_000),
}  # fmt: skip
COMPARE = "compare"  #: the command that tests clusters, and the folder in that of a run where its tables are
DRAWS = 69  #: data sets that the app has drawn for the bootstrap, at most: as many as the command
_CHOICES = {
    "covariance": ("diag", "full"), "topology": tuple(TOPOLOGIES), "per": ("auto", "sequence", "group"),
    "method": ("em", "vb"),
}  # fmt: skip
AUTO = "auto"  #: as many clusters as are probable


class ChoiceError(ValueError):
    """Something was chosen that cannot be."""


def checked_roles(given: Any) -> dict[str, Any]:
    """Return the roles of columns as they were chosen, or raise if they have another form."""
    if not isinstance(given, dict):
        raise ChoiceError("The roles of the columns were not understood.")
    roles: dict[str, Any] = {}
    for name, kind in _ROLES.items():
        value = given.get(name)
        if value is None or value == [] or value is False:
            continue
        words = value if kind is list else [value] if kind is str else []
        if not isinstance(value, kind) or not all(isinstance(word, str) for word in words):
            raise ChoiceError("The roles of the columns were not understood.")
        roles[name] = value
    for column in [*roles.get("id", []), *roles.get("values", [])]:
        if "," in column or (column in roles.get("categories", []) and "=" in column):
            raise ChoiceError(_RENAME.format(column=column, signs="a comma or “=”"))
    return roles | _checked_series(given.get("wide"))


_RENAME = "Column “{column}” has {signs} in its name. Rename it in the table to choose it."


def _checked_series(given: Any) -> dict[str, Any]:
    """Return the series of a wide table, each with its name, its first and its last column."""
    if not given:
        return {}
    if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == 3 for one in given):
        raise ChoiceError("The roles of the columns were not understood.")
    if not all(isinstance(word, str) for one in given for word in one):
        raise ChoiceError("The roles of the columns were not understood.")
    names = [name.strip() for name, _, _ in given]
    if "" in names or len(set(names)) < len(names) or any(set(name) & set(",=+") for name in names):
        raise ChoiceError("Every series needs a name of its own, without commas, “=” and “+”.")
    for column in (column for _, *ends in given for column in ends):
        if set(column) & set(",:*?["):
            raise ChoiceError(_RENAME.format(column=column, signs="a comma, a colon or “*”"))
    return {"wide": [[name, *ends] for name, (_, *ends) in zip(names, given, strict=True)]}


def with_joined(roles: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the roles of columns of a table and of those that are joined to it.

    Columns of values differ from table to table: each is asked for its own. Series of wide tables have the same names
    in all of them.
    """
    if not names:
        return roles
    dropped = ("values",) if roles.get("wide") else ("values", "categories")
    return {name: value for name, value in roles.items() if name not in dropped and value} | {"join": names}


def series(roles: dict[str, Any]) -> dict[str, str] | None:
    """Return the series of a wide table as the readers take them; None for tables that are not wide."""
    return {name: f"{first}:{last}" for name, first, last in roles["wide"]} if roles.get("wide") else None


def explicit_roles(table: dict[str, Any]) -> dict[str, Any]:
    """Return the roles as they were understood, so that a command does not depend on guesses."""
    said = {name: value for name, value in table["roles"].items() if name in ("sheet", "encoding", "decimal")}
    if extension(Path(table["file"])) in (".npz", ".bvh"):  # they have no columns to choose from
        return said
    found = {name: value for name, value in table["understood"].items() if value}
    if found.get("wide"):
        del found["values"]
    elif table["roles"].get("time") == "":  # a column looks like the time, but is not to be used
        found["time"] = ""
    if found.get("join"):  # what was understood is about all tables: the command asks each of them again
        found = with_joined({**found, "categories": table["roles"].get("categories")}, found["join"])
    return {**said, **found, "one_sequence": not found.get("id")}


@dataclass(frozen=True)
class Model:
    """How a table is clustered; None and empty mean the command's default."""

    clusters: int | str  #: or "auto"
    states: str = "3"
    numbers: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, str] = field(default_factory=dict)
    polish: bool = True
    emissions: dict[str, str] = field(default_factory=dict)  #: family by columns, as the command takes them

    @classmethod
    def of(cls, given: Any, clusters: int | str) -> Model:
        """Return what was chosen, or say what is wrong with it."""
        if not isinstance(given, dict):
            raise ChoiceError("The settings were not understood.")
        numbers = {name: _number(given, name) for name in _LIMITS if name != "clusters" and given.get(name) is not None}
        choices = {name: str(given[name]) for name in _CHOICES if given.get(name) is not None}
        for name, value in choices.items():
            if value not in _CHOICES[name]:
                raise ChoiceError(f"{name} must be one of {', '.join(_CHOICES[name])}.")
        low, high = states_range(given.get("states", 3))
        states = str(low) if low == high else f"{low}-{high}"
        k = AUTO if clusters == AUTO else _number({"clusters": clusters}, "clusters")
        kinds = families(given.get("emissions") or {})
        return cls(k, states, numbers, choices, bool(given.get("polish", True)), kinds)

    def arguments(self) -> list[str]:
        """Return the options of `vhem cluster`, without those that have their default."""
        said = ["--states", self.states]
        for name, value in {**self.choices, **self.numbers}.items():
            if value != _DEFAULTS.get(name):
                said += [f"--{name.replace('_', '-')}", str(value)]
        said += [f"--emissions={columns}={family}" for columns, family in self.emissions.items()]
        return said if self.polish else [*said, "--no-polish"]


def families(given: Any) -> dict[str, str]:
    """Return the families of distributions that were chosen for columns, with columns of one family together.

    Examples
    --------
    >>> families({"x": "gaussian", "n": "poisson", "y": "gaussian"}), families({"x": "gaussian"})
    ({'x,y': 'gaussian', 'n': 'poisson'}, {})
    """
    if not isinstance(given, dict) or not all(family in CHOICES for family in given.values()):
        raise ChoiceError(f"The kind of a value must be one of {', '.join(CHOICES)}.")
    for column in given:
        if "=" in column or "," in column:
            raise ChoiceError(f"Column “{column}” has a comma or “=” in its name. Rename it in the table to choose it.")
    if set(given.values()) <= {"gaussian"}:
        return {}
    return {",".join(c for c in given if given[c] == family): family for family in dict.fromkeys(given.values())}


_WORDS = {
    "covariance": "tilted states", "topology": "states one after another", "per": "one model per sequence",
    "method": "Bayesian", "tau": "length of comparison {}", "mix": "{} parts per state",
    "starts": "{} attempts at models", "center_states": "{} states per centre",
    "restarts": "{} attempts at clusters", "seed": "seed {}",
}  # fmt: skip


def in_words(job: Mapping[str, Any]) -> str:
    """Return what tells a run from others of the same table.

    Examples
    --------
    >>> in_words({"model": {"states": [2, 4], "covariance": "full", "seed": 3}, "range": [2, 6]})
    '2 to 4 states, number of clusters chosen from 2 to 6, tilted states, seed 3'
    """
    model = job.get("model", {})
    low, high = states_range(model.get("states", 3))
    said = [f"{low} to {high} states" if low < high else f"{low} state{'s' * (low > 1)}"]
    if job.get("range"):
        said.append(f"number of clusters chosen from {job['range'][0]} to {job['range'][1]}")
    elif job.get("probable"):
        said.append("the most probable number of clusters")
    changed = {name: model[name] for name in _WORDS if model.get(name) not in (None, _DEFAULTS.get(name))}
    said += [_WORDS[name].format(value) for name, value in changed.items()]
    said += [f"{columns}: {family}" for columns, family in families(model.get("emissions") or {}).items()]
    return ", ".join(said if model.get("polish", True) else [*said, "not refined"])


_DEFAULTS: dict[str, Any] = {
    "covariance": "diag", "topology": "ergodic", "per": "auto", "method": "em", "mix": 1, "starts": 5, "max_iter": 100,
    "seed": 0,
}  # fmt: skip


def states_range(given: Any) -> tuple[int, int]:
    """Return the smallest and largest number of states: one number, or a pair to choose from by BIC."""
    return smallest_and_largest(given, "states", 50)


def smallest_and_largest(given: Any, things: str, most: int) -> tuple[int, int]:
    """Return a pair of numbers from 1 on, or one number twice."""
    pair = given if isinstance(given, list) else [given, given]
    if len(pair) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= most for n in pair):
        raise ChoiceError(f"The number of {things} must be between 1 and {most}.")
    if pair[0] > pair[1]:
        raise ChoiceError(f"The smallest number of {things} is larger than the largest.")
    return pair[0], pair[1]


def _number(given: Mapping[str, Any], name: str) -> int:
    value, (low, high) = given[name], _LIMITS[name]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ChoiceError(f"{name.replace('_', ' ').capitalize()} must be a whole number from {low} to {high}.")
    return value


_SINGLE = ("time", "group", "weights", "sheet", "encoding", "decimal")


def table_arguments(roles: dict[str, Any], folder: Path = Path()) -> list[str]:
    """Return roles as options of the command; `=` keeps a column called --help from being an option.

    Tables that are joined are in the same folder.
    """
    said = [f"--{name}={','.join(roles[name])}" for name in ("id", "values", "categories") if roles.get(name)]
    said += [f"--{name}={roles[name]}" for name in _SINGLE if roles.get(name) or (name == "time" and "time" in roles)]
    said += [f"--wide={name}={columns}" for name, columns in (series(roles) or {}).items()]
    said += [f"--join={folder / name}" for name in roles.get("join", [])]
    return [*said, "--one-sequence"] if roles.get("one_sequence") else said


def cluster_command(table: Path, roles: dict[str, Any], model: Model, out: Path) -> list[str]:
    """Return the arguments of `vhem` that make a run."""
    options = [*table_arguments(roles, table.parent), "--clusters", str(model.clusters), *model.arguments()]
    return ["cluster", str(table), *options, "-o", str(out)]


def number_command(table: Path, roles: dict[str, Any], model: Model, low: int, high: int) -> list[str]:
    """Return the arguments of `vhem` that compare numbers of clusters."""
    options = [word for word in model.arguments() if word != "--no-polish"]
    reading = table_arguments(roles, table.parent)
    return ["number", str(table), *reading, "--clusters", f"{low}-{high}", *options, "--json"]


def statistics_command(out: Path) -> list[str]:
    """Return the arguments of `vhem` that test the clusters of a run."""
    return [COMPARE, str(out), "--bootstrap", str(DRAWS)]


def report_command(out: Path, look: dict[str, Any], picture: Path | None, title: str) -> list[str]:
    """Return the arguments of `vhem` that write a run's report; `look` is what was chosen about its appearance."""
    said = ["report", str(out), f"--title={title}"]
    if picture is not None:
        said += [f"--image={picture}"]
    for name in ("extent", "crop"):
        if look.get(name):
            said.append(f"--{name}={','.join(f'{edge:g}' for edge in look[name])}")
    for name, option in (("names", "--cluster-name"), ("colors", "--color")):
        said += [f"{option}={value}" for value in look.get(name, [])]
    if look.get("names") == []:
        said.append("--cluster-name=")  # names that were given before are removed
    return said
