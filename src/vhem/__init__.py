"""Cluster hidden Markov models by the distributions they represent."""

from vhem.models import H3M, HMM
from vhem.sequences import Sequences

__all__ = ["H3M", "HMM", "Sequences"]
__version__ = "0.1.0"
