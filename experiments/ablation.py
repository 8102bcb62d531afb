"""What each part of the default contributes: alone, together, and left out. The tables of docs/quality.md.

    python experiments/ablation.py --draws 100-111            prints the tables
    python experiments/ablation.py --draws 100-111 --write    writes docs/results/ablation.txt too

Data are those of cluster_quality.py. Parts are switched off by patching the modules that they are in.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
from cluster_quality import ROOT, SETS, Study
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.em import fitting, polish, polished_models

SOME_SETS = "faces,hard,letters,sensor,channels,stages"
Switch = tuple[Any, str, Any]


def _one_tree(base: Any, n_threads: int) -> dict[str, np.ndarray]:
    return {"ward": polished_models.divergences(base.models, base.tau, n_threads)}


def _best_alone(candidates: list[polish.Candidate], ward: float = 0.0) -> polish.Candidate:
    del ward
    return max(candidates, key=lambda one: one.objective)


NO_NEIGHBOURS: Switch = (fitting, "_ROUNDS", 0)
NO_VOTE: Switch = (polish, "elected", _best_alone)
NO_VOTE_OF_HMMS: Switch = (polished_models, "elected", _best_alone)
ONE_TREE: Switch = (polished_models, "_apart", _one_tree)
NO_VARYING: Switch = (polish.Polish, "may_vary", property(lambda self: False))


def on_hmms(study: Study, pooling: str | None = "auto", **options: Any) -> np.ndarray:
    settings = {"groups": study.items, "pooling": pooling, "random_state": 0, "n_jobs": 1}
    hmms = vhem.fit_hmms(study.sequences, study.n_states, **study.sizes, **settings)
    return vhem.VHEM(study.n_clusters, random_state=0, n_jobs=1, **options).fit(hmms).labels_


def on_sequences(study: Study) -> np.ndarray:
    fit = vhem.SequenceClustering(study.n_clusters, study.n_states, **study.sizes, random_state=0, n_jobs=1)
    return fit.fit(study.sequences, groups=study.items).labels_


#: what is left → how to cluster, its options, what is switched off
OF_HMMS: dict[str, tuple[dict[str, Any], list[Switch]]] = {
    "Ward's start, VHEM": ({"pooling": None, "polish": False}, []),
    "+ pooled variances only": ({"polish": False}, [NO_NEIGHBOURS]),
    "+ neighbours and pooled variances only": ({"polish": False}, []),
    "+ polish only": ({"pooling": None}, [ONE_TREE, NO_VOTE_OF_HMMS]),
    "+ polish of several trees, vote only": ({"pooling": None}, []),
    "everything": ({}, []),
    "without neighbours": ({}, [NO_NEIGHBOURS]),
    "without the vote (the best of four)": ({}, [NO_VOTE_OF_HMMS]),
    "without the vote, one tree": ({}, [ONE_TREE, NO_VOTE_OF_HMMS]),
    "without items that vary": ({}, [NO_VARYING]),
}
OF_SEQUENCES: dict[str, tuple[dict[str, Any], list[Switch]]] = {
    "Ward's parts, EM on the sequences": ({}, [NO_NEIGHBOURS, NO_VARYING]),
    "+ neighbours only (no varying, no vote)": ({}, [NO_VARYING]),
    "+ items that vary only": ({}, [NO_NEIGHBOURS, NO_VOTE]),
    "everything": ({}, []),
    "without neighbours": ({}, [NO_NEIGHBOURS]),
    "without the vote": ({}, [NO_VOTE]),
}


def table(title: str, cluster: Callable[..., np.ndarray], variants: Any, sets: list[str], draws: range) -> list[str]:
    """Return a line per variant; standard errors are those of the difference from everything, paired by draw."""
    studies = {name: [SETS[name](seed) for seed in draws] for name in sets}
    scores = {}
    for variant, (options, switches) in variants.items():
        with ExitStack() as stack:
            for switch in switches:
                stack.enter_context(patch.object(*switch))
            scores[variant] = np.array(
                [[adjusted_rand_score(s.truth, cluster(s, **options)) for s in studies[name]] for name in sets]
            )
        print(variant, scores[variant].mean(axis=1).round(3), flush=True)
    lines = [f"{title:<42}" + "".join(f"{name:>10}" for name in sets) + "      mean   against everything"]
    for variant, found in scores.items():
        gap = (found - scores["everything"]).mean(axis=0)
        paired = f"{gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}" if variant != "everything" else ""
        cells = "".join(f"{mean:>10.3f}" for mean in (*found.mean(axis=1), found.mean()))
        lines.append(f"{variant:<42}{cells}   {paired}".rstrip())
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", default="100-111", help="first and last seed of the data")
    parser.add_argument("--sets", default=SOME_SETS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    first, last = map(int, options.draws.split("-"))
    warnings.simplefilter("ignore")
    sets, draws = options.sets.split(","), range(first, last + 1)
    lines = [f"Mean adjusted Rand index, draws {first} to {last}"]
    lines += ["", *table("VHEM on HMMs", on_hmms, OF_HMMS, sets, draws)]
    lines += ["", *table("SequenceClustering", on_sequences, OF_SEQUENCES, sets, draws)]
    print("\n".join(lines))
    if options.write:
        (ROOT / "docs" / "results" / "ablation.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
