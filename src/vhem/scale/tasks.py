"""What is done to one part: learn from it, count for an iteration of EM, label its sequences."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.errors import InputError
from vhem.em.grouped import Batch
from vhem.em.mixtures import Mixtures
from vhem.emissions.components import Components
from vhem.kernels.models import Models, ModelSums
from vhem.models import H3M
from vhem.scale.condense import Counts, Plan, Summary, generator_for, mixture_problem, summarised
from vhem.scale.parts import Part
from vhem.scale.sample import Sample, drawn
from vhem.sequences import Sequences, as_sequences
from vhem.sequences.channels import Channels

T = TypeVar("T")


class Failure(NamedTuple):
    """Why a part could not be used."""

    name: str
    reason: str


class Learned(NamedTuple):
    """What was learned from a part."""

    summary: Summary
    counts: Counts
    sample: Sample
    fingerprint: str  #: of the first part; identifies the data of a checkpoint
    channels: Channels | None = None  #: with the names of categories, if there are any


class PartLabels(NamedTuple):
    """The sequences of one part and what the model says about them."""

    name: str  #: of the part
    ids: list[Any]  #: of its sequences
    labels: IntArray  #: the most probable HMM of each
    responsibilities: FloatArray  #: (n, K) the probability of each HMM
    log_likelihoods: FloatArray  #: of each sequence under the mixture
    n_frames: int  #: of all of them together


class EMCounts(NamedTuple):
    """A part's share of one iteration of EM-H3M: its sums."""

    log_likelihood: float
    mass: FloatArray  #: (K,)
    n_frames: int
    sums: ModelSums

    @property
    def bounds(self) -> FloatArray:
        """The log-likelihood in the form that the EM loop needs."""
        return np.array([self.log_likelihood])

    def plus(self, other: EMCounts) -> EMCounts:
        """Return the sums over both."""
        mass, n_frames = self.mass + other.mass, self.n_frames + other.n_frames
        sums = ModelSums.total([self.sums, other.sums])
        return EMCounts(self.log_likelihood + other.log_likelihood, mass, n_frames, sums)


def learn_part(item: tuple[int, Part, float], plan: Plan, n_sample: int) -> Learned | Failure:
    """Summarise part `index`, and draw from it what may belong to the sample of all data."""
    index, part, threshold = item

    def work(sequences: Sequences) -> Learned:
        sample = drawn(sequences, n_sample, threshold, _keys(sequences, plan, index))
        print_of_first = "" if index else _fingerprint(sequences)
        return Learned(*summarised(sequences, plan, index), sample, print_of_first, sequences._remembered)

    return _attempted(part, work, plan.missing)


def _keys(sequences: Sequences, plan: Plan, index: int) -> FloatArray:
    """Return the random keys of a part's sequences, the same whenever it is read."""
    return generator_for(plan, 0, index, 1).random(len(sequences))


def fingerprint(part: Part) -> str:
    """Return a fingerprint that distinguishes a part from another of the same name."""
    found = _attempted(part, _fingerprint, "marginalise")
    return found if isinstance(found, str) else ""


def _fingerprint(sequences: Sequences) -> str:
    state = hashlib.blake2b(sequences.lengths.tobytes(), digest_size=16)
    state.update(sequences.X.data)
    return state.hexdigest()


def count_part(
    item: tuple[int, Part], models: Models, weights: FloatArray, anchors: Components | None, spared: float, plan: Plan
) -> EMCounts | Failure:
    """Make the E-step of EM-H3M on part `index`; sequences with keys up to `spared` are not counted."""
    index, part = item

    def work(sequences: Sequences) -> EMCounts:
        batch = Batch.of(sequences, None, None, models.components.padding())
        batch = batch._replace(weights=batch.weights * (_keys(sequences, plan, index) > spared))
        problem, now = mixture_problem(models, batch, plan), Mixtures(models, weights[None])
        assigned = problem.e_step(now)
        sums = problem.count(now, assigned, anchors)
        return EMCounts(float(assigned.scores.sum()), problem.mass(assigned)[0], len(batch.X), sums)

    return _attempted(part, work, plan.missing)


def label_part(part: Part, model: H3M, missing: str, n_jobs: int | None) -> PartLabels | Failure:
    """Label the sequences of a part."""

    def work(sequences: Sequences) -> PartLabels:
        found = model.log_likelihoods(sequences, n_jobs)
        with np.errstate(divide="ignore"):
            scores = np.asarray(np.logaddexp.reduce(found + np.log(model.weights), axis=1))
        shares = model.probabilities(found)
        return PartLabels(part.name, list(sequences.ids), shares.argmax(axis=1), shares, scores, len(sequences.X))

    return _attempted(part, work, missing)


def _attempted(part: Part, work: Callable[[Sequences], T], missing: str) -> T | Failure:
    """Read a part and process it; a failure comes back as a value, to be skipped and counted."""
    try:
        sequences = as_sequences(part.read())
        _check_values(sequences, missing)
        return work(sequences)
    except MemoryError:
        raise
    except Exception as error:  # whatever readers of other files may raise
        reason = str(error) if isinstance(error, (ValueError, TypeError)) else f"{type(error).__name__}: {error}"
        return Failure(part.name, reason if reason.endswith(".") else f"{reason}.")


def _check_values(sequences: Sequences, missing: str) -> None:
    if not np.isnan(sequences.X.min()):
        return
    gaps = np.isnan(sequences.X)
    if missing == "refuse":
        row, column = (int(i) for i in np.argwhere(gaps)[0])
        i = int(np.searchsorted(sequences.offsets, row, side="right")) - 1
        raise InputError(
            "sequence {id!r} has a missing value (NaN) at frame {frame}, dimension {column}",
            "{missing:'marginalise'} allows it",
            id=sequences.ids[i], frame=row - sequences.offsets[i], column=column,
        )  # fmt: skip
    empty = np.flatnonzero(gaps.all(axis=0))
    if len(empty):
        raise InputError("dimension {j} has no value at all (NaN everywhere)", j=empty[0])
