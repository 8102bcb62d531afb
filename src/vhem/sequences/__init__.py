"""The container of sequences of different lengths, and its readers."""

from vhem.sequences.container import Sequences, SequencesLike, as_sequences
from vhem.sequences.readers.read import read_sequences

__all__ = ["Sequences", "SequencesLike", "as_sequences", "read_sequences"]
