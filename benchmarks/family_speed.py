"""Families other than Gaussians, as ratios in one run: learning against hmmlearn, VHEM and products against Gaussians.

Every time is process time on one thread, the shortest of several: other programs lengthen it too.
"""

from __future__ import annotations

import logging
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from hmmlearn.hmm import CategoricalHMM, PoissonHMM
from sequence_speed import best_time

from vhem import H3M, HMM, Sequences, fit_hmms
from vhem.emissions import Categorical, Gaussian, Poisson, Product
from vhem.kernels.counting import Pairs, expectations
from vhem.kernels.engine import engine
from vhem.kernels.models import Models
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step

PLAIN = {"reg_covar": 0.0, "startprob_prior": 0.0, "transmat_prior": 0.0, "covars_prior": 0.0}
RIVAL = {"tol": -np.inf, "init_params": "", "implementation": "scaling"}


def random_chains(rng, K, S):
    return rng.dirichlet(np.full(S, 3.0), K), 0.5 * rng.dirichlet(np.full(S, 2.0), (K, S)) + 0.5 * np.eye(S)


def rates(rng, lead, d):
    return Poisson.of(rng.uniform(1.0, 20.0, size=(*lead, d)))


def categories(rng, lead, V):
    return Categorical.of(rng.dirichlet(np.ones(V), size=(*lead, 1)))


def gaussians(rng, lead, d, spread=2.0):
    return Gaussian(spread * rng.normal(size=(*lead, d)), rng.uniform(0.5, 2.0, size=(*lead, d)))


def learning(name, emissions, rival, set_emissions, K=1000, T=50, S=3, n_iter=20, n_rival=100):
    """Learn one HMM per sequence from the same start."""
    rng = np.random.default_rng(0)
    (start, trans), (truth_start, truth) = random_chains(rng, K, S), random_chains(rng, K, S)
    here, there = emissions(rng, (K, S, 1)), emissions(rng, (K, S, 1))
    X = np.stack(
        [HMM(truth_start[k], truth[k], emissions=there.take(k)).sample(1, T, random_state=k)[0] for k in range(K)]
    )
    given = H3M([HMM(start[k], trans[k], emissions=here.take(k)) for k in range(K)])
    sequences = Sequences(X)

    def theirs():
        scores = []
        for k in range(n_rival):
            model = rival(S, n_iter=n_iter, **RIVAL)
            model.startprob_, model.transmat_ = start[k], trans[k]
            set_emissions(model, here.take((k, slice(None), 0)))
            x = X[k].astype(int)
            scores.append(model.fit(x).score(x))
        return np.array(scores)

    def ours():
        return fit_hmms(sequences, init=given, max_iter=n_iter, tol=0, n_jobs=1, return_report=True, **PLAIN)[1]

    their_time, scores = best_time(theirs, 5)
    our_time, report = best_time(ours, 60)
    error = np.abs(report.log_likelihoods[:n_rival] / scores - 1)
    row(f"{K} {name} HMMs, given start", their_time * K / n_rival, our_time, "at least 200")
    print(f"{'':36}log-likelihoods differ by {np.median(error):.1e} (median), {error.max():.1e} (largest), relative")


def set_categories(model, components):
    model.n_features, model.emissionprob_ = components.n_categories, components.probabilities[:, 0]


def set_rates(model, components):
    model.lambdas_ = components.rates


def reduction_time(rng, make, K=1000, K_r=20, S=3, tau=20):
    """Return the seconds of one E-step of VHEM that computes every pair."""
    (start, trans), (r_start, r_trans) = random_chains(rng, K, S), random_chains(rng, K_r, S)
    base = Models(start, trans, np.ones((K, S, 1)), make(rng, (K, S, 1)), np.full(K, S))
    reduced = Models(r_start, r_trans, np.ones((K_r, S, 1)), make(rng, (K_r, S, 1)), np.full(K_r, S))
    prepared = BaseModels.of(base, np.full(K, 10.0), np.ones(K), tau)
    weights = np.full(K_r, 1 / K_r)
    return best_time(lambda: e_step(prepared, reduced, weights, Shortcuts.of(False), 1), 15)[0]


def counting_time(rng, make, K=1000, T=50, S=3):
    """Return the seconds of one E-step of Baum-Welch."""
    start, trans = random_chains(rng, K, S)
    models = Models(start, trans, np.ones((K, S, 1)), make(rng, (K, S, 1)), np.full(K, S))
    X = models.components.draw(rng.integers(K * S, size=K * T), rng)
    pairs, offsets = Pairs(np.arange(K), np.arange(K)), T * np.arange(K + 1)
    return best_time(lambda: expectations(models, X, offsets, pairs, np.ones(K)), 25)[0]


def in_turns(time_of, *makers, repeats=4):
    """Return the shortest times of several kinds of emissions, measured in turns: other programs disturb all alike."""
    rounds = [[time_of(np.random.default_rng(1), make) for make in makers] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def against_gaussians(width=12):
    """Compare VHEM on categories with VHEM on Gaussians of as many dimensions; every pair has some weight in both."""
    gaussian, own = in_turns(
        reduction_time,
        lambda rng, lead: gaussians(rng, lead, width, spread=0.1),
        lambda rng, lead: categories(rng, lead, width),
    )
    row(f"VHEM, {width} categories (against Gaussians)", gaussian, own, "at least 1")


def products(d=4, V=12):
    """Compare a product of two families with the two alone."""
    one, two = (lambda r, lead: gaussians(r, lead, d)), (lambda r, lead: categories(r, lead, V))
    for name, time_of in (("VHEM", reduction_time), ("Baum-Welch", counting_time)):
        a, b, both = in_turns(time_of, one, two, lambda r, lead: Product([one(r, lead), two(r, lead)]))
        title = f"{name}, product of two families"
        print(f"{title:42}{a + b:10.4f} s{both:10.4f} s{both / (a + b):9.2f}x   (wanted: at most 1.3x)")


def row(name, theirs, ours, wanted):
    ratio = f"{theirs / ours:.1f}" if theirs > 5 * ours else f"{theirs / ours:.2f}"
    print(f"{name:42}{theirs:10.4f} s{ours:10.4f} s{ratio:>9}x   (wanted: {wanted}x)")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    print(f"engine {engine().name}, instruction set {engine().instruction_set}")
    print(f"{'other families than Gaussians':42}{'others':>12}{'vhem':>12}{'ratio':>10}")
    learning("categorical", lambda r, lead: categories(r, lead, 12), CategoricalHMM, set_categories)
    learning("Poisson", lambda r, lead: rates(r, lead, 1), PoissonHMM, set_rates)
    against_gaussians()
    print(f"{'products':42}{'parts':>12}{'product':>12}{'share':>10}")
    products()
