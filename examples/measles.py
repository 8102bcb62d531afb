"""
Counts: measles in towns
========================

Weekly cases of measles in towns and rural districts of England and Wales, 1944 to 1965, before there was a vaccine. A
state of a hidden Markov model is a kind of week (quiet, some cases, epidemic) with its own distribution of counts; a
cluster is a kind of town. The data come with the package pypomp (``pip install --no-deps pypomp``); they are those of
H. Korevaar, C. J. Metcalf and B. T. Grenfell, Journal of the Royal Society Interface 17, 2020.
"""

# sphinx_gallery_thumbnail_path = "images/measles.png"
from pathlib import Path

import numpy as np

import vhem
from vhem.datasets import load_measles
from vhem.plotting import plot_h3m, plot_hmm, plot_sequence

measles = load_measles()
medium = np.flatnonzero(measles.covariates["population"] < 100_000)  # large cities are a world of their own
chosen = np.sort(np.random.default_rng(0).choice(medium, 120, replace=False))
towns, population = measles.sequences[chosen], measles.covariates["population"][chosen]
print(towns)

# %%
# An HMM per town
# ---------------
# Cases come in outbreaks and vary more than a Poisson distribution allows; the negative binomial has a size for this.

hmms = vhem.fit_hmms(towns, n_states=3, emissions="negativebinomial", random_state=0)
largest = int(np.argmax(population))
plot_sequence(hmms[largest], towns[largest])
plot_hmm(hmms[largest], names=["cases"], sequences=[towns[largest]])  # over a histogram of the weeks

# %%
# Kinds of towns
# --------------
# VHEM clusters the HMMs; the weekly counts are no longer needed.

fit = vhem.VHEM(n_clusters=3, random_state=0).fit(hmms)
plot_h3m(fit.centers_)
fit.centers_.emissions.means[:, :, 0, 0].round(1)

# %%
# How large they are
# ------------------
# Nothing was said about population, but the clusters are ordered by it: in small towns measles dies out between
# epidemics, and most weeks are quiet.

for k, center in enumerate(fit.centers_):
    members = fit.labels_ == k
    quiet = center.stationary()[np.argmin(center.emissions.means[:, 0, 0])]
    people = np.nanmedian(population[members])
    print(f"cluster {k + 1}: {members.sum()} towns of {people:,.0f} people (median); quiet in {quiet:.0%} of weeks")

# %%
# Report
# ------
# One page to explore and to share.

page = vhem.report.write(Path("results") / "measles.html", fit, hmms, sequences=towns)
print(page)
