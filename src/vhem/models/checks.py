"""The check of arguments that are HMMs."""

from __future__ import annotations

from typing import Any

from vhem._support.errors import InputTypeError
from vhem.models.h3m import H3M
from vhem.models.hmm import HMM


def check_h3m(name: str, value: Any) -> H3M:
    """Return `value` as an H3M: an H3M itself, one HMM, or a list of HMMs."""
    if isinstance(value, H3M):
        return value
    if isinstance(value, HMM):
        return H3M([value])
    if isinstance(value, (list, tuple)) and value and all(isinstance(hmm, HMM) for hmm in value):
        return H3M(list(value))
    raise InputTypeError("{name} must be an H3M, an HMM or a list of HMMs, got {got}", name=name, got=_described(value))


def _described(value: Any) -> str:
    if not isinstance(value, (list, tuple)):
        kind = type(value).__name__
    elif not value:
        return f"an empty {type(value).__name__}"
    else:
        value = next(item for item in value if not isinstance(item, HMM))
        kind = f"a {type(value).__name__} in a list"
    if hasattr(value, "transmat_"):
        return f"{kind}: convert it with vhem.from_hmmlearn"
    return f"{kind}: learn HMMs from sequences with vhem.fit_hmms first; to label sequences, use `centers_.predict`"
