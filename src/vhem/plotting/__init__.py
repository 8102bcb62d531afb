"""Pictures of models and results (needs matplotlib: the extra `plot`).

Every function takes `ax`, matplotlib's axes to draw into, and returns them; without it a new figure is made.
"""

from vhem.plotting.fits import plot_bounds, plot_n_clusters
from vhem.plotting.heatmaps import plot_j_matrix, plot_responsibilities
from vhem.plotting.hierarchy import plot_hierarchy
from vhem.plotting.hmm import plot_hmm
from vhem.plotting.mixture import plot_cluster, plot_h3m
from vhem.plotting.sequence import plot_sequence
from vhem.plotting.states import plot_distribution, plot_index
from vhem.plotting.transitions import plot_transitions

__all__ = [
    "plot_bounds",
    "plot_cluster",
    "plot_distribution",
    "plot_h3m",
    "plot_hierarchy",
    "plot_hmm",
    "plot_index",
    "plot_j_matrix",
    "plot_n_clusters",
    "plot_responsibilities",
    "plot_sequence",
    "plot_transitions",
]
