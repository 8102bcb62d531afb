"""Slopes of smooth sequences as further channels."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import vhem
from vhem._support.saving import kind_of
from vhem.cli import app
from vhem.em.grouped import Batch
from vhem.em.slopes import with_slopes, without_slopes
from vhem.inference.pipeline import Study, check_pipeline
from vhem.sequences import Sequences
from vhem.sequences.slopes import slopes, smooth_channels


def _batch(*arrays: np.ndarray) -> Batch:
    return Batch.of(Sequences(list(arrays)), None, None)


def _up_or_down(n: int = 12, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Saws that rise slowly and fall fast, or the other way round: the same values, other slopes."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(2 * n) % 2
    made = []
    for kind in kinds:
        time = (np.arange(80) + rng.uniform(0, 40)) % 40 / 40
        saw = np.where(time < 0.75, time / 0.75, (1 - time) / 0.25)
        made.append((saw if kind else saw[::-1])[:, None] + 0.01 * rng.normal(size=(80, 1)))
    return made, kinds


def test_slopes_are_those_of_weighted_lines() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=40).cumsum() + 1e6
    found = slopes(x[:, None], np.array([0, 40]))[:, 0]
    for t in (0, 3, 20, 39):
        near = np.arange(max(0, t - 6), min(40, t + 7))
        root = np.exp(-0.25 * ((near - t) / 2.0) ** 2)  # polyfit weights residuals, not their squares
        assert found[t] == pytest.approx(np.polyfit(near - t, x[near], 1, w=root)[0], rel=1e-6, abs=1e-9)


def test_slopes_end_with_their_sequence_and_are_missing_where_values_are() -> None:
    up, down = np.arange(20.0)[:, None], -3 * np.arange(15.0)[:, None]
    up[7] = np.nan
    found = slopes(np.concatenate([up, down, np.ones((1, 1))]), np.array([0, 20, 35, 36]))[:, 0]
    assert np.isnan(found[7])
    assert np.isnan(found[-1])  # the only frame of its sequence
    np.testing.assert_allclose(np.delete(found[:20], 7), 1.0)
    np.testing.assert_allclose(found[20:35], -3.0)


def test_smooth_are_curves_but_neither_noise_nor_random_walks_nor_clocks() -> None:
    rng = np.random.default_rng(2)
    time = np.arange(200.0)
    noise = rng.normal(size=200)
    channels = np.column_stack([np.sin(time / 8) + 0.01 * noise, noise, noise.cumsum(), time, np.ones(200)])
    channels[50, 0] = np.nan
    assert smooth_channels(channels, np.array([0, 200])).tolist() == [0]
    assert smooth_channels(channels[:20], np.array([0, 20])).tolist() == []  # too short to tell
    assert smooth_channels(channels * 1e-9 + 5, np.array([0, 200])).tolist() == [0]


def test_clusters_that_differ_in_slopes_are_found_and_centers_describe_the_values() -> None:
    sequences, kinds = _up_or_down()
    fit = vhem.SequenceClustering(2, random_state=0).fit(sequences)
    assert adjusted_rand_score(kinds, fit.labels_) == 1
    assert fit.slopes_.tolist() == [0]
    assert fit.n_features_in_ == fit.centers_.n_dims == fit.hmms_.n_dims == 1
    assert fit.centers_with_slopes_.channels == ["x1", "slope of x1"]
    np.testing.assert_array_equal(fit.centers_with_slopes_.means[..., :1], fit.centers_.means)
    new, truth = _up_or_down(seed=5)
    assert adjusted_rand_score(truth, fit.predict(new)) == 1
    assert np.isfinite(fit.centers_.score_samples(new)).all()
    without = vhem.SequenceClustering(2, random_state=0, slopes=False).fit(sequences)
    assert without.slopes_.size == 0
    assert without.centers_with_slopes_ is without.centers_


def test_marginals_of_full_covariances_are_exact() -> None:
    rng = np.random.default_rng(3)
    batch = _batch(rng.normal(size=(50, 2)).cumsum(axis=0))
    both = with_slopes(batch, np.array([1]))
    hmms = vhem.fit_hmms([both.X], 2, covariance_type="full", random_state=0)
    kept = vhem.H3M.of_models(without_slopes(hmms.parameters, 2))
    missing = np.array(both.X)
    missing[:, 2] = np.nan  # integrated out
    np.testing.assert_allclose(kept.score_samples([batch.X]), hmms.score_samples([missing]), rtol=1e-12)


def test_fits_with_slopes_are_saved_and_older_files_are_read(tmp_path) -> None:
    sequences, _ = _up_or_down()
    fit = vhem.SequenceClustering(2, n_states="auto", random_state=0).fit(sequences)
    fit.save(tmp_path / "fit.vhem")
    again = vhem.load(tmp_path / "fit.vhem")
    np.testing.assert_array_equal(again.predict_proba(sequences), fit.predict_proba(sequences))
    assert again.states_scores_ == fit.states_scores_
    del fit.centers_with_slopes_, fit.slopes_
    kind = kind_of(fit)
    assert kind is not None
    older = {"params": {}, "fitted": {k: v for k, v in vars(fit).items() if k.endswith("_")}}
    assert kind.unpack(older).centers_with_slopes_ is fit.centers_


def test_slopes_are_asked_for_or_refused() -> None:
    sequences, _ = _up_or_down()
    hmms = vhem.fit_hmms(sequences, 2, random_state=0)
    with pytest.raises(ValueError, match="slopes must be 'auto', True or False"):
        vhem.SequenceClustering(2, slopes="yes").fit(sequences)
    with pytest.raises(ValueError, match="slopes=True is for HMMs that are learned here"):
        vhem.SequenceClustering(2, slopes=True).fit(sequences, hmms=hmms)
    with pytest.raises(ValueError, match="is for Gaussian emissions"):
        vhem.SequenceClustering(2, slopes=True, emissions="gamma").fit([x + 10 for x in sequences])
    assert vhem.SequenceClustering(2, random_state=0).fit(sequences, hmms=hmms).slopes_.size == 0
    full = vhem.SequenceClustering(2, covariance_type="full", random_state=0)
    assert full.fit(sequences).slopes_.size == 0
    assert full.set_params(slopes=True).fit(sequences).centers_with_slopes_.covars.shape[-2:] == (2, 2)


def test_tests_see_the_slopes_as_channels() -> None:
    sequences, _ = _up_or_down()
    model, study = check_pipeline(vhem.SequenceClustering(2), Study.of(sequences, None))
    assert model.slopes is False
    assert study.channels.names == ("x1", "slope of x1")
    assert study.batch.X.shape[1] == 2


def test_sequences_get_slopes_of_channels_by_name() -> None:
    rng = np.random.default_rng(4)
    curve = np.sin(np.arange(60) / 5)
    sequences = Sequences([np.column_stack([curve, rng.normal(size=60)])], channels=["x", "noise"])
    assert sequences.smooth_channels == ["x"]
    made = sequences.with_slopes()
    assert made.channels == ["x", "noise", "slope of x"]
    np.testing.assert_allclose(made[0][10:50, 2], np.cos(np.arange(10, 50) / 5) / 5, atol=0.02)
    assert made.smooth_channels == []  # slopes of slopes are not meant
    assert sequences.with_slopes(["noise", 0]).channels[2:] == ["slope of noise", "slope of x"]
    for wrong in (["y"], ["x", "x"], "x"):
        with pytest.raises(ValueError, match=r"no channel 'y'|asked for twice|must be one of 'auto'"):
            sequences.with_slopes(wrong)
    with pytest.raises(ValueError, match="holds categories, which have no slopes"):
        Sequences([["a", "b"]], categories=True).with_slopes([0])


def test_the_command_follows_slopes_and_scores_with_them(tmp_path) -> None:
    sequences, kinds = _up_or_down()
    rows = [f"s{i:02d},{t},{v:.6f}" for i, x in enumerate(sequences) for t, v in enumerate(x[:, 0])]
    table, out = tmp_path / "saws.csv", tmp_path / "out"
    table.write_text("\n".join(["id,t,x", *rows]))
    told = CliRunner().invoke(app, ["cluster", str(table), "--clusters", "2", "-o", str(tmp_path / "plain")])
    assert told.exit_code == 0
    assert "some values change smoothly: x; to compare how fast they change too, give --slopes auto" in " ".join(
        told.output.split()
    )
    done = CliRunner().invoke(app, ["cluster", str(table), "--clusters", "2", "--slopes", "auto", "-o", str(out)])
    assert done.exit_code == 0
    assert "values: x, slope of x" in done.output
    assert "change smoothly" not in done.output
    labels = read_labels(out / "labels.csv")
    assert adjusted_rand_score(kinds, labels) == 1
    for model in (out, out / "centers.vhem"):
        scores = tmp_path / "scores.csv"
        assert CliRunner().invoke(app, ["score", str(model), str(table), "-o", str(scores)]).exit_code == 0
        assert adjusted_rand_score(labels, read_labels(scores)) == 1
    parts = ["mixture", str(table), "--clusters", "2", "--partitions", "--slopes", "x", "-o", str(tmp_path / "parts")]
    assert "--slopes do not work with --partitions" in " ".join(CliRunner().invoke(app, parts).output.split())


def read_labels(path) -> list[str]:
    with open(path, newline="") as file:
        return [row["cluster"] for row in csv.DictReader(file)]
