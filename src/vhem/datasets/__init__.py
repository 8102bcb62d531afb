"""Data to try the library on."""

from vhem.datasets.eye_movements import EyeMovements, load_eye_movements
from vhem.datasets.face import simulated_face
from vhem.datasets.motion import MotionData, load_cmu_motion
from vhem.datasets.simulated import SimulatedStudy, simulated_study

__all__ = [
    "EyeMovements",
    "MotionData",
    "SimulatedStudy",
    "load_cmu_motion",
    "load_eye_movements",
    "simulated_face",
    "simulated_study",
]
