"""The method `save` of everything that `vhem.load` can read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Saveable:
    """Mixin of classes whose kind is registered in `vhem.files.registry`."""

    def save(
        self, path: str | Path, feature_names: Iterable[str] | None = None, about: dict[str, Any] | None = None
    ) -> None:
        """Write this to a file, which `vhem.load` reads again.

        Parameters
        ----------
        path : str or Path
            The file, by custom with the ending .vhem. An older one is replaced when the new one is complete.
        feature_names : list of str, optional
            Names of the dimensions.
        about : dict, optional
            How it was made: settings, data, anything of numbers and text. `vhem.files.describe` and `vhem info` show
            it.

        Notes
        -----
        The file holds arrays and a JSON header, under checksums; reading it runs no code. Equal models make equal
        files, byte for byte. A `random_state` that is no integer, and a `callback`, are not kept.
        """
        from vhem.files import model_files  # noqa: PLC0415  (files know models, not the other way round)

        model_files.save(self, path, feature_names, about)
