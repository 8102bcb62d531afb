"""Random models, the engines that this machine runs, the truth by enumeration, and real data where there are any."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from vhem import H3M, HMM
from vhem.datasets import eye_movements
from vhem.datasets.folder import find_data
from vhem.emissions import Gaussian
from vhem.kernels import engine as engine_module
from vhem.kernels.maximise import maximise


def available_engines():
    """Return "reference", and "native-…" for every instruction set that is built and runs here."""
    return ["reference", *(f"native-{name}" for name in reversed(engine_module.usable_instruction_sets()))]


def use_engine(monkeypatch, name):
    """Make the library run on one of `available_engines`."""
    engine, _, instruction_set = name.partition("-")
    monkeypatch.setenv("VHEM_ENGINE", engine)
    monkeypatch.setenv("VHEM_INSTRUCTION_SET", instruction_set)
    engine_module._detect.cache_clear()


def random_rows(rng, shape, zeros=False):
    """Return probability rows; with `zeros`, about a third of the entries are exactly zero."""
    rows = rng.gamma(1.0, size=shape) + 0.05
    if zeros:
        keep = rng.random(shape) < 0.65
        np.put_along_axis(keep, rng.integers(shape[-1], size=(*shape[:-1], 1)), True, axis=-1)
        rows = rows * keep
    return rows / rows.sum(axis=-1, keepdims=True)


def random_covars(rng, shape, covariance_type):
    """Return positive definite covariances for Gaussians of shape (…, d)."""
    if covariance_type == "diag":
        return rng.uniform(0.3, 2.0, size=shape)
    factor = rng.normal(size=(*shape, shape[-1]))
    return factor @ np.swapaxes(factor, -1, -2) + 0.3 * np.eye(shape[-1])


def random_hmm(rng, S=3, M=1, d=2, covariance_type="diag", zeros=False, spread=2.0):
    """Return a random HMM."""
    return HMM(
        random_rows(rng, (S,), zeros),
        random_rows(rng, (S, S), zeros),
        spread * rng.normal(size=(S, M, d)),
        random_covars(rng, (S, M, d), covariance_type),
        random_rows(rng, (S, M), zeros),
    )


def random_h3m(rng, K=3, S=3, M=1, d=2, covariance_type="diag", ragged=False, zeros=False):
    """Return a random H3M; with `ragged`, HMMs have 1 to S states and 1 to M Gaussians per state."""
    sizes = [(S, M)] * K
    if ragged:
        sizes = [(int(rng.integers(1, S + 1)), int(rng.integers(1, M + 1))) for _ in range(K)]
    hmms = [random_hmm(rng, s, m, d, covariance_type, zeros) for s, m in sizes]
    return H3M(hmms, weights=random_rows(rng, (K,)))


def left_right(n_states, separation=1.0, stay=0.9):
    """Return a left-right HMM in one dimension, states `separation` apart."""
    transmat = stay * np.eye(n_states) + (1 - stay) * np.eye(n_states, k=1)
    transmat[-1, -1] = 1.0
    means = separation * np.arange(n_states, dtype=float)[:, None]
    return HMM(np.eye(n_states)[0], transmat, means, np.ones((n_states, 1)))


def emission_log_density(hmm, y):
    """Return log b_s(y_t), (T, S), from SciPy's Gaussian on the observed dimensions of every frame."""
    return np.array([[_log_density(hmm, s, frame) for s in range(hmm.n_states)] for frame in y])


def _log_density(hmm, s, frame):
    seen = ~np.isnan(frame)
    if not seen.any():
        return 0.0
    terms = []
    for weight, mean, covar in zip(hmm.mix_weights[s], hmm.means[s], hmm.covars[s], strict=True):
        matrix = np.diag(covar) if covar.ndim == 1 else covar
        if weight > 0:
            gaussian = multivariate_normal(mean[seen], matrix[np.ix_(seen, seen)])
            terms.append(np.log(weight) + gaussian.logpdf(frame[seen]))
    return logsumexp(terms)


def enumerate_paths(hmm, y):
    """Return all paths (S^T, T) and log p(path, y) of each."""
    log_density = emission_log_density(hmm, y)
    paths = np.array(list(itertools.product(range(hmm.n_states), repeat=len(y))))
    with np.errstate(divide="ignore"):
        log_start, log_trans = np.log(hmm.startprob), np.log(hmm.transmat)
    joint = log_start[paths[:, 0]] + log_density[np.arange(len(y)), paths].sum(axis=1)
    return paths, joint + log_trans[paths[:, :-1], paths[:, 1:]].sum(axis=1)


def data_folder():
    """Return the folder of real data: `VHEM_DATA`, or else the one beside the repository."""
    default = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    return Path(os.environ.get("VHEM_DATA", default))


def spoiled_m_step(by):
    """The M-step with its means moved, further every time: a bound that must fall."""
    calls = []

    def spoiled(*args):
        calls.append(1)
        update = maximise(*args)
        gaussian = update.models.components
        moved = Gaussian(gaussian.means + by * len(calls), gaussian.covars)
        return update._replace(models=update.models.with_components(moved))

    return spoiled


def loaded(load, *arguments, **options):
    """Return what `load` gives; skip, in its own words of how to get the data, where they are not there."""
    try:
        return load(*arguments, **options)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


def faces_folder():
    """Return the folder of the EMHMM toolbox's demonstration files, or skip."""
    return loaded(find_data, "emhmm_faces", eye_movements._HOW_TO_GET)
