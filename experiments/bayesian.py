"""What variational Bayes gains, on simulated people whose truth is known: the figures of docs/bayesian.md.

    python experiments/bayesian.py states --seeds 1000-1009
    python experiments/bayesian.py clusters --seeds 2000-2019 [--alike]
    python experiments/bayesian.py speed

Every call has default settings; nothing is tuned per study. Output is recorded in docs/results/bayesian.txt.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.datasets import simulated_study

_TRIALS = (5, 10, 20, 30)
_PEOPLE = 20


def states(seeds: range) -> None:
    """Chosen numbers of states (3 are true), and the likelihood of new sequences, per frame, relative to the truth."""
    methods: dict[str, Callable[..., vhem.H3M]] = {
        "em, 3 states given": lambda x, g: vhem.fit_hmms(x, 3, groups=g, random_state=0),
        "em, 1-5 by BIC": lambda x, g: vhem.fit_hmms(x, range(1, 6), groups=g, random_state=0),
        "vb, 1-5": lambda x, g: vhem.fit_hmms(x, range(1, 6), groups=g, method="vb", random_state=0),
    }
    print(
        f"{len(seeds)} studies of {_PEOPLE} people; log-likelihood of 30 new sequences, nats per frame below the truth"
    )
    for n in _TRIALS:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for seed in seeds:
            study = simulated_study(_PEOPLE, n, random_state=seed)
            rng = np.random.default_rng(seed)
            new = {name: hmm.sample(30, 9, rng) for name, hmm in zip(study.hmms.ids, study.hmms, strict=True)}
            truth = np.mean([hmm.score(new[name]) for name, hmm in zip(study.hmms.ids, study.hmms, strict=True)])
            for name, fit in methods.items():
                hmms = fit(study.sequences, study.sequences.groups)
                score = np.mean([hmm.score(new[k]) for k, hmm in zip(hmms.ids, hmms, strict=True)])
                found[name].append((float(truth - score) / 9, float((hmms.n_states == 3).mean())))
        for name, pairs in found.items():
            loss, right = np.array(pairs).T
            error = loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else np.nan
            print(
                f"{n:3d} trials  {name:20s} loss {loss.mean():.3f} ± {error:.3f}  three states {right.mean():.1%}",
                flush=True,
            )


def clusters(seeds: range, alike: bool) -> None:
    """Numbers of clusters that VBHEM finds where three are true, among people of a kind who vary, or are all alike."""
    right, seconds = 0, []
    for seed in seeds:
        study = simulated_study(30, 15, random_state=seed)
        sequences, groups = study.sequences, study.sequences.groups
        if alike:
            rng = np.random.default_rng(seed)
            drawn = [study.hmms[int(kind)].sample(15, 9, rng) for kind in study.strategies]
            sequences = vhem.Sequences([x for person in drawn for x in person])
            groups = [name for name in study.hmms.ids for _ in range(15)]
        hmms = vhem.fit_hmms(sequences, range(1, 6), groups=groups, method="vb", random_state=0)
        begin = time.process_time()
        fit = vhem.VBHEM(random_state=0).fit(hmms)
        seconds.append(time.process_time() - begin)
        right += fit.n_clusters_ == 3
        rand = adjusted_rand_score(study.strategies, fit.labels_)
        sizes = fit.centers_.n_states.tolist()
        print(f"seed {seed}: {fit.n_clusters_} clusters of {sizes} states, Rand index {rand:.2f}", flush=True)
    print(f"three clusters in {right} of {len(seeds)} studies; {np.mean(seconds):.1f} s of CPU each")


def starts() -> None:
    """How often 50 starts reach the best bound of 500: ten people, one to five states, full covariances."""
    study = simulated_study(10, 20, random_state=0)
    options = {"groups": study.sequences.groups, "covariance_type": "full", "method": "vb", "hyperparameters": "data"}
    bounds = {
        (n, seed): vhem.fit_hmms(
            study.sequences, range(1, 6), n_init=n, n_jobs=1, random_state=seed, return_report=True, **options
        )[1].lower_bounds
        for n, seed in ((50, 0), (500, 1))
    }  # fmt: skip
    few, many = bounds[50, 0], bounds[500, 1]
    behind = np.maximum(many - few, 0.0)
    for k in range(few.shape[1]):
        reached = int((behind[:, k] < 0.1).sum())
        gap = behind[:, k].max()
        print(f"{k + 1} states: 50 starts reach 500 for {reached} of {len(few)} people; largest gap {gap:.3f} nats")
    same = (few + _orders(few)).argmax(axis=1) == (many + _orders(many)).argmax(axis=1)
    print(f"the same number of states is chosen for {int(same.sum())} of {len(same)} people")


def _orders(bounds: np.ndarray) -> np.ndarray:
    """Return ln K! of one to so many states."""
    return gammaln(np.arange(bounds.shape[1]) + 2.0)


def speed() -> None:
    """CPU seconds on one thread."""
    study = simulated_study(10, 20, random_state=0)
    options = {"groups": study.sequences.groups, "covariance_type": "full", "n_jobs": 1, "random_state": 0}
    begin = time.process_time()
    vhem.fit_hmms(study.sequences, range(1, 6), n_init=50, method="vb", hyperparameters="data", **options)
    print(f"VB-HMM, 10 people, 1 to 5 states, 50 starts: {time.process_time() - begin:.2f} s of CPU", flush=True)
    studies = {n: simulated_study(1000, n, random_state=0) for n in (5, 20)}
    data = {f"about {n} sequences each": known.sequences for n, known in studies.items()}
    long = [hmm.sample(1, 50, random_state=k)[0] for k, hmm in enumerate(studies[5].hmms)]
    data["one sequence of 50 frames each"] = vhem.Sequences(long, groups=range(len(long)))
    for name, sequences in data.items():
        for covariance in ("diag", "full"):
            em, vb = per_iteration(sequences, covariance)
            times = f"({1e3 * vb:.2f} ms against {1e3 * em:.2f})"
            print(f"1,000 groups, {name}, {covariance}: vb {vb / em:.2f} times em per iteration {times}", flush=True)
    hmms = vhem.fit_hmms(study.sequences, range(1, 4), groups=study.sequences.groups, method="vb", random_state=0)
    begin = time.process_time()
    vhem.VBHEM(range(1, 6), range(1, 4), n_jobs=1, random_state=0).fit(hmms)
    print(f"VBHEM, 10 people, 1 to 5 clusters of 1 to 3 states: {time.process_time() - begin:.1f} s of CPU")


def per_iteration(sequences: vhem.Sequences, covariance: str, repeats: int = 5) -> list[float]:
    """Return the seconds of an iteration of Baum-Welch and of variational Bayes, the shortest of several in turns."""
    times = np.empty((repeats, 2, 2))
    options = {"groups": sequences.groups, "covariance_type": covariance, "n_jobs": 1, "random_state": 0, "tol": 0}
    methods: tuple[dict[str, Any], ...]
    methods = ({"pooling": None}, {"method": "vb", "hyperparameters": "data"})
    for at in np.ndindex(times.shape):
        _, method, long = at
        begin = time.process_time()
        vhem.fit_hmms(sequences, 3, n_init=1, max_iter=25 if long else 5, **methods[method], **options)
        times[at] = time.process_time() - begin
    short, long_runs = times.min(axis=0).T
    return list((long_runs - short) / 20)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("states", "clusters", "starts", "speed"))
    parser.add_argument("--seeds", default="1000-1009")
    parser.add_argument("--alike", action="store_true", help="people of a kind share one HMM")
    given = parser.parse_args()
    low, high = map(int, given.seeds.split("-"))
    warnings.simplefilter("ignore")
    if given.part == "speed":
        speed()
    elif given.part == "starts":
        starts()
    elif given.part == "states":
        states(range(low, high + 1))
    else:
        clusters(range(low, high + 1), given.alike)


if __name__ == "__main__":
    main()
