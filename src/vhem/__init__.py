"""Cluster hidden Markov models by the distributions they represent, and sequences through them."""

from vhem import plotting, report
from vhem.files import ModelFileError, from_emhmm, from_hmmlearn, load, write_labels
from vhem.learning.baum_welch import FitReport, fit_hmms
from vhem.learning.dtm import DynamicTextureMixture
from vhem.learning.em_h3m import MixtureOfHMMs
from vhem.learning.expectation import divergence, expected_log_likelihood
from vhem.learning.gaussian_mixture import HEMGaussianMixture
from vhem.learning.hem_dtm import HEMDynamicTextures
from vhem.learning.hierarchy import HierarchicalVHEM
from vhem.learning.ppk import PPKClustering, ppk
from vhem.learning.sampled_hem import SampledHEM
from vhem.learning.selection import choose_n_clusters
from vhem.learning.transformer import HMMTransformer
from vhem.learning.vhem import VHEM
from vhem.learning.wasserstein import aggregated_wasserstein
from vhem.models import GMM, H3M, HMM, LinearDynamicalSystem, MixtureOfLDS
from vhem.scale import Part, PartError, PartitionedH3M, read_parts, split_sequences
from vhem.sequences import Sequences, read_sequences
from vhem.show_versions import show_versions
from vhem.supervised import H3MClassifier, H3MTagger

__version__ = "0.1.0"

__all__ = [
    "GMM",
    "H3M",
    "HMM",
    "VHEM",
    "DynamicTextureMixture",
    "FitReport",
    "H3MClassifier",
    "H3MTagger",
    "HEMDynamicTextures",
    "HEMGaussianMixture",
    "HMMTransformer",
    "HierarchicalVHEM",
    "LinearDynamicalSystem",
    "MixtureOfHMMs",
    "MixtureOfLDS",
    "ModelFileError",
    "PPKClustering",
    "Part",
    "PartError",
    "PartitionedH3M",
    "SampledHEM",
    "Sequences",
    "aggregated_wasserstein",
    "choose_n_clusters",
    "divergence",
    "expected_log_likelihood",
    "fit_hmms",
    "from_emhmm",
    "from_hmmlearn",
    "load",
    "plotting",
    "ppk",
    "read_parts",
    "read_sequences",
    "report",
    "show_versions",
    "split_sequences",
    "write_labels",
]
