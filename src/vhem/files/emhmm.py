"""HMMs of the EMHMM toolbox (eye movement analysis with HMMs, MATLAB)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io

from vhem._support.errors import FitWarning, InputError, warn
from vhem._support.paths import existing_file
from vhem.emissions.normal_wishart import NormalWishart
from vhem.models import H3M, HMM
from vhem.models.posterior import ModelPosterior, joint_posterior


def from_emhmm(path: str | Path, variable: str | None = None) -> H3M:
    """Read HMMs that MATLAB's EMHMM toolbox learned or clustered.

    Parameters
    ----------
    path : str or Path
        A .mat file (up to version 7; not 7.3) with HMMs: structs with fields `prior`, `trans` and `pdf`, in a cell
        array, or in the field `hmms` of a struct, as the toolbox's clustering returns it.
    variable : str, optional
        Which variable of the file; needed only if several hold HMMs.

    Returns
    -------
    H3M
        One HMM per cell, with full covariances and uniform weights. If all of them have a posterior (`varpar`), it is
        kept. Ids are the names in `SubjNames` if the file has
        one for each HMM, otherwise 0, 1, …

    Examples
    --------
    >>> import numpy as np, scipy.io, tempfile
    >>> from pathlib import Path
    >>> state = {"mean": [[3.0, 4.0]], "cov": np.eye(2)}
    >>> cell = np.empty((1, 1), dtype=object)
    >>> cell[0, 0] = {"prior": 1.0, "trans": 1.0, "pdf": np.array([[state]], dtype=object)}
    >>> path = Path(tempfile.mkdtemp()) / "hmms.mat"
    >>> scipy.io.savemat(path, {"hmms": cell})
    >>> from_emhmm(path)
    H3M(n_hmms=1, n_states=1, n_mix=1, n_dims=2, covariance_type='full')
    """
    content = _loaded(path)
    cells = {name: _hmm_cells(value) for name, value in content.items() if not name.startswith("__")}
    found = {name: cell for name, cell in cells.items() if cell}
    if variable is not None and variable not in found:
        raise InputError(
            "{path} has no HMMs in {variable!r}", "{where}",
            path=path, variable=variable, where=_where(found),
        )  # fmt: skip
    if variable is None and len(found) != 1:
        raise InputError("{path}: {where}", *(["give {variable}"] if found else []), path=path, where=_where(found))
    name, chosen = next((n, c) for n, c in found.items() if variable in (None, n))
    present = [k for k, cell in enumerate(chosen) if cell is not None]
    if len(present) < len(chosen):
        empty = [k + 1 for k in range(len(chosen)) if k not in present]
        problem = "{path}: the cells {empty} of {name} are empty and were skipped"
        warn(FitWarning(problem, path=path, empty=empty, name=name))
    hmms = [_hmm(chosen[k], f"{path}, {name}{{{k + 1}}}") for k in present]
    names = _names(content.get("SubjNames"), len(chosen))
    h3m = H3M(hmms, ids=None if names is None else [names[k] for k in present])
    return h3m.with_posterior(joint_posterior([_posterior(chosen[k]) for k in present]))


def _posterior(struct: Any) -> ModelPosterior | None:
    """Return the posterior in `varpar`, if an HMM has one of Gaussian states."""
    try:
        known = struct["varpar"].ravel()[0]
        alpha, beta, v = (_floats(known[name]).ravel() for name in ("alpha", "beta", "v"))
        m = _floats(known["m"]).reshape(-1, len(alpha)).T
        W = np.moveaxis(_floats(known["W"]).reshape(m.shape[1], m.shape[1], len(alpha)), -1, 0)
        emissions = NormalWishart(beta[None], v[None], m[None], np.asarray(np.linalg.inv(W), np.float64)[None])
        epsilon = _floats(known["epsilon"]).reshape(1, len(alpha), len(alpha))
        amounts = (np.array([_floats(struct[name]).sum()]) for name in ("N", "N1"))
        return ModelPosterior(alpha[None], epsilon, emissions, *amounts)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, np.linalg.LinAlgError):
        return None


def _loaded(path: str | Path) -> dict[str, Any]:
    place = existing_file(path)
    try:
        return dict(scipy.io.loadmat(place))
    except NotImplementedError:
        raise InputError(
            "{path} is a MATLAB file of version 7.3 (HDF5), which vhem cannot read",
            "In MATLAB, save it with save(name, 'hmms', '-v7')",
            path=path,
        ) from None  # fmt: skip
    except Exception as fault:  # scipy may raise anything for a broken file
        raise InputError("{path} cannot be read as a MATLAB file: {fault}", path=path, fault=fault) from None


def _where(found: dict[str, list[Any]]) -> str:
    names = ", ".join(f"{name!r} ({len(cell)})" for name, cell in found.items())
    return f"HMMs are in {names}" if found else "no variable holds HMMs (structs with prior, trans and pdf)"


def _hmm_cells(value: Any) -> list[Any]:
    """Return the structs of HMMs that a variable holds, None for an empty cell; nothing if it holds no HMMs."""
    if not isinstance(value, np.ndarray):
        return []
    names = value.dtype.names or ()
    if {"prior", "trans", "pdf"} <= set(names):
        return list(value.ravel())
    if "hmms" in names and value.size == 1:
        return _hmm_cells(value.ravel()[0]["hmms"])
    if value.dtype != object or not value.size:
        return []
    cells = [_hmm_cells(cell) for cell in value.ravel()]
    one_each = [cell[0] if len(cell) == 1 else None for cell in cells]
    empty = [isinstance(cell, np.ndarray) and not cell.size for cell in value.ravel()]
    if not any(c is not None for c in one_each):
        return []
    whole = all(c is not None or e for c, e in zip(one_each, empty, strict=True))
    return one_each if whole else []


def _hmm(struct: Any, where: str) -> HMM:
    try:
        states = list(struct["pdf"].ravel())
        prior = _floats(struct["prior"]).ravel()
        trans = _floats(struct["trans"]).reshape(len(prior), len(prior))
        means = np.stack([_floats(_field(state, "mean")).ravel() for state in states])
        d = means.shape[1]
        covars = np.stack([_floats(_field(state, "cov")).reshape(d, d) for state in states])
        return HMM(prior / prior.sum(), trans / trans.sum(axis=1, keepdims=True), means, covars)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as fault:
        raise InputError("{where} is not an HMM with Gaussian states: {fault}", where=where, fault=fault) from None


def _field(state: Any, name: str) -> Any:
    """Return a field of a state, which is a 1×1 struct, in a cell or not."""
    return (state.ravel()[0] if isinstance(state, np.ndarray) else state)[name]


def _floats(value: Any) -> npt.NDArray[np.float64]:
    return np.asarray(value, dtype=np.float64)


def _names(value: Any, n: int) -> list[Any] | None:
    """Return the names in a cell array, if there is one for each HMM."""
    if not isinstance(value, np.ndarray) or value.size != n or value.dtype != object:
        return None
    names = [cell.ravel()[0] if isinstance(cell, np.ndarray) and cell.size == 1 else None for cell in value.ravel()]
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    return plain if all(isinstance(name, (str, int, float)) for name in plain) else None
