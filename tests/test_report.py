"""The report's file: what it holds, what it leaves out, and that no text in it becomes code."""

import base64
import io
import json
import re

import numpy as np
import pytest
from helpers import random_h3m, random_hmm
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, rand_score

import vhem
from vhem import report
from vhem.datasets import simulated_face, simulated_study
from vhem.report.images import embedded
from vhem.report.payload import state_colors

STUDY = simulated_study(n_viewers=12, n_trials=4)
CLASSES = [STUDY.strategy_names[s] for s in STUDY.strategies]
FIT = vhem.VHEM(3, tau=8, n_init=2, random_state=0).fit(STUDY.hmms)
EVIL = "<script>alert(1)</script>"


def data_of(path):
    """Return what the page's script draws from."""
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def test_a_report_holds_models_members_sequences_and_figures(tmp_path):
    path = report.write(tmp_path / "deep" / "r.html", FIT, STUDY.hmms, sequences=STUDY.sequences, classes=CLASSES,
                        image=simulated_face(), names=["x", "y"], title="A", command="vhem cluster x.csv")  # fmt: skip
    text, data = path.read_text(encoding="utf-8"), data_of(path)
    np.testing.assert_allclose(data["layers"][1][0]["mean"], FIT.centers_[0].means[:, 0], atol=0.05)
    np.testing.assert_allclose(data["layers"][0][5]["next"], STUDY.hmms[5].transmat, atol=5e-5)
    drawn = STUDY.hmms[5].sample(20_000, 8, 0, return_states=True)[1]
    shares = np.bincount(np.concatenate(drawn), minlength=3) / 160_000
    np.testing.assert_allclose(data["layers"][0][5]["time"], shares, atol=0.01)
    assert data["members"]["names"] == STUDY.hmms.ids
    assert data["parents"] == [FIT.labels_.tolist()]
    assert [shares[0][0] for shares in data["members"]["shares"]] == FIT.labels_.tolist()
    assert len(data["sequences"]) == len(STUDY.sequences)
    assert data["extent"] == [0, 320, 400, 0]
    assert data["image"].startswith("data:image/png;base64,")
    for score in (rand_score, adjusted_rand_score, normalized_mutual_info_score):
        assert f'<td class="number">{score(CLASSES, FIT.labels_):.3f}</td>' in text
    assert "vhem cluster x.csv" in text
    assert "fit = vhem.VHEM(n_clusters=3, n_init=2, random_state=0, tau=8).fit(hmms)" in text
    assert list(path.parent.iterdir()) == [path]


def test_sequences_are_decoded_by_their_own_member(tmp_path):
    path = report.write(tmp_path / "r.html", FIT, STUDY.hmms, sequences=STUDY.sequences)
    for found in data_of(path)["sequences"][::7]:
        i = STUDY.sequences.ids.index(found["name"])
        assert STUDY.hmms.ids[found["of"]] == STUDY.sequences.groups[i]
        np.testing.assert_allclose(found["x"], STUDY.sequences[i], atol=0.05)
        assert found["path"] == STUDY.hmms[found["of"]].decode([STUDY.sequences[i]])[1][0].tolist()


def test_confusion_counts_every_member_once(tmp_path):
    text = report.write(tmp_path / "r.html", FIT, STUDY.hmms, classes=CLASSES).read_text(encoding="utf-8")
    table = text[text.index("Members by class") :]
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', table[: table.index("</table>")])
    counts = {name: [int(n.replace("·", "0")) for n in re.findall(r">([\d·]+)</td>", cells)] for name, cells in rows}
    for name in STUDY.strategy_names:
        expected = np.bincount(FIT.labels_[np.array(CLASSES) == name], minlength=3)
        assert counts[name] == expected.tolist()


def test_hierarchies_show_all_levels_and_how_well_each_agrees(tmp_path):
    tree = vhem.HierarchicalVHEM((6, 3), n_trees=1, n_init=2, random_state=0).fit(STUDY.hmms)
    path = report.write(tmp_path / "r.html", tree, classes=CLASSES)
    data, text = data_of(path), path.read_text(encoding="utf-8")
    assert [len(layer) for layer in data["layers"]] == [12, 6, 3]
    assert data["parents"] == [p.tolist() for p in tree.parents_]
    assert "6 → 3" in text
    assert f"{adjusted_rand_score(CLASSES, tree.labels_[1]):.3f}</dd>" in text, (
        "the head shows the level like the classes"
    )
    best = "Highest possible Rand index"
    assert best not in text
    assert best in report.write(
        tmp_path / "r.html", vhem.VHEM(2, n_init=1).fit(STUDY.hmms), STUDY.hmms, classes=CLASSES
    ).read_text(encoding="utf-8")


def test_levels_fitted_anew_are_told_apart_from_the_tree(tmp_path):
    tree = vhem.HierarchicalVHEM((6, 3), variant="inputs", n_trees=1, n_init=2, random_state=0).fit(STUDY.hmms)
    tree.labels_[1] = np.roll(tree.labels_[1], 1)  # as if some members had moved
    moved = int((tree.labels_[1] != tree.parents_[1][tree.parents_[0]]).sum())
    text = report.write(tmp_path / "r.html", tree, classes=CLASSES).read_text(encoding="utf-8")
    assert f"Level 2 was fitted to all members again: {moved} of them" in text
    assert f"{adjusted_rand_score(CLASSES, tree.labels_[1]):.3f}</td>" in text


def test_mixtures_of_sequences_have_members_without_hmms(tmp_path):
    fit = vhem.MixtureOfHMMs(3, n_states=3, n_init=1, random_state=0).fit(STUDY.sequences)
    data = data_of(report.write(tmp_path / "r.html", fit, sequences=STUDY.sequences))
    assert data["layers"][0] == []
    assert data["decodedBy"] == "center"
    found = data["sequences"][4]
    expected = fit.model_[int(fit.labels_[found["of"]])].decode([STUDY.sequences[found["of"]]])[1][0]
    assert found["path"] == expected.tolist()


@pytest.mark.parametrize("estimator", [vhem.SampledHEM(2, random_state=0), vhem.PPKClustering(2, length=8)])
def test_the_rivals_have_reports_too(tmp_path, estimator):
    fit = estimator.fit(STUDY.hmms)
    data = data_of(report.write(tmp_path / "r.html", fit, STUDY.hmms))
    assert data["parents"] == [fit.labels_.tolist()]


def test_no_text_becomes_code_and_nothing_outside_is_named(tmp_path):
    hmms = vhem.H3M(list(STUDY.hmms), ids=[EVIL, "a & b", '"quoted"', *STUDY.hmms.ids[3:]])
    fit = vhem.VHEM(2, n_init=1, random_state=0).fit(hmms)
    path = report.write(tmp_path / "r.html", fit, hmms, classes=[EVIL, *CLASSES[1:]], title=EVIL, command=EVIL,
                        warnings=[EVIL, UserWarning(EVIL)], names=[EVIL, "y"])  # fmt: skip
    text = path.read_text(encoding="utf-8")
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert text.count("<script") == text.count("</script>") == 2
    assert data_of(path)["members"]["names"][:3] == [EVIL, "a & b", '"quoted"']
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert re.findall(r"https?://[^\s'\"`]+", text) == ["http://www.w3.org/2000/svg"], "a name, never fetched"


def test_warnings_of_the_run_are_shown(tmp_path):
    import warnings

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        fit = vhem.VHEM(3, n_init=1, max_iter=1, tol=1e-12, random_state=0).fit(STUDY.hmms)
    assert raised
    given = report.write(tmp_path / "a.html", fit, STUDY.hmms, warnings=raised).read_text(encoding="utf-8")
    assert "raise max_iter, or raise tol" in given
    own = report.write(tmp_path / "b.html", fit, STUDY.hmms).read_text(encoding="utf-8")
    assert "stopped after 1 iteration" in own
    calm = report.write(tmp_path / "c.html", FIT, STUDY.hmms).read_text(encoding="utf-8")
    assert "No warnings were raised" in calm


def thousand(d=2, S=3, frames=12):
    rng = np.random.default_rng(0)
    hmms = random_h3m(rng, K=1000, S=S, d=d)
    hmms = vhem.H3M(list(hmms), ids=[f"participant {k:04d}" for k in range(1000)])
    fit = vhem.VHEM(20, n_init=1, max_iter=5, tol=0, random_state=0).fit(hmms)
    sequences = [sequence for hmm in hmms for sequence in hmm.sample(3, frames, rng)]
    return fit, hmms, vhem.Sequences(sequences, groups=np.repeat(hmms.ids, 3))


def test_a_thousand_models_stay_below_five_megabytes(tmp_path):
    fit, hmms, sequences = thousand()
    path = report.write(tmp_path / "r.html", fit, hmms, sequences=sequences, image=simulated_face())
    assert path.stat().st_size < 2e6
    assert len(data_of(path)["sequences"]) == 3000


def test_what_does_not_fit_is_left_out_and_told(tmp_path):
    fit, hmms, sequences = thousand(d=16, S=4, frames=60)
    path = report.write(tmp_path / "r.html", fit, hmms, sequences=sequences)
    data = data_of(path)
    assert 3e6 < path.stat().st_size < 5e6
    assert 0 < len(data["sequences"]) < 3000
    assert f"{len(data['sequences'])} of 3000 sequences are included" in path.read_text(encoding="utf-8")
    small = report.write(tmp_path / "s.html", fit, hmms, sequences=sequences, max_megabytes=1.0)
    assert small.stat().st_size < 1e6
    assert data_of(small)["layers"][0] == []
    assert "own HMMs are not drawn" in small.read_text(encoding="utf-8")


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
def test_numbers_keep_their_digits_whatever_offset_and_unit(tmp_path, offset, scale):
    rng = np.random.default_rng(3)
    base = [random_hmm(rng, d=2) for _ in range(4)]
    hmms = [vhem.HMM(h.startprob, h.transmat, offset + scale * h.means, scale**2 * h.covars) for h in base]
    fit = vhem.VHEM(2, n_init=1, max_iter=2, tol=0, random_state=0).fit(hmms)
    data = data_of(report.write(tmp_path / "r.html", fit, hmms))
    for hmm, shown in zip(hmms, data["layers"][0], strict=True):
        deviation = np.sqrt(hmm.covars[:, 0])
        assert np.all(np.abs(np.array(shown["mean"]) - hmm.means[:, 0]) < 0.02 * deviation)
        np.testing.assert_allclose(shown["sd"], deviation, rtol=1e-3)


def test_missing_values_become_gaps(tmp_path):
    hmms = [random_hmm(np.random.default_rng(k), d=1) for k in range(4)]
    fit = vhem.VHEM(2, n_init=1, max_iter=2, tol=0, random_state=0).fit(hmms)
    data = data_of(report.write(tmp_path / "r.html", fit, hmms, sequences=[[0.0, np.nan, 1.0]] * 4))
    assert data["sequences"][0]["x"] == [[0.0], [None], [1.0]]


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (5, 7, 4)])
def test_arrays_become_the_png_that_other_programs_read(shape):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow reads the image back")
    pixels = np.random.default_rng(0).integers(0, 256, size=shape, dtype=np.uint8)
    for given in (pixels, pixels / 255.0):
        image = embedded(given)
        read = np.asarray(pillow.open(io.BytesIO(base64.b64decode(image.href.split(",")[1]))))
        np.testing.assert_array_equal(read, pixels)
        assert (image.width, image.height) == (7, 5)


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_image_files_are_taken_as_they_are(tmp_path, kind):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow writes the image")
    path = tmp_path / f"picture.{kind}"
    pillow.fromarray(simulated_face()).save(path)
    image = embedded(path)
    assert (image.width, image.height) == (320, 400)
    assert base64.b64decode(image.href.split(",")[1]) == path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"hmms": None}, ValueError, "needs the HMMs that it was fitted to"),
        ({"hmms": STUDY.hmms[:5]}, ValueError, "the fit has 12 inputs, but 5 were given"),
        ({"classes": ["a"]}, ValueError, "classes has 1 entries for 12 members"),
        ({"names": ["x"]}, ValueError, "names has 1 entries, but the HMMs have 2 dimensions"),
        ({"sequences": list(STUDY.sequences)[:5]}, ValueError, "5 sequences for 12 HMMs; say which"),
        ({"sequences": list(STUDY.sequences)[:2], "groups": ["nobody", "viewer 01"]}, ValueError, "'nobody', which is"),
        ({"image": np.zeros(4)}, ValueError, "image must be"),
        ({"extent": (0, 1)}, ValueError, r"extent must be \(left, right, bottom, top\)"),
        ({"image": "nosuch.png"}, FileNotFoundError, r"there is no file nosuch\.png\. Check the name"),
        ({"fit": None}, TypeError, "a report can be written on .*VHEM, .*, got NoneType"),
        ({"path": None}, TypeError, "path must be the name of a file, as text or a Path, got None"),
        ({"max_megabytes": 0}, ValueError, "max_megabytes must be"),
        ({"fit": vhem.HEMGaussianMixture(2).fit(vhem.GMM([0.5, 0.5], [[0.0], [1.0]], [[1.0], [1.0]]))}, TypeError,
         "a report can be written on SequenceClustering, VHEM"),
    ],
)  # fmt: skip
def test_bad_input_is_named(tmp_path, arguments, error, message):
    arguments = {"path": tmp_path / "r.html", "fit": FIT, "hmms": STUDY.hmms, **arguments}
    with pytest.raises(error, match=message):
        report.write(**arguments)
    assert not list(tmp_path.iterdir())


def test_other_files_are_no_images(tmp_path):
    (tmp_path / "x.gif").write_bytes(b"GIF89a......")
    with pytest.raises(ValueError, match=r"x\.gif is neither a PNG nor a JPEG"):
        report.write(tmp_path / "r.html", FIT, STUDY.hmms, image=tmp_path / "x.gif")


def test_states_that_are_alike_have_one_colour():
    def hmm(*means):
        return vhem.HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], np.array(means, float), np.ones((2, 2)))

    centers = vhem.H3M([hmm([0, 0], [9, 0]), hmm([9.5, 0], [0, 9]), hmm([0, 9], [0, 0.5])])
    assert state_colors([centers]) == [[[0, 1], [1, 2], [2, 0]]]
