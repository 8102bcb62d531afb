"""Data to try the library on."""

from vhem.datasets.simulated import SimulatedStudy, simulated_study

__all__ = ["SimulatedStudy", "simulated_study"]
