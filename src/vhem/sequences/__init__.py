"""The ragged container of sequences, and its readers."""

from vhem.sequences.container import Sequences, SequencesLike, as_sequences
from vhem.sequences.reading import read_sequences

__all__ = ["Sequences", "SequencesLike", "as_sequences", "read_sequences"]
