"""BVH motion files: skeleton, channels, and forward kinematics worked out by hand."""

import numpy as np
import pytest

from vhem.sequences.readers.bvh import read_bvh

FILE = """HIERARCHY
ROOT Hips
{
  OFFSET 0.0 0.0 0.0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Spine
  {
    OFFSET 0.0 2.0 0.0
    CHANNELS 3 Zrotation Yrotation Xrotation
    JOINT Head
    {
      OFFSET 0.0 1.0 0.0
      CHANNELS 3 Zrotation Yrotation Xrotation
      End Site
      {
        OFFSET 0.0 0.5 0.0
      }
    }
  }
  JOINT Leg
  {
    OFFSET 1.0 -1.0 0.0
    CHANNELS 3 Zrotation Yrotation Xrotation
    End Site
    {
      OFFSET 0.0 -1.0 0.0
    }
  }
}
MOTION
Frames: 3
Frame Time: 0.00833333
0 0 0  0 0 0   0 0 0  0 0 0  0 0 0
5 6 7  90 0 0  0 0 0  0 0 0  0 0 0
0 0 0  0 0 90  90 0 0  10 20 30  0 0 0
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text):
        path = tmp_path / "motion.bvh"
        path.write_text(text)
        return path

    return to_file


def test_skeleton_and_channels(write):
    motion = read_bvh(write(FILE))
    assert motion.joint_names == ["Hips", "Spine", "Head", "Leg"]
    assert motion.parents == [-1, 0, 1, 0]
    assert motion.channels.shape == (3, 15)
    assert motion.channel_names[3] == ("Hips", "Zrotation")
    assert motion.frame_time == pytest.approx(1 / 120, rel=1e-5)


def test_positions_by_hand(write):
    still, turned, both = read_bvh(write(FILE)).positions()
    np.testing.assert_allclose(still, [[0, 0, 0], [0, 2, 0], [0, 3, 0], [1, -1, 0]], atol=1e-12)
    # A quarter turn about z takes y to -x and x to y.
    np.testing.assert_allclose(turned, [[5, 6, 7], [3, 6, 7], [2, 6, 7], [6, 7, 7]], atol=1e-12)
    # The hips turn a quarter about x (y to z, z to -y); the spine then a quarter about its own z, which takes the
    # head's offset from y to -x. The head's own rotation moves nothing that is shown.
    np.testing.assert_allclose(both, [[0, 0, 0], [0, 0, 2], [-1, 0, 2], [1, 0, -1]], atol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "not a BVH file"),
        (FILE[:-10], "make 45 numbers, found"),
        (FILE.replace("Frames: 3", "Frames: many"), "must give Frames"),
        (FILE.replace("Zrotation Yrotation Xrotation", "Wrotation Yrotation Xrotation"), "unknown channel 'Wrotation'"),
        (FILE.replace("OFFSET 0.0 2.0 0.0", "OFFSET 0.0 two 0.0"), "HIERARCHY part is broken"),
        (FILE.replace("    OFFSET 0.0 2.0 0.0\n", ""), "4 joints but 3 offsets"),
    ],
)
def test_broken_files_are_named(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_bvh(write(text))
