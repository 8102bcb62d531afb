"""Model files that somebody made to do harm, with right checksums: refused in a sentence, in little memory."""

from __future__ import annotations

import contextlib
import copy
import json
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from old_files.make import NUMBERS

import vhem
from vhem import H3M, HMM, ModelFileError
from vhem.files import describe
from vhem.files.container import digest, write

FILES = Path(__file__).parent / "old_files"


def header_of(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[16:24])[0]
    return json.loads(raw[64 : 64 + length]), raw[64 + length :]


def forge(path, header, rest):
    """Write a header, which may be text, before table and data, with right checksums."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    raw = bytes.fromhex("89 56 48 45 4d 0d 0a 1a 01 00 00 00 00 00 00 00")
    prelude = raw + struct.pack("<QQ", len(text), 64 + len(text) + len(rest)) + digest(text)
    path.write_bytes(prelude + digest(prelude) + text + rest)
    return path


def outcome(path, read=vhem.load):
    """Return what is read, or the reason why nothing is."""
    try:
        return read(path)
    except ModelFileError as error:
        return error.reason if str(error).startswith(str(path)) else "nameless"


def places(node, path=()):
    """Yield the way to every node of a header."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def changed(header, way, value):
    out = copy.deepcopy(header)
    node = out
    for key in way[:-1]:
        node = node[key]
    node[way[-1]] = value
    return out


ODD = st.one_of(
    st.sampled_from([None, True, 0, -1, 2**63, 10**400, 1e300, float("inf"), float("nan"), "", "x", [], {}]),
    st.sampled_from([{"float": []}, {"float": "one"}, {"float": "nan"}, {"map": {}}, {"list": []}, {"tuple": []}]),
    st.builds(lambda k: {"array": k}, st.sampled_from([-1, 0, 1, 2, 5, 99, True, "0", [0], 10**30])),
    st.builds(lambda k, m: {"ids": [k, m]}, st.integers(-1, 6), st.sampled_from([-1, 0, 1, 2, 99, "0", None])),
    st.builds(lambda n: {"range": n}, st.sampled_from([-1, 0, 1, 2, 6, 10**6, 10**30, 1.0])),
    st.builds(lambda kind: {"kind": kind, "content": {}}, st.sampled_from([*NUMBERS, "Quilt", 3])),
)


def at(header, way):
    for key in way:
        header = header[key]
    return header


@settings(max_examples=300)
@given(kind=st.sampled_from(list(NUMBERS)), data=st.data())
def test_whatever_a_header_says(tmp_path_factory, kind, data):
    """One node of a sound header is replaced: the file is refused, or what was loaded works or says what is wrong."""
    header, rest = header_of(FILES / f"{kind}.vhem")
    ways = [way for way in places(header) if way and "params" not in way]  # parameters may be anything in Python too
    way = data.draw(st.sampled_from(ways))
    odd = data.draw(ODD if data.draw(st.booleans()) else st.sampled_from(ways).map(lambda way: at(header, way)))
    path = forge(tmp_path_factory.getbasetemp() / "forged.vhem", changed(header, way, odd), rest)
    model = outcome(path)
    assert "nameless" not in (outcome(path, describe), model), "an error must name the file"
    if not isinstance(model, str) and (not hasattr(model, "get_params") or "labels_" in vars(model)):
        with contextlib.suppress(ValueError):
            NUMBERS[type(model).__name__](model)


HEADERS = st.recursive(
    st.one_of(st.none(), st.integers(-3, 99), st.text(max_size=3), st.sampled_from(["H3M", "HMM", "Tree", "VHEM"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["kind", "content", "array", "map", "list", "ids", "range", "weights", "means"]), inner
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@example({"map": {}, "content": {}, "kind": "H3M"}, None)
@given(HEADERS, HEADERS)
def test_headers_made_by_others_are_refused(tmp_path_factory, content, about):
    """Checksums are right, but the header says nothing sensible."""
    path = tmp_path_factory.getbasetemp() / "crafted.vhem"
    write(path, {"vhem": "0", "content": content, "about": about}, [np.zeros(3), np.zeros((2, 2), dtype=np.int64)])
    assert outcome(path) in ("corrupted", "newer")
    outcome(path, describe)  # no other error is raised
    with contextlib.suppress(TypeError):  # "no part can be loaded"
        outcome(path, lambda p: vhem.load(p, 0))


def lying(path, changes):
    """Write a file with right checksums whose header lies."""
    HMM([1.0], [[1.0]], [[0.0]], [[1.0]]).save(path)
    header, rest = header_of(path)
    return forge(path, {**header, **changes(header)}, rest)


def first_array(*entry):
    return lambda header: {"arrays": [list(entry), *header["arrays"][1:]]}


@pytest.mark.parametrize(
    "changes",
    [
        first_array("<f8", [10**12], 0),
        first_array("<f8", [1, -1], 0),
        first_array("<f8", [1], -64),
        first_array("<f8", [1], 13),
        first_array("<f8", [1], 10**6),
        first_array("|O", [1], 0),
        first_array("<f8"),
        lambda _: {"arrays": 3},
        lambda _: {"arrays": []},
        lambda _: {"data_bytes": 10**15},
        lambda _: {"data_bytes": "many"},
        lambda _: {"data_bytes": 64},
        lambda _: {"table_digest": None},
        lambda _: {"content": {"range": 10**12}},
        lambda _: {"content": [1, 2]},
    ],
)
def test_lying_headers(tmp_path, changes):
    assert outcome(lying(tmp_path / "truth", lambda _: {})) == HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    assert outcome(lying(tmp_path / "lie", changes)) == "corrupted"


def test_a_sound_file_of_nonsense(tmp_path):
    """A file with right checksums whose numbers are no HMM is refused with the reason."""
    path = tmp_path / "nonsense"
    content = {name: {"array": k} for k, name in enumerate(("startprob", "transmat", "means", "covars", "mix_weights"))}
    arrays = [np.array([0.5, 0.5]), np.full((2, 2), 0.7), np.zeros((2, 1, 1)), np.ones((2, 1, 1)), np.ones((2, 1))]
    write(path, {"vhem": "0", "content": {"kind": "HMM", "content": content}}, arrays)
    with pytest.raises(ModelFileError, match=r"not a valid HMM \(InputError.*transmat sums to 1.4"):
        vhem.load(path)


def peak_of_loading(path, read=vhem.load):
    tracemalloc.start()
    try:
        return outcome(path, read), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ids_that_overlap_are_refused(tmp_path):
    """A few letters, of which every one of many ids takes all."""
    n, text = 20_000, b'"' + b"a" * 200_000 + b'"'
    spans = np.tile(np.array([0, len(text)]), (n, 1))
    content = {"X": {"array": 0}, "lengths": {"array": 1}, "ids": {"ids": [2, 3]}, "groups": None}
    arrays = [np.zeros((n, 1)), np.ones(n, dtype=np.int64), spans, np.frombuffer(text, np.uint8)]
    write(tmp_path / "m", {"vhem": "0", "content": {"kind": "Sequences", "content": content}, "about": {}}, arrays)
    found, peak = peak_of_loading(tmp_path / "m")
    assert found == "corrupted"
    assert peak < 10e6
    H3M([HMM([1.0], [[1.0]], [[0.0]], [[1.0]])] * 3, ids=["a", "b", "c"]).save(tmp_path / "h3m")
    header, rest = header_of(tmp_path / "h3m")
    (k, _) = header["content"]["content"]["ids"]["ids"]
    begin = len(rest) - header["data_bytes"] + header["arrays"][k][2]
    crafted = bytearray(rest)
    crafted[begin : begin + 48] = np.tile([0, 9], 3).astype("<i8").tobytes()
    crafted[:16] = digest(crafted[64:])
    header["table_digest"] = digest(crafted[:64]).hex()
    forge(tmp_path / "h3m", header, bytes(crafted))
    assert outcome(tmp_path / "h3m") == outcome(tmp_path / "h3m", lambda path: vhem.load(path, [0, 2])) == "corrupted"


@pytest.mark.parametrize(
    "about",
    [
        {"list": [{"array": 0}] * 5000},
        {"list": [{"kind": "Sequences", "content": {"X": {"array": 0}, "lengths": {"array": 1}}}] * 5000},
        {"list": [{"range": 100_000}] * 5000},
        {"list": [{"ids": [2, 3]}] * 5000},
    ],
    ids=["arrays", "sequences", "ranges", "ids"],
)
def test_a_small_file_stands_for_little(tmp_path, about):
    names = [b"%07d" % (10**6 + k) for k in range(20_000)]
    spans = np.arange(20_000)[:, None] * 7 + [0, 7]
    arrays = [np.zeros((100_000, 1)), np.full(1, 100_000), spans, np.frombuffer(b"".join(names), np.uint8)]
    path = tmp_path / "m"
    write(path, {"vhem": "0", "content": {"kind": "HMM", "content": {}}, "about": about}, arrays)
    found, peak = peak_of_loading(path, describe)
    assert found == "corrupted"
    assert peak < 40 * path.stat().st_size


def test_arrays_that_overlap_are_refused(tmp_path):
    def many_of_one(header):
        return {"arrays": header["arrays"] + [header["arrays"][0]]}

    assert outcome(lying(tmp_path / "m", many_of_one)) == "corrupted"


def test_an_array_that_is_shared_by_many_can_be_saved(tmp_path):
    shared = np.arange(1000.0)
    HMM([1.0], [[1.0]], [[0.0]], [[1.0]]).save(tmp_path / "m", about={"many": [shared] * 100})
    assert all(np.array_equal(array, shared) for array in describe(tmp_path / "m").about["many"])
    assert (tmp_path / "m").stat().st_size < 10 * shared.nbytes


@pytest.mark.parametrize(
    "text",
    [b'{"a": Infinity}', b'{"a": NaN}', b"1" * 5000, b'{"arrays": [["<f8", [1e400], 0]]}', b"[" * 100_000, b"\xff"],
    ids=["infinity", "nan", "huge integer", "huge size", "nested", "not text"],
)
def test_headers_that_are_not_json(tmp_path, text):
    assert outcome(forge(tmp_path / "m", text, b"")) == "corrupted"


def test_headers_that_are_nested_deeply(tmp_path):
    node = 0
    for _ in range(400):
        node = {"list": [node]}
    write(tmp_path / "m", {"vhem": "0", "content": node, "about": node}, [])
    assert outcome(tmp_path / "m", describe) in ("corrupted",)


@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if hasattr(getattr(vhem, kind, None), "fit")])
def test_fitted_attributes_are_checked(tmp_path, kind):
    """Every attribute that an estimator learns, taken away or replaced by text, is missed when it is loaded."""
    header, rest = header_of(FILES / f"{kind}.vhem")
    fitted = header["content"]["content"]["fitted"]["map"]
    optional = {"n_features_in_", "n_empty_", "n_floored_", "n_held_back_"}
    for name in set(fitted) - optional:
        out = changed(header, ("content", "content", "fitted", "map", name), "text")
        assert outcome(forge(tmp_path / "m", out, rest)) == "corrupted", name
        del out["content"]["content"]["fitted"]["map"][name]
        assert outcome(forge(tmp_path / "m", out, rest)) == "corrupted" or kind == "HMMTransformer", name


def test_arrays_of_a_loaded_estimator_can_be_written_to(tmp_path):
    fit = vhem.load(FILES / "VHEM.vhem")
    fit.labels_[0] = 7
    fit.responsibilities_ *= 0.5
    assert not fit.centers_.means.flags.writeable


def test_an_unfinished_fit_is_not_saved(tmp_path):
    fit = vhem.load(FILES / "VHEM.vhem")
    del fit.centers_
    with pytest.raises(ValueError, match=r"this VHEM lacks centers_: its fit did not finish\. Fit it, then save it"):
        fit.save(tmp_path / "m")
