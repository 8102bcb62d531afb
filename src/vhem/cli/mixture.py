"""vhem mixture: a mixture of HMMs learned from the sequences themselves."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vhem._support.errors import InputError
from vhem._support.phrases import Count
from vhem.cli import in_words as summary
from vhem.cli.inputs import Input, check_columns, chosen_tau, read_sequences_only
from vhem.cli.partitions import PARTS, PartOptions, mixture_of_parts
from vhem.cli.run_folder import RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import Dask, Data, LearningOptions, Out, Overwrite, RunOptions, TableOptions, expanded, several
from vhem.estimators.mixture import MixtureOfHMMs


@expanded
def mixture(
    ctx: typer.Context,
    data: Data,
    clusters: Annotated[
        str,
        typer.Option("--clusters", "-k", help="Number of HMMs; with --method vb, such as 1-6 too.", show_default=False),
    ],
    out: Out,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    time_limit: Annotated[float | None, typer.Option(help="Stop after this many seconds.", show_default=False)] = None,
    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions",
            help="Read the data part by part, so that it may be larger than memory.",
            rich_help_panel=PARTS,
        ),
    ] = False,
    rows_per_part: Annotated[
        int, typer.Option(min=1, help="Approximate number of rows per part of a Parquet file.", rich_help_panel=PARTS)
    ] = 1_000_000,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Skip parts that cannot be read.", rich_help_panel=PARTS)
    ] = False,
    tau: Annotated[
        int | None,
        typer.Option(min=1, help="Length of VHEM's virtual sequences.", rich_help_panel=PARTS, show_default=False),
    ] = None,
    dask: Dask = None,
    overwrite: Overwrite = False,
) -> None:
    """Learn a mixture of HMMs from sequences by EM (EM-H3M), and cluster the sequences with it.

    Unlike `cluster`, which first learns one HMM per sequence or group, every iteration goes through all sequences. The
    folder gets centers.vhem (the mixture), labels.csv (one row per sequence) and a summary.

    For example:

        vhem mixture gestures.csv --clusters 4 --states 3 -o mixture

        vhem mixture gestures.csv --method vb --clusters 1-6 --states 1-4 -o as-many-as-there-are

        vhem mixture days/ --partitions --id trip --values x,y,speed --clusters 8 -o mixture
    """
    writer = RunWriter(ctx, out, overwrite)
    numbers_asked = several("--clusters", clusters)
    if partitions:
        options = PartOptions(rows_per_part, skip_broken, tau, dask)
        mixture_of_parts(writer, data, _only_one("--clusters", numbers_asked), table, learning, run, options)
        return
    if dask is not None:
        raise InputError("--dask needs --partitions here: without it, EM runs in this process")
    with Session(run.quiet, run.progress) as session:
        states = several("--states", learning.states)
        if learning.method == "em":
            _only_one("--states", states), _only_one("--clusters", numbers_asked)
        found = read_sequences_only(data, table.reading())
        check_columns(found)
        session.begin(f"learning a mixture of {clusters} HMMs")
        fit = MixtureOfHMMs(
            numbers_asked, states, learning.mix, learning.covariance, learning.topology, n_init=learning.starts,
            max_iter=learning.max_iter, time_limit=time_limit, random_state=run.seed, n_jobs=run.jobs,
            callback=session.clustering(learning.max_iter), emissions=learning.emitted(), method=learning.method,
        ).fit(found.content)  # fmt: skip
        numbers = _numbers(fit, found) | {"notes": session.gather_warnings()}
        text = f"{summary.input_text(found)}\nA mixture of {Count(fit.n_components_):HMM}.\n\n"
        text += summary.clusters_text(numbers["clusters"], found.feature_names, "sequences")
        writer.begin(found.feature_names, found.typical_length)
        writer.centers(fit.model_)
        writer.labels(found.content.ids, fit.labels_, fit.responsibilities_)
        writer.restarts(fit)
        writer.finish(text, numbers)
    show(f"{text}\n\n{writer.told()}", numbers, run.json)


def _only_one(option: str, numbers: list[int]) -> int:
    if len(numbers) > 1:
        raise InputError("{option} must be one number here", "choose among several with --method vb", option=option)
    return numbers[0]


def _numbers(fit: MixtureOfHMMs, found: Input) -> dict[str, Any]:
    length, _ = chosen_tau(None, found, fit.model_)
    return {
        "input": summary.of_input(found),
        "lower_bound": fit.lower_bound_,
        "iterations": fit.n_iter_,
        "converged": bool(fit.converged_),
        "clusters": summary.of_clusters(
            fit.model_, found.content.ids, fit.labels_, length, fit.responsibilities_, found.feature_names
        ),
    }
