"""All families by name, and components made of the arrays of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.emissions.categorical import Categorical
from vhem.emissions.components import Components
from vhem.emissions.gaussian import Gaussian
from vhem.emissions.poisson import Poisson

#: Families by the name that files, messages and engines use.
FAMILIES: dict[str, type[Components]] = {family.family: family for family in (Gaussian, Categorical, Poisson)}


def of_layout(layout: Any, arrays: Mapping[str, FloatArray]) -> Components:
    """Return components of the family that `layout` names, made of its arrays; they are not checked."""
    family = FAMILIES.get(layout) if isinstance(layout, str) else None
    if family is None:
        raise InputError("there is no family of emissions {layout!r}", layout=layout)
    if set(arrays) != set(family.fields):
        problem = "{layout} emissions have the arrays {wanted}, not {found}"
        raise InputError(problem, layout=layout, wanted=", ".join(family.fields), found=", ".join(arrays))
    return family.of(*(arrays[name] for name in family.fields))
