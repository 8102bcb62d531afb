"""vhem number: compares numbers of clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import clone

from vhem._support.errors import InputError
from vhem.cli import in_words as summary
from vhem.cli.inputs import Input, chosen_tau, read_sequences_or_hmms
from vhem.cli.learning import check_enough_hmms, learned, owners_of_hmms
from vhem.cli.naming import Doing
from vhem.cli.run_folder import RunFolder
from vhem.cli.separation import Separation, separation, tested_against_one_less
from vhem.cli.session import Session, show
from vhem.cli.shared import (
    CenterStates,
    DataOrModels,
    LearningOptions,
    Restarts,
    RunOptions,
    TableOptions,
    Tau,
    Virtual,
    expanded,
    several,
)
from vhem.cli.statistics import StatisticsRun
from vhem.estimators.selection import ClusterNumbers, choose_n_clusters
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vhem import VHEM
from vhem.models import H3M
from vhem.sequences import Sequences

_FOLDS, _RESAMPLES = 5, 10
STABLE = 0.7  # below this, halves of the HMMs agree too little to speak of clusters
_SEQUENCES_PER_HMM = 10.0  # if unknown
_MEANINGS = {
    "held_out": "held-out likelihood: do clusters of some HMMs represent the others? Higher is better; "
    "within ± s.e., fewer clusters win.",
    "bic": "BIC: is another cluster worth its parameters? Lower is better.",
    "stability": "stability: do different halves of the HMMs give the same clusters? 1 means always; within "
    "0.02, more clusters win.",
}


@expanded
def number(
    data: DataOrModels,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    clusters: Annotated[str, typer.Option("--clusters", "-k", help="Numbers to compare: 2-6, or 2,4,8.")] = "2-6",
    tau: Tau = None,
    virtual: Virtual = None,
    restarts: Restarts = None,
    center_states: CenterStates = None,
    bootstrap: Annotated[
        int,
        typer.Option(min=0, help="Test every number against one less, by so many drawn data sets; needs sequences."),
    ] = 0,
) -> None:
    """Compare numbers of clusters by three criteria: held-out likelihood, BIC and stability.

    From sequences, one HMM is learned per sequence or group first; the folder of a run already has them. Nothing is
    written. Each number takes 37 clusterings, and so 37 times as long as `vhem cluster`. A second table shows how
    separate the clusters are: silhouette, consensus over resamples and starts, gap statistic, and a test.

    For example:

        vhem number out --clusters 2-6

        vhem number fixations.csv --id subject,trial --group subject --clusters 2,3,4,8 --json
    """
    with Session(run.quiet, run.progress) as session:
        candidates = several("--clusters", clusters)
        found = read_sequences_or_hmms(data, table.reading())
        check_enough_hmms(max(candidates), found, learning)
        hmms = learned(found, None, learning, run, session)
        test = _test(data, found, hmms, learning, run, bootstrap)
        length, why = chosen_tau(tau, found, hmms)
        evidence = sequences_per_hmm(data, found, len(hmms))
        settings = VHEM(
            n_states=center_states, tau=length, n_virtual=100.0 if virtual is None else virtual, n_init=restarts,
            max_iter=learning.max_iter, random_state=run.seed, n_jobs=run.jobs,
        )  # fmt: skip
        result = compare(settings, hmms, candidates, evidence, session)
        session.begin(f"measuring how separate clusters of {len(hmms)} HMMs are", Doing.CLUSTERING)
        apart = separation(settings, hmms, candidates, test, run.seed, session.update)
        notes = session.gather_warnings()
    text = f"{summary.input_text(found)}\nNumbers of clusters for {len(hmms)} HMMs (tau {length}{why}):\n\n"
    text += f"{criteria_table(result)}\n\n{advice(result, data)}\n\n{apart.text()}"
    numbers = {"input": summary.of_input(found), "tau": length, "sequences_per_hmm": evidence}
    show(text, numbers | as_lists(result) | {"separation": _plain(apart), "notes": notes}, run.json)


def _test(
    data: Path, found: Input, hmms: H3M, learning: LearningOptions, run: RunOptions, n: int
) -> Callable[[int], float] | None:
    """Return the test of a number of clusters against one less, if it is wanted."""
    if not n:
        return None
    if isinstance(found.content, Sequences):
        model = SequenceClustering(
            2, int(np.ceil(np.median(hmms.n_states))), learning.mix, learning.covariance, learning.topology,
            random_state=run.seed, n_jobs=run.jobs, emissions=learning.emitted(), slopes=False,
        )  # fmt: skip
        owners = owners_of_hmms(found.content, learning) or found.content.ids
        return tested_against_one_less(model, found.content, owners, n, run.seed)
    if data.is_dir() and RunFolder(data).command == "cluster":
        known = StatisticsRun(RunFolder(data))
        return tested_against_one_less(
            known.estimator(run.seed, run.jobs), known.sequences, known.owners, n, run.seed
        )  # fmt: skip
    raise InputError("--bootstrap needs sequences, and {data} has HMMs alone", "give the table of sequences", data=data)


def _plain(apart: Separation) -> dict[str, Any]:
    """Return what JSON can hold: no NaN."""
    columns = {key: value for key, value in apart._asdict().items() if isinstance(value, list)}
    made: dict[str, Any] = {
        key: [None if isinstance(x, float) and x != x else x for x in column]  # noqa: PLR0124  (NaN)
        for key, column in columns.items()
    }
    return made | {"gap_best": apart.gap_best, "nothing": apart.nothing}


def compare(settings: VHEM, hmms: H3M, candidates: list[int], evidence: float, session: Session) -> ClusterNumbers:
    """Compare numbers of clusters, and show how far that is."""
    session.begin(f"comparing {len(set(candidates))} numbers of clusters of {len(hmms)} HMMs", Doing.CLUSTERING)
    n_fits = sum(min(_FOLDS, len(hmms)) + 1 + 2 * _RESAMPLES * (k > 1) for k in set(candidates))
    watched = clone(settings).set_params(callback=session.clustering(settings.max_iter, n_fits))
    return choose_n_clusters(hmms, candidates, watched, _FOLDS, _RESAMPLES, evidence, settings.random_state)


def sequences_per_hmm(data: Path, found: Input, n_hmms: int) -> float:
    """Return how many sequences an HMM was learned from, on average: the evidence that BIC assumes."""
    if isinstance(found.content, Sequences):
        return len(found.content) / n_hmms
    known = RunFolder(data).summary["input"].get("sequences") if data.is_dir() else None
    return known / n_hmms if known else _SEQUENCES_PER_HMM


def criteria_table(result: ClusterNumbers) -> str:
    """Return one line per number with its criteria; a star marks the best."""
    best = result.best
    lines = [f"{'clusters':>8} {'held-out':>12} {'± s.e.':>8} {'BIC':>14} {'stability':>10}"]
    for k, held_out, spread, bic, stability in zip(*result, strict=True):
        star = {name: "*" if best[name] == k else " " for name in best}
        lines.append(
            f"{k:8d} {held_out:11.3f}{star['held_out']} {spread:8.3f} {bic:13.1f}{star['bic']} "
            f"{stability:9.3f}{star['stability']}"
        )
    return "\n".join(line.rstrip() for line in lines)


def advice(result: ClusterNumbers, data: Path) -> str:
    """Return what each criterion prefers and means, and what to do next."""
    best = result.best
    lines = [f"{best[name]} by {meaning}" for name, meaning in _MEANINGS.items()]
    if len(result.n_clusters) == 1:
        lines.append("\nThere is nothing to compare: give several numbers.")
    elif result.stability.max() < STABLE:
        lines.append(
            f"\nNo number is stable (the best has {result.stability.max():.2f}): there may be no clusters, or too few "
            "HMMs or --restarts to find them."
        )
    elif len(set(best.values())) == 1:
        k = best["stability"]
        lines.append(f"\nAll three prefer {k}: vhem cluster {data} --clusters {k} -o clusters-{k}")
    else:
        lines.append(
            "\nThey differ. Stability is the best sign of whether there are clusters; the others may prefer ever finer "
            f"distinctions.\nReport this with the result, or look at several numbers at once: vhem tree {data} -o tree"
        )
    return "\n".join(lines)


def as_lists(result: ClusterNumbers) -> dict[str, Any]:
    """Return the criteria as JSON can hold them."""
    return {name: column.tolist() for name, column in result._asdict().items()} | {"best": result.best}
