"""What a state emits: the protocol, and one file per family of distributions."""

from vhem.emissions.categorical import Categorical
from vhem.emissions.components import Components, Sums
from vhem.emissions.families import FAMILIES
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.poisson import Poisson

__all__ = ["FAMILIES", "Categorical", "Components", "Gaussian", "Poisson", "Sums"]
