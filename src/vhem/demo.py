"""A complete example on a small simulated study: `make demo`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

from vhem import report
from vhem.datasets import SimulatedStudy, simulated_face, simulated_study
from vhem.datasets.simulated import PLACES
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.vhem import VHEM
from vhem.kernels.engine import engine
from vhem.models import HMM
from vhem.models.stationary import time_shares

_TAU = 8  # the median length of a trial


def main(path: Path = Path("results/demo.html")) -> None:
    """Cluster the viewers of a simulated study, print what was found, and write a report on it to `path`."""
    study = simulated_study()
    n_strategies = len(study.strategy_names)
    print(
        f"A simulated study: {len(study.strategies)} viewers looked at faces, {len(study.sequences)} trials, "
        f"{len(study.sequences.X)} fixations.\nEach viewer follows one of {n_strategies} strategies, "
        "which the program does not know.\n"
    )
    begin = time.perf_counter()
    hmms = fit_hmms(study.sequences, n_states=3, groups=study.sequences.groups, n_init=5, random_state=0)
    learned = time.perf_counter()
    fit = VHEM(n_clusters=n_strategies, tau=_TAU, random_state=0).fit(hmms)
    clustered = time.perf_counter()
    print(
        f"One HMM per viewer learned in {learned - begin:.2f} s, clustered by VHEM in {clustered - learned:.2f} s "
        f"({engine().name} engine).\n"
    )
    for cluster, center in enumerate(fit.centers_):
        describe_cluster(cluster, center, fit, study)
    agreement = adjusted_rand_score(study.strategies, fit.labels_)
    print(f"Agreement with the true strategies: adjusted Rand index {agreement:.2f} (1 is perfect, 0 is chance).")
    written = report.write(
        path,
        fit,
        hmms,
        sequences=study.sequences,
        classes=[study.strategy_names[s] for s in study.strategies],
        image=simulated_face(),
        names=["x", "y"],
        title="How 40 viewers look at faces",
        command="vhem demo",
    )
    print(f"\nThe report, to open in a browser: {written.resolve()}")


def describe_cluster(cluster: int, center: HMM, fit: VHEM, study: SimulatedStudy) -> None:
    """Print the members of a cluster and how its centre looks at a face."""
    members = fit.labels_ == cluster
    truth = np.bincount(study.strategies[members], minlength=len(study.strategy_names))
    mix = ", ".join(f"{n} follow '{name}'" for n, name in zip(truth, study.strategy_names, strict=True) if n)
    print(f"Cluster {cluster + 1}: {members.sum()} viewers ({mix})")
    share = time_shares(center.startprob[None], center.transmat[None], _TAU)[0]
    for state in range(center.n_states):
        x, y = center.means[state, 0]
        onward = int(np.argmax(center.transmat[state]))
        print(
            f"    {share[state]:4.0%} of fixations near the {nearest_place(center, state):9} ({x:3.0f}, {y:3.0f}), "
            f"next most often the {nearest_place(center, onward)}"
        )
    print()


def nearest_place(center: HMM, state: int) -> str:
    """Return the part of the face that a state's mean is closest to."""
    return min(PLACES, key=lambda place: float(np.linalg.norm(center.means[state, 0] - PLACES[place])))


if __name__ == "__main__":
    main()
