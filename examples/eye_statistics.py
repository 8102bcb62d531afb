"""
Eye movements: from the table to the Methods paragraph
======================================================

A table of fixations (ten people, 399 trials; from the study of Chuk, Chan and Hsiao, Journal of Vision 14(11):8, 2014)
becomes two ways of looking at faces. Then come the questions of every reviewer: are these clusters real, in what do
they differ, and how was that found out? `vhem compare` does the same from the command line.
"""

# sphinx_gallery_thumbnail_path = "images/report.png"
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import vhem
from vhem.datasets import load_eye_movements
from vhem.inference import Members, compare_clusters, describe_hmm, log_odds, subject_scores
from vhem.paper import methods_paragraph, write_comparison
from vhem.plotting import plot_cluster

data = load_eye_movements()
people = [f"person {group}" for group in data.sequences.groups]
sequences = vhem.Sequences(data.sequences, groups=people)
face = None if data.image is None else plt.imread(data.image)
model = vhem.SequenceClustering(n_clusters=2, n_states=3, covariance_type="full", random_state=0)
fit = model.fit(sequences, groups=people)
figure, axes = plt.subplots(1, 2, figsize=(9, 5.5), constrained_layout=True)
for k, ax in enumerate(axes):
    plot_cluster(fit.centers_[k], fit.hmms_[fit.labels_ == k], ax, image=face)

# %%
# Are they real, and what differs?
# --------------------------------
# A t-test between clusters that were made from these very people is significant whether or not there are clusters. So
# people are judged by centres learned without them (cross-fitting), and the gain of two clusters over one is compared
# with that in data sets drawn from a single cluster of people who vary (parametric bootstrap). For a paper, draw at
# least 69 of these, the default.

members = Members(fit.ids_, fit.labels_, fit.responsibilities_)
found = compare_clusters(model, members, fit.centers_, fit.hmms_, sequences, people, data.feature_names, n_bootstrap=19)
for sentence in found.sentences + found.warnings:
    print(sentence)
differences = next(table for table in found.tables if table.name == "difference_1_2")
for row in differences.rows:
    if row[-1]:
        print(f"{row[0]}: {row[1]} against {row[2]}, difference {row[3]} {row[4]}")

# %%
# Where is everybody between the two?
# -----------------------------------
# Log-odds per fixation, unlike the A–B scale, do not depend on the units of the data.

scores = subject_scores(fit.centers_, sequences, people)
figure, ax = plt.subplots(figsize=(7, 2.5), constrained_layout=True)
odds = log_odds(scores)
ax.scatter(odds, np.zeros(len(odds)), c=fit.labels_, cmap="Greys", vmin=-1, edgecolor="black")
ax.axvline(0, color="black", linestyle=":")
ax.set(xlabel="log-odds of cluster 1 against 2 per fixation (nats)", yticks=[])

# %%
# What each way of looking is
# ---------------------------
# The share of time in each state, and how predictable the next fixation is.

figure, ax = plt.subplots(figsize=(6, 3), constrained_layout=True)
for k, center in enumerate(fit.centers_):
    described = describe_hmm(center, length=3)
    ax.bar(np.arange(3) + 0.4 * k, described.time_share, 0.38, color=str(0.3 + 0.4 * k), label=f"cluster {k + 1}")
    print(f"cluster {k + 1}: the next state is uncertain by {described.entropy_rate:.2f} nats")
ax.set(xticks=np.arange(3) + 0.2, xticklabels=["state 1", "state 2", "state 3"], ylabel="share of time")
ax.legend()

# %%
# Tables and the Methods paragraph
# --------------------------------
# Every table as csv, and all of them as xlsx, LaTeX and Word; the paragraph has settings, versions and seeds.

facts = {"people": 10, "sequences": len(sequences), "observations": len(sequences.X), "dimensions": data.feature_names}
methods = methods_paragraph(model.get_params(), facts, found.tests)
print(methods)
files = write_comparison(Path("results") / "eye_statistics", found, methods)
print(", ".join(path.name for path in files))

# %%
# A report to share, with a section Statistics.

path = vhem.report.write(
    Path("results") / "eye_statistics.html",
    fit,
    sequences=sequences,
    image=data.image,
    names=data.feature_names,
    title="Two ways of looking at faces, and whether they are real",
    statistics=found,
)
print("report:", path)
