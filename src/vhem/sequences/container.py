"""Sequences of different lengths, kept as one array."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice
from vhem._support.errors import InputError, InputTypeError, ParameterError
from vhem._support.immutable import Immutable
from vhem._support.indexing import checked_ids, positions
from vhem._support.saving import Ids, Kind, State, register
from vhem.sequences.categories import Categories, checked_codes, encoded, wanted
from vhem.sequences.channels import Channels, KnowsChannels, joined, named, recoded
from vhem.sequences.converters import frames_first, from_multiindex, padded, to_multiindex, without_padding
from vhem.sequences.identity import check_unique, names_of
from vhem.sequences.joining import matching, stretched, warn_of_lengths
from vhem.sequences.long_table import Table
from vhem.sequences.readers.cells import LARGEST
from vhem.sequences.readers.frames import is_lazy, read_frame
from vhem.sequences.readers.wide import Wide
from vhem.sequences.readers.wide_rows import read_wide_frame
from vhem.sequences.slopes import PREFIX, names_with_slopes, slopes, smooth_channels

_FRAMES_WORTH_A_SLICE = 50  #: as many are copied one by one in the time that a slice of them takes


class Place(NamedTuple):
    """Where a value was read."""

    file: Path
    row: int  #: counted from 1, with the header
    column: str


#: From a sequence's key, a frame and a channel to where they were read, if that is known.
Finder: TypeAlias = Callable[[Any, int, str], Place | None]


class Sequences(KnowsChannels, Immutable):
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
    channels : list of str, optional
        Names of the d dimensions; x1, x2, … if not given.
    categories : True, list or dict, optional
        Channels that hold categories rather than numbers: all of them, those listed (by name or position), or a
        dictionary from channels to the names of their categories, in the order of their codes. The arrays then hold
        names (text), or the codes 0, 1, …. Without a dictionary, the names are those that occur, sorted.
    weights : array of shape (n,), optional
        Case weights: how many sequences of the population each one stands for. Estimators use them unless they are
        given a `sample_weight`.

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
    channels : list of str
        Names of the dimensions.
    categories : dict
        For every channel that holds categories, their names: code k in `X` stands for the k-th name.
    weights : array of shape (n,) or None
        Case weights, if given.

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
    >>> days = Sequences([["sun", "rain", "rain"], ["fog", "sun"]], channels=["sky"], categories=True)
    >>> days.categories, days[0].ravel().tolist()
    ({'sky': ('fog', 'rain', 'sun')}, [2.0, 1.0, 1.0])
    >>> days.decoded(1)
    [['fog'], ['sun']]
    """

    X: FloatArray
    lengths: IntArray
    offsets: IntArray
    ids: list[Any]
    groups: list[Any] | None
    weights: FloatArray | None = None
    _keys: list[Any] | None = None  #: if they are not the ids
    _finder: Finder | None = None  #: of sequences from files

    def __init__(
        self,
        arrays: SequencesLike,
        ids: Iterable[Any] | None = None,
        groups: Iterable[Any] | None = None,
        channels: Iterable[str] | None = None,
        categories: Categories = None,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        if isinstance(arrays, Sequences):
            self._assign_again(arrays, ids, groups, channels, categories, weights)
            return
        parts = _split(arrays)
        names = _checked_names(ids, len(parts))
        called: Channels | None = None
        if categories is not None and categories is not False:
            parts, called = encoded(parts, channels, categories)
        checked = [_checked_array(part, _name(i, names)) for i, part in enumerate(parts)]
        _check_same_dimensions(checked, names)
        if channels is not None:
            own = named(channels, checked[0].shape[1])
            called = own if called is None else own._replace(categories=called.categories)
        lengths = np.array([len(array) for array in checked], dtype=np.int64)
        kept = _checked_groups(groups, len(parts))
        X = np.concatenate(checked, dtype=np.float64)
        self._assign(X, lengths, names, kept, None, called, _checked_weights(weights, len(parts)))
        self._check_range()

    def _assign_again(
        self,
        given: Sequences,
        ids: Iterable[Any] | None,
        groups: Iterable[Any] | None,
        channels: Iterable[str] | None,
        categories: Categories,
        weights: npt.ArrayLike | None,
    ) -> None:
        """Take the frames of other sequences, and from them also what is not given."""
        names = given.ids if ids is None else _checked_names(ids, len(given))
        kept = given.groups if groups is None else _checked_groups(groups, len(given))
        called = given._channels
        if channels is not None:
            own = named(channels, given.n_dims)
            called = own if called is None else own._replace(categories=called.categories)
        if categories is not None:
            called = _with_categories(given.X, called or Channels.unnamed(given.n_dims), categories)
        counts = given.weights if weights is None else _checked_weights(weights, len(given))
        self._assign(given.X, given.lengths, names, kept, given._keys if ids is None else None, called, counts)
        self._found_by(given._finder if ids is None and channels is None else None)

    def _assign(
        self,
        X: FloatArray,
        lengths: IntArray,
        ids: list[Any],
        groups: list[Any] | None = None,
        keys: list[Any] | None = None,
        channels: Channels | None = None,
        weights: FloatArray | None = None,
    ) -> None:
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        names = {"ids": ids, "groups": groups, "_keys": keys, "_channels": channels}
        self._set(X=X, lengths=lengths, offsets=offsets, weights=weights, **names)

    @classmethod
    def _of(
        cls,
        X: FloatArray,
        lengths: IntArray,
        ids: list[Any],
        groups: list[Any] | None = None,
        keys: list[Any] | None = None,
        channels: Channels | None = None,
        weights: FloatArray | None = None,
    ) -> Sequences:
        """Return sequences that are known to be valid; ids may repeat."""
        made = cls.__new__(cls)
        made._assign(X, lengths, ids, groups, keys, channels, weights)
        return made

    @classmethod
    def _of_table(cls, table: Table) -> Sequences:
        """Return the sequences of a table, named by their keys."""
        names = names_of(table.keys)
        return cls._of(table.X, table.lengths, names, table.groups, table.keys, table.channels, table.weights)

    @classmethod
    def _joined(cls, parts: list[Sequences], keys: list[Any], groups: list[Any] | None) -> Sequences:
        """Return the sequences of all parts under new keys; categories are matched by name."""
        channels = joined([part._named for part in parts])
        X = np.concatenate([recoded(part.X, part._named, channels) for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        counted = [part.weights for part in parts if part.weights is not None]
        weights = np.concatenate(counted) if len(counted) == len(parts) else None
        return cls._of_table(Table(X, lengths, keys, groups, channels, weights))

    @property
    def _remembered(self) -> Channels | None:
        """What models learned from these sequences remember: the channels, if any holds categories."""
        return self._channels if self.categories else None

    def _with(self, X: FloatArray, channels: Channels) -> Sequences:
        made = self._of(X, self.lengths, self.ids, self.groups, self._keys, channels, self.weights)
        return made._found_by(self._finder)

    def _found_by(self, finder: Finder | None) -> Self:
        """Return itself, with what finds its frames in files."""
        self._set(_finder=finder)
        return self

    def _said(self, row: int, column: int) -> str:
        """Return how errors about a value of `X` begin: where it was read, or its sequence, and the value."""
        i = int(np.searchsorted(self.offsets, row, side="right")) - 1
        t, value, names = int(row - self.offsets[i]), f"{self.X[row, column]:.12g}", self._named.categories[column]
        value = value if names is None else repr(names[int(self.X[row, column])])
        place = None if self._finder is None else self._finder(self.keys[i], t, self.channels[column])
        if place is not None:
            return f"{place.file}, row {place.row}: column {place.column!r} has {value}"
        channel = f"dimension {column}" if self._channels is None else f"column {self.channels[column]!r}"
        return f"{_name(i, self.ids)} has {value} at frame {t}, {channel}"

    def decoded(self, index: int) -> list[list[Any]]:
        """Return a sequence with the names of its categories in place of codes: a row per frame, None if missing."""
        rows: list[list[Any]] = []
        for frame in self[index].tolist():
            cells = zip(frame, self._named.categories, strict=True)
            rows.append([None if x != x else x if names is None else names[int(x)] for x, names in cells])  # noqa: PLR0124
        return rows

    def with_categories(self, categories: Categories, other: str | None = None) -> Sequences:
        """Return the same sequences with other names, or another order, of categories; they are matched by name.

        Parameters
        ----------
        categories : dict
            From channels to the names wanted, in the order of their codes: of a model, ``h3m.categories``.
        other : str, optional
            One of the names wanted, which all categories that are not among them become. Without it they are an error.

        Returns
        -------
        Sequences
            Codes are those of the names wanted.

        Examples
        --------
        >>> days = Sequences([["sun", "hail", "rain"]], categories=True)
        >>> days.with_categories({0: ["dry", "sun", "wet"]}, other="wet").decoded(0)
        [['sun'], ['wet'], ['wet']]
        """
        names = wanted(categories, self._named)
        goal = self._named.with_categories({k: own for k, own in names.items() if own is not None})
        X = recoded(self.X, self._named, goal, other)
        for k, own in names.items():
            if own is not None and self._named.categories[k] is None:
                checked_codes(X[:, k], own, goal.names[k])
        return self._with(X, goal)

    @property
    def smooth_channels(self) -> list[str]:
        """Names of the channels that change smoothly; none if slopes are among the channels already."""
        if any(name.startswith(PREFIX) for name in self.channels):
            return []
        found = smooth_channels(self.X, self.offsets)
        return [self.channels[k] for k in found if self._named.categories[k] is None]

    def with_slopes(self, channels: str | Iterable[str | int] = "auto") -> Sequences:
        """Return the same sequences with slopes as further channels: how much a channel rises per frame.

        A slope is that of a line fitted to the frames nearby, the nearest of which count most (a Gaussian window with a
        standard deviation of two frames). It is missing where the value is.

        Parameters
        ----------
        channels : "auto", or list of str or int
            Channels, by name or position; "auto": all that change smoothly, because the slopes of noise are noise.

        Returns
        -------
        Sequences
            The further channels are called "slope of x1", ….

        Examples
        --------
        >>> import numpy as np
        >>> up = Sequences([np.arange(5.0)]).with_slopes([0])
        >>> up.channels, up[0][:, 1]
        (['x1', 'slope of x1'], array([1., 1., 1., 1., 1.]))
        """
        if isinstance(channels, str):
            check_choice("channels", channels, ("auto",))
            channels = self.smooth_channels
        chosen = np.array([self._named.place(channel) for channel in channels], dtype=np.int64)
        wrong = [self.channels[k] for k in chosen if self._named.categories[k] is not None]
        if wrong:
            raise InputError("{name!r} holds categories, which have no slopes", "leave it out", name=wrong[0])
        names = names_with_slopes(self._named, chosen)
        if len(set(names.names)) < len(names.names):
            raise InputError("the slopes of {channels} are there already, or are asked for twice", "leave them out")
        return self._with(np.hstack([self.X, slopes(self.X[:, chosen], self.offsets)]), names)

    @property
    def keys(self) -> list[Any]:
        """What identifies each sequence."""
        return self.ids if self._keys is None else self._keys

    def __eq__(self, other: object) -> bool:
        """Whether frames, ids, groups, categories and weights are the same; names of channels do not count."""
        if not isinstance(other, Sequences):
            return NotImplemented
        same = np.array_equal(self.X, other.X, equal_nan=True) and np.array_equal(self.lengths, other.lengths)
        same = (
            same
            and self.ids == other.ids
            and self.groups == other.groups
            and self._named.categories == other._named.categories
        )
        return same and np.array_equal(self._counts, other._counts)

    @property
    def _counts(self) -> FloatArray:
        return np.ones(len(self)) if self.weights is None else self.weights

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
        made = cls._of(np.array(frames, dtype=np.float64), sizes.astype(np.int64), names)
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
        categories: Categories = None,
        weights: str | None = None,
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
        categories : True, list or dict, optional
            Which of `values` hold categories, perhaps with their names in the order wanted. Columns that the table
            itself declares to be categorical (pandas, polars, pyarrow) need not be listed.
        weights : str, optional
            Column with one case weight per sequence.

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
        made = cls._of_table(read_frame(frame, id, time, values, group, categories, weights))
        made._check_range()
        return made

    @classmethod
    def from_wide(
        cls,
        frame: Any,
        columns: Wide,
        id: str | list[str] | None = None,
        group: str | None = None,
        categories: Categories = None,
        weights: str | None = None,
    ) -> Sequences:
        """Return the sequences of a wide table: one row per sequence, one column per moment.

        Parameters
        ----------
        frame : pandas, polars or pyarrow table, or a dictionary of columns
            The table.
        columns : str, list or dict
            The columns in the order of time: a range ``"a15:a30"``, a pattern ``"wave*"`` or a list. A dictionary of
            these names channels; otherwise there is one, called "state".
        id : str or list of str, optional
            Column that names the rows; if not given, one that is called like an id, else rows are numbered.
        group : str, optional
            Column with the group of each row.
        categories : True, list or dict, optional
            Channels that hold categories, perhaps with their names in the order wanted. Text is always categories.
        weights : str, optional
            Column with the case weight of each row.

        Returns
        -------
        Sequences
            Empty cells at the end of a row are after the end of its sequence; others are missing values.

        Examples
        --------
        >>> table = {"id": ["ann", "bob"], "y1": ["school", "work"], "y2": ["work", None]}
        >>> s = Sequences.from_wide(table, "y1:y2")
        >>> s.categories, s.lengths
        ({'state': ('school', 'work')}, array([2, 1]))
        """
        return cls._of_table(read_wide_frame(frame, columns, id, group, categories, weights))

    @classmethod
    def from_channels(cls, channels: dict[str, Sequences]) -> Sequences:
        """Return sequences of several channels, from sequences that describe the same things.

        Parameters
        ----------
        channels : dict of Sequences
            By the name of the channel; sequences are matched by id. If one is shorter in a channel than in others, it
            is missing there from then on, and a warning says so.

        Returns
        -------
        Sequences
            In the order of the first; groups and weights are those of the first that has them.

        Examples
        --------
        >>> work = Sequences([["school", "job"], ["job", "job"]], ids=["ann", "bob"], categories=True)
        >>> home = Sequences([["own", "own"], ["parents", "own"]], ids=["bob", "ann"], categories=True)
        >>> Sequences.from_channels({"work": work, "home": home}).decoded(0)
        [['school', 'parents'], ['job', 'own']]
        """
        parts = list(channels.values())
        if not parts or not all(isinstance(part, Sequences) for part in parts):
            raise InputTypeError("{channels} must be a dictionary of Sequences by the names of channels")
        aligned = [parts[0], *(part[matching(parts[0].keys, part.keys, name)]
                               for name, part in list(channels.items())[1:])]  # fmt: skip
        lengths = np.max([part.lengths for part in aligned], axis=0)
        warn_of_lengths([part.lengths for part in aligned], list(channels))
        X = np.column_stack([stretched(part.X, part.lengths, lengths) for part in aligned])
        names = [f"{name}.{own}" if part.n_dims > 1 else name
                 for name, part in channels.items() for own in part.channels]  # fmt: skip
        called = named(names, X.shape[1])._replace(
            categories=tuple(c for part in aligned for c in part._named.categories)
        )
        groups = next((part.groups for part in aligned if part.groups is not None), None)
        weights = next((part.weights for part in aligned if part.weights is not None), None)
        return cls._of(X, lengths.astype(np.int64), parts[0].ids, groups, parts[0]._keys, called, weights)

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
        """Return a pandas frame with an index of instance (the ids) and time (0, 1, …): sktime's "pd-multiindex".

        Columns are called as in `columns`, else as the channels; those of categories are categorical.
        """
        names = list(self.channels) if columns is None else list(columns)
        return to_multiindex(self.ids, self, names, self._named.categories)

    def _check_range(self) -> None:
        X = self.X.ravel()
        if max(np.fmax.reduce(X, initial=0.0), -np.fmin.reduce(X, initial=0.0)) <= LARGEST:  # without large temporaries
            return
        bad = np.abs(self.X) > LARGEST
        raise InputError(
            "{said}. Values must be finite and below {largest:g}",
            "write NaN for a missing value", "rescale the dimension",
            said=self._said(*(int(i) for i in np.argwhere(bad)[0])), largest=LARGEST,
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
        ids, groups, keys = (
            None if all_ is None else [all_[i] for i in chosen.tolist()] for all_ in (self.ids, self.groups, self._keys)
        )
        weights = None if self.weights is None else self.weights[chosen]
        frames = _stretches(self.X, self.offsets[chosen], self.lengths[chosen])
        made = self._of(frames, self.lengths[chosen], ids or [], groups, keys, self._channels, weights)
        return made._found_by(self._finder)

    def __repr__(self) -> str:
        low, high = self.lengths.min(), self.lengths.max()
        spread = f"length {low}" if low == high else f"lengths {low} to {high}"
        named = ", ".join(f"{name}: {len(names)} categories" for name, names in list(self.categories.items())[:3])
        more = f"; {named}{' …' if len(self.categories) > 3 else ''}" if named else ""
        return f"Sequences(n={len(self)}, n_dims={self.n_dims}, {spread}, {len(self.X)} frames{more})"


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


def _checked_weights(weights: npt.ArrayLike | None, n: int) -> FloatArray | None:
    if weights is None:
        return None
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (n,) or not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        problem = "must be {n} numbers, one per sequence, not negative and not all zero"
        raise ParameterError("weights", weights, problem, n=n)
    return found


def _with_categories(X: FloatArray, channels: Channels, categories: Categories) -> Channels:
    """Return channels of codes with the names of their categories; without names, codes are names."""
    found: dict[int, tuple[str, ...] | None] = {}
    for k, names in wanted(categories, channels).items():
        codes = X[:, k]
        top = 1 if np.isnan(codes).all() else int(np.nanmax(codes)) + 1
        found[k] = names or channels.categories[k] or tuple(map(str, range(max(top, 1))))
        checked_codes(codes, found[k] or (), channels.names[k])
    return channels.with_categories(found)


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
        problem = "{sequences} is a list of text; sequences are (T, d) arrays of numbers"
        cure = "For one sequence of categories write [x] instead of x, with {categories:True}"
        raise InputTypeError(problem, cure)
    if all(np.isscalar(part) for part in parts):
        raise InputError("{sequences} is a flat list of numbers", "For one sequence of d = 1 write [x] instead of x")
    return parts


def _checked_array(array: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return one sequence as a (T, d) array of numbers, which are made float64 when all sequences are joined."""
    try:
        raw = np.asarray(array)
    except ValueError:
        raise InputError("{which} has rows of different lengths; a sequence is a (T, d) array", which=name) from None
    if raw.dtype.kind not in "fiubO":
        cures = ("Convert or drop such columns", "give {categories:True} if they are categories")
        raise InputTypeError("{which} holds {kind} values; numbers are needed", *cures, which=name, kind=raw.dtype)
    try:
        values = raw.astype(np.float64) if raw.dtype.kind == "O" else raw
    except (TypeError, ValueError) as error:
        cures = ("Write NaN for missing values", "name the channels that hold {categories}")
        raise InputTypeError("{which} cannot be read as numbers: {fault}", *cures, which=name, fault=error) from None
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


def _stretches(X: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    """Return the frames of the stretches that begin at `starts`, one after another; neighbours are copied as one."""
    ends = starts + lengths
    breaks = np.flatnonzero(starts[1:] != ends[:-1])
    if (len(breaks) + 1) * _FRAMES_WORTH_A_SLICE < lengths.sum():
        pieces = zip(np.append(starts[:1], starts[breaks + 1]), np.append(ends[breaks], ends[-1:]), strict=True)
        return np.concatenate([X[start:stop] for start, stop in pieces])
    begins = np.cumsum(lengths) - lengths
    return np.asarray(X[np.repeat(starts - begins, lengths) + np.arange(lengths.sum())])


def _pack(sequences: Sequences) -> State:
    groups = None if sequences.groups is None else Ids(sequences.groups)
    keys = None if sequences._keys is None else Ids(sequences._keys)
    state = {"X": sequences.X, "lengths": sequences.lengths, "ids": Ids(sequences.ids), "groups": groups, "keys": keys}
    if sequences._channels is not None:
        state["channels"] = sequences._channels.as_state()
    return state if sequences.weights is None else {**state, "weights": sequences.weights}


def _unpack(state: State) -> Sequences:
    made = Sequences(Sequences.from_concatenated(state["X"], state["lengths"]), groups=state["groups"])
    ids = checked_ids(state["ids"], len(made), "sequences")  # may repeat: a sample can hold a sequence twice
    keys = None if state.get("keys") is None else checked_ids(state["keys"], len(made), "sequences")
    channels = Channels.of_state(state.get("channels"), made.n_dims)
    for k, names in enumerate(() if channels is None else channels.categories):
        if names is not None and channels is not None:
            checked_codes(made.X[:, k], names, channels.names[k])
    weights = _checked_weights(state.get("weights"), len(made))
    return Sequences._of(made.X, made.lengths, ids, made.groups, keys, channels, weights)


register(Kind("Sequences", Sequences, _pack, _unpack))
