"""What a state emits: the protocol, and one file per family of distributions."""

from vhem.emissions.bernoulli import Bernoulli
from vhem.emissions.beta import Beta
from vhem.emissions.categorical import Categorical
from vhem.emissions.components import Components, Number, Sums
from vhem.emissions.exponential import Exponential
from vhem.emissions.families import CHOICES, FAMILIES
from vhem.emissions.gamma import Gamma
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.negative_binomial import NegativeBinomial
from vhem.emissions.poisson import Poisson
from vhem.emissions.product import Product
from vhem.emissions.von_mises import VonMises, VonMisesDegrees

__all__ = [
    "CHOICES",
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Components",
    "Exponential",
    "Gamma",
    "Gaussian",
    "NegativeBinomial",
    "Number",
    "Poisson",
    "Product",
    "Sums",
    "VonMises",
    "VonMisesDegrees",
]
