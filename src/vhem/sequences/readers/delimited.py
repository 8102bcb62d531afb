"""Delimited text, csv or tsv, compressed or not, as blocks of rows."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from vhem._support.errors import InputError, ParameterError
from vhem.sequences.readers.blocks import Block, row_blocks
from vhem.sequences.readers.budget import Budget
from vhem.sequences.readers.plain_text import PlainText, csv_rows
from vhem.sequences.readers.rows import is_blank

_CHARACTERS = 1 << 20  # at a time, if the text has no quotes
_DELIMITERS = "\t;,|"


def delimited_blocks(path: Path, encoding: str | None) -> Iterator[Block | PlainText]:
    """Yield the rows of a csv or tsv; the delimiter is detected from the header."""
    try:
        with _opened(path, encoding) as file:
            for first in iter(file.readline, ""):
                delimiter = max(_DELIMITERS, key=_outside_quotes(first).count)
                header = next(csv_rows(itertools.chain([first], file), delimiter), [])
                yield Block(1, None, [header])
                if not is_blank(header):
                    yield from _text_blocks(file, delimiter, len(header), Budget(path))
    except UnicodeDecodeError as fault:
        raise InputError(
            "{path} is not in {code}: byte {byte:#x} is invalid there",
            "Give its {encoding}, often 'cp1252' for files from Windows", "save it as UTF-8",
            path=path, code=encoding or "UTF-8", byte=fault.object[fault.start],
        ) from None  # fmt: skip
    except UnicodeError as fault:
        problem = "{path} is not in {code}: {fault}"
        raise InputError(problem, "Give its {encoding}", path=path, code=encoding, fault=fault) from None
    except LookupError:
        cure = "give one like 'utf-8', 'utf-16' or 'cp1252'"
        raise ParameterError("encoding", encoding, "{value!r} is not known", cure) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
        cure = "Compress or copy it again"
        raise InputError("{path} is truncated or damaged: {fault}", cure, path=path, fault=fault) from None
    except csv.Error as fault:
        problem = "{path} cannot be read as a table: {fault}"
        raise InputError(problem, "Is it really text?", path=path, fault=fault) from None


def _opened(path: Path, encoding: str | None) -> IO[str]:
    """Open a text file, in UTF-8 (or UTF-16 if it begins with its mark) unless an encoding is given."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    if encoding is None:
        with opener(path, "rb") as file:
            start = file.read(2)
        encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text: IO[str] = opener(path, "rt", encoding=encoding, newline="")
    return text


def _text_blocks(file: IO[str], delimiter: str, width: int, budget: Budget) -> Iterator[Block | PlainText]:
    """Yield the rest of a text: split directly if it has no quotes, by the csv module from the first quote on."""
    tail = ""
    while text := file.read(_CHARACTERS):
        budget.spend(len(text))
        text = tail + text
        if '"' in text:
            lines = itertools.chain(io.StringIO(text + file.readline(), newline=""), file)
            yield from row_blocks(csv_rows(budget.spent_on(lines), delimiter))
            return
        cut = text.rfind("\n") + 1
        text, tail = text[:cut], text[cut:]
        if text:
            yield PlainText(text, delimiter, width)
    if tail:
        yield PlainText(tail + "\n", delimiter, width)


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])
