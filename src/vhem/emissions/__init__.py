"""What a state emits: the protocol, and one file per family of distributions."""

from vhem.emissions.components import Components, Sums
from vhem.emissions.gaussian import Gaussian

#: Families by the name that files, messages and engines use.
FAMILIES: dict[str, type[Components]] = {Gaussian.family: Gaussian}

__all__ = ["FAMILIES", "Components", "Gaussian", "Sums"]
