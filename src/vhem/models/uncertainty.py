"""How sure a posterior is of the parameters of HMMs, in words."""

from __future__ import annotations

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.models.h3m import H3M

_SHOWN = 6  # numbers of a state's emissions
_MOST = 20  # HMMs


def uncertainty_lines(h3m: H3M) -> list[str]:
    """Return a line per state: emissions with their standard deviations, and transitions with their 95 % intervals.

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.fit_hmms([[0.1, 1.0, 0.5, 0.2] * 9], 1, method="vb", random_state=0)
    >>> print(uncertainty_lines(hmm)[0])
    HMM 1, state 1: means 0.45 ± 0.0577, covars 0.1202 ± 0.0287
    """
    if h3m.posterior is None:
        return []
    wide, (low, high) = h3m.posterior.deviations(), h3m.posterior.transition_intervals()
    lines = []
    for k in range(min(len(h3m), _MOST)):
        for s in range(int(h3m.n_states[k])):
            parts = [
                f"{name} {_with_deviations(array[k, s, 0], wide[name][k, s])}"
                for name, array in h3m.emissions.arrays().items()
            ]
            if h3m.n_states[k] > 1:
                own = zip(h3m.transmat[k, s], low[k, s], high[k, s], range(int(h3m.n_states[k])), strict=False)
                ways = ", ".join(f"{t + 1}: {p:.2f} ({a:.2f} to {b:.2f})" for p, a, b, t in own)
                parts.append(f"then state {ways}")
            lines.append(f"HMM {k + 1}, state {s + 1}: {', '.join(parts)}")
    return lines


def _with_deviations(values: FloatArray, wide: FloatArray) -> str:
    if values.ndim > wide.ndim:
        values = np.diagonal(values, axis1=-2, axis2=-1)
    pairs = list(zip(values.ravel(), wide.ravel(), strict=True))
    more = " …" if len(pairs) > _SHOWN else ""
    return ", ".join(f"{x:.4g} ± {sd:.3g}" for x, sd in pairs[:_SHOWN]) + more
