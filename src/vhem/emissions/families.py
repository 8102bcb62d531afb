"""All families by name, and components made of the arrays of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.emissions.bernoulli import Bernoulli
from vhem.emissions.beta import Beta
from vhem.emissions.categorical import Categorical
from vhem.emissions.components import Components
from vhem.emissions.exponential import Exponential
from vhem.emissions.gamma import Gamma, ZeroGamma
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.negative_binomial import NegativeBinomial
from vhem.emissions.poisson import Poisson
from vhem.emissions.product import Product
from vhem.emissions.von_mises import VonMises, VonMisesDegrees

_SINGLE = (
    Gaussian, Categorical, Bernoulli, Poisson, NegativeBinomial, Exponential, Gamma, Beta, VonMises, VonMisesDegrees,
)  # fmt: skip

#: Families by the name that files, messages and engines use.
FAMILIES: dict[str, type[Components]] = {family.family: family for family in (*_SINGLE, Product)}

#: What `emissions=` may say about a column.
CHOICES: dict[str, type[Components]] = {**{family.family: family for family in _SINGLE}, "zero-gamma": ZeroGamma}


def of_layout(layout: Any, arrays: Mapping[str, FloatArray]) -> Components:
    """Return components of the families that `layout` names, made of their arrays; these are not checked."""
    if isinstance(layout, list):
        parts = [of_layout(family, arrays_of_part(arrays, i)) for i, (family, _) in enumerate(layout)]
        return Product(parts, [columns for _, columns in layout])
    family = FAMILIES.get(layout) if isinstance(layout, str) else None
    if family is None or family is Product:
        raise InputError("there is no family of emissions {layout!r}", layout=layout)
    if set(arrays) != set(family.fields):
        problem = "{layout} emissions have the arrays {wanted}, not {found}"
        raise InputError(problem, layout=layout, wanted=", ".join(family.fields), found=", ".join(arrays))
    return family.of(*(arrays[name] for name in family.fields))


def arrays_of_part(arrays: Mapping[str, FloatArray], i: int) -> dict[str, FloatArray]:
    """Return the arrays of one part of a product under the names that it knows."""
    prefix = f"{i}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
