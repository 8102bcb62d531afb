"""Pictures of models and results (needs matplotlib: the extra `plot`)."""

from vhem.plotting.hierarchy import plot_hierarchy

__all__ = ["plot_hierarchy"]
