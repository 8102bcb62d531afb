"""One hidden Markov model."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from vhem._support.arrays import FloatArray, IntArray, floats
from vhem._support.docstrings import sharing
from vhem._support.errors import Count, InputError, InputTypeError
from vhem._support.immutable import Immutable, check_alike
from vhem._support.places import Names
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import Kind, State, register
from vhem.emissions import Components, Gaussian
from vhem.emissions.storing import packed, unpacked
from vhem.kernels import filtering as kernels
from vhem.kernels.engine import n_threads
from vhem.kernels.models import Models
from vhem.models.gaussian_view import GaussianView
from vhem.models.named_channels import NamedChannels
from vhem.models.sampling import checked_lengths, sample
from vhem.models.stationary import long_run_occupancy
from vhem.models.validation import checked_models
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.sequences.channels import Channels

#: Puts the text of these parameters in the place of ``<sequences>``.
of_sequences = sharing(
    sequences="""\
sequences : list of (T_i, d) arrays, 3-D array or Sequences
    The n sequences; NaN is marginalised.
n_jobs : int, optional
    Threads; all cores by default. The result does not depend on it."""
)


class HMM(NamedChannels, GaussianView, Immutable):
    """A hidden Markov model whose states emit Gaussians, categories, counts, …, or mixtures of these.

    Parameters
    ----------
    startprob : array of shape (S,)
        Probabilities of the first state.
    transmat : array of shape (S, S)
        Transition probabilities, from row to column. Zeros are kept exactly.
    means : array of shape (S, M, d), or (S, d) for one Gaussian per state
        Means of the Gaussians.
    covars : array of shape (S, M, d) or (S, M, d, d); (S, d) or (S, d, d) if means is (S, d)
        Variances, or full covariance matrices.
    mix_weights : array of shape (S, M), optional
        Weights of the Gaussians (or other components) of each state; needed if M > 1.
    emissions : Categorical, Poisson, …, optional
        What the states emit, in place of `means` and `covars`; see `vhem.Categorical` and `vhem.Poisson`.

    Attributes
    ----------
    startprob, transmat, mix_weights, emissions : arrays, and what the states emit
        The parameters, read-only, always with the component axis.
    means, covars : arrays
        Those of Gaussians.
    n_states, n_mix, n_dims : int
        The sizes S, M and d.
    covariance_type : {"diag", "full"}
        The form of `covars`.

    Examples
    --------
    >>> import vhem
    >>> from vhem import HMM
    >>> hmm = HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], means=[[0.0], [5.0]], covars=[[1.0], [1.0]])
    >>> hmm
    HMM(n_states=2, n_mix=1, n_dims=1, covariance_type='diag')
    >>> hmm.decode([[0.1, 4.8, 5.2]])[1]
    [array([0, 1, 1])]
    >>> hmm.stationary().round(3)
    array([0.667, 0.333])
    >>> HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], emissions=vhem.Poisson([1.0, 20.0]))
    HMM(n_states=2, n_mix=1, n_dims=1, emissions='poisson')
    """

    startprob: FloatArray
    transmat: FloatArray
    mix_weights: FloatArray
    emissions: Components  #: (S, M) of them

    def __init__(
        self,
        startprob: npt.ArrayLike,
        transmat: npt.ArrayLike,
        means: npt.ArrayLike | None = None,
        covars: npt.ArrayLike | None = None,
        mix_weights: npt.ArrayLike | None = None,
        *,
        emissions: Components | None = None,
    ) -> None:
        names = Names(single=True)
        if emissions is None and means is not None and covars is not None:
            means, covars = floats(means, "means")[None], floats(covars, "covars")[None]
        components = given_emissions(means, covars, emissions, names)
        weights = None if mix_weights is None else floats(mix_weights, "mix_weights")[None]
        start, trans = floats(startprob, "startprob")[None], floats(transmat, "transmat")[None]
        self._assign(checked_models(start, trans, components, weights, None, names))

    @classmethod
    def _of(cls, models: Models) -> HMM:
        """Return the only HMM of `models`, which are known to be valid."""
        made = cls.__new__(cls)
        made._assign(models)
        return made

    def _assign(self, models: Models) -> None:
        self._set(
            startprob=models.startprob[0],
            transmat=models.transmat[0],
            mix_weights=models.mix_weights[0],
            emissions=models.components.take(0),
        )

    @property
    def n_states(self) -> int:
        """The number of states S."""
        return len(self.startprob)

    @property
    def n_mix(self) -> int:
        """The number of components per state M."""
        return int(self.mix_weights.shape[1])

    @property
    def parameters(self) -> Models:
        """The arrays as the kernels take them, as a set of one HMM; views."""
        return Models(
            self.startprob[None],
            self.transmat[None],
            self.mix_weights[None],
            self.emissions.take(None),
            np.array([self.n_states], dtype=np.int64),
        )

    @of_sequences
    def score_samples(self, sequences: SequencesLike, n_jobs: int | None = None) -> FloatArray:
        """Return log p(y_i), the log-likelihood of each sequence.

        Parameters
        ----------
        <sequences>

        Returns
        -------
        array of shape (n,)
            The log-likelihoods; minus infinity for a sequence that the HMM cannot emit.

        Examples
        --------
        >>> HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]]).score_samples([[0.0, 0.0]]).round(4)
        array([-1.8379])
        """
        return log_likelihoods_under(self, sequences, n_jobs)[:, 0]

    def score(self, sequences: SequencesLike, n_jobs: int | None = None) -> float:
        """Return the mean log-likelihood of the sequences."""
        return float(self.score_samples(sequences, n_jobs).mean())

    @of_sequences
    def decode(self, sequences: SequencesLike, n_jobs: int | None = None) -> tuple[FloatArray, list[IntArray]]:
        """Return the likeliest path of states of each sequence (Viterbi).

        Parameters
        ----------
        <sequences>

        Returns
        -------
        log_probabilities : array of shape (n,)
            max_x log p(x, y_i), the joint probability of path and sequence.
        paths : list of n arrays of shape (T_i,)
            The states x. Ties are broken in favour of lower states.

        Examples
        --------
        >>> hmm = HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], means=[[0.0], [9.0]], covars=[[1.0], [1.0]])
        >>> hmm.decode([[0.0, 9.0, 0.0, 0.0]])[1]  # there is no way back from the second state
        [array([0, 0, 0, 0])]
        """
        checked = sequences_for(self.coded(sequences), self.emissions)
        scores, paths = kernels.viterbi(self.parameters, checked.X, checked.offsets, n_threads(n_jobs))
        return infinite_if_impossible(scores, self.emissions), np.split(paths, checked.offsets[1:-1])

    @of_sequences
    def posterior(self, sequences: SequencesLike, n_jobs: int | None = None) -> list[FloatArray]:
        """Return p(x_t = s | y_i), the posterior probabilities of the states at each frame.

        Parameters
        ----------
        <sequences>

        Returns
        -------
        list of n arrays of shape (T_i, S)
            The probabilities; rows sum to one.

        Examples
        --------
        >>> hmm = HMM([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], means=[[0.0], [1.0]], covars=[[1.0], [1.0]])
        >>> hmm.posterior([[0.5, 0.5]])
        [array([[0.5, 0.5], [0.5, 0.5]])]
        """
        checked = sequences_for(self.coded(sequences), self.emissions)
        _, gamma = kernels.posteriors(self.parameters, checked.X, checked.offsets, n_threads(n_jobs))
        return np.split(gamma, checked.offsets[1:-1])

    def stationary(self) -> FloatArray:
        """Return the long-run share of time in each state, for the chain started at `startprob`.

        lim (1/T) Σ_{t<T} π Aᵗ: the stationary distribution if the chain is irreducible, and otherwise the limit reached
        from `startprob` (left-right models end in their last state).

        Returns
        -------
        array of shape (S,)
            The occupancies.

        Examples
        --------
        >>> hmm = HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], means=[[0.0], [9.0]], covars=[[1.0], [1.0]])
        >>> hmm.stationary()
        array([0., 1.])
        """
        return long_run_occupancy(self.startprob, self.transmat)

    @overload
    def sample(self, n_sequences: int, length: npt.ArrayLike, random_state: RandomState = None) -> Sequences: ...
    @overload
    def sample(
        self,
        n_sequences: int,
        length: npt.ArrayLike,
        random_state: RandomState = None,
        *,
        return_states: Literal[True],
    ) -> tuple[Sequences, list[IntArray]]: ...
    def sample(
        self,
        n_sequences: int,
        length: npt.ArrayLike,
        random_state: RandomState = None,
        *,
        return_states: bool = False,
    ) -> Sequences | tuple[Sequences, list[IntArray]]:
        """Return random sequences.

        Parameters
        ----------
        n_sequences : int
            How many.
        length : int or array of shape (n_sequences,)
            Length of all sequences, or of each.
        random_state : None, int, Generator or RandomState
            Source of randomness.
        return_states : bool
            Whether to return the states too.

        Returns
        -------
        sequences : Sequences
            The sequences.
        states : list of arrays of shape (T_i,), only with `return_states`
            The states that emitted them.

        Examples
        --------
        >>> HMM([1.0], [[1.0]], means=[[0.0]], covars=[[1.0]]).sample(2, length=[3, 5], random_state=0)
        Sequences(n=2, n_dims=1, lengths 3 to 5, 8 frames)
        """
        lengths = checked_lengths(n_sequences, length)
        labels = np.zeros(n_sequences, dtype=np.int64)
        X, states = sample(self.parameters, labels, lengths, generator(random_state))
        sequences = Sequences.from_concatenated(X, lengths)
        sequences = sequences if self._channels is None else sequences._with(sequences.X, self._channels)
        return (sequences, np.split(states, sequences.offsets[1:-1])) if return_states else sequences

    def to_hmmlearn(self) -> Any:
        """Return this as an hmmlearn model: `GaussianHMM`, or `GMMHMM` if states have several Gaussians.

        One channel of categories becomes a `CategoricalHMM`, Poisson counts a `PoissonHMM`; hmmlearn has nothing for
        other families. Its `fit` resumes from these parameters. `vhem.from_hmmlearn` converts it back.
        """
        try:
            from hmmlearn.hmm import GMMHMM, CategoricalHMM, GaussianHMM, PoissonHMM  # noqa: PLC0415  (optional)
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "to_hmmlearn needs hmmlearn, which is not installed: pip install hmmlearn"
            ) from None
        if not isinstance(self.emissions, Gaussian):
            return self._other_to_hmmlearn({"categorical": CategoricalHMM, "poisson": PoissonHMM})
        # Without init_params, a call of fit resumes from these parameters.
        shared = {"covariance_type": self.covariance_type, "init_params": ""}
        single = self.n_mix == 1
        model = GaussianHMM(self.n_states, **shared) if single else GMMHMM(self.n_states, self.n_mix, **shared)
        model.n_features = self.n_dims
        model.startprob_, model.transmat_ = self.startprob.copy(), self.transmat.copy()
        model.means_ = np.array(self.means[:, 0] if single else self.means)
        model.covars_ = np.array(self.covars[:, 0] if single else self.covars)
        if not single:
            model.weights_ = np.array(self.mix_weights)
        return model

    def _other_to_hmmlearn(self, kinds: dict[str, Any]) -> Any:
        family = self.emissions.family
        if family not in kinds or self.n_mix > 1 or (family == "categorical" and self.n_dims > 1):
            raise InputError(
                "hmmlearn has no model for these emissions ({kind}, {d:dimension}, {m} per state)",
                "It has Gaussians, mixtures of them, one channel of categories, and Poisson counts",
                kind=self.emissions.kind, d=Count(self.n_dims), m=self.n_mix,
            )  # fmt: skip
        model = kinds[family](self.n_states, init_params="")
        model.startprob_, model.transmat_ = self.startprob.copy(), self.transmat.copy()
        (array,) = self.emissions.arrays().values()
        if family == "poisson":
            model.lambdas_, model.n_features = np.array(array[:, 0]), self.n_dims
        else:
            model.emissionprob_, model.n_features = np.array(array[:, 0, 0]), int(array.shape[-1])
        return model

    def __repr__(self) -> str:
        return f"HMM(n_states={self.n_states}, n_mix={self.n_mix}, n_dims={self.n_dims}, {self._emissions_in_words()})"


def given_emissions(
    means: npt.ArrayLike | None, covars: npt.ArrayLike | None, emissions: Components | None, names: Names
) -> Components:
    """Return what a user says that states emit, as a new block (K, S, M); a single HMM's has no first axis."""
    if emissions is None:
        if means is None or covars is None:
            raise InputTypeError("an HMM needs {means} and {covars} of Gaussians, or {emissions}")
        return Gaussian.shaped(means, covars, names)
    if means is not None or covars is not None:
        raise InputTypeError("{emissions} takes the place of {means} and {covars}", "give one or the other")
    if not isinstance(emissions, Components):
        kind = type(emissions).__name__
        raise InputTypeError("{emissions} must be a vhem.Categorical, vhem.Poisson, …, got {kind}", kind=kind)
    lead, n = emissions.lead, 2 if names.single else 3
    if len(lead) not in (n, n - 1) or 0 in lead:
        wanted = "(S,) or (S, M)" if names.single else "(K, S) or (K, S, M)"
        problem = (
            "{emissions} are {kind} distributions in an array of shape {lead}; it must be {wanted}, none of them 0"
        )
        raise InputError(problem, kind=emissions.family, lead=lead, wanted=wanted)
    shape = (*lead, 1)[:n]  # users leave out the axis of components if there is only one
    return emissions.reshaped(*((1, *shape) if names.single else shape)).map(np.array)


def check_frames(sequences: Sequences, emissions: Components) -> None:
    """Refuse values that a family cannot emit, and say which sequence has them."""
    fault = emissions.fault(sequences.X)
    if fault is not None:
        raise InputError("{said}, {why}", said=sequences._said(fault.row, fault.column), why=fault.why)


def log_likelihoods_under(model: Any, sequences: SequencesLike, n_jobs: int | None) -> FloatArray:
    """Return log p(y_i) of every sequence under every HMM of a model, (n, K)."""
    checked = sequences_for(model.coded(sequences), model.emissions)
    found = kernels.log_likelihoods(model.parameters, checked.X, checked.offsets, n_threads(n_jobs))
    return infinite_if_impossible(found, model.emissions)


def infinite_if_impossible(scores: FloatArray, emissions: Components) -> FloatArray:
    """Return log-likelihoods with minus infinity for what states cannot emit; Gaussians can emit everything."""
    if isinstance(emissions, Gaussian):
        return scores
    return np.where(scores < kernels.IMPOSSIBLE, -np.inf, scores)


def sequences_for(sequences: SequencesLike, emissions: Components) -> Sequences:
    """Return `sequences` as a Sequences that such states can emit."""
    checked = checked_sequences(sequences, emissions.n_dims)
    check_frames(checked, emissions)
    return checked


def checked_sequences(sequences: SequencesLike, n_dims: int) -> Sequences:
    """Return `sequences` as a Sequences of `n_dims` dimensions."""
    if isinstance(sequences, HMM) or (isinstance(sequences, list) and any(isinstance(s, HMM) for s in sequences)):
        cure = "compare HMMs with expected_log_likelihood or VHEM.predict"
        raise InputTypeError("these are HMMs, not sequences", cure)
    checked = as_sequences(sequences)
    if checked.n_dims != n_dims:
        raise InputError(
            "the sequences have {n:dimension}, the model has {d}",
            "use the same columns that the model was learned from",
            n=Count(checked.n_dims), d=n_dims,
        )  # fmt: skip
    return checked


def _pack(hmm: HMM) -> State:
    rows = {name: getattr(hmm, name) for name in _ROWS}
    known = {} if hmm._channels is None else {"channels": hmm._channels.as_state()}
    return {**rows, **packed(hmm.emissions), **known}


def _unpack(state: State) -> HMM:
    """Return the HMM of a file: its values are checked, and then kept exactly, bit by bit."""
    emissions, rows = unpacked(state), {name: state[name] for name in _ROWS}
    made = HMM(**rows, emissions=emissions)
    check_alike({**rows, **emissions.arrays()}, {**{n: getattr(made, n) for n in _ROWS}, **made.emissions.arrays()})
    made._set(**rows, emissions=emissions)
    return made._remembering(Channels.of_state(state.get("channels"), made.n_dims))


_ROWS = ("startprob", "transmat", "mix_weights")
register(Kind("HMM", HMM, _pack, _unpack))
