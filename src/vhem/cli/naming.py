"""The library's parameters as options of the command."""

from __future__ import annotations

import enum

from vhem._support.errors import Explained, Naming


class Doing(enum.Enum):
    """What is being done; it decides which option a parameter belongs to."""

    LEARNING = enum.auto()
    LEARNING_CHOSEN_STATES = enum.auto()  # nobody asked for their number
    CLUSTERING = enum.auto()


_OF = {
    Doing.LEARNING: {"n_init": "--starts", "n_states": "--states"},
    Doing.LEARNING_CHOSEN_STATES: {"n_init": "--starts", "n_states": "the chosen number of states"},
    Doing.CLUSTERING: {"n_init": "--restarts", "n_states": "--center-states"},
}
_ALWAYS = {
    "n_clusters": "--clusters",
    "n_components": "--clusters",
    "candidates": "--clusters",
    "n_mix": "--mix",
    "n_virtual": "--virtual",
    "covariance_type": "--covariance",
    "emissions": "--emissions",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "max_iter": "--max-iter",
    "rows_per_part": "--rows-per-part",
    "time_limit": "--time-limit",
    "topology": "--topology",
    "method": "--method",
    "tau": "--tau",
    "levels": "--levels",
    "criterion": "--criterion",
    "id": "--id",
    "time": "--time",
    "values": "--values",
    "group": "--group",
    "decimal": "--decimal",
    "encoding": "--encoding",
    "sheet": "--sheet",
    "categories": "--categories",
    "other": "--other",
    "weights": "--weights",
    "wide": "--wide",
    "executor": "--dask",
    "image": "--image",
    "extent": "--extent",
    "crop": "--crop",
    "colors": "--color",
    "cluster_names": "--cluster-name",
}
_SWITCHES = {("on_error", "'skip'"): "--skip-broken", ("id", "[]"): "--one-sequence", ("time", "''"): '--time ""'}


def options_of(doing: Doing) -> Naming:
    """Return what each parameter is called during a task; None for parameters without an option.

    Examples
    --------
    >>> options_of(Doing.LEARNING)("n_init", None), options_of(Doing.CLUSTERING)("n_init", "9")
    ('--starts', '--restarts 9')
    >>> options_of(Doing.LEARNING)("on_error", "'skip'"), options_of(Doing.LEARNING)("tol", None)
    ('--skip-broken', None)
    """
    options = _ALWAYS | _OF[doing]

    def naming(name: str, value: str | None) -> str | None:
        if value is not None and (name, value) in _SWITCHES:
            return _SWITCHES[name, value]
        option = options.get(name)
        return option if option is None or value is None else f"{option} {value.strip(chr(39))}"

    return naming


def told(message: BaseException | str, doing: Doing) -> str:
    """Return an error or a warning in one line, as users of the command read it."""
    text = message.told(options_of(doing)) if isinstance(message, Explained) else str(message)
    return " ".join(text.split()) or type(message).__name__
