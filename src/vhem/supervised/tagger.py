"""H3MTagger: finds the tags that fit a song, and the songs that fit a tag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, get_type_hints

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from vhem._support.arrays import FloatArray, IntArray
from vhem._support.checks import check_choice, check_integer
from vhem._support.errors import Count, InputError, ParameterError
from vhem._support.indexing import positions
from vhem._support.randomness import generator
from vhem._support.saving import Kind, Saveable, State, attributes, check_types, register, register_estimator
from vhem.em.estimator import Estimator
from vhem.em.parameters import check_parameters, documented
from vhem.metrics import best_tags, retrieval_scores
from vhem.sequences import Sequences, SequencesLike, as_sequences
from vhem.supervised.checks import check_observed
from vhem.supervised.tag_models import FAMILIES, Tagged, TaggingSettings, TagModel

_POLISH = 5  # iterations of EM on the fragments of a tag's songs


class Songs(Saveable):
    """Songs with their models, as returned by `H3MTagger.learn_songs`, for any number of fits.

    ``songs[index]`` chooses some, so that scikit-learn's splitters can.

    Attributes
    ----------
    sequences : Sequences
        The songs.
    models : list
        The model of each.
    made_by : dict
        The parameters of the tagger that affect them.
    """

    sequences: Sequences
    models: list[TagModel | FloatArray]  # with "em" nothing is learned from single songs
    made_by: dict[str, Any]

    def __init__(self, sequences: Sequences, models: list[Any], made_by: dict[str, Any]) -> None:
        if len(models) != len(sequences):
            raise InputError(
                "there are {n:model} for {m:song}", "give one for each", n=Count(len(models)), m=Count(len(sequences))
            )
        self.sequences, self.models, self.made_by = sequences, models, made_by

    @property
    def shape(self) -> tuple[int]:
        """``(n,)``: scikit-learn's splitters ask for it."""
        return (len(self),)

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, index: Any) -> Songs:
        chosen = np.atleast_1d(positions(index[0] if isinstance(index, tuple) else index, len(self), "song"))
        return Songs(self.sequences[chosen], [self.models[i] for i in chosen], self.made_by)

    def __repr__(self) -> str:
        return f"Songs(n={len(self)}, method={self.made_by['method']!r})"


class Annotation(NamedTuple):
    """A tag of a song."""

    tag: Any
    probability: float


@documented
@dataclass(eq=False, repr=False)
class H3MTagger(Estimator):
    """Annotate songs with tags, and find songs for a tag, with one model per tag.

    Supervised multiclass labelling: songs are cut into fragments; a small mixture of HMMs is learned for every song by
    EM; those of all songs that have a tag are pooled and reduced to the tag's model by `VHEM`. A song Y with fragments
    y_1 … y_N gets p(tag | Y) ∝ Π_n p(y_n | tag)^(1/N), per frame: its semantic multinomial.

    Parameters
    ----------
    method : {"vhem", "em", "dtm", "gmm"}
        "vhem" as above. "em": the mixture of a tag is learned by EM from the fragments of all its songs. "dtm": linear
        dynamical systems instead of HMMs (`DynamicTextureMixture`, `HEMDynamicTextures`). "gmm": Gaussian
        mixtures of single frames, blind to time (HEM-GMM).
    n_components, song_components : int
        Components of the model of a tag, and of a song.
    n_states, n_mix : int
        States of each HMM (dimensions of the state of a linear system), Gaussians per state.
    song_states, song_mix : int, optional
        The same for the models of songs, with "vhem"; None: as for the models of tags.
    covariance_type : {"diag", "full"}
        Form of the covariances.
    fragment_length, hop : int
        Frames per fragment, and frames from the start of one to the start of the next; None: half a fragment. Shorter
        songs are one fragment.
    tau : int, optional
        Length of the virtual sequences of the reduction; None: that of a fragment.
    n_virtual : float
        Virtual sequences per model, see `VHEM`.
    n_init, max_iter, tol
        Restarts of the reduction (of EM, for "em"), and when it stops.
    polish : int, optional
        Iterations of EM on the fragments of a tag's songs, starting from the centres of the reduction (method "vhem").
        None: 5. 0: the centres stay as VHEM made them.
    reg_covar : float
        Variance floor, see `fit_hmms`.
    <random_state>
    <n_jobs>
    <verbose>

    Attributes
    ----------
    tag_models_ : list
        One model per tag: an `H3M`, for "dtm" a `MixtureOfLDS`, for "gmm" a `GMM`.
    tag_names_ : list
        The tags; 0, 1, … if no names were given.
    tag_shares_ : ndarray of shape (V,)
        Share of the training songs that have each tag.
    n_features_in_ : int
        Dimensions of the songs.

    References
    ----------
    G. Carneiro, A. B. Chan, P. J. Moreno, N. Vasconcelos, "Supervised learning of semantic classes for image annotation
    and retrieval", IEEE Transactions on Pattern Analysis and Machine Intelligence 29(3), 2007. D. Turnbull, L.
    Barrington, D. Torres, G. Lanckriet, "Semantic annotation and retrieval of music and sound effects", IEEE
    Transactions on Audio, Speech, and Language Processing 16(2), 2008.

    Examples
    --------
    >>> import numpy as np, vhem
    >>> rng = np.random.default_rng(0)
    >>> calm = [rng.normal(size=(60, 2)) for _ in range(6)]
    >>> wild = [rng.normal(size=(60, 2)) * 3 for _ in range(6)]
    >>> tags = np.repeat([[1, 0], [0, 1]], 6, axis=0)
    >>> tagger = vhem.H3MTagger(n_components=2, song_components=1, n_states=1, fragment_length=20, random_state=0)
    >>> tagger = tagger.fit(calm + wild, tags, tag_names=["calm", "wild"])
    >>> [best.tag for (best,) in tagger.annotate([calm[0], wild[0]], n_tags=1)]
    ['calm', 'wild']
    >>> tagger.retrieve([calm[0], wild[0]], "wild")
    array([1, 0])
    """

    method: str = "vhem"
    n_components: int = 8
    song_components: int = 2
    n_states: int = 4
    n_mix: int = 1
    song_states: int | None = None
    song_mix: int | None = None
    covariance_type: str = "diag"
    fragment_length: int = 125
    hop: int | None = None
    tau: int | None = None
    n_virtual: float = 1.0
    n_init: int = 3
    max_iter: int = 50
    tol: float = 1e-4
    reg_covar: float = 1e-3
    random_state: Any = None
    n_jobs: int | None = None
    verbose: bool | None = None
    polish: int | None = None

    tag_models_: list[TagModel] = field(init=False)
    tag_names_: list[Any] = field(init=False)
    tag_shares_: FloatArray = field(init=False)
    n_features_in_: int = field(init=False)

    def learn_songs(self, X: SequencesLike) -> Songs:
        """Learn the models of songs, once for all tags and folds.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array or Sequences
            The songs.

        Returns
        -------
        Songs
            To be passed, all or some of them, to `fit` and `predict_proba` of taggers with the same parameters.
        """
        settings = self._settings()
        sequences = as_sequences(X)
        check_observed(sequences)
        rng = generator(self.random_state)
        return Songs(sequences, FAMILIES[self.method].learn_songs(sequences, settings, rng), self._song_parameters())

    def fit(self, X: SequencesLike | Songs, y: npt.ArrayLike, tag_names: Iterable[Any] | None = None) -> Self:
        """Learn the models of the tags.

        Parameters
        ----------
        X : list of (T_i, d) arrays, 3-D array, Sequences or Songs
            The songs, or the result of `learn_songs`.
        y : array of shape (n, V)
            Whether a song has a tag; values between 0 and 1 are its weight in the tag's model.
        tag_names : list, optional
            Names of the tags.

        Returns
        -------
        H3MTagger
            This tagger, fitted.
        """
        settings = self._settings()
        n = len(X) if isinstance(X, Songs) else len(X := as_sequences(X))
        weights = _checked_tags(y, n)
        names = _checked_names(tag_names, weights)
        songs = X if isinstance(X, Songs) else self.learn_songs(X)
        self._check_songs(songs)
        self.tag_names_, self.tag_shares_ = names, weights.mean(axis=0)
        self.tag_models_ = []
        family = FAMILIES[self.method]
        for column, rng in zip(weights.T, generator(self.random_state).spawn(len(names)), strict=True):
            chosen = np.flatnonzero(column)
            tagged = Tagged(songs.sequences[chosen], [songs.models[i] for i in chosen], column[chosen])
            self.tag_models_.append(family.learn_tag(tagged, settings, rng))
        self.n_features_in_ = songs.sequences.n_dims
        return self

    def decision_function(self, X: SequencesLike | Songs) -> FloatArray:
        """Return log p(song | tag) per frame, averaged over the fragments of each song, (n, V)."""
        check_is_fitted(self)
        sequences = X.sequences if isinstance(X, Songs) else as_sequences(X)
        if sequences.n_dims != self.n_features_in_:
            raise InputError(
                "{X} has {n:dimension}, but the training songs had {before}",
                n=Count(sequences.n_dims), before=self.n_features_in_,
            )  # fmt: skip
        check_observed(sequences)
        return FAMILIES[self.method].log_likelihoods(sequences, self.tag_models_, self._settings())

    def predict_proba(self, X: SequencesLike | Songs) -> FloatArray:
        """Return the semantic multinomial of each song: the probabilities of the tags, which sum to one, (n, V)."""
        return np.asarray(softmax(self.decision_function(X), axis=1))

    def annotate(self, X: SequencesLike | Songs, n_tags: int = 10) -> list[list[Annotation]]:
        """Return the `n_tags` best tags of each song with their probabilities, best first."""
        probabilities = self.predict_proba(X)
        return [
            [Annotation(self.tag_names_[k], float(row[k])) for k in chosen]
            for row, chosen in zip(probabilities, best_tags(probabilities, n_tags), strict=True)
        ]

    def retrieve(self, X: SequencesLike | Songs, tag: Any, n_songs: int | None = None) -> IntArray:
        """Return the indices of the songs that fit a tag, given by name, best first: all, or `n_songs`."""
        check_is_fitted(self)
        if tag not in self.tag_names_:
            more = " and others" if len(self.tag_names_) > 10 else ""
            known = ", ".join(map(repr, self.tag_names_[:10])) + more
            raise ParameterError("tag", tag, "must be one of the tags {known}", known=known)
        column = self.predict_proba(X)[:, self.tag_names_.index(tag)]
        return np.asarray(np.argsort(-column, kind="stable")[:n_songs], dtype=np.int64)

    def score(self, X: SequencesLike | Songs, y: npt.ArrayLike) -> float:
        """Return the mean average precision: how well songs are ranked, per tag, and then on average."""
        return retrieval_scores(y, self.predict_proba(X)).means()["average_precision"]

    def _settings(self) -> TaggingSettings:
        check_choice("method", self.method, list(FAMILIES))
        sizes = ("n_components", "song_components", "n_states", "n_mix", "fragment_length", "n_init")
        check_parameters(self)
        song_states, song_mix = self._song_size()
        hop = max(1, self.fragment_length // 2) if self.hop is None else check_integer("hop", self.hop, 1)
        tau = self.fragment_length if self.tau is None else self.tau
        own = ("covariance_type", "n_virtual", "max_iter", "tol", "reg_covar", "n_jobs")
        given = {name: getattr(self, name) for name in (*sizes, *own)}
        polish = _POLISH if self.polish is None else check_integer("polish", self.polish, 0)
        return TaggingSettings(**given, song_states=song_states, song_mix=song_mix, hop=hop, tau=tau, polish=polish)

    def _song_size(self) -> tuple[int, int]:
        """Return the states and Gaussians per state of a song's HMMs; only with "vhem" may they differ from a tag's."""
        sizes = []
        for name, otherwise in (("song_states", self.n_states), ("song_mix", self.n_mix)):
            size = getattr(self, name)
            own = self.method == "vhem" and size is not None
            sizes.append(check_integer(name, size, 1) if own else otherwise)
        return sizes[0], sizes[1]

    def _song_parameters(self) -> dict[str, Any]:
        names = ("method", "song_components", "covariance_type", "fragment_length", "hop")
        states, mix = self._song_size()
        return {**{name: getattr(self, name) for name in names}, "song_states": states, "song_mix": mix}

    def _check_songs(self, songs: Songs) -> None:
        made = songs.made_by
        if "song_states" not in made:  # an older file, in which songs have the size of tags
            made = {**made, "song_states": made.get("n_states"), "song_mix": made.get("n_mix")}
        for name, value in self._song_parameters().items():
            if made.get(name) != value:
                raise InputError(
                    "the songs were learned with {name}={before!r}, but this tagger has {name}={value!r}",
                    "learn them again with learn_songs",
                    name=name, before=made.get(name), value=value,
                )  # fmt: skip


def _checked_tags(y: npt.ArrayLike, n_songs: int) -> FloatArray:
    weights = np.asarray(y, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[0] != n_songs or not weights.size:
        raise InputError(
            "{y} has shape {shape} for {n:song}; it must be (songs, tags)", shape=weights.shape, n=Count(n_songs)
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0) & (weights <= 1))
    if wrong.any():
        song, tag = (int(i) for i in np.argwhere(wrong)[0])
        problem = "{y} is {value} for song {song}, tag {tag}; values must be from 0 to 1"
        raise InputError(problem, value=weights[song, tag], song=song, tag=tag)
    return weights


def _checked_names(tag_names: Iterable[Any] | None, weights: FloatArray) -> list[Any]:
    V = weights.shape[1]
    names = list(range(V)) if tag_names is None else [getattr(name, "item", lambda n=name: n)() for name in tag_names]
    if len(names) != V or len(set(names)) != V:
        raise ParameterError("tag_names", names[:20], "must have a different name for each of {n:tag}", n=Count(V))
    empty = np.flatnonzero(~weights.any(axis=0))
    if len(empty):
        raise InputError(
            "{n:tag} {n:has|have} no song, {tag!r} first", "leave out tags that no training song has",
            n=Count(len(empty)), tag=names[empty[0]],
        )  # fmt: skip
    return names


def _unpack_songs(state: State) -> Songs:
    check_types(get_type_hints(Songs), state)
    as_they_are = state["made_by"].get("method") == "em"
    if any(isinstance(model, np.ndarray) != as_they_are for model in state["models"]):
        raise InputError("the models are not those of the method")
    return Songs(**state)


def _check_fitted(tagger: H3MTagger) -> None:
    n = len(tagger.tag_names_)
    if len(tagger.tag_models_) != n or tagger.tag_shares_.shape != (n,):
        raise InputError("tags, their models and their shares differ in number")
    if any(model.n_dims != tagger.n_features_in_ for model in tagger.tag_models_):
        raise InputError("the models of the tags differ in their dimensions")


register(Kind("Songs", Songs, attributes("sequences", "models", "made_by"), _unpack_songs))
register_estimator(H3MTagger, check=_check_fitted)
