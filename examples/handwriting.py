"""
Handwriting: which letters are written alike?
=============================================

Letters from the UCI data set Character Trajectories, as the pen's velocity and force. Every letter becomes an HMM, and
a tree of HMMs shows which letters are written alike.
"""

# sphinx_gallery_thumbnail_path = "images/idea_hierarchy.png"
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import vhem
from vhem.datasets import load_character_trajectories
from vhem.metrics import purity
from vhem.plotting import plot_cluster, plot_hierarchy, plot_responsibilities, plot_sequence

CHANNELS = ["x velocity", "y velocity", "force"]
data = load_character_trajectories()
chosen = np.concatenate([np.flatnonzero(data.labels == letter)[:12] for letter in "abdglmoqsvwz"])
letters = [str(letter) for letter in data.labels[chosen]]
strokes = [data.sequences[int(i)][::3] for i in chosen]  # every third frame: 67 per second
sequences = vhem.Sequences(strokes, ids=[f"{letter} {i}" for letter, i in zip(letters, chosen, strict=True)])
print(sequences)

# %%
# From pen strokes to HMMs
# ------------------------
# A letter runs through its strokes once, so the states follow one another ("left-right").

hmms = vhem.fit_hmms(sequences, n_states=6, topology="left-right", random_state=0)
plot_sequence(hmms[0], sequences[0], names=CHANNELS)

# %%
# A tree of letters
# -----------------
# Twelve clusters for twelve letters, then fewer: letters that share a cluster further up are written alike.

fit = vhem.HierarchicalVHEM(levels=(12, 6, 3), n_trees=1, tau=40, n_virtual=1, n_init=6, random_state=0).fit(hmms)
print(f"share of letters in a cluster of mostly their own kind: {purity(letters, fit.labels_[0]):.2f}")
plot_hierarchy(fit.tree_, letters)

# %%
# The largest cluster, and how certain the assignments are.

plot_cluster(fit.levels_[0][0], hmms[fit.labels_[0] == 0], names=CHANNELS)
figure, ax = plt.subplots(figsize=(6, 6), constrained_layout=True)
plot_responsibilities(fit.fits_[0].responsibilities_, fit.labels_[0], ax)

# %%
# A report, with every letter in it.

path = vhem.report.write(
    Path("results") / "handwriting.html",
    fit,
    sequences=sequences,
    classes=letters,
    names=CHANNELS,
    title="Letters that are written alike",
)
print("report:", path)
