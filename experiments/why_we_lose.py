"""Why SequenceClustering is far behind on some sets of docs/benchmarks.md: by the search, or by the objective.

    python experiments/why_we_lose.py            prints the table, also kept in docs/results/why_we_lose.txt

The same algorithm is started from the true classes (`vhem.diagnose`). If it leaves them for an objective that is lower
than the one found from scratch, the model itself prefers other clusters, and no search would help. "Truth" is the
agreement with the classes where that start ends; "gain" how much higher the objective found is, in nats per item.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import vhem
from vhem.studies.clustering_data import SETS

LOST = ("GunPoint", "ArrowHead", "Coffee", "Trace", "ItalyPowerDemand", "OSULeaf", "ACSF1", "PLAID", "PigCVP")


def row(name: str, seed: int) -> str:
    items = SETS[name](seed)
    fit = vhem.SequenceClustering(items.n_clusters, "auto", random_state=seed, n_jobs=1)
    fit.fit(items.sequences, groups=items.owner)
    found = vhem.diagnose(fit, items.truth, items.sequences, items.owner)
    gain = (found.found_objective - found.truth_objective) / len(items.truth)
    shape = f"{fit.n_states_} states, {fit.topology_}"
    sizes = "/".join(str(n) for n in np.bincount(fit.labels_, minlength=items.n_clusters))
    return f"{name:17}{shape:24}{found.agreement:6.2f}{found.kept:7.2f}{gain:9.2f}   {found.cause:10}{sizes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(LOST))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [f"{'set':17}{'chosen':24}{'found':>6}{'truth':>7}{'gain':>9}   {'cause':10}sizes found"]
    for name in options.sets.split(","):
        lines.append(row(name, options.seed))
        print("\n".join(lines[-2:] if len(lines) == 2 else lines[-1:]), flush=True)
    if options.write:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
