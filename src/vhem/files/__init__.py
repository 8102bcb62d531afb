"""Model files, and models of other programs.

To add a class to what can be saved, see :mod:`vhem.files.registry`.
"""

from vhem.files import kinds as _kinds  # registers them
from vhem.files.container import ModelFileError
from vhem.files.description import FileDescription
from vhem.files.emhmm import from_emhmm
from vhem.files.hmmlearn_models import from_hmmlearn
from vhem.files.labels import write_labels
from vhem.files.model_files import describe, load
from vhem.files.plain import from_json, from_npz, to_json, to_npz
from vhem.files.registry import Ids, Kind, register, register_estimator, register_record

__all__ = [
    "FileDescription",
    "Ids",
    "Kind",
    "ModelFileError",
    "describe",
    "from_emhmm",
    "from_hmmlearn",
    "from_json",
    "from_npz",
    "load",
    "register",
    "register_estimator",
    "register_record",
    "to_json",
    "to_npz",
    "write_labels",
]

del _kinds
