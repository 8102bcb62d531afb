"""Model files: what is saved comes back to the last bit, and what is broken is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from helpers import random_h3m, random_hmm
from hypothesis import given, settings
from hypothesis import strategies as st

import vhem
from vhem import GMM, H3M, HMM, LinearDynamicalSystem, MixtureOfLDS, ModelFileError, Sequences
from vhem.datasets import simulated_study
from vhem.files import Ids, Kind, describe, register
from vhem.files.container import BLOCK, MAGIC, Container, digest, write

SHAPES = st.fixed_dictionaries(
    {
        "K": st.integers(1, 12),
        "S": st.integers(1, 4),
        "M": st.integers(1, 3),
        "d": st.integers(1, 4),
        "covariance_type": st.sampled_from(["diag", "full"]),
        "ragged": st.booleans(),
        "zeros": st.booleans(),
    }
)
NAMES = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
IDS = st.one_of(NAMES, st.tuples(NAMES, NAMES))


def random_mixture_of_lds(rng, K=3, n=2, d=3):
    def system():
        A, C = 0.3 * rng.normal(size=(n, n)), rng.normal(size=(d, n))
        return LinearDynamicalSystem(A, C, 0.1 * np.eye(n), rng.uniform(0.1, 1, d), rng.normal(size=n))

    weights = rng.dirichlet(np.ones(K))
    return MixtureOfLDS([system() for _ in range(K)], weights / weights.sum(), ids=[f"s{k}" for k in range(K)])


def same_bits(a, b):
    arrays = a.parameters.arrays() | {"weights": a.weights}
    others = b.parameters.arrays() | {"weights": b.weights}
    return a.ids == b.ids and all(x.tobytes() == others[name].tobytes() for name, x in arrays.items())


@settings(max_examples=60)
@given(SHAPES, st.integers(0, 2**31), st.data())
def test_mixtures_come_back_to_the_last_bit(tmp_path_factory, shape, seed, data):
    path = tmp_path_factory.mktemp("files") / "mixture.vhem"
    h3m = random_h3m(np.random.default_rng(seed), **shape)
    h3m = H3M(list(h3m), h3m.weights, data.draw(st.lists(IDS, min_size=len(h3m), max_size=len(h3m))))
    h3m.save(path)
    again = vhem.load(path)
    assert same_bits(again, h3m)
    assert [type(name) for name in again.ids] == [type(name) for name in h3m.ids]
    index = data.draw(st.lists(st.integers(-len(h3m), len(h3m) - 1), min_size=1, max_size=20))
    assert same_bits(vhem.load(path, index), h3m[index])
    assert vhem.load(path, index[0]) == h3m[index[0]]
    subset = h3m[index]  # padded beyond its own needs, weights divided by their sum
    subset.save(path)
    assert same_bits(vhem.load(path), subset)
    with pytest.raises(ValueError, match="read-only"):
        again.means[:] = 0.0


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: x[..., ::-1][..., ::-1], lambda x: x.astype(">f8")])
def test_memory_layout_does_not_matter(tmp_path, layout):
    """A known fault of another format: arrays that are not contiguous came back in another order."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(5, 3, 4)), rng.normal(size=(7, 2)).T, np.zeros((0, 3))]
    write(tmp_path / "things", {}, [*map(layout, arrays), np.array(2.5)])
    with Container(tmp_path / "things") as file:
        for k, array in enumerate([*arrays, np.array(2.5)]):
            assert file.read(k).shape == array.shape
            np.testing.assert_array_equal(file.read(k), array)
        np.testing.assert_array_equal(file.read(0, np.array([3, 0, 3])), arrays[0][[3, 0, 3]])


def test_other_models(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "model.vhem"
    lds = random_mixture_of_lds(rng)
    sequences = Sequences([[1.0, np.nan], [2.0]], ids=["a", ("b", 1)], groups=["g", None])
    for model in (random_hmm(rng, M=2), GMM([0.3, 0.7], [[0.0], [1.0]], [[1.0], [2.0]]), lds, lds[1], sequences):
        model.save(path)
        again = vhem.load(path)
        assert again == model
        assert type(again) is type(model)
    lds.save(path)
    assert vhem.load(path, [2, 0]) == lds[[2, 0]]
    assert vhem.load(path, [2, 0]).ids == ["s2", "s0"]


def fitted_estimators():
    study = simulated_study(n_viewers=12, n_trials=3)
    hmms, some = study.hmms, study.sequences[:12]
    yield vhem.VHEM(3, random_state=0).fit(hmms)
    yield vhem.VHEM(3, init=hmms[:3], random_state=np.random.default_rng(0), callback=print, max_iter=0, tol=0).fit(
        hmms
    )
    yield vhem.HierarchicalVHEM(levels=(4, 2), n_trees=1, random_state=0).fit(hmms)
    yield vhem.MixtureOfHMMs(2, n_states=2, random_state=0).fit(some)
    yield vhem.SampledHEM(2, random_state=0).fit(hmms)
    yield vhem.PPKClustering(2, length=5, random_state=0).fit(hmms)
    yield vhem.HEMGaussianMixture(2, random_state=0).fit(GMM([0.5, 0.3, 0.2], np.eye(3), np.ones((3, 3))))
    yield vhem.DynamicTextureMixture(2, n_states=1, random_state=0).fit(some)
    yield vhem.HEMDynamicTextures(2, random_state=0).fit(random_mixture_of_lds(np.random.default_rng(0), K=5))


def assert_equal(a, b):
    b = b.item() if isinstance(b, np.generic) else b  # NumPy's numbers become Python's
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif hasattr(a, "get_params") or hasattr(a, "layers"):
        fitted = [name for name in vars(a) if not name.startswith("_") and name not in ("random_state", "callback")]
        for name in fitted:
            assert_equal(getattr(a, name), getattr(b, name))
    else:
        assert a == b


@pytest.mark.filterwarnings("ignore")
def test_fitted_estimators_come_back_as_they_were(tmp_path):
    for estimator in fitted_estimators():
        estimator.save(tmp_path / "fit.vhem")
        again = vhem.load(tmp_path / "fit.vhem")
        assert_equal(again, estimator)
        if isinstance(estimator, vhem.VHEM):
            hmms = simulated_study(n_viewers=12, n_trials=3).hmms
            np.testing.assert_array_equal(again.predict_proba(hmms), estimator.predict_proba(hmms))
        if isinstance(estimator, vhem.HierarchicalVHEM):
            assert again.tree_.to_json() == estimator.tree_.to_json()


def test_arrays_shared_by_parts_are_stored_once(tmp_path):
    hmms = simulated_study(n_viewers=200, n_trials=1).hmms
    tree = vhem.estimators.cluster_tree.Tree(hmms, [hmms[:2], hmms[:2]], [np.zeros(200, int), np.zeros(2, int)])
    tree.save(tmp_path / "tree.vhem")
    hmms.save(tmp_path / "hmms.vhem")
    sizes = [(tmp_path / name).stat().st_size for name in ("tree.vhem", "hmms.vhem")]
    assert sizes[0] < 1.5 * sizes[1]


def test_what_made_it(tmp_path):
    path = tmp_path / "model.vhem"
    hmms = simulated_study().hmms
    about = {"settings": {"n_states": 3, "tol": 1e-4, "levels": (4, 2), "worst": -np.inf}, "data": "faces.csv"}
    hmms.save(path, feature_names=["x", "y"], about=about)
    found = describe(path)
    assert found.kind == "H3M"
    assert found.n_members == 40
    assert found.feature_names == ["x", "y"]
    assert found.about == about
    assert found.vhem_version == vhem.__version__
    assert found.n_bytes == path.stat().st_size
    first = path.read_bytes()
    vhem.load(path).save(path, feature_names=["x", "y"], about=about)
    assert path.read_bytes() == first, "equal models make equal files"
    with pytest.raises(ValueError, match="feature_names has 1 names for 2 dimensions"):
        hmms.save(path, feature_names=["x"])


def test_what_cannot_be_kept_is_named(tmp_path):
    hmm = random_hmm(np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"H3M\.ids\[1\] is a object, which model files cannot store"):
        H3M([hmm, hmm], ids=["a", object()]).save(tmp_path / "m")
    with pytest.raises(TypeError, match=r"about\['when'\] is a date, which model files cannot store"):
        hmm.save(tmp_path / "m", about={"when": np.datetime64("2024-01-01")})
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        hmm.save(tmp_path / "no" / "m")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        hmm.save(tmp_path)
    assert not list(tmp_path.iterdir())
    hmm.save(tmp_path / "m")
    with pytest.raises(TypeError, match="cannot be loaded in part"):
        vhem.load(tmp_path / "m", 0)


def test_save_as_a_function(tmp_path):
    h3m = random_h3m(np.random.default_rng(0), d=2)
    vhem.save(h3m, tmp_path / "m.vhem", feature_names=["x", "y"], about={"room": 7})
    assert vhem.load(tmp_path / "m.vhem") == h3m
    assert describe(tmp_path / "m.vhem").feature_names == ["x", "y"]
    assert describe(tmp_path / "m.vhem").about["room"] == 7
    h3m.save(tmp_path / "method.vhem", feature_names=["x", "y"], about={"room": 7})
    assert (tmp_path / "m.vhem").read_bytes() == (tmp_path / "method.vhem").read_bytes()
    with pytest.raises(TypeError, match="dict objects cannot be saved; models, mixtures and fitted estimators can"):
        vhem.save({}, tmp_path / "no.vhem")
    assert not (tmp_path / "no.vhem").exists()


def test_an_interrupted_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.vhem"
    old, new = (random_h3m(np.random.default_rng(seed), K=3000) for seed in (0, 1))
    old.save(path)

    script = f"""
import sys, vhem
def stop(event, _):
    if event == "os.rename": raise KeyboardInterrupt
model = vhem.load({str(path)!r}, slice(0, 2))
sys.addaudithook(stop)
model.save({str(path)!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert vhem.load(path) == old
    assert [p.name for p in tmp_path.iterdir()] == ["m.vhem"]
    new.save(path)
    assert vhem.load(path) == new


def test_a_part_of_a_large_file_reads_little(tmp_path):
    """10 of 100,000 HMMs: counted in bytes, since seconds depend on the machine."""
    rng = np.random.default_rng(0)
    K = 100_000
    trans = rng.dirichlet(np.ones(3), size=(K, 3))
    h3m = H3M.from_arrays(
        *(np.full((K, 3), 1 / 3), trans, rng.normal(size=(K, 3, 2)), np.ones((K, 3, 2))),
        ids=[f"viewer {k}" for k in range(K)],
    )
    path = tmp_path / "large.vhem"
    h3m.save(path)
    size = path.stat().st_size
    assert size > 20e6
    tracemalloc.start()
    part = vhem.load(path, slice(50_000, 50_010))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert same_bits(part, h3m[50_000:50_010])
    assert peak < 0.1 * size
    # A fault elsewhere does not matter to the part; one in it does.
    raw = bytearray(path.read_bytes())
    raw[size // 2] ^= 1
    path.write_bytes(raw)
    outcomes = set()
    for begin in (0, 99_000):
        assert len(vhem.load(path, slice(begin, begin + 10))) == 10
    for begin in range(0, K, 1000):
        try:
            outcomes.add(len(vhem.load(path, slice(begin, begin + 1000))))
        except ModelFileError as error:
            outcomes.add(error.reason)
    assert outcomes == {1000, "corrupted"}


@pytest.fixture(scope="module")
def good_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.vhem"
    h3m = random_h3m(np.random.default_rng(0), K=300, S=3, M=2, d=3, ragged=True)
    H3M(list(h3m), h3m.weights, [f"viewer {k}" for k in range(300)]).save(path, ["a", "b", "c"], {"n": 1})
    assert path.stat().st_size > 2 * BLOCK
    return path


def outcome(path, read=vhem.load):
    """Return the model, or the reason why there is none."""
    try:
        return read(path)
    except ModelFileError as error:
        return error.reason if str(path) in str(error) else "nameless"


@pytest.fixture(scope="module")
def good_tree(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "tree.vhem"
    hmms = simulated_study(n_viewers=8, n_trials=1).hmms
    vhem.HierarchicalVHEM(levels=(4, 2), n_trees=1, n_init=1, random_state=0).fit(hmms).tree_.save(path)
    return path


@pytest.mark.parametrize(("name", "n_trials"), [("good_file", 2500), ("good_tree", 2500)])
def test_fuzz(name, n_trials, tmp_path, request):
    """Bytes flipped, cut, dropped, doubled and zeroed: an error every time, never other numbers."""
    rng = np.random.default_rng(0)
    good = request.getfixturevalue(name)
    raw, whole = good.read_bytes(), vhem.load(good)
    path = tmp_path / "broken.vhem"
    reasons = []
    for trial in range(n_trials):
        broken = bytearray(raw)
        # Half of the faults in the first KiB, where the lengths are.
        place = int(rng.integers(1024 if trial % 2 else len(raw)))
        size = int(rng.integers(1, 200))
        match trial % 6:
            case 0 | 1:
                broken[place] ^= 1 << int(rng.integers(8))
            case 2:
                del broken[place:]
            case 3:
                del broken[place : place + size]
            case 4:
                broken[place:place] = broken[place : place + size]
            case 5:
                broken[place : place + size] = bytes(len(broken[place : place + size]))
        path.write_bytes(broken)
        if trial % 50 == 0:
            tracemalloc.start()
        found = outcome(path)
        if trial % 50 == 0:
            assert tracemalloc.get_traced_memory()[1] < 20 * len(raw) + 1e5
            tracemalloc.stop()
        if isinstance(found, str):
            reasons.append(found)
        else:
            assert bytes(broken) == raw
            assert_equal(found, whole)
    assert set(reasons) == {"truncated", "corrupted", "foreign"}
    assert len(reasons) > 0.8 * n_trials


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (b"", "foreign", "is empty"),
        (b"PK\x03\x04rest", "foreign", "a zip archive, such as npz"),
        (b"\x80\x05pickle", "foreign", "a pickle, which may run any code and is never loaded"),
        (b"MATLAB 5.0 MAT-file", "foreign", "from_emhmm"),
        (b"id,x,y\n1,2,3\n", "foreign", "does not begin like one"),
        (MAGIC.replace(b"\r\n", b"\n") + bytes(99), "foreign", "Copy it in binary mode"),
        (MAGIC + b"123", "truncated", "truncated: 11 bytes"),
    ],
)
def test_foreign_files(tmp_path, content, reason, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        vhem.load(path)
    assert caught.value.reason == reason


def test_newer_files(tmp_path, good_file):
    raw = bytearray(good_file.read_bytes())
    raw[8] = 2
    raw[48:64] = digest(bytes(raw[:48]))
    (tmp_path / "newer").write_bytes(raw)
    with pytest.raises(ModelFileError, match=r"has format 2, made by a newer vhem; this one reads up to 1") as caught:
        vhem.load(tmp_path / "newer")
    assert caught.value.reason == "newer"
    write(tmp_path / "kind", {"vhem": "9.0", "content": {"kind": "Quilt", "content": {}}}, [])
    with pytest.raises(ModelFileError, match=r"holds a 'Quilt', which vhem .* does not know.*by vhem 9\.0"):
        vhem.load(tmp_path / "kind")


def test_two_kinds_of_one_name_are_refused():
    with pytest.raises(ValueError, match="already a kind 'HMM'"):
        register(Kind("HMM", Ids, dict, list))


def test_drafts_of_killed_saves_are_removed(tmp_path):
    hmm = HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    stale, fresh, other = (tmp_path / name for name in (".m[1].0aef.tmp", ".m[1].1bcd.tmp", ".other.0aef.tmp"))
    for draft in (stale, fresh, other):
        draft.write_text("half a model")
    for draft in (stale, other):
        os.utime(draft, (0, 0))
    hmm.save(tmp_path / "m[1]")
    assert {path.name for path in tmp_path.iterdir()} == {"m[1]", fresh.name, other.name}


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "large.vhem"
    script = f"""
import resource, numpy, vhem
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
vhem.Sequences([numpy.zeros((100_000, 2))]).save({str(path)!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"cannot write: File too large: {str(path)!r}" in done.stderr
    assert not list(tmp_path.iterdir())


def test_modes_and_links_are_kept(tmp_path):
    path, link = tmp_path / "m", tmp_path / "link"
    hmm = HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    hmm.save(path)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    os.chmod(path, 0o640)
    link.symlink_to(path)
    hmm.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
