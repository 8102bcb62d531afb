"""From what users say about emissions to one component of the family, which estimators make others like."""

from __future__ import annotations

from typing import Any

from vhem._support.checks import check_choice
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
    family = FAMILIES[check_choice("emissions", emissions, tuple(FAMILIES))]
    return family.template(sequences.X, [None] * sequences.n_dims, covariance_type)
