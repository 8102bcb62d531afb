"""
Simulated viewers: from sequences to a report
=============================================

Forty viewers looked at faces, each following one of three strategies that the program does not know. One HMM per viewer
is learned from the viewer's trials, VHEM clusters the HMMs, and the centres are the strategies.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.datasets import simulated_face, simulated_study
from vhem.plotting import plot_bounds, plot_cluster, plot_h3m, plot_j_matrix, plot_n_clusters

study = simulated_study()
sequences, face = study.sequences, simulated_face()
hmms = vhem.fit_hmms(sequences, n_states=3, groups=sequences.groups, n_init=5, random_state=0)

# %%
# How many clusters?
# ------------------
# Three criteria side by side. Stability under resampling answers the question that most people mean.

numbers = vhem.choose_n_clusters(hmms, range(2, 6), vhem.VHEM(tau=8, n_init=4), n_resamples=5, random_state=0)
print(numbers)
plot_n_clusters(numbers)

# %%
# The clusters
# ------------
# ``tau`` is about the length of a trial. Every centre is a new HMM, drawn over the face.

fit = vhem.VHEM(n_clusters=numbers.best["stability"], tau=8, random_state=0).fit(hmms)
plot_h3m(fit.centers_, image=face)

# %%
# The members of the largest cluster are thin lines behind their centre.

members = fit.labels_ == 0
plot_cluster(fit.centers_[0], hmms[members], responsibilities=fit.responsibilities_[members, 0], image=face)

# %%
# Was it a good fit? Left: from random starts, the bound of the paper's algorithm rises until it converges. Right: rows
# of J, the bound on the likelihood of one HMM's sequences under another, are bright in the column of their cluster.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
paper = vhem.VHEM(fit.n_clusters, tau=8, init="base", n_init=6, polish=False, random_state=0).fit(hmms)
plot_bounds(paper, left)
plot_j_matrix(fit.transform(hmms), fit.labels_, right)

# %%
# In one call
# -----------
# ``SequenceClustering`` learns the HMMs, clusters them, and refines the clusters on the sequences. Here the clusters
# are clear, so both ways agree.

direct = vhem.SequenceClustering(fit.n_clusters, n_states=3, random_state=0).fit(sequences, groups=sequences.groups)
print("agreement of its first and last stage:", direct.agreement_)
print("agreement with VHEM:", adjusted_rand_score(fit.labels_, direct.labels_))

# %%
# Everything in one file that can be sent to anyone.

path = vhem.report.write(
    Path("results") / "simulated.html",
    fit,
    hmms,
    sequences=sequences,
    image=face,
    names=["x", "y"],
    classes=[study.strategy_names[s] for s in study.strategies],
    title="Simulated viewers",
)
print("report:", path)
