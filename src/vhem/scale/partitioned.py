"""PartitionedH3M: a mixture of HMMs learned from more sequences than memory holds, part by part."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_flag, check_integer
from vhem._support.errors import Count, FitWarning, InputError, warn
from vhem._support.randomness import generator
from vhem._support.saving import register_estimator
from vhem.em.estimator import Estimator
from vhem.em.fitting import FitPlan
from vhem.em.parameters import check_parameters, documented
from vhem.executors.local import Executor, as_executor
from vhem.kernels.engine import n_threads
from vhem.models import H3M
from vhem.scale.condense import Plan
from vhem.scale.last_passes import em_pass, final_mixture, spared_key
from vhem.scale.parts import Part, PartError, as_parts
from vhem.scale.progress import PartProgress, Watch
from vhem.scale.state import State
from vhem.scale.tasks import EMCounts, Failure, Learned, PartLabels, count_part, label_part, learn_part
from vhem.sequences import SequencesLike
from vhem.sequences.channels import Channels, quoted

_SAVE_EVERY = 10.0  # seconds between checkpoints
_POLISHING = 3  # iterations of EM over all data, at most
_WORTH_ANOTHER = 1e-3  # nats per frame of a sequence held out that an iteration must gain for another to follow


@documented
@dataclass(eq=False, repr=False)
class PartitionedH3M(ClusterMixin, Estimator):  # type: ignore[misc]
    """Learn a mixture of HMMs from data of any size, part by part.

    Every part is summarised separately by a few HMMs. Summaries are merged by VHEM, in a tree, and finally into
    `n_components` HMMs; these are refined by EM on a random sample of all sequences and, if wanted, polished by EM on
    all of them, for which parts are read again. Only one part per worker is in memory at a time, along with a few
    thousand HMMs and the sample, however large the data.

    Parameters
    ----------
    n_components : int
        Number of HMMs.
    <sizes>
    <topology>
    local : {"mixture", "hmms"}
        How a part is summarised: by a mixture of `n_intermediate` HMMs learned by EM, started from VHEM on HMMs of some
        of its sequences; or by VHEM on one HMM for every sequence.
    n_intermediate : int, optional
        HMMs that represent a part, or merged parts. None: twice `n_components`, at least 16.
    fan_in : int
        Summaries that are merged into one.
    tau : int
        Length of VHEM's virtual sequences: about that of your sequences; see `VHEM`.
    n_virtual : float
        How much VHEM trusts an HMM: one that represents f frames counts as n_virtual · f / tau virtual sequences. At 1
        this is as much as EM would trust the frames themselves.
    n_sample : int
        Sequences of the random sample, kept in memory. It determines which restart of the last merge is best, and EM on
        it refines the result. 0: no sample, and VHEM's result is not refined.
    n_passes : int, optional
        Iterations of EM over all data at the end. Each reads all parts again. None: as `polish` says.
    polish : bool
        Whether up to three iterations of EM over all data follow by themselves. Each is kept only if it makes sequences
        likelier that were held out (a fifth of the sample, at most 1,000), and another one follows if it gained 0.001
        nats per frame. Parts from a generator cannot be read again, and are not polished; nor are those of
        `partial_fit`.
    n_init : int
        Restarts of VHEM in the last merge.
    max_iter : int
        Largest number of iterations of VHEM in a merge, and of EM on the sample.
    tol : float
        VHEM and EM end when an iteration gains less than this many nats per frame.
    reg_covar : float
        Variance floor as a share of the data's variance, as in `fit_hmms`.
    missing : {"marginalise", "refuse"}
        What to do about missing values (NaN): integrate them out, or treat the part as broken.
    on_error : {"raise", "skip"}
        What to do about a part that cannot be read or used: stop with an error that names it, or skip it, list it in
        `skipped_` and warn.
    checkpoint : path, optional
        A file that keeps what was learned so far, written every few seconds. A fit that finds it resumes after the last
        part in it; the result is the same as without the interruption. It is kept when the fit is done.
    executor : {"serial", "threads"}, dask.distributed.Client or Executor, optional
        Where parts are processed. The result does not depend on it.
    callback : callable, optional
        Called after every part with a `PartProgress`.
    <verbose>
    <random_state>
    <n_jobs>
    <emissions>

    Attributes
    ----------
    model_ : H3M
        The mixture; heaviest HMM first. Its weights are shares of sequences.
    n_sequences_, n_frames_, n_parts_ : int
        Exact counts of the data it learned from. Skipped parts are not included.
    skipped_ : list of (str, str)
        Name and reason of every part that was skipped.
    n_floored_, n_reseeded_ : int
        Gaussians of the parts' HMMs with a variance at its floor, and states that became empty and were re-initialised.
    lower_bounds_ : ndarray
        Log-likelihood of all data before each iteration of EM over all of them.
    held_out_ : ndarray
        Mean log-likelihood of the sequences held out, before polishing and after each iteration; the last may be lower,
        and was not kept.
    state_ : State
        What `partial_fit` resumes from.

    Notes
    -----
    An HMM that represents c sequences with f frames enters a merge with these two numbers, whatever it is merged with.
    They are distributed by responsibilities, so they always add up to the data's. The order and sizes of parts thus
    affect the result only through what is learned together.

    VHEM compares HMMs by a bound that is loose if the states of an HMM overlap; it then prefers blurred centres. EM on
    the sample corrects that.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> rng = np.random.default_rng(0)
    >>> def part():  # in practice read from a file
    ...     slow = [np.repeat([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(50)]
    ...     quick = [np.tile([0.0, 3.0], 20) + rng.normal(size=40) for _ in range(100)]
    ...     return slow + quick
    >>> fit = vhem.PartitionedH3M(n_components=2, n_states=2, tau=40, random_state=0)
    >>> fit.fit(part() for _ in range(5)).model_.weights.round(3)
    array([0.667, 0.333])
    >>> fit.n_sequences_
    750
    """

    n_components: int = 8
    n_states: int = 3
    n_mix: int = 1
    covariance_type: str = "diag"
    topology: str = "ergodic"
    local: str = "mixture"
    n_intermediate: int | None = None
    fan_in: int = 16
    tau: int = 10
    n_virtual: float = 1.0
    n_sample: int = 5000
    n_passes: int | None = None
    polish: bool = False
    n_init: int = 12
    max_iter: int = 100
    tol: float = 1e-5
    reg_covar: float = 1e-3
    missing: str = "marginalise"
    on_error: str = "raise"
    checkpoint: str | Path | None = None
    executor: Any = None
    callback: Callable[[PartProgress], None] | None = None
    verbose: bool | None = None
    random_state: Any = None
    n_jobs: int | None = None
    emissions: Any = "gaussian"

    model_: H3M = field(init=False)
    n_sequences_: int = field(init=False)
    n_frames_: int = field(init=False)
    n_parts_: int = field(init=False)
    skipped_: list[tuple[str, str]] = field(init=False)
    n_floored_: int = field(init=False)
    n_reseeded_: int = field(init=False)
    lower_bounds_: FloatArray = field(init=False)
    held_out_: FloatArray = field(init=False)
    state_: State = field(init=False)
    n_features_in_: int = field(init=False)

    _channels: Channels | None = None  #: of the parts, if they have categories

    def fit(self, X: Iterable[Any], y: Any = None) -> Self:
        """Learn the mixture.

        Parameters
        ----------
        X : iterable of parts
            Each part is a `Part` (see `read_parts` and `split_sequences`), or sequences: a list of (T_i, d) arrays, a
            3-D array or `Sequences`. A generator is read once, as work proceeds; `n_passes` needs a list.
        y : ignored
            Ignored; present for API consistency.

        Returns
        -------
        PartitionedH3M
            This estimator, fitted.
        """
        del y
        plan, executor = self._plan(), as_executor(self.executor, self.n_jobs)
        if self.n_passes and iter(X) is X:
            raise InputError("{n_passes} needs parts that can be read again", "give a list of parts, not a generator")
        state, self._channels = State.fresh(plan, self.n_sample), None
        if self.checkpoint is not None and Path(self.checkpoint).exists():
            state = State.resumed(self.checkpoint, plan, self.n_sample, any_seed=self.random_state is None)
            plan = plan._replace(seed=state.seed)
        watch = Watch(self.callback, bool(self.verbose), _length(X))
        self._learn(state.rest_of(as_parts(X)), state, plan, executor, watch)
        polish = self.polish and self.n_passes is None and self.n_sample > 0 and iter(X) is not X
        spared = spared_key(self.state_) if polish else -1.0
        self._finish(plan, spared)
        for number in range(self.n_passes or 0):
            self.model_ = self._passed(X, plan, executor, watch.at(f"pass {number + 1}"))
        if spared >= 0:
            self._polish(X, plan, executor, watch, spared)
        self._warn()
        return self

    def _polish(self, X: Iterable[Any], plan: Plan, executor: Executor, watch: Watch, spared: float) -> None:
        """Iterate EM over all data as long as it makes the sequences held out likelier."""
        held_out = self.state_.sample.split(spared)[1]
        assert held_out is not None
        scores = [self.model_.score(held_out, self.n_jobs)]
        for number in range(_POLISHING):
            made = self._passed(X, plan, executor, watch.at(f"pass {number + 1}"), spared)
            scores.append(made.score(held_out, self.n_jobs))
            gain = (scores[-1] - scores[-2]) / float(held_out.lengths.mean())
            if gain > 0:
                self.model_ = made
            if gain < _WORTH_ANOTHER:
                break
        self.held_out_ = np.array(scores)

    def partial_fit(self, X: SequencesLike | Part, y: Any = None) -> Self:
        """Learn from one more part; the mixture then represents all parts so far.

        Parts given one by one make the same mixture as all of them given to `fit` with ``polish=False``.

        Parameters
        ----------
        X : sequences or Part
            The part.
        y : ignored
            Ignored; present for API consistency.

        Returns
        -------
        PartitionedH3M
            This estimator.
        """
        del y
        plan = self._plan()
        state = getattr(self, "state_", None)
        if state is None:
            state = State.fresh(plan, self.n_sample)
        plan = plan._replace(seed=state.seed)
        part = X if isinstance(X, Part) else Part(f"part {state.n_taken}", lambda: X)
        self._learn(iter([part]), state, plan, as_executor(None), Watch(self.callback, bool(self.verbose), None))
        self._finish(plan)
        return self

    def label_parts(self, X: Iterable[Any]) -> Iterator[PartLabels]:
        """Yield the labels of all sequences, part by part: a second pass over the data.

        Parameters
        ----------
        X : iterable of parts
            As for `fit`.

        Yields
        ------
        PartLabels
            Name of the part, ids of its sequences, label and log-likelihood of each. Parts that cannot be used raise a
            `PartError` or are skipped, depending on `on_error`.
        """
        check_is_fitted(self)
        executor = as_executor(self.executor, self.n_jobs)
        jobs = self.n_jobs if executor.inner_jobs is None else executor.inner_jobs
        watch = Watch(self.callback, bool(self.verbose), _length(X)).at("labelling")
        done = executor.map(label_part, as_parts(X), self.model_, self.missing, jobs, name="vhem-label")
        for result in self._good(done):
            watch.tell(result.name, len(result.ids), 0)
            yield result

    def predict(self, X: SequencesLike) -> IntArray:
        """Return the most probable HMM of each sequence in memory; for parts see `label_parts`."""
        check_is_fitted(self)
        return self.model_.predict(X, self.n_jobs)

    def predict_proba(self, X: SequencesLike) -> FloatArray:
        """Return the probability of each HMM for each sequence in memory, (n, n_components)."""
        check_is_fitted(self)
        return self.model_.predict_proba(X, self.n_jobs)

    def score(self, X: SequencesLike, y: Any = None) -> float:
        """Return the mean log-likelihood of sequences in memory."""
        del y
        check_is_fitted(self)
        return self.model_.score(X, self.n_jobs)

    def _plan(self) -> Plan:
        """Check the parameters, and collect what tasks need to know."""
        check_parameters(self)
        check_integer("fan_in", self.fan_in, 2)
        if self.n_passes and not self.n_sample:
            raise InputError("{n_passes} needs a sample, which gives the scale of the data", "set {n_sample} above 0")
        n_intermediate = max(16, 2 * self.n_components) if self.n_intermediate is None else self.n_intermediate
        check_integer("n_intermediate", n_intermediate, self.n_components)
        check_flag("polish", self.polish)
        check_choice("local", self.local, ("mixture", "hmms"))
        check_choice("missing", self.missing, ("marginalise", "refuse"))
        check_choice("on_error", self.on_error, ("raise", "skip"))
        executor = as_executor(self.executor, self.n_jobs)
        threads = executor.inner_jobs or n_threads(self.n_jobs)
        learning = FitPlan.checked(
            n_mix=self.n_mix, covariance_type=self.covariance_type, topology=self.topology, max_iter=self.max_iter,
            tol=self.tol, reg_covar=self.reg_covar, startprob_prior=0.1, transmat_prior=0.1, covars_prior=0.1,
            emissions=self.emissions, n_threads=threads,
        ).with_states(self.n_states)  # fmt: skip
        seed = int(generator(self.random_state).integers(2**63))
        return Plan(
            self.local, n_intermediate, self.fan_in, self.tau, float(self.n_virtual), learning, learning.limits,
            self.n_init, self.missing, seed,
        )  # fmt: skip

    def _learn(self, parts: Iterator[Part], state: State, plan: Plan, executor: Executor, watch: Watch) -> None:
        """Process parts in order and keep `state_` up to date; write a checkpoint now and then, and at the end."""
        self.state_ = state
        names, first = deque[str](), state.n_taken

        def items() -> Iterator[tuple[int, Part, float]]:
            for index, part in enumerate(parts, first):
                names.append(part.name)
                yield index, part, self.state_.sample.threshold

        saved = time.monotonic()
        try:
            for result in executor.map(learn_part, items(), plan, self.n_sample, name="vhem-part"):
                name = names.popleft()
                checked = self._alike(name, self.state_.checked(name, result))
                if isinstance(checked, Failure) and self.on_error == "raise":
                    raise PartError(*checked)
                self.state_ = self.state_.after(name, checked, plan)
                watch.tell(name, self.state_.n_sequences, len(self.state_.skipped), self.state_.n_taken)
                if time.monotonic() - saved > _SAVE_EVERY:
                    self._save_checkpoint()
                    saved = time.monotonic()
        finally:
            self.state_ = self.state_._replace(sample=self.state_.sample.whole())
            self._save_checkpoint()

    def _alike(self, name: str, learned: Learned | Failure) -> Learned | Failure:
        """Refuse a part whose categories have other names, and so other codes, than those of the first part."""
        if isinstance(learned, Failure) or learned.channels == self._channels:
            return learned
        if self._channels is None and learned.channels is not None:
            self._channels = learned.channels
            return learned
        own, known = ({} if c is None else c.as_dict() for c in (learned.channels, self._channels))
        channel = next((c for c in {**own, **known} if own.get(c) != known.get(c)), None)
        if channel is None:
            return learned
        reason = (
            f"its categories of {channel!r} are {quoted(own.get(channel, ()))}, those of the parts before are "
            f"{quoted(known.get(channel, ()))}; name all of them in every part, with categories={{{channel!r}: […]}}."
        )
        return Failure(name, reason)

    def _save_checkpoint(self) -> None:
        if self.checkpoint is not None and self.state_.n_taken:
            self.state_.save(self.checkpoint)

    def _finish(self, plan: Plan, spared: float = -1.0) -> None:
        state, plan = self.state_, plan.with_threads(n_threads(self.n_jobs))
        self.lower_bounds_, self.held_out_ = np.empty(0), np.empty(0)
        if not state.n_sequences:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in state.skipped[:3])
            raise InputError("there is nothing to learn from: {reasons}", reasons=reasons or "there are no parts")
        self.model_ = final_mixture(state, plan, self.n_components, spared)._remembering(self._channels)
        self.n_sequences_, self.n_frames_ = state.n_sequences, state.n_frames
        self.n_floored_, self.n_reseeded_ = state.n_floored, state.n_reseeded
        self.skipped_ = list(state.skipped)
        self.n_parts_ = state.n_taken - len(state.skipped)
        self.n_features_in_ = self.model_.n_dims

    def _passed(self, X: Iterable[Any], plan: Plan, executor: Executor, watch: Watch, spared: float = -1.0) -> H3M:
        """Return the mixture after one iteration of EM over all data but those spared."""

        def count(*arguments: Any) -> Iterator[EMCounts]:
            parts = enumerate(as_parts(X))
            for counts in self._good(executor.map(count_part, parts, *arguments, spared, plan, name="vhem-em")):
                watch.tell("", round(float(counts.mass.sum())), len(self.skipped_))
                yield counts

        model, log_likelihood = em_pass(self.model_, count, self.state_.sample.sequences, plan)
        self.lower_bounds_ = np.append(self.lower_bounds_, log_likelihood)
        return model._remembering(self._channels)

    def _good(self, results: Iterable[Any]) -> Iterator[Any]:
        """Yield what is not a failure; failures stop everything, or are skipped."""
        for result in results:
            if not isinstance(result, Failure):
                yield result
            elif self.on_error == "raise":
                raise PartError(*result)

    def _warn(self) -> None:
        if self.skipped_:
            name, reason = self.skipped_[0]
            warn(
                FitWarning(
                    "{n} of {parts} parts {n:was|were} skipped, for example {part!r}: {reason}",
                    n=Count(len(self.skipped_)), parts=self.state_.n_taken, part=name, reason=reason,
                )
            )  # fmt: skip
        if len(self.model_) < self.n_components:
            warn(
                FitWarning(
                    "the mixture has {n:HMM} instead of {n_components:{k}}: there are too few sequences, or too few "
                    "kinds of them",
                    n=Count(len(self.model_)), k=self.n_components,
                )
            )  # fmt: skip


def _length(parts: Any) -> int | None:
    return len(parts) if hasattr(parts, "__len__") else None


def _completed(fit: PartitionedH3M, fitted: dict[str, Any]) -> dict[str, Any]:
    """Return what files of older versions lack."""
    del fit, fitted
    return {"held_out_": np.empty(0)}


register_estimator(PartitionedH3M, completed=_completed)
