"""Music with tags: features of GTZAN, and CAL500, from a folder of audio or as features of the songs' first seconds.

GTZAN has no licence, and its author holds no rights in the recordings: features for research only. Cite: G. Tzanetakis,
P. Cook, "Musical genre classification of audio signals", IEEE Transactions on Speech and Audio Processing 10(5), 2002;
B. L. Sturm, "An analysis of the GTZAN music genre dataset", MIRUM 2012 (artists); U. Marchand, G. Peeters, "Swing ratio
estimation", DAFx 2015 (tempo, swing, metre); C. Kereliuk, B. L. Sturm, J. Larsen, "Deep learning and music
adversaries", IEEE Transactions on Multimedia 17(11), 2015 (the split by artist).

CAL500 is copyright University of California San Diego, 2007, and may be copied for nonprofit educational and research
purposes with that notice, by permission of the Computer Audition Laboratory; it is not part of this package. Cite: D.
Turnbull, L. Barrington, D. Torres, G. Lanckriet, "Towards musical query-by-semantic-description using the CAL500 data
set", SIGIR 2007.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.datasets.folder import find_data
from vhem.sequences import Sequences

_GTZAN = (
    "There is no download: the recordings are not free. If you have GTZAN's audio, make features of it with "
    "vhem.audio.mfcc and save X, lengths, track, tags, tag_names and split (train, valid, test or none) as "
    "gtzan_mfcc/gtzan_mfcc.npz."
)
_CAL500 = (
    "There is no download: CAL500 is distributed by the Computer Audition Laboratory of UC San Diego. If you have its "
    "audio, call load_cal500(folder) with the folder that holds it and its annotation files."
)
_ANNOTATIONS = ("songNames.txt", "vocab.txt", "hardAnnotations.txt")
_AUDIO = (".wav", ".flac", ".ogg", ".mp3")


class MusicData(NamedTuple):
    """Songs as sequences of features, and their tags."""

    songs: Sequences
    tags: npt.NDArray[np.bool_]  #: (n, V)
    tag_names: list[str]
    split: npt.NDArray[np.str_] | None = None  #: "train", "valid", "test" or "none", if the set has a split
    soft_tags: FloatArray | None = None  #: (n, V) share of listeners who gave the tag

    def often_used(self, n_songs: int) -> MusicData:
        """Return the same data with only the tags that at least `n_songs` songs have."""
        kept = np.flatnonzero(self.tags.sum(axis=0) >= n_songs)
        soft = None if self.soft_tags is None else self.soft_tags[:, kept]
        return self._replace(tags=self.tags[:, kept], tag_names=[self.tag_names[k] for k in kept], soft_tags=soft)


def load_gtzan_features() -> MusicData:
    """Load 13 MFCC with first and second differences of GTZAN's 1000 clips, 46 ms per frame, and 17 tags.

    Returns
    -------
    MusicData
        Ten genres, three ranges of tempo, swing, ternary metre, major and minor; `split` keeps artists apart.

    Examples
    --------
    >>> from vhem.datasets import load_gtzan_features
    >>> music = load_gtzan_features()
    >>> len(music.songs), music.tags.shape
    (1000, (1000, 17))
    """
    with np.load(find_data("gtzan_mfcc/gtzan_mfcc.npz", _GTZAN), allow_pickle=False) as arrays:
        songs = Sequences.from_concatenated(arrays["X"], arrays["lengths"], ids=arrays["track"])
        return MusicData(songs, arrays["tags"].astype(bool), arrays["tag_names"].tolist(), arrays["split"])


def load_cal500(folder: str | Path | None = None, features: Callable[[Path], FloatArray] | None = None) -> MusicData:
    """Load CAL500's songs with its vocabulary of 149 tags.

    Parameters
    ----------
    folder : path, optional
        A folder that holds songNames.txt, vocab.txt and hardAnnotations.txt (and softAnnotations.txt, if available), as
        in CAL500, and the songs' audio, named as in songNames.txt, anywhere below it. Without it, the prepared features
        of the songs' first three seconds are loaded: real tags, but features too poor for more than trying out the
        method.
    features : callable, optional
        Makes the features of an audio file; `vhem.audio.mfcc` by default.

    Returns
    -------
    MusicData
        The songs. The tags "Genre-Best" and "Solo" are left out, which leaves the 149 of the paper.

    Examples
    --------
    >>> from vhem.datasets import load_cal500
    >>> load_cal500().tags.shape[1]
    149
    """
    if folder is not None:
        return _cal500_from_audio(Path(folder), features)
    with np.load(find_data("cal500_intro/cal500_intro.npz", _CAL500), allow_pickle=False) as arrays:
        songs = Sequences.from_concatenated(arrays["X"], arrays["lengths"], ids=arrays["song"])
        kept = arrays["tag_in_149"].astype(bool)
        return MusicData(
            songs, arrays["tags"][:, kept].astype(bool), arrays["tag_names"][kept].tolist(), None,
            arrays["soft_tags"][:, kept].astype(np.float64),
        )  # fmt: skip


def _cal500_from_audio(folder: Path, features: Callable[[Path], FloatArray] | None) -> MusicData:
    from vhem.audio import mfcc  # noqa: PLC0415  (an optional library)

    missing = [name for name in _ANNOTATIONS if not (folder / name).exists()]
    if missing:
        raise FileNotFoundError(f"{folder} has no {', '.join(missing)}; CAL500's annotations belong there.")
    names, vocabulary = _lines(folder / "songNames.txt"), _lines(folder / "vocab.txt")
    hard = _table(folder / "hardAnnotations.txt", len(names), len(vocabulary))
    soft_path = folder / "softAnnotations.txt"
    soft = _table(soft_path, len(names), len(vocabulary)) if soft_path.exists() else None
    found = {path.stem: path for path in sorted(folder.rglob("*")) if path.suffix.lower() in _AUDIO}
    here = [i for i, name in enumerate(names) if name in found]
    if not here:
        raise FileNotFoundError(
            f"{folder} has no audio ({', '.join(_AUDIO)}) named as in songNames.txt, such as {names[0]}.wav."
        )
    songs = Sequences([(features or mfcc)(found[names[i]]) for i in here], ids=[names[i] for i in here])
    kept = [k for k, tag in enumerate(vocabulary) if "Genre-Best" not in tag and "Solo" not in tag]
    chosen: Any = np.ix_(here, kept)
    return MusicData(
        songs, hard[chosen] > 0, [vocabulary[k] for k in kept], None, None if soft is None else soft[chosen]
    )


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _table(path: Path, n_songs: int, n_tags: int) -> FloatArray:
    values = np.array([[float(v) for v in line.replace(",", " ").split()] for line in _lines(path)])
    if values.shape != (n_songs, n_tags):
        raise InputError(
            "{path} has {shape} values, but songNames.txt and vocab.txt name {n_songs} songs and {n_tags} tags",
            path=path, shape=values.shape, n_songs=n_songs, n_tags=n_tags,
        )  # fmt: skip
    return values
