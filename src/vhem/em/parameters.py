"""Parameters that many estimators share: how each is checked, and what its documentation says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from vhem._support.checks import check_choice, check_flag, check_integer, check_real
from vhem._support.docstrings import sharing
from vhem.em.progress import check_callback
from vhem.em.topology import TOPOLOGIES

Check = Callable[[str, Any], Any]


def _choice(*choices: str) -> Check:
    return partial(_in, choices)


def _in(choices: tuple[str, ...], name: str, value: Any) -> None:
    check_choice(name, value, choices)


def _at_least(minimum: int, name: str, value: Any) -> None:
    check_integer(name, value, minimum)


def _number(name: str, value: Any) -> None:
    check_real(name, value, 0.0)


def _positive(name: str, value: Any) -> None:
    check_real(name, value, 0.0, open_interval=True)


_COUNT, _AMOUNT = partial(_at_least, 1), partial(_at_least, 0)

CHECKS: dict[str, Check] = {
    **dict.fromkeys(("n_clusters", "n_components", "n_states", "n_mix", "n_init"), _COUNT),
    **dict.fromkeys(("tau", "length", "n_samples", "fragment_length", "song_components"), _COUNT),
    **dict.fromkeys(("max_iter", "n_sample", "n_passes"), _AMOUNT),
    **dict.fromkeys(("tol", "reg_covar", "startprob_prior", "transmat_prior", "covars_prior", "time_limit"), _number),
    **dict.fromkeys(("n_virtual", "noise_floor", "rho", "temperature"), _positive),
    "shortcuts": check_flag,
    "verbose": lambda name, value: None if value in (0, 1) else check_flag(name, value),
    "covariance_type": _choice("diag", "full"),
    "topology": _choice(*TOPOLOGIES),
    "weight_form": _choice("models", "virtual"),
    "noise": _choice("diag", "isotropic"),
    "callback": lambda _, value: check_callback(value),
}


def check_parameters(estimator: Any, but: Collection[str] = ()) -> None:
    """Check the parameters of an estimator that are listed here; None and "auto" are valid if they are the default."""
    for name, parameter in inspect.signature(type(estimator).__init__).parameters.items():
        value = getattr(estimator, name, None)
        optional = isinstance(value, str | None) and value == parameter.default and value in (None, "auto")
        if name in CHECKS and name not in but and not optional:
            CHECKS[name](name, value)


def check_values(**values: Any) -> None:
    """Check the arguments of a function that are listed here."""
    for name, value in values.items():
        CHECKS[name](name, value)


_SEED = """\
random_state : int, numpy Generator, RandomState or None
    Seed. The same seed gives the same result, whatever the number of threads."""
_THREADS = """\
n_jobs : int, optional
    Threads. None or -1 uses every core."""
_SIZES = """\
n_states, n_mix : int
    States of each HMM, and Gaussians per state.
covariance_type : {"diag", "full"}
    Form of the covariances."""
_EMISSIONS = """\
emissions : str or dict
    What the states emit: "gaussian", "categorical", "bernoulli", "poisson", "negativebinomial", "exponential", "gamma",
    "zero-gamma", "beta", "vonmises" or "vonmises:degrees"; or families by columns, as in ``{"x,y": "gaussian", "key":
    "categorical"}``. Channels of named categories are always categorical. The page on emissions says which data each is
    for."""
_TOPOLOGY = """\
topology : {"ergodic", "left-right", "left-right-skip"}
    Which transitions are possible: all; to stay or move on to the next state; or also to skip one. Left-right HMMs
    start in their first state."""
_PRIORS = """\
reg_covar : float
    Floor of the variances as a share of the data's variance, as in `fit_hmms`.
startprob_prior, transmat_prior, covars_prior : float, optional
    Priors as pseudo-counts, as in `fit_hmms`. None: 0 for Gaussians; 0.1 for other families, so that a cluster does not
    rule out a category or a transition that it merely has not seen."""
_LIMITS = """\
max_iter : int
    Largest number of iterations.
tol : float
    EM has converged when an iteration gains less than this many nats per frame (virtual frames, if there are no
    others): a measure that does not change with the units of the data or their amount."""
_CALLBACK = """\
callback : callable, optional
    Called after every E-step with a `Progress` (fields restart, init, iteration, lower_bound, converged,
    n_restarts), never by two threads at once. To stop a fit, raise an exception in it."""
_VERBOSE = """\
verbose : bool, optional
    None shows a bar on a terminal or in a notebook once a fit takes longer than two seconds; False or 0 shows nothing.
    True prints lines where an estimator has any."""
_CLUSTERING = """\
estimator : SequenceClustering or int
    The clustering, whose settings are used, or the number of clusters."""
_SEQUENCES = """\
sequences : list of (T_i, d) arrays, 3-D array or Sequences
    The sequences."""
_PEOPLE = """\
groups : list, optional
    The person of each sequence; by default the sequences' own groups."""
_SHARE = """\
callback : callable, optional
    Called with the share of the work that is done."""

#: Puts the shared texts in the place of lines such as ``<random_state>``.
documented = sharing(
    random_state=_SEED, n_jobs=_THREADS, sizes=_SIZES, emissions=_EMISSIONS, topology=_TOPOLOGY, priors=_PRIORS,
    limits=_LIMITS, callback=_CALLBACK, verbose=_VERBOSE, clustering=_CLUSTERING, sequences=_SEQUENCES, people=_PEOPLE,
    share_done=_SHARE,
)  # fmt: skip
