"""Linear dynamical systems (dynamic textures) and mixtures of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from vhem._support.arrays import FloatArray, IntArray, floats
from vhem._support.errors import Count, InputError, InputTypeError, ParameterError
from vhem._support.immutable import Immutable, check_alike, register_model
from vhem._support.indexing import checked_ids, positions, shares
from vhem._support.randomness import RandomState, generator
from vhem._support.saving import Ids, Kind, State, register
from vhem.emissions.gaussian_checks import SYMMETRY_TOLERANCE
from vhem.kernels import lds as kernels
from vhem.kernels.lds import spectral_radius
from vhem.kernels.systems import Smoothed, Systems
from vhem.models.hmm import checked_sequences
from vhem.models.sampling import checked_lengths
from vhem.models.validation import checked_weights
from vhem.sequences import Sequences, SequencesLike

_NEGATIVE = -1e-10  # smallest eigenvalue of a covariance, relative to the largest, that counts as rounding


class LinearDynamicalSystem(Immutable):
    """A linear dynamical system with Gaussian noise, also called a dynamic texture.

    x_1 ~ N(mean, covar), x_{t+1} = A x_t + v_t with v ~ N(0, Q), y_t = C x_t + offset + w_t with w ~ N(0, diag R).

    Parameters
    ----------
    A : array of shape (n, n)
        Transition matrix of the state. It need not be stable; see `spectral_radius`.
    C : array of shape (d, n)
        Observation matrix.
    Q : array of shape (n, n)
        Covariance of the state's noise; it may be singular.
    R : float or array of shape (d,)
        Variances of the observations' noise.
    mean : array of shape (n,), optional
        Mean of the first state; zero by default.
    covar : array of shape (n, n), optional
        Covariance of the first state; Q by default.
    offset : array of shape (d,), optional
        Mean of the observations; zero by default.

    Examples
    --------
    >>> import numpy as np
    >>> from vhem import LinearDynamicalSystem
    >>> turn = [[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]
    >>> pendulum = LinearDynamicalSystem(0.95 * np.array(turn), C=[[1.0, 0.0]], Q=0.1 * np.eye(2), R=0.01)
    >>> pendulum
    LinearDynamicalSystem(n_states=2, n_dims=1, spectral_radius=0.95)
    >>> y = pendulum.sample(1, length=50, random_state=0)
    >>> pendulum.score_samples(y).shape, pendulum.smooth(y)[0].means.shape
    ((1,), (50, 2))
    """

    A: FloatArray
    C: FloatArray
    Q: FloatArray
    R: FloatArray
    mean: FloatArray
    covar: FloatArray
    offset: FloatArray

    def __init__(
        self,
        A: npt.ArrayLike,
        C: npt.ArrayLike,
        Q: npt.ArrayLike,
        R: npt.ArrayLike,
        mean: npt.ArrayLike | None = None,
        covar: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
    ) -> None:
        move, see, noise = floats(A, "A"), floats(C, "C"), floats(R, "R")
        if move.ndim != 2 or move.shape[0] != move.shape[1] or not move.size:
            raise InputError("{A} has shape {shape}; it must be square, (n, n)", shape=move.shape)
        n = len(move)
        if see.ndim != 2 or see.shape[1] != n or not see.size:
            raise InputError("{C} has shape {shape}, but {A} needs (d, {n})", shape=see.shape, n=n)
        d = len(see)
        first = np.zeros(n) if mean is None else floats(mean, "mean")
        level = np.zeros(d) if offset is None else floats(offset, "offset")
        noise = np.full(d, noise) if noise.ndim == 0 else noise
        for name, array, shape in (("R", noise, (d,)), ("mean", first, (n,)), ("offset", level, (d,))):
            _check_shape(name, array, shape)
        for name, array in (("A", move), ("C", see), ("R", noise), ("mean", first), ("offset", level)):
            _check_finite(name, array)
        if noise.min() < np.finfo(np.float64).tiny:
            k = int(noise.argmin())
            problem = "{R} of dimension {k} is {variance}; variances must be positive"
            raise InputError(problem, "Add a small constant", k=k, variance=noise[k])
        moving = _checked_covariance("Q", Q, n)
        start = moving if covar is None else _checked_covariance("covar", covar, n)
        self._set(A=move, C=see, Q=moving, R=noise, mean=first, covar=start, offset=level)

    @property
    def systems(self) -> Systems:
        """The arrays as the kernels take them."""
        return Systems._make(getattr(self, name)[None] for name in Systems._fields)

    @property
    def n_states(self) -> int:
        """The number of dimensions of the state n."""
        return len(self.A)

    @property
    def n_dims(self) -> int:
        """The number of dimensions of the observations d."""
        return len(self.C)

    @property
    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue of A: below one, the system is stable."""
        return spectral_radius(self.A)

    def score_samples(self, sequences: SequencesLike) -> FloatArray:
        """Return log p(y_i) of each sequence, (n,)."""
        checked = checked_sequences(sequences, self.n_dims)
        return kernels.log_likelihoods(self.systems, checked.X, checked.offsets)[:, 0]

    def smooth(self, sequences: SequencesLike) -> list[Smoothed]:
        """Return means, covariances and lag-one covariances of the states given each sequence."""
        checked = checked_sequences(sequences, self.n_dims)
        return kernels.smooth(self.systems, checked.X, checked.offsets)

    def sample(self, n_sequences: int, length: npt.ArrayLike, random_state: RandomState = None) -> Sequences:
        """Return random sequences; `length` is one for all, or one for each."""
        lengths = checked_lengths(n_sequences, length)
        return Sequences([_sample(self, int(T), rng) for T, rng in _spawned(lengths, generator(random_state))])

    def __repr__(self) -> str:
        return (
            f"LinearDynamicalSystem(n_states={self.n_states}, n_dims={self.n_dims}, "
            f"spectral_radius={self.spectral_radius:.3g})"
        )


class MixtureOfLDS(Immutable):
    """A mixture of K linear dynamical systems: p(y) = Σ_k ω_k p(y | system k).

    Parameters
    ----------
    systems : list of LinearDynamicalSystem
        The systems, all with n-dimensional states and d-dimensional observations.
    weights : array of shape (K,), optional
        Mixture weights ω; uniform by default.
    ids : list, optional
        One name per system.

    Examples
    --------
    >>> from vhem import LinearDynamicalSystem, MixtureOfLDS
    >>> calm = LinearDynamicalSystem([[0.5]], [[1.0]], [[0.1]], 0.1)
    >>> wild = LinearDynamicalSystem([[0.9]], [[1.0]], [[4.0]], 0.1)
    >>> mixture = MixtureOfLDS([calm, wild])
    >>> mixture
    MixtureOfLDS(n_systems=2, n_states=1, n_dims=1)
    >>> mixture.predict([[0.1, -0.2, 0.1], [4.0, 6.0, 5.0]])
    array([0, 1])
    """

    weights: FloatArray
    parameters: Systems
    ids: list[Any]

    def __init__(
        self,
        systems: Iterable[LinearDynamicalSystem],
        weights: npt.ArrayLike | None = None,
        ids: Iterable[Any] | None = None,
    ) -> None:
        members = list(systems)
        if not members:
            raise InputError("{systems} is empty; a mixture needs at least one LinearDynamicalSystem")
        for k, system in enumerate(members):
            if not isinstance(system, LinearDynamicalSystem):
                cure = "give LinearDynamicalSystem objects"
                raise InputTypeError("{systems}[{k}] is a {kind}", cure, k=k, kind=type(system).__name__)
            if system.C.shape != members[0].C.shape:
                raise InputError(
                    "{systems}[{k}] has {n:state} and {d:dimension}, but {systems}[0] has {first_n} and {first_d}; "
                    "all systems of a mixture must have the same sizes",
                    k=k, n=Count(system.n_states), d=Count(system.n_dims), first_n=members[0].n_states,
                    first_d=members[0].n_dims,
                )  # fmt: skip
        stacked = Systems._make(map(np.concatenate, zip(*(system.systems for system in members), strict=True)))
        named = checked_ids(ids, len(members), "systems")
        self._assign(stacked, checked_weights(weights, len(members), "system"), named)

    def _assign(self, parameters: Systems, weights: FloatArray, ids: list[Any]) -> None:
        for array in parameters:
            array.flags.writeable = False
        self._set(parameters=parameters, weights=weights, ids=ids)

    @classmethod
    def of(cls, parameters: Systems, weights: FloatArray) -> MixtureOfLDS:
        """Return the mixture of stacked arrays, after checking them."""
        one = [LinearDynamicalSystem(*(array[k] for array in parameters)) for k in range(len(weights))]
        return cls(one, weights)

    @property
    def n_states(self) -> int:
        """The number of dimensions of the states n."""
        return int(self.parameters.mean.shape[1])

    @property
    def n_dims(self) -> int:
        """The number of dimensions of the observations d."""
        return int(self.parameters.offset.shape[1])

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[LinearDynamicalSystem]:
        return (self[k] for k in range(len(self)))

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> LinearDynamicalSystem: ...
    @overload
    def __getitem__(self, index: slice | npt.ArrayLike) -> MixtureOfLDS: ...
    def __getitem__(self, index: Any) -> LinearDynamicalSystem | MixtureOfLDS:
        """Return a system for an integer, and a mixture with rescaled weights for a slice, index array or mask."""
        chosen = positions(index, len(self), "system")
        if chosen.ndim == 0:
            return LinearDynamicalSystem(*(array[chosen] for array in self.parameters))
        members = [self[int(k)] for k in chosen]
        return MixtureOfLDS(members, shares(self.weights[chosen]), [self.ids[k] for k in chosen])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MixtureOfLDS):
            return NotImplemented
        same = map(np.array_equal, self.parameters, other.parameters)
        return np.array_equal(self.weights, other.weights) and all(same)

    __hash__ = None

    def log_likelihoods(self, sequences: SequencesLike) -> FloatArray:
        """Return log p(y_i | system k), (n, K)."""
        checked = checked_sequences(sequences, self.n_dims)
        return kernels.log_likelihoods(self.parameters, checked.X, checked.offsets)

    def _log_joint(self, sequences: SequencesLike) -> FloatArray:
        with np.errstate(divide="ignore"):
            return self.log_likelihoods(sequences) + np.log(self.weights)

    def score_samples(self, sequences: SequencesLike) -> FloatArray:
        """Return the log-likelihood of each sequence under the mixture, (n,)."""
        return np.asarray(np.logaddexp.reduce(self._log_joint(sequences), axis=1))

    def predict_proba(self, sequences: SequencesLike) -> FloatArray:
        """Return the probability of each system for each sequence, (n, K)."""
        return np.asarray(softmax(self._log_joint(sequences), axis=1))

    def predict(self, sequences: SequencesLike) -> IntArray:
        """Return the most probable system of each sequence, (n,)."""
        return np.asarray(self._log_joint(sequences).argmax(axis=1), dtype=np.int64)

    def sample(
        self, n_sequences: int, length: npt.ArrayLike, random_state: RandomState = None
    ) -> tuple[Sequences, IntArray]:
        """Return random sequences, each from a system drawn by the weights, and the systems drawn."""
        lengths = checked_lengths(n_sequences, length)
        rng = generator(random_state)
        labels = rng.choice(len(self), size=n_sequences, p=self.weights).astype(np.int64)
        systems = list(self)
        drawn = zip(labels, _spawned(lengths, rng), strict=True)
        return Sequences([_sample(systems[k], int(T), own) for k, (T, own) in drawn]), labels

    def __repr__(self) -> str:
        return f"MixtureOfLDS(n_systems={len(self)}, n_states={self.n_states}, n_dims={self.n_dims})"


def _spawned(lengths: IntArray, rng: np.random.Generator) -> Iterator[tuple[int, np.random.Generator]]:
    return zip(lengths, rng.spawn(len(lengths)), strict=True)


def _sample(system: LinearDynamicalSystem, T: int, rng: np.random.Generator) -> FloatArray:
    root, x = _root(system.Q), system.mean + _root(system.covar) @ rng.standard_normal(system.n_states)
    states = np.empty((T, system.n_states))
    for t in range(T):
        states[t] = x
        x = system.A @ x + root @ rng.standard_normal(system.n_states)
    return states @ system.C.T + system.offset + np.sqrt(system.R) * rng.standard_normal((T, system.n_dims))


def _root(covar: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covar)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _check_shape(name: str, array: FloatArray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ParameterError(name, array.shape, "has shape {value}, but {A} and {C} need {shape}", shape=shape)


def _check_finite(name: str, array: FloatArray) -> None:
    if not np.isfinite(array).all():
        raise ParameterError(name, array[~np.isfinite(array)][0], "holds {value}; parameters must be finite")


def _checked_covariance(name: str, covar: npt.ArrayLike, n: int) -> FloatArray:
    matrix = floats(covar, name)
    _check_shape(name, matrix, (n, n))
    _check_finite(name, matrix)
    if np.abs(matrix - matrix.T).max() > SYMMETRY_TOLERANCE * np.abs(matrix).max():
        raise InputError("{name} is not symmetric", "give ({name} + {name}ᵀ)/2", name=name)
    values = np.linalg.eigvalsh(matrix)
    if values[0] < _NEGATIVE * max(abs(values[-1]), 1e-300):
        problem = "has the eigenvalue {value:.3g}; a covariance has no negative eigenvalues"
        raise ParameterError(name, values[0], problem)
    return 0.5 * (matrix + matrix.T)


def _pack(mixture: MixtureOfLDS) -> State:
    return {**mixture.parameters._asdict(), "weights": mixture.weights, "ids": Ids(mixture.ids)}


def _unpack(state: State) -> MixtureOfLDS:
    """Return the mixture of a file: its values are checked, and then kept exactly, bit by bit."""
    systems = Systems(*(state[name] for name in Systems._fields))
    made = MixtureOfLDS(MixtureOfLDS.of(systems, state["weights"]), state["weights"], state["ids"])
    check_alike(state, {"weights": made.weights})
    check_alike(state, made.parameters._asdict())
    made._assign(systems, state["weights"], made.ids)
    return made


register_model(LinearDynamicalSystem, *Systems._fields)
register(Kind("MixtureOfLDS", MixtureOfLDS, _pack, _unpack, rows=("weights", *Systems._fields, "ids")))
