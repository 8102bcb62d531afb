"""CMU motion capture: people who walk, run, jump, sit, play.

The data used in this project was obtained from mocap.cs.cmu.edu. The database was created with funding from NSF
EIA-0196217. It is free for use in research and commercial projects.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.datasets.folder import find_data
from vhem.sequences.readers.bvh import read_bvh

#: 56 trials in 8 classes, of the kinds that the paper names: from subjects to trials, as in CMU's index.
PAPER_TRIALS: dict[str, dict[str, list[int]]] = {
    "jump": {"13": [11, 13, 19, 32, 39, 40, 41, 42]},
    "run": {"09": [1, 2, 3, 4, 5, 6, 7]},
    "jog": {"35": [17, 18, 19, 20, 21, 22, 23]},
    "walk 1": {"07": [1, 2, 3, 6, 7, 8, 9]},
    "walk 2": {"08": [1, 2, 3, 6, 8, 9, 10]},
    "basket": {"06": [2, 3, 4, 5, 6, 7, 8]},
    "soccer": {"10": [1, 2, 3, 5, 6], "11": [1]},
    "sit": {"13": [1, 2, 3], "14": [27, 28, 31], "15": [10]},
}

#: All trials whose description in CMU's index is purely one of these actions.
ALL_TRIALS: dict[str, dict[str, list[int]]] = {
    "jump": {"13": [11, 13, 19, 32, 39, 40, 41, 42], "16": [1, 2, 3, 4, 5, 6, 7, 9, 10]},
    "run": {"09": [*range(1, 12)], "16": [55]},
    "jog": {"35": [*range(17, 27)], "16": [35, 36, 45, 46, 56]},
    "walk": {
        "07": [*range(1, 13)],
        "08": [*range(1, 12)],
        "16": [15, 16, 21, 22, 31, 32, 47, 58],
        "35": [*range(1, 17), *range(28, 35)],
    },
    "basket": {"06": [*range(2, 16)]},
    "soccer": {"10": [1, 2, 3, 5, 6], "11": [1]},
    "sit": {"13": [1, 2, 3, 4, 5, 6], "14": [27, 28, 29, 30, 31, 32, 36], "15": [10], "75": [17, 18, 19, 20]},
}

_HOW_TO_GET = (
    "Get the motions of the Carnegie Mellon University motion capture database (mocap.cs.cmu.edu) as BVH files, for "
    "example the cgspeed conversion, and put them, named like 09_01.bvh, into a folder cmu_mocap/bvh."
)


class MotionData(NamedTuple):
    """Recorded motions."""

    positions: list[FloatArray]  #: one array (T, joints, 3) per trial; y points up
    labels: list[str]
    trials: list[str]  #: subject_trial, as in CMU's index
    joint_names: list[str]
    fps: float


def load_cmu_motion(all_trials: bool = False) -> MotionData:
    """Load motions of the CMU database, from BVH files or from the prepared `cmu_mocap_positions.npz`.

    Parameters
    ----------
    all_trials : bool
        Load all 136 trials in 7 classes, instead of 56 in the 8 classes that the paper names.

    Returns
    -------
    MotionData
        Joint positions in space, labels and names.

    Examples
    --------
    >>> from vhem.datasets import load_cmu_motion
    >>> motion = load_cmu_motion()
    >>> len(motion.positions), sorted(set(motion.labels))[:3]
    (56, ['basket', 'jog', 'jump'])
    """
    wanted = ALL_TRIALS if all_trials else PAPER_TRIALS
    labels = {f"{s}_{n:02d}": label for label, by in wanted.items() for s, trials in by.items() for n in trials}
    folder = find_data("cmu_mocap", _HOW_TO_GET)
    prepared = folder / "cmu_mocap_positions.npz"
    return _from_prepared(prepared, labels) if prepared.exists() else _from_bvh(folder / "bvh", labels)


def _from_prepared(path: Path, labels: dict[str, str]) -> MotionData:
    with np.load(path, allow_pickle=False) as arrays:
        X, offsets = arrays["X"].astype(np.float64), np.r_[0, np.cumsum(arrays["lengths"])]
        places = {str(trial): i for i, trial in enumerate(arrays["trial"])}
        names, fps = [str(n) for n in arrays["joint_names"]], float(arrays["fps"])
    trials = list(labels)
    positions = [X[offsets[i] : offsets[i + 1]].reshape(-1, len(names), 3) for i in (places[t] for t in trials)]
    return MotionData(positions, list(labels.values()), trials, names, fps)


def _from_bvh(folder: Path, labels: dict[str, str]) -> MotionData:
    """Read BVH files without the first frame, which is a pose that the cgspeed conversion added."""
    missing = [trial for trial in labels if not (folder / f"{trial}.bvh").exists()]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks {len(missing)} of {len(labels)} trials, {missing[0]}.bvh first. {_HOW_TO_GET}"
        )
    motions = [read_bvh(folder / f"{trial}.bvh") for trial in labels]
    positions = [motion.positions()[1:] for motion in motions]
    first = motions[0]
    return MotionData(positions, list(labels.values()), list(labels), first.joint_names, round(1 / first.frame_time, 3))
