"""Do the slopes of smooth channels help? Clusters with and without them: the tables of docs/quality.md.

    python experiments/slopes.py --draws 1400-1409            prints the table
    python experiments/slopes.py --draws 1400-1409 --write    writes docs/results/slopes.txt too

Smooth curves are drawn here; letters and motions are recordings, read from the folder in VHEM_DATA, or from
../shared/data beside the repository. The number of clusters is given, everything else is a default.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.studies.clustering_data import letters, motions

Drawn = tuple[list[np.ndarray], np.ndarray]


def _smooth_noise(rng: np.random.Generator, length: int, width: int) -> np.ndarray:
    made = gaussian_filter1d(rng.normal(size=length + 8 * width), width)[4 * width : -4 * width]
    return made / made.std()


def bump(seed: int) -> Drawn:
    """One curve with a bump at one of three places, and smooth deviations."""
    rng = np.random.default_rng(seed)
    time, base = np.linspace(0, 1, 120), _smooth_noise(rng, 120, 10)
    kinds, made = np.repeat(range(3), 15), []
    for kind in kinds:
        moved = time + 0.02 * rng.normal()
        here = 0.6 * np.exp(-0.5 * ((moved - 0.25 - 0.25 * kind) / 0.04) ** 2)
        made.append((np.interp(moved, time, base) + here + 0.25 * _smooth_noise(rng, 120, 12))[:, None])
    return made, kinds


def pace(seed: int) -> Drawn:
    """Smooth noise of the same spread that moves at one of three paces."""
    rng = np.random.default_rng(seed)
    kinds = np.repeat(range(3), 15)
    return [_smooth_noise(rng, 150, (4, 6, 9)[kind])[:, None] for kind in kinds], kinds


def gestures(seed: int) -> Drawn:
    """Five curves of two channels, each repeated at a varying pace and from another place."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, 100)
    curves = [np.stack([_smooth_noise(rng, 100, 12) for _ in range(2)], axis=1) for _ in range(5)]
    kinds, made = np.repeat(range(5), 12), []
    for kind in kinds:
        length = int(rng.integers(60, 110))
        warped = np.cumsum(np.exp(0.6 * _smooth_noise(rng, length, 15)))
        warped = (warped - warped[0]) / (warped[-1] - warped[0])
        x = np.stack([np.interp(warped, time, curves[kind][:, c]) for c in range(2)], axis=1)
        made.append(x + 0.5 * rng.normal(size=2) + 0.05 * rng.normal(size=x.shape))
    return made, kinds


def _recorded(read: Callable) -> Callable[[int], Drawn]:
    def drawn(seed: int) -> Drawn:
        items = read(seed)
        return items.sequences, items.truth

    return drawn


SETS = {"bump": bump, "pace": pace, "gestures": gestures, "letters": _recorded(letters), "motions": _recorded(motions)}


def score(drawn: Drawn, seed: int, slopes: bool | str) -> float:
    """Return the adjusted Rand index of a clustering."""
    sequences, truth = drawn
    model = vhem.SequenceClustering(len(np.unique(truth)), "auto", random_state=seed, slopes=slopes)
    return float(adjusted_rand_score(truth, model.fit(sequences).labels_))


def row(name: str, draws: range) -> str:
    """Return a row of the table."""
    found = np.array([[score(SETS[name](seed), seed, slopes) for slopes in (False, "auto")] for seed in draws])
    gain = found[:, 1] - found[:, 0]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    return f"{name:<10} {found[:, 0].mean():8.3f} {found[:, 1].mean():8.3f} {gain.mean():+10.3f} ± {error:.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", default="1400-1409")
    parser.add_argument("--write", action="store_true")
    told = parser.parse_args()
    first, last = map(int, told.draws.split("-"))
    warnings.simplefilter("ignore")
    lines = [f"draws {told.draws}", f"{'set':<10} {'without':>8} {'with':>8} {'difference':>10}"]
    print("\n".join(lines), flush=True)
    for name in SETS:
        lines.append(row(name, range(first, last + 1)))
        print(lines[-1], flush=True)
    if told.write:
        target = Path(__file__).resolve().parents[1] / "docs" / "results" / "slopes.txt"
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
