"""Several tables as the sheets of one xlsx file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vhem._support.optional import how_to_install
from vhem.files.labels import harmless


def write_sheets(path: str | Path, sheets: dict[str, dict[str, list[Any]]]) -> None:
    """Write tables, columns by name, as sheets by name; text that looks like a formula is not one."""
    try:
        from openpyxl import Workbook  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"xlsx files need openpyxl: {how_to_install('paper')}.") from None
    book = Workbook()
    book.remove(book.active)
    for name, columns in sheets.items():
        sheet = book.create_sheet(name[:31])
        sheet.append([harmless(title) for title in columns])
        for row in zip(*columns.values(), strict=True):
            sheet.append([_cell(value) for value in row])
    book.save(path)


def _cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return harmless(value) if isinstance(value, (str, int, float)) else harmless(str(value))
