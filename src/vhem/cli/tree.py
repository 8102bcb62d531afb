"""vhem tree: clusters of clusters."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from vhem._support.errors import InputError
from vhem.cli import in_words as summary
from vhem.cli.inputs import chosen_tau, read_sequences_or_hmms
from vhem.cli.learning import forget_parts, learned
from vhem.cli.naming import Doing
from vhem.cli.probable import halved, most_probable
from vhem.cli.run_folder import HMMS, TREE, RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import (
    CenterStates,
    DataOrModels,
    LearningOptions,
    Out,
    Overwrite,
    Restarts,
    RunOptions,
    TableOptions,
    Tau,
    expanded,
)
from vhem.estimators.hierarchy import HierarchicalVHEM


@expanded
def tree(
    ctx: typer.Context,
    data: DataOrModels,
    out: Out,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    levels: Annotated[
        str,
        typer.Option(
            help="Numbers of clusters, from the lowest level to the top; auto: the most probable number, by VBHEM, and "
            "half as many at each level above."
        ),
    ] = "8,4,2",
    trees: Annotated[int, typer.Option(min=1, help="Number of trees to grow; the best is kept.")] = 4,
    tau: Tau = None,
    restarts: Restarts = None,
    center_states: CenterStates = None,
    overwrite: Overwrite = False,
) -> None:
    """Cluster HMMs, then the centres, and so on into a hierarchy.

    The folder gets tree.vhem (the hierarchy), centers.vhem (its top), labels.csv (a column per level), hmms.vhem and a
    summary with the tree in Newick format.

    For example:

        vhem tree fixations.csv --id subject,trial --group subject --levels 6,3 -o tree

        vhem tree people/ --levels 4,2 -o tree
    """
    with Session(run.quiet, run.progress) as session:
        writer, sizes = RunWriter(ctx, out, overwrite), () if levels == "auto" else _sizes(levels)
        found = read_sequences_or_hmms(data, table.reading())
        hmms = learned(found, out, learning, run, session)
        length, why = chosen_tau(tau, found, hmms)
        if levels == "auto":
            sizes = halved(most_probable(hmms, center_states, run, session).n_clusters_)
        session.begin(f"growing {trees} trees over {len(hmms)} HMMs", Doing.CLUSTERING)
        fit = HierarchicalVHEM(
            sizes, n_trees=trees, n_states=center_states, tau=length, n_init=restarts, max_iter=learning.max_iter,
            random_state=run.seed, n_jobs=run.jobs, callback=session.clustering(learning.max_iter, trees * len(sizes)),
        ).fit(hmms)  # fmt: skip
        rows = summary.of_clusters(fit.levels_[-1], hmms.ids, fit.labels_[-1], length, names=found.feature_names)
        newick = fit.tree_.to_newick()
        numbers = {
            "input": summary.of_input(found),
            "tau": length,
            "levels": list(sizes),
            "newick": newick,
            "clusters": rows,
            "notes": session.gather_warnings(),
        }
        text = f"{summary.input_text(found)}\n{fit.tree_} (tau {length}{why}); the top level:\n\n"
        text += summary.clusters_text(rows, found.feature_names, "HMMs")
        text += "\n\nThe whole tree is in tree.vhem, and in summary.json as Newick; vhem report shows it."
        writer.begin(found.feature_names, found.typical_length)
        writer.model(HMMS, hmms)
        writer.model(TREE, fit)
        writer.centers(fit.levels_[-1])
        writer.labels(hmms.ids, np.column_stack(fit.labels_))
        writer.finish(text, numbers)
        forget_parts(out)
    show(f"{text}\n\n{writer.told()}", numbers, run.json)


def _sizes(levels: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in levels.split(","))
    except ValueError:
        raise InputError("--levels must be numbers like 8,4,2, got {levels!r}", levels=levels) from None
