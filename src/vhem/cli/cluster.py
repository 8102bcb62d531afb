"""vhem cluster: from a table to labels, centres and a summary in one step."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from scipy.optimize import linear_sum_assignment

from vhem.cli import in_words as summary
from vhem.cli.inputs import Input, read_sequences_or_hmms
from vhem.cli.learning import forget_parts, learned, owners_of_hmms
from vhem.cli.naming import Doing
from vhem.cli.partitions import executor_at
from vhem.cli.run_folder import HMMS, RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import (
    LONGEST_TAU,
    CenterStates,
    Dask,
    DataOrModels,
    LearningOptions,
    Out,
    Overwrite,
    Restarts,
    RunOptions,
    TableOptions,
    Tau,
    Virtual,
    expanded,
)
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vhem import VHEM
from vhem.models import H3M
from vhem.sequences import Sequences

_TAU_OF_MODELS = 10


@expanded
def cluster(
    ctx: typer.Context,
    data: DataOrModels,
    clusters: Annotated[int, typer.Option("--clusters", "-k", min=1, help="Number of clusters.", show_default=False)],
    out: Out,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    tau: Tau = None,
    virtual: Virtual = 100.0,
    restarts: Restarts = None,
    center_states: CenterStates = None,
    polish: Annotated[
        bool,
        typer.Option(
            "--polish/--no-polish",
            help="Whether to refine clusters of HMMs on the sequences themselves, if there are any.",
        ),
    ] = True,
    dask: Dask = None,
    overwrite: Overwrite = False,
) -> None:
    """Cluster sequences, or HMMs, by VHEM.

    From sequences, one HMM is learned per sequence or group first, and the clusters of HMMs are then refined on the
    sequences themselves. The folder gets labels.csv (who is in which cluster), centers.vhem (an HMM per cluster),
    hmms.vhem, a summary, and run.toml, which reproduces the run.

    For example:

        vhem cluster data.csv --id subject,trial --group subject --values x,y --clusters 3 -o out

        vhem cluster people/ --clusters 2 --tau 5 -o two-kinds

        vhem cluster --config out/run.toml --clusters 4 -o four
    """
    with Session(run.quiet, run.progress) as session:
        writer = RunWriter(ctx, out, overwrite)
        found = read_sequences_or_hmms(data, table.reading())
        hmms = learned(found, out, learning, run, session)
        length, why = chosen_tau(tau, found)
        session.begin(f"clustering {len(hmms)} HMMs", Doing.CLUSTERING)
        with executor_at(dask) as executor:
            fit = VHEM(
                clusters, n_states=center_states, tau=length, n_virtual=virtual, n_init=restarts,
                max_iter=learning.max_iter, random_state=run.seed, n_jobs=run.jobs,
                callback=session.clustering(learning.max_iter), executor=executor,
            ).fit(hmms)  # fmt: skip
        final = fit
        if polish and isinstance(found.content, Sequences) and len(hmms) > clusters:
            session.begin(f"refining {clusters} clusters on the sequences", Doing.CLUSTERING)
            final = _polished(found.content, hmms, clusters, center_states, learning, run)
        rows = summary.of_clusters(final.centers_, hmms.ids, final.labels_, length, final.responsibilities_)
        numbers = {
            "input": summary.of_input(found),
            "tau": length,
            "lower_bound": fit.lower_bound_,
            "iterations": fit.n_iter_,
            "converged": bool(fit.converged_),
            "restarts": dict(zip(("best", "all"), summary.restarts_found_best(fit), strict=True)),
            "refined": final is not fit,
            "clusters": rows,
            "notes": session.gather_warnings(),
        }
        text = f"{summary.input_text(found)}\n{len(hmms)} HMMs in {clusters} clusters (tau {length}{why}).\n"
        text += f"{summary.restarts_text(fit)}{'' if final is fit else _agreement_text(fit, final)}\n"
        text += summary.clusters_text(rows, found.feature_names, "HMMs")
        writer.begin(found.feature_names, found.typical_length)
        writer.model(HMMS, hmms)
        writer.centers(final.centers_)
        writer.labels(hmms.ids, final.labels_, final.responsibilities_)
        writer.restarts(fit)
        writer.finish(text, numbers)
        forget_parts(out)
    show(f"{text}\n\n{writer.told()}", numbers, run.json)


def _polished(
    sequences: Sequences,
    hmms: H3M,
    clusters: int,
    center_states: int | None,
    learning: LearningOptions,
    run: RunOptions,
) -> SequenceClustering:
    """Refine clusters of HMMs on the sequences that they were learned from."""
    names = owners_of_hmms(sequences, learning)
    states = center_states or int(np.ceil(np.median(hmms.n_states)))
    return SequenceClustering(
        clusters, states, learning.mix, learning.covariance, learning.topology, random_state=run.seed, n_jobs=run.jobs
    ).fit(sequences, groups=names, hmms=hmms)


def _agreement_text(fit: VHEM, final: SequenceClustering) -> str:
    """Say how many HMMs changed their cluster; clusters are matched so that as few as possible did."""
    table = np.zeros((len(fit.centers_), len(final.centers_)))
    np.add.at(table, (fit.labels_, final.labels_), 1)
    moved = len(fit.labels_) - int(table[linear_sum_assignment(-table)].sum())
    if not moved:
        return "Refined on the sequences themselves: every HMM stays in its cluster.\n"
    return f"Refined on the sequences themselves: {moved} of {len(fit.labels_)} HMMs changed their cluster.\n"


def chosen_tau(given: int | None, found: Input) -> tuple[int, str]:
    """Return the length of the virtual sequences, about that of the real ones unless given, and where it comes from."""
    if given is not None:
        return given, ""
    if found.typical_length is None:
        return _TAU_OF_MODELS, "; the length of the original sequences is unknown: set --tau to about that"
    behind = "" if isinstance(found.content, Sequences) else " behind the HMMs"
    limit = f", at most {LONGEST_TAU}" if found.typical_length > LONGEST_TAU else ""
    return min(found.typical_length, LONGEST_TAU), f", the median length of the sequences{behind}{limit}"
