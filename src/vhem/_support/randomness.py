"""Every `random_state` becomes a NumPy Generator here, so the same seed gives the same result."""

from __future__ import annotations

import numpy as np

from vhem._support.errors import ParameterError

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


def generator(random_state: RandomState = None) -> np.random.Generator:
    """Return a NumPy Generator made from `random_state`.

    Parameters
    ----------
    random_state : None, int, Generator or RandomState
        None takes fresh entropy, an integer is a seed, a Generator is returned unchanged, and a RandomState is advanced
        by one draw, which seeds the Generator.

    Returns
    -------
    numpy.random.Generator
        The source of randomness.

    Examples
    --------
    >>> float(generator(0).random()) == float(generator(0).random())
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    is_seed = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if isinstance(random_state, np.random.Generator) or random_state is None or (is_seed and random_state >= 0):
        return np.random.default_rng(random_state)
    problem = "must be None, a non-negative integer, a numpy Generator or a RandomState"
    raise ParameterError("random_state", random_state, problem)
