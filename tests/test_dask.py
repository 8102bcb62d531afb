"""A real Dask cluster of processes: the same bits as here, whatever dies in the meantime; errors instead of waiting."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers import random_h3m
from sklearn.base import clone

from vhem import VHEM, PartError, PartitionedH3M, split_sequences
from vhem.em import sharding as shards
from vhem.executors import ClusterLostError, DaskExecutor

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def parts():
    sequences, _ = random_h3m(np.random.default_rng(0), K=4, d=2).sample(1000, 30, random_state=1)
    return split_sequences(sequences, 100)


@pytest.fixture(scope="module")
def hmms():
    return random_h3m(np.random.default_rng(1), K=1000, S=3, d=2)


@pytest.fixture(scope="module", autouse=True)
def many_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD", 125)
        yield


def mixture(**arguments):
    fixed = {"tau": 30, "n_sample": 200, "fan_in": 4, "random_state": 0, "n_passes": 1, "n_init": 3}
    return PartitionedH3M(4, 3, **{**fixed, **arguments})


def clusters(**arguments):
    return VHEM(5, **{"n_init": 2, "max_iter": 8, "tol": 0, "random_state": 0, **arguments})


@pytest.fixture(scope="module")
def mixture_here(parts, many_shards):
    return mixture().fit(parts).model_


@pytest.fixture(scope="module")
def clusters_here(hmms, many_shards):
    return clusters().fit(hmms)


def assert_same(one, other):
    assert one.centers_ == other.centers_
    assert np.array_equal(one.responsibilities_, other.responsibilities_)
    assert np.array_equal(one.lower_bounds_, other.lower_bounds_)


@pytest.mark.slow
def test_the_same_bits_as_here(client, parts, hmms, mixture_here, clusters_here):
    assert mixture(executor=client).fit(parts).model_ == mixture_here
    assert_same(clusters(executor=client).fit(hmms), clusters_here)
    assert_same(clusters(executor="threads", n_jobs=2).fit(hmms), clusters_here)
    assert_same(clone(clusters(executor=DaskExecutor(client))).fit(hmms), clusters_here)


@pytest.mark.parametrize("n_workers", [1, 8])
def test_the_same_bits_for_any_number_of_workers(parts, hmms, mixture_here, clusters_here, n_workers):
    with (
        distributed.LocalCluster(n_workers, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        assert mixture(executor=client).fit(parts).model_ == mixture_here
        assert_same(clusters(executor=client).fit(hmms), clusters_here)


def test_shards_of_a_large_fit_give_the_sums_of_one_piece(monkeypatch, hmms):
    monkeypatch.setattr(shards, "SHARD", 10**9)
    whole = clusters().fit(hmms)
    monkeypatch.setattr(shards, "SHARD", 175)
    cut = clusters().fit(hmms)
    np.testing.assert_allclose(cut.lower_bounds_, whole.lower_bounds_, rtol=1e-12)
    np.testing.assert_allclose(cut.centers_.means, whole.centers_.means, rtol=1e-7, atol=1e-9)
    assert np.array_equal(cut.labels_, whole.labels_)


def test_shards_are_sent_once_and_stay(client, hmms):
    kept = []

    def keys(dask_scheduler):
        tasks = dask_scheduler.tasks.values()
        return {task.key for task in tasks if task.prefix.name == "vhem-shard" and task.state == "memory"}

    def look(progress):
        kept.append(client.run_on_scheduler(keys))

    clusters(executor=client, callback=look).fit(hmms)
    assert len(kept) == 18  # two restarts of eight iterations
    assert len(kept[0]) == 8
    assert all(now == kept[0] for now in kept)


def test_broken_parts_are_named_and_skipped(client, parts):
    bad = [*parts[:3], np.full((5, 4, 2), np.inf), *parts[3:5]]
    with pytest.raises(PartError, match="'part 3': sequence 0 has inf"):
        mixture(executor=client).fit(bad)
    with pytest.warns(RuntimeWarning, match="1 of 6 parts"):
        fit = mixture(executor=client, on_error="skip").fit(bad)
    assert (fit.n_parts_, fit.n_sequences_) == (5, 500)


def pages_of_new_arrays():
    """How many pages the system has to find for arrays of which only one exists at a time."""
    import resource  # not on Windows

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(2**18)  # 512 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="about the C library of Linux")
@pytest.mark.parametrize(("setting", "kept"), [("65536", True), ("65535", False)])
def test_workers_use_memory_again_unless_their_user_wants_otherwise(parts, setting, kept, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", setting)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        (before,) = client.run(pages_of_new_arrays).values()
        mixture(executor=client, n_passes=None).fit(parts[:2])
        (after,) = client.run(pages_of_new_arrays).values()
    assert before > 25_000
    assert (after < before / 10) == kept


def test_errors_of_tasks_come_back_as_they_are(client):
    with pytest.raises(FileNotFoundError):
        list(DaskExecutor(client).map(open, ["no such file"], name="test"))


class Killer:
    """Kills workers of a cluster at random moments, while a `with` block runs."""

    def __init__(self, cluster, rng, n):
        self.cluster, self.rng, self.n, self.killed = cluster, rng, n, 0
        self.thread, self.over = threading.Thread(target=self._run), threading.Event()

    def _run(self):
        while self.killed < self.n and not self.over.wait(self.rng.uniform(0.05, 0.6)):
            nanny = self.cluster.workers[self.rng.integers(len(self.cluster.workers))]
            pid = nanny.process.pid if nanny.process is not None else None
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                self.killed += 1
                self.over.wait(self.rng.uniform(1.0, 3.0))  # a task whose worker dies three times is given up

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.slow
def test_killed_workers_change_nothing(cluster, client, parts, hmms, mixture_here, clusters_here):
    with Killer(cluster, np.random.default_rng(), 3) as killer:
        while killer.killed < 3:
            assert mixture(executor=client).fit(parts).model_ == mixture_here
            assert_same(clusters(executor=client).fit(hmms), clusters_here)
    client.wait_for_workers(2, timeout=60)


class Processes:
    """A scheduler and a worker as programs of their own."""

    def __init__(self, folder):
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)
        )
        self.address = self._written(file)["address"]
        self.worker = self._start("dask_worker", self.address, "--nthreads", "1", "--no-nanny")

    def _written(self, file):
        """Wait for the scheduler's file with all its content: it is there, and empty, before it is written."""
        while True:
            assert self.scheduler.poll() is None, "the scheduler ended before it wrote its file"
            try:
                return json.loads(file.read_text())
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(0.05)

    @staticmethod
    def _start(program, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments, "--dashboard-address", "127.0.0.1:0"]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def stop(self):
        for process in (self.worker, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.stop()


def fails_in_time(client, act, parts, timeout=3, seconds=120):
    """Fit, and `act` once it is under way; return the error, which must come soon."""
    timer = threading.Timer(0.5, act)

    def begin(progress):
        if not timer.is_alive() and not timer.finished.is_set():
            timer.start()

    executor = DaskExecutor(client, timeout=timeout)

    def fit_for_ever():
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            mixture(executor=executor, callback=begin).fit(parts)

    with pytest.raises(ClusterLostError) as caught:
        fit_for_ever()
    return str(caught.value)


@pytest.mark.parametrize("how", ["killed", "frozen"])
@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_an_error(processes, parts, how):
    client = distributed.Client(processes.address, timeout=30)
    client.wait_for_workers(1, timeout=60)
    sign = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}[how]
    message = fails_in_time(client, lambda: processes.scheduler.send_signal(sign), parts)
    assert processes.address in message
    processes.scheduler.send_signal(signal.SIGCONT)
    client.close(timeout=2)


@pytest.mark.slow
def test_a_cluster_without_workers_is_an_error(processes, parts):
    with distributed.Client(processes.address, timeout=30) as client:
        client.wait_for_workers(1, timeout=60)
        # The scheduler itself must answer within that time, on a busy machine too.
        assert "no worker for 10 s" in fails_in_time(client, processes.worker.kill, parts, timeout=10)


def test_a_timeout_must_be_positive(client):
    with pytest.raises(ValueError, match="timeout must be a positive"):
        DaskExecutor(client, timeout=0)
