"""Search in a hierarchy against trying every HMM: recall and the share of HMMs compared, by width of the beam."""

from __future__ import annotations

import numpy as np

import vhem


def collection(n=2000, n_kinds=40, S=4, d=6, seed=0):
    """HMMs scattered around kinds that overlap somewhat."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_kinds, size=n)
    rows = rng.dirichlet(np.full(S, 2.0), (n, S))
    means = rng.standard_normal((n_kinds, S, d))[kind] + 0.4 * rng.standard_normal((n, S, d))
    covars = rng.gamma(4.0, 0.25, (n, S, d)) + 0.1
    return vhem.H3M.from_arrays(rng.dirichlet(np.full(S, 3.0), n), 0.4 * rows + 0.6 * np.eye(S), means, covars)


def main():
    h3m = collection()
    tree = vhem.HierarchicalVHEM(levels=(64, 8), n_trees=1, n_init=2, random_state=0).fit(h3m).tree_
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(h3m), 200, replace=False)
    queries = {
        "HMMs": h3m[chosen],
        "sequences of 30 frames": [h3m[int(k)].sample(1, 30, rng)[0] for k in chosen],
    }
    print(f"{len(h3m)} HMMs under {tree}; 200 queries, the 10 best of each\n")
    print(f"{'queries':24}{'beam':>6}{'recall of 1':>13}{'recall of 10':>14}{'compared':>10}")
    for name, query in queries.items():
        everything = vhem.expected_log_likelihood(query, h3m) if name == "HMMs" else h3m.log_likelihoods(query)
        truth = np.argsort(-everything, axis=1)[:, :10]
        for beam in (1, 2, 4, 8):
            found = tree.search(query, k=10, beam_width=beam)
            first = np.mean([truth[q, 0] in found.indices[q] for q in range(len(truth))])
            ten = np.mean([len(set(truth[q]) & set(found.indices[q])) / 10 for q in range(len(truth))])
            print(f"{name:24}{beam:6d}{first:13.1%}{ten:14.1%}{found.n_scored.mean() / len(h3m):10.1%}")


if __name__ == "__main__":
    main()
