"""vhem compare: whether the clusters of a run are real, how they differ, and the tables for the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vhem.cli.naming import Doing
from vhem.cli.run_folder import COMPARE, RunFolder
from vhem.cli.session import Session, remember, show
from vhem.cli.shared import RunOptions, expanded
from vhem.cli.statistics import PeopleTable, StatisticsRun, classes_of
from vhem.emissions import Gaussian
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.inference import Comparison, compare_clusters, compare_groups, group_gain_test
from vhem.inference.permutations import design_of
from vhem.inference.tables import with_cluster_names
from vhem.models.marginals import family_of
from vhem.paper import methods_paragraph, write_comparison
from vhem.paper.write import what_is_missing


@expanded
def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a run of `vhem cluster`.", show_default=False)],
    run: RunOptions,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the tables; FOLDER/compare if not given.",
                                  show_default=False)
    ] = None,
    bootstrap: Annotated[int, typer.Option(min=10, help="Data sets drawn for the parametric bootstrap, at most.")] = 69,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-fitted test.")] = 5,
    classes: Annotated[
        str | None,
        typer.Option(help="Known groups to compare too: a column of the run's table, or of --table.",
                     show_default=False),
    ] = None,
    table: PeopleTable = None,
    figures: Annotated[bool, typer.Option(help="Draw figures as svg and pdf.")] = True,
) -> None:  # fmt: skip
    """Test whether clusters are real, say what differs between them, and write tables for a paper.

    The folder gets every table as csv, all of them as tables.xlsx, tables.tex and tables.docx, results.txt with the
    results in words, methods.txt with a Methods paragraph, and figures. `vhem report` then has a section Statistics.
    The whole clustering is run again for every fold and, twice, for every data set drawn, so this takes about as long
    as 100 clusterings; drawing stops early where the answer is clear.

    For example:

        vhem compare out

        vhem compare out -o compare --classes diagnosis --table people.csv
    """
    found, target = StatisticsRun(RunFolder(folder)), out or folder / COMPARE
    groups = None if classes is None else classes_of(found.run, classes, table)
    if groups is not None:
        design_of(groups, len(groups))  # what cannot be compared is said at once, not after minutes
    with Session(run.quiet, run.progress) as session:
        session.begin("comparing clusters", Doing.CLUSTERING)
        model, known = found.estimator(run.seed, run.jobs), list[Comparison]()
        try:
            result = compare_clusters(
                model, found.members, found.run.centers, found.run.hmms, found.sequences, found.owners,
                found.run.feature_names, bootstrap, folds, run.seed, _watch(session, bootstrap, folds), known.append,
            )  # fmt: skip
        except KeyboardInterrupt:
            _keep(known, found, model, target)
            raise
        if groups is not None:
            result = _with_groups(result, found, groups, run.seed, session)
        tables = with_cluster_names(result.tables, found.run.labels.names)
        result = result._replace(tables=tables, warnings=[*result.warnings, *session.gather_warnings()])
        files = write_comparison(target, result, _methods(model, found, result.tests))
        if figures:
            files += _figures(found, target)
    lines = [*result.sentences, *result.warnings, "", f"Written to {target}: {', '.join(p.name for p in files)}."]
    if missing := what_is_missing():
        lines.append(f"note: {missing}.")
    show("\n".join(lines), {"results": result.sentences, "warnings": result.warnings,
                            "files": [str(path) for path in files]}, run.json)  # fmt: skip


def _keep(known: list[Comparison], found: StatisticsRun, model: SequenceClustering, target: Path) -> None:
    """Write what was known before the bootstrap was stopped."""
    for part in known:
        write_comparison(target, part, _methods(model, found, part.tests))
        remember(f"All but the bootstrap is in {target}.")


def _watch(session: Session, bootstrap: int, folds: int) -> Callable[[str, float], None]:
    """Return a callback that counts the folds, then the data sets drawn."""
    words = {"cross-fitting": ("fold", f"{folds}"), "bootstrap": ("draw", f"at most {bootstrap}")}
    counted = Counter[str]()

    def callback(what: str, done: float) -> None:
        counted[what] += 1
        one, most = words[what]
        session.update(done, f"{what}: {one} {counted[what]} of {most}")

    return callback


def _with_groups(
    result: Comparison, found: StatisticsRun, groups: list[str], seed: int, session: Session
) -> Comparison:
    """Add the comparison of known groups."""
    session.begin("comparing groups", Doing.CLUSTERING)
    length = max(1, int(found.run.summary.get("tau") or 10))
    whole = compare_groups(found.run.hmms, groups, tau=length, random_state=seed)
    kind = dict(zip(map(str, found.members.ids), groups, strict=True))
    model = found.estimator(seed, None)
    gain = group_gain_test(
        found.sequences, found.owners, [kind[str(name)] for name in found.owners], n_states=int(model.n_states),
        covariance_type=model.covariance_type, random_state=seed,
        callback=lambda done: session.update(min(done, 1.0), "permutations"),
    )  # fmt: skip
    tables = [*result.tables, whole.table(), gain.table()]
    counts = {"permanova": whole.n_permutations, "gain": len(gain.permuted)}
    said = [*result.sentences, whole.sentence(), gain.sentence()]
    return result._replace(tables=tables, sentences=said, tests={**result.tests, "groups": counts})


def _methods(model: SequenceClustering, found: StatisticsRun, tests: Mapping[str, Any]) -> str:
    data = found.sequences
    names = found.run.feature_names or [f"x{j + 1}" for j in range(data.n_dims)]
    facts: dict[str, Any] = {
        "people": len(found.members.ids),
        "sequences": len(data),
        "observations": len(data.X),
        "dimensions": names,
        "chosen": _how_chosen(found.run.summary),
    }
    facts |= {name: x for name in ("tau", "converged") if (x := found.run.summary.get(name)) is not None}
    emissions = found.run.centers.emissions
    if not isinstance(emissions, Gaussian):
        families = dict[str, list[str]]()
        for column, name in enumerate(names):
            families.setdefault(family_of(emissions, column), []).append(name)
        facts["emissions"] = "; ".join(f"{family} for {', '.join(own)}" for family, own in families.items())
    settings = model.get_params() | {"random_state": found.run.options.get("seed", 0)}
    return methods_paragraph(settings, facts, tests)


def _how_chosen(summary: Mapping[str, Any]) -> str:
    how = "given in advance"
    if summary.get("probabilities"):
        how = "chosen by variational Bayes"
    elif summary.get("numbers"):
        how = "the most stable one"
    return f"the number of clusters was {how}"


def _figures(found: StatisticsRun, target: Path) -> list[Path]:
    """Draw where the states are and, of two clusters, where everybody is between them."""
    from vhem.inference import log_odds, subject_scores  # noqa: PLC0415
    from vhem.models.stationary import time_shares  # noqa: PLC0415
    from vhem.paper.figures import draw_scale, draw_states  # noqa: PLC0415

    centers: Any = found.run.centers
    names = found.run.feature_names or [f"x{j + 1}" for j in range(centers.n_dims)]
    shares = time_shares(centers.startprob, centers.transmat, max(1, int(found.run.summary.get("tau") or 10)))
    try:
        files = draw_states(target / "states", centers, names, shares)
        if len(centers) == 2:
            scores = subject_scores(centers, found.sequences, found.owners)
            place = {str(name): k for k, name in enumerate(found.members.ids)}
            labels = found.members.labels[[place[str(name)] for name in scores.ids]]
            files += draw_scale(target / "scale", log_odds(scores), labels)
    except ModuleNotFoundError:
        return []
    return files
