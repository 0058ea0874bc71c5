import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import GraphError, OpError, ShapeError
from tagloom.ops.random.candidate_draws import _class_source, _draw_distinct, _draw_remaining, _Sampling
from tagloom.ops.random.candidates import by_weights

WEIGHTS = [1.0, 5.0, 0.0, 3.0, 1.0]
SAMPLERS = {
    "uniform": (lambda *a, **k: tg.uniform_candidate_sampler(*a, 5, **k), np.full(5, 0.2)),
    "log_uniform": (
        lambda *a, **k: tg.log_uniform_candidate_sampler(*a, 5, **k),
        np.log1p(1 / np.arange(1, 6)) / np.log(6),
    ),
    "fixed": (
        lambda *a, **k: tg.fixed_unigram_candidate_sampler(*a, 5, unigrams=WEIGHTS, **k),
        np.array(WEIGHTS) / 10,
    ),
}


def value(build, *arguments):
    return tg.function(build).sync(*arguments)


@pytest.mark.parametrize("name", SAMPLERS)
def test_candidates_with_repeats_are_as_frequent_as_expected(name):
    sampler, probabilities = SAMPLERS[name]
    found = value(lambda: sampler([[0, 1], [3, 4]], 2, 20000, False, seed=1))
    counts = np.bincount(found.sampled_candidates, minlength=5)
    np.testing.assert_allclose(counts / 20000, probabilities, atol=0.015)
    np.testing.assert_allclose(found.true_expected_count, 20000 * probabilities[[[0, 1], [3, 4]]], rtol=1e-6)
    np.testing.assert_allclose(found.sampled_expected_count, 20000 * probabilities[found.sampled_candidates], rtol=1e-6)
    assert [a.dtype for a in found] == [np.int64, np.float32, np.float32]


@pytest.mark.parametrize("name", SAMPLERS)
def test_different_candidates_are_as_frequent_as_draws_one_by_one(name):
    sampler, probabilities = SAMPLERS[name]
    draw = tg.function(lambda: sampler([[0]], 1, 2, True, seed=1))
    pairs = np.array([draw.sync().sampled_candidates for _ in range(1500)])
    assert (pairs[:, 0] != pairs[:, 1]).all()
    wanted = [
        [0 if i == j else probabilities[i] * probabilities[j] / (1 - probabilities[i]) for j in range(5)]
        for i in range(5)
    ]
    counts = np.zeros((5, 5))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    np.testing.assert_allclose(counts / len(pairs), wanted, atol=0.05)


def test_expected_counts_of_different_candidates_go_by_the_draws():
    found = value(lambda: tg.uniform_candidate_sampler([[1], [2]], 1, 4, True, 5, seed=8))
    # All are equally probable, so the counts say how many draws there were: 1 - 0.8**tries, or 4 of 5 if none was lost.
    count = float(found.true_expected_count[0, 0])
    tries = np.log(1 - count) / np.log(0.8)
    assert count == pytest.approx(0.8) or (tries == pytest.approx(round(tries), abs=1e-4) and round(tries) > 4)
    assert (found.sampled_expected_count == found.true_expected_count[0, 0]).all()


@pytest.mark.parametrize("distribution", ["uniform", "log_uniform", "weights"])
def test_the_number_of_draws_is_as_if_made_one_by_one(distribution):
    weights = np.array([1.0, 2, 3, 4, 5, 6, 40, 60])
    if distribution == "uniform":
        weights = np.ones(8)
    if distribution == "log_uniform":
        weights = np.log1p(1 / np.arange(1.0, 9))
    draw = np.random.default_rng(4)
    sampling = _Sampling(distribution, range_max=8, num_sampled=6, unique=True, seed=0)
    source = _class_source(draw, sampling, weights)
    one_by_one = []
    for _ in range(3000):
        seen, tries = set(), 0
        while len(seen) < 6:
            seen.add(int(source(1)[0]))
            tries += 1
        one_by_one.append(tries)
    for enough in (0, 10**6):  # with the rest found by clocks, and without
        at_once = [_draw_distinct(draw, source, lambda: weights, 6, enough)[1] for _ in range(3000)]
        assert abs(np.mean(at_once) - np.mean(one_by_one)) < 4 * np.std(one_by_one) / np.sqrt(1500)
        assert abs(np.std(at_once) / np.std(one_by_one) - 1) < 0.15


def test_the_rest_comes_by_its_weights():
    weights = np.array([4.0, 1, 0, 2, 3])
    draw = np.random.default_rng(1)
    found = np.array([_draw_remaining(draw, weights, np.array([0]), 3)[0] for _ in range(4000)])
    assert {tuple(sorted(row)) for row in found.tolist()} == {(1, 3, 4)}
    np.testing.assert_allclose(np.bincount(found[:, 0], minlength=5) / 4000, [0, 1 / 6, 0, 2 / 6, 3 / 6], atol=0.03)


def test_all_classes_are_found_although_some_are_hardly_probable():
    weights = [1.0, 1e-30, 1e-12, 1.0]
    draw = tg.function(lambda: tg.fixed_unigram_candidate_sampler([[1]], 1, 4, True, 4, unigrams=weights))
    found = draw.sync()
    assert sorted(found.sampled_candidates.tolist()) == [0, 1, 2, 3]
    assert found.sampled_candidates[3] == 1
    assert 0 < found.true_expected_count[0, 0] <= 1


def test_512_different_of_40000():
    found = value(lambda: tg.log_uniform_candidate_sampler([[0]], 1, 512, True, 40000))
    assert len(set(found.sampled_candidates.tolist())) == 512
    assert 0 <= found.sampled_candidates.min() <= found.sampled_candidates.max() < 40000


def test_weights_of_a_file_with_reserved_classes_and_shards(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text('the,"a, b",4\nof,x,9\nand,y,1\n')
    options = {"vocab_file": str(path), "num_reserved_ids": 1, "distortion": 0.5}
    found = value(lambda: tg.fixed_unigram_candidate_sampler([[0, 1, 2, 3]], 4, 600, False, 4, **options))
    np.testing.assert_allclose(found.true_expected_count, [[0, 200, 300, 100]], rtol=1e-6)
    assert set(found.sampled_candidates.tolist()) == {1, 2, 3}
    sharded = {**options, "num_shards": 2, "shard": 1}
    found = value(lambda: tg.fixed_unigram_candidate_sampler([[1, 2]], 2, 600, False, 4, **sharded))
    np.testing.assert_allclose(found.true_expected_count, [[400, 0]], rtol=1e-6)
    assert set(found.sampled_candidates.tolist()) == {1, 3}


def test_classes_may_be_of_open_shape():
    signature = [tg.TensorSpec(None, "int32")]
    draw = tg.function(lambda c: tg.uniform_candidate_sampler(c, 2, 3, True, 9), input_signature=signature)
    assert draw.sync(np.int32([[1, 2], [3, 4], [5, 6]])).true_expected_count.shape == (3, 2)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tg.uniform_candidate_sampler([[1]], 1, 6, True, 5), GraphError),
        (lambda: tg.uniform_candidate_sampler([[1]], 1, 0, False, 5), GraphError),
        (lambda: tg.uniform_candidate_sampler([[1]], 1, 1, False, 0), GraphError),
        (lambda: tg.uniform_candidate_sampler([[1]], 2, 1, False, 5), ShapeError),
        (lambda: tg.uniform_candidate_sampler([1], 1, 1, False, 5), ShapeError),
        (lambda: tg.fixed_unigram_candidate_sampler([[1]], 1, 1, False, 5), GraphError),
        (lambda: tg.fixed_unigram_candidate_sampler([[1]], 1, 1, False, 5, unigrams=[1.0]), GraphError),
        (lambda: tg.fixed_unigram_candidate_sampler([[1]], 1, 2, True, 2, unigrams=[1.0, 0.0]), GraphError),
        (
            lambda: tg.fixed_unigram_candidate_sampler([[1]], 1, 1, True, 2, num_shards=2, shard=2, unigrams=[1, 1]),
            GraphError,
        ),
    ],
)
def test_what_can_not_be_is_refused(build, error):
    with pytest.raises(error), tg.Graph().as_default():
        build()


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0]])
def test_weights_have_to_be_frequencies(weights):
    with pytest.raises(GraphError, match="frequencies"), tg.Graph().as_default():
        tg.fixed_unigram_candidate_sampler([[1]], 1, 1, False, 2, unigrams=weights)
    with pytest.raises(OpError, match="weights"):
        value(lambda w: by_weights(w, [[1]], (1, 1, False, 2), None, None), np.array(weights))


def test_accidental_hits():
    def build(true, sampled):
        return tg.compute_accidental_hits(true, sampled, 2)

    indices, ids, weights = value(build, np.array([[1, 2], [3, 1]]), np.array([1, 5, 3, 1]))
    assert (indices.dtype, ids.dtype, weights.dtype) == (np.int32, np.int64, np.float32)
    assert list(zip(indices.tolist(), ids.tolist())) == [(0, 0), (0, 3), (1, 2), (1, 0), (1, 3)]
    assert set(weights.tolist()) == {float(np.finfo(np.float32).min)}
