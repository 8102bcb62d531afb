"""The ragged container of sequences, and its readers."""

from vhem.sequences.container import Sequences, SequencesLike, as_sequences

__all__ = ["Sequences", "SequencesLike", "as_sequences"]
