"""Cluster hidden Markov models by the distributions they represent, and sequences through them."""

from vhem.learning.baum_welch import FitReport, fit_hmms
from vhem.learning.em_h3m import MixtureOfHMMs
from vhem.learning.expectation import divergence, expected_log_likelihood
from vhem.learning.transformer import HMMTransformer
from vhem.learning.vhem import VHEM
from vhem.models import H3M, HMM
from vhem.sequences import Sequences
from vhem.show_versions import show_versions

__version__ = "0.1.0"

__all__ = [
    "H3M",
    "HMM",
    "VHEM",
    "FitReport",
    "HMMTransformer",
    "MixtureOfHMMs",
    "Sequences",
    "divergence",
    "expected_log_likelihood",
    "fit_hmms",
    "show_versions",
]
