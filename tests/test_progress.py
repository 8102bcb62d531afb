"""What callbacks are told, and that raising in one stops the work."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import vhem
from vhem import HierarchicalVHEM, MixtureOfHMMs, Sequences, fit_hmms
from vhem.datasets import simulated_study
from vhem.em.estimator import Estimator

pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX's")


class EnoughError(Exception):
    pass


def stop_at(n):
    seen = []

    def callback(progress):
        seen.append(progress)
        if len(seen) == n:
            raise EnoughError

    return callback, seen


@pytest.fixture(scope="module")
def study():
    return simulated_study(n_viewers=9, n_trials=4)


def test_fit_hmms_tells_how_many_have_settled(study):
    seen = []
    fit_hmms(study.sequences, [2, 3], n_init=2, random_state=0, callback=seen.append)
    assert [p.start for p in seen] == sorted(p.start for p in seen)
    assert {p.start for p in seen} == set(range(4))
    assert {p.n_starts for p in seen} == {4}
    for start in range(4):
        settled = [p.n_settled for p in seen if p.start == start]
        assert settled == sorted(settled)
        assert (settled[0], settled[-1]) == (0, len(study.sequences))
    callback, seen = stop_at(2)
    with pytest.raises(EnoughError):
        fit_hmms(study.sequences, callback=callback)
    assert len(seen) == 2


def test_fit_hmms_counts_what_is_held_out(study):
    seen = []
    groups = study.sequences.groups
    fit_hmms(study.sequences, [1, 2], criterion="held-out", groups=groups, random_state=0, callback=seen.append)
    assert {(p.start, p.n_starts) for p in seen} == {(k, 4) for k in range(4)}


def test_a_callback_changes_nothing(study):
    assert fit_hmms(study.sequences, random_state=0, callback=lambda _: None) == fit_hmms(
        study.sequences, random_state=0
    )


def test_mixtures_and_hierarchies_tell_the_bound(study):
    seen = []
    fit = MixtureOfHMMs(2, n_states=2, n_init=2, random_state=0, callback=seen.append).fit(study.sequences)
    for restart in range(2):
        told = [p.lower_bound for p in seen if p.restart == restart]
        np.testing.assert_array_equal(told, fit.restarts_[restart].lower_bounds)
    assert {p.n_restarts for p in seen} == {2}
    callback, seen = stop_at(3)
    with pytest.raises(EnoughError):
        HierarchicalVHEM(levels=(4, 2), random_state=0, callback=callback).fit(study.hmms)


def test_callbacks_that_cannot_be_called():
    with pytest.raises(ValueError, match="callback must be a function"):
        fit_hmms([[1.0, 2.0]], callback="print")
    with pytest.raises(ValueError, match="callback must be a function"):
        MixtureOfHMMs(2, callback=3).fit([[1.0, 2.0]])


def test_thin_data_are_named():
    sequences = Sequences([np.arange(20.0), [1.0, 2.0], [np.nan] * 9], ids=["good", "short", "empty"])
    with pytest.warns(RuntimeWarning) as caught:
        fit_hmms(sequences, n_states=3, random_state=0)
    said = " ".join(str(w.message) for w in caught)
    assert "fewer frames than states in 'short'; use fewer states" in said
    assert "nothing but missing values in 'empty'" in said
    assert "'good'" not in said
    for estimator in (vhem.SequenceClustering(2, 2), MixtureOfHMMs(2, 2)):
        with pytest.warns(RuntimeWarning) as caught:
            estimator.fit(sequences)
        assert any("nothing but missing values in 'empty'; drop it" in str(w.message) for w in caught)
    many = [[1.0, 2.0]] * 7
    with pytest.warns(RuntimeWarning, match="fewer frames than states in 0, 1, 2, 3, 4 and 2 more"):
        vhem.fit_hmms(many, n_states=3, random_state=0)


SHOWN = """
import numpy as np, vhem, vhem.em.display as display
display.AFTER = 0.0
rng = np.random.default_rng(0)
data = [rng.normal(size=(300, 2)) for _ in range(20)]
fit = vhem.MixtureOfHMMs(2, 2, random_state=0, max_iter=30, tol=0, {}).fit(data)
"""


def on_a_terminal(code):
    """Return what a program prints on a terminal."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=terminal, stderr=terminal, env=environment
    ) as program:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how the end of a terminal shows on Linux
            while part := os.read(controller, 4096):
                shown += part
    os.close(controller)
    assert program.returncode == 0, shown.decode()
    return shown.decode()


def test_long_fits_show_a_bar_on_a_terminal_unless_told_not_to():
    assert "MixtureOfHMMs" in on_a_terminal(SHOWN.format(""))
    for quiet in ("verbose=0", "callback=lambda progress: None"):
        assert on_a_terminal(SHOWN.format(quiet)) == ""
    piped = subprocess.run([sys.executable, "-W", "ignore", "-c", SHOWN.format("")], capture_output=True, check=True)
    assert piped.stdout == piped.stderr == b""


def test_warnings_name_the_line_that_called(study):
    """However deep inside they are issued: in a fit, in a fit inside another, in a function."""
    for call in (
        lambda: MixtureOfHMMs(2, 2, max_iter=1, tol=1e-9, random_state=0).fit(study.sequences),
        lambda: HierarchicalVHEM((4, 2), n_virtual=1, init="emissions", max_iter=1, tol=1e-12, random_state=0).fit(
            study.hmms
        ),
        lambda: fit_hmms(study.sequences, 3, max_iter=1, random_state=0),
    ):
        with pytest.warns(vhem.NotConvergedWarning) as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_every_estimator_has_a_summary_and_can_be_silent():
    public = [getattr(vhem, name) for name in vhem.__all__]
    estimators = [kind for kind in public if inspect.isclass(kind) and issubclass(kind, BaseEstimator)]
    assert len(estimators) >= 12
    for kind in estimators:
        assert issubclass(kind, Estimator), kind
        assert inspect.signature(kind).parameters["verbose"].default is None
        if kind is not vhem.HMMTransformer:  # which learns nothing in fit
            with pytest.raises(NotFittedError):
                kind().summary()


def test_a_summary_says_what_was_found(study):
    hmms = study.hmms
    lines = vhem.VHEM(3, tau=8, random_state=0).fit(hmms).summary().splitlines()
    assert lines[0] == "VHEM(n_clusters=3, random_state=0, tau=8)"
    assert lines[1].startswith("converged after ")
    assert lines[2] == "9 members in 3 clusters, of sizes 3, 3, 3"
    assert "    centers_: H3M(n_hmms=3, n_states=3, n_mix=1, n_dims=2, covariance_type='diag')" in lines
    tree = HierarchicalVHEM((4, 2), tau=8, random_state=0).fit(hmms).summary()
    assert "9 members in 4 clusters" in tree
    assert "9 members in 2 clusters" in tree
    known = vhem.H3MClassifier(n_components=1, random_state=0).fit(study.sequences[:8], [0, 1] * 4)
    assert "classes_: array of shape (2,)" in known.summary()


def test_models_other_than_hmms_have_summaries_too():
    rng = np.random.default_rng(0)
    textures = vhem.DynamicTextureMixture(2, 2, tol=1.0, random_state=0).fit(rng.normal(size=(8, 30, 3)))
    assert "8 members in 2 clusters" in textures.summary()
    assert "model_: MixtureOfLDS" in textures.summary()
    systems = vhem.HEMDynamicTextures(2, tau=5, random_state=0).fit(textures.model_)
    assert "2 members in 2 clusters" in systems.summary()
    mixture = vhem.GMM([0.5, 0.5], [[0.0], [5.0]], [[1.0], [1.0]])
    assert "_: GMM(n_components=1" in vhem.HEMGaussianMixture(1, random_state=0).fit([mixture, mixture]).summary()
