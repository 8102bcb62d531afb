"""From what users say about emissions to one component of the family, which estimators make others like."""

from __future__ import annotations

from typing import Any

from vhem._support.checks import check_choice
from vhem._support.errors import InputError
from vhem.emissions import FAMILIES, Components
from vhem.models import H3M, HMM
from vhem.sequences import Sequences


def template(emissions: Any, sequences: Sequences, covariance_type: str, init: Any = None) -> Components:
    """Return one component without leading axes, of the family that the frames are to be modelled by.

    Parameters
    ----------
    emissions : str
        The name of a family.
    sequences : Sequences
        The frames.
    covariance_type : {"diag", "full"}
        Form of the covariances of Gaussians.
    init : H3M, HMM or anything else
        A model to start from, whose family replaces `emissions`.
    """
    if isinstance(init, (H3M, HMM)):
        return init.emissions.padding()
    names = sequences._named.categories
    if emissions == "gaussian" and sequences.categories:  # Gaussians are for numbers
        emissions = _of_categories(sequences)
    family = FAMILIES[check_choice("emissions", emissions, tuple(FAMILIES))]
    sizes = [None if own is None else len(own) for own in names]
    return family.template(sequences.X, sizes, covariance_type)


def _of_categories(sequences: Sequences) -> str:
    """Return the family of sequences with categories, if it is the same for all channels."""
    numbers = [name for name in sequences.channels if name not in sequences.categories]
    if numbers:
        raise InputError(
            "channels {numbers} hold numbers, and {names} hold categories", "leave out one kind of channel",
            numbers=", ".join(numbers), names=", ".join(sequences.categories),
        )  # fmt: skip
    return "categorical"
