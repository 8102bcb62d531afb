"""A long table of ten million rows: CPU time and peak memory, beside pandas reading the same file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CHILD = """
import json, resource, sys, time
{imports}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.process_time()
sequences = {read}
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, (peak - before) / 1024, len(sequences), len(sequences.X)]))
"""
READERS = {
    "vhem.read_sequences": ("import vhem", "vhem.read_sequences(sys.argv[1])"),
    "pandas.read_csv and from_table": (
        "import pandas, vhem",
        "vhem.Sequences.from_table(pandas.read_csv(sys.argv[1]), ['subject', 'trial'], 'time', ['x', 'y'], 'subject')",
    ),
}


def write_table(path: Path, n_rows: int) -> None:
    """Write subjects of 100 trials of 100 rows, times within a trial out of order."""
    rng = np.random.default_rng(0)
    per_subject = 10_000
    trials, times = np.repeat(np.arange(100), 100), np.tile(np.arange(100)[::-1], 100)
    with open(path, "w") as file:
        file.write("subject,trial,time,x,y\n")
        for subject in range(n_rows // per_subject):
            xy = rng.normal(100.0, 20.0, size=(per_subject, 2)).round(3).tolist()
            rows = zip(trials.tolist(), times.tolist(), xy, strict=True)
            file.writelines(f"s{subject:04d},{trial},{t},{x},{y}\n" for trial, t, (x, y) in rows)


def measured(name: str, path: Path) -> list[float]:
    imports, read = READERS[name]
    code = CHILD.format(imports=imports, read=read)
    out = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True).stdout
    return list(json.loads(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    n_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, n_rows)
        numbers = 16 * n_rows / 2**20
        print(f"{n_rows:,} rows, {path.stat().st_size / 2**20:.0f} MiB; the values alone are {numbers:.0f} MiB")
        for name in READERS:
            seconds, peak, n, frames = measured(name, path)
            print(
                f"{name:32} {seconds:6.1f} s of CPU, {peak:6.0f} MiB beyond the start ({peak / numbers:.1f} times the "
                f"values), {n:,.0f} sequences, {frames:,.0f} frames"
            )


if __name__ == "__main__":
    main()
