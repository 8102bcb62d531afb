"""Mixtures of hidden Markov models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray, floats
from vhem._support.checks import check_integer
from vhem._support.errors import Count, InputError, InputTypeError, ParameterError
from vhem._support.frames import data_frame
from vhem._support.immutable import Immutable, check_alike
from vhem._support.indexing import checked_ids, positions, shares
from vhem._support.places import Names
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import Ids, Kind, State, register
from vhem.emissions import Components, Gaussian
from vhem.emissions.storing import PREFIX, packed, unpacked
from vhem.kernels.models import Models
from vhem.models.evidence import Evidence
from vhem.models.gaussian_view import GaussianView
from vhem.models.hmm import HMM, given_emissions, log_likelihoods_under, of_sequences
from vhem.models.named_channels import NamedChannels, common_channels
from vhem.models.posterior import ModelPosterior, joint_posterior
from vhem.models.sampling import checked_lengths, sample
from vhem.models.stacking import stack
from vhem.models.state_table import state_table
from vhem.models.stationary import long_run_occupancies
from vhem.models.validation import checked_models, checked_weights
from vhem.sequences import Sequences, SequencesLike
from vhem.sequences.channels import Channels


class H3M(NamedChannels, GaussianView, Immutable):
    """A mixture of K hidden Markov models: p(y) = Σ_k ω_k p(y | HMM k).

    The HMMs share the number of dimensions. They may differ in numbers of states and of components per state;
    the arrays are then padded to the largest, with probabilities of zero (and unit covariances, or repeats of
    the state's first Gaussian, so that nothing computed from padding is infinite). Diagonal and full
    covariances in one H3M all become full.

    Parameters
    ----------
    hmms : list of HMM
        The HMMs.
    weights : array of shape (K,), optional
        Mixture weights ω, which sum to one and may be zero; uniform by default.
    ids : list, optional
        One name per HMM, used in messages and results; 0, 1, … if not given.

    Attributes
    ----------
    weights : array of shape (K,)
        Mixture weights.
    startprob, transmat, mix_weights : arrays of shape (K, S), (K, S, S) and (K, S, M)
        Probabilities, with zeros beyond an HMM's own states.
    means, covars : arrays of shape (K, S, M, d); covars also (K, S, M, d, d)
        Means of the Gaussians, and their variances or covariance matrices.
    n_states : array of shape (K,)
        Numbers of states.
    ids : list
        The names.
    posterior : ModelPosterior or None
        What the data leave open about the parameters, if the HMMs were learned by variational Bayes.
    n_sequences, n_frames : arrays of shape (K,)
        How many sequences each HMM was learned from, and their frames in all; 0 if unknown. `fit_hmms` fills them in;
        for HMMs from elsewhere, see :meth:`with_evidence`.

    Examples
    --------
    >>> from vhem import H3M, HMM
    >>> low = HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]])
    >>> high = HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], means=[[5.0], [9.0]], covars=[[1.0], [1.0]])
    >>> h3m = H3M([low, high], ids=["low", "high"])
    >>> h3m
    H3M(n_hmms=2, n_states=1 to 2, n_mix=1, n_dims=1, covariance_type='diag')
    >>> h3m.predict([[0.3, -0.2], [5.5, 8.7]])
    array([0, 1])
    >>> h3m[1]
    HMM(n_states=2, n_mix=1, n_dims=1, covariance_type='diag')
    """

    weights: FloatArray
    startprob: FloatArray
    transmat: FloatArray
    mix_weights: FloatArray
    emissions: Components  #: (K, S, M) of them
    n_states: IntArray
    ids: list[Any]
    posterior: ModelPosterior | None = None
    n_sequences: FloatArray
    n_frames: FloatArray

    def __init__(
        self, hmms: Iterable[HMM], weights: npt.ArrayLike | None = None, ids: Iterable[Any] | None = None
    ) -> None:
        members = _checked_hmms(hmms)
        names = checked_ids(ids, len(members), "HMMs")
        _check_same_kind(members, names)
        stacked = stack([hmm.parameters for hmm in members])
        self._assign(stacked, checked_weights(weights, len(members)), names)
        self._remember(common_channels(members))

    def _assign(
        self, models: Models, weights: FloatArray, ids: list[Any], posterior: ModelPosterior | None = None,
        evidence: Evidence | None = None,
    ) -> None:  # fmt: skip
        rows = {"startprob": models.startprob, "transmat": models.transmat, "mix_weights": models.mix_weights}
        own = {"emissions": models.components, "n_states": models.n_states, "posterior": posterior}
        self._set(**rows, **own, weights=weights, ids=ids)
        self._set(**(evidence or Evidence.unknown(len(weights)))._asdict())

    @classmethod
    def _of(
        cls, models: Models, weights: FloatArray, ids: list[Any], posterior: ModelPosterior | None = None,
        evidence: Evidence | None = None,
    ) -> H3M:  # fmt: skip
        """Return an H3M of arrays that are known to be valid."""
        made = cls.__new__(cls)
        made._assign(models, weights, ids, posterior, evidence)
        return made

    @classmethod
    def of_posterior(
        cls, posterior: ModelPosterior, weights: npt.ArrayLike | None = None, ids: Iterable[Any] | None = None
    ) -> H3M:
        """Return the HMMs at the means of a posterior, which they carry."""
        made = cls.of_models(posterior.point(), weights, ids)
        return cls._of(made.parameters, made.weights, made.ids, posterior)

    @classmethod
    def of_models(
        cls,
        models: Models,
        weights: npt.ArrayLike | None = None,
        ids: Iterable[Any] | None = None,
        channels: Channels | None = None,
    ) -> H3M:
        """Return an H3M of an algorithm's result, checked."""
        names = checked_ids(ids, len(models), "HMMs")
        own = models.copy()
        checked = checked_models(
            own.startprob, own.transmat, own.components, own.mix_weights, own.n_states, Names(names)
        )
        return cls._of(_without_padding(checked), checked_weights(weights, len(models)), names)._remembering(channels)

    @classmethod
    def from_arrays(
        cls,
        startprob: npt.ArrayLike,
        transmat: npt.ArrayLike,
        means: npt.ArrayLike | None = None,
        covars: npt.ArrayLike | None = None,
        mix_weights: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        n_states: npt.ArrayLike | None = None,
        ids: Iterable[Any] | None = None,
        *,
        emissions: Components | None = None,
    ) -> H3M:
        """Return an H3M of stacked arrays, zero-padded if HMMs differ in size.

        Parameters
        ----------
        startprob, transmat : arrays of shape (K, S) and (K, S, S)
            Probabilities, zero beyond an HMM's own states.
        means : array of shape (K, S, M, d), or (K, S, d) for one Gaussian per state
            Means.
        covars : array of shape (K, S, M, d) or (K, S, M, d, d), without M if means has none
            Variances or covariance matrices.
        mix_weights : array of shape (K, S, M), optional
            Weights of the Gaussians; needed if M > 1.
        weights : array of shape (K,), optional
            Mixture weights; uniform by default.
        n_states : array of shape (K,), optional
            Numbers of states; S for all by default.
        ids : list, optional
            One name per HMM.
        emissions : Categorical, Poisson, …, optional
            What the states emit, in place of `means` and `covars`: (K, S, M) of them, or (K, S).

        Returns
        -------
        H3M
            A checked copy.

        Notes
        -----
        Means, covars and mix_weights of a state beyond `n_states` may be anything finite, and are stored as
        zeros with unit covariances. A component whose weight and covariance are zero is padding too, and is
        stored as a repeat of the state's heaviest Gaussian.

        Examples
        --------
        >>> start, trans = np.ones((2, 1)), np.ones((2, 1, 1))
        >>> H3M.from_arrays(start, trans, means=[[[0.0]], [[3.0]]], covars=[[[1.0]], [[2.0]]])
        H3M(n_hmms=2, n_states=1, n_mix=1, n_dims=1, covariance_type='diag')
        """
        K = len(np.atleast_1d(floats(startprob, "startprob")))
        names = checked_ids(ids, K, "HMMs")
        components = given_emissions(means, covars, emissions, Names(names))
        models = checked_models(startprob, transmat, components, mix_weights, n_states, Names(names))
        return cls._of(_without_padding(models), checked_weights(weights, K), names)

    @classmethod
    def pool(cls, parts: Iterable[H3M | HMM], weights: npt.ArrayLike | None = None) -> H3M:
        """Return one mixture of all HMMs of several mixtures.

        Parameters
        ----------
        parts : list of H3M or HMM
            The mixtures; an HMM counts as a mixture of one.
        weights : array, optional
            One relative weight per part, divided within a part by its own weights; by default a part weighs as much as
            the number of its HMMs.

        Returns
        -------
        H3M
            The mixture, in the order of the parts; its weights sum to one. Ids are kept if they stay
            distinct, and are 0, 1, … otherwise.

        Examples
        --------
        >>> one = HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]])
        >>> H3M.pool([H3M([one, one, one]), one]).weights
        array([0.25, 0.25, 0.25, 0.25])
        >>> H3M.pool([H3M([one, one]), one], weights=[1, 1]).weights
        array([0.25, 0.25, 0.5 ])
        """
        mixtures = [H3M([part]) if isinstance(part, HMM) else part for part in parts]
        _check_poolable(mixtures)
        shares = _part_shares(mixtures, weights)
        pooled = np.concatenate([share * part.weights for share, part in zip(shares, mixtures, strict=True)])
        ids = [name for part in mixtures for name in part.ids]
        distinct = len(set(ids)) == len(ids)
        stacked = stack([part.parameters for part in mixtures])
        names = ids if distinct else list(range(len(ids)))
        posterior = joint_posterior([part.posterior for part in mixtures])
        evidence = Evidence.joined([part.evidence for part in mixtures])
        made = cls._of(stacked, pooled / pooled.sum(), names, posterior, evidence)
        return made._remembering(common_channels(mixtures))

    def with_weights(self, weights: npt.ArrayLike | None) -> H3M:
        """Return the same HMMs with other mixture weights; None makes them uniform."""
        shares = checked_weights(weights, len(self))
        made = self._of(self.parameters, shares, self.ids, self.posterior, self.evidence)
        return made._remembering(self._channels)

    def with_ids(self, ids: Iterable[Any] | None) -> H3M:
        """Return the same HMMs with other names; None makes them 0, 1, …."""
        names = checked_ids(ids, len(self), "HMMs")
        made = self._of(self.parameters, self.weights, names, self.posterior, self.evidence)
        return made._remembering(self._channels)

    def with_evidence(self, n_sequences: npt.ArrayLike, n_frames: npt.ArrayLike) -> H3M:
        """Return the same HMMs, which remember how much data they were learned from.

        Parameters
        ----------
        n_sequences, n_frames : float or array of shape (K,)
            How many sequences each HMM was learned from, and their frames in all. 0: unknown.

        Returns
        -------
        H3M
            The same HMMs.

        Examples
        --------
        >>> one = HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]])
        >>> H3M([one, one]).with_evidence(n_sequences=4, n_frames=[40, 60]).n_frames
        array([40., 60.])
        """
        evidence = Evidence.checked(n_sequences, n_frames, len(self))
        return self._of(self.parameters, self.weights, self.ids, self.posterior, evidence)._remembering(self._channels)

    @property
    def evidence(self) -> Evidence:
        """How much data each HMM was learned from."""
        return Evidence(self.n_sequences, self.n_frames)

    def with_posterior(self, posterior: ModelPosterior | None) -> H3M:
        """Return the same HMMs with another posterior, or without one."""
        made = self._of(self.parameters, self.weights, self.ids, posterior, self.evidence)
        return made._remembering(self._channels)

    @property
    def parameters(self) -> Models:
        """The arrays as the kernels take them; the same memory."""
        return Models(self.startprob, self.transmat, self.mix_weights, self.emissions, self.n_states)

    @property
    def n_mix(self) -> int:
        """The largest number of components per state, M."""
        return int(self.mix_weights.shape[2])

    def n_parameters(self) -> int:
        """Return the number of free parameters, weights included; parameters that are exactly zero are not free."""
        return int(self.parameters.n_parameters().sum()) + max(int((self.weights > 0).sum()) - 1, 0)

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[HMM]:
        return (self[k] for k in range(len(self)))

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> HMM: ...
    @overload
    def __getitem__(self, index: slice | npt.ArrayLike) -> H3M: ...
    def __getitem__(self, index: Any) -> HMM | H3M:
        """Return an HMM for an integer, and an H3M for a slice, index array or mask.

        Weights of a subset are divided by their sum; if that is zero, they become uniform.
        """
        chosen = positions(index, len(self), "HMM")
        if chosen.ndim == 0:
            one = _without_padding(self.parameters.take(slice(chosen, chosen + 1)))
            return HMM._of(one)._remembering(self._channels)
        posterior = None if self.posterior is None else self.posterior.take(chosen)
        names = [self.ids[k] for k in chosen.tolist()]
        rest = (shares(self.weights[chosen]), names, posterior, self.evidence.take(chosen))
        made = self._of(self.parameters.take(chosen), *rest)
        return made._remembering(self._channels)

    @of_sequences
    def log_likelihoods(self, sequences: SequencesLike, n_jobs: int | None = None) -> FloatArray:
        """Return log p(y_i | HMM k) of every sequence under every HMM.

        Parameters
        ----------
        <sequences>

        Returns
        -------
        array of shape (n, K)
            The log-likelihoods; minus infinity for a sequence that an HMM cannot emit.

        Examples
        --------
        >>> one = HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]])
        >>> H3M([one, one]).log_likelihoods([[0.0], [1.0, 1.0]]).round(3)
        array([[-0.919, -0.919], [-2.838, -2.838]])
        """
        return log_likelihoods_under(self, sequences, n_jobs)

    def _log_joint(self, sequences: SequencesLike, n_jobs: int | None) -> FloatArray:
        with np.errstate(divide="ignore"):
            return self.log_likelihoods(sequences, n_jobs) + np.log(self.weights)

    def score_samples(self, sequences: SequencesLike, n_jobs: int | None = None) -> FloatArray:
        """Return log Σ_k ω_k p(y_i | HMM k), the log-likelihood of each sequence under the mixture, (n,)."""
        return np.asarray(np.logaddexp.reduce(self._log_joint(sequences, n_jobs), axis=1))

    def score(self, sequences: SequencesLike, n_jobs: int | None = None) -> float:
        """Return the mean log-likelihood of the sequences."""
        return float(self.score_samples(sequences, n_jobs).mean())

    def predict_proba(self, sequences: SequencesLike, n_jobs: int | None = None) -> FloatArray:
        """Return ω_k p(y_i | HMM k) / p(y_i), the probability that HMM k emitted sequence i, (n, K).

        Of a sequence that no HMM can emit nothing is known, and it gets the weights ω.
        """
        return self.probabilities(self.log_likelihoods(sequences, n_jobs))

    def probabilities(self, log_likelihoods: FloatArray) -> FloatArray:
        """Return what `predict_proba` makes of log-likelihoods (n, K)."""
        with np.errstate(divide="ignore"):
            joint = log_likelihoods + np.log(self.weights)
        best = joint.max(axis=1, keepdims=True)
        known = np.isfinite(best)
        shares = np.where(known, np.exp(joint - np.where(known, best, 0.0)), self.weights)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict(self, sequences: SequencesLike, n_jobs: int | None = None) -> IntArray:
        """Return the index of the HMM that most probably emitted each sequence, (n,)."""
        return np.asarray(self._log_joint(sequences, n_jobs).argmax(axis=1), dtype=np.int64)

    def to_frame(self, names: Sequence[str] | None = None) -> Any:
        """Return the HMMs as a pandas data frame with one row per state.

        Parameters
        ----------
        names : list of str, optional
            Names of the dimensions.

        Returns
        -------
        DataFrame
            Columns hmm, weight, state (from 1), startprob, to_1, to_2, … (transitions), component and mix_weight if
            states have several components, and the parameters of the emissions, such as mean_x and variance_x.

        Examples
        --------
        >>> one = HMM([1.0], [[1.0]], means=[[2.0]], covars=[[1.0]])
        >>> list(H3M([one], ids=["ann"]).to_frame(["x"]).columns)
        ['hmm', 'weight', 'state', 'startprob', 'to_1', 'mean_x', 'variance_x']
        """
        return data_frame(state_table(self.parameters, self.weights, self.ids, names))

    def stationary(self) -> FloatArray:
        """Return each HMM's long-run share of time in its states, (K, S); see `HMM.stationary`."""
        return long_run_occupancies(self.parameters)

    def sample(
        self, n_sequences: int, length: npt.ArrayLike, random_state: RandomState = None
    ) -> tuple[Sequences, IntArray]:
        """Return random sequences, each from an HMM drawn by the weights.

        Parameters
        ----------
        n_sequences : int
            How many.
        length : int or array of shape (n_sequences,)
            Length of all sequences, or of each.
        random_state : None, int, Generator or RandomState
            Source of randomness.

        Returns
        -------
        sequences : Sequences
            The sequences.
        labels : array of shape (n_sequences,)
            The HMM that emitted each.

        Examples
        --------
        >>> one = HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]])
        >>> sequences, labels = H3M([one, one], weights=[0.0, 1.0]).sample(3, length=4, random_state=0)
        >>> labels
        array([1, 1, 1])
        """
        lengths = checked_lengths(n_sequences, length)
        rng = generator(random_state)
        labels = rng.choice(len(self), size=n_sequences, p=self.weights).astype(np.int64)
        X, _ = sample(self.parameters, labels, lengths, rng)
        sequences = Sequences.from_concatenated(X, lengths)
        return sequences if self._channels is None else sequences._with(X, self._channels), labels

    def sample_posterior(self, n: int, random_state: RandomState = None) -> list[H3M]:
        """Return HMMs whose parameters are drawn from the posterior.

        Anything computed from each of them shows how sure it is: a divergence, a label, a share of time in a state.

        Parameters
        ----------
        n : int
            How many draws.
        random_state : None, int, Generator or RandomState
            Source of randomness.

        Returns
        -------
        list of H3M
            One for each draw, with the same weights and ids, and the same order of states.

        Examples
        --------
        >>> import numpy as np, vhem
        >>> frames = np.random.default_rng(0).normal(size=(20, 1))
        >>> hmms = vhem.fit_hmms([frames], n_states=1, method="vb", random_state=0)
        >>> draws = hmms.sample_posterior(500, random_state=0)
        >>> print(np.std([draw.means[0, 0, 0, 0] for draw in draws]).round(1))  # about 1 / sqrt(20)
        0.2
        """
        posterior, rng = self._known_posterior(), generator(random_state)
        models = [posterior.drawn(rng) for _ in range(check_integer("n", n, 1))]
        return [self.of_models(one, self.weights, self.ids) for one in models]

    def predictive(self) -> H3M:
        """Return HMMs whose emissions are as wide as the predictive distribution of the next frame.

        A state that few frames are known of is less certain than its posterior mean says: its covariance grows by
        (β + 1)/β. The likelihood of new sequences is then not overrated.
        """
        return self.of_models(self._known_posterior().predictive(), self.weights, self.ids)

    def posterior_deviations(self) -> dict[str, FloatArray]:
        """Return posterior standard deviations of `startprob`, `transmat`, and of the emissions' arrays.

        For Gaussians these are "means", (K, S, d), and "covars": those of the variances, (K, S, d); NaN if there are
        too few frames for one.
        """
        return self._known_posterior().deviations()

    def _known_posterior(self) -> ModelPosterior:
        if self.posterior is None:
            raise InputError("this H3M carries no posterior", 'learn it with fit_hmms(..., method="vb") or VBHEM')
        return self.posterior

    def __repr__(self) -> str:
        low, high = self.n_states.min(), self.n_states.max()
        states = str(low) if low == high else f"{low} to {high}"
        sizes = f"n_hmms={len(self)}, n_states={states}, n_mix={self.n_mix}, n_dims={self.n_dims}"
        return f"H3M({sizes}, {self._emissions_in_words()})"


def _without_padding(models: Models) -> Models:
    """Return the arrays trimmed to the largest number of states, and to the last component with weight in any HMM."""
    S = int(models.n_states.max())
    M = int(np.flatnonzero(models.mix_weights.any(axis=(0, 1)))[-1]) + 1
    rows = (models.startprob[:, :S], models.transmat[:, :S, :S], models.mix_weights[:, :S, :M])
    return Models(*rows, models.components.take((slice(None), slice(S), slice(M))), models.n_states)


def _checked_hmms(hmms: Iterable[HMM]) -> list[HMM]:
    if isinstance(hmms, HMM):
        raise InputTypeError("{hmms} must be a list of HMM, got one HMM", "write [hmm]")
    members = list(hmms)
    if not members:
        raise InputError("{hmms} is empty; an H3M needs at least one HMM")
    for k, hmm in enumerate(members):
        if not isinstance(hmm, HMM):
            cure = "an H3M is made of vhem.HMM (see H3M.pool for H3Ms)"
            raise InputTypeError("{hmms}[{k}] is a {kind}", cure, k=k, kind=type(hmm).__name__)
    return members


def _check_same_kind(members: Sequence[HMM], ids: list[Any]) -> None:
    d, kind, names = members[0].n_dims, members[0].emissions.kind, Names(ids)
    for k, hmm in enumerate(members):
        if hmm.emissions.kind != kind:
            raise InputError(
                "the emissions of {which} are {mine}, but those of {first} are {kind}",
                "HMMs of one H3M must have been learned from the same columns, with the same families",
                which=names.place(k), mine=hmm.emissions.kind, first=names.place(0), kind=kind,
            )  # fmt: skip
        if hmm.n_dims != d:
            raise InputError(
                "{which} has {n:dimension}, but {first} has {d}",
                "HMMs of one H3M must have been learned from the same columns",
                which=names.place(k), n=Count(hmm.n_dims), first=names.place(0), d=d,
            )  # fmt: skip


def _check_poolable(mixtures: list[H3M]) -> None:
    if not mixtures:
        raise InputError("{parts} is empty", "give at least one H3M or HMM")
    for i, part in enumerate(mixtures):
        if not isinstance(part, H3M):
            raise InputTypeError("{parts}[{i}] is a {kind}", "give H3M or HMM objects", i=i, kind=type(part).__name__)
        if part.n_dims != mixtures[0].n_dims:
            problem = "{parts}[{i}] has {n:dimension}, but {parts}[0] has {d}"
            raise InputError(problem, i=i, n=Count(part.n_dims), d=mixtures[0].n_dims)
        if part.emissions.kind != mixtures[0].emissions.kind:
            problem = "the emissions of {parts}[{i}] are {mine}, but those of {parts}[0] are {kind}"
            raise InputError(problem, i=i, mine=part.emissions.kind, kind=mixtures[0].emissions.kind)


def _part_shares(mixtures: list[H3M], weights: npt.ArrayLike | None) -> FloatArray:
    shares = np.asarray([len(part) for part in mixtures] if weights is None else weights, dtype=np.float64)
    if shares.shape != (len(mixtures),):
        problem = "{weights} has shape {shape} for {n:part}"
        raise InputError(problem, "give one weight per part", shape=shares.shape, n=Count(len(mixtures)))
    if not (np.isfinite(shares) & (shares >= 0)).all() or shares.sum() == 0:
        raise ParameterError("weights", weights, "must be finite, not negative and not all zero")
    return np.asarray(shares / shares.sum())


def _pack(h3m: H3M) -> State:
    rows = {name: getattr(h3m, name) for name in _ROWS}
    known: State = {} if h3m.posterior is None else {"posterior": h3m.posterior}
    if h3m.evidence.is_known.any():
        known |= h3m.evidence._asdict()
    if h3m._channels is not None:
        known["channels"] = h3m._channels.as_state()
    own = {**packed(h3m.emissions), "n_states": h3m.n_states, "weights": h3m.weights, "ids": Ids(h3m.ids)}
    return {**rows, **own, **known}


def _unpack(state: State) -> H3M:
    """Return the H3M of a file: its values are checked, and then kept exactly, bit by bit."""
    rows = {name: state[name] for name in (*_ROWS, "n_states")}
    emissions = unpacked(state)
    checked = H3M.from_arrays(**rows, emissions=emissions, weights=state["weights"], ids=state["ids"])
    given = {**rows, **emissions.arrays(), "weights": state["weights"]}
    check_alike(given, {**checked.parameters.arrays(), "weights": checked.weights})
    models = Models(rows["startprob"], rows["transmat"], rows["mix_weights"], emissions, rows["n_states"])
    posterior = _checked_posterior(state.get("posterior"), models)
    channels = Channels.of_state(state.get("channels"), checked.n_dims)
    evidence = Evidence.of_file(state, len(checked))
    return H3M._of(models, state["weights"], checked.ids, posterior, evidence)._remembering(channels)


def _checked_posterior(posterior: Any, models: Models) -> ModelPosterior | None:
    if posterior is None:
        return None
    if not isinstance(posterior, ModelPosterior) or posterior.alpha.shape != models.startprob.shape:
        raise InputError("its posterior is not that of these HMMs")
    return posterior


_ROWS = ("startprob", "transmat", "mix_weights")
_ARRAYS = (*_ROWS, *Gaussian.fields, "n_states")
register(Kind("H3M", H3M, _pack, _unpack, rows=("weights", *_ARRAYS, "ids", *Evidence._fields), row_prefix=PREFIX))
