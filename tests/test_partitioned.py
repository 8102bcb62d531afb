"""Mixtures learned part by part: quality, exact counts, one answer however it is run, broken parts, interruptions."""

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import left_right, random_h3m
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import vhem
from vhem import H3M, HMM, MixtureOfHMMs, Part, PartError, PartitionedH3M, Sequences, read_parts, split_sequences
from vhem.executors import SerialExecutor, ThreadsExecutor, as_executor
from vhem.scale.condense import Summary, reduced, summarised
from vhem.scale.merge_order import everything, with_part
from vhem.scale.sample import Sample, drawn
from vhem.scale.state import State


def mixture(seed=0, K=4, S=3, d=2, spread=2.0):
    """Return a mixture of HMMs with sticky states, weights far from equal."""
    rng = np.random.default_rng(seed)
    hmms = []
    for _ in range(K):
        trans = rng.gamma(1.0, size=(S, S)) + 0.05 + 2 * np.eye(S)
        trans /= trans.sum(axis=1, keepdims=True)
        hmms.append(HMM(np.full(S, 1 / S), trans, spread * rng.normal(size=(S, d)), rng.uniform(0.3, 2, size=(S, d))))
    return H3M(hmms, weights=rng.dirichlet(np.full(K, 3.0)))


@pytest.fixture(scope="module")
def data():
    truth = mixture()
    sequences, labels = truth.sample(3000, 40, random_state=1)
    return truth, sequences, labels


def estimator(**arguments):
    return PartitionedH3M(
        **{"n_components": 4, "n_states": 3, "tau": 40, "n_sample": 500, "random_state": 0, **arguments}
    )


def write_parquet(path, sequences, rows_per_group, ids=None, columns=("x", "y")):
    names = np.arange(len(sequences)) if ids is None else np.asarray(ids, dtype=object)
    table = {"id": np.repeat(names, sequences.lengths), "t": np.concatenate([np.arange(n) for n in sequences.lengths])}
    table.update({name: sequences.X[:, k] for k, name in enumerate(columns)})
    pq.write_table(pa.table(table), path, row_group_size=rows_per_group)


def test_several_columns_name_the_sequences_of_parquet(tmp_path):
    """Sequences run on over row groups, and the second column alone does not tell them apart."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 40, size=24)
    rows = {"person": np.repeat(np.arange(24) // 4, lengths), "trial": np.repeat(np.arange(24) % 4, lengths)}
    rows |= {"x": rng.normal(size=lengths.sum())}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet", row_group_size=30)
    parts = vhem.read_parts(tmp_path / "t.parquet", ["person", "trial"], values=["x"], rows_per_part=50)
    assert len(parts) > 3
    read = [part.read() for part in parts]
    whole = vhem.read_sequences(tmp_path / "t.parquet", id=["person", "trial"], values=["x"])
    assert [name for part in read for name in part.ids] == whole.ids
    np.testing.assert_array_equal(np.concatenate([part.X for part in read]), whole.X)
    np.testing.assert_array_equal(np.concatenate([part.lengths for part in read]), whole.lengths)
    rows["trial"] = np.repeat(np.arange(24) % 3, lengths)  # a person's first trial comes again
    pq.write_table(pa.table(rows), tmp_path / "t.parquet", row_group_size=30)
    with pytest.raises(
        ValueError, match=r"rows of person / trial = \('?\d'?, \d\) are not adjacent .* Sort the file by"
    ):
        vhem.read_parts(tmp_path / "t.parquet", ["person", "trial"], values=["x"])


# Quality


@pytest.mark.parametrize("local", ["mixture", "hmms"])
def test_as_good_as_em_on_all_data(data, local):
    truth, sequences, _ = data
    held_out, labels = truth.sample(2000, 40, random_state=2)
    em = MixtureOfHMMs(4, 3, init=truth, max_iter=30, tol=1e-4).fit(sequences)  # the best that EM can reach
    fit = estimator(local=local).fit(split_sequences(sequences, 500))
    assert fit.model_.score(held_out) > em.score(held_out) - 0.01 * abs(em.score(held_out))
    theirs, ours = (adjusted_rand_score(labels, model.predict(held_out)) for model in (em, fit))
    assert ours > theirs - 0.02
    np.testing.assert_allclose(fit.model_.weights, np.sort(em.model_.weights)[::-1], atol=0.03)


def test_passes_over_all_data_are_em_steps(data):
    _, sequences, _ = data
    parts = split_sequences(sequences, 700)
    before = estimator(n_sample=3000, polish=False).fit(parts)
    after = estimator(n_sample=3000, n_passes=2).fit(parts)
    priors = {"startprob_prior": 1.0, "transmat_prior": 1.0, "covars_prior": 10.0}
    em = MixtureOfHMMs(4, 3, init=before.model_, max_iter=2, tol=0, **priors).fit(sequences)
    first = before.model_.score_samples(sequences).sum()
    assert after.lower_bounds_[0] == pytest.approx(first, rel=1e-10)
    for name in ("weights", "transmat", "means", "covars"):
        np.testing.assert_allclose(getattr(after.model_, name), getattr(em.model_, name), rtol=1e-6, atol=1e-9)


def test_polishing_is_em_that_makes_sequences_likelier_that_it_has_not_seen(data):
    truth, sequences, _ = data
    parts = split_sequences(sequences, 300)
    plain, polished = (estimator(polish=polish).fit(parts) for polish in (False, True))
    assert not len(plain.held_out_)
    assert len(polished.held_out_) == len(polished.lower_bounds_) + 1
    assert polished.held_out_[1] > polished.held_out_[0]
    fresh = truth.sample(2000, 40, random_state=3)[0]
    assert polished.score(fresh) > plain.score(fresh)
    assert not len(estimator(polish=True).fit(iter(parts)).held_out_)  # cannot be read again


def test_a_pass_that_does_not_help_is_not_kept(data):
    """EM towards other data than those held out: the parts are noise by the time they are read again."""
    _, sequences, _ = data
    noise = Sequences(np.random.default_rng(0).normal(9.0, 5.0, size=(500, 40, 2)))
    reads = iter([sequences[:500], sequences[500:1000], noise, noise])
    parts = [Part(name, lambda: next(reads)) for name in "ab"]
    fit = estimator(polish=True).fit(parts)
    assert len(fit.held_out_) == 2
    assert fit.held_out_[1] < fit.held_out_[0]
    again = estimator(polish=False).fit([sequences[:500], sequences[500:1000]])
    assert fit.score(sequences[1000:]) == pytest.approx(again.score(sequences[1000:]), rel=1e-2)


def test_a_rare_cluster_survives_the_sample():
    common = mixture(K=2)
    rare = HMM([1.0], [[1.0]], [[60.0, 60.0]], [[1.0, 1.0]])
    many = common.sample(4000, 30, random_state=0)[0]
    few = [rare.sample(1, 30, random_state=i)[0] for i in range(20)]
    parts = [list(many[i : i + 500]) + few[k : k + 3] for k, i in enumerate(range(0, 4000, 500))]
    fit = estimator(n_components=3, tau=30, n_sample=200).fit(parts)
    n_rare = sum(len(part) for part in parts) - 4000
    assert fit.model_.weights[-1] == pytest.approx(n_rare / fit.n_sequences_, rel=0.05)
    assert np.allclose(fit.model_.means[-1], 60, atol=1.5)


def test_left_right_stays_left_right():
    sequences = [left_right(3, 4.0).sample(1, 30, random_state=i)[0] for i in range(60)]
    fit = estimator(n_components=1, topology="left-right", tau=30).fit([sequences[:30], sequences[30:]])
    assert np.all(np.tril(fit.model_.transmat[0], -1) == 0)
    assert fit.model_.startprob[0, 0] == 1


# Counts


def test_counts_are_exact_and_do_not_depend_on_the_parts(data):
    _, sequences, _ = data
    for sizes in ([3000], [1, 2999], [1000, 7, 1993], [500] * 6):
        ends = np.cumsum(sizes)
        fit = estimator(n_sample=0).fit([sequences[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)])
        waiting = everything(fit.state_.levels)
        assert (fit.n_sequences_, fit.n_frames_, fit.n_parts_) == (3000, len(sequences.X), len(sizes))
        assert waiting.sequences.sum() == pytest.approx(3000, rel=1e-12)
        assert waiting.frames.sum() == pytest.approx(len(sequences.X), rel=1e-12)


def plan_of(n_states=None, **arguments):
    plan = estimator(**arguments)._plan()
    return plan if n_states is None else plan._replace(learning=plan.learning.with_states(n_states))


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(5, 40), st.integers(1, 4))
def test_a_merge_keeps_sequences_and_frames(seed, K, n_models):
    rng = np.random.default_rng(seed)
    h3m = random_h3m(rng, K=K)
    before = Summary(h3m.parameters, rng.integers(1, 10**6, K).astype(float), rng.integers(1, 10**8, K).astype(float))
    after = reduced(before, n_models, plan_of(), rng, n_init=1)
    assert len(after.sequences) <= n_models
    assert after.sequences.sum() == pytest.approx(before.sequences.sum(), rel=1e-12)
    assert after.frames.sum() == pytest.approx(before.frames.sum(), rel=1e-12)


def test_the_order_of_hmms_in_a_merge_does_not_matter():
    rng = np.random.default_rng(0)
    h3m = random_h3m(rng, K=12, d=2)
    counts, frames = rng.integers(1, 1000, 12).astype(float), rng.integers(1, 10**5, 12).astype(float)
    start = h3m[:3].parameters
    from vhem.em.loop import Limits, run
    from vhem.em.reduction import Centers, ReductionProblem
    from vhem.em.sharding import Shards
    from vhem.kernels.reduction import BaseModels

    def merged(order):
        p = h3m.parameters.take(order)
        base = BaseModels.of(p, frames[order] / 10, counts[order], 10)
        begin = Centers(start, np.full(3, 1 / 3))
        return run(ReductionProblem(base=Shards.of(base)), begin, Limits(max_iter=20, tol=0.0)).state

    one, other = merged(np.arange(12)), merged(rng.permutation(12))
    np.testing.assert_allclose(one.models.components.means, other.models.components.means, rtol=1e-8)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-8)


def test_one_hmm_that_stands_for_many_counts_as_many_that_stand_for_one():
    """Weights carried exactly: n twins of weight 1 and one HMM of weight n make the same centre."""
    rng = np.random.default_rng(3)
    h3m = random_h3m(rng, K=6)
    counts = np.array([5.0, 1.0, 3.0, 1.0, 2.0, 4.0])
    twins = h3m.parameters.take(np.repeat(np.arange(6), counts.astype(int)))
    few = Summary(h3m.parameters, counts, 40 * counts)
    many = Summary(twins, np.ones(16), np.full(16, 40.0))
    plan = plan_of(n_states=3)
    a, b = (reduced(s, 1, plan, np.random.default_rng(0), n_init=3) for s in (few, many))
    np.testing.assert_allclose(a.parameters.components.means, b.parameters.components.means, rtol=1e-3)
    assert a.sequences == pytest.approx(b.sequences)
    assert a.frames == pytest.approx(b.frames)


def test_the_tree_keeps_few_hmms_and_groups_parts_by_number(data):
    _, sequences, _ = data
    plan = plan_of(fan_in=2)
    summaries = [summarised(sequences[i : i + 100], plan, i // 100)[0] for i in range(0, 700, 100)]
    levels = []
    for index, summary in enumerate(summaries):
        levels = with_part(levels, summary, index, plan)
    assert [len(level) for level in levels] == [1, 1, 1]  # 7 = 4 + 2 + 1
    assert len(everything(levels).sequences) <= 3 * plan.n_intermediate
    skipped = with_part(with_part([], None, 0, plan), None, 1, plan)
    assert everything(skipped) is None


@settings(max_examples=25)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_sample_does_not_depend_on_order_or_thresholds(sizes, size, random):
    """However late the threshold of the stream reaches a part, the sample is that of the smallest keys."""
    parts = [Sequences([np.full(2, 100.0 * p + i) for i in range(n)]) for p, n in enumerate(sizes)]
    every = [
        drawn(part, n, 1.0, np.random.default_rng(p).random(len(part)))
        for p, (part, n) in enumerate(zip(parts, sizes, strict=True))
    ]
    keys = np.concatenate([s.keys for s in every])
    values = np.concatenate([s.sequences.X[::2, 0] for s in every])
    expected = set(values[np.argsort(keys)[:size]])
    sample, thresholds = Sample.empty(size), [1.0]
    for p in random.sample(range(len(parts)), len(parts)):
        threshold = random.choice(thresholds)
        sample = sample.plus(drawn(parts[p], size, threshold, np.random.default_rng(p).random(len(parts[p]))))
        thresholds.append(sample.threshold)
    assert set(sample.whole().sequences.X[::2, 0]) == expected


def test_later_parts_wait_before_the_sample_is_sorted_and_are_saved_with_it(tmp_path):
    rng = np.random.default_rng(0)
    parts = [Sequences([np.full(2, 1000.0 * p + i) for i in range(100)]) for p in range(12)]
    keys = [rng.random(100) for _ in parts]
    sample, n_sorted = Sample.empty(100), 0
    for part, key in zip(parts, keys, strict=True):
        sample = sample.plus(drawn(part, 100, sample.threshold, key))
        n_sorted += not sample.waiting
    assert 1 < n_sorted < 12
    nearest = np.argsort(np.concatenate(keys))[:100]
    expected = np.concatenate([part.X[::2, 0] for part in parts])[np.sort(nearest)]
    assert np.array_equal(sample.whole().sequences.X[::2, 0], expected)
    state = State("{}", 0, 12, "", [], sample, [], 1, 1200, 2400, 0, 0)
    state.save(tmp_path / "checkpoint")
    assert np.array_equal(vhem.load(tmp_path / "checkpoint").sample.sequences.X[::2, 0], expected)


# One answer


def test_executors_and_threads_give_the_same_bits(data):
    _, sequences, _ = data
    parts = split_sequences(sequences, 250)
    reference = estimator(n_passes=1, fan_in=4, n_jobs=1).fit(parts)
    for arguments in ({"executor": "threads", "n_jobs": 3}, {"executor": ThreadsExecutor(8)}):
        other = estimator(n_passes=1, fan_in=4, **arguments).fit(parts)
        assert other.model_ == reference.model_
        assert np.array_equal(other.lower_bounds_, reference.lower_bounds_)


def test_partial_fit_makes_the_same_as_fit(data):
    _, sequences, _ = data
    parts = [sequences[i : i + 300] for i in range(0, 1500, 300)]
    whole = estimator(fan_in=2, polish=False).fit(parts)
    bit_by_bit = estimator(fan_in=2)
    for part in parts:
        bit_by_bit.partial_fit(part)
    assert bit_by_bit.model_ == whole.model_
    assert bit_by_bit.n_sequences_ == 1500


def test_a_saved_estimator_goes_on(data, tmp_path):
    _, sequences, _ = data
    whole = estimator().partial_fit(sequences[:300]).partial_fit(sequences[300:600])
    half = estimator().partial_fit(sequences[:300])
    half.save(tmp_path / "half.vhem")
    again = vhem.load(tmp_path / "half.vhem")
    assert again.model_ == half.model_
    assert again.partial_fit(sequences[300:600]).model_ == whole.model_


def test_a_generator_is_read_as_work_goes_on(data):
    _, sequences, _ = data
    read, done = [], []

    def parts():
        for i in range(0, 3000, 100):
            read.append(i)
            yield sequences[i : i + 100]

    estimator(callback=lambda progress: done.append(len(read) - progress.n_done), executor="threads", n_jobs=2).fit(
        parts()
    )
    assert max(done) <= 4  # two at work, two waiting


def test_labels_of_all_sequences_in_a_second_pass(data, tmp_path):
    _, sequences, _ = data
    write_parquet(tmp_path / "data.parquet", sequences, 4321)
    parts = read_parts(tmp_path / "data.parquet", id="id", values=["x", "y"], rows_per_part=20_000)
    assert len(parts) > 3
    fit = estimator(executor="threads").fit(parts)
    found = list(fit.label_parts(parts))
    assert [name for part in found for name in part.ids] == list(range(len(sequences)))
    assert np.array_equal(np.concatenate([part.labels for part in found]), fit.predict(sequences))
    scores = np.concatenate([part.log_likelihoods for part in found])
    np.testing.assert_allclose(scores, fit.model_.score_samples(sequences), rtol=1e-12)
    assert sum(part.n_frames for part in found) == len(sequences.X)


def test_clones_and_pickles(data):
    fit = clone(estimator()).fit([data[1][:200]])
    assert pickle.loads(pickle.dumps(fit)).model_ == fit.model_
    assert clone(fit).get_params() == estimator().get_params()


# Parquet: no sequence is cut in two


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 25),
    st.integers(1, 40),
    st.sampled_from(["numbers", "text", "shuffled"]),
)
def test_row_groups_give_back_the_sequences(tmp_path_factory, lengths, rows_per_group, rows_per_part, ids):
    path = tmp_path_factory.mktemp("parquet") / "data.parquet"
    rng = np.random.default_rng(len(lengths))
    sequences = Sequences([rng.normal(size=(n, 2)) for n in lengths])
    names = list(range(len(lengths)))
    if ids == "text":
        names = [f"s{i:03d}" for i in names]
    if ids == "shuffled":
        names = rng.permutation(len(lengths)).tolist()
    write_parquet(path, sequences, rows_per_group, names)
    parts = read_parts(path, id="id", time="t", values=["x", "y"], rows_per_part=rows_per_part)
    found = {}
    for part in parts:
        whole = part.read()
        assert not set(found) & set(whole.ids)
        found.update(zip(whole.ids, whole, strict=True))
    assert list(found) == names
    assert all(np.array_equal(found[name], sequences[i]) for i, name in enumerate(names))


@pytest.mark.parametrize("names", [[0, 1, 0, 2], [2, 1, 0, 2], ["b", "a", "c", "b"], [5, 1, 5, 9]])
@pytest.mark.parametrize("rows_per_group", [1, 2, 3, 100])
def test_an_id_that_comes_again_is_an_error(tmp_path, names, rows_per_group):
    write_parquet(tmp_path / "twice.parquet", Sequences([np.zeros((2, 2))] * 4), rows_per_group, names)
    with pytest.raises(ValueError, match="are not adjacent"):
        _ = [part.read() for part in read_parts(tmp_path / "twice.parquet", id="id", values=["x", "y"])]


def test_ids_that_only_rise_are_not_read_beforehand(tmp_path, monkeypatch):
    sequences = Sequences(np.arange(60.0).reshape(6, 5, 2))
    write_parquet(tmp_path / "a.parquet", sequences, rows_per_group=10)  # two sequences each
    monkeypatch.setattr("vhem.scale.parquet._keys_in", None)
    parts = read_parts(tmp_path / "a.parquet", id="id", values=["x", "y"], rows_per_part=10)
    assert [len(part.read()) for part in parts] == [2, 2, 2]


def test_rows_are_sorted_by_time(tmp_path):
    table = {"id": [0, 0, 0, 1], "t": [2, 0, 1, 0], "x": [3.0, 1.0, None, 4.0]}
    pq.write_table(pa.table(table), tmp_path / "unsorted.parquet")
    (part,) = read_parts(tmp_path / "unsorted.parquet", id="id", time="t", values=["x"])
    np.testing.assert_array_equal(part.read()[0][:, 0], [1.0, np.nan, 3.0])
    table["t"] = [2, 0, 2, 0]
    pq.write_table(pa.table(table), tmp_path / "twice.parquet")
    (part,) = read_parts(tmp_path / "twice.parquet", id="id", time="t", values=["x"])
    with pytest.raises(ValueError, match="two rows with t = 2"):
        part.read()


def test_a_folder_of_csv_files(tmp_path, data):
    _, sequences, _ = data
    for k in range(3):
        some = sequences[k * 50 : (k + 1) * 50]
        lines = ["id,x,y"]
        for name, sequence in zip(some.ids, some, strict=True):
            lines += [f"{name},{x!r},{y!r}" for x, y in sequence.tolist()]
        (tmp_path / f"day{k}.csv").write_text("\n".join(lines))
    parts = read_parts(tmp_path, id="id", values=["x", "y"])
    assert [part.name for part in parts] == ["day0.csv", "day1.csv", "day2.csv"]
    assert (
        estimator(n_components=2).fit(parts).model_
        == estimator(n_components=2).fit([sequences[k * 50 : (k + 1) * 50] for k in range(3)]).model_
    )


# Broken parts


@pytest.fixture
def poisoned(tmp_path, data):
    """A folder of Parquet files, some of which are broken, each in its own way."""
    _, sequences, _ = data
    for k in range(8):
        write_parquet(tmp_path / f"day{k}.parquet", sequences[k * 100 : (k + 1) * 100], 10**6)
    parts = read_parts(tmp_path, id="id", values=["x", "y"])
    whole = (tmp_path / "day1.parquet").read_bytes()
    (tmp_path / "day1.parquet").write_bytes(whole[: len(whole) // 2] + b"\0" * (len(whole) // 2))
    write_parquet(tmp_path / "day3.parquet", sequences[300:400], 10**6, columns=("x", "z"))
    bad = Sequences.from_concatenated(
        np.where(np.arange(4000)[:, None] % 2 == [0, 1], sequences.X[:4000], 0), [40] * 100
    )
    X = np.array(bad.X)
    X[:, 1] = np.nan
    write_parquet(tmp_path / "day4.parquet", Sequences.from_concatenated(X, [40] * 100), 10**6)
    (tmp_path / "day6.parquet").unlink()
    return parts


def test_broken_parts_are_named(poisoned):
    for k, words in (
        (1, "day1.parquet"),
        (3, "day3.parquet.*'y'"),
        (4, "day4.parquet.*no value at all"),
        (6, "day6.*No such"),
    ):
        with pytest.raises(PartError, match=words):
            estimator().fit([poisoned[0], poisoned[k], poisoned[2]])


@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_broken_parts_can_be_skipped_and_are_counted(poisoned, data, executor):
    other = Part("other columns", lambda: data[1].X.reshape(-1, 40, 2)[:10, :, :1])
    with pytest.warns(RuntimeWarning, match="5 of 9 parts were skipped, for example 'day1.parquet"):
        fit = estimator(on_error="skip", executor=executor).fit([*poisoned, other])
    assert [name.split(",")[0] for name, _ in fit.skipped_] == [
        "day1.parquet", "day3.parquet", "day4.parquet", "day6.parquet", "other columns",
    ]  # fmt: skip
    assert "1 dimensions, but those of earlier parts have 2" in fit.skipped_[-1][1]
    assert (fit.n_parts_, fit.n_sequences_) == (4, 400)
    assert len(list(fit.label_parts(poisoned))) == 4


def test_missing_values_are_marginalised_or_refused(data):
    X = np.array(data[1].X[:4000]).reshape(100, 40, 2)
    X[7, 3, 1] = np.nan
    assert np.isfinite(estimator(n_components=2).fit([X]).score(X))
    with pytest.raises(PartError, match=r"'part 0': sequence 7 has a missing value \(NaN\) at frame 3, dimension 1"):
        estimator(missing="refuse").fit([X])


def test_nothing_to_learn_from():
    with pytest.raises(ValueError, match="there are no parts"):
        estimator().fit([])
    with pytest.raises(ValueError, match=r"nothing to learn from: part 0: .*inf"):
        estimator(on_error="skip").fit([np.full((3, 4, 2), np.inf)])
    with pytest.warns(RuntimeWarning, match="3 HMMs instead of n_components=4"):
        assert len(estimator().fit([np.random.default_rng(0).normal(size=(3, 40, 2))]).model_) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"fan_in": 1}, "fan_in must be"),
        ({"n_intermediate": 3}, "n_intermediate must be an integer of at least 4"),
        ({"local": "all"}, "local must be one of 'mixture', 'hmms'"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"missing": "drop"}, "missing must be one of"),
        ({"n_virtual": 0}, "n_virtual must be"),
        ({"executor": "cluster"}, "executor must be 'serial', 'threads'"),
        ({"n_passes": 1, "n_sample": 0}, "n_passes needs a sample"),
    ],
)
def test_bad_parameters(data, arguments, message):
    with pytest.raises(ValueError, match=message):
        estimator(**arguments).fit([data[1][:50]])


def test_bad_parts(data, tmp_path):
    with pytest.raises(ValueError, match="not a generator"):
        estimator(n_passes=1).fit(iter([data[1]]))
    with pytest.raises(TypeError, match="split_sequences"):
        estimator().fit(data[1])
    with pytest.raises(TypeError, match="read_parts"):
        estimator().fit("data.parquet")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_parts(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="no file that could be read"):
        read_parts(tmp_path)
    write_parquet(tmp_path / "a.parquet", data[1][:5], 100)
    with pytest.raises(ValueError, match="give id"):
        read_parts(tmp_path, values=["x"])
    with pytest.raises(ValueError, match="no column 'q'; it has 'id', 't', 'x', 'y'"):
        read_parts(tmp_path, id="id", values=["q"])


# Interruptions


class StopError(Exception):
    pass


def stop_after(n):
    def callback(progress):
        if progress.n_done == n:
            raise StopError

    return callback


def test_a_checkpoint_goes_on_where_it_stopped(data, tmp_path):
    _, sequences, _ = data
    parts = split_sequences(sequences, 250)
    whole = estimator(fan_in=2).fit(parts)
    path, seen = tmp_path / "fit.checkpoint", []
    for n in (2, 5, 9):
        with pytest.raises(StopError):
            estimator(fan_in=2, checkpoint=path, callback=stop_after(n)).fit(parts)
    last = estimator(fan_in=2, checkpoint=path, callback=seen.append, executor="threads").fit(parts)
    assert last.model_ == whole.model_
    assert [told.part for told in seen if told.stage == "learning"] == [part.name for part in parts[9:]]
    assert (last.n_sequences_, last.n_parts_) == (3000, 12)


def test_a_checkpoint_of_another_fit_is_refused(data, tmp_path):
    parts, path = split_sequences(data[1], 500), tmp_path / "fit.checkpoint"
    with pytest.raises(StopError):
        estimator(checkpoint=path, callback=stop_after(2)).fit(parts)
    with pytest.raises(ValueError, match=r"other settings \(tau\)"):
        estimator(checkpoint=path, tau=7).fit(parts)
    with pytest.raises(ValueError, match=r"other settings \(random_state\)"):
        estimator(checkpoint=path, random_state=1).fit(parts)
    with pytest.raises(ValueError, match="first 2 parts are not those of the checkpoint"):
        estimator(checkpoint=path).fit(parts[1:])
    with pytest.raises(ValueError, match=r"1 part was given, but the checkpoint was made from 2; give the same parts"):
        estimator(checkpoint=path).fit(parts[:1])
    with pytest.raises(ValueError, match="first 2 parts are not those"):  # other data under the same names
        estimator(checkpoint=path).fit(split_sequences(data[1][::-1], 500))
    data[0].save(tmp_path / "model.vhem")
    with pytest.raises(vhem.ModelFileError, match="holds a H3M, not the checkpoint"):
        estimator(checkpoint=tmp_path / "model.vhem").fit(parts)


KILLED = """
import sys, time
import vhem
folder, checkpoint = sys.argv[1:]
parts = vhem.read_parts(folder, id="id", values=["x", "y"])
import vhem.scale.partitioned as partitioned
partitioned._SAVE_EVERY = 0.0
fit = vhem.PartitionedH3M(4, 3, tau=40, n_sample=500, fan_in=3, random_state=0, checkpoint=checkpoint,
                          callback=lambda p: print(p.n_done, flush=True), n_jobs=1).fit(parts)
fit.model_.save(checkpoint + ".model")
"""


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_same_result(data, tmp_path):
    _, sequences, _ = data
    folder, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    folder.mkdir()
    for k in range(12):
        write_parquet(folder / f"{k:02d}.parquet", sequences[k * 250 : (k + 1) * 250], 10**6)
    rng, begun = np.random.default_rng(), 0
    command = [sys.executable, "-c", KILLED, str(folder), str(checkpoint)]
    for _ in range(4):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begun = int(process.stdout.readline()) if begun < 12 else begun
        time.sleep(rng.uniform(0, 0.15))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    subprocess.run(command, check=True, capture_output=True)
    parts = read_parts(folder, id="id", values=["x", "y"])
    whole = estimator(fan_in=3).fit(parts)
    assert vhem.load(f"{checkpoint}.model") == whole.model_


def test_executors():
    assert isinstance(as_executor(None), SerialExecutor)
    executor = SerialExecutor()
    assert as_executor(executor) is executor

    def fails(item):
        if item == 3:
            raise KeyError(item)
        return item

    for executor in (SerialExecutor(), ThreadsExecutor(2)):
        results = executor.map(fails, range(6), name="test")
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(KeyError):
            next(results)


def test_named_categories_are_remembered_and_must_agree():
    rng = np.random.default_rng(0)
    names = {"page": ["cart", "item", "search"]}

    def part(n, shares):
        rows = [rng.choice(names["page"], p=shares[i % 2], size=20) for i in range(n)]
        return Sequences(rows, [f"{rng.integers(10**9)}" for _ in rows], channels=["page"], categories=names)

    kinds = ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])
    parts = [part(20, kinds), part(20, kinds)]
    fit = PartitionedH3M(2, 1, random_state=0).fit(parts)
    assert fit.model_.categories == {"page": ("cart", "item", "search")}
    assert len(set(fit.predict([["cart"] * 9, ["search"] * 9]))) == 2
    other = Sequences([["item", "search"]] * 5, channels=["page"], categories=True)
    with pytest.raises(PartError, match=r"its categories of 'page' are 'item', 'search', .* 'cart', 'item', 'search'"):
        PartitionedH3M(2, 1, random_state=0).fit([*parts, other])
