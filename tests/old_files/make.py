"""Make one model file of every kind, with numbers that the model gives: ``python make.py`` wrote them by vhem 0.1.0.

Later versions must read the files and give the same numbers. Files of a released version are never made again: a kind
that is new, or that keeps something else, gets a further file.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

import vhem

SEQUENCES = [np.sin(np.arange(12.0) * step)[:, None] + np.array([0.0, step]) for step in (0.5, 0.6, 1.5, 1.6, 1.7, 0.4)]
NAMES = ["ann", 7, ("bob", 2), None, "Zoë", "=1"]


PROBES = vhem.Sequences(SEQUENCES)
HMMS = vhem.H3M([vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0, s], [1, s]], np.ones((2, 2))) for s in (0, 1)])

#: Some numbers that depend on all of a model, by its kind.
NUMBERS = {
    "Sequences": lambda sequences: sequences.X,
    "HMM": lambda hmm: hmm.score_samples(PROBES),
    "H3M": lambda h3m: h3m.score_samples(PROBES),
    "GMM": lambda gmm: gmm.score_samples(PROBES.X),
    "LinearDynamicalSystem": lambda system: system.score_samples(PROBES),
    "MixtureOfLDS": lambda mixture: mixture.score_samples(PROBES),
    "VHEM": lambda fit: fit.transform(HMMS),
    "HierarchicalVHEM": lambda fit: np.concatenate(fit.labels_),
    "Tree": lambda tree: tree.labels(1),
    "SampledHEM": lambda fit: fit.centers_.score_samples(PROBES),
    "PPKClustering": lambda fit: fit.centers_.score_samples(PROBES),
    "MixtureOfHMMs": lambda fit: fit.predict_proba(PROBES),
    "HEMGaussianMixture": lambda fit: fit.mixture_.score_samples(PROBES.X),
    "DynamicTextureMixture": lambda fit: fit.model_.score_samples(PROBES),
    "HEMDynamicTextures": lambda fit: fit.centers_.score_samples(PROBES),
    "HMMTransformer": lambda fit: fit.report_.log_likelihoods,
    "H3MClassifier": lambda fit: fit.decision_function(PROBES),
    "H3MTagger": lambda fit: fit.decision_function(PROBES),
    "Songs": lambda songs: np.concatenate([song.score_samples(PROBES) for song in songs.models]),
    "PartitionedH3M": lambda fit: fit.model_.score_samples(PROBES),
}


def models(folder):
    """Yield one of every kind."""
    songs = vhem.Sequences(SEQUENCES, NAMES, groups=["a", "a", "b", "b", "b", 1])
    hmms = vhem.fit_hmms(songs, n_states=2, random_state=0)
    system = vhem.LinearDynamicalSystem(0.9 * np.eye(2), np.eye(2), 0.1 * np.eye(2), [0.1, 0.2], offset=[0.0, 1.0])
    systems = vhem.MixtureOfLDS([system, system], [0.25, 0.75], ["one", 2])
    gmm = vhem.GMM([0.25, 0.75], [[0.0, 1.0], [1.0, 0.0]], np.stack([np.eye(2), 2 * np.eye(2)]))
    yield from (songs, hmms, hmms[2], system, systems, gmm)
    yield vhem.VHEM(2, n_init=2, random_state=0).fit(hmms)
    tree = vhem.HierarchicalVHEM((4, 2), random_state=0).fit(hmms)
    yield from (tree, tree.tree_)
    yield vhem.SampledHEM(2, n_init=1, random_state=0).fit(hmms)
    yield vhem.PPKClustering(2, random_state=0).fit(hmms)
    yield vhem.MixtureOfHMMs(2, 2, n_init=2, random_state=0).fit(songs)
    yield vhem.HEMGaussianMixture(1, random_state=0).fit(gmm)
    yield vhem.DynamicTextureMixture(2, 1, max_iter=2, n_init=1, random_state=0).fit(songs)
    yield vhem.HEMDynamicTextures(1, tau=5, max_iter=2, n_init=1, random_state=0).fit(systems)
    transformer = vhem.HMMTransformer(2, random_state=0).fit(songs)
    transformer.transform(songs)
    yield transformer
    yield vhem.H3MClassifier(n_components=1, random_state=0).fit(songs, ["up", "up", "down", "down", "down", "up"])
    tagger = vhem.H3MTagger(n_components=1, song_components=1, n_states=1, fragment_length=6, random_state=0)
    learned = tagger.learn_songs(SEQUENCES)
    yield from (learned, tagger.fit(learned, np.repeat([[1, 0], [0, 1]], 3, axis=0), ["calm", "wild"]))
    parted = vhem.PartitionedH3M(2, 2, n_sample=4, random_state=0)
    parted.set_params(checkpoint=folder / "checkpoint.vhem").fit([SEQUENCES[:3], SEQUENCES[3:]])
    yield parted.set_params(checkpoint=None)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place = Path(__file__).parent
    for model in models(place):
        kind = type(model).__name__
        model.save(place / f"{kind}.vhem", about={"numbers": NUMBERS[kind](model)})
