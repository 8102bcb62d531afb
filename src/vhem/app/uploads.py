"""Files from the browser: written as they arrive, and refused if they grow too large."""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from vhem.app.settings import ChoiceError
from vhem.app.store import KINDS, PICTURES, Record, Store, harmless_name, now
from vhem.sequences.readers.options import extension

LARGEST_TABLE, LARGEST_PICTURE = 1 << 30, 20 << 20  #: bytes


async def receive_table(request: Request, store: Store) -> Record:
    """Keep a table that the browser sends, and return its record."""
    name = request.query_params.get("name", "")
    kind = extension(Path(harmless_name(name)))
    if kind not in KINDS:
        raise ChoiceError(
            f"“{name[-60:]}” cannot be read. Drop a table (csv, tsv, xlsx, xls, ods, parquet), an npz or a bvh file."
        )
    record, path = store.new_data(name)
    try:
        await _receive(request, path, LARGEST_TABLE)
    except BaseException:
        record.remove()
        raise
    return described(record, path, name)


def described(record: Record, path: Path, name: str) -> Record:
    """Write the description of a table that is in its place."""
    record.write({"name": name[-120:], "file": path.name, "bytes": path.stat().st_size, "made": now(), "roles": {}})
    return record


async def receive_picture(request: Request, record: Record) -> None:
    """Keep the picture that belongs to a table, instead of an older one."""
    arriving = record.folder / "picture.part"
    try:
        await _receive(request, arriving, LARGEST_PICTURE)
        start = arriving.read_bytes()[:4]
        name = next((name for mark, name in PICTURES.items() if start.startswith(mark)), None)
        if name is None:
            raise ChoiceError("This is not a PNG or JPEG picture.")
        for old in PICTURES.values():
            (record.folder / old).unlink(missing_ok=True)
        arriving.rename(record.folder / name)
        record.update(picture_name=request.query_params.get("name", "")[-120:])
    finally:
        arriving.unlink(missing_ok=True)


async def _receive(request: Request, path: Path, largest: int) -> None:
    too_large = HTTPException(
        413, f"The file is too large: {largest >> 20} MB is the limit here. Use the command vhem."
    )
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > largest:
        raise too_large
    received = 0
    with open(path, "wb") as file:
        async for chunk in request.stream():
            received += len(chunk)
            if received > largest:
                raise too_large
            file.write(chunk)
    if not received:
        raise ChoiceError("The file is empty.")
