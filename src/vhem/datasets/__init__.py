"""Data to try the library on."""

from vhem.datasets.face import simulated_face
from vhem.datasets.motion import MotionData, load_cmu_motion
from vhem.datasets.simulated import SimulatedStudy, simulated_study

__all__ = ["MotionData", "SimulatedStudy", "load_cmu_motion", "simulated_face", "simulated_study"]
