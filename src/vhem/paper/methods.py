"""The Methods paragraph: what was done, with which settings, versions and seeds."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from vhem._support.phrases import Count, capitalized, in_letters
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
        n_folds, n_bootstrap, n_bootstrap_most and seed of the tests, as `Comparison.tests` has them; "groups" with the
        numbers of permutations, if known groups were compared.

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
    'The sequences of 10 people (399 sequences with 1,010 observations of x and y) were describ'
    """
    who, many = _who(facts), in_letters(int(settings["n_clusters"]))
    return (
        f"{_described(settings, facts)} {capitalized(who)} were clustered into {many} clusters by variational "
        f"hierarchical EM (Coviello, Chan, & Lanckriet, 2014{_virtual(facts)}), refined on the sequences themselves; "
        f"each cluster is represented by a hidden Markov model of its own, its centre. We used vhem {VERSION} (random "
        f"seed {settings.get('random_state', 'not set')}).{_chosen(facts)} {_crossed(tests, who)}{_drawn(tests, who)} "
        f"{_groups(tests, who)}Intervals are 95 % confidence intervals; those of differences between clusters come "
        f"from a bootstrap of {who}. p-values of several comparisons were corrected by Holm's method. {_versions()}"
    )


def _who(facts: dict[str, Any]) -> str:
    """Return what was clustered, in a word: people with several sequences each, or single sequences."""
    return "sequences" if facts["people"] == facts["sequences"] else "people"


def _described(settings: dict[str, Any], facts: dict[str, Any]) -> str:
    """Say what the data are, and by which models they were described."""
    data = f"{facts['observations']:,} observations of {_listed(facts['dimensions'])}"
    if _who(facts) == "people":
        given = f"The sequences of {facts['people']:,} people ({facts['sequences']:,} sequences with {data})"
    else:
        given = f"{facts['sequences']:,} sequences ({data})"
    n, topology = settings["n_states"], settings.get("topology", "ergodic")
    states = f"{in_letters(n)} states" if isinstance(n, int) else "as many states as BIC preferred"
    chain = "" if topology in ("ergodic", "auto") else f" in a {topology} topology"
    per = "person" if _who(facts) == "people" else "sequence"
    return (
        f"{given} were described by hidden Markov models, one per {per}, with {states}{chain} and "
        f"{_emissions(settings, facts)}."
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _virtual(facts: dict[str, Any]) -> str:
    return f"; virtual sequences of {format(Count(facts['tau']), 'observation')}" if "tau" in facts else ""


def _emissions(settings: dict[str, Any], facts: dict[str, Any]) -> str:
    if facts.get("emissions"):
        return f"the following emissions: {facts['emissions']}"
    form = "full" if settings.get("covariance_type") == "full" else "diagonal"
    return f"Gaussian emissions with {form} covariance matrices"


def _crossed(tests: Mapping[str, Any], who: str) -> str:
    return (
        f"Centres fit the {who} that they were learned from better than others, whether or not there are clusters. "
        f"Therefore clusters were compared by cross-fitting: in each of {in_letters(tests['n_folds'])} folds, the "
        f"{who} left out were assigned, by one half of their data, to clusters learned from the rest, and "
        f"log-likelihoods per observation were compared on the other half ({_permutations(tests)} within folds)."
    )


def _permutations(tests: Mapping[str, Any]) -> str:
    n = tests.get("n_permutations")
    return "permutation test" if n is None else f"permutation test, {n:,} permutations"


def _chosen(facts: dict[str, Any]) -> str:
    """Say how the number of clusters was chosen, and what had not converged."""
    said = [facts.get("chosen", "")]
    said += ["the learning was stopped before it had converged" if facts.get("converged") is False else ""]
    told = "; ".join(part for part in said if part)
    return f" {capitalized(told)}." if told else ""


def _drawn(tests: Mapping[str, Any], who: str) -> str:
    if "n_bootstrap" not in tests:  # stopped before
        return ""
    early = tests["n_bootstrap"] < tests.get("n_bootstrap_most", 0)
    most = f" (of at most {tests['n_bootstrap_most']}; the result was then clear)" if early else ""
    return (
        " Whether there are clusters rather than a continuum was tested by a parametric bootstrap: "
        f"{tests['n_bootstrap']} data sets of the same size{most} were drawn from a single cluster of {who} whose "
        "emissions and transitions vary as much as in the data, and the whole clustering was run on each (seed "
        f"{tests['seed']})."
    )


def _groups(tests: Mapping[str, Any], who: str) -> str:
    if "groups" not in tests:
        return ""
    each = "people's hidden Markov models" if who == "people" else "the sequences' hidden Markov models"
    return (
        "Known groups were compared by a permutational analysis of variance (PERMANOVA, "
        f"{tests['groups']['permanova']:,} permutations) of the symmetrised divergences between {each}, and by how "
        "much more likely the sequences are under one model per group than under a common one "
        f"({tests['groups']['gain']:,} permutations). "
    )


def _versions() -> str:
    found = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"Software: Python {platform.python_version()}, {found}."
