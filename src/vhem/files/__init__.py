"""Model files, and models of other programs.

To add a class to what can be saved, see :mod:`vhem.files.registry`.
"""

from vhem.files import kinds as _kinds  # registers them
from vhem.files.container import ModelFileError
from vhem.files.model_files import FileDescription, describe, load
from vhem.files.registry import Ids, Kind, register, register_estimator, register_record

__all__ = [
    "FileDescription",
    "Ids",
    "Kind",
    "ModelFileError",
    "describe",
    "load",
    "register",
    "register_estimator",
    "register_record",
]

del _kinds
