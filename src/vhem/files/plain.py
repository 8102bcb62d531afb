"""Models as plain npz and JSON, for programs in other languages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from vhem._support.docstrings import sharing
from vhem._support.errors import InputError
from vhem._support.paths import existing_file
from vhem._support.version import VERSION
from vhem.emissions import Gaussian
from vhem.files.atomic import atomic_write
from vhem.files.description import FileDescription, checked_names
from vhem.models import H3M, HMM

_LARGEST_UNFOLDED = 200  # times the size of the file
_ARRAYS = ("startprob", "transmat", "mix_weights", *Gaussian.fields, "n_states")
_MADE_BY = f"vhem {VERSION}"
_HMM = ("startprob", "transmat", "mix_weights", "means", "covars")


_written = sharing(
    parameters="""\
Parameters
----------
model : H3M or HMM
    The model; an HMM is written as an H3M of one.
path : str or Path
    The file.
feature_names : list of str, optional
    Names of the dimensions.
about : dict, optional
    How it was made: settings, data, anything of numbers and text. `vhem.files.describe` and `vhem info` show it."""
)


@_written
def to_npz(
    model: H3M | HMM, path: str | Path, feature_names: Iterable[str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Write an H3M as NumPy's npz: arrays weights, startprob, transmat, mix_weights, means, covars, n_states, ids.

    <parameters>

    Notes
    -----
    Shapes are those of :class:`H3M`, padded if HMMs differ in size. Ids that are neither all integers nor all text
    become text. Further arrays: made_by and about (JSON) say how the file was made, feature_names what the dimensions
    are.

    Examples
    --------
    >>> import tempfile, vhem
    >>> path = tempfile.mkdtemp() + "/hmm.npz"
    >>> hmm = vhem.HMM([1.0], [[1.0]], means=[[2.0]], covars=[[0.5]])
    >>> vhem.files.to_npz(hmm, path)
    >>> vhem.files.from_npz(path)[0].covars.ravel()
    array([0.5])
    """
    h3m = H3M([model]) if isinstance(model, HMM) else model
    integers = all(type(name) is int for name in h3m.ids)
    ids = np.array(h3m.ids if integers else [str(name) for name in h3m.ids])
    arrays: dict[str, Any] = {"weights": h3m.weights, "ids": ids, **h3m.parameters.arrays()}
    arrays |= {"made_by": np.array(_MADE_BY), "about": np.array(_as_json(about or {}))}
    names = checked_names(h3m, feature_names)
    if names is not None:
        arrays["feature_names"] = np.array(names, dtype=str)
    with atomic_write(path) as file:
        np.savez(file, **arrays)


def from_npz(path: str | Path) -> H3M:
    """Read an H3M from an npz file with arrays as `to_npz` writes them.

    weights, mix_weights, n_states and ids may be missing, as in `H3M.from_arrays`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "hmms.npz"
    >>> np.savez(path, startprob=np.ones((1, 1)), transmat=np.ones((1, 1, 1)), means=[[[2.0]]], covars=[[[1.0]]])
    >>> from_npz(path)[0].means.ravel()
    array([2.])
    """
    arrays = _arrays(path, {*_ARRAYS, "weights", "ids"})
    missing = {"startprob", "transmat", "means", "covars"} - set(arrays)
    if missing:
        raise InputError(
            "{path} lacks the arrays {names}, so it does not hold an H3M",
            path=path, names=", ".join(sorted(missing)),
        )  # fmt: skip
    try:
        return H3M.from_arrays(**arrays)
    except (TypeError, ValueError) as fault:
        raise InputError("{path}: {fault}", path=path, fault=fault) from None


def describe_npz(path: str | Path) -> FileDescription:
    """Return what an npz file says about the H3M in it."""
    arrays = _arrays(path, {"made_by", "about", "feature_names", "startprob"})
    names = arrays["feature_names"].tolist() if "feature_names" in arrays else None
    text = str(arrays.get("about", "{}"))
    try:
        about = json.loads(text)
    except ValueError:
        raise InputError("{path}: its array 'about' is not JSON: {text!r}", path=path, text=text[:80]) from None
    members = len(arrays["startprob"]) if arrays.get("startprob", np.array(0)).ndim else None
    return _description(path, {"made_by": str(arrays.get("made_by", "")), "about": about, "names": names}, members)


def _arrays(path: str | Path, wanted: set[str]) -> dict[str, Any]:
    place = existing_file(path)
    try:
        with place.open("rb") as stream, np.load(stream, allow_pickle=False) as file:  # NumPy leaves broken ones open
            _check_size(place, file.zip)
            return {name: file[name] for name in file.files if name in wanted}
    except Exception as fault:  # zipfile and zlib have their own errors
        raise InputError("{path} cannot be read as npz: {fault}", path=path, fault=fault) from None


def _check_size(path: Path, archive: ZipFile) -> None:
    """Refuse an archive that claims to unpack to far more than compressed numbers do."""
    size, most = sum(entry.file_size for entry in archive.infolist()), _LARGEST_UNFOLDED * path.stat().st_size
    if size > most:
        raise InputError(
            "it unpacks to {size:,} bytes, more than {limit} times its size",
            size=size, limit=_LARGEST_UNFOLDED,
        )  # fmt: skip


def _description(path: str | Path, found: dict[str, Any], members: int | None) -> FileDescription:
    about, names = found["about"], found["names"]
    if not isinstance(about, dict):
        raise InputError("{path}: 'about' must hold named values, got {text!r}", path=path, text=str(about)[:80])
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(
            "{path}: 'feature_names' must be a list of text, got {text!r}",
            path=path, text=str(names)[:80],
        )  # fmt: skip
    program, _, version = str(found["made_by"]).partition(" ")
    size = Path(path).stat().st_size
    return FileDescription("H3M", names, about, version if program == "vhem" else None, 1, size, members)


def _as_json(value: Any) -> str:
    """Return JSON; arrays become lists, and what JSON does not have becomes text."""
    return json.dumps(value, ensure_ascii=False, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))


@_written
def to_json(
    model: H3M | HMM, path: str | Path, feature_names: Iterable[str] | None = None, about: dict[str, Any] | None = None
) -> None:
    """Write an H3M as JSON: {"weights": […], "hmms": [{"id": …, "startprob": […], "transmat": [[…]], …}, …]}.

    <parameters>

    Notes
    -----
    Each HMM has startprob (S), transmat (S, S), mix_weights (S, M), means (S, M, d) and covars (S, M, d) or
    (S, M, d, d), without padding. Numbers are written so that reading gives the same bits. "made_by" and "about" say
    what made the file, "feature_names" what the dimensions are.

    Examples
    --------
    >>> import tempfile, vhem
    >>> path = tempfile.mkdtemp() + "/hmm.json"
    >>> hmm = vhem.HMM([1.0], [[1.0]], means=[[2.0]], covars=[[0.5]])
    >>> vhem.files.to_json(hmm, path)
    >>> vhem.files.from_json(path)[0].means.ravel()
    array([2.])
    """
    h3m = H3M([model]) if isinstance(model, HMM) else model
    hmms = [
        {"id": name if isinstance(name, (int, str)) else str(name), **{key: getattr(hmm, key).tolist() for key in _HMM}}
        for name, hmm in zip(h3m.ids, h3m, strict=True)
    ]
    content = {
        "format": "vhem H3M",
        "made_by": _MADE_BY,
        "about": json.loads(_as_json(about or {})),
        "covariance_type": h3m.covariance_type,
        "feature_names": checked_names(h3m, feature_names),
        "weights": h3m.weights.tolist(),
        "hmms": hmms,
    }
    with atomic_write(path, "w") as file:
        json.dump(content, file, ensure_ascii=False)


def from_json(path: str | Path) -> H3M:
    """Read an H3M from JSON as `to_json` writes it.

    weights, ids and mix_weights may be missing, and means and covars may be without the axis of components.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "hmms.json"
    >>> hmm = '{"startprob": [1], "transmat": [[1]], "means": [[2]], "covars": [[0.5]]}'
    >>> path.write_text('{"hmms": [%s]}' % hmm) > 0
    True
    >>> from_json(path)[0].means.ravel()
    array([2.])
    """
    content = _content(path)
    try:
        hmms = [HMM(**{key: hmm[key] for key in _HMM if key in hmm}) for hmm in content["hmms"]]
        ids = [hmm.get("id", k) for k, hmm in enumerate(content["hmms"])]
        return H3M(hmms, content.get("weights"), ids)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as fault:
        why = f"{fault} is missing" if isinstance(fault, KeyError) else fault
        raise InputError("{path} is not an H3M in JSON: {why}", path=path, why=why) from None


def describe_json(path: str | Path) -> FileDescription:
    """Return what a JSON file says about the H3M in it."""
    content = _content(path)
    if not isinstance(content, dict) or not isinstance(content.get("hmms"), list):
        raise InputError("{path} is not an H3M in JSON: 'hmms' is missing", path=path)
    names = content.get("feature_names")
    found = {"made_by": content.get("made_by", ""), "about": content.get("about", {}), "names": names}
    return _description(path, found, len(content["hmms"]))


def _content(path: str | Path) -> Any:
    place = existing_file(path)
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise InputError("{path} is not an H3M in JSON: {fault}", path=path, fault=fault) from None
