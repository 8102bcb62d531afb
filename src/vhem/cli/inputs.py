"""What a command is given: sequences, or HMMs that were learned before."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError, InputTypeError
from vhem._support.paths import existing_file
from vhem.cli.run_folder import RUN, RunFolder
from vhem.cli.shared import LONGEST_TAU
from vhem.em.topology import topology_of
from vhem.files import describe, from_emhmm, from_json, from_npz, load
from vhem.models import H3M, HMM
from vhem.sequences import Sequences
from vhem.sequences.readers.doubts import warn_of_doubts
from vhem.sequences.readers.options import Options
from vhem.sequences.readers.read import read_with_roles
from vhem.sequences.readers.roles import Roles, likely_group

_TAU_OF_MODELS = 10


class Input(NamedTuple):
    """What was read."""

    content: Any  #: Sequences, an H3M, or another model
    feature_names: list[str] | None
    roles: Roles | None  #: of a table's columns
    about: dict[str, Any]  #: what a model's file says about how it was made

    @property
    def typical_length(self) -> int | None:
        """The median length of the sequences, or of those that the models were learned from, if known."""
        if isinstance(self.content, Sequences):
            return max(1, round(float(np.median(self.content.lengths))))
        known = self.about.get("typical_length")
        return known if isinstance(known, int) and known > 0 else None


def is_model(path: Path) -> bool:
    """Whether a path leads to a model rather than to sequences."""
    if path.is_dir():
        return (path / RUN).is_file()
    if path.suffix == ".npz" and zipfile.is_zipfile(path):
        with np.load(path, allow_pickle=False) as file:
            return "startprob" in file.files
    return path.suffix in (".vhem", ".mat", ".json")


def read_model(path: Path, centers: bool = False) -> Input:
    """Read a model file of any kind, or the HMMs or centres of a run."""
    if path.is_dir():
        run = RunFolder(path)
        return Input(run.centers if centers else run.hmms, run.feature_names, None, run.about)
    if path.suffix == ".mat":
        return Input(from_emhmm(path), None, None, {})
    read: Any = {".json": from_json, ".npz": from_npz}.get(path.suffix, load)
    said = describe(path)
    return Input(read(path), said.feature_names, None, said.about)


def read_sequences_or_hmms(path: Path, options: Options) -> Input:
    """Read what can be clustered: sequences, or an H3M."""
    if not path.is_dir() and not any(c in str(path) for c in "*?["):
        existing_file(path)
    if not is_model(path):
        reading = read_with_roles(path, options)
        warn_of_doubts(reading)
        return Input(reading.sequences, reading.roles.values, reading.roles, {})
    found = read_model(path)
    if isinstance(found.content, HMM):
        found = found._replace(content=H3M([found.content]))
    if not isinstance(found.content, (H3M, Sequences)):
        raise InputTypeError(
            "{path} holds a {kind}; HMMs (an H3M) or sequences are needed",
            path=path, kind=type(found.content).__name__,
        )  # fmt: skip
    return found


def chosen_tau(given: int | None, found: Input, hmms: H3M) -> tuple[int, str]:
    """Return the length of the virtual sequences, about that of the real ones unless given, and where it comes from.

    Long sequences of ergodic HMMs repeat themselves, so a part will do; a course must be seen to its end.
    """
    if given is not None:
        return given, ""
    if found.typical_length is None:
        return _TAU_OF_MODELS, "; the length of the original sequences is unknown: set --tau to about that"
    behind = "" if isinstance(found.content, Sequences) else " behind the HMMs"
    if found.typical_length > LONGEST_TAU and topology_of(hmms.startprob, hmms.transmat) == "ergodic":
        return LONGEST_TAU, f", the most that is taken by default; the sequences{behind} are longer"
    return found.typical_length, f", the median length of the sequences{behind}"


def check_columns(found: Input) -> None:
    """Refuse value columns that are entirely empty: nothing can be learned about them."""
    X: FloatArray = found.content.X
    names = found.feature_names or [f"x{j + 1}" for j in range(X.shape[1])]
    suspects = np.flatnonzero(np.isnan(X[0]))
    empty = [names[j] for j in suspects if np.isnan(X[:, j]).all()]
    if empty:
        rest = ",".join(name for name in names if name not in empty)
        cure = f"leave it out: --values {rest}" if rest else "fill it, or name other columns with --values"
        raise InputError(
            "column {names} has no value in any row", "{cure}",
            names=", ".join(map(repr, empty)), cure=cure,
        )  # fmt: skip


def ungrouped(found: Input) -> str | None:
    """Return the column that would have been taken as the group if the id had been guessed instead of given."""
    if found.roles is None or found.roles.group is not None:
        return None
    return likely_group(found.roles.id)


def read_sequences_only(path: Path, options: Options) -> Input:
    """Read sequences, and refuse models."""
    found = read_sequences_or_hmms(path, options)
    if not isinstance(found.content, Sequences):
        raise InputTypeError("{path} holds HMMs", "sequences are needed here", path=path)
    return found
