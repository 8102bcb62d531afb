"""Calls of the compiled kernels: what is refused, how they fail, how they are stopped."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from helpers import random_h3m

from vhem.emissions.gaussian import Gaussian
from vhem.kernels import compiled
from vhem.kernels.engine import engine, n_threads
from vhem.kernels.models import Models
from vhem.kernels.stopping import Stop

pytestmark = pytest.mark.skipif(engine().module is None, reason="only the NumPy engine is built here")

CASES = """
import numpy as np
rng = np.random.default_rng(0)

def models(K, S=3, d=2, M=1, full=False):
    from vhem.emissions.gaussian import Gaussian
    from vhem.kernels.models import Models
    start, trans, mix = rng.random((K, S)), rng.random((K, S, S)), rng.random((K, S, M))
    covars = np.ones((K, S, M, d))
    p = [a / a.sum(-1, keepdims=True) for a in (start, trans, mix)]
    covars = np.ascontiguousarray(covars[..., None] * np.eye(d)) if full else covars
    return Models(*p, Gaussian(rng.normal(size=(K, S, M, d)), covars), np.full(K, S))

def e_step(base, reduced, tau, n_threads=2, prune=False, early_stop=False):
    K = len(base)
    return compiled.e_step(
        base=base, occupancy=np.full(base.startprob.shape, tau / base.startprob.shape[1]), counts=np.ones(K),
        scales=np.ones(K), reduced=reduced, log_weights=np.full(len(reduced), -np.log(len(reduced))),
        anchors=reduced.components, tau=tau, prune=prune, early_stop=early_stop, want_responsibilities=False,
        n_threads=n_threads)

def frames(T, n=1, d=2):
    return rng.normal(size=(n * T, d)), np.arange(n + 1) * T

def count(T, n=1, S=3, d=2, **options):
    X, offsets = frames(T, n, d)
    hmm = models(1, S, d, **options)
    return compiled.expectations(
        models=hmm, X=X, offsets=offsets, sequence=np.arange(n), model=np.zeros(n, np.int64),
        weights=np.ones(n), anchors=hmm.components, n_threads=2)
"""


def random_models(K: int, S: int, d: int, covariance_type: str = "diag") -> Models:
    return random_h3m(np.random.default_rng(0), K, S, 1, d, covariance_type).parameters


def in_a_process(code: str, preparation: str = "") -> subprocess.CompletedProcess[str]:
    code = "\n".join([textwrap.dedent(preparation), "from vhem.kernels import compiled", CASES, textwrap.dedent(code)])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


LONG_CALLS = {
    "many pairs": "e_step(models(10_000, 4, 2), models(500, 4, 2), 20)",
    "long virtual sequences": "e_step(models(200, 17, 2), models(50, 17, 2), 10_000)",
    "expected log-likelihoods": "compiled.expected_log_likelihood(base=models(3000, 8), reduced=models(3000, 8),"
    " tau=1000, early_stop=False, n_threads=2)",
    "wide full covariances": "e_step(models(400, 8, 60, full=True), models(200, 8, 60, full=True), 10)",
    "a long sequence": "count(4_000_000, S=48)",
    "many sequences": "count(500, n=20_000, S=24, d=6)",
    "mixtures": "count(5_000, n=50, S=12, d=30, M=6, full=True)",
    "Viterbi": "compiled.viterbi(models=models(1, 40), X=frames(1_000_000)[0], offsets=np.array([0, 1_000_000]),"
    " n_threads=2)",
    "posteriors": "compiled.posteriors(models=models(1, 40), X=frames(1_000_000)[0],"
    " offsets=np.array([0, 1_000_000]), n_threads=2)",
    "PPK": "m = models(3000, 8); compiled.log_ppk(a=m, b=m, length=1000, power=0.5, n_threads=2)",
    "k-means": "compiled.kmeans(Z=frames(1_000_000, d=20)[0], offsets=np.array([0, 1_000_000]),"
    " uniforms=rng.random((1, 100)), max_iter=10, most_points=1_000_000, n_threads=2)",
}


@pytest.mark.parametrize("case", LONG_CALLS)
def test_an_interrupt_ends_a_kernel_within_half_a_second(case):
    """Measured in processor time of its two threads, so that other programs on the machine do not count."""
    code = f"""
    import os, signal, threading, time
    entered, sent = threading.Event(), []
    def interrupt():
        entered.wait()
        time.sleep(0.1)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)
    class Watched:
        def __init__(self, module): self.module = module
        def __getattr__(self, name):
            value = getattr(self.module, name)
            if isinstance(value, type): return value
            def call(**arguments):
                entered.set()
                return value(**arguments)
            return call
    found = compiled.engine()
    compiled.engine = lambda: found._replace(module=Watched(found.module))
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        {LONG_CALLS[case]}
        print("finished")
    except KeyboardInterrupt:
        print("interrupted", time.process_time() - sent[0])
    """
    done = in_a_process(code)
    assert done.stdout.startswith("interrupted"), done.stdout + done.stderr
    assert float(done.stdout.split()[1]) < 2 * 0.5


def test_a_stop_ends_the_kernels_of_other_threads():
    models = random_models(1500, 6, 2)
    stop, entered = Stop(), Event()

    def work():
        entered.set()
        for _ in range(1000):
            compiled.expected_log_likelihood(base=models, reduced=models, tau=500, early_stop=False, n_threads=1)

    with ThreadPoolExecutor(1, initializer=stop.watch) as pool:
        future = pool.submit(work)
        entered.wait()
        stop.set()
        with pytest.raises(KeyboardInterrupt, match="stopped by another thread"):
            future.result()
    small = models.take(slice(2))
    J = compiled.expected_log_likelihood(base=small, reduced=small, tau=5, early_stop=True, n_threads=1)
    assert np.isfinite(J).all(), "this thread does not watch"


LITTLE_MEMORY = """
import resource
import numpy as np
import vhem.kernels.compiled
def limit(more):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set and measured as Linux does it")
def test_too_little_memory_is_a_memory_error():
    code = """
    base, reduced = models(4, 200), models(2, 200)
    limit(100 << 20)
    try:
        e_step(base, reduced, 20)
    except MemoryError as error:
        print("MemoryError:", error)
    print(e_step(base, reduced, 2)[0][0] < 0)
    """
    done = in_a_process(code, LITTLE_MEMORY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MemoryError: there is not enough memory for this computation"), done.stdout
    assert done.stdout.endswith("True\n"), "the next call works"


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set and measured as Linux does it")
def test_the_memory_of_the_e_step_does_not_depend_on_tau():
    """Kept whole, 10,000 steps of 17 states would take 740 MB."""
    code = """
    base, reduced = models(2, 17), models(1, 17)
    limit(100 << 20)
    whole = e_step(base, reduced, 10_000, n_threads=1)
    early = e_step(base, reduced, 10_000, n_threads=1, early_stop=True)
    print(abs(whole[0][0] / early[0][0] - 1) < 1e-9, np.allclose(whole[2].trans, early[2].trans, rtol=1e-9))
    """
    done = in_a_process(code, LITTLE_MEMORY)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set and measured as Linux does it")
@pytest.mark.parametrize(
    "limit", ["limit(100 << 20)", "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); os.setuid(65534)"]
)
def test_threads_that_cannot_be_started_are_done_without(limit):
    """Each thread wants 8 MB of stack, so a hundred do not fit; root may start any number, nobody may not."""
    if os.getuid() != 0:
        limit = limit.split(";")[0]
    code = f"""
    import os
    base, reduced = models(300, 4), models(20, 4)
    expected = e_step(base, reduced, 10, n_threads=1)
    {limit}
    found = e_step(base, reduced, 10, n_threads=100)
    print(found[0][0] == expected[0][0], (found[2].trans == expected[2].trans).all())
    """
    done = in_a_process(code, LITTLE_MEMORY)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_n_jobs_beyond_all_measure_means_four_threads_per_core():
    assert n_threads(10**6) == 4 * n_threads(None)


def wrong_calls():
    """Names of what is wrong, how a good call is changed, and how the message begins."""
    short = {"startprob": (2,), "transmat": (2, 3, 2), "mix_weights": (2, 3, 2), "n_states": (3,)}
    for field, shape in short.items():
        name = "weights" if field == "mix_weights" else field
        kind = np.int64 if field == "n_states" else np.float64
        yield pytest.param({field: np.ones(shape, kind)}, f"{name} must be", id=field)
    yield pytest.param({"covars": np.ones((2, 3, 1, 3))}, "covars must be", id="covars")
    yield pytest.param({"n_states": np.array([3, 4])}, "n_states must lie between 1 and 3, got 4", id="too many states")
    yield pytest.param({"n_states": np.array([0, 3])}, "n_states must lie between 1 and 3, got 0", id="no states")
    yield pytest.param({"X": np.ones((9, 3))}, "X must have 2 columns", id="columns")
    yield pytest.param(
        {"offsets": np.array([0, 4, 99])}, "offsets must lie between 0 and 9, got 99", id="beyond the end"
    )
    yield pytest.param({"offsets": np.array([0, 9, 4])}, "offsets must rise", id="falling offsets")
    yield pytest.param(
        {"offsets": np.array([0, 0, 9])}, "offsets must rise: number 0 has length 0", id="empty sequence"
    )
    yield pytest.param(
        {"sequence": np.array([0, 2])}, "sequence must lie between 0 and 1, got 2", id="no such sequence"
    )
    yield pytest.param({"model": np.array([-1, 0])}, "model must lie between 0 and 1, got -1", id="no such model")
    yield pytest.param({"weights": np.ones(3)}, "weight must be", id="weights")
    anchors = Gaussian(np.ones((2, 3, 1, 1)), np.ones((2, 3, 1, 1)))
    yield pytest.param({"anchors": anchors}, "anchors must be", id="anchors")


@pytest.mark.parametrize(("change", "message"), list(wrong_calls()))
def test_a_wrong_array_is_refused_by_name(change, message):
    models = random_models(2, 3, 2)
    arguments = {
        "X": np.zeros((9, 2)), "offsets": np.array([0, 4, 9]), "sequence": np.array([0, 1]), "model": np.array([0, 1]),
        "weights": np.ones(2), "anchors": models.components, "n_threads": 1,
    }  # fmt: skip
    assert np.isfinite(compiled.expectations(models=models, **arguments)[0]).all()
    rest = {key: value for key, value in change.items() if key not in models.arrays()}
    with pytest.raises(ValueError, match=message):
        compiled.expectations(models=changed(models, **change), **{**arguments, **rest})


def changed(models, **arrays):
    now = {**models.arrays(), **arrays}
    rows = (now[name] for name in ("startprob", "transmat", "mix_weights"))
    return Models(*rows, Gaussian(now["means"], now["covars"]), now["n_states"])


def test_models_that_do_not_fit_together_are_refused():
    flat, deep, full = random_models(2, 3, 2), random_models(2, 3, 3), random_models(2, 3, 2, "full")
    for other in (deep, full):
        with pytest.raises(ValueError, match="one dimension and one type of covariances"):
            compiled.expected_log_likelihood(base=flat, reduced=other, tau=3, early_stop=True, n_threads=1)
        with pytest.raises(ValueError, match="one dimension and one type of covariances"):
            compiled.log_ppk(a=flat, b=other, length=3, power=1.0, n_threads=1)
    with pytest.raises(ValueError, match="tau must be at least 1, got 0"):
        compiled.expected_log_likelihood(base=flat, reduced=flat, tau=0, early_stop=True, n_threads=1)
    with pytest.raises(ValueError, match="models must be one HMM, got 2"):
        compiled.viterbi(models=flat, X=np.zeros((3, 2)), offsets=np.array([0, 3]), n_threads=1)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, 3), np.float32), "startprob must be .* float64 .* of another type"),
        (np.asfortranarray(np.ones((2, 3))), "startprob must be a C-contiguous .* in another order of memory"),
    ],
)
def test_the_module_itself_takes_arrays_as_they_are_or_not_at_all(array, message):
    with pytest.raises(ValueError, match=message):
        engine().module.Chains(startprob=array, transmat=np.ones((2, 3, 3)), n_states=np.array([3, 3]))


def test_other_types_and_orders_of_memory_are_copied():
    expected = random_models(2, 3, 2)
    other = changed(
        expected,
        transmat=np.asfortranarray(expected.transmat),
        means=np.asfortranarray(expected.components.means),
        n_states=np.array([3, 3], np.int32),
    )
    J, again = (
        compiled.expected_log_likelihood(base=p, reduced=p, tau=5, early_stop=True, n_threads=1)
        for p in (expected, other)
    )
    np.testing.assert_array_equal(J, again)
