"""
Human motion: a hierarchy of actions
====================================

56 recorded motions (the CMU motion capture database) in eight classes: people jump, run, jog, walk, sit, play. Each is
an HMM over postures, and VHEM builds a tree over them without knowing the classes. `vhem experiment motion` runs the
whole study, with all the systems that VHEM is compared with.
"""

# sphinx_gallery_thumbnail_path = "studies/motion_hierarchy.png"
import warnings
from pathlib import Path

import vhem
from vhem.datasets import load_cmu_motion
from vhem.plotting import plot_hierarchy, plot_hmm, plot_sequence
from vhem.studies.motion import MotionSettings, prepare

data = load_cmu_motion()
with warnings.catch_warnings(record=True) as raised:  # the report will show the warnings
    warnings.simplefilter("always")
    problem = prepare(data, MotionSettings(n_starts=2))
names = [f"{trial} {label}" for trial, label in zip(data.trials, data.labels, strict=True)]
hmms = vhem.H3M(list(problem.hmms), ids=names)
print(hmms)

# %%
# The tree
# --------
# Eight clusters of motions, four clusters of clusters, two at the top; colours are the classes, which VHEM did not see.

settings = {"tau": problem.tau, "n_virtual": 1.0, "n_init": 6, "max_iter": 60, "tol": 1e-4}
fit = vhem.HierarchicalVHEM(levels=(8, 4, 2), n_trees=4, random_state=0, **settings).fit(hmms)
plot_hierarchy(fit.tree_, data.labels)

# %%
# One motion
# ----------
# Its states are postures (here as their leading components), and the sequence passes through them.

run = data.labels.index("run")
ax = plot_hmm(hmms[run])
ax.set_title(f"trial {names[run]}")
plot_sequence(hmms[run], problem.sequences[run])

# %%
# A report with the tree to click through.

path = vhem.report.write(
    Path("results") / "motion.html",
    fit,
    sequences=problem.sequences,
    classes=data.labels,
    warnings=raised,
    title="A tree of motions",
)
print("report:", path)
