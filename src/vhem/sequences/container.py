"""Sequences of different lengths, kept as one array."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError, InputTypeError, ParameterError
from vhem._support.immutable import Immutable
from vhem._support.indexing import checked_ids, positions
from vhem._support.saving import Ids, Kind, State, register
from vhem.sequences.converters import frames_first, from_multiindex, padded, to_multiindex, without_padding
from vhem.sequences.identity import check_unique, names_of
from vhem.sequences.long_table import Table
from vhem.sequences.readers.cells import LARGEST
from vhem.sequences.readers.frames import is_lazy, read_frame


class Sequences(Immutable):
    """Sequences of vectors, of any lengths, all with d dimensions.

    Parameters
    ----------
    arrays : list of arrays, 3-D array or Sequences
        Sequence i is an array of shape (T_i, d), or (T_i,) if d = 1. A 3-D array (n, T, d) holds n
        sequences of one length. NaN marks a missing value; it is marginalised when a likelihood is computed.
    ids : list, optional
        One name per sequence, used in messages and results; names must be unique. 0, 1, … if not given.
    groups : iterable, optional
        What each sequence belongs to, such as a person; kept with the sequences, to be passed to `fit_hmms`.

    Attributes
    ----------
    X : array of shape (Σ T_i, d)
        All sequences, concatenated; read-only, float64.
    lengths : array of shape (n,)
        The lengths T_i.
    offsets : array of shape (n + 1,)
        Sequence i is ``X[offsets[i]:offsets[i + 1]]``.
    ids : list
        The names that are shown.
    keys : list
        What identifies the sequences: the ids; for a table with several id columns, tuples of their cells; for a
        folder, the paths of its files. Keys are unique, unless an index selected a sequence twice.
    groups : list or None
        One value per sequence, if given.

    Examples
    --------
    >>> import numpy as np
    >>> from vhem import Sequences
    >>> s = Sequences([np.zeros((3, 2)), np.ones((5, 2))], ids=["a", "b"])
    >>> s
    Sequences(n=2, n_dims=2, lengths 3 to 5, 8 frames)
    >>> s[1].shape
    (5, 2)
    >>> s[[True, False]].ids
    ['a']
    """

    X: FloatArray
    lengths: IntArray
    offsets: IntArray
    ids: list[Any]
    groups: list[Any] | None
    _keys: list[Any] | None = None  #: if they are not the ids

    def __init__(
        self, arrays: SequencesLike, ids: Iterable[Any] | None = None, groups: Iterable[Any] | None = None
    ) -> None:
        if isinstance(arrays, Sequences):
            names = arrays.ids if ids is None else _checked_names(ids, len(arrays))
            kept = arrays.groups if groups is None else _checked_groups(groups, len(arrays))
            self._assign(arrays.X, arrays.lengths, names, kept, arrays._keys if ids is None else None)
            return
        parts = _split(arrays)
        names = _checked_names(ids, len(parts))
        checked = [_checked_array(part, _name(i, names)) for i, part in enumerate(parts)]
        _check_same_dimensions(checked, names)
        lengths = np.array([len(array) for array in checked], dtype=np.int64)
        self._assign(np.concatenate(checked), lengths, names, _checked_groups(groups, len(parts)))
        self._check_range()

    def _assign(
        self,
        X: FloatArray,
        lengths: IntArray,
        ids: list[Any],
        groups: list[Any] | None = None,
        keys: list[Any] | None = None,
    ) -> None:
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._set(X=X, lengths=lengths, offsets=offsets, ids=ids, groups=groups, _keys=keys)

    @classmethod
    def _of(
        cls,
        X: FloatArray,
        lengths: IntArray,
        ids: list[Any],
        groups: list[Any] | None = None,
        keys: list[Any] | None = None,
    ) -> Sequences:
        """Return sequences that are known to be valid; ids may repeat."""
        made = cls.__new__(cls)
        made._assign(X, lengths, ids, groups, keys)
        return made

    @classmethod
    def _of_table(cls, table: Table) -> Sequences:
        """Return the sequences of a table, named by their keys."""
        return cls._of(table.X, table.lengths, names_of(table.keys), table.groups, table.keys)

    @classmethod
    def _joined(cls, parts: list[Sequences], keys: list[Any], groups: list[Any] | None) -> Sequences:
        """Return the sequences of all parts under new keys."""
        X, lengths = np.concatenate([part.X for part in parts]), np.concatenate([part.lengths for part in parts])
        return cls._of_table(Table(X, lengths, keys, groups))

    @property
    def keys(self) -> list[Any]:
        """What identifies each sequence."""
        return self.ids if self._keys is None else self._keys

    def __eq__(self, other: object) -> bool:
        """Whether frames, names and groups are the same."""
        if not isinstance(other, Sequences):
            return NotImplemented
        same = np.array_equal(self.X, other.X, equal_nan=True) and np.array_equal(self.lengths, other.lengths)
        return same and self.ids == other.ids and self.groups == other.groups

    __hash__ = None

    @classmethod
    def from_concatenated(cls, X: npt.ArrayLike, lengths: npt.ArrayLike, ids: Iterable[Any] | None = None) -> Sequences:
        """Return the sequences that are concatenated in `X` (hmmlearn's format).

        Parameters
        ----------
        X : array of shape (Σ T_i, d), or (Σ T_i,) if d = 1
            The frames of all sequences.
        lengths : array of shape (n,)
            The lengths T_i.
        ids : list, optional
            One name per sequence.

        Returns
        -------
        Sequences
            A copy of the data.

        Examples
        --------
        >>> Sequences.from_concatenated([1.0, 2.0, 3.0], lengths=[1, 2])[1]
        array([[2.], [3.]])
        """
        frames = _checked_array(X, "X")
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or not len(sizes) or not np.issubdtype(sizes.dtype, np.integer):
            raise ParameterError("lengths", lengths, "must be a list of one or more integers")
        names = _checked_names(ids, len(sizes))
        if sizes.min() < 1:
            i = int(np.argmin(sizes))
            cure = "Drop sequences without frames"
            raise InputError("{which} has length {length}", cure, which=_name(i, names), length=sizes[i])
        if sizes.sum() != len(frames):
            problem = "{lengths} add up to {total}, but {X} has {n} rows; they must agree"
            raise InputError(problem, total=sizes.sum(), n=len(frames))
        made = cls._of(np.array(frames), sizes.astype(np.int64), names)
        made._check_range()
        return made

    @classmethod
    def from_table(
        cls,
        frame: Any,
        id: str | list[str],
        time: str | None = None,
        values: Iterable[str] = (),
        group: str | None = None,
    ) -> Sequences:
        """Return the sequences of a long table: one row per frame.

        Parameters
        ----------
        frame : pandas, polars or pyarrow table, or a dictionary of columns
            The table.
        id : str or list of str
            Column, or several columns (subject and trial, say), that identify the sequence of each row. Rows of a
            sequence need not be adjacent; sequences come in the order of their first rows.
        time : str, optional
            Column by which the rows of each sequence are sorted; without it they stay in the table's order.
        values : list of str
            Columns with the d values of a frame; empty cells are missing values.
        group : str, optional
            Column with one value per sequence (a participant, a class), kept as `groups`.

        Returns
        -------
        Sequences
            The sequences, named by `id`.

        Examples
        --------
        >>> table = {"who": ["b", "a", "b"], "t": [2, 1, 1], "x": [0.2, 0.5, 0.1]}
        >>> s = Sequences.from_table(table, id="who", time="t", values=["x"])
        >>> s.ids, s[0].ravel().tolist()
        (['b', 'a'], [0.1, 0.2])
        """
        made = cls._of_table(read_frame(frame, id, time, values, group))
        made._check_range()
        return made

    @classmethod
    def from_channels_first(cls, series: Iterable[npt.ArrayLike], ids: Iterable[Any] | None = None) -> Sequences:
        """Return sequences from series whose rows are channels: aeon's and sktime's (n, d, T) arrays and (d, T) lists.

        Parameters
        ----------
        series : array of shape (n, d, T), or list of arrays of shape (d, T_i) or (T_i,)
            The series.
        ids : list, optional
            One name per series.

        Returns
        -------
        Sequences
            Frames in rows.

        Examples
        --------
        >>> Sequences.from_channels_first([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])[0]
        array([[1., 4.], [2., 5.], [3., 6.]])
        """
        return cls(frames_first(series), ids)

    @classmethod
    def from_padded(cls, cube: npt.ArrayLike, ids: Iterable[Any] | None = None) -> Sequences:
        """Return sequences from an array (n, T, d) whose shorter series end in NaN: tslearn's format.

        Parameters
        ----------
        cube : array of shape (n, T, d), or (n, T)
            The series. Frames of NaN at the end are padding; NaN before the last frame is a missing value.
        ids : list, optional
            One name per series.

        Returns
        -------
        Sequences
            Without the padding.

        Examples
        --------
        >>> Sequences.from_padded([[1.0, 2.0, np.nan], [1.0, np.nan, 3.0]]).lengths
        array([2, 3])
        """
        return cls(without_padding(cube), ids)

    @classmethod
    def from_multiindex(cls, frame: Any) -> Sequences:
        """Return sequences from a pandas frame with an index of instance and time: sktime's "pd-multiindex".

        Parameters
        ----------
        frame : pandas.DataFrame
            Columns are dimensions; rows of an instance are sorted by time.

        Returns
        -------
        Sequences
            Named by the instances, in the order of their first rows.
        """
        ids, arrays = from_multiindex(frame)
        return cls(arrays, ids)

    def to_channels_first(self) -> list[FloatArray]:
        """Return a list of (d, T_i) arrays, as aeon and sktime hold series of different lengths."""
        return [np.ascontiguousarray(array.T) for array in self]

    def to_padded(self) -> FloatArray:
        """Return an array (n, T, d), padded with NaN to the greatest length: tslearn's format."""
        return padded(self)

    def to_multiindex(self, columns: Iterable[str] | None = None) -> Any:
        """Return a pandas frame with an index of instance (the ids) and time (0, 1, …): sktime's "pd-multiindex"."""
        return to_multiindex(self.ids, self, columns)

    def _check_range(self) -> None:
        bad = np.abs(self.X) > LARGEST
        if not bad.any():
            return
        row, column = (int(i) for i in np.argwhere(bad)[0])
        i = int(np.searchsorted(self.offsets, row, side="right")) - 1
        raise InputError(
            "{which} has {value} at frame {t}, dimension {column}. Values must be finite and below {largest:g}",
            "write NaN for a missing value",
            "rescale the dimension",
            which=_name(i, self.ids), value=self.X[row, column], t=row - self.offsets[i], column=column,
            largest=LARGEST,
        )  # fmt: skip

    @property
    def n_dims(self) -> int:
        """The number of dimensions d."""
        return int(self.X.shape[1])

    @property
    def shape(self) -> tuple[int]:
        """``(n,)``: scikit-learn's splitters ask for it."""
        return (len(self),)

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[FloatArray]:
        return (self.X[start:stop] for start, stop in itertools.pairwise(self.offsets))

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> FloatArray: ...
    @overload
    def __getitem__(self, index: slice | npt.ArrayLike) -> Sequences: ...
    def __getitem__(self, index: Any) -> FloatArray | Sequences:
        if isinstance(index, tuple):  # scikit-learn writes s[index, ...]
            index = index[0]
        chosen = positions(index, len(self), "sequence")
        if chosen.ndim == 0:
            return self.X[self.offsets[chosen] : self.offsets[chosen + 1]]
        rows = _rows(self.offsets[chosen], self.lengths[chosen])
        ids, groups, keys = (
            None if all_ is None else [all_[i] for i in chosen] for all_ in (self.ids, self.groups, self._keys)
        )
        return self._of(self.X[rows], self.lengths[chosen], ids or [], groups, keys)

    def __repr__(self) -> str:
        low, high = self.lengths.min(), self.lengths.max()
        spread = f"length {low}" if low == high else f"lengths {low} to {high}"
        return f"Sequences(n={len(self)}, n_dims={self.n_dims}, {spread}, {len(self.X)} frames)"


SequencesLike: TypeAlias = Sequences | Iterable[npt.ArrayLike] | FloatArray


def as_sequences(sequences: SequencesLike) -> Sequences:
    """Return `sequences` as a `Sequences`; one that already is comes back unchanged.

    Examples
    --------
    >>> as_sequences([[0.0, 1.0], [2.0]])
    Sequences(n=2, n_dims=1, lengths 1 to 2, 3 frames)
    """
    return sequences if isinstance(sequences, Sequences) else Sequences(sequences)


def _checked_names(ids: Iterable[Any] | None, n: int) -> list[Any]:
    names = checked_ids(ids, n, "sequences")
    check_unique(names)
    return names


def _checked_groups(groups: Iterable[Any] | None, n: int) -> list[Any] | None:
    if groups is None:
        return None
    labels = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if isinstance(groups, str) or len(labels) != n:
        raise ParameterError("groups", groups, "must have one value for each of the {n} sequences", n=n)
    return labels


def _name(i: int, ids: list[Any]) -> str:
    """Return how messages refer to sequence i."""
    return f"sequence {i}" + ("" if ids[i] == i else f" (id {ids[i]!r})")


def _split(arrays: Any) -> list[Any]:
    """Return the sequences as a list, or say why they cannot be separated."""
    if isinstance(arrays, np.ndarray) and arrays.dtype != object and arrays.ndim != 3:
        raise InputError(
            "{sequences} is an array of shape {shape}, which could be one sequence or many",
            "Give a list of (T, d) arrays ([x] for one sequence, list(x) if each row is one of d = 1)",
            "a 3-D array (n, T, d)",
            shape=arrays.shape,
        )
    if is_lazy(arrays) or isinstance(arrays, dict) or hasattr(arrays, "columns"):
        raise InputTypeError(
            "{sequences} must be a list of (T, d) arrays, got {kind}",
            "Use Sequences.from_table{collected} for a table",
            kind=type(arrays).__name__, collected=" and .collect()" if is_lazy(arrays) else "",
        )  # fmt: skip
    if isinstance(arrays, (str, bytes)) or not isinstance(arrays, Iterable):
        raise InputTypeError("{sequences} must be a list of (T, d) arrays, got {kind}", kind=type(arrays).__name__)
    parts = list(arrays)
    if not parts:
        raise InputError("there are no sequences: the list is empty", "Give at least one (T, d) array")
    if any(hasattr(part, "transmat") for part in parts):
        cure = "compare HMMs with expected_log_likelihood, cluster them with VHEM"
        raise InputTypeError("these are HMMs, not sequences", cure)
    if all(isinstance(part, str) for part in parts):
        raise InputTypeError("{sequences} is a list of text; sequences are (T, d) arrays of numbers")
    if all(np.isscalar(part) for part in parts):
        raise InputError("{sequences} is a flat list of numbers", "For one sequence of d = 1 write [x] instead of x")
    return parts


def _checked_array(array: npt.ArrayLike, name: str) -> FloatArray:
    """Return one sequence as a (T, d) float64 array."""
    try:
        raw = np.asarray(array)
    except ValueError:
        raise InputError("{which} has rows of different lengths; a sequence is a (T, d) array", which=name) from None
    if raw.dtype.kind not in "fiubO":
        cure = "Convert or drop such columns"
        raise InputTypeError("{which} holds {kind} values; numbers are needed", cure, which=name, kind=raw.dtype)
    try:
        values = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        cure = "Write NaN for missing values"
        raise InputTypeError("{which} cannot be read as numbers: {fault}", cure, which=name, fault=error) from None
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        problem = "{which} has shape {shape}; a sequence is a (T, d) array, or (T,) if d = 1"
        raise InputError(problem, which=name, shape=values.shape)
    if not values.size:
        cure = "Drop empty sequences"
        raise InputError("{which} has shape {shape}, and so no values", cure, which=name, shape=values.shape)
    return values


def _check_same_dimensions(arrays: list[FloatArray], ids: list[Any]) -> None:
    d = arrays[0].shape[1]
    for i, array in enumerate(arrays):
        if array.shape[1] != d:
            problem = "{which} has {n} dimensions, but {other} has {d}"
            cure = "All sequences need the same number of columns"
            raise InputError(problem, cure, which=_name(i, ids), n=array.shape[1], other=_name(0, ids), d=d)


def _rows(starts: IntArray, lengths: IntArray) -> npt.NDArray[np.intp]:
    """Return the row numbers of the stretches that begin at `starts`, one after another."""
    begins = np.cumsum(lengths) - lengths
    return np.repeat(starts - begins, lengths) + np.arange(lengths.sum())


def _pack(sequences: Sequences) -> State:
    groups = None if sequences.groups is None else Ids(sequences.groups)
    keys = None if sequences._keys is None else Ids(sequences._keys)
    return {"X": sequences.X, "lengths": sequences.lengths, "ids": Ids(sequences.ids), "groups": groups, "keys": keys}


def _unpack(state: State) -> Sequences:
    made = Sequences(Sequences.from_concatenated(state["X"], state["lengths"]), groups=state["groups"])
    ids = checked_ids(state["ids"], len(made), "sequences")  # may repeat: a sample can hold a sequence twice
    keys = None if state.get("keys") is None else checked_ids(state["keys"], len(made), "sequences")
    return Sequences._of(made.X, made.lengths, ids, made.groups, keys)


register(Kind("Sequences", Sequences, _pack, _unpack))
