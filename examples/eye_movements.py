"""
Eye movements on faces: two ways of looking
===========================================

Ten people looked at faces that they had to remember (from the study of Chuk, Chan and Hsiao, Journal of Vision
14(11):8, 2014, as distributed with their toolbox EMHMM). One HMM per person describes where the person looks and in
which order, and VHEM groups the people by their HMMs. The usual question in this field: who looks at the eyes, and who
looks down the middle of the face?
"""

# sphinx_gallery_thumbnail_path = "images/report.png"
from pathlib import Path

import matplotlib.pyplot as plt

import vhem
from vhem.datasets import load_eye_movements
from vhem.plotting import plot_cluster, plot_hmm, plot_sequence

data = load_eye_movements()
people = [f"person {group}" for group in data.sequences.groups]
sequences = vhem.Sequences(data.sequences, groups=people)
face = None if data.image is None else plt.imread(data.image)
print(sequences)

# %%
# One person
# ----------
# Three regions, each with a full covariance, and one trial with its decoded states.

hmms = vhem.fit_hmms(sequences, n_states=3, covariance_type="full", groups=people, n_init=20, random_state=0)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 5.5), constrained_layout=True)
plot_hmm(hmms[0], left, image=face)
left.set_title(hmms.ids[0])
trials = sequences[[person == hmms.ids[0] for person in people]]
plot_sequence(hmms[0], max(trials, key=len), right, image=face)
right.set_title("one trial")

# %%
# Two groups of people
# --------------------
# The first group looks from eye to eye, the second up and down the nose.

fit = vhem.VHEM(n_clusters=2, tau=5, max_iter=300, random_state=0).fit(hmms)
figure, axes = plt.subplots(1, 2, figsize=(9, 5.5), constrained_layout=True)
for k, ax in enumerate(axes):
    plot_cluster(fit.centers_[k], hmms[fit.labels_ == k], ax, image=face)

# %%
# The toolbox learned its own HMMs of the same people, with one to three states. They fall into the same two groups.

if data.hmms is not None:
    theirs = vhem.VHEM(n_clusters=2, n_states=3, tau=5, max_iter=300, random_state=0).fit(data.hmms)
    print("groups from our HMMs:  ", fit.labels_)
    print("groups from EMHMM's own:", theirs.labels_)
    figure, axes = plt.subplots(1, 2, figsize=(9, 5.5), constrained_layout=True)
    for k, ax in enumerate(axes):
        plot_cluster(theirs.centers_[k], data.hmms[theirs.labels_ == k], ax, image=face)

# %%
# How many groups, how many regions, and how sure
# -----------------------------------------------
# Above, two groups and three regions were given. Variational Bayes finds both numbers, and says what the data leave
# open.

bayesian = vhem.fit_hmms(sequences, n_states=range(1, 5), groups=people, method="vb", random_state=0)
print("regions of each person:", bayesian.n_states)
found = vhem.VBHEM(n_clusters=range(1, 6), n_states=range(1, 5), random_state=0).fit(bayesian)
print("groups:", found.labels_)
for number, probability in zip(found.cluster_counts_, found.cluster_probabilities_, strict=True):
    print(f"{number} groups: probability {probability:.2f}")
print("\n".join(line for line in found.summary().splitlines() if line.startswith("HMM")))

# %%
# A report to share.

path = vhem.report.write(
    Path("results") / "eye_movements.html",
    fit,
    hmms,
    sequences=sequences,
    image=data.image,
    names=["x", "y"],
    title="Two ways of looking at faces",
)
print("report:", path)
