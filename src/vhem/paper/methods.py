"""The Methods paragraph: what was done, with which settings, versions and seeds."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from vhem._support.phrases import capitalized
from vhem._support.version import VERSION


def methods_paragraph(settings: dict[str, Any], facts: dict[str, Any], tests: Mapping[str, Any]) -> str:
    """Return a paragraph on how sequences were clustered and the clusters tested.

    Parameters
    ----------
    settings : dict
        Parameters of the clustering: n_clusters, n_states, covariance_type, topology, random_state, …
    facts : dict
        What was clustered: people, sequences, observations, dimensions; "emissions", in words, if they are not
        Gaussian; if known, how the number of clusters was "chosen", in words, "tau", and whether all "converged".
    tests : dict
        n_folds, n_bootstrap and seed of the tests, as `Comparison.tests` has them; "groups" with the numbers of
        permutations, if known groups were compared.

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
    chain = "" if settings.get("topology", "ergodic") == "ergodic" else f", topology {settings['topology']}"
    return (
        f"We described the sequences of {facts['people']} people ({facts['sequences']:,} sequences, "
        f"{facts['observations']:,} observations of {', '.join(facts['dimensions'])}) by hidden Markov models with "
        f"{_emissions(settings, facts)} ({settings['n_states']} states per model{chain}), and clustered people into "
        f"{settings['n_clusters']} clusters, each represented by a hidden Markov model (vhem {VERSION}; variational "
        f"hierarchical EM, Coviello, Chan & Lanckriet, 2014, refined on the sequences; random seed "
        f"{settings.get('random_state', 'not set')}).{_chosen(facts)} "
        f"{_crossed(tests)}{_drawn(tests)} {_groups(tests)}"
        "Intervals are 95 % intervals; those of differences between clusters are based on a bootstrap of people. "
        f"p-values of several comparisons were corrected by Holm's method. {_versions()}"
    )


def _emissions(settings: dict[str, Any], facts: dict[str, Any]) -> str:
    if facts.get("emissions"):
        return f"the following emissions: {facts['emissions']}"
    full = settings.get("covariance_type") == "full"
    return f"Gaussian emissions with {'full covariance matrices' if full else 'diagonal covariances'}"


def _crossed(tests: Mapping[str, Any]) -> str:
    return (
        "Centres fit the people that they were learned from better than other people, whether or not there are "
        "clusters. Therefore clusters were compared by cross-fitting: in each of "
        f"{tests['n_folds']} folds, people were assigned, by one half of their data, to clusters learned without "
        "them, and log-likelihoods per observation were compared on the other half "
        f"({_permutations(tests)} within folds)."
    )


def _permutations(tests: Mapping[str, Any]) -> str:
    n = tests.get("n_permutations")
    return "permutation test" if n is None else f"permutation test, {n:,} permutations"


def _chosen(facts: dict[str, Any]) -> str:
    """Say how the number of clusters was chosen, how long virtual sequences were, and what had not converged."""
    said = [facts.get("chosen", ""), f"virtual sequences had {facts['tau']} observations" if "tau" in facts else ""]
    said += ["the learning was stopped before it had converged" if facts.get("converged") is False else ""]
    told = "; ".join(part for part in said if part)
    return f" {capitalized(told)}." if told else ""


def _drawn(tests: Mapping[str, Any]) -> str:
    if "n_bootstrap" not in tests:  # stopped before
        return ""
    return (
        " Whether there are clusters rather than a continuum was tested by a parametric bootstrap: "
        f"{tests['n_bootstrap']} data sets of the same size were drawn from a single cluster of people whose emissions "
        "and transitions vary as in the data, and the whole clustering was run on each "
        f"(seed {tests['seed']})."
    )


def _groups(tests: Mapping[str, Any]) -> str:
    if "groups" not in tests:
        return ""
    return (
        "Known groups were compared by a permutational analysis of variance (PERMANOVA, "
        f"{tests['groups']['permanova']:,} permutations) of the symmetrised divergences between people's hidden Markov "
        "models, and by how much more likely the sequences are under one model per group than under a common one "
        f"({tests['groups']['gain']:,} permutations). "
    )


def _versions() -> str:
    found = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"Software: Python {platform.python_version()}, {found}."
