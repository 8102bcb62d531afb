"""What is known after some of the parts: enough to continue with the next one, now or after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from vhem._support.errors import InputError
from vhem._support.phrases import Count
from vhem._support.saving import Kind, check_types, register, register_record
from vhem.emissions.storing import packed, unpacked
from vhem.files import ModelFileError, load
from vhem.files.model_files import save
from vhem.kernels.models import Models
from vhem.scale.condense import Plan, Summary
from vhem.scale.merge_order import Levels, with_part
from vhem.scale.parts import Part
from vhem.scale.sample import Sample
from vhem.scale.tasks import Failure, Learned, fingerprint

_CURE = "give the same parts in the same order, or delete the checkpoint to start again"


class State(NamedTuple):
    """The tree of summaries, the sample, and exact counts."""

    settings: str  #: of the estimator, as JSON: another one must not resume from here
    seed: int
    n_taken: int  #: parts so far, skipped ones included
    digest: str  #: of their names
    levels: Levels
    sample: Sample
    skipped: list[tuple[str, str]]
    n_dims: int
    n_sequences: int
    n_frames: int
    n_floored: int
    n_reseeded: int
    first: str = ""  #: fingerprint of the first part; older checkpoints have none

    @staticmethod
    def fresh(plan: Plan, n_sample: int) -> State:
        """Return the state before the first part."""
        return State(_settings(plan, n_sample), plan.seed, 0, "", [], Sample.empty(n_sample), [], 0, 0, 0, 0, 0)

    @staticmethod
    def resumed(path: str | Path, plan: Plan, n_sample: int, any_seed: bool) -> State:
        """Return the state in a checkpoint, if it belongs to this fit."""
        state = load(path)
        if not isinstance(state, State):
            raise ModelFileError(path, "foreign", f"holds a {type(state).__name__}, not the checkpoint of a fit.")
        wanted = _settings(plan, n_sample)
        if state.settings != wanted or (state.seed != plan.seed and not any_seed):
            before, now = json.loads(state.settings), json.loads(wanted)
            differ = [name for name in now if now[name] != before.get(name)] or ["random_state"]
            raise InputError(
                "the checkpoint {path} belongs to a fit with other settings ({names})",
                "Use these, or delete the file to start again",
                path=path, names=", ".join(differ),
            )  # fmt: skip
        return state

    def save(self, path: str | Path) -> None:
        """Write a checkpoint, whole or not at all."""
        save(self, path)

    def rest_of(self, parts: Iterator[Part]) -> Iterator[Part]:
        """Yield the parts not yet processed, after making sure that the others are the same as before."""
        digest, n_given = "", 0
        for n_given, part in enumerate(parts, 1):
            if n_given > self.n_taken:
                yield part
                continue
            digest = _digest(digest, part.name)
            changed = n_given == 1 and self.first and fingerprint(part) != self.first
            if changed or (n_given == self.n_taken and digest != self.digest):
                raise InputError("the first {n} parts are not those of the checkpoint", _CURE, n=self.n_taken)
        if n_given < self.n_taken:
            problem = "{n:part} {n:was|were} given, but the checkpoint was made from {before}"
            raise InputError(problem, _CURE, n=Count(n_given), before=self.n_taken)

    def checked(self, name: str, result: Learned | Failure) -> Learned | Failure:
        """Return the result, or why it does not fit the previous ones."""
        if isinstance(result, Failure):
            return result
        d = result.summary.parameters.n_dims
        if self.n_dims and d != self.n_dims:
            return Failure(name, f"its sequences have {d} dimensions, but those of earlier parts have {self.n_dims}.")
        return result

    def after(self, name: str, result: Learned | Failure, plan: Plan) -> State:
        """Return the state with one more part processed, or skipped."""
        taken = self._replace(n_taken=self.n_taken + 1, digest=_digest(self.digest, name))
        if isinstance(result, Failure):
            levels = with_part(self.levels, None, self.n_taken, plan)
            return taken._replace(levels=levels, skipped=[*self.skipped, (result.name, result.reason)])
        counts = result.counts
        return taken._replace(
            levels=with_part(self.levels, result.summary, self.n_taken, plan),
            sample=self.sample.plus(result.sample),
            n_dims=result.summary.parameters.n_dims,
            n_sequences=self.n_sequences + counts.n_sequences,
            n_frames=self.n_frames + counts.n_frames,
            n_floored=self.n_floored + counts.n_floored,
            n_reseeded=self.n_reseeded + counts.n_reseeded,
            first=self.first or result.fingerprint,
        )


def _digest(before: str, name: str) -> str:
    return hashlib.sha256(f"{before}\n{name}".encode()).hexdigest()


def _settings(plan: Plan, n_sample: int) -> str:
    """Return the settings that affect the result: all but threads and seed."""
    learning = plan.learning
    amounts = {f"{name}_prior": getattr(learning.priors, name) for name in ("startprob", "transmat", "covars")}
    limits = {"max_iter": learning.limits.max_iter, "tol": learning.limits.tol}
    words: dict[str, Any] = {
        **asdict(learning.shape), **amounts, **limits, "reg_covar": learning.priors.reg_covar, "init": learning.init,
        **plan._asdict(), "n_sample": n_sample,
    }  # fmt: skip
    words["emissions"] = (
        None if words["emissions"] == "gaussian" else repr(words["emissions"])
    )  # as older files have it
    shaping = {name: value for name, value in words.items() if isinstance(value, (int, float, str))}
    return json.dumps({name: shaping[name] for name in shaping if name != "seed"}, sort_keys=True)


def _unpack_models(state: dict[str, Any]) -> Models:
    startprob, transmat, mix_weights = (state[name] for name in _ROWS)
    return Models(startprob, transmat, mix_weights, unpacked(state), state["n_states"])


def _pack_models(models: Models) -> dict[str, Any]:
    rows = {name: getattr(models, name) for name in _ROWS}
    return {**rows, **packed(models.components), "n_states": models.n_states}


def _pack_sample(sample: Sample) -> dict[str, Any]:
    whole = sample.whole()
    return {"size": whole.size, "keys": whole.keys, "sequences": whole.sequences}


def _unpack_sample(state: dict[str, Any]) -> Sample:
    hints = get_type_hints(Sample)
    check_types({name: hints[name] for name in ("size", "keys", "sequences")}, state)
    return Sample(state["size"], state["keys"], state["sequences"])


_ROWS = ("startprob", "transmat", "mix_weights")
register(Kind("Parameters", Models, _pack_models, _unpack_models))
register_record(Summary, "PartitionedH3M.Summary")
register(Kind("PartitionedH3M.Sample", Sample, _pack_sample, _unpack_sample))
register_record(State, "PartitionedH3M.State")
