"""Ctrl-C ends every fit within a second, with and without a callback: a real SIGINT in a process of its own.

All fits of an engine are made one after the other in one process, which costs one import. Each would run for minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import vhem
from vhem.kernels.engine import engine

LONG = {"max_iter": 10**6, "tol": 0.0, "random_state": 0}
N_THREADS = 2
THREADS = {"n_jobs": N_THREADS}
DELAY, PATIENCE = 0.5, 10.0  # seconds before the signal, and after it
rng = np.random.default_rng(0)


def frames(n, T, d=4):
    return list(rng.normal(size=(n, T, d)))


def hmms(K, S=4, d=2):
    startprob, transmat = (a / a.sum(-1, keepdims=True) for a in (rng.random((K, S)), rng.random((K, S, S))))
    means = rng.normal(size=(K, S, d))
    return vhem.H3M([vhem.HMM(startprob[k], transmat[k], means[k], np.ones((S, d))) for k in range(K)])


def textures(K, n=4, d=20):
    return [vhem.LinearDynamicalSystem(0.9 * np.eye(n), rng.normal(size=(d, n)), np.eye(n), R=1.0) for _ in range(K)]


#: Name, what makes the data (not timed), and the fit.
FITS = {
    "fit_hmms, many HMMs": (
        lambda: frames(20_000, 100),
        lambda X, **more: vhem.fit_hmms(X, n_states=8, n_init=5, **LONG, **THREADS, **more),
    ),
    "fit_hmms, one long sequence": (
        lambda: frames(1, 1_000_000),
        lambda X, **more: vhem.fit_hmms(X, n_states=8, **LONG, **THREADS, **more),
    ),
    "VHEM": (
        lambda: hmms(300),
        lambda X, **more: vhem.VHEM(8, tau=30_000, shortcuts=False, n_init=1, **LONG, **THREADS, **more).fit(X),
    ),
    "VHEM, restarts in threads": (
        lambda: hmms(300),
        lambda X, **more: vhem.VHEM(8, tau=30_000, shortcuts=False, n_init=4, **LONG, **THREADS, **more).fit(X),
    ),
    "VHEM, threads of the executor": (
        lambda: hmms(300),
        lambda X, **more: vhem.VHEM(
            8, tau=30_000, shortcuts=False, init="base", executor="threads", **LONG, **THREADS, **more
        ).fit(X),
    ),
    "VHEM, a search": (
        lambda: hmms(300),
        lambda X, **more: vhem.VHEM(8, tau=50, search="genetic", **LONG, **THREADS, **more).fit(X),
    ),
    "VBHEM": (
        lambda: hmms(300),
        lambda X: vhem.VBHEM(range(1, 9), n_states=4, tau=200, **LONG, **THREADS).fit(X),
    ),
    "fit_hmms, variational Bayes": (
        lambda: frames(2000, 200),
        lambda X: vhem.fit_hmms(X, n_states=range(1, 6), method="vb", **LONG, **THREADS),
    ),
    "MixtureOfHMMs": (
        lambda: frames(5000, 200),
        lambda X, **more: vhem.MixtureOfHMMs(8, n_states=6, **LONG, **THREADS, **more).fit(X),
    ),
    "SampledHEM": (
        lambda: hmms(300),
        lambda X: vhem.SampledHEM(8, n_samples=200, tau=100, **LONG, **THREADS).fit(X),
    ),
    "HierarchicalVHEM": (
        lambda: hmms(600),
        lambda X, **more: vhem.HierarchicalVHEM((40, 8), tau=2000, n_init=2, **LONG, **THREADS, **more).fit(X),
    ),
    "PPKClustering": (
        lambda: hmms(500, S=8),
        lambda X: vhem.PPKClustering(8, length=30_000, random_state=0, **THREADS).fit(X),
    ),
    "DynamicTextureMixture": (
        lambda: frames(400, 200, d=20),
        lambda X: vhem.DynamicTextureMixture(4, n_states=4, **LONG).fit(X),
    ),
    "HEMDynamicTextures": (lambda: textures(300), lambda X: vhem.HEMDynamicTextures(4, tau=200, **LONG).fit(X)),
    "SequenceClustering": (
        lambda: frames(20_000, 200),
        lambda X, **more: vhem.SequenceClustering(8, n_states=6, random_state=0, **THREADS, **more).fit(X),
    ),
    "PartitionedH3M": (
        lambda: [frames(3000, 200) for _ in range(4)],
        lambda X, **more: vhem.PartitionedH3M(8, n_states=6, **LONG, **THREADS, **more).fit(X),
    ),
    "PartitionedH3M, threads of the executor": (
        lambda: [frames(3000, 200) for _ in range(4)],
        lambda X, **more: vhem.PartitionedH3M(8, n_states=6, executor="threads", **LONG, **THREADS, **more).fit(X),
    ),
}


IN_NUMPY = ["VHEM, restarts in threads", "VHEM, threads of the executor", "PartitionedH3M, threads of the executor"]
WITHOUT_CALLBACK = [  # fits that have none, or whose callback is that of others
    *("SampledHEM", "PPKClustering", "DynamicTextureMixture", "HEMDynamicTextures", "VBHEM"),
    "fit_hmms, variational Bayes",
]


def seconds_to_end(fit, X, **options):
    """Return the processor's seconds between a signal and the end of a fit: other programs do not count."""
    sent, ended = [], threading.Event()

    def interrupt():
        time.sleep(DELAY)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)
        if not ended.wait(PATIENCE):
            os._exit(1)  # the fits that follow are not made

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        fit(X, **options)
    except KeyboardInterrupt:
        return time.process_time() - sent[0]
    finally:
        ended.set()


def main(names):
    """Interrupt the fits, and print a line of JSON for each."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored from the start
    warnings.simplefilter("ignore")
    for name in names:
        data, fit = FITS[name]
        X = data()
        plain = seconds_to_end(fit, X)
        has_callback = name not in WITHOUT_CALLBACK
        told = seconds_to_end(fit, X, callback=lambda _: None) if has_callback else plain
        print(json.dumps([name, plain, told]), flush=True)


def in_a_process(kind, names):
    environment = {**os.environ, "VHEM_ENGINE": kind}
    command = [sys.executable, "-W", "ignore", __file__, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    return {name: found for name, *found in map(json.loads, done.stdout.splitlines())}, done.stderr


@pytest.fixture(scope="module")
def compiled_fits():
    if engine().module is None:
        pytest.skip("only the NumPy engine is built here")
    return in_a_process("native", FITS)


@pytest.fixture(scope="module")
def numpy_fits():
    return in_a_process("reference", IN_NUMPY)


def check(name, found):
    seconds, stderr = found
    assert name in seconds, f"this fit, or one before it, went on. {stderr}"
    for took in seconds[name]:
        assert took is not None, "this fit ended before it was interrupted"
        assert took < N_THREADS * 1.0


@pytest.mark.parametrize("name", FITS)
def test_an_interrupt_ends_a_fit_within_a_second(name, compiled_fits):
    check(name, compiled_fits)


@pytest.mark.parametrize("name", IN_NUMPY)
def test_an_interrupt_ends_the_numpy_engine_in_threads_too(name, numpy_fits):
    check(name, numpy_fits)


if __name__ == "__main__":
    main(sys.argv[1:])
