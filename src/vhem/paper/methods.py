"""The Methods paragraph: what was done, with which settings, versions and seeds."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from vhem._support.version import VERSION

_SETTINGS = ("n_clusters", "n_states", "n_mix", "covariance_type", "topology")


def methods_paragraph(settings: dict[str, Any], facts: dict[str, Any], tests: dict[str, Any]) -> str:
    """Return a paragraph on how sequences were clustered and the clusters tested.

    Parameters
    ----------
    settings : dict
        Parameters of the clustering: n_clusters, n_states, covariance_type, topology, random_state, …
    facts : dict
        What was clustered: people, sequences, observations, dimensions.
    tests : dict
        n_folds, n_bootstrap and seed of the tests.

    Returns
    -------
    str
        The paragraph.

    Examples
    --------
    >>> from vhem.paper import methods_paragraph
    >>> text = methods_paragraph({"n_clusters": 2, "n_states": 3, "covariance_type": "diag", "random_state": 0},
    ...                          {"people": 10, "sequences": 399, "observations": 1010, "dimensions": ["x", "y"]},
    ...                          {"n_folds": 5, "n_bootstrap": 99, "seed": 0})
    >>> text[:90]
    'We described the sequences of 10 people (399 sequences, 1,010 observations of x, y) by hid'
    """
    form = "full covariance matrices" if settings.get("covariance_type") == "full" else "diagonal covariances"
    chain = "" if settings.get("topology", "ergodic") == "ergodic" else f", topology {settings['topology']}"
    return (
        f"We described the sequences of {facts['people']} people ({facts['sequences']:,} sequences, "
        f"{facts['observations']:,} observations of {', '.join(facts['dimensions'])}) by hidden Markov models with "
        f"Gaussian emissions ({settings['n_states']} states per model, {form}{chain}), and clustered people into "
        f"{settings['n_clusters']} clusters, each represented by a hidden Markov model (vhem {VERSION}; variational "
        f"hierarchical EM, Coviello, Chan & Lanckriet, 2014, refined on the sequences; random seed "
        f"{settings.get('random_state', 'not set')}). Since centres fit the people that they were learned from better "
        "than others, whether or not there are clusters, clusters were compared by cross-fitting: in each of "
        f"{tests['n_folds']} folds, people were assigned by one half of their data to clusters learned without "
        "them, and log-likelihoods per observation were compared on the other half (permutation test). Whether there "
        "are clusters rather than a continuum was tested by a parametric bootstrap: up to "
        f"{tests['n_bootstrap']} data sets of the same size were drawn from a single cluster of people whose means, "
        "variances and transitions vary as in the data, and the whole clustering was run on each (seed "
        f"{tests['seed']}). Intervals are 95 % intervals of a bootstrap of people; p-values of several comparisons "
        f"were corrected by Holm's method. {_versions()}"
    )


def _versions() -> str:
    found = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"Software: Python {platform.python_version()}, {found}."
