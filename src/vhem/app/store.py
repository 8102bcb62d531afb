"""What the app keeps, in the user's data folder: tables, pictures and runs, each in a folder with a random name.

    data/ID/data.json     the name, the size, and what was said about the columns
    data/ID/TABLE         the file itself, under a harmless form of its name
    data/ID/picture.png   the picture that was looked at, if any (or .jpg)
    runs/ID/job.json      what was asked for, and how it went
    runs/ID/progress.jsonl, output.txt   what the command says while it runs
    runs/ID/out/          the folder of the run, as the command leaves it

Names of folders come from here, never from a browser: an id is looked up only if it is twelve hexadecimal digits.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

import platformdirs

from vhem.files.atomic import atomic_write
from vhem.sequences.readers.options import PARQUET, SPREADSHEETS, TEXT, extension

KINDS = {*TEXT, *SPREADSHEETS, *PARQUET, ".npz", ".bvh"}
PICTURES = {b"\x89PNG": "picture.png", b"\xff\xd8\xff": "picture.jpg"}
_ID = re.compile(r"[0-9a-f]{12}")
_LONGEST_NAME = 80


class NotFoundError(LookupError):
    """There is no such table or run."""


class Record:
    """A folder with a description, `data.json` or `job.json`."""

    def __init__(self, folder: Path, file: str) -> None:
        self.folder, self._file = folder, folder / file

    @property
    def id(self) -> str:
        """The name of the folder."""
        return self.folder.name

    def read(self) -> dict[str, Any]:
        """Return the description."""
        try:
            return dict(json.loads(self._file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            raise NotFoundError("This is no longer there.") from None

    def write(self, content: dict[str, Any]) -> None:
        """Replace the description, whole or not at all."""
        with atomic_write(self._file, "w") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)

    def update(self, **changes: Any) -> dict[str, Any]:
        """Change entries of the description, and return it."""
        content = {**self.read(), **changes}
        self.write(content)
        return content

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Store:
    """The app's folder."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(platformdirs.user_data_dir("vhem", appauthor=False)) / "app"
        for part in ("data", "runs"):
            (self.root / part).mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)

    def new_data(self, name: str) -> tuple[Record, Path]:
        """Return a new record for a table called `name`, and where the table goes."""
        record = self._new("data", "data.json")
        return record, record.folder / harmless_name(name)

    def new_run(self) -> Record:
        """Return a new record for a run."""
        return self._new("runs", "job.json")

    def data(self, name: Any) -> Record:
        """Return the record of a table."""
        return self._known("data", "data.json", name)

    def run(self, name: Any) -> Record:
        """Return the record of a run."""
        return self._known("runs", "job.json", name)

    def all_data(self) -> list[Record]:
        """Return the records of all tables, the latest first."""
        return self._all("data", "data.json")

    def all_runs(self) -> list[Record]:
        """Return the records of all runs, the latest first."""
        return self._all("runs", "job.json")

    def table(self, record: Record) -> Path:
        """Return the file of a table."""
        return record.folder / str(record.read()["file"])

    def picture(self, record: Record) -> Path | None:
        """Return the picture that belongs to a table."""
        return next((record.folder / name for name in PICTURES.values() if (record.folder / name).is_file()), None)

    def _new(self, part: str, file: str) -> Record:
        folder = self.root / part / secrets.token_hex(6)
        folder.mkdir()
        return Record(folder, file)

    def _known(self, part: str, file: str, name: Any) -> Record:
        if not isinstance(name, str) or not _ID.fullmatch(name) or not (self.root / part / name / file).is_file():
            raise NotFoundError("This is no longer there.")
        return Record(self.root / part / name, file)

    def _all(self, part: str, file: str) -> list[Record]:
        folders = [f for f in (self.root / part).iterdir() if _ID.fullmatch(f.name) and (f / file).is_file()]
        records = [Record(folder, file) for folder in folders]
        return sorted(records, key=lambda record: -float(record.read().get("made", 0)))


def harmless_name(name: str) -> str:
    """Return a file's name with nothing in it that could lead elsewhere or hide something; its extension stays.

    Examples
    --------
    >>> harmless_name("../../etc/passwd.csv"), harmless_name("Mara's  data (2).XLSX"), harmless_name("$(rm -rf).csv.gz")
    ('passwd.csv', 'Mara_s_data_2_.xlsx', '_rm_-rf_.csv.gz')
    """
    last = re.split(r"[/\\]", name)[-1]
    suffix = extension(Path(last)) + (".gz" if last.lower().endswith(".gz") else "")
    stem = last[: len(last) - len(suffix)]
    return (re.sub(r"[^\w-]+", "_", stem).lstrip("-")[:_LONGEST_NAME] or "table") + suffix


def own_name(said: str, path: Path) -> str:
    """Return what the user calls a file that is kept at `path`, if a command can name it so.

    Examples
    --------
    >>> own_name("Mara's data (2).xlsx", Path("Mara_s_data_2_.xlsx")), own_name("--help.csv", Path("help.csv"))
    ("Mara's data (2).xlsx", 'help.csv')
    """
    plain = re.fullmatch(r"[^/\\\x00-\x1f\x7f.-][^/\\\x00-\x1f\x7f]*", said)
    return said if plain and Path(said).suffix.lower() == path.suffix.lower() else path.name


def now() -> float:
    """Return the time, as records keep it."""
    return time.time()
