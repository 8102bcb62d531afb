"""Data to try the library on."""

from vhem.datasets.eye_movements import EyeMovements, load_eye_movements
from vhem.datasets.face import simulated_face
from vhem.datasets.handwriting import HandwritingData, load_character_trajectories
from vhem.datasets.labelled_series import LabelledSeries, load_labelled_series
from vhem.datasets.motion import MotionData, load_cmu_motion
from vhem.datasets.music import MusicData, load_cal500, load_gtzan_features
from vhem.datasets.packaged import Clicks, LifeCourses, Measles, load_biofam, load_clicks, load_measles, load_mvad
from vhem.datasets.simulated import SimulatedStudy, simulated_study

__all__ = [
    "Clicks",
    "EyeMovements",
    "HandwritingData",
    "LabelledSeries",
    "LifeCourses",
    "Measles",
    "MotionData",
    "MusicData",
    "SimulatedStudy",
    "load_biofam",
    "load_cal500",
    "load_character_trajectories",
    "load_clicks",
    "load_cmu_motion",
    "load_eye_movements",
    "load_gtzan_features",
    "load_labelled_series",
    "load_measles",
    "load_mvad",
    "simulated_face",
    "simulated_study",
]
