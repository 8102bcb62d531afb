"""Names of channels and categories that models remember: a mixin of HMM and H3M."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from vhem._support.errors import InputError
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.sequences.categories import Categories, wanted
from vhem.sequences.channels import Channels, KnowsChannels, joined, named, recoded


class NamedChannels(KnowsChannels):
    """What models learned from sequences with categories know about their channels."""

    def with_categories(self, categories: Categories, channels: Iterable[str] | None = None) -> Self:
        """Return the same model with names of categories.

        Parameters
        ----------
        categories : dict
            From channels, by name or position, to the names of their categories, in the order of the codes.
        channels : list of str, optional
            Names of the dimensions.

        Returns
        -------
        HMM or H3M
            Sequences with categories are then matched by name.

        Examples
        --------
        >>> import vhem
        >>> hmm = vhem.HMM([1.0], [[1.0]], emissions=vhem.Categorical([[0.7, 0.3]]))
        >>> hmm = hmm.with_categories({0: ["sun", "rain"]})
        >>> round(hmm.score(vhem.Sequences([["rain"]], categories=True)), 3)
        -1.204
        """
        known = self._named if channels is None else named(channels, len(self._named.names))
        return self._remembering(known.with_categories(wanted(categories, known)))

    def _remembering(self, channels: Channels | None) -> Self:
        """Return the same model with other names."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._remember(channels)
        return made

    def _remember(self, channels: Channels | None) -> None:
        if channels is not None:  # models without names are equal to those made before there were any
            self.__dict__["_channels"] = channels

    def coded(self, sequences: SequencesLike) -> Sequences:
        """Return sequences whose categories have this model's codes, matched by name; plain lists of names will do."""
        if self._channels is not None and self.categories and _hold_text(sequences):
            return Sequences(sequences, channels=self._channels.names, categories=self.categories)
        given = as_sequences(sequences)
        if self._channels is None or not given.categories or given.n_dims != len(self._channels.names):
            return given
        X = recoded(given.X, given._named, self._channels, where="the sequences have")
        return given if X is given.X else given._with(X, self._channels)


def _hold_text(sequences: Any) -> bool:
    """Whether these are lists or arrays with names of categories in them."""
    if isinstance(sequences, Sequences) or not isinstance(sequences, (list, tuple)):
        return False
    arrays = (one if isinstance(one, np.ndarray) else np.array(one, dtype=object) for one in sequences)
    return any(isinstance(x, str) for array in arrays if array.dtype.kind in "UO" for x in array.ravel())


def common_channels(parts: Iterable[Any]) -> Channels | None:
    """Return what models that become one collection know about their channels; they must agree."""
    known = [part._channels for part in parts if part._channels is not None]
    if not known:
        return None
    first: Channels = known[0]
    for other in known:
        if other.categories != first.categories:
            both = joined([first, other])
            channel = next(n for n, a, b in zip(both.names, first.categories, other.categories, strict=True) if a != b)
            raise InputError(
                "the HMMs know different categories in channel {channel!r}",
                "Learn them from sequences with the same {categories}", channel=channel,
            )  # fmt: skip
    return first
