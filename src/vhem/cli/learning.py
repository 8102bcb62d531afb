"""HMMs from sequences, part by part: finished parts are kept, and an interrupted run resumes after them."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import IntArray
from vhem._support.checks import check_enough
from vhem._support.errors import InputError, InputWarning, warn
from vhem.cli.inputs import Input, check_columns, ungrouped
from vhem.cli.naming import Doing
from vhem.cli.session import Session, remember
from vhem.cli.shared import LearningOptions, RunOptions
from vhem.em.topology import topology_of
from vhem.estimators.fit_hmms import fit_hmms
from vhem.estimators.sequence_clustering import SequenceClustering
from vhem.files import ModelFileError, describe, load
from vhem.models import H3M
from vhem.sequences import Sequences

PARTIAL = "partial"  # folder of finished parts, inside that of the results
_FRAMES_PER_HMM = 1000  # a part has at most this many frames times the HMMs of a part


class Parts(NamedTuple):
    """Sequences cut into parts that are learned one after another."""

    sequences: Sequences
    owner: IntArray  #: (n,) the HMM that each sequence belongs to
    names: list[Any]  #: of the HMMs
    begins: list[int]  #: first HMM of each part, and the number of HMMs
    grouped: bool  #: else every sequence has its own HMM

    def take(self, part: int) -> tuple[Sequences, list[Any] | None]:
        """Return the sequences of a part, and the name of the HMM that each belongs to, unless each has its own."""
        low, high = self.begins[part : part + 2]
        index = np.flatnonzero((self.owner >= low) & (self.owner < high))
        index = index[np.argsort(self.owner[index], kind="stable")]
        return self.sequences[index], [self.names[k] for k in self.owner[index]] if self.grouped else None


def learned(
    found: Input,
    out: Path | None,
    learning: LearningOptions,
    run: RunOptions,
    session: Session,
    task: Doing = Doing.LEARNING,
) -> H3M:
    """Return the HMMs of an input: its own, or those learned from its sequences.

    Finished parts are kept in the folder `out`; without one, nothing is.
    """
    if isinstance(found.content, H3M):
        return found.content
    check_columns(found)
    if learning.per == "auto" and (person := ungrouped(found)):
        cure = "for one HMM per {person}, give --group {person}, or --per sequence if this is intended"
        warn(InputWarning("every sequence gets its own HMM", cure, person=person))
    parts = _parts(found.content, learning)
    n_parts = len(parts.begins) - 1
    folder = out / PARTIAL if out is not None and n_parts > 1 else None
    key = "" if folder is None else _key(parts, learning, run)
    session.begin(f"learning {len(parts.names)} HMMs", task)
    models = []
    for part in range(n_parts):
        done = None if folder is None else _finished(folder / f"part-{part:05d}.vhem", key)
        if done is None:
            done = _learn(parts, part, n_parts, learning, run, session)
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                done.save(folder / f"part-{part:05d}.vhem", about={"key": key})
        models.append(done)
        if folder is not None:
            remember(f"{part + 1} of {n_parts} parts are kept in {folder}; the same command resumes from there.")
    return _weighted(models[0] if n_parts == 1 else H3M.pool(models), parts)


def check_enough_hmms(largest: int, found: Input, learning: LearningOptions) -> None:
    """Refuse more clusters than there will be HMMs, before these are learned."""
    hmms = found.content if isinstance(found.content, H3M) else _parts(found.content, learning).names
    check_enough("--clusters", largest, len(hmms), "HMM")


def with_chosen_states(learning: LearningOptions, found: Input, n_clusters: int, run: RunOptions) -> LearningOptions:
    """Return the options with states and topology in the place of `auto`: those that suit so many clusters."""
    if learning.states != "auto":
        return learning
    if isinstance(found.content, H3M):
        hmms = found.content
        topology = topology_of(hmms.startprob, hmms.transmat)
        return dataclasses.replace(learning, states=str(int(hmms.n_states.max())), topology=topology)
    clusterer = SequenceClustering(
        n_clusters, "auto", learning.mix, learning.covariance, learning.topology, random_state=run.seed,
        n_jobs=run.jobs, emissions=learning.emitted(), slopes=False,
    )  # fmt: skip
    chosen = clusterer.choose_shape(found.content, owners_of_hmms(found.content, learning))
    return dataclasses.replace(learning, states=str(chosen.n_states), topology=chosen.topology)


def _weighted(hmms: H3M, parts: Parts) -> H3M:
    """Return the HMMs with the weights of the cases that they were learned from."""
    cases = parts.sequences.weights
    if cases is None:
        return hmms
    means = np.bincount(parts.owner, cases) / np.bincount(parts.owner)
    return hmms.with_weights(means / means.sum())


def owners_of_hmms(sequences: Sequences, learning: LearningOptions) -> list[Any] | None:
    """Return the name of the HMM that each sequence belongs to, or None if each has its own."""
    parts = _parts(sequences, learning)
    return [parts.names[k] for k in parts.owner] if parts.grouped else None


def forget_parts(out: Path) -> None:
    """Remove the finished parts of a run whose results are written."""
    shutil.rmtree(out / PARTIAL, ignore_errors=True)


def _parts(sequences: Sequences, learning: LearningOptions) -> Parts:
    groups = sequences.groups
    if learning.per == "group" and groups is None:
        raise InputError("--per group needs groups", "name their column, such as the person, with --group")
    grouped = groups is not None and learning.per != "sequence"
    if not grouped:
        owner, names = np.arange(len(sequences)), list(sequences.ids)
    else:
        numbers: dict[Any, int] = {}
        owner = np.array([numbers.setdefault(group, len(numbers)) for group in groups or ()])
        names = list(numbers)
    frames = np.bincount(owner, sequences.lengths, len(names))
    begins, size = [0], 0.0
    for k in range(len(names)):
        full = k - begins[-1] >= learning.checkpoint_every
        if k > begins[-1] and (full or size + frames[k] > _FRAMES_PER_HMM * learning.checkpoint_every):
            begins.append(k)
            size = 0.0
        size += frames[k]
    return Parts(sequences, owner, names, [*begins, len(names)], grouped)


def _learn(parts: Parts, part: int, n_parts: int, learning: LearningOptions, run: RunOptions, session: Session) -> H3M:
    sequences, names = parts.take(part)
    # A single part is what fit_hmms makes of all sequences with the same seed.
    seed = run.seed if n_parts == 1 else np.random.default_rng([run.seed, part])
    return fit_hmms(
        sequences,
        learning.n_states(),
        learning.mix,
        learning.covariance,
        groups=names,
        topology=learning.topology,
        n_init=learning.starts,
        max_iter=learning.max_iter,
        random_state=seed,
        n_jobs=run.jobs,
        method=learning.method,
        emissions=learning.emitted(),
        callback=session.learning(part, n_parts),
    )


def _key(parts: Parts, learning: LearningOptions, run: RunOptions) -> str:
    """Return a key that shows whether a part was learned from the same data in the same way."""
    state = hashlib.blake2b(digest_size=16)
    for array in (parts.sequences.X, parts.sequences.lengths, parts.owner):
        state.update(np.ascontiguousarray(array).data)
    state.update(repr((parts.names, learning, run.seed)).encode())
    return state.hexdigest()


def _finished(path: Path, key: str) -> H3M | None:
    try:
        if path.is_file() and describe(path).about.get("key") == key:
            found = load(path)
            return found if isinstance(found, H3M) else None
    except ModelFileError:
        pass  # it is made again
    return None
