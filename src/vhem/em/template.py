"""From what users say about emissions to one component of the family, which estimators make others like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vhem._support.checks import check_choice
from vhem._support.errors import InputError, ParameterError
from vhem.em.family_hints import hint
from vhem.emissions import CHOICES, Categorical, Components, Product
from vhem.models import H3M, HMM
from vhem.sequences import Sequences


def template(emissions: Any, sequences: Sequences, covariance_type: str, init: Any = None) -> Components:
    """Return one component without leading axes, of the family that the frames are to be modelled by.

    Parameters
    ----------
    emissions : str or dict
        The name of a family for all columns, or names by columns: {"x,y": "gaussian", "key": "categorical"}. Columns
        are given by their names or positions, several of one family separated by commas. "categorical:12" has 12
        categories even if not all of them occur. Channels of named categories are always categorical.
    sequences : Sequences
        The frames.
    covariance_type : {"diag", "full"}
        Form of the covariances of Gaussians.
    init : H3M, HMM or anything else
        A model to start from, whose family replaces `emissions`.
    """
    if isinstance(init, (H3M, HMM)):
        return init.emissions.padding()
    if emissions == "gaussian":
        hint(sequences, _numbers(sequences))
        emissions = _by_channels(sequences) if sequences.categories else emissions  # Gaussians are for numbers
    if not isinstance(emissions, Mapping):
        return _of_columns(emissions, list(range(sequences.n_dims)), sequences, covariance_type)
    groups = {key: _columns(key, sequences) for key in emissions}
    named = {j for columns in groups.values() for j in columns}
    unnamed = [j for j, name in enumerate(sequences.channels) if name in sequences.categories and j not in named]
    if unnamed:  # there is only one family for them
        emissions, groups = {**emissions, tuple(unnamed): "categorical"}, {**groups, tuple(unnamed): unnamed}
    _check_all_once(groups, sequences)
    parts = [_of_columns(emissions[key], columns, sequences, covariance_type) for key, columns in groups.items()]
    return Product(parts, list(groups.values()))


def _by_channels(sequences: Sequences) -> str | dict[Any, str]:
    """Return categories for the channels that have them, and Gaussians for the others."""
    numbers = tuple(_numbers(sequences))
    others = tuple(j for j in range(sequences.n_dims) if j not in numbers)
    return {numbers: "gaussian", others: "categorical"} if numbers else "categorical"


def _numbers(sequences: Sequences) -> list[int]:
    """Return the columns that do not hold categories."""
    return [j for j, name in enumerate(sequences.channels) if name not in sequences.categories]


def _of_columns(family: Any, columns: list[int], sequences: Sequences, covariance_type: str) -> Components:
    split = isinstance(family, str) and family not in CHOICES
    name, _, number = family.partition(":") if split else (family, "", "")
    kind = CHOICES[check_choice("emissions", name, tuple(CHOICES))]
    if number and not (kind is Categorical and number.isdigit() and int(number) > 0):
        raise ParameterError("emissions", family, "must be a family, or 'categorical:12' for 12 categories")
    _check_numbers(name, columns, sequences)
    named = [sequences.categories.get(sequences.channels[j]) for j in columns]
    sizes = [int(number) if number else None if names is None else len(names) for names in named]
    return kind.template(sequences.X[:, columns], sizes, covariance_type)


def _check_numbers(family: str, columns: list[int], sequences: Sequences) -> None:
    """Refuse categories where numbers were promised."""
    for j in columns:
        channel = sequences.channels[j]
        if channel in sequences.categories and family != "categorical":
            first = int(np.argmin(np.isnan(sequences.X[:, j])))
            raise InputError(
                "{said}, a category, but {emissions} says {family!r}, which is for numbers",
                "model it as 'categorical'", "leave it out", said=sequences._said(first, j), family=family,
            )  # fmt: skip


def _columns(key: Any, sequences: Sequences) -> list[int]:
    """Return the positions of the columns that a key names: "x,y", 2 or (0, 1)."""
    names = key.split(",") if isinstance(key, str) and key not in sequences.channels else key
    return [_column(name, sequences) for name in (names if isinstance(names, (list, tuple)) else [names])]


def _column(name: Any, sequences: Sequences) -> int:
    word = name.strip() if isinstance(name, str) else name
    if word in sequences.channels:
        return sequences.channels.index(word)
    if (isinstance(word, int) or str(word).isdigit()) and 0 <= int(word) < sequences.n_dims:
        return int(word)
    raise ParameterError(
        "emissions", name, "names the column {value!r}, but the sequences have {known}",
        "if it holds text, give it as {categories} too", known=", ".join(sequences.channels),
    )  # fmt: skip


def _check_all_once(groups: Mapping[Any, list[int]], sequences: Sequences) -> None:
    found = [j for columns in groups.values() for j in columns]
    for j, channel in enumerate(sequences.channels):
        if found.count(j) != 1:
            how_many = "no family" if j not in found else "more than one family"
            problem = "{emissions} gives column {channel!r} {how_many}"
            cures = ("name every column once", "leave columns out of the data")
            raise InputError(problem, *cures, channel=channel, how_many=how_many)
