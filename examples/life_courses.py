"""
Life courses: from school to work
=================================

What 712 young people in Northern Ireland did in each of 72 months after compulsory school: six states, and case
weights (D. McVicar and M. Anyadike-Danes, Journal of the Royal Statistical Society A 165, 2002). A mixture of hidden
Markov models groups the people by the courses that they take; sequence analysts use optimal matching for this. The data
come with the package sequenzo: ``pip install --no-deps sequenzo``.
"""

# sphinx_gallery_thumbnail_path = "studies/lifecourse_mvad.png"
from pathlib import Path

import numpy as np

import vhem
from vhem.datasets import load_mvad
from vhem.plotting import plot_distribution, plot_h3m, plot_index

people = load_mvad()
print(people.sequences)

# %%
# Clusters
# --------
# Categories need no further setting: each state of an HMM has its own probabilities of the six activities.

fit = vhem.SequenceClustering(n_clusters=4, n_states=3, random_state=0).fit(people.sequences)
print(np.bincount(fit.labels_), fit.centers_.weights.round(2))
plot_h3m(fit.centers_)

# %%
# Sequences over time
# -------------------
# Every person is a line in the first picture; the second shows the shares of the activities month by month.

plot_index(people.sequences, fit.labels_, order="end")
plot_distribution(people.sequences, fit.labels_)

# %%
# Who they are
# ------------
# Good results in the exams at the end of compulsory school go with one of the clusters far more than with the others.

for k in range(4):
    good = people.covariates["gcse5eq"][fit.labels_ == k] == "yes"
    print(f"cluster {k + 1}: {len(good)} people, {good.mean():.0%} with five good exams or more")

# %%
# Report
# ------
# One page to explore and to share.

page = vhem.report.write(Path("results") / "life_courses.html", fit, sequences=people.sequences)
print(page)
