"""
Simulated viewers: from sequences to a report
=============================================

Forty viewers looked at faces, each by one of three strategies that the program is not told. One HMM per viewer is
learned from the viewer's trials, VHEM clusters the HMMs, and the centres are the strategies.
"""

from pathlib import Path

import matplotlib.pyplot as plt

import vhem
from vhem.datasets import simulated_face, simulated_study
from vhem.plotting import plot_bounds, plot_cluster, plot_h3m, plot_j_matrix, plot_n_clusters

study = simulated_study()
sequences, face = study.sequences, simulated_face()
hmms = vhem.fit_hmms(sequences, n_states=3, groups=sequences.groups, n_init=5, random_state=0)

# %%
# How many clusters?
# ------------------
# Three criteria side by side; stability under resampling asks the question that most people mean.

numbers = vhem.choose_n_clusters(hmms, range(2, 6), vhem.VHEM(tau=8, n_init=4), n_resamples=5, random_state=0)
print(numbers)
plot_n_clusters(numbers)

# %%
# The clusters
# ------------
# ``tau`` is about the length of a trial. Every centre is an HMM of its own, drawn over the face.

fit = vhem.VHEM(n_clusters=numbers.best["stability"], tau=8, random_state=0).fit(hmms)
plot_h3m(fit.centers_, image=face)

# %%
# The members of the largest cluster stand as thin lines behind their centre.

members = fit.labels_ == 0
plot_cluster(fit.centers_[0], hmms[members], responsibilities=fit.responsibilities_[members, 0], image=face)

# %%
# Was it a good fit? Restarts that end at the same height agree, and rows of J are bright in their own column.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
plot_bounds(fit, left)
plot_j_matrix(fit.transform(hmms), fit.labels_, right)

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
