"""Classifiers and taggers built on mixtures of HMMs."""

from vhem.supervised.classifier import H3MClassifier
from vhem.supervised.tagger import H3MTagger, Songs

__all__ = ["H3MClassifier", "H3MTagger", "Songs"]
