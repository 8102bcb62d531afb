"""Classifiers and taggers built on mixtures of HMMs."""

from vhem.supervised.classifier import H3MClassifier

__all__ = ["H3MClassifier"]
