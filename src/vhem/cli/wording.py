"""The library's messages in the words of the command: its parameters are options there."""

from __future__ import annotations

import re

#: What is being done decides which option a parameter belongs to.
LEARNING = {"n_init": "--starts", "n_states": "--states"}
CLUSTERING = {"n_init": "--restarts", "n_states": "--center-states"}

_OPTIONS = {
    "n_clusters": "--clusters",
    "n_components": "--clusters",
    "n_mix": "--mix",
    "n_virtual": "--virtual",
    "covariance_type": "--covariance",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "max_iter": "--max-iter",
    "rows_per_part": "--rows-per-part",
    "time_limit": "--time-limit",
}
_PHRASES = (  # words that mean an option only here, and advice that the command has no option for
    (r"on_error='skip'", "--skip-broken"),
    (r"an empty list \(--one-sequence on the command line\)", "--one-sequence"),
    (r"\b([Gg]ive|in|as) id\b", r"\1 --id"),
    (r"\b([Gg]ive|and) values\b", r"\1 --values"),
    (r"^(topology|decimal|tau|levels|values)(:| must| names)", r"--\1\2"),
    (r"Input should be a valid (\w+)(, unable to parse.*)?$", r"this is no \1"),
    (r"^candidates: the largest is", "the largest of --clusters is"),
    (r"choose another time\b", "choose another column by --time"),
    (r"\bsay decimal=','", "give --decimal ,"),
    (r"\bGive its encoding\b", "Give its --encoding"),
    (r"max_iter=(\d+)", r"\1"),
    (r" to tol=[-.e\d]+|(?<=raise max_iter) or tol", ""),
    (r" \(reg_covar\)| or (raise|set) reg_covar", ""),
)


def in_options(message: str, doing: dict[str, str]) -> str:
    """Return a message of the library as users of the command read it; `doing` is `LEARNING` or `CLUSTERING`.

    Examples
    --------
    >>> in_options("2 of 5 clusters are empty: ask for fewer clusters, or raise n_init.", CLUSTERING)
    '2 of 5 clusters are empty: ask for fewer clusters, or raise --restarts.'
    """
    for pattern, words in _PHRASES:
        message = re.sub(pattern, words, message)
    names = {**_OPTIONS, **doing}
    return re.sub(rf"\b({'|'.join(names)})\b=?", lambda found: _option(found[0], names), message)


def _option(word: str, names: dict[str, str]) -> str:
    return names[word.rstrip("=")] + " " * word.endswith("=")
