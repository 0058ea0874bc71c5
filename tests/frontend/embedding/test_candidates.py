import numpy as np
import tagloom as tg


def test_a_sampler_learns_how_frequent_classes_are():
    with tg.Graph().as_default() as graph:
        true = tg.placeholder("int64", [None, 2])
        found = tg.learned_unigram_candidate_sampler(true, 2, 30, False, 4, seed=1)
        start = tg.global_variables_initializer()
        assert tg.trainable_variables() == []
    counts = np.ones(4)
    with tg.SyncSession(graph) as session:
        session.run(start)
        for batch in ([[1, 1], [3, 1]], [[0, 3], [3, 3]], [[1, 2], [1, 2]]):
            result = session.run(found, {true: batch})
            np.testing.assert_allclose(
                result.true_expected_count, 30 * (counts / counts.sum())[np.array(batch)], rtol=1e-6
            )
            np.add.at(counts, np.array(batch).ravel(), 1)
        (kept,) = session.read_variables().values()
    np.testing.assert_array_equal(kept, counts)
