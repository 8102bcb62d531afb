"""The package as installed: the engine that was built, the fallback without a compiler, and what runs here."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import vhem
from vhem.kernels import engine as engine_module
from vhem.kernels.engine import engine, n_threads

ROOT = Path(__file__).parents[1]


def test_a_compiler_means_the_native_engine():
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine: the NumPy engine is what was built")
    assert engine().name == "native", f"{compiler} is here, but the compiled engine was not built"


def test_show_versions(capsys):
    vhem.show_versions()
    rows = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.replace("instruction set", "set").splitlines()
    )
    assert rows["vhem"] == vhem.__version__ == metadata.version("vhem")
    assert rows["engine"] == engine().name
    assert rows["set"] == engine().instruction_set
    assert rows["threads"] == str(n_threads(None))


@pytest.mark.parametrize(("n_jobs", "expected"), [(1, 1), (3, 3), (-1, None), (-1000, 1)])
def test_n_threads(n_jobs, expected):
    assert n_threads(n_jobs) == (expected or n_threads(None))


@pytest.mark.parametrize("wrong", [0, True, 1.5, "2"])
def test_bad_n_jobs(wrong):
    with pytest.raises(ValueError, match="n_jobs must be"):
        n_threads(wrong)


def test_unknown_engines_are_refused(monkeypatch):
    monkeypatch.setenv("VHEM_ENGINE", "gpu")
    with pytest.raises(ValueError, match="VHEM_ENGINE='gpu' is unknown"):
        engine()


@pytest.fixture
def any_processor(monkeypatch):
    """A function that makes this processor one of another instruction set."""
    if not engine_module.usable_instruction_sets():
        pytest.skip("the NumPy engine is what was built")
    from vhem.kernels import _processor

    def pretend(instruction_set):
        monkeypatch.setattr(_processor, "best_instruction_set", lambda: instruction_set)
        engine_module._detect.cache_clear()

    monkeypatch.delenv("VHEM_ENGINE", raising=False)
    monkeypatch.delenv("VHEM_INSTRUCTION_SET", raising=False)
    yield pretend
    engine_module._detect.cache_clear()


def test_on_a_processor_that_it_was_not_compiled_for_numpy_does_the_work(any_processor, monkeypatch):
    monkeypatch.setattr(engine_module, "_is_built", lambda name: name == "avx512")
    any_processor("avx2")
    with pytest.warns(vhem.FitWarning, match=r"compiled on another machine, for avx512, which .* Reinstall vhem here"):
        assert engine().name == "reference"


def test_instruction_sets_that_cannot_run_here_are_refused(any_processor, monkeypatch):
    monkeypatch.setattr(engine_module, "_is_built", lambda _: True)
    any_processor("avx2")
    monkeypatch.setenv("VHEM_INSTRUCTION_SET", "avx512")
    with pytest.raises(ValueError, match="'avx512' is not built, or not for this processor; use baseline or avx2"):
        engine()


USE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import vhem
    assert not caught, "nothing may be said before first use"
    hmm = vhem.HMM([1.0], [[1.0]], [[0.0]], [[1.0]])
    for _ in range(2):
        vhem.expected_log_likelihood(hmm, hmm, tau=3)
        hmm.score_samples([[0.0, 1.0]])
    vhem.VHEM(1).fit([hmm, hmm])
print(len(caught), caught[0].message)
vhem.show_versions()
"""


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory):
    """The wheel that comes out where the compiler cannot be run, unpacked."""
    folder = tmp_path_factory.mktemp("pure")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    environment = {**os.environ, "CXX": "/no/such/compiler", "CC": "/no/such/compiler"}
    command = [sys.executable, "-m", "pip", "wheel", str(source), "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*command, "--wheel-dir", str(folder)], check=True, capture_output=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", format="zip")
    return wheel, folder / "site"


def test_without_a_compiler_the_wheel_is_pure_and_says_so_once(pure_wheel):
    wheel, site = pure_wheel
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not list(site.rglob("*.so"))
    assert (site / "vhem" / "report" / "parts" / "page.html").is_file(), "the report's page goes with the package"
    # -S and an explicit path: the installation in this environment must not get in the way.
    where_numpy_is = str(Path(np.__file__).parents[1])  # not always in purelib: environments can lie upon each other
    path = os.pathsep.join([str(site), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), where_numpy_is])
    out = subprocess.run(
        [sys.executable, "-S", "-c", USE], check=True, capture_output=True, text=True, env={"PYTHONPATH": path}
    ).stdout
    assert out.startswith("1 vhem runs on its NumPy engine")
    assert "engine  reference" in out


@pytest.mark.slow
def test_kernels_compile_for_arm64(tmp_path):
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None:
        pytest.skip("no cross-compiler: install Debian's g++-aarch64-linux-gnu")
    nanobind = pytest.importorskip("nanobind", reason="nanobind comes with the build tools of `make test`")
    native = ROOT / "src" / "vhem" / "kernels" / "native"
    # Debian's Python has one pyconfig.h per processor; this machine's serves to see whether the sources compile.
    config = Path(sysconfig.get_config_h_filename())
    own = config.parents[1] / str(sysconfig.get_config_var("MULTIARCH")) / config.parent.name / config.name
    shown = tmp_path / "aarch64-linux-gnu" / config.parent.name
    shown.mkdir(parents=True)
    shutil.copy(own if own.is_file() else config, shown / config.name)
    for source in native.glob("*.cpp"):
        includes = ["-I", nanobind.include_dir(), "-I", sysconfig.get_path("include"), "-I", str(tmp_path)]
        flags = [
            "-std=c++17",
            "-O1",
            "-DVHEM_MODULE=_native_baseline",
            "-c",
            str(source),
            "-o",
            str(tmp_path / "out.o"),
        ]
        done = subprocess.run([compiler, *flags, *includes], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_demo_finds_the_strategies_and_ends_with_a_report(capsys, tmp_path):
    from vhem import demo

    demo.main(tmp_path / "demo.html")
    out = capsys.readouterr().out
    assert "40 viewers" in out
    assert out.count("Cluster ") == 3
    assert "adjusted Rand index 1.00" in out
    assert out.endswith(f"{tmp_path / 'demo.html'}\n")
    assert "How 40 viewers look at faces" in (tmp_path / "demo.html").read_text(encoding="utf-8")


def test_messages_and_pages_tell_how_to_install_what_there_is():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"how_to_install\('(\w+)'\)|pip install \"\.\[(\w+)\]\"", text)
    assert len(named) >= 12
    assert {first or second for first, second in named} <= set(known)
    assert not re.findall(r"pip install ['\"]?vhem\b", text), "vhem is in no registry"


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    asked = set(re.findall(r"^    - (\S+ >=\S+)$", recipe.split("  run:")[1], re.MULTILINE))
    needed = {dependency.replace(">=", " >=") for dependency in project["dependencies"]}
    assert asked == {*needed, f"python {project['requires-python']}"}
    assert f'version: "{project["version"]}"' in recipe
