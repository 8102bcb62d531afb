"""What is known about the parameters of products of families: a conjugate distribution for each part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.emissions.block import BlockOfParts
from vhem.emissions.components import Components, Sums
from vhem.emissions.conjugate import Conjugate, Expected, Updated
from vhem.emissions.product import Product, sums_of_part


class ProductConjugate(BlockOfParts, Conjugate):
    """Independent distributions of the parameters of the parts."""

    parts: tuple[Conjugate, ...]

    def __init__(self, parts: Sequence[Conjugate], columns: Sequence[Sequence[int]]) -> None:
        self.parts, self.columns = tuple(parts), tuple(tuple(int(c) for c in group) for group in columns)

    def _product(self, parts: Sequence[Components]) -> Product:
        return Product(parts, self.columns)

    def expected(self) -> Expected:
        """Return exp E log of all parts."""
        each = [part.expected() for part in self.parts]
        loss = np.add.reduce([one.log_loss for one in each])
        return Expected(self._product([one.components for one in each]), np.asarray(loss))

    def updated(self, sums: Sums, anchors: Components, extra: float = 0.0) -> Updated:
        """Return the posterior of every part."""
        assert isinstance(anchors, Product)
        made = [
            part.updated(sums_of_part(sums, i), about, extra)
            for i, (part, about) in enumerate(zip(self.parts, anchors.parts, strict=True))
        ]
        return Updated(self._of([one.posterior for one in made]), any(one.far for one in made))

    def divergence(self, prior: Conjugate) -> FloatArray:
        """Return the sum of the parts' divergences."""
        return np.asarray(np.add.reduce([mine.divergence(theirs) for mine, theirs in self._pairs(prior)]))

    def point(self) -> Product:
        """Return the parts at their posterior means."""
        return self._product([part.point() for part in self.parts])

    def predictive(self) -> Product:
        """Return the parts as wide as the next frame."""
        return self._product([part.predictive() for part in self.parts])

    def drawn(self, rng: np.random.Generator) -> Product:
        """Return parts drawn at random."""
        return self._product([part.drawn(rng) for part in self.parts])

    def deviations(self) -> dict[str, FloatArray]:
        """Return posterior standard deviations, as "0.means", "1.rates", …."""
        return {f"{i}.{name}": a for i, part in enumerate(self.parts) for name, a in part.deviations().items()}
