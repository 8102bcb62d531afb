"""Motion capture files in BVH format: the skeleton, the channels, and where every joint is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.errors import InputError
from vhem.sequences.container import Sequences
from vhem.sequences.readers.options import Options, Reading, without_extension
from vhem.sequences.readers.roles import given_or_guessed

_AXES = {"Xrotation": 0, "Yrotation": 1, "Zrotation": 2}
_SHIFTS = {"Xposition": 0, "Yposition": 1, "Zposition": 2}


class Motion(NamedTuple):
    """One recorded motion."""

    joint_names: list[str]
    parents: list[int]  #: of every joint; -1 for the root
    offsets: FloatArray  #: (joints, 3) of every joint from its parent, at rest
    channel_names: list[tuple[str, str]]  #: joint and kind, in the order of the columns
    channels: FloatArray  #: (T, channels) as in the file, angles in degrees
    frame_time: float  #: seconds

    def positions(self) -> FloatArray:
        """Return the joints' positions in space, (T, joints, 3), by forward kinematics.

        A joint's frame is its parent's, shifted by its offset and turned by its own rotations in their channels' order.
        """
        T = len(self.channels)
        shift = np.tile(self.offsets, (T, 1, 1))
        turn = np.tile(np.eye(3), (T, len(self.joint_names), 1, 1))
        index = {name: k for k, name in enumerate(self.joint_names)}
        for column, (joint, kind) in enumerate(self.channel_names):
            values, k = self.channels[:, column], index[joint]
            if kind in _SHIFTS:
                shift[:, k, _SHIFTS[kind]] += values
            else:
                turn[:, k] = turn[:, k] @ _rotation(_AXES[kind], np.radians(values))
        place = np.empty_like(shift)
        for k, parent in enumerate(self.parents):
            if parent < 0:
                place[:, k] = shift[:, k]
                continue
            place[:, k] = place[:, parent] + np.einsum("tij,tj->ti", turn[:, parent], shift[:, k])
            turn[:, k] = turn[:, parent] @ turn[:, k]
        return place


def read_bvh(path: str | Path) -> Motion:
    """Read a BVH file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Motion
        Skeleton and channels; `Motion.positions` gives the joints' positions.
    """
    text = Path(path).read_text(encoding="utf-8-sig", errors="replace")
    head, found, body = text.partition("MOTION")
    if not found or not head.lstrip().startswith("HIERARCHY"):
        raise InputError("{path} is not a BVH file: it must begin with HIERARCHY and have a MOTION part", path=path)
    names, parents, offsets, channels = _read_hierarchy(iter(head.split()), path)
    frames, frame_time = _read_frames(body, len(channels), path)
    return Motion(names, parents, np.array(offsets), channels, frames, frame_time)


def read_motion(path: Path, options: Options) -> Reading:
    """Return a BVH file as one sequence, its channels as columns."""
    motion = read_bvh(path)
    columns = [f"{joint}.{kind}" for joint, kind in motion.channel_names]
    roles = given_or_guessed(columns, lambda _: True, [], None, options.values, None)
    place = {name: k for k, name in enumerate(columns)}
    chosen = motion.channels[:, [place[name] for name in roles.values]]
    return Reading(Sequences([chosen], [without_extension(path)]), roles)


def _read_hierarchy(
    words: Iterator[str], path: str | Path
) -> tuple[list[str], list[int], list[list[float]], list[tuple[str, str]]]:
    names: list[str] = []
    parents: list[int] = []
    offsets: list[list[float]] = []
    channels: list[tuple[str, str]] = []
    above, inside_end = [-1], False  # the joints above the current one, and whether this is the tip of a limb
    try:
        for word in words:
            if word in ("ROOT", "JOINT"):
                names.append(next(words))
                parents.append(above[-1])
            elif word == "End":
                inside_end = True
            elif word == "{" and not inside_end:
                above.append(len(names) - 1)
            elif word == "}" and inside_end:
                inside_end = False
            elif word == "}":
                above.pop()
            elif word == "OFFSET":
                offset = [float(next(words)) for _ in range(3)]
                if not inside_end:
                    offsets.append(offset)
            elif word == "CHANNELS":
                channels += [(names[-1], _channel(next(words))) for _ in range(int(next(words)))]
    except (StopIteration, ValueError, IndexError) as error:
        problem = "{path}: the HIERARCHY part is broken after joint {last}: {fault}"
        raise InputError(problem, path=path, last=names[-1:], fault=error) from None
    if not names or len(offsets) != len(names):
        problem = "{path}: {n} joints but {m} offsets in the HIERARCHY part"
        raise InputError(problem, path=path, n=len(names), m=len(offsets))
    return names, parents, offsets, channels


def _channel(kind: str) -> str:
    if kind not in _AXES and kind not in _SHIFTS:
        raise InputError("unknown channel {kind!r}", kind=kind)
    return kind


def _read_frames(body: str, n_channels: int, path: str | Path) -> tuple[FloatArray, float]:
    lines = body.split("\n", 3)
    try:
        n_frames = int(lines[1].split(":")[1])
        frame_time = float(lines[2].split(":")[1])
        values = np.array(lines[3].split(), dtype=np.float64)
    except (IndexError, ValueError) as error:
        problem = "{path}: the MOTION part must give Frames, Frame Time and numbers: {fault}"
        raise InputError(problem, path=path, fault=error) from None
    if n_frames < 1 or n_channels < 1:
        problem = "{path}: {T} frames of {d} channels; a motion has at least one of each"
        raise InputError(problem, path=path, T=n_frames, d=n_channels)
    if values.size != n_frames * n_channels:
        raise InputError(
            "{path}: {T} frames of {d} channels make {n} numbers, found {found}", "The file may be truncated",
            path=path, T=n_frames, d=n_channels, n=n_frames * n_channels, found=values.size,
        )  # fmt: skip
    return values.reshape(n_frames, n_channels), frame_time


def _rotation(axis: int, angles: FloatArray) -> FloatArray:
    """Return rotation matrices (T, 3, 3) about a coordinate axis."""
    c, s = np.cos(angles), np.sin(angles)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out = np.zeros((len(angles), 3, 3))
    out[:, axis, axis] = 1.0
    out[:, i, i] = out[:, j, j] = c
    out[:, i, j], out[:, j, i] = -s, s
    return out
