"""vhem associate: which covariates go with the clusters of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vhem.cli.naming import Doing
from vhem.cli.run_folder import ASSOCIATE, RunFolder
from vhem.cli.session import Session, show
from vhem.cli.shared import RunOptions, expanded, listed
from vhem.cli.statistics import PeopleTable, StatisticsRun, clustered_columns, key_column, table_of
from vhem.inference import Comparison
from vhem.inference import associate as tested
from vhem.inference.comparison import key_of
from vhem.inference.tables import Table, with_cluster_names
from vhem.paper import write_comparison


@expanded
def associate(
    folder: Annotated[Path, typer.Argument(help="The folder of a run of `vhem cluster`.", show_default=False)],
    run: RunOptions,
    table: PeopleTable = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the tables; FOLDER/associate if not given.",
                                  show_default=False)
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Column that names the people.", show_default=False)] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="Covariates: age,sex. All with one value per person if not given.",
                                       show_default=False)
    ] = None,
    categorical: Annotated[
        list[str] | None, typer.Option(help="Columns of numbers that are codes of categories.", show_default=False)
    ] = None,
    numeric: Annotated[str, typer.Option(help="Test of numbers: kruskal, anova or logistic.")] = "kruskal",
    missing: Annotated[str, typer.Option(help="People who are not in the table: drop or refuse.")] = "drop",
    bootstrap: Annotated[int, typer.Option(min=0, help="Bootstrap samples for the intervals.")] = 99,
    recluster: Annotated[
        bool, typer.Option(help="Cluster again in every bootstrap sample: intervals are then honest, but take as long "
                                "as that many clusterings.")
    ] = True,
) -> None:  # fmt: skip
    """Test which covariates go with the clusters: age, accuracy, diagnosis, condition.

    The table has one row per person, or is the long table of the run itself, in which a person's rows agree. Covariates
    are ordered by the size of their effect, with Holm-corrected p-values. `vhem report` then shows them, too.

    For example:

        vhem associate out --table people.csv

        vhem associate out --table people.xlsx --columns age,diagnosis --numeric anova -o associations
    """
    found, target = StatisticsRun(RunFolder(folder)), out or folder / ASSOCIATE
    with Session(run.quiet, run.progress) as session:
        session.begin("testing covariates", Doing.CLUSTERING)
        again = found.estimator(run.seed, run.jobs) if recluster and bootstrap else None
        taken = table or table_of(found.run)
        result = tested(
            found.members, taken, id or key_column(found.run, taken), listed(columns), listed(categorical) or (),
            numeric, missing,
            sequences=None if again is None else found.sequences, groups=None if again is None else found.owners,
            estimator=again, n_bootstrap=bootstrap, random_state=run.seed,
            callback=lambda done: session.update(done, "bootstrap"),
            exclude=clustered_columns(found.run, taken),
        )  # fmt: skip
        members = found.members
        tables = with_cluster_names([_with_note_on_weights(result.table(), found)], found.run.labels.names)
        said = Comparison(tables, [result.sentence()], [], key_of(members.ids, members.labels))
        files = write_comparison(target, said, result.methods())
    numbers = {"sentence": result.sentence(), "table": tables[0]._asdict(), "files": [str(path) for path in files]}
    show(_text(tables[0], result.sentence(), files), numbers, run.json)


def _with_note_on_weights(table: Table, found: StatisticsRun) -> Table:
    if not found.run.table.weights:
        return table
    return table._replace(note=f"{table.note} Case weights were not used: everybody counts once.")


def _text(table: Table, sentence: str, files: list[Path]) -> str:
    """Return the table in columns, the result in words, and the files."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(table.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    where = f"Written to {files[0].parent}: {', '.join(path.name for path in files)}."
    return "\n".join([*lines, "", table.note, sentence, "", where])
