"""Analysis of variance of scores over stimuli and models, by statsmodels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vhem._support.arrays import FloatArray
from vhem._support.optional import how_to_install


class Effect(NamedTuple):
    """One row of an analysis of variance."""

    name: str
    f: float
    df: float
    df_error: float
    p: float


def analysed(scores: FloatArray, repeated: bool) -> list[Effect]:
    """Return the effects of stimulus, model and both together on scores (subjects, stimuli, models)."""
    frame = _long(scores)
    return _repeated(frame) if repeated else _independent(frame)


def _long(scores: FloatArray) -> Any:
    try:
        import pandas as pd  # noqa: PLC0415  (statsmodels needs it)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"analysis of variance needs pandas: {how_to_install('paper')}.") from None
    subject, stimulus, model = (index.ravel() for index in np.indices(scores.shape))
    return pd.DataFrame({"score": scores.ravel(), "subject": subject, "stimulus": stimulus, "model": model})


def _independent(frame: Any) -> list[Effect]:
    """Type III sums of squares with ordinary residual error."""
    api, formula = _statsmodels()
    fit = formula.ols("score ~ C(stimulus, Sum) * C(model, Sum)", frame).fit()
    found = api.stats.anova_lm(fit, typ=3)
    rows = ("C(stimulus, Sum)", "C(model, Sum)", "C(stimulus, Sum):C(model, Sum)")
    error = float(found.loc["Residual", "df"])
    return [
        Effect(name, float(found.loc[row, "F"]), float(found.loc[row, "df"]), error, float(found.loc[row, "PR(>F)"]))
        for name, row in zip(("stimulus", "model", "stimulus × model"), rows, strict=True)
    ]


def _repeated(frame: Any) -> list[Effect]:
    api, _ = _statsmodels()
    found = api.stats.AnovaRM(frame, "score", "subject", within=["stimulus", "model"]).fit().anova_table
    return [
        Effect(name.replace(":", " × "), *(float(row[key]) for key in ("F Value", "Num DF", "Den DF", "Pr > F")))
        for name, row in found.iterrows()
    ]


def _statsmodels() -> tuple[Any, Any]:
    try:
        import statsmodels.formula.api as formula  # noqa: PLC0415
        from statsmodels import api  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"this needs statsmodels: {how_to_install('paper')}.") from None
    return api, formula
