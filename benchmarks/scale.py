"""Data in parts: time and memory of PartitionedH3M on sequences in Parquet, against EM-H3M on what fits in memory.

Every row is a process of its own, so that its peak of memory is its own. `--full` takes ten million sequences (7 GB of
Parquet, in files of a million) on one and two Dask workers; without it there are a hundred thousand, on everything.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem import H3M, HMM, MixtureOfHMMs, PartitionedH3M, Sequences
from vhem.executors import DaskExecutor

K, S, D, T = 8, 3, 3, 50
ROWS = 500_000  # of a row group, which is a part
FILE = 1_000_000  # sequences of a file


def truth():
    """Return the mixture that the data is drawn from."""
    rng = np.random.default_rng(0)
    hmms = []
    for _ in range(K):
        trans = rng.gamma(1.0, size=(S, S)) + 0.05 + 2 * np.eye(S)
        trans /= trans.sum(axis=1, keepdims=True)
        hmms.append(HMM(np.full(S, 1 / S), trans, 2 * rng.normal(size=(S, D)), rng.uniform(0.3, 2.0, size=(S, D))))
    return H3M(hmms, weights=rng.dirichlet(np.full(K, 3.0)))


def write(folder, n):
    """Write n sequences to a folder, and the HMM that made each."""
    folder.mkdir()
    labels = [write_file(folder, begin, min(FILE, n - begin)) for begin in range(0, n, FILE)]
    np.save(f"{folder}.labels.npy", np.concatenate(labels))


def write_file(folder, first, n):
    """Write sequences `first` to `first + n - 1`, a row group at a time, and return the HMM that made each."""
    h3m, labels, size = truth(), [], ROWS // T
    columns = [("id", pa.int32()), *((f"x{k}", pa.float32()) for k in range(D))]
    path = folder / f"{first:09}.parquet"
    with pq.ParquetWriter(path, pa.schema(columns), compression="snappy") as file:
        for begin in range(first, first + n, size):
            m = min(size, first + n - begin)
            sequences, made_by = h3m.sample(m, T, random_state=begin)
            table = {"id": np.repeat(np.arange(begin, begin + m, dtype=np.int32), T)}
            table.update({f"x{k}": sequences.X[:, k].astype(np.float32) for k in range(D)})
            file.write_table(pa.table(table))
            labels.append(made_by)
    return np.concatenate(labels)


def parts_of(path):
    return vhem.read_parts(path, id="id", values=[f"x{k}" for k in range(D)], rows_per_part=ROWS)


def peak_memory():
    """Return the most memory this process has held, in bytes (Linux)."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def read_only(path):
    begin = time.perf_counter()
    n = sum(len(part.read()) for part in parts_of(path))
    return {"seconds": time.perf_counter() - begin, "n": n}


def divided(path, executor, n_jobs, keep=None):
    begin = time.perf_counter()
    parts = parts_of(path)
    fit = PartitionedH3M(K, S, tau=T, executor=executor, n_jobs=n_jobs, random_state=0).fit(parts)
    seconds = time.perf_counter() - begin
    labels = np.concatenate([part.labels for part in fit.label_parts(parts)])
    if keep is not None:
        fit.model_.save(keep)
    return {"seconds": seconds, "labelling": time.perf_counter() - begin - seconds, **quality(fit.model_, path, labels)}


class Weighed(DaskExecutor):
    """Counts the bytes between the client and the workers."""

    sent = received = 0

    def _hold(self, item, name):
        self.sent += len(pickle.dumps(item))
        return super()._hold(item, name)

    def map(self, function, items, *arguments, name):  # noqa: D102  (as the executor's)
        def weighed():
            for item in items:
                self.sent += len(pickle.dumps(item))
                yield item

        for result in super().map(function, weighed(), *arguments, name=name):
            self.received += len(pickle.dumps(result))
            yield result


def on_dask(path, n_workers):
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        executor = Weighed(client)
        result = divided(path, executor, None)
        workers = client.run(peak_memory).values()
    return {**result, "workers": max(workers), "sent": executor.sent, "received": executor.received}


def em(path, n):
    """EM-H3M on the first n sequences, as many as one likes to hold in memory."""
    begin = time.perf_counter()
    some, found = [], 0
    for part in parts_of(path):
        some.append(part.read())
        found += len(some[-1])
        if found >= n:
            break
    X = np.concatenate([sequences.X for sequences in some])[: n * T]
    sequences = Sequences.from_concatenated(X, np.full(len(X) // T, T))
    del some, X
    fit = MixtureOfHMMs(K, S, random_state=0).fit(sequences)
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "iterations": sum(len(r.lower_bounds) - 1 for r in fit.restarts_),
        **quality(fit.model_),
    }


def quality(model, path=None, labels=None):
    held_out, made_by = truth().sample(20_000, T, random_state=123_456)
    result = {
        "log_likelihood": float(model.score_samples(held_out).sum() / len(held_out.X)),
        "ari": float(adjusted_rand_score(made_by, model.predict(held_out))),
    }
    if labels is not None:
        result["ari_all"] = float(adjusted_rand_score(np.load(f"{path}.labels.npy"), labels))
    return result


JOBS = {
    "read": lambda path, _: read_only(path),
    "serial1": lambda path, _: divided(path, None, 1),
    "serial2": lambda path, _: divided(path, None, 2),
    "threads2": lambda path, _: divided(path, "threads", 2),
    "dask1": lambda path, _: on_dask(path, 1),
    "dask2": lambda path, _: on_dask(path, 2),
    "em": em,
}


def run(job, path, n):
    """Run a job in a process of its own."""
    command = [sys.executable, __file__, "--job", job, "--path", str(path), "--n", str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(name, result):
    text = f"{name:46}{result['seconds']:8.1f} s{result['memory'] / 2**20:8.0f} MB"
    if "log_likelihood" in result:
        text += f"{result['log_likelihood']:10.4f}{result['ari']:8.3f}"
    if "labelling" in result:
        text += f"{result['labelling']:8.1f} s"
    if "received" in result:
        text += f"   {result['workers'] / 2**20:.0f} MB per worker, {result['sent'] / 1e6:.1f} MB sent, "
        text += f"{result['received'] / 1e6:.1f} MB received"
    print(text, flush=True)


def table(folder, n, jobs):
    print(
        f"{f'{n:,} sequences, T {T}, d {D}, K {K}':46}{'time':>10}{'peak':>11}{'ll/frame':>10}{'ARI':>8}{'labels':>10}"
    )
    path, results = folder / "data", {}
    write(path, n)
    names = {
        "read": "reading alone",
        "serial1": "in parts, one thread",
        "serial2": "in parts, two threads within a part",
        "threads2": "in parts, two parts side by side",
        "dask1": "in parts, Dask, one worker",
        "dask2": "in parts, Dask, two workers",
    }
    for job, name in names.items():
        if job in jobs:
            results[job] = run(job, path, n)
            row(name, results[job])
    if "twice" in jobs:
        write(folder / "twice", 2 * n)
        results["twice"] = run("threads2", folder / "twice", 2 * n)
        row("in parts, two side by side, data doubled", results["twice"])
    for m in (n // 50, n // 10):
        if "em" in jobs:
            results[f"em{m}"] = run("em", path, m)
            row(f"EM-H3M on {m:,} in memory, two threads", results[f"em{m}"])
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="ten million sequences, on Dask alone")
    parser.add_argument("--only", help="jobs, separated by commas: read, serial1, serial2, threads2, twice, dask1, …")
    parser.add_argument("--job")
    parser.add_argument("--path")
    parser.add_argument("--n", type=int)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.job:
        result = JOBS[chosen.job](Path(chosen.path), chosen.n)
        print(json.dumps({**result, "memory": max(peak_memory(), result.get("workers", 0))}))
        return
    with tempfile.TemporaryDirectory() as folder:
        n = chosen.n or (10_000_000 if chosen.full else 100_000)
        every = "read,dask1,dask2" if chosen.full else "read,serial1,serial2,threads2,twice,dask1,dask2,em"
        found = table(Path(folder), n, (chosen.only or every).split(","))
    pairs = [("two threads against one", "serial1", "threads2"), ("two workers against one", "dask1", "dask2")]
    for name, one, two in [*pairs, ("threads against Dask, two each", "dask2", "threads2")]:
        if one in found and two in found:
            print(f"{name:46}{found[one]['seconds'] / found[two]['seconds']:8.2f}x")


if __name__ == "__main__":
    main()
