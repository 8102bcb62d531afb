"""A longer attack than the tests': damaged files, odd tables and numerical problems, for as long as one likes.

    python tests/fuzz.py --seconds 600 --seed 1

Every case is made from its number alone, so that a finding can be repeated: ``--only tables --first 1234 --cases 1``.
Accepted is a result whose numbers are finite, or an error of vhem's own. Everything else is a finding.
"""

from __future__ import annotations

import argparse
import collections
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

import vhem
import vhem.files
from vhem._support.errors import Explained
from vhem.files import ModelFileError

OWN = (Explained, ModelFileError, FileNotFoundError)  # FileNotFoundError: a folder without any file that can be read


def finite(h3m):
    """Refuse models with numbers that are not finite, or probabilities that do not sum to one."""
    for name in ("startprob", "transmat", "means", "covars", "weights"):
        assert np.isfinite(getattr(h3m, name)).all(), f"{name} is not finite"
    np.testing.assert_allclose(h3m.startprob.sum(axis=-1), 1, atol=1e-9)


# Files


def pristine(folder):
    """Return the bytes of model files of several kinds."""
    rng = np.random.default_rng(0)
    sequences = vhem.Sequences([rng.normal(size=(12, 2)) for _ in range(6)])
    hmms = vhem.fit_hmms(sequences, 2, random_state=0, pooling=None)
    fit = vhem.VHEM(2, random_state=0, max_iter=0, tol=0).fit(hmms)
    files = []
    for name, thing in (("h3m", hmms), ("fit", fit), ("sequences", sequences)):
        thing.save(folder / f"{name}.vhem")
        files.append((".vhem", (folder / f"{name}.vhem").read_bytes()))
    for extension, write in ((".npz", vhem.files.to_npz), (".json", vhem.files.to_json)):
        write(hmms, folder / f"h3m{extension}")
        files.append((extension, (folder / f"h3m{extension}").read_bytes()))
    return files


def damaged(content, rng):
    """Return bytes with some of them changed, left out, repeated or cut off."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        at, n = int(rng.integers(max(1, len(data)))), int(rng.integers(1, 40))
        match int(rng.integers(5)):
            case 0:
                data[at : at + 1] = bytes(b ^ 1 << int(rng.integers(8)) for b in data[at : at + 1])
            case 1:
                data[at : at + n] = rng.bytes(n)
            case 2:
                del data[at : at + n]
            case 3:
                data[at:at] = data[at : at + n]
            case 4:
                del data[max(at, 1) :]
    return bytes(data)


def attack_files(rng, folder, files):
    extension, content = files[int(rng.integers(len(files)))]
    path = folder / f"damaged{extension}"
    path.write_bytes(damaged(content, rng))
    read = {".npz": vhem.files.from_npz, ".json": vhem.files.from_json}.get(extension, vhem.load)
    found = read(path)
    if isinstance(found, vhem.H3M):
        finite(found)


# Tables

CELLS = ["", "NA", "nan", "-", "1", "2.5", "1,5", "-9999", "1e300", "1e-300", "inf", "0x10", "١٢", "1_0", '"', "a"]
CELLS += ["=1+1", "é", "\ufeff", "\x00", "999999999999999999999", "2020-01-01", "2020-03-29T02:30:00+01:00", " 3 "]
CELLS += ["True", "'", "\t"]
NAMES = ["id", "subject", "trial", "time", "x", "y", "group", "", "x", '"x"', "id ", "=cmd", "1", "é"]


def attack_tables(rng, folder, _):
    n_columns, n_rows = int(rng.integers(1, 7)), int(rng.integers(0, 30))
    separator = str(rng.choice([",", ";", "\t", " ", "|"]))
    plain = rng.random() < 0.5  # numbers with a few odd cells, rather than odd cells throughout
    lines = [separator.join(rng.choice(NAMES, n_columns))]
    for row in range(n_rows):
        odd = [not plain or rng.random() < 0.05 for _ in range(n_columns)]
        cells = [str(rng.choice(CELLS)) if strange else f"{rng.normal():.3f}" for strange in odd]
        if plain:
            cells[0] = str(row // 5)
        lines.append(separator.join(cells[: n_columns + int(rng.integers(-1, 2)) * (rng.random() < 0.05)]))
    text = str(rng.choice(["\n", "\r\n", "\r"])).join(lines)
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    path = folder / f"table{rng.choice(['.csv', '.tsv', '.txt'])}"
    path.write_bytes(text.encode(encoding, errors="replace"))
    options = {"id": [], "encoding": encoding} if rng.random() < 0.3 else {}
    sequences = vhem.read_sequences(path, **options)
    assert len(sequences.X) <= n_rows
    assert not np.isinf(sequences.X).any()


# Numbers


def attack_numbers(rng, folder, _):
    d, n = int(rng.integers(1, 4)), int(rng.integers(2, 8))
    scale, offset = 10.0 ** rng.integers(-8, 9, size=d), 10.0 ** rng.integers(-3, 7) * rng.integers(0, 2)
    sequences = []
    for _ in range(n):
        X = rng.normal(size=(int(rng.integers(1, 40)), d))
        match int(rng.integers(5)):
            case 0:
                X = np.round(X)
            case 1:
                X[:] = X[0]
            case 2:
                X[rng.random(X.shape) < 0.3] = np.nan
            case 3:
                X = np.repeat(X[:3], 10, axis=0)
        sequences.append(X * scale + offset)
    kind = str(rng.choice(["diag", "full"]))
    states, mix, seed = int(rng.integers(1, 5)), int(rng.integers(1, 3)), int(rng.integers(100))
    priors = dict.fromkeys(("startprob_prior", "transmat_prior", "covars_prior"), float(rng.choice([0.0, 0.1])))
    hmms = vhem.fit_hmms(sequences, states, mix, kind, random_state=seed, max_iter=15, **priors)
    finite(hmms)
    k = int(rng.integers(1, n + 1))
    fit = vhem.VHEM(k, tau=int(rng.integers(1, 30)), random_state=seed, max_iter=15).fit(hmms)
    finite(fit.centers_)
    finite(vhem.MixtureOfHMMs(min(k, 2), states, random_state=seed, max_iter=10, n_init=1).fit(sequences).model_)
    assert np.isfinite(fit.centers_.score_samples(sequences)).all()


ATTACKS = {"files": attack_files, "tables": attack_tables, "numbers": attack_numbers}


def run(name, seconds, seed, first, cases):
    """Attack for some seconds; return the number of cases and the findings."""
    outcomes, findings, end = collections.Counter(), [], time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as where:
        folder, case = Path(where), first
        files = pristine(folder)
        while time.monotonic() < end and case - first < cases:
            rng = np.random.default_rng([seed, case])
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    ATTACKS[name](rng, folder, files)
                    outcomes["accepted"] += 1
                except OWN as refusal:
                    outcomes[type(refusal).__name__] += 1
                except Exception:
                    findings.append((case, traceback.format_exc()))
            foreign = [str(w.message) for w in caught if not isinstance(w.message, Explained)]
            if foreign:
                findings.append((case, f"a warning that is not vhem's: {foreign[0]}"))
            case += 1
    print(f"{name}: {case - first} cases, {len(findings)} findings; {dict(outcomes)}", flush=True)
    for number, what in findings[:5]:
        print(f"--only {name} --seed {seed} --first {number} --cases 1\n{what}")
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="per kind of attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(ATTACKS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10**9)
    given = parser.parse_args()
    names = [given.only] if given.only else list(ATTACKS)
    findings = [run(name, given.seconds, given.seed, given.first, given.cases) for name in names]
    raise SystemExit(bool(sum(map(len, findings))))


if __name__ == "__main__":
    main()
