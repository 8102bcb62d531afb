"""How many clusters there are, by VBHEM: `--clusters auto` and `--levels auto`."""

from __future__ import annotations

import numpy as np

from vhem.cli.naming import Doing
from vhem.cli.session import Session
from vhem.cli.shared import RunOptions
from vhem.estimators.vbhem import VBHEM
from vhem.models import H3M


def most_probable(hmms: H3M, center_states: int | None, run: RunOptions, session: Session) -> VBHEM:
    """Return VBHEM fitted with every number of clusters up to eight."""
    session.begin(f"counting the clusters of {len(hmms)} HMMs", Doing.CLUSTERING)
    states = center_states or int(np.ceil(np.median(hmms.n_states)))
    return VBHEM(n_states=states, random_state=run.seed, n_jobs=run.jobs).fit(hmms)


def probabilities_of(fit: VBHEM) -> dict[str, float]:
    """Return the probability of each number of clusters."""
    pairs = zip(fit.cluster_counts_, fit.cluster_probabilities_, strict=True)
    return {str(int(number)): float(probability) for number, probability in pairs}


def probabilities_text(fit: VBHEM | None) -> str:
    """Say which numbers of clusters are probable."""
    if fit is None:
        return ""
    shown = {number: p for number, p in probabilities_of(fit).items() if p >= 0.005}
    words = ", ".join(f"{number} ({p:.2f})" for number, p in shown.items())
    return f"Probable numbers of clusters, by VBHEM: {words}.\n"


def halved(number: int) -> tuple[int, ...]:
    """Return the levels of a tree from its lowest one.

    Examples
    --------
    >>> halved(7)
    (7, 4, 2)
    >>> halved(1)
    (1,)
    """
    levels = [number]
    while levels[-1] > 2:
        levels.append(-(-levels[-1] // 2))
    return tuple(levels)
