"""Cluster hidden Markov models by the distributions they represent, and sequences by way of them."""

from vhem import bayes, inference, plotting, report
from vhem._support.errors import (
    BoundError,
    CellError,
    FitWarning,
    InputError,
    InputTypeError,
    NotConvergedWarning,
    ParameterError,
)
from vhem._support.version import VERSION
from vhem.emissions import (
    Bernoulli,
    Beta,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    Product,
    VonMises,
    VonMisesDegrees,
)
from vhem.estimators.diagnosis import Diagnosis, diagnose
from vhem.estimators.divergence import divergence, expected_log_likelihood
from vhem.estimators.dtm import DynamicTextureMixture
from vhem.estimators.fit_hmms import FitReport, fit_hmms
from vhem.estimators.hem_dtm import HEMDynamicTextures
from vhem.estimators.hem_gmm import HEMGaussianMixture
from vhem.estimators.hierarchy import HierarchicalVHEM
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.estimators.ppk import PPKClustering, ppk
from vhem.estimators.sampled import SampledHEM
from vhem.estimators.selection import choose_n_clusters
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.transformer import HMMTransformer
from vhem.estimators.vbhem import VBHEM
from vhem.estimators.vhem import VHEM
from vhem.estimators.wasserstein import aggregated_wasserstein
from vhem.files import ModelFileError, from_emhmm, from_hmmlearn, load, save, write_labels
from vhem.models import GMM, H3M, HMM, LinearDynamicalSystem, MixtureOfLDS
from vhem.scale import Part, PartError, PartitionedH3M, read_parts, split_sequences
from vhem.sequences import Sequences, read_sequences
from vhem.show_versions import show_versions
from vhem.supervised import H3MClassifier, H3MTagger

__version__ = VERSION

__all__ = [
    "GMM",
    "H3M",
    "HMM",
    "VBHEM",
    "VHEM",
    "Bernoulli",
    "Beta",
    "BoundError",
    "Categorical",
    "CellError",
    "Diagnosis",
    "DynamicTextureMixture",
    "Exponential",
    "FitReport",
    "FitWarning",
    "Gamma",
    "Gaussian",
    "H3MClassifier",
    "H3MTagger",
    "HEMDynamicTextures",
    "HEMGaussianMixture",
    "HMMTransformer",
    "HierarchicalVHEM",
    "InputError",
    "InputTypeError",
    "LinearDynamicalSystem",
    "MixtureOfHMMs",
    "MixtureOfLDS",
    "ModelFileError",
    "NegativeBinomial",
    "NotConvergedWarning",
    "PPKClustering",
    "ParameterError",
    "Part",
    "PartError",
    "PartitionedH3M",
    "Poisson",
    "Product",
    "SampledHEM",
    "SequenceClustering",
    "Sequences",
    "VonMises",
    "VonMisesDegrees",
    "aggregated_wasserstein",
    "bayes",
    "choose_n_clusters",
    "diagnose",
    "divergence",
    "expected_log_likelihood",
    "fit_hmms",
    "from_emhmm",
    "from_hmmlearn",
    "inference",
    "load",
    "plotting",
    "ppk",
    "read_parts",
    "read_sequences",
    "report",
    "save",
    "show_versions",
    "split_sequences",
    "write_labels",
]
