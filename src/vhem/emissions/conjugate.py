"""What is known about the parameters of components: conjugate distributions, as priors and as posteriors.

E log f(y; θ) under a conjugate distribution of θ is the log density of another member of the family, plus a constant:
that is why variational Bayes runs on the same kernels as maximum likelihood. A block of these has the leading axes
(K, S), one component per state; a prior has (K, 1) if it is the same for all states of an HMM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.immutable import frozen
from vhem.emissions.components import Components, Sums


class Expected(NamedTuple):
    """E log f(y; θ) in a form that kernels can compute."""

    components: Components  #: (K, S)
    log_loss: FloatArray  #: (K, S) never positive; to be added to the log density of `components`


class Updated(NamedTuple):
    """A posterior, and whether the sums that it was made of have lost digits."""

    posterior: Conjugate
    far: bool


class Conjugate(ABC):
    """Distributions of the parameters of one family's components."""

    family: ClassVar[str]  #: of the components
    fields: ClassVar[tuple[str, ...]]  #: the names of the arrays

    @property
    @abstractmethod
    def lead(self) -> tuple[int, ...]:
        """The leading axes."""

    @property
    def layout(self) -> Any:
        """The family in plain data, as files hold it."""
        return self.family

    def arrays(self) -> dict[str, FloatArray]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self.fields}

    def map(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return distributions with every array changed in the same way, along leading axes."""
        return type(self)(*(change(getattr(self, name)) for name in self.fields))

    def take(self, index: Any) -> Self:
        """Return the distributions at `index` of the leading axes."""
        return self.map(lambda array: array[index])

    def put(self, index: Any, other: Self) -> None:
        """Overwrite the distributions at `index`."""
        for name in self.fields:
            getattr(self, name)[index] = getattr(other, name)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return several blocks as one, along their first axis."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.fields))

    def frozen(self) -> Self:
        """Return distributions whose arrays are read-only."""
        return self.map(frozen)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self.arrays().values(), other.arrays().values(), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    @abstractmethod
    def padding(self) -> Self:
        """Return one distribution, without leading axes, that is harmless to compute with."""

    @abstractmethod
    def expected(self) -> Expected:
        """Return exp E log f."""

    @abstractmethod
    def updated(self, sums: Sums, anchors: Components, extra: float = 0.0) -> Updated:
        """Return the posterior of this prior after the sums of an E-step; `extra` is EMHMM's own degree of freedom."""

    @abstractmethod
    def divergence(self, prior: Self) -> FloatArray:
        """Return KL[self ‖ prior], (K, S)."""

    @abstractmethod
    def point(self) -> Components:
        """Return the components at the posterior means of their parameters."""

    @abstractmethod
    def predictive(self) -> Components:
        """Return components as wide as the predictive distribution of the next frame."""

    @abstractmethod
    def drawn(self, rng: np.random.Generator) -> Components:
        """Return components with parameters drawn at random."""

    @abstractmethod
    def deviations(self) -> dict[str, FloatArray]:
        """Return posterior standard deviations, by the name of the components' arrays."""
