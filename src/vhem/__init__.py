"""Cluster hidden Markov models by the distributions they represent."""

__version__ = "0.1.0"
