"""
Clicks in a shop
================

This is what visitors of an online shop did, session by session: 19 kinds of events in the order in which they happened.
A hidden Markov model describes a session as phases (looking around, choosing, paying) with their own probabilities of
each event; clusters are kinds of sessions. The data were simulated by the makers of the package retentioneering, and
come with it: ``pip install --no-deps retentioneering``.
"""

# sphinx_gallery_thumbnail_path = "images/clicks.png"
from pathlib import Path

import numpy as np

import vhem
from vhem.datasets import load_clicks
from vhem.plotting import plot_distribution, plot_h3m, plot_index

clicks = load_clicks()
chosen = np.flatnonzero(clicks.sequences.lengths >= 3)  # one or two clicks have no course
sessions = clicks.sequences[chosen]
print(sessions)

# %%
# Kinds of sessions
# -----------------
# The names of the events make them categories; nothing else needs to be said. Two clusters look around; one of them
# gets as far as the cart. The others pay: quickly, after some detours, or not at all, because of errors.

fit = vhem.SequenceClustering(n_clusters=5, n_states=4, random_state=0).fit(sessions)
plot_h3m(fit.centers_, columns=2)

# %%
# What they end in
# ----------------
# Sessions differ in length, and a line ends where its session does.

plot_index(sessions, fit.labels_, order="end")
plot_distribution(sessions, fit.labels_)
bought = np.array([["purchase"] in sessions.decoded(i) for i in range(len(sessions))])
for k in range(5):
    print(
        f"cluster {k + 1}: {np.sum(fit.labels_ == k)} sessions, {bought[fit.labels_ == k].mean():.0%} with a purchase"
    )

# %%
# Odd sessions
# ------------
# The log-likelihood per event shows which sessions fit no cluster well.

per_event = fit.centers_.score_samples(sessions) / sessions.lengths
for i in np.argsort(per_event)[:3]:
    print(f"{per_event[i]:.1f} nats:", " > ".join(event for (event,) in sessions.decoded(i)))

# %%
# Report
# ------
# One page to explore and to share.

page = vhem.report.write(Path("results") / "clicks.html", fit, sequences=sessions)
print(page)
