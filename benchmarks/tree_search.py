"""Search in a hierarchy against trying every HMM: recall and the share of HMMs compared, by width of the beam.

`--large` asks a million HMMs about one sequence at a time, under a tree that was fitted to ten thousand of them.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import vhem


def random_chains(rng, n, S):
    rows = rng.dirichlet(np.full(S, 2.0), (n, S))
    return rng.dirichlet(np.full(S, 3.0), n), 0.4 * rows + 0.6 * np.eye(S)


def collection(n=2000, n_kinds=40, S=4, d=6, seed=0):
    """HMMs scattered around kinds that overlap somewhat."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_kinds, size=n)
    chains = random_chains(rng, n, S)
    means = rng.standard_normal((n_kinds, S, d))[kind] + 0.4 * rng.standard_normal((n, S, d))
    return vhem.H3M.from_arrays(*chains, means, rng.gamma(4.0, 0.25, (n, S, d)) + 0.1)


def large_collection(n=1_000_000, n_kinds=5000, n_families=50, S=4, d=6, seed=0):
    """HMMs scattered around kinds, which are scattered around families: songs of artists of genres, say."""
    rng = np.random.default_rng(seed)
    kinds = rng.standard_normal((n_families, S, d))[rng.integers(n_families, size=n_kinds)]
    kinds += 0.5 * rng.standard_normal(kinds.shape)
    chains = random_chains(rng, n, S)
    means = kinds[rng.integers(n_kinds, size=n)] + 0.25 * rng.standard_normal((n, S, d))
    return vhem.H3M.from_arrays(*chains, means, rng.gamma(4.0, 0.25, (n, S, d)) + 0.1)


def many_queries():
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


def one_query_at_a_time(n_queries=60, n_sample=10_000):
    h3m, rng = large_collection(), np.random.default_rng(1)
    sample = h3m[np.sort(rng.choice(len(h3m), n_sample, replace=False))]
    quick = vhem.HierarchicalVHEM(levels=(1000, 32), init="kmeans++", n_init=1, max_iter=5, random_state=0, n_jobs=1)
    fit, fitting = timed(lambda: quick.fit(sample))
    tree, placing = timed(lambda: fit.tree_.with_inputs(h3m, beam_width=2, n_jobs=1))
    print(f"\n{len(h3m):,} HMMs under {tree}; CPU of one thread: {fitting:.0f} s to fit the centres to")
    print(f"{n_sample:,} of them, {placing:.0f} s to place all below the centres")
    chosen = rng.choice(len(h3m), n_queries, replace=False)
    for n_frames in (30, 100):
        compare_beams(tree, h3m, [h3m[int(k)].sample(1, n_frames, rng)[0] for k in chosen])


def compare_beams(tree, h3m, queries):
    """Print how often, and how quickly, the search finds the HMM that fits a sequence best."""
    best, trying = timed(lambda: [int(h3m.log_likelihoods([y], n_jobs=1).argmax()) for y in queries])
    print(f"\none sequence of {len(queries[0])} frames against all: {1e3 * trying / len(queries):.0f} ms")
    print(f"{'beam':>4}{'recall of 1':>14}{'median time':>14}{'longest':>12}{'compared':>11}")
    for beam in (4, 8, 16, 32, 64):
        found, times = zip(*(timed(lambda y=y: tree.search([y], 1, beam, 1)) for y in queries), strict=True)  # noqa: B023
        recall = np.mean([one.indices[0, 0] == b for one, b in zip(found, best, strict=True)])
        compared = np.mean([one.n_scored[0] for one in found]) / len(h3m)
        print(f"{beam:4d}{recall:14.1%}{1e3 * np.median(times):11.1f} ms{1e3 * max(times):9.1f} ms{compared:11.1%}")


def timed(work):
    begin = time.process_time()
    return work(), time.process_time() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="also a million HMMs: some minutes, 3 GB")
    large = parser.parse_args().large
    many_queries()
    if large:
        warnings.simplefilter("ignore", vhem.NotConvergedWarning)
        one_query_at_a_time()


if __name__ == "__main__":
    main()
