"""A drawn face, as a background for the simulated study."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray


def simulated_face() -> npt.NDArray[np.uint8]:
    """Return a picture of a face, (400, 320) gray levels, with the places that `simulated_study` uses.

    Examples
    --------
    >>> from vhem.datasets import simulated_face
    >>> simulated_face().shape
    (400, 320)
    """
    y, x = np.mgrid[0:400, 0:320].astype(np.float64)

    def blob(cx: float, cy: float, width: float, height: float, sharpness: float = 2.0) -> FloatArray:
        return np.asarray(np.exp(-((((x - cx) / width) ** 2 + ((y - cy) / height) ** 2) ** sharpness)))

    level = 232 - 58 * blob(160, 205, 125, 165, 6.0) + 12 * blob(160, 225, 42, 75, 1.0)
    for side in (-1, 1):
        eye = 160 + 50 * side
        level -= 38 * blob(eye, 160, 30, 15, 3.0)
        level += 48 * blob(eye, 161, 22, 9, 3.0)
        level -= 105 * blob(eye, 161, 9, 9, 3.0)
        level -= 60 * blob(eye + 3 * side, 132 - 0.004 * 50, 31, 5, 2.0)
        level -= 42 * blob(160 + 12 * side, 240, 8, 5, 1.5)
    level -= 16 * blob(151, 205, 7, 35, 1.0)
    level -= 62 * blob(160, 284, 40, 9, 2.0)
    level -= 45 * blob(160, 285, 38, 2, 1.0)
    return np.asarray(np.clip(level, 0, 255).round(), dtype=np.uint8)
