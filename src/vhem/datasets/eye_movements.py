"""Eye movements over faces: the demonstration data of the EMHMM toolbox.

T. Chuk, A. B. Chan, J. H. Hsiao, "Understanding eye movements in face recognition using hidden Markov models", Journal
of Vision 14(11):8, 2014. Copyright (c) 2021 City University of Hong Kong and University of Hong Kong; BSD 3-clause
licence.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vhem.datasets.folder import find_data
from vhem.files.emhmm import from_emhmm
from vhem.models import H3M
from vhem.sequences import Sequences, read_sequences

_HOW_TO_GET = (
    "Get the demonstration files demodata.xls, jov_duration.xls, models_demo_faces_individual.mat and "
    "ave_face120.png of the EMHMM toolbox (visal.cs.cityu.edu.hk) and put them in a folder emhmm_faces."
)


class EyeMovements(NamedTuple):
    """Fixations of people who looked at faces."""

    sequences: Sequences  #: one per trial, grouped by person
    feature_names: list[str]  #: of the dimensions
    hmms: H3M | None  #: one per person, learned by the toolbox; only for the smaller study
    image: Path | None  #: the average face that x and y refer to, if available


def load_eye_movements(durations: bool = False) -> EyeMovements:
    """Load fixations on faces from the EMHMM toolbox's demonstration files.

    Parameters
    ----------
    durations : bool
        Load the study with durations (32 people, 1267 trials; x, y in pixels and milliseconds) instead of the one with
        positions only (10 people, 399 trials), which comes with the toolbox's own HMMs.

    Returns
    -------
    EyeMovements
        Trials and names. Needs the extra `tables`, for spreadsheets.

    Examples
    --------
    >>> from vhem.datasets import load_eye_movements
    >>> faces = load_eye_movements()
    >>> len(faces.sequences), len(set(faces.sequences.groups))
    (399, 10)
    """
    names = ["FixX", "FixY", "FixD"] if durations else ["FixX", "FixY"]
    file = "jov_duration.xls" if durations else "demodata.xls"
    path = find_data(f"emhmm_faces/{file}", _HOW_TO_GET)
    sequences = read_sequences(path, id=["SubjectID", "TrialID"], values=names, group="SubjectID")
    models = path.with_name("models_demo_faces_individual.mat")
    hmms = from_emhmm(models) if models.exists() and not durations else None
    image = path.with_name("ave_face120.png")
    return EyeMovements(sequences, names, hmms, image if image.exists() else None)
