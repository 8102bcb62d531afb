"""Bayesian HMMs: variational Bayes for HMMs (VB-HMM) and for clusters of them (VBHEM)."""

from vhem.bayes.fit_hmm import VBFit, fit_hmm
from vhem.bayes.fit_vbhem import VBHEMFit, fit_vbhem
from vhem.bayes.gradients import bound_gradient
from vhem.bayes.records import Hyperparameters, Posterior

__all__ = ["Hyperparameters", "Posterior", "VBFit", "VBHEMFit", "bound_gradient", "fit_hmm", "fit_vbhem"]
