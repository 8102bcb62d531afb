"""How good data in parts is: PartitionedH3M against EM-H3M and VHEM on all sequences at once.

Mixtures of 8 HMMs of 3 states, 10,000 sequences of 50 frames in parts of 2,000. Each entry is the log-likelihood per
frame of 4,000 other sequences, relative to EM started from the truth, and the adjusted Rand index of their labels.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

from vhem import H3M, HMM, VHEM, MixtureOfHMMs, PartitionedH3M, fit_hmms, split_sequences

K, S, D, T = 8, 3, 3, 50


def truth(seed, spread):
    """Return a mixture of HMMs whose states lie `spread` apart."""
    rng = np.random.default_rng(seed)
    hmms = []
    for _ in range(K):
        trans = rng.gamma(1.0, size=(S, S)) + 0.05 + 2 * np.eye(S)
        trans /= trans.sum(axis=1, keepdims=True)
        means = spread * rng.normal(size=(S, D))
        hmms.append(HMM(np.full(S, 1 / S), trans, means, rng.uniform(0.3, 2.0, size=(S, D))))
    return H3M(hmms, weights=rng.dirichlet(np.full(K, 3.0)))


def in_parts(X, **options):
    return PartitionedH3M(K, S, tau=T, random_state=0, **options).fit(split_sequences(X, 2000)).model_


SYSTEMS = {
    "EM-H3M on all sequences at once": lambda X: MixtureOfHMMs(K, S, random_state=0).fit(X).model_,
    "VHEM on all HMMs at once": lambda X: (
        VHEM(K, S, tau=T, random_state=0).fit(fit_hmms(X, S, random_state=0)).centers_
    ),
    "in parts": in_parts,
    "in parts, polished": lambda X: in_parts(X, polish=True),
    "in parts, no sample": lambda X: in_parts(X, n_sample=0),
    'in parts, local="hmms"': lambda X: in_parts(X, local="hmms"),
}


def main(spreads, n_seeds):
    cells = [(spread, seed) for spread in spreads for seed in range(n_seeds)]
    print(f"{'':42}" + "".join(f"{f'spread {spread:g}, seed {seed}':>20}" for spread, seed in cells))
    data = []
    for spread, seed in cells:
        mixture = truth(seed, spread)
        X, _ = mixture.sample(10_000, T, random_state=seed)
        Y, labels = mixture.sample(4000, T, random_state=seed + 100)
        best = MixtureOfHMMs(K, S, init=mixture, max_iter=30).fit(X).model_
        data.append((X, Y, labels, best.score_samples(Y).sum()))
    for name, system in SYSTEMS.items():
        found = []
        for X, Y, labels, best in data:
            model = system(X)
            loss = 100 * (1 - model.score_samples(Y).sum() / best)
            found.append(f"{loss:+.2f} %  {adjusted_rand_score(labels, model.predict(Y)):.3f}")
        print(f"{name:42}" + "".join(f"{entry:>20}" for entry in found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spreads", default="2,1")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    main([float(s) for s in options.spreads.split(",")], options.seeds)
