"""
Eye movements on faces: two ways of looking
===========================================

32 people looked at faces that they were to remember (the study of Chuk, Chan and Hsiao, Journal of Vision 14(11):8,
2014, as it comes with their toolbox EMHMM). One HMM per person says where the person looks and in which order; VHEM
groups the people by it. The field's usual question: who looks at the eyes, who at the middle of the face?
"""

from pathlib import Path

import matplotlib.pyplot as plt

import vhem
from vhem.datasets.folder import find_data
from vhem.plotting import plot_cluster, plot_h3m, plot_hmm, plot_sequence

folder = find_data("emhmm_faces", "It holds jov_duration.xls and ave_face120.png of the EMHMM toolbox's demonstration.")
face = plt.imread(folder / "ave_face120.png")
sequences = vhem.read_sequences(
    folder / "jov_duration.xls", id=["SubjectID", "TrialID"], values=["FixX", "FixY"], group="SubjectID"
)
print(sequences)

# %%
# One person
# ----------
# Three places with full covariances; how many fit best could be chosen by ``n_states=range(1, 5)``.

hmms = vhem.fit_hmms(sequences, n_states=3, covariance_type="full", groups=sequences.groups, n_init=10, random_state=0)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 5), constrained_layout=True)
plot_hmm(hmms[0], left, image=face)
first = sequences[[group == hmms.ids[0] for group in sequences.groups]]
longest = max(range(len(first)), key=lambda i: len(first[i]))
plot_sequence(hmms[0], first[longest], right, image=face)
left.set_title(f"person {hmms.ids[0]}")
right.set_title("one trial, with the states found in it")

# %%
# Two groups of people
# --------------------
# Trials have two or three fixations, so ``tau`` is short.

fit = vhem.VHEM(n_clusters=2, tau=3, random_state=0).fit(hmms)
plot_h3m(fit.centers_, image=face)
figure, axes = plt.subplots(1, 2, figsize=(9, 5.5), constrained_layout=True)
for k, ax in enumerate(axes):
    plot_cluster(fit.centers_[k], hmms[fit.labels_ == k], ax, image=face)

# %%
# A report to show around.

path = vhem.report.write(
    Path("results") / "eye_movements.html",
    fit,
    hmms,
    sequences=sequences,
    image=folder / "ave_face120.png",
    names=["x", "y"],
    title="Two ways of looking at faces",
)
print("report:", path)
