"""vhem cluster: from a table to labels, centres and a summary in one step."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from vhem._support.errors import InputError, InputWarning, warn
from vhem._support.phrases import Count
from vhem.bayes.about_centers import dispersion_of_members, with_posterior
from vhem.cli import in_words as summary
from vhem.cli.inputs import Input, chosen_tau, read_sequences_or_hmms
from vhem.cli.learning import check_enough_hmms, forget_parts, learned, owners_of_hmms, with_chosen_states
from vhem.cli.naming import Doing
from vhem.cli.number import STABLE, as_lists, compare, criteria_table, sequences_per_hmm
from vhem.cli.partitions import executor_at
from vhem.cli.probable import most_probable, probabilities_of, probabilities_text
from vhem.cli.run_folder import HMMS, RunWriter
from vhem.cli.session import Session, show
from vhem.cli.shared import (
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
    several,
)
from vhem.estimators.selection import ClusterNumbers
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.estimators.vbhem import VBHEM
from vhem.estimators.vhem import VHEM
from vhem.inference.pieces import disconnected_centers
from vhem.models import H3M
from vhem.sequences import Sequences

_OTHERS = {"held_out": "held-out likelihood", "bic": "BIC"}


def _checked_numbers(text: str) -> str:
    """Refuse what is not a number of clusters before anything is read."""
    try:
        right = text == "auto" or min(several("--clusters", text)) > 0
    except InputError:
        right = False
    if not right:
        raise typer.BadParameter(f"{text!r} is not a number from 1 on, a range like 2-6, a list like 2,4 or auto.")
    return text


@expanded
def cluster(
    ctx: typer.Context,
    data: DataOrModels,
    clusters: Annotated[
        str,
        typer.Option(
            "--clusters",
            "-k",
            show_default=False,
            callback=_checked_numbers,
            help="Number of clusters. Of a range (2-6) or a list, the most stable; auto: the most probable (VBHEM).",
        ),
    ],
    out: Out,
    table: TableOptions,
    learning: LearningOptions,
    run: RunOptions,
    tau: Tau = None,
    virtual: Virtual = None,
    restarts: Restarts = None,
    center_states: CenterStates = None,
    polish: Annotated[
        bool,
        typer.Option(
            "--polish/--no-polish",
            help="Whether to refine clusters of HMMs on their sequences, or on sequences like those.",
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

        vhem cluster people/ --clusters 2-6 -o as-many-as-are-stable

        vhem cluster fixations.csv --group subject --method vb --states 1-6 --clusters auto -o as-many-as-there-are

        vhem cluster --config out/run.toml --clusters 4 -o four
    """
    with Session(run.quiet, run.progress) as session:
        candidates = [1] if clusters == "auto" else several("--clusters", clusters)
        writer = RunWriter(ctx, out, overwrite)
        found = read_sequences_or_hmms(data, table.reading())
        check_enough_hmms(max(candidates), found, learning)
        _hint_at_slopes(found, learning)
        chosen = learning.states == "auto" and isinstance(found.content, Sequences)
        learning = with_chosen_states(learning, found, max(candidates), run)
        task = Doing.LEARNING_CHOSEN_STATES if chosen else Doing.LEARNING
        hmms = learned(found, out, learning, run, session, task)
        length, why = chosen_tau(tau, found, hmms)
        probable = most_probable(hmms, center_states, run, session) if clusters == "auto" else None
        if probable is not None:
            candidates = [probable.n_clusters_]
        settings = VHEM(
            candidates[0], n_states=center_states, tau=length, n_virtual=_n_virtual(virtual, found), n_init=restarts,
            polish=polish, max_iter=learning.max_iter, weight_form=_weight_form(found),
            random_state=run.seed, n_jobs=run.jobs,
        )  # fmt: skip
        compared = None
        if len(set(candidates)) > 1:
            compared = compare(settings, hmms, candidates, sequences_per_hmm(data, found, len(hmms)), session)
            settings.n_clusters = compared.best["stability"]
        session.begin(f"clustering {len(hmms)} HMMs", Doing.CLUSTERING)
        with executor_at(dask) as executor:
            watched = {"callback": session.clustering(learning.max_iter), "executor": executor}
            fit = clone(settings).set_params(**watched).fit(hmms)
        final = _polished(fit, found, hmms, center_states, learning, run, session) if polish else fit
        if isinstance(found.content, Sequences) and (probable is not None or learning.method == "vb"):
            final.centers_ = _with_uncertainty(final, found.content, hmms, learning)
        warn_of_pieces(final, hmms, length)
        made = _Made(found, hmms, fit, final, compared, probable, length, learning.shape() if chosen else None)
        numbers = made.numbers() | {"notes": session.gather_warnings()}
        text = made.text(why)
        made.write(writer, text, numbers)
        forget_parts(out)
    show(f"{text}\n\n{writer.told()}", numbers, run.json)


class _Made(NamedTuple):
    """What a run made, to be told in numbers and in words."""

    found: Any
    hmms: H3M
    fit: VHEM
    final: VHEM | SequenceClustering
    compared: ClusterNumbers | None
    probable: VBHEM | None
    length: int
    shape: dict[str, Any] | None  #: the number of states and the topology, if they were chosen

    def clusters(self) -> list[dict[str, Any]]:
        """Return the clusters, their members and centres."""
        final = self.final
        return summary.of_clusters(
            final.centers_, self.hmms.ids, final.labels_, self.length, final.responsibilities_,
            self.found.feature_names,
        )  # fmt: skip

    def numbers(self) -> dict[str, Any]:
        """Return the summary as it is saved."""
        fit = self.fit
        return {
            "input": summary.of_input(self.found),
            "numbers": None if self.compared is None else as_lists(self.compared),
            "probabilities": None if self.probable is None else probabilities_of(self.probable),
            "shape": self.shape,
            "tau": self.length,
            "lower_bound": fit.lower_bound_,
            "iterations": fit.n_iter_,
            "converged": bool(fit.converged_),
            "restarts": dict(zip(("best", "all"), summary.restarts_found_best(fit), strict=True)),
            "refined": self.final is not fit,
            "clusters": self.clusters(),
        }

    def text(self, why: str) -> str:
        """Return the summary in words; `why` says why tau is what it is."""
        fit, found = self.fit, self.found
        text = f"{summary.input_text(found)}\n{_choice_text(self.compared)}{probabilities_text(self.probable)}"
        text += _shape_text(self.shape)
        text += f"{len(self.hmms)} HMMs in {format(Count(fit.n_clusters), 'cluster')} (tau {self.length}{why}).\n"
        refined = _agreement_text(fit, self.final) if isinstance(self.final, SequenceClustering) else ""
        text += f"{summary.restarts_text(fit)}{refined}\n"
        return text + summary.clusters_text(self.clusters(), found.feature_names, "HMMs")

    def write(self, writer: RunWriter, text: str, numbers: dict[str, Any]) -> None:
        """Write the files of the folder."""
        writer.begin(self.found.feature_names, self.found.typical_length)
        writer.model(HMMS, self.hmms)
        writer.centers(self.final.centers_)
        writer.labels(self.hmms.ids, self.final.labels_, self.final.responsibilities_)
        writer.restarts(self.fit)
        writer.finish(text, numbers)


def warn_of_pieces(final: VHEM | SequenceClustering, hmms: H3M, length: int) -> None:
    """Warn about centres that join unlike members."""
    for found in disconnected_centers(final.centers_, length, hmms, final.labels_):
        warn(found.warning())


def _shape_text(shape: dict[str, Any] | None) -> str:
    """Say how many states and which topology were chosen."""
    if shape is None:
        return ""
    return f"Chosen by BIC: {format(Count(shape['states']), 'state')} per HMM, {shape['topology']}.\n"


def _choice_text(compared: ClusterNumbers | None) -> str:
    """Say which number of clusters was chosen, and how sure that is."""
    if compared is None:
        return ""
    k, how = compared.best["stability"], compared.stability.max()
    unsure = "" if how >= STABLE else "; that is little: there may be no clusters"
    others = ", ".join(f"{compared.best[name]} by {words}" for name, words in _OTHERS.items())
    return (
        f"Chosen: {k} clusters, the most stable number ({how:.2f}{unsure}); {others}.\n{criteria_table(compared)}\n\n"
    )


def _polished(
    fit: VHEM,
    found: Any,
    hmms: H3M,
    center_states: int | None,
    learning: LearningOptions,
    run: RunOptions,
    session: Session,
) -> VHEM | SequenceClustering:
    """Refine clusters of HMMs on the sequences that they were learned from, if there are any and not one each."""
    if not isinstance(found.content, Sequences) or len(hmms) <= fit.n_clusters:
        return fit
    session.begin(f"refining {fit.n_clusters} clusters on the sequences", Doing.CLUSTERING)
    names = owners_of_hmms(found.content, learning)
    states = center_states or int(np.ceil(np.median(hmms.n_states)))
    return SequenceClustering(
        fit.n_clusters,
        states,
        learning.mix,
        learning.covariance,
        learning.topology,
        random_state=run.seed,
        n_jobs=run.jobs,
        emissions=learning.emitted(),
    ).fit(found.content, groups=names, hmms=hmms)


def _hint_at_slopes(found: Input, learning: LearningOptions) -> None:
    """Say that slopes may tell more, if values change smoothly."""
    plain = learning.emitted() == "gaussian" and learning.covariance == "diag"
    smooth = found.content.smooth_channels if plain and isinstance(found.content, Sequences) else []
    if smooth:
        cure = "to compare how fast they change too, give --slopes auto"
        warn(
            InputWarning(
                "some values change smoothly: {names}",
                cure,
                names=", ".join(smooth[:5]) + (", …" if smooth[5:] else ""),
            )
        )


def _with_uncertainty(
    final: VHEM | SequenceClustering, sequences: Sequences, hmms: H3M, learning: LearningOptions
) -> H3M:
    """Return the refined centres with what their members' sequences leave open about them."""
    names = owners_of_hmms(sequences, learning)
    label_of = dict(zip(hmms.ids, final.labels_, strict=True))
    labels = final.labels_ if names is None else np.array([label_of[name] for name in names])
    dispersion = dispersion_of_members(hmms, final.centers_)
    return with_posterior(final.centers_, sequences, labels, dispersion, learning.topology)


def _n_virtual(virtual: float | None, found: Any) -> float | str:
    """Return the virtual sequences per HMM; if clusters are refined on sequences, VHEM need not refine them."""
    if virtual is not None:
        return virtual
    return 100.0 if isinstance(found.content, Sequences) else "auto"


def _weight_form(found: Any) -> str:
    """Return how clusters are weighted: by cases if these have weights."""
    return "virtual" if getattr(found.content, "weights", None) is not None else "models"


def _agreement_text(fit: VHEM, final: SequenceClustering) -> str:
    """Say how many HMMs changed their cluster; clusters are matched so that as few as possible did."""
    table = np.zeros((len(fit.centers_), len(final.centers_)))
    np.add.at(table, (fit.labels_, final.labels_), 1)
    moved = len(fit.labels_) - int(table[linear_sum_assignment(-table)].sum())
    if not moved:
        return "Refined on the sequences themselves: every HMM stays in its cluster.\n"
    return f"Refined on the sequences themselves: {moved} of {len(fit.labels_)} HMMs changed their cluster.\n"
