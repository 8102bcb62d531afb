"""Audio features: mel-frequency cepstral coefficients with their differences, by librosa (the extra `audio`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray
from vhem._support.checks import check_choice, check_integer, check_real
from vhem._support.errors import InputError, ParameterError
from vhem._support.optional import how_to_install

_DELTA_WIDTH = 9  # frames over which differences are taken


def _librosa() -> Any:
    try:
        import librosa  # noqa: PLC0415  (an optional library)
    except ImportError:
        raise ImportError(f"audio needs librosa and soundfile: {how_to_install('audio')}.") from None
    return librosa


def read_audio(path: str | Path, sample_rate: int = 22050) -> FloatArray:
    """Read an audio file as one channel.

    Parameters
    ----------
    path : path
        A wav, flac or ogg file, or any other format that the installed soundfile reads.
    sample_rate : int
        Samples per second of the result; the file is resampled.

    Returns
    -------
    array of shape (n_samples,)
        The average of the file's channels, between -1 and 1.

    Examples
    --------
    >>> import tempfile, numpy as np, soundfile, vhem.audio
    >>> path = tempfile.mkdtemp() + "/tone.wav"
    >>> soundfile.write(path, np.sin(np.arange(44100) / 10), 44100)
    >>> vhem.audio.read_audio(path).shape
    (22050,)
    """
    check_integer("sample_rate", sample_rate, 1)
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no audio file {path}.")
    librosa = _librosa()
    import soundfile  # noqa: PLC0415  (comes with librosa)

    try:
        samples, rate = soundfile.read(path, dtype="float64", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise InputError("{path} cannot be read as audio: {error}", path=path, error=error) from None
    mono = samples.mean(axis=1)
    if not len(mono):
        raise InputError("{path} holds no samples", path=path)
    return np.asarray(mono if rate == sample_rate else librosa.resample(mono, orig_sr=rate, target_sr=sample_rate))


def mfcc(
    audio: str | Path | npt.ArrayLike,
    n_mfcc: int = 13,
    differences: int = 2,
    sample_rate: int = 22050,
    window: float = 0.0929,
    overlap: float = 0.5,
    n_mels: int = 40,
    window_shape: str = "hann",
) -> FloatArray:
    """Return mel-frequency cepstral coefficients of a recording, a sequence for `fit_hmms` or `H3MTagger`.

    Parameters
    ----------
    audio : path or array of shape (n_samples,)
        A file, or samples at `sample_rate`.
    n_mfcc : int
        Coefficients per frame.
    differences : {0, 1, 2}
        Number of orders of differences over time that are appended to the coefficients.
    sample_rate : int
        Samples per second.
    window, overlap : float
        Length of a frame in seconds, and the share of it that the next one overlaps. The defaults, half-overlapping
        frames of 93 ms (2048 samples), are the paper's.
    n_mels : int
        Mel bands.
    window_shape : {"hann", "hamming"}
        Taper of a frame.

    Returns
    -------
    array of shape (T, n_mfcc · (1 + differences))
        One row per frame.

    Examples
    --------
    >>> import numpy as np
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(22050) / 22050)  # one second
    >>> mfcc(tone).shape
    (20, 39)
    """
    check_integer("n_mfcc", n_mfcc, 1)
    check_integer("n_mels", n_mels, n_mfcc)
    check_real("window", window, 0.0, open_interval=True)
    check_choice("window_shape", window_shape, ("hann", "hamming"))
    if differences not in (0, 1, 2) or isinstance(differences, bool):
        raise ParameterError("differences", differences, "must be 0, 1 or 2")
    if not 0 <= overlap < 1:
        raise ParameterError("overlap", overlap, "must be at least 0 and less than 1")
    librosa = _librosa()
    samples = _samples(audio, sample_rate)
    size = round(window * sample_rate)
    hop = max(1, round(size * (1 - overlap)))
    if len(samples) < size + (_DELTA_WIDTH - 1) * hop * (differences > 0):
        raise InputError(
            "{n} samples are too few for frames of {size} with differences over {width} frames",
            "give a longer recording, shorter frames or {differences:0}",
            n=len(samples), size=size, width=_DELTA_WIDTH,
        )  # fmt: skip
    coefficients = librosa.feature.mfcc(
        y=samples, sr=sample_rate, n_mfcc=n_mfcc, n_fft=size, hop_length=hop, n_mels=n_mels, window=window_shape,
        center=False, dct_type=2, norm="ortho",
    )  # fmt: skip
    orders = [librosa.feature.delta(coefficients, width=_DELTA_WIDTH, order=k) for k in range(1, differences + 1)]
    return np.ascontiguousarray(np.concatenate([coefficients, *orders]).T, dtype=np.float64)


def _samples(audio: Any, sample_rate: int) -> FloatArray:
    if isinstance(audio, (str, Path)):
        return read_audio(audio, sample_rate)
    samples = np.asarray(audio, dtype=np.float64)
    if samples.ndim != 1 or not samples.size:
        raise InputError("{audio} has shape {shape}", "give one channel of samples, or a path", shape=samples.shape)
    if not np.isfinite(samples).all():
        raise InputError("{audio} holds NaN or infinite samples", "remove them")
    return samples
