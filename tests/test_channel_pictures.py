"""Pictures, words and reports of states that do not emit Gaussians."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.stats import poisson

import vhem
from vhem.cli.in_words import clusters_text, of_clusters
from vhem.models.marginals import in_words, marginals

CHAIN = ([0.7, 0.3], [[0.9, 0.1], [0.2, 0.8]])


def clicks(shares):
    made = vhem.HMM(*CHAIN, emissions=vhem.Categorical(shares))
    return made.with_categories({0: ["search", "cart", "paid"]}, channels=["page"])


@pytest.fixture(scope="module")
def centers():
    return vhem.H3M([clicks([[0.62, 0.11, 0.27], [0.0, 0.5, 0.5]]), clicks([[0.2, 0.2, 0.6], [0.3, 0.3, 0.4]])])


def test_densities_are_those_of_the_families(centers):
    (found,) = marginals(centers[0])
    assert found.channel.categories == ("search", "cart", "paid")
    assert found.density == pytest.approx(np.array([[0.62, 0.11, 0.27], [0.0, 0.5, 0.5]]), abs=1e-12)
    counts = marginals(vhem.HMM(*CHAIN, emissions=vhem.Poisson([[2.0], [9.0]])))[0]
    assert counts.channel.kind == "counts"
    expected = poisson.pmf(counts.channel.values, np.array([[2.0], [9.0]]))
    assert counts.density == pytest.approx(expected, abs=1e-12)


def test_words(centers):
    assert in_words(marginals(centers[0])[0], 0) == "page: search 62 %, paid 27 %, cart 11 %"
    counts = vhem.HMM(*CHAIN, emissions=vhem.Poisson([[2.0], [9.0]]))
    assert in_words(marginals(counts, names=["cases"])[0], 0) == "cases 2 per frame"
    gauss = vhem.HMM(*CHAIN, means=[[0.0], [5.0]], covars=[[1.0], [4.0]])
    assert in_words(marginals(gauss, names=["x"])[0], 1) == "x 5 ± 2"


def test_the_summary_of_clusters_names_categories(centers):
    rows = of_clusters(centers, ["ann", "bob"], np.array([0, 1]), 10)
    text = clusters_text(rows, None, "HMMs")
    assert "page: search 62 %, paid 27 %, cart 11 %" in text
    assert rows[0]["states"][0]["probabilities"] == {"page": {"search": 0.62, "cart": 0.11, "paid": 0.27}}
    json.dumps(rows)


def test_pictures(centers):
    pytest.importorskip("matplotlib").use("Agg")
    from vhem import plotting

    ax = plotting.plot_hmm(centers[0])
    bars = ax.child_axes[0]
    assert [label.get_text() for label in bars.get_xticklabels()] == ["search", "cart", "paid"]
    assert sorted(round(bar.get_height(), 2) for bar in bars.patches) == [0.0, 0.11, 0.27, 0.5, 0.5, 0.62]
    assert len(plotting.plot_h3m(centers).child_axes) == 2
    assert "2 members" in plotting.plot_cluster(centers[0], centers).get_title()
    counts = vhem.HMM(*CHAIN, emissions=vhem.Poisson([[2.0], [900.0]]))
    assert plotting.plot_hmm(counts, names=["cases"]).child_axes[0].get_title() == "cases"


def test_index_and_distribution_plots(centers):
    pytest.importorskip("matplotlib").use("Agg")
    from vhem import plotting

    lives = vhem.Sequences([["a", "b", "b"], ["b", "b"], ["a", "a", "b"]], categories=True, weights=[1, 1, 2])
    index = plotting.plot_index(lives, labels=[0, 0, 1], order="end")
    assert [panel.get_title() for panel in index.child_axes] == ["1 (n = 2)", "2 (n = 1)"]
    shares = plotting.plot_distribution(lives).child_axes[0]
    heights = [bar.get_height() for bar in shares.patches]
    assert heights == pytest.approx([0.75, 0.5, 0.0, 0.25, 0.5, 1.0])  # by weight, of those that have not ended
    with pytest.raises(ValueError, match="holds numbers, and this picture is for categories"):
        plotting.plot_index(vhem.Sequences([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="there is no channel 'b'"):
        plotting.plot_index(lives, channel="b")


def test_a_report_on_categories(centers, tmp_path):
    pytest.importorskip("jinja2")
    sequences, _ = centers.sample(4, 6, random_state=0)
    members = centers[[0, 1, 0, 1]].with_ids(range(4))
    fit = vhem.VHEM(2, tau=5, random_state=0).fit(members)
    vhem.report.write(tmp_path / "r.html", fit, hmms=members, sequences=sequences)
    page = (tmp_path / "r.html").read_text()
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.DOTALL).group(1))
    assert data["channels"][0]["names"] == ["search", "cart", "paid"]
    assert len(data["layers"][1][0]["channels"][0]) == 2
    assert len(data["sequences"]) == 4


def test_histograms_stand_behind_states_as_high_as_their_shares():
    chain = ([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    parts = [
        vhem.Gamma([2.0, 8.0], [3.0, 6.0], [0.3, 0.1]),
        vhem.VonMises([0.0, 2.5], [3.0, 1.0]),
        vhem.Poisson([2, 9]),
    ]
    hmm = vhem.HMM(*chain, emissions=vhem.Product(parts))
    sequences = hmm.sample(10, 50, random_state=0)
    panels = vhem.plotting.plot_hmm(hmm, sequences=sequences).child_axes
    step = sum(bar.get_height() * bar.get_width() for bar in panels[0].patches)
    assert step == pytest.approx((sequences.X[:, 0] > 0).mean(), abs=0.02)
    counts = [bar.get_height() for bar in panels[2].patches if bar.get_width() > 0.9]
    assert sum(counts) == pytest.approx(1.0, abs=0.01)
    assert any("zero: 30%, 10%" in text.get_text() for text in panels[0].texts)


def test_reports_hold_what_was_observed_in_each_cluster(tmp_path):
    rng = np.random.default_rng(0)
    rests = [rng.gamma(4.0, scale, size=50) for scale in (200.0, 210.0, 900.0, 950.0)]  # milliseconds
    turns = [np.degrees(rng.vonmises(0.0, 4.0, size=50)) for _ in rests]
    ys = vhem.Sequences([np.column_stack(pair) for pair in zip(rests, turns, strict=True)], channels=["rest", "turn"])
    fit = vhem.MixtureOfHMMs(2, 1, emissions={"rest": "gamma", "turn": "vonmises:degrees"}, random_state=0).fit(ys)
    vhem.report.write(tmp_path / "r.html", fit, sequences=ys)
    found = re.search(r'id="data"[^>]*>(.*?)</script>', (tmp_path / "r.html").read_text(), re.DOTALL)
    data = json.loads(found[1])
    for model in data["layers"][1]:
        rest, turn = model["seen"]
        width = (rest["ends"][1] - rest["ends"][0]) / len(rest["share"])
        assert width * sum(rest["share"]) == pytest.approx(1.0, abs=0.05)  # some lie beyond what the states emit
        assert sum(turn["share"]) * 360 / len(turn["share"]) == pytest.approx(1.0, abs=1e-3)
        for channel, step in ((0, None), (1, 360 / 72)):
            density = np.array(model["channels"][channel][0])
            values = np.array(data["channels"][channel]["values"])
            width = (values[1] - values[0]) if step is None else step
            assert density[:-1].sum() * width == pytest.approx(1.0, abs=0.02)  # small densities keep their digits
