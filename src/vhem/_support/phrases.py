"""Numbers with the words that agree with them."""

from __future__ import annotations

AT_FLOOR = "{n:component} {n:has|have} variances, or other parameters, at their floor: the values hardly vary"
REINITIALISED = "{n:state} became empty and {n:was|were} re-initialised from random frames"
STILL = "leave out {still}, constant in some of the data"
LOWERED = "{n:iteration} lowered the likelihood beyond rounding: values are too extreme, rescale them"


class Count(int):
    """A count; its format gives the noun or verb that goes with it.

    Examples
    --------
    >>> "{n:state} {n:was|were} re-initialised".format(n=Count(1))
    '1 state was re-initialised'
    >>> "{n:state} {n:was|were} re-initialised".format(n=Count(3000))
    '3,000 states were re-initialised'
    """

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        if many:
            return one if self == 1 else many
        number = int.__format__(self, ",")
        return f"{number} {one}{'' if self == 1 else 's'}" if one else number


def in_letters(n: int) -> str:
    """Return a number as a sentence begins with it.

    Examples
    --------
    >>> in_letters(2), in_letters(12)
    ('two', '12')
    """
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[n] if n < len(words) else f"{n:,}"


def capitalized(text: str) -> str:
    """Return text that begins with a capital letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]
