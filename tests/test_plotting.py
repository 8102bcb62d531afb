"""Pictures, checked by what is drawn: places, widths, orders and overlaps."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from helpers import left_right, random_h3m, random_hmm
from scipy.integrate import trapezoid
from scipy.spatial.distance import mahalanobis

from vhem import H3M, HMM, VHEM, HierarchicalVHEM, choose_n_clusters, expected_log_likelihood
from vhem.datasets import simulated_face, simulated_study
from vhem.plotting import (
    plot_bounds,
    plot_cluster,
    plot_h3m,
    plot_hierarchy,
    plot_hmm,
    plot_j_matrix,
    plot_n_clusters,
    plot_responsibilities,
    plot_sequence,
    plot_transitions,
)
from vhem.plotting.gaussians import channel_scales, ellipse, state_deviations, state_means
from vhem.plotting.style import SEQUENTIAL, color, dashes, hatch

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is an optional library")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.patches import Ellipse, FancyArrowPatch, Rectangle  # noqa: E402

STUDY = simulated_study()
FIT = VHEM(3, tau=8, n_init=4, random_state=0).fit(STUDY.hmms)


def of_kind(ax, kind):
    return [patch for patch in ax.patches if isinstance(patch, kind)]


def wide_hmm(d=7, S=3):
    return random_hmm(np.random.default_rng(5), S=S, d=d)


ALL = {
    "plot_hmm, 1-D": lambda ax: plot_hmm(left_right(3, 4.0), ax),
    "plot_hmm, 2-D": lambda ax: plot_hmm(FIT.centers_[0], ax, image=simulated_face()),
    "plot_hmm, 7-D": lambda ax: plot_hmm(wide_hmm(), ax),
    "plot_transitions": lambda ax: plot_transitions(FIT.centers_[0], ax),
    "plot_h3m": lambda ax: plot_h3m(FIT.centers_, ax),
    "plot_cluster": lambda ax: plot_cluster(FIT.centers_[0], STUDY.hmms[:5], ax),
    "plot_hierarchy": lambda ax: plot_hierarchy(HIERARCHY.tree_, STUDY.strategies, ax),
    "plot_j_matrix": lambda ax: plot_j_matrix(FIT.transform(STUDY.hmms), FIT.labels_, ax),
    "plot_responsibilities": lambda ax: plot_responsibilities(FIT.responsibilities_, FIT.labels_, ax),
    "plot_bounds": lambda ax: plot_bounds(FIT, ax),
    "plot_n_clusters": lambda ax: plot_n_clusters(NUMBERS, ax),
    "plot_sequence, 2-D": lambda ax: plot_sequence(FIT.centers_[0], STUDY.sequences[0], ax),
    "plot_sequence, 7-D": lambda ax: plot_sequence(wide_hmm(), wide_hmm().sample(1, 30, 0)[0], ax),
}
HIERARCHY = HierarchicalVHEM((6, 3), n_trees=1, random_state=0).fit(STUDY.hmms)
NUMBERS = choose_n_clusters(STUDY.hmms, [2, 3, 4], VHEM(n_init=2), n_folds=3, n_resamples=2, random_state=0)


@pytest.mark.parametrize("draw", ALL.values(), ids=ALL)
def test_everything_draws_into_the_axes_given_or_makes_its_own(draw):
    figure, (here, other) = plt.subplots(1, 2)
    assert draw(here) is here
    assert not other.has_data()
    assert not other.patches
    figure.canvas.draw()
    made = draw(None)
    assert made.get_figure() is not figure
    made.get_figure().canvas.draw()


@pytest.mark.parametrize("seed", range(5))
def test_edges_of_ellipses_are_two_standard_deviations_away(seed):
    factor = np.random.default_rng(seed).normal(size=(2, 2))
    matrix = factor @ factor.T + 0.1 * np.eye(2)
    width, height, angle = ellipse(matrix)
    patch = Ellipse((3.0, -1.0), width, height, angle=angle)
    edge = patch.get_transform().transform(patch.get_path().vertices[:-1:3])  # points on the curve, not its handles
    away = [mahalanobis(point, [3.0, -1.0], np.linalg.inv(matrix)) for point in edge]
    np.testing.assert_allclose(away, 2.0, rtol=1e-3)


def test_arrows_are_as_wide_as_their_probability_and_rare_ones_are_left_out():
    hmm = HMM([0.5, 0.5, 0], [[0.0, 0.8, 0.2], [0.04, 0.0, 0.96], [0.5, 0.5, 0.0]], np.eye(3, 2), np.ones((3, 2)))
    widths = sorted(arrow.get_linewidth() for arrow in of_kind(plot_transitions(hmm), FancyArrowPatch))
    assert len(widths) == 5
    np.testing.assert_allclose(np.array(widths) / widths[-1], np.array([0.2, 0.5, 0.5, 0.8, 0.96]) / 0.96)
    assert len(of_kind(plot_transitions(hmm, threshold=0.01), FancyArrowPatch)) == 6


def test_rings_show_where_the_chain_starts():
    hmm = HMM([0.75, 0.25, 0.0], np.full((3, 3), 1 / 3), np.eye(3, 2), np.ones((3, 2)))
    wedges = [c for c in plot_transitions(hmm).collections if len(c.get_paths()[0].vertices) == 64]
    last = [np.round(c.get_paths()[0].vertices[60] / np.abs(c.get_paths()[0].vertices).max(), 3) for c in wedges]
    np.testing.assert_allclose(last, [[-1.0, 0.0], [1.0, 0.0]], atol=1e-3)  # clockwise from the top: 9 and 3 o'clock


def test_states_in_two_dimensions_lie_where_they_are_over_the_image():
    hmm = FIT.centers_[0]
    ax = plot_hmm(hmm, image=simulated_face(), names=["x", "y"])
    np.testing.assert_allclose([e.get_center() for e in of_kind(ax, Ellipse)], hmm.means[:, 0])
    assert ax.images[0].get_extent() == [0, 320, 400, 0]
    assert ax.yaxis_inverted()
    assert ax.get_ylabel() == "y"
    numbers = {text.get_text(): text.get_position() for text in ax.texts}
    np.testing.assert_allclose([numbers[str(s + 1)] for s in range(3)], hmm.means[:, 0])


def test_edges_can_be_set_without_an_image_and_turn_y_downwards():
    ax = plot_hmm(FIT.centers_[0], extent=(0, 320, 400, 0))
    ax.get_figure().canvas.draw()
    assert ax.get_xlim() == (0, 320)
    assert ax.get_ylim() == (400, 0)


def test_mixtures_of_gaussians_have_an_ellipse_each():
    hmm = random_hmm(np.random.default_rng(1), S=3, M=2, d=2, covariance_type="full")
    assert len(of_kind(plot_hmm(hmm), Ellipse)) == 6


def test_areas_under_densities_are_the_shares_of_time():
    hmm = random_hmm(np.random.default_rng(2), S=3, M=2, d=1, spread=5.0)
    lines = plot_hmm(hmm, transitions=False).lines
    areas = [trapezoid(line.get_ydata(), line.get_xdata()) for line in lines]
    np.testing.assert_allclose(areas, hmm.stationary(), rtol=5e-3)


def test_states_that_are_only_passed_through_stay_visible():
    heights = [line.get_ydata().max() for line in plot_hmm(left_right(4, 6.0), transitions=False).lines]
    np.testing.assert_allclose(heights, heights[0], rtol=0.01)


def test_profiles_are_the_means_and_bands_the_deviations():
    hmm = random_hmm(np.random.default_rng(3), S=2, M=3, d=6)
    draws = hmm.sample(1, 200_000, 0, return_states=True)
    for s in range(2):
        frames = draws[0][0][draws[1][0] == s]
        np.testing.assert_allclose(state_means(hmm)[s], frames.mean(axis=0), atol=0.05)
        np.testing.assert_allclose(state_deviations(hmm)[s], frames.std(axis=0), rtol=0.02)
    ax = plot_hmm(hmm, names=list("abcdef"))
    centre, spread = channel_scales([hmm])  # those of frames that come from each state equally often
    frames = np.concatenate([draws[0][0][draws[1][0] == s][:20_000] for s in range(2)])
    np.testing.assert_allclose(centre, frames.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(spread, frames.std(axis=0), rtol=0.02)
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines], (state_means(hmm) - centre) / spread)
    assert [t.get_text() for t in ax.get_xticklabels()] == list("abcdef")
    assert len(ax.child_axes) == 1, "the chain stands beside"
    assert len(ax.collections) == 2
    assert not plot_hmm(wide_hmm(S=6), transitions=False).collections, "bands of many states would hide one another"


def test_members_stand_behind_their_centre():
    members = STUDY.hmms[FIT.labels_ == 0]
    ax = plot_cluster(FIT.centers_[0], members, responsibilities=np.linspace(0.2, 1.0, len(members)))
    patches = of_kind(ax, Ellipse)
    assert len(patches) == 3 * (len(members) + 1)
    assert max(p.get_zorder() for p in patches[:-3]) < min(p.get_zorder() for p in patches[-3:])
    strength = [patch.get_alpha() for patch in patches[:-3:3]]
    assert np.all(np.diff(strength) > 0)


@pytest.mark.parametrize("K", [2, 40])
def test_grids_share_their_scale_and_titles_stay_apart(K):
    h3m = random_h3m(np.random.default_rng(0), K=K)
    ax = plot_h3m(h3m)
    ax.get_figure().canvas.draw()
    assert len(ax.child_axes) == K
    assert len({panel.get_xlim() + panel.get_ylim() for panel in ax.child_axes}) == 1
    boxes = [panel.title.get_window_extent() for panel in ax.child_axes] + [
        panel.get_window_extent() for panel in ax.child_axes
    ]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
    assert min(panel.title.get_fontsize() for panel in ax.child_axes) >= 5


@pytest.mark.parametrize("K", [2, 40])
def test_heat_maps_are_ordered_by_cluster_and_their_names_stay_apart(K):
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.concatenate([np.arange(K), rng.integers(K, size=150)]))
    z = rng.dirichlet(np.ones(K), size=len(labels)) + 2 * np.eye(K)[labels]
    z /= z.sum(axis=1, keepdims=True)
    ax = plot_responsibilities(z, labels)
    shown = np.asarray(ax.images[0].get_array())
    assert np.all(np.diff(shown.argmax(axis=1)) >= 0)
    np.testing.assert_allclose(np.sort(shown, axis=None), np.sort(z, axis=None))
    assert len(ax.lines) == K - 1
    ax.get_figure().canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) >= min(K, 10)
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_square_matrices_are_ordered_both_ways():
    J = expected_log_likelihood(STUDY.hmms, STUDY.hmms, 8)
    ax = plot_j_matrix(J, FIT.labels_)
    shown = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(np.sort(np.diag(shown)), np.sort(np.diag(J)))
    sizes = np.bincount(FIT.labels_)
    first = shown[: sizes[0]]
    assert first[:, : sizes[0]].mean() > first[:, sizes[0] :].mean()


def test_hierarchies_have_a_bar_for_every_node_and_class_and_an_arrow_up():
    ax = plot_hierarchy(HIERARCHY.tree_, STUDY.strategies)
    bars = of_kind(ax, Rectangle)
    inputs = [bar for bar in bars if round(bar.get_y() + bar.get_height() / 2) == 0]
    assert len(inputs) == 40
    assert {to_hex(bar.get_facecolor()).upper() for bar in inputs} == {color(k) for k in range(3)}
    top = [bar for bar in bars if round(bar.get_y() + bar.get_height() / 2) == 2]
    assert sum(bar.get_width() for bar in top) == pytest.approx(40 - 3 * 0.35)
    assert len(ax.texts) == 40 + 6
    named = dict(zip(ax.get_xticks(), [t.get_text() for t in ax.get_xticklabels()], strict=True))
    left = min(inputs, key=lambda bar: bar.get_x())
    assert named[0] in {str(i) for i in STUDY.hmms.ids}
    assert len(set(named.values())) == 40
    first = STUDY.strategies[[str(i) for i in STUDY.hmms.ids].index(named[0])]
    assert to_hex(left.get_facecolor()).upper() == color(first), "the name belongs to the bar above it"


@pytest.mark.parametrize("pixels", [15, 240])
def test_arrows_show_on_dark_and_on_light_pictures(pixels):
    ax = plot_hmm(FIT.centers_[0], image=np.full((400, 320), pixels, np.uint8))
    for arrow in of_kind(ax, FancyArrowPatch):
        (halo,) = arrow.get_path_effects()
        assert halo._gc["foreground"] == "white"
        assert halo._gc["linewidth"] > arrow.get_linewidth()


def test_numbers_of_states_stay_apart_in_grids_and_profiles():
    near = HMM(np.ones(3) / 3, np.full((3, 3), 1 / 3), [[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]], np.full((3, 2), 100.0))
    far = HMM(np.ones(3) / 3, np.full((3, 3), 1 / 3), [[0.0, 0.0], [9e2, 0.0], [0.0, 9e2]], np.full((3, 2), 100.0))
    flat = HMM(np.ones(4) / 4, np.full((4, 4), 1 / 4), np.zeros((4, 5)), np.ones((4, 5)))
    for ax in (plot_h3m(H3M([near, far])).child_axes[0], plot_hmm(flat, transitions=False)):
        ax.get_figure(root=True).canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        assert len(boxes) >= 3
        assert not any(a.shrunk(0.8, 0.8).overlaps(b.shrunk(0.8, 0.8)) for i, a in enumerate(boxes) for b in boxes[:i])


def test_bounds_of_all_restarts_are_drawn_and_the_best_is_thick():
    lines = plot_bounds(FIT).lines
    for line, restart in zip(lines, FIT.restarts_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), restart.lower_bounds)
    best = max(lines, key=lambda line: line.get_ydata()[-1])
    assert best.get_linewidth() == max(line.get_linewidth() for line in lines) > 2


def test_numbers_of_clusters_are_drawn_with_what_each_prefers():
    held_out, bic, stability = plot_n_clusters(NUMBERS).child_axes
    np.testing.assert_allclose(bic.lines[0].get_ydata(), NUMBERS.bic)
    np.testing.assert_allclose(stability.lines[0].get_ydata(), NUMBERS.stability)
    for panel, best in zip((held_out, bic, stability), NUMBERS.best.values(), strict=True):
        assert panel.lines[-1].get_xdata()[0] == best


def test_points_of_a_sequence_have_the_colour_of_their_state():
    hmm, sequence = FIT.centers_[0], STUDY.sequences[3]
    path = hmm.decode([sequence])[1][0]
    ax = plot_sequence(hmm, sequence)
    for s, points in zip(np.unique(path), ax.collections, strict=True):
        np.testing.assert_allclose(points.get_offsets(), sequence[path == s])
        assert to_hex(points.get_facecolor()[0]).upper() == color(s)
    assert [text.get_text() for text in ax.texts] == [str(t + 1) for t in range(len(sequence))]


def test_sequences_over_time_show_gaps_and_every_stay():
    hmm = left_right(3, 20.0)
    sequence = np.array([0.0, 0.1, np.nan, 20.0, 20.1, 40.0])
    ax = plot_sequence(hmm, sequence)
    assert np.isnan(ax.lines[0].get_ydata()[2])
    assert [text.get_text() for text in ax.texts] == ["1", "2", "3"]


def test_forty_things_can_be_told_apart_without_colour_and_shades_rise_evenly():
    assert len({(color(k), hatch(k)) for k in range(64)}) == 64
    assert len({(color(k), str(dashes(k))) for k in range(24)}) == 24
    red, green, blue, _ = matplotlib.colormaps[SEQUENTIAL](np.linspace(0, 1, 64)).T
    assert np.all(np.diff(0.2126 * red + 0.7152 * green + 0.0722 * blue) > 0)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_hmm(FIT.centers_[0], names=["x"]), "names has 1 entries, but the HMM has 2 dimensions"),
        (lambda: plot_hmm(FIT.centers_[0], image=np.zeros(5)), r"image must be \(height, width\)"),
        (lambda: plot_cluster(FIT.centers_[0], STUDY.hmms[:3], responsibilities=[1.0]), "for 3 members"),
        (lambda: plot_cluster(FIT.centers_[0], [left_right(2)]), "the centre has 2"),
        (lambda: plot_j_matrix(np.ones((3, 2)), [0, 1]), "one row for each of the labels"),
        (lambda: plot_hierarchy(HIERARCHY.tree_, ["a"]), "classes has 1 entries for 40 inputs"),
        (lambda: plot_bounds(STUDY.hmms), "has no restarts_ to draw"),
    ],
)
def test_bad_input_is_named(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import vhem\n"
        "try: vhem.plotting.plot_hmm(vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]]))\n"
        "except ModuleNotFoundError as missing: print(missing)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out == 'pictures need matplotlib: in the folder of vhem, pip install ".[plot]".\n'


def test_axes_that_share_their_ranges():
    hmms = random_h3m(np.random.default_rng(3), K=2, S=2, d=2)
    fig, axes = plt.subplots(1, 2, sharex=True, sharey=True)
    for hmm, ax in zip(hmms, axes, strict=True):
        plot_hmm(hmm, ax=ax)
    fig.canvas.draw()
    assert axes[0].get_xlim() == axes[1].get_xlim()
