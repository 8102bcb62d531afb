"""Settings of the whole suite."""

import os
import signal
import threading

import pytest
from hypothesis import settings

# What a shell starts in the background ignores Ctrl-C, and so does whatever that starts: tests of Ctrl-C need it back.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test` runs as many tests at a time as there are cores: threads of BLAS would only wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No example races against a clock. Elsewhere the examples change from run to run and keep looking for faults; a checked
# change is judged by fixed ones (`--hypothesis-profile=ci`).
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture
def few_resamples(monkeypatch):
    """Two resamples say whether numbers are reported correctly as well as ten."""
    monkeypatch.setattr("vhem.cli.number._RESAMPLES", 2)
    monkeypatch.setattr("vhem.cli.number._FOLDS", 2)
    monkeypatch.setattr("vhem.cli.separation._RESAMPLES", 2)
