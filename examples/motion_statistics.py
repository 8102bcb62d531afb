"""
Human motion: what goes with the clusters
=========================================

56 recorded motions (the CMU motion capture database) are clustered without their classes: jump, run, jog, walk, … Then
the classes come in as a covariate: do they go with the clusters, how strongly, and do motions of known classes differ
at all?
"""

# sphinx_gallery_thumbnail_path = "studies/motion_hierarchy.png"
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import vhem
from vhem.datasets import load_cmu_motion
from vhem.inference import Members, associate, clustering_quality, compare_groups, disconnected_centers
from vhem.inference.groups import squared_distances
from vhem.studies.motion import MotionSettings, prepare

data = load_cmu_motion()
with warnings.catch_warnings(record=True) as raised:  # the report will show the warnings
    warnings.simplefilter("always")
    problem = prepare(data, MotionSettings(n_starts=1))
hmms = vhem.H3M(list(problem.hmms), ids=data.trials)
fit = vhem.VHEM(n_clusters=5, tau=problem.tau, n_virtual=1.0, random_state=0).fit(hmms)

# %%
# Which classes are in which cluster?
# -----------------------------------
# Classes took no part in the clustering, so a test on its labels is valid: χ², by permutation where counts are small,
# with Cramér's V as the effect. The performer is a second covariate.

members = Members(data.trials, fit.labels_, fit.responsibilities_)
performers = [trial.split("_")[0] for trial in data.trials]
table = {"trial": data.trials, "class": data.labels, "performer": performers}
found = associate(members, table, categorical=["performer"], n_bootstrap=99)
print(found.sentence())
for row in found.rows:
    low, high = row.interval
    print(f"{row.name}: {row.found.test}, {row.found.measure} = {row.found.effect:.2f} [{low:.2f}, {high:.2f}]")
classes = sorted(set(data.labels))
counts = np.array([[sum(fit.labels_[i] == k and data.labels[i] == c for i in range(len(hmms))) for c in classes]
                   for k in range(5)])  # fmt: skip
figure, ax = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
ax.imshow(counts, cmap="Greys")
ax.set(xticks=range(len(classes)), xticklabels=classes, yticks=range(5), ylabel="cluster")
ax.set_yticklabels([str(k + 1) for k in range(5)])
for (k, j), n in np.ndenumerate(counts):
    ax.text(j, k, str(n) if n else "", ha="center", va="center", color="white" if n > counts.max() / 2 else "black")

# %%
# Do motions of known classes differ?
# -----------------------------------
# PERMANOVA on the divergences between HMMs. Differences in spread make it significant too; it tests for these as well.

groups = compare_groups(hmms, data.labels, tau=problem.tau, n_permutations=999, random_state=0)
print(groups.sentence())
print(groups.note())
figure, ax = plt.subplots(figsize=(5.5, 5), constrained_layout=True)
order = np.argsort(data.labels, kind="stable")
distances = np.sqrt(squared_distances(hmms, problem.tau))[np.ix_(order, order)]
ax.imshow(distances, cmap="Greys_r")
ax.set(title="distances between motions, by class", xticks=[], yticks=[])

# %%
# How separate are the clusters?
# ------------------------------
# Silhouettes by cluster, and centres that join unlike members, if there are any.

quality = clustering_quality(fit, hmms, problem.tau)
print(quality.sentence())
for pieces in disconnected_centers(fit.centers_, problem.tau, hmms, fit.labels_):
    print(pieces.sentence())
figure, ax = plt.subplots(figsize=(6, 3.5), constrained_layout=True)
ax.boxplot([quality.silhouettes[fit.labels_ == k] for k in range(5)], orientation="horizontal")
ax.set(xlabel="silhouette", ylabel="cluster")

# %%
# A report with the classes beside the clusters.

path = vhem.report.write(
    Path("results") / "motion_statistics.html",
    fit,
    hmms,
    sequences=problem.sequences,
    classes=data.labels,
    warnings=raised,
    title="Clusters of motions and their classes",
)
print("report:", path)
