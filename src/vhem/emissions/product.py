"""Several families side by side: each models its own columns, independent of the others given the component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from vhem._support.arrays import BoolArray, FloatArray, IntArray
from vhem._support.errors import InputError, InputTypeError
from vhem._support.places import Names
from vhem.emissions.block import BlockOfParts
from vhem.emissions.components import Components, FamilyPrior, Fault, Maximised, Number, Sums


@dataclass(frozen=True)
class ProductPrior(FamilyPrior):
    """The priors of the parts."""

    parts: tuple[FamilyPrior, ...]

    def take(self, index: Any) -> ProductPrior:
        """Return the priors of the HMMs at `index`."""
        return ProductPrior(tuple(part.take(index) for part in self.parts))

    @property
    def is_flat(self) -> bool:
        """Whether none adds anything to the objective."""
        return all(part.is_flat for part in self.parts)


class Product(BlockOfParts, Components):
    """Distributions of several families, each of its own columns.

    Given the state (and the component, if there are several), the parts are independent. A mixture of products shares
    its weights: with ``mix_weights``, parts depend on each other within a state.

    Parameters
    ----------
    parts : list of Categorical, Poisson, Gaussian, …
        The distributions, all of the same S states (with M components).
    columns : list of lists of int, optional
        The columns of a frame that each part models; one after another by default.

    Examples
    --------
    >>> import vhem
    >>> where = vhem.Gaussian(means=[[0.0, 0.0], [5.0, 5.0]], covars=[[1.0, 1.0], [1.0, 1.0]])
    >>> what = vhem.Categorical([[0.9, 0.1], [0.2, 0.8]])
    >>> vhem.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emissions=vhem.Product([where, what]))
    HMM(n_states=2, n_mix=1, n_dims=3, emissions='gaussian (columns 0, 1), categorical with 2 categories (column 2)')
    """

    parts: tuple[Components, ...]

    def __init__(self, parts: Sequence[Components], columns: Sequence[Sequence[int]] | None = None) -> None:
        self.parts = tuple(parts)
        _check_parts(self.parts)
        ends = list(accumulate((part.n_dims for part in self.parts), initial=0))
        default = [range(a, b) for a, b in pairwise(ends)]
        self.columns = tuple(tuple(int(c) for c in group) for group in (default if columns is None else columns))
        _check_columns(self.columns, self.parts)

    def _each(self, X: FloatArray) -> Iterator[tuple[Components, FloatArray]]:
        """Yield every part with its columns of `X`."""
        return ((part, X[:, list(group)]) for part, group in zip(self.parts, self.columns, strict=True))

    # -- arrays

    @property
    def kind(self) -> str:
        """The kinds of the parts, and their columns."""
        words = [
            f"{part.kind} (column{'s' if len(group) > 1 else ''} {', '.join(map(str, group))})"
            for part, group in zip(self.parts, self.columns, strict=True)
        ]
        return ", ".join(words)

    def reshaped(self, *lead: int) -> Product:
        """Return the same components under other leading axes."""
        return self._of([part.reshaped(*lead) for part in self.parts])

    def matched(self, others: Sequence[Components]) -> Product:
        """Return parts that can lie in one array with those of `others`."""
        every = [other.parts for other in others if isinstance(other, Product)]
        return self._of([part.matched([o[i] for o in every]) for i, part in enumerate(self.parts)])

    def with_covariances(self, covariance_type: str) -> Product:
        """Return the same distributions with "diag" or "full" covariances where they have any."""
        return self._of([part.with_covariances(covariance_type) for part in self.parts])

    def seen_by(self, other: Components) -> Product:
        """Return distributions in the form of `other`."""
        return self._of([mine.seen_by(theirs) for mine, theirs in self._pairs(other)])

    @classmethod
    def template(cls, X: FloatArray, n_categories: Sequence[int | None], covariance_type: str) -> Product:
        """Refuse: a product is made of the templates of its parts."""
        del X, n_categories, covariance_type
        raise InputError("a product needs to be told which columns are of which family")

    def checked(self, used: BoolArray, mix_weights: FloatArray, names: Names) -> Product:
        """Return components with harmless padding, if all are valid."""
        return self._of([part.checked(used, mix_weights, names) for part in self.parts])

    # -- frames

    def fault(self, X: FloatArray) -> Fault | None:
        """Return what is wrong with frames that a part cannot emit."""
        for (part, own), group in zip(self._each(X), self.columns, strict=True):
            found = part.fault(own)
            if found is not None:
                return found._replace(column=group[found.column])
        return None

    def features(self, X: FloatArray) -> FloatArray:
        """Return the features of all parts."""
        return np.concatenate([part.features(own) for part, own in self._each(X)], axis=1)

    @property
    def own_units(self) -> BoolArray:
        """Those of the parts."""
        return np.concatenate([part.own_units for part in self.parts])

    @property
    def tell_together(self) -> BoolArray:
        """Those of the parts."""
        return np.concatenate([part.tell_together for part in self.parts])

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the sum of the parts' log-densities."""
        return np.asarray(sum(part.log_density(own) for part, own in self._each(X)))

    def draw(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return random frames."""
        return self._side_by_side([part.draw(index, rng) for part in self.parts])

    def drawn_evenly(self, index: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return frames of which those of each part are as even as their number allows."""
        return self._side_by_side([part.drawn_evenly(index, rng) for part in self.parts])

    def _side_by_side(self, each: Sequence[FloatArray]) -> FloatArray:
        out = np.empty((len(each[0]), self.n_dims))
        for values, group in zip(each, self.columns, strict=True):
            out[:, list(group)] = values
        return out

    # -- sums: those of the parts under "0.first", "1.statistics", …; they share "count"

    def no_sums(self) -> Sums:
        """Return sums of nothing."""
        return _together([part.no_sums() for part in self.parts])

    def frame_sums(self, X: FloatArray, u: FloatArray, anchors: Components) -> Sums:
        """Return the sums over frames."""
        own = zip(self._each(X), self._pairs(anchors), strict=True)
        return _together([part.frame_sums(x, u, about) for (part, x), (_, about) in own])

    def expected_sums(self, u: FloatArray, anchors: Components) -> Sums:
        """Return the sums expected of frames drawn from these components."""
        return _together([part.expected_sums(u, about) for part, about in self._pairs(anchors)])

    def maximised(self, sums: Sums, anchors: Components, prior: FamilyPrior | None) -> Maximised:
        """Return the parts that their sums make most likely."""
        made = [
            part.maximised(sums_of_part(sums, i), about, None if prior is None else _parts(prior)[i])
            for i, (part, about) in enumerate(self._pairs(anchors))
        ]
        return Maximised(self._of([one.components for one in made]), any(one.far for one in made))

    # -- pairs

    def expected_log_density(self, other: Components) -> FloatArray:
        """Return the sum of the parts' expectations."""
        return np.asarray(sum(mine.expected_log_density(theirs) for mine, theirs in self._pairs(other)))

    def log_overlap(self, other: Components, power: float) -> FloatArray:
        """Return the sum of the parts' log-overlaps."""
        return np.asarray(sum(mine.log_overlap(theirs, power) for mine, theirs in self._pairs(other)))

    # -- priors, starts, summaries

    def typical(self, X: FloatArray, offsets: IntArray, mean: FloatArray, variance: FloatArray) -> ProductPrior:
        """Return what is typical of each part."""
        ends = list(accumulate((len(part.own_units) for part in self.parts), initial=0))
        spans = [slice(a, b) for a, b in pairwise(ends)]
        own = zip(self._each(X), spans, strict=True)
        return ProductPrior(
            tuple(part.typical(x, offsets, mean[:, span], variance[:, span]) for (part, x), span in own)
        )

    def prior(self, typical: FamilyPrior, count: float, floor: float) -> ProductPrior:
        """Return the priors of the parts."""
        return ProductPrior(tuple(part.prior(t, count, floor) for part, t in self._with(typical)))

    def within_reach(self, n: int, share: float) -> ProductPrior:
        """Return the limits of the parts."""
        return ProductPrior(tuple(part.within_reach(n, share) for part in self.parts))

    def _with(self, prior: FamilyPrior) -> Iterator[tuple[Components, FamilyPrior]]:
        return zip(self.parts, _parts(prior), strict=True)

    def labelled(self, X: FloatArray, labels: IntArray, typical: FamilyPrior, rng: np.random.Generator) -> Product:
        """Return one component for the frames of each label."""
        own = zip(self._each(X), _parts(typical), strict=True)
        return self._of([part.labelled(x, labels, t, rng) for (part, x), t in own])

    def log_prior(self, prior: FamilyPrior) -> FloatArray:
        """Return the sum of the parts' log densities."""
        return np.asarray(sum(part.log_prior(own) for part, own in self._with(prior)))

    def above_floor(self, prior: FamilyPrior) -> Product:
        """Return parts that the M-step could have made."""
        return self._of([part.above_floor(own) for part, own in self._with(prior)])

    def n_at_floor(self, prior: FamilyPrior) -> IntArray:
        """Return how many distributions of each HMM have a parameter at its limit."""
        return np.asarray(sum(part.n_at_floor(own) for part, own in self._with(prior)))

    def seeded(self, frames: FloatArray, prior: FamilyPrior, k: int | IntArray) -> Product:
        """Return one component around each of some frames."""
        own = zip(self._each(frames), _parts(prior), strict=True)
        return self._of([part.seeded(x, p, k) for (part, x), p in own])

    def nudged(self, amount: float, rng: np.random.Generator) -> Product:
        """Return parts moved at random."""
        return self._of([part.nudged(amount, rng) for part in self.parts])

    def apart(self, amount: float, whole: Components) -> tuple[Product, Product]:
        """Return the parts moved apart."""
        low, high = zip(*(mine.apart(amount, theirs) for mine, theirs in self._pairs(whole)), strict=True)
        return self._of(low), self._of(high)

    def n_parameters(self) -> int:
        """Return the free parameters of all parts."""
        return sum(part.n_parameters() for part in self.parts)

    def numbers(
        self, mix_weights: FloatArray, columns: Sequence[str], categories: Sequence[Sequence[str] | None]
    ) -> list[Number]:
        """Return the numbers of all parts."""
        return [
            number
            for part, group in zip(self.parts, self.columns, strict=True)
            for number in part.numbers(mix_weights, [columns[j] for j in group], [categories[j] for j in group])
        ]

    def centre(self) -> FloatArray:
        """Return where the parts lie."""
        return np.concatenate([part.centre() for part in self.parts], axis=-1)


def _parts(prior: FamilyPrior) -> tuple[FamilyPrior, ...]:
    assert isinstance(prior, ProductPrior)
    return prior.parts


def _together(each: list[Sums]) -> Sums:
    """Return the sums of the parts under their own names."""
    named = {f"{i}.{name}": array for i, sums in enumerate(each) for name, array in sums.items() if name != "count"}
    return {"count": each[0]["count"], **named}


def sums_of_part(sums: Sums, i: int) -> Sums:
    """Return the sums of one part under the names that it knows."""
    prefix = f"{i}."
    own = {name.removeprefix(prefix): array for name, array in sums.items() if name.startswith(prefix)}
    return {"count": sums["count"], **own}


def _check_parts(parts: tuple[Components, ...]) -> None:
    if not parts:
        raise InputError("a product needs at least one part")
    for i, part in enumerate(parts):
        if not isinstance(part, Components) or isinstance(part, Product):
            raise InputTypeError("{parts}[{i}] is a {kind}, not a single family", i=i, kind=type(part).__name__)
        if part.lead != parts[0].lead:
            raise InputError(
                "{parts}[{i}] has the leading axes {lead}, but {parts}[0] has {first}",
                "give every part the same states (S,), or states and components (S, M)",
                i=i, lead=part.lead, first=parts[0].lead,
            )  # fmt: skip


def _check_columns(columns: tuple[tuple[int, ...], ...], parts: tuple[Components, ...]) -> None:
    sizes = [part.n_dims for part in parts]
    if [len(group) for group in columns] != sizes or sorted(sum(columns, ())) != list(range(sum(sizes))):
        raise InputError(
            "{columns} are {columns_given} for parts of {sizes} columns: every column must belong to one part",
            columns_given=[list(group) for group in columns], sizes=sizes,
        )  # fmt: skip
