"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from vhem._support.paths import checked_path

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)  # in these cases the system does not name the file
_STALE = 3600.0  # seconds


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **kwargs: Any) -> Iterator[IO[Any]]:
    """Open a file that replaces `path` once everything has been written, and not before.

    Whatever interrupts the writing (an error, Ctrl-C, a full disk) leaves an older file at `path` unchanged. A process
    that is killed leaves its draft, ``.name.….tmp``, next to it; the next write of the same file removes drafts that
    have not been touched for an hour.

    Parameters
    ----------
    path : str or Path
        The file; its folder must exist. A link is followed.
    mode : {"wb", "w"}
        Bytes or text.
    **kwargs
        For `open`, such as ``newline=""``. Text is UTF-8.

    Yields
    ------
    file
        To write to.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> with atomic_write(target, "w") as file:
    ...     print("id,label", file=file)
    ...     target.exists()
    False
    >>> target.read_text().splitlines()
    ['id,label']
    """
    target = checked_path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}. Make it first.")
    _remove_stale_drafts(target)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    text = {} if "b" in mode else {"encoding": "utf-8"}
    try:
        with open(draft, mode.replace("w", "x"), **{**text, **kwargs}) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        os.replace(draft, target)
    except OSError as fault:
        if fault.filename is None and fault.errno in _NO_ROOM:
            raise OSError(fault.errno, f"cannot write: {fault.strerror}", str(path)) from None
        raise
    finally:
        draft.unlink(missing_ok=True)


def _remove_stale_drafts(target: Path) -> None:
    for draft in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > _STALE:
                draft.unlink()
