"""Hidden Markov models and mixtures of them: immutable parameters; likelihood, decoding, sampling."""

from vhem.models.gmm import GMM
from vhem.models.h3m import H3M
from vhem.models.hmm import HMM
from vhem.models.lds import LinearDynamicalSystem, MixtureOfLDS

__all__ = ["GMM", "H3M", "HMM", "LinearDynamicalSystem", "MixtureOfLDS"]
