"""Model files, and models of other programs.

To add a class to what can be saved, see :mod:`vhem._support.saving`.
"""

from vhem._support.saving import Ids, Kind, Saveable, register, register_estimator, register_record
from vhem.files.container import ModelFileError
from vhem.files.description import FileDescription
from vhem.files.emhmm import from_emhmm
from vhem.files.hmmlearn import from_hmmlearn
from vhem.files.labels import write_labels
from vhem.files.model_files import describe, load, save
from vhem.files.plain import from_json, from_npz, to_json, to_npz

__all__ = [
    "FileDescription",
    "Ids",
    "Kind",
    "ModelFileError",
    "Saveable",
    "describe",
    "from_emhmm",
    "from_hmmlearn",
    "from_json",
    "from_npz",
    "load",
    "register",
    "register_estimator",
    "register_record",
    "save",
    "to_json",
    "to_npz",
    "write_labels",
]
