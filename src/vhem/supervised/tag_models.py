"""How `H3MTagger` models songs and tags: one family of models per method."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem.estimators.dtm import DynamicTextureMixture
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.grouped_mixtures import fit_mixtures
from vhem.estimators.hem_dtm import HEMDynamicTextures
from vhem.estimators.hem_gmm import HEMGaussianMixture
from vhem.estimators.mixture import MixtureOfHMMs
from vhem.estimators.vhem import VHEM
from vhem.models import GMM, H3M, HMM, MixtureOfLDS
from vhem.sequences import Sequences
from vhem.supervised.classifier import class_log_likelihoods
from vhem.supervised.fragments import cut_fragments

TagModel: TypeAlias = H3M | MixtureOfLDS | GMM
_CHUNK = 60_000  # frames of fragments in memory at once


@dataclass(frozen=True, kw_only=True)
class TaggingSettings:
    """The sizes and limits that all methods share; `H3MTagger` explains them."""

    n_components: int
    song_components: int
    n_states: int
    n_mix: int
    song_states: int
    song_mix: int
    covariance_type: str
    fragment_length: int
    hop: int
    tau: int
    n_virtual: float
    n_init: int
    polish: int
    max_iter: int
    tol: float
    reg_covar: float
    n_jobs: int | None


class Tagged(NamedTuple):
    """The songs that have a tag."""

    sequences: Sequences
    models: list[Any]
    weights: FloatArray  #: how much the tag fits each of them


class Family(Protocol):
    """What a method has to provide. Song models are opaque to everyone else."""

    def learn_songs(self, songs: Sequences, s: TaggingSettings, rng: np.random.Generator) -> list[Any]:
        """Return a model of each song."""

    def learn_tag(self, songs: Tagged, s: TaggingSettings, rng: np.random.Generator) -> Any:
        """Return the model of a tag, from those of its songs and their weights."""

    def log_likelihoods(self, songs: Sequences, tag_models: list[Any], s: TaggingSettings) -> FloatArray:
        """Return the log-likelihood per frame of every song, averaged over its fragments, under every tag, (n, V)."""


class ByVHEM:
    """A mixture of HMMs for each song by EM; those of a tag pooled and reduced by VHEM."""

    def learn_songs(self, songs: Sequences, s: TaggingSettings, rng: np.random.Generator) -> list[H3M]:
        """Learn the mixtures of many songs at once."""
        models: list[H3M] = []
        for part in _chunks(songs, s):
            fragments, song = cut_fragments(part, s.fragment_length, s.hop)
            models += fit_mixtures(
                fragments, song, s.song_components, s.song_states, s.song_mix, s.covariance_type, reg_covar=s.reg_covar,
                random_state=rng, n_jobs=s.n_jobs,
            )  # fmt: skip
        return models

    def learn_tag(self, songs: Tagged, s: TaggingSettings, rng: np.random.Generator) -> H3M:
        """Reduce the pooled mixtures; with no more HMMs than wanted, the pool itself is the model."""
        pooled = H3M.pool(songs.models, songs.weights)
        if len(pooled) <= s.n_components:
            return pooled
        # A song's HMM says little about where the many Gaussians of a tag belong; those of all songs together do.
        init = "emissions" if s.n_mix > s.song_mix else "auto"
        fit = VHEM(
            s.n_components, s.n_states, s.n_mix, tau=s.tau, n_virtual=s.n_virtual, init=init, n_init=s.n_init,
            max_iter=s.max_iter, tol=s.tol, random_state=rng, n_jobs=s.n_jobs,
        ).fit(pooled)  # fmt: skip
        made = fit.centers_.with_weights(pooled.weights @ fit.responsibilities_)  # songs count by weight
        return _polished(made, songs, s) if s.polish else made

    def log_likelihoods(self, songs: Sequences, tag_models: list[H3M], s: TaggingSettings) -> FloatArray:
        """Score the fragments under all tags together."""
        return _by_fragments(songs, s, lambda fragments: class_log_likelihoods(tag_models, fragments, s.n_jobs))


class ByEM(ByVHEM):
    """A mixture of HMMs for each tag by EM, on the fragments of all its songs; nothing is learned from single songs."""

    def learn_songs(self, songs: Sequences, s: TaggingSettings, rng: np.random.Generator) -> list[Any]:
        """Keep the songs as they are."""
        del s, rng
        return list(songs)

    def learn_tag(self, songs: Tagged, s: TaggingSettings, rng: np.random.Generator) -> H3M:
        """Run EM on the fragments."""
        fragments, counts = _weighed(songs, s.fragment_length, s.hop)
        fit = MixtureOfHMMs(
            min(s.n_components, len(fragments)), s.n_states, s.n_mix, s.covariance_type, init="kmeans",
            n_init=s.n_init, max_iter=s.max_iter, tol=s.tol, reg_covar=s.reg_covar, random_state=rng, n_jobs=s.n_jobs,
        )  # fmt: skip
        return fit.fit(fragments, sample_weight=counts).model_


class ByDTM:
    """Linear dynamical systems instead of HMMs: a mixture for each song by EM, reduced by HEM for each tag."""

    def learn_songs(self, songs: Sequences, s: TaggingSettings, rng: np.random.Generator) -> list[MixtureOfLDS]:
        """Learn the mixtures, one song after another."""
        return [self._song(Sequences([y]), s, seed) for y, seed in zip(songs, rng.spawn(len(songs)), strict=True)]

    def _song(self, song: Sequences, s: TaggingSettings, rng: np.random.Generator) -> MixtureOfLDS:
        fragments, _ = cut_fragments(song, s.fragment_length, s.hop)
        K = min(s.song_components, len(fragments))
        fit = DynamicTextureMixture(K, s.n_states, init="pca", max_iter=s.max_iter, tol=s.tol, random_state=rng)
        return fit.fit(fragments).model_

    def learn_tag(self, songs: Tagged, s: TaggingSettings, rng: np.random.Generator) -> MixtureOfLDS:
        """Reduce the pooled mixtures."""
        systems = [system for model in songs.models for system in model]
        shares = _pooled_shares(songs)
        pooled = MixtureOfLDS(systems, shares / shares.sum())
        if len(pooled) <= s.n_components:
            return pooled
        fit = HEMDynamicTextures(
            s.n_components, s.tau, s.n_virtual, n_init=s.n_init, max_iter=s.max_iter, tol=s.tol, random_state=rng
        ).fit(pooled)
        return MixtureOfLDS(fit.centers_, pooled.weights @ fit.responsibilities_)

    def log_likelihoods(self, songs: Sequences, tag_models: list[MixtureOfLDS], s: TaggingSettings) -> FloatArray:
        """Score the fragments, one tag after another."""
        return _by_fragments(
            songs, s, lambda fragments: np.column_stack([model.score_samples(fragments) for model in tag_models])
        )


class ByGMM:
    """Gaussian mixtures of single frames, blind to time: one for each song by EM, reduced by HEM for each tag."""

    def learn_songs(self, songs: Sequences, s: TaggingSettings, rng: np.random.Generator) -> list[GMM]:
        """Learn the mixtures of all songs at once, as HMMs of one state."""
        h3m = fit_hmms(
            songs, 1, s.song_components, s.covariance_type, max_iter=s.max_iter, tol=s.tol, reg_covar=s.reg_covar,
            random_state=rng, n_jobs=s.n_jobs,
        )  # fmt: skip
        return [GMM(hmm.mix_weights[0], hmm.means[0], hmm.covars[0]) for hmm in h3m]

    def learn_tag(self, songs: Tagged, s: TaggingSettings, rng: np.random.Generator) -> GMM:
        """Reduce the pooled mixtures."""
        means, covars = (np.concatenate([getattr(m, name) for m in songs.models]) for name in ("means", "covars"))
        shares = _pooled_shares(songs)
        pooled = GMM(shares / shares.sum(), means, covars)
        if len(pooled) <= s.n_components:
            return pooled
        fit = HEMGaussianMixture(
            s.n_components, n_virtual=s.n_virtual, n_init=s.n_init, max_iter=s.max_iter, tol=s.tol, random_state=rng,
            n_jobs=s.n_jobs,
        ).fit(pooled)  # fmt: skip
        return GMM(pooled.weights @ fit.responsibilities_, fit.mixture_.means, fit.mixture_.covars)

    def log_likelihoods(self, songs: Sequences, tag_models: list[GMM], s: TaggingSettings) -> FloatArray:
        """Average over the frames of each song, under HMMs of one state."""
        one = np.ones((1, 1))
        hmms = [H3M([HMM(one[0], one, m.means[None], m.covars[None], m.weights[None])]) for m in tag_models]
        return class_log_likelihoods(hmms, songs, s.n_jobs) / songs.lengths[:, None]


FAMILIES: dict[str, Family] = {"vhem": ByVHEM(), "em": ByEM(), "dtm": ByDTM(), "gmm": ByGMM()}


def _polished(centers: H3M, songs: Tagged, s: TaggingSettings) -> H3M:
    """Return a tag's mixture after some iterations of EM on fragments that do not overlap."""
    fragments, counts = _weighed(songs, s.fragment_length, s.fragment_length)
    fit = MixtureOfHMMs(
        len(centers), init=centers, max_iter=s.polish, tol=s.tol, reg_covar=s.reg_covar, random_state=0, n_jobs=s.n_jobs
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        return fit.fit(fragments, sample_weight=counts).model_


def _weighed(songs: Tagged, length: int, hop: int) -> tuple[Sequences, FloatArray]:
    """Return the fragments of songs, and weights, by which all fragments of a song count as much as the tag fits it."""
    fragments, song = cut_fragments(songs.sequences, length, hop)
    counts = (songs.weights / np.bincount(song))[song]
    return fragments, counts / counts.mean()


def _pooled_shares(songs: Tagged) -> FloatArray:
    """Return the weight of every component of every song."""
    return np.concatenate([w * model.weights for w, model in zip(songs.weights, songs.models, strict=True)])


def _chunks(songs: Sequences, s: TaggingSettings) -> Iterator[Sequences]:
    """Yield some songs at a time, so that their overlapping fragments fit in little memory."""
    frames = np.cumsum(np.maximum(songs.lengths / s.hop, 1.0) * s.fragment_length)
    number: IntArray = (frames // _CHUNK).astype(np.int64)
    for n in np.unique(number):
        yield songs[number == n]


def _by_fragments(songs: Sequences, s: TaggingSettings, score: Any) -> FloatArray:
    """Return for every song the average over its fragments of their log-likelihoods per frame."""
    parts = []
    for part in _chunks(songs, s):
        fragments, song = cut_fragments(part, s.fragment_length, s.hop)
        per_frame = score(fragments) / fragments.lengths[:, None]
        first = np.searchsorted(song, np.arange(len(part)))
        parts.append(np.add.reduceat(per_frame, first, axis=0) / np.bincount(song)[:, None])
    return np.concatenate(parts)
