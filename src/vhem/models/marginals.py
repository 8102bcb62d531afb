"""What the states of an HMM emit in each channel, as numbers to draw and to put into words, whatever the family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem.emissions import Components
from vhem.models.hmm import HMM

BARS, COUNTS, CURVE, ROSE = "bars", "counts", "curve", "rose"  #: how a channel is drawn
_KINDS = {
    "categorical": BARS, "bernoulli": BARS, "poisson": COUNTS, "negativebinomial": COUNTS, "vonmises": ROSE,
    "vonmises:degrees": ROSE,
}  # fmt: skip
_DRAWS = 2000  # per state, to find where a channel's values are
_STEPS = 200  # of a curve
_ROSE_STEPS = 72
_BINS, _SECTORS = 40, 36  # of histograms
_MOST_COUNTS = 400
_NEGLIGIBLE = 0.005  # probability of a category that is not worth a word


class Channel(NamedTuple):
    """Where the values of a channel are, for one HMM or for many that are to be compared."""

    name: str
    kind: str  #: BARS, COUNTS, CURVE or ROSE
    values: FloatArray  #: (n,) codes, counts, values, or angles in radians
    categories: tuple[str, ...] | None  #: names of the values, for BARS
    radian: float = 1.0  #: in the units of the data, for ROSE


class Histogram(NamedTuple):
    """How often values of a channel were observed."""

    edges: FloatArray  #: (n + 1,) of the bins, in the units of `Channel.values`
    density: FloatArray  #: (n,) comparable with `Marginal.density`: a share of categories and counts


class Marginal(NamedTuple):
    """One channel of every state of an HMM."""

    channel: Channel
    density: FloatArray  #: (S, n) probability, or density, of each value in every state
    at_zero: FloatArray | None = None  #: (S,) probability of exactly zero, where amounts have a density otherwise
    observed: Histogram | None = None  #: what states are drawn over, scaled by the share of frames that are theirs


def channels_of(hmms: Iterable[HMM], names: Sequence[str] | None = None) -> list[Channel]:
    """Return where the values of each channel are in some HMMs, which have the same emissions.

    `names` are those of the dimensions; by default those that the first HMM knows.
    """
    models = list(hmms)
    drawn = np.concatenate([_drawn(hmm) for hmm in models])
    called = models[0].channels if names is None else list(names)
    return [_channel(models[0], j, called[j], drawn[:, j]) for j in range(models[0].n_dims)]


def marginals(hmm: HMM, channels: list[Channel] | None = None, names: Sequence[str] | None = None) -> list[Marginal]:
    """Return what the states of an HMM emit, channel by channel.

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.HMM([1.0], [[1.0]], emissions=vhem.Categorical([[0.7, 0.3]])).with_categories({0: ["sun", "rain"]})
    >>> found = marginals(hmm)[0]
    >>> found.channel.categories, found.density.round(2).tolist()
    (('sun', 'rain'), [[0.7, 0.3]])
    """
    found = channels_of([hmm], names) if channels is None else channels
    return [Marginal(c, _density(hmm, j, c.values * c.radian), _at_zero(hmm, j)) for j, c in enumerate(found)]


def histogram(channel: Channel, observed: FloatArray) -> Histogram:
    """Return the histogram of observed values, missing ones aside, as it is drawn behind what states emit.

    Examples
    --------
    >>> c = Channel("page", BARS, np.arange(2.0), ("search", "cart"))
    >>> histogram(c, np.array([0.0, 0.0, 1.0, np.nan])).density.round(2).tolist()
    [0.67, 0.33]
    """
    x = observed[~np.isnan(observed)] / channel.radian
    if channel.kind == ROSE:
        edges = np.linspace(-np.pi, np.pi, _SECTORS + 1)
        x = np.clip(np.angle(np.exp(1j * x)), -np.pi, np.pi)
    elif channel.kind in (BARS, COUNTS):
        edges = np.append(channel.values, channel.values[-1] + 1) - 0.5
    else:  # exact zeros are before the first value: they have a probability, not a density
        edges = np.linspace(channel.values[0], channel.values[-1], _BINS + 1)
    counts = np.histogram(x, edges)[0]
    per_radian = channel.radian if channel.kind == ROSE else 1.0  # densities are those of the data's units
    return Histogram(edges, counts / (max(len(x), 1) * np.diff(edges) * per_radian))


def _at_zero(hmm: HMM, column: int) -> FloatArray | None:
    """Return the probability of exact zeros, if a gamma has any."""
    if family_of(hmm.emissions, column) != "gamma":
        return None
    found = _density(hmm, column, np.zeros(1))[:, 0]
    return found if found.any() else None


def family_of(emissions: Components, column: int) -> str:
    """Return the name of the family that emits a column."""
    return str(_part_of(emissions, column).family)


def _part_of(emissions: Components, column: int) -> Components:
    parts: tuple[Components, ...] = getattr(emissions, "parts", ())
    for part, columns in zip(parts, getattr(emissions, "columns", ()), strict=True):
        if column in list(columns):
            return part
    return emissions


def kind_of(emissions: Components, column: int) -> str:
    """Return how a column is drawn."""
    return _KINDS.get(family_of(emissions, column), CURVE)


def _drawn(hmm: HMM) -> FloatArray:
    """Return random frames of all states, always the same, which show where values are."""
    rng = np.random.default_rng(0)
    index = np.flatnonzero(hmm.mix_weights.ravel() > 0)
    return hmm.emissions.draw(np.repeat(index, _DRAWS), rng)


def _channel(hmm: HMM, column: int, name: str, drawn: FloatArray) -> Channel:
    kind, names = kind_of(hmm.emissions, column), hmm.categories.get(hmm.channels[column])
    if kind == BARS:
        size = len(names) if names else _n_codes(hmm.emissions, column, drawn)
        values = np.arange(size, dtype=np.float64)
        names = names or tuple(str(code) for code in range(size))
    elif kind == COUNTS:
        values = np.arange(min(np.ceil(np.quantile(drawn, 0.999)), _MOST_COUNTS) + 1)
    elif kind == ROSE:
        values = np.linspace(-np.pi, np.pi, _ROSE_STEPS + 1)
    else:
        low, high = float(drawn.min()), float(drawn.max())
        margin = 0.05 * (high - low)
        values = np.linspace(low if low >= 0 > low - margin else low - margin, high + margin, _STEPS)
        values[0] = values[0] or 1e-3 * values[1]  # exactly zero may have a probability instead of a density
    turn = float(getattr(_part_of(hmm.emissions, column), "turn", 2 * np.pi))
    return Channel(name, kind, values, names if kind == BARS else None, turn / (2 * np.pi))


def _n_codes(emissions: Components, column: int, drawn: FloatArray) -> int:
    if family_of(emissions, column) == "bernoulli":
        return 2
    return int(getattr(_part_of(emissions, column), "n_categories", drawn.max() + 1))


def _density(hmm: HMM, column: int, values: FloatArray) -> FloatArray:
    """Return the density of some values in every state, (S, n); the other columns are missing: integrated out."""
    frames = np.full((len(values), hmm.n_dims), np.nan)
    frames[:, column] = values
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.exp(hmm.emissions.log_density(frames))
    each = np.where(np.isfinite(each), each, 0.0)
    return np.asarray(np.einsum("tsm,sm->st", each, hmm.mix_weights))


def in_words(marginal: Marginal, state: int, few: int = 4) -> str:
    """Return what a state emits in a channel: "page: search 62 %, cart 11 %", "cases 3.2 per frame", "x 3.1 ± 0.4".

    Examples
    --------
    >>> import vhem
    >>> hmm = vhem.HMM([1.0], [[1.0]], emissions=vhem.Categorical([[0.7, 0.3]])).with_categories({0: ["sun", "rain"]})
    >>> in_words(marginals(hmm)[0], 0)
    'x1: sun 70 %, rain 30 %'
    """
    p, (name, kind, values, categories, _) = marginal.density[state], marginal.channel
    if categories is not None:
        order = [k for k in np.argsort(-p, kind="stable")[:few] if p[k] >= _NEGLIGIBLE]
        return f"{name}: " + ", ".join(f"{categories[k]} {100 * p[k]:.0f} %" for k in order)
    share = p / max(p.sum(), 1e-300)
    if kind == ROSE:
        direction = (share * np.exp(1j * values)).sum()
        spread = np.degrees(np.sqrt(-2 * np.log(min(max(abs(direction), 1e-12), 1.0))))
        return f"{name} {np.degrees(np.angle(direction)):.0f}° ± {spread:.0f}°"
    mean = float(share @ values)
    if kind == COUNTS:
        return f"{name} {mean:.3g} per frame"
    zeros = "" if marginal.at_zero is None else f", zero in {100 * marginal.at_zero[state]:.0f} %"
    return f"{name} {mean:.3g} ± {np.sqrt(share @ (values - mean) ** 2):.3g}{zeros}"
