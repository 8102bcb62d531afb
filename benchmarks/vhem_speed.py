"""Speed and memory of VHEM as ratios, measured side by side in one run: `make bench`.

The yardstick is a plain batched NumPy program for one dense iteration (bench/baseline.py, beside the data folder). CPU
seconds of one thread, from the same start, with the results compared.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem.em import restarts as side_by_side
from vhem.em.observed import in_pieces, nodes
from vhem.em.reduction import Centers, ReductionProblem
from vhem.em.sharding import Shards
from vhem.em.ward import ward_labels
from vhem.em.ward_in_rounds import ward_in_rounds
from vhem.emissions import Gaussian
from vhem.kernels.engine import engine
from vhem.kernels.models import Models, Pieces
from vhem.kernels.reduction import BaseModels, Shortcuts, e_step

WIDTHS = (10, 9, 7, 9, 9, 7, 7, 9)
DENSE, SHIPPED = Shortcuts.of(False), Shortcuts.of(True)


def yardstick():
    data = os.environ.get("VHEM_DATA")
    root = Path(data).parent if data else Path(__file__).parents[2] / "shared"
    path = root / "bench" / "baseline.py"
    if not path.exists():
        sys.exit(f"The yardstick {path} is not here: set VHEM_DATA to the data folder beside its folder `bench`.")
    spec = importlib.util.spec_from_file_location("baseline", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parameters(arrays):
    K, S = arrays["startprob"].shape
    start, trans, mix = (np.ascontiguousarray(arrays[name]) for name in ("startprob", "transmat", "mix_weights"))
    gaussian = Gaussian(np.ascontiguousarray(arrays["means"]), np.ascontiguousarray(arrays["covars"]))
    return Models(start, trans, mix, gaussian, np.full(K, S, dtype=np.int64))


def base_models(p, base):
    return BaseModels.of(parameters(base), p["Ni"], np.ones(p["Kb"]), p["tau"])


def iteration(base, start, weights, shortcuts, n_threads=1):
    statistics = e_step(base, start, weights, shortcuts, n_threads)
    now = Centers(start, weights)
    return statistics, ReductionProblem(base=None).m_step(now, statistics, statistics, None).state


def least(work, clock=time.process_time, at_least=0.4, most=12):
    """Return the shortest of several timings: what the machine can do when nothing else disturbs it."""
    times, spent = [], 0.0
    while not times or (spent < at_least and len(times) < most):
        begin = clock()
        work()
        times.append(clock() - begin)
        spent += times[-1]
    return min(times)


def practical_limit(p):
    """Return the seconds of a dense iteration's exponentials, logarithms and multiplications at their best rates."""
    exp, log, multiply_add = engine().module.best_rates()
    S, pairs = p["S"], p["Kb"] * p["Kr"]
    steps = pairs * p["tau"] * (S * S * (exp + log) + 5 * S**3 * multiply_add)
    d, M = p["d"], p["M"]
    gaussian = 2 * d if p["cov"] == "diag" else d * (d + 1)
    emissions = pairs * S * S * M * M * (2 * gaussian * multiply_add + (exp if M > 1 else 0.0))
    return steps + emissions


def largest_difference(new, update):
    pairs = [(new["weights"], update.weights)]
    pairs += [(new[name], update.models.arrays()[name]) for name in new if name != "weights"]
    return max(float(np.max(np.abs(a - b) / (1 + np.abs(a)))) for a, b in pairs)


def compare_with_yardstick(bench):
    print("One iteration from the same start, CPU seconds of one thread")
    columns = ("yardstick", "dense", "ratio", "of limit", "shipped", "ratio", "pairs", "error")
    print(f"{'':13}" + "".join(f"{name:>{width}}" for name, width in zip(columns, WIDTHS, strict=True)))
    for size in ("small", "medium", "medium_full", "large", "long", "big_emission"):
        p, base, reduced = bench.problem(size)
        models, start = base_models(p, base), parameters(reduced)
        new = None

        def plain(p=p, base=base, reduced=reduced):
            nonlocal new
            new = bench.m_step(bench.em_iteration(p, base, reduced)["stats"], p)

        slow = least(plain, at_least=2.0, most=5)
        times = [least(partial(iteration, models, start, reduced["weights"], s)) for s in (DENSE, SHIPPED)]
        statistics, update = iteration(models, start, reduced["weights"], SHIPPED)
        print(
            f"{size:13}{slow:10.4f}{times[0]:9.4f}{slow / times[0]:6.1f}×{practical_limit(p) / times[0]:9.0%}"
            f"{times[1]:9.4f}{slow / times[1]:6.0f}×{statistics.n_evaluated / (p['Kb'] * p['Kr']):7.1%}"
            f"{largest_difference(new, update):9.0e}"
        )


def where_nothing_can_be_skipped(bench):
    print("\nSoft assignments (n_virtual 0.01), where nothing can be skipped: shipped / dense")
    for size in ("medium", "large"):
        p, base, reduced = bench.problem(size, n_virtual=0.01)
        models, start = base_models(p, base), parameters(reduced)
        times = {DENSE: [], SHIPPED: []}
        for _ in range(4):
            for shortcuts, found in times.items():
                found.append(least(partial(iteration, models, start, reduced["weights"], shortcuts), at_least=0))
        print(f"{size:13}{min(times[SHIPPED]) / min(times[DENSE]):8.3f}")


def threads(bench):
    p, base, reduced = bench.problem("large")
    models, start = base_models(p, base), parameters(reduced)
    print("\nTwo threads against one, wall time on large")
    for name, shortcuts in (("dense", DENSE), ("shipped", SHIPPED)):
        one, two = (
            least(partial(iteration, models, start, reduced["weights"], shortcuts, n), time.perf_counter, 2.0)
            for n in (1, 2)
        )
        print(f"{name:13}{one / two:8.2f}×")


def long_sequences(bench):
    times = {}
    for tau in (300, 3000):
        p, base, reduced = bench.problem("long", tau=tau)
        models, start = base_models(p, base), parameters(reduced)
        times[tau] = least(partial(iteration, models, start, reduced["weights"], SHIPPED))
    print(f"\nτ = 3000 against τ = 300 on long, shipped: {times[3000] / times[300]:.2f}×")


def many_clusters(bench, Kb=4000, Kr=500, n_iter=11):
    """Compare the E-steps of one run with the first, and with those of a run that carries no bounds."""
    print(f"\n{Kb} HMMs into {Kr} clusters, E-step of iteration {n_iter}: of the first; of one that carries no bounds")
    for name, spread, n_virtual in (("well apart", 3.0, 10.0), ("close", 1.0, 10.0), ("overlapping", 1.0, 0.3)):
        p, base, reduced = bench.problem("large", n_virtual=n_virtual, Kb=Kb, Kr=Kr)
        centres = np.random.default_rng(0).standard_normal((Kr, p["S"], p["M"], p["d"]))  # those of the problem
        for models in (base, reduced):
            models["means"] += (spread - 1) * centres[models["label"]]
        forgetful = ReductionProblem(base=Shards.of(base_models(p, base)))
        carrying, state, times = forgetful.for_one_run(), Centers(parameters(reduced), reduced["weights"]), []
        for k in range(n_iter):
            found, taken = timed(partial(carrying.e_step, state))
            times.append(taken)
            if k < n_iter - 1:
                state = carrying.m_step(state, found, found, None).state
        every, plain = timed(partial(forgetful.e_step, state))
        assert abs(found.bound / every.bound - 1) < 1e-12
        print(f"{name:13}{times[-1] / times[0]:8.2f}{times[-1] / plain:8.2f}")


def where_many_clusters_begin(bench, Kb=8000, Kr=800):
    """Compare Ward's tree grown in rounds with the one of all pairs."""
    p, base, _ = bench.problem("large", Kb=Kb, Kr=Kr)
    models, found = base_models(p, base), {}
    for name, work in (
        ("in rounds", partial(ward_in_rounds, models, Kr, np.random.default_rng(0))),
        ("all pairs", partial(ward_labels, models, Kr)),
    ):
        labels, seconds = timed(work)
        found[name] = seconds
        print(f"{name:13}{seconds:8.1f}{adjusted_rand_score(base['label'], labels):8.3f}")
    print(f"{'ratio':13}{found['in rounds'] / found['all pairs']:8.2f}")


def timed(work):
    begin = time.process_time()
    return work(), time.process_time() - begin


def left_right_models(S=8, d=2, taus=(10, 30, 120, 2000, 20000)):
    """Time left-right HMMs that do not match, 400 against 10: nothing can be skipped but steps."""
    rng = np.random.default_rng(0)

    def models(K):
        stay = np.concatenate([np.clip(rng.beta(8, 2, (K, S - 1)), 0.3, 0.98), np.ones((K, 1))], axis=1)
        trans = stay[:, :, None] * np.eye(S) + (1 - stay)[:, :, None] * np.eye(S, k=1)
        gaussian = Gaussian(3 * rng.standard_normal((K, S, 1, d)), rng.gamma(4, 0.25, (K, S, 1, d)) + 0.1)
        return Models(np.tile(np.eye(S)[0], (K, 1)), trans, np.ones((K, S, 1)), gaussian, np.full(K, S))

    base, start = models(400), models(10)
    print("\nLeft-right HMMs of 8 states, 400 and 10 clusters: CPU seconds of an E-step")
    for tau in taus:
        some = BaseModels.of(base, np.full(400, 0.01), np.ones(400), tau)
        print(f"τ = {tau:6d}{least(partial(e_step, some, start, np.full(10, 0.1), SHIPPED)):10.4f}")


def observed_bound(bench, n_nodes=8):
    """Compare the E-steps of the two bounds; with pieces as states of their own, the second took this long before."""
    print("\nObserved bound, six states, eight nodes: E-step against that of the paper's bound; with pieces as states")
    for name, n_virtual in (("hard", 10.0), ("soft", 0.01)):
        p, base, reduced = bench.problem("large", n_virtual=n_virtual, Kb=600, Kr=20)
        whole, start = base_models(p, base), parameters(reduced)
        cut = in_pieces(whole.models, nodes(n_nodes, p["d"], np.random.default_rng(0)))
        common = (cut, whole.counts, whole.scales, whole.tau)
        kinds = (whole, BaseModels.of(*common, Pieces(whole.models, n_nodes)), BaseModels.of(*common))
        times = [least(partial(e_step, kind, start, reduced["weights"], SHIPPED)) for kind in kinds]
        print(f"{name:13}{times[1] / times[0]:8.2f}×{times[2] / times[0]:10.2f}×")


def restarts():
    """Cluster 10 HMMs into two, 300 times, from inputs drawn at random: the restarts together, and one at a time."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), (10, 3))
    hmms = vhem.H3M.from_arrays(rows[:, 0], rows, rng.standard_normal((10, 3, 2)), np.ones((10, 3, 2)))
    fit = partial(vhem.VHEM(2, n_init=300, init="base", random_state=0, n_jobs=1).fit, hmms)
    together, most = least(fit), side_by_side._PAIRS_TOGETHER
    side_by_side._PAIRS_TOGETHER = 0
    alone = least(fit)
    side_by_side._PAIRS_TOGETHER = most
    print(f"\n300 restarts of a small problem: {together:.2f} s, one at a time {alone:.2f} s ({alone / together:.1f}×)")


# The peak of one iteration beyond what was resident before it, by Linux's own counters: "5" sets the peak back.
MEMORY = """
import re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from vhem_speed import base_models, iteration, parameters, yardstick, SHIPPED, DENSE
p, base, reduced = yardstick().problem("large")
models, start = base_models(p, base), parameters(reduced)
def kilobytes(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
for shortcuts in (DENSE, SHIPPED):
    Path("/proc/self/clear_refs").write_text("5")
    before = kilobytes("VmRSS")
    iteration(models, start, reduced["weights"], shortcuts, 2)
    print((kilobytes("VmHWM") - before) / 1024)
"""

IMPORT = """
import time, sklearn.base
begin = time.process_time()
import vhem
print(time.process_time() - begin)
"""


def memory_and_import():
    def run(code):
        command = [sys.executable, "-c", code, str(Path(__file__).parent)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    dense, shipped = map(float, run(MEMORY))
    print(f"\nMemory beyond the models on large, two threads: dense {dense:.0f} MB, shipped {shipped:.0f} MB")
    print(f"import vhem beyond scikit-learn's base: {float(run(IMPORT)[0]):.2f} s of CPU")


def main():
    print(f"engine {engine().name}, instruction set {engine().instruction_set}\n")
    bench = yardstick()
    compare_with_yardstick(bench)
    where_nothing_can_be_skipped(bench)
    threads(bench)
    long_sequences(bench)
    many_clusters(bench)
    print("\nWard's tree of 8000 HMMs, cut into 800 clusters: CPU seconds, agreement with the truth (ARI)")
    where_many_clusters_begin(bench)
    left_right_models()
    observed_bound(bench)
    restarts()
    memory_and_import()


if __name__ == "__main__":
    main()
