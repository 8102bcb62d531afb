"""Words of warnings that several algorithms share."""

from __future__ import annotations

_PLURALS = {"has": "have", "was": "were", "is": "are", "keeps": "keep", "its": "their"}

AT_FLOOR = ("Gaussian", "has variances at their floor (reg_covar): the values hardly vary")
LOWERED = ("iteration", "lowered the likelihood beyond rounding: values are too extreme, rescale them")


def counted(n: int, thing: str, what: str) -> str:
    """Return a count with what is said of it, in the right number.

    Examples
    --------
    >>> counted(1, "state", "was started again"), counted(3, "state", "was started again")
    ('1 state was started again', '3 states were started again')
    """
    if n == 1:
        return f"1 {thing} {what}"
    return f"{n} {thing}s {' '.join(_PLURALS.get(word, word) for word in what.split(' '))}"
