"""Audio: files in, cepstra out, against NumPy and SciPy where they say the same."""

import sys

import numpy as np
import pytest
from scipy.fft import dct
from scipy.io import wavfile

librosa = pytest.importorskip("librosa", reason="the extra `audio` is not installed")
soundfile = pytest.importorskip("soundfile", reason="the extra `audio` is not installed")

from vhem.audio import mfcc, read_audio  # noqa: E402
from vhem.datasets import load_cal500  # noqa: E402

pytestmark = pytest.mark.slow  # librosa compiles its loops first, which takes longer than all tests of a usual file
RATE = 22050


def tone(frequency, seconds=1.0, rate=RATE):
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def test_wav_and_flac_read_alike(tmp_path):
    stereo = np.column_stack([tone(440), np.zeros(RATE)])
    wavfile.write(tmp_path / "a.wav", RATE, (stereo * 32767).astype(np.int16))
    soundfile.write(tmp_path / "a.flac", stereo, RATE)
    wav, flac = read_audio(tmp_path / "a.wav"), read_audio(tmp_path / "a.flac")
    np.testing.assert_allclose(wav, tone(440) / 2, atol=1e-4)  # the mean of the channels
    np.testing.assert_allclose(wav, flac, atol=1e-4)
    np.testing.assert_array_equal(mfcc(tmp_path / "a.wav"), mfcc(wav))


def test_other_rates_are_converted(tmp_path):
    soundfile.write(tmp_path / "b.wav", tone(300, rate=44100), 44100)
    samples = read_audio(tmp_path / "b.wav")
    assert len(samples) == RATE
    spectrum = np.abs(np.fft.rfft(samples))
    assert spectrum.argmax() == 300  # one bin per Hz


def test_cepstra_by_hand():
    samples = np.random.default_rng(0).normal(size=RATE)
    found = mfcc(samples, differences=0)
    frames = np.lib.stride_tricks.sliding_window_view(samples, 2048)[::1024]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(2048) / 2048)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    bands = power @ librosa.filters.mel(sr=RATE, n_fft=2048, n_mels=40).T
    decibels = 10 * np.log10(np.maximum(bands, 1e-10))
    expected = dct(np.maximum(decibels, decibels.max() - 80), norm="ortho")[:, :13]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_differences_are_slopes():
    found = mfcc(tone(440, 2.0) * np.linspace(0.1, 1, 2 * RATE))
    assert found.shape[1] == 39
    slope = np.array([np.polyfit(np.arange(9), found[t - 4 : t + 5, 0], 1)[0] for t in range(4, len(found) - 4)])
    np.testing.assert_allclose(found[4:-4, 13], slope, atol=1e-3)


def test_bad_audio(tmp_path):
    with pytest.raises(FileNotFoundError, match="no audio file"):
        mfcc(tmp_path / "none.wav")
    (tmp_path / "text.wav").write_text("not audio")
    with pytest.raises(ValueError, match="cannot be read as audio"):
        read_audio(tmp_path / "text.wav")
    with pytest.raises(ValueError, match="too few for frames of 2048"):
        mfcc(tone(440, 0.1))
    with pytest.raises(ValueError, match="NaN or infinite"):
        mfcc(np.full(RATE, np.nan))
    with pytest.raises(ValueError, match="one channel"):
        mfcc(np.zeros((RATE, 2)))
    with pytest.raises(ValueError, match="differences must be"):
        mfcc(tone(440), differences=3)
    with pytest.raises(ValueError, match="overlap must be"):
        mfcc(tone(440), overlap=1.0)


def test_without_librosa_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "librosa", None)
    with pytest.raises(ImportError, match=r"\.\[audio\]"):
        mfcc(tone(440))


def test_cal500_from_a_folder_of_audio(tmp_path):
    names = ["artist-song_a", "artist-song_b", "artist-song_c"]
    (tmp_path / "songNames.txt").write_text("\n".join(names) + "\n")
    (tmp_path / "vocab.txt").write_text("Emotion-Happy\nGenre-Best-Rock\nInstrument_-_Piano-Solo\nUsage-Driving\n")
    (tmp_path / "hardAnnotations.txt").write_text("1,0,0,1\n0,1,1,1\n1,1,0,0\n")
    (tmp_path / "softAnnotations.txt").write_text("0.9,0,0,0.8\n0,1,1,0.7\n1,1,0,0.1\n")
    (tmp_path / "audio").mkdir()
    for k in (0, 2):  # the second is not at hand
        soundfile.write(tmp_path / "audio" / f"{names[k]}.wav", tone(200 + 100 * k), RATE)
    data = load_cal500(tmp_path)
    assert data.songs.ids == [names[0], names[2]]
    assert data.songs.n_dims == 39
    assert data.tag_names == ["Emotion-Happy", "Usage-Driving"]
    assert data.tags.tolist() == [[True, True], [True, False]]
    assert data.soft_tags.tolist() == [[0.9, 0.8], [1.0, 0.1]]
    assert data.often_used(2).tag_names == ["Emotion-Happy"]
    (tmp_path / "vocab.txt").write_text("Emotion-Happy\n")
    with pytest.raises(ValueError, match="3 songs and 1 tags"):
        load_cal500(tmp_path)
    (tmp_path / "hardAnnotations.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"no hardAnnotations\.txt"):
        load_cal500(tmp_path)
