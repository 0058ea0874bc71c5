"""Lookup tables: given, from files, and changed by steps."""

import asyncio

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


def looked_up(table, keys, **options):
    with tg.Graph().as_default() as graph:
        found, size = table.lookup(tg.constant(keys, table.key_dtype)), table.size()
    with tg.SyncSession(graph, **options) as session:
        value, count = session.run([found, size])
        return value.tolist(), int(count)


@EXECUTORS
@pytest.mark.parametrize(
    ("keys", "values", "default", "asked", "wanted"),
    [
        (["a", "ä", ""], [1, 2, 3], -1, ["", "b", "a"], [3, -1, 1]),
        ([5, -7], ["five", "minus seven"], "?", [[5, 0], [-7, 5]], [["five", "?"], ["minus seven", "five"]]),
        (np.int64([1 << 40]), [0.5], 0.0, [1 << 40, 1], [0.5, 0.0]),
        (["x", "y"], [[1.0, 2.0], [3.0, 4.0]], [0.0, 0.0], ["y", "z"], [[3.0, 4.0], [0.0, 0.0]]),
        (["x"], [True], False, "x", True),
        (["x", "y"], [1, 2], 0, [], []),
    ],
)
def test_values_by_keys(executor, keys, values, default, asked, wanted):
    table = tg.HashTable(keys, values, default)
    assert looked_up(table, asked, executor=executor) == (wanted, len(keys))


def test_an_empty_table_has_defaults():
    table = tg.HashTable(np.array([], "T"), np.zeros([0, 2], np.float32), [1.0, 2.0])
    assert looked_up(table, ["a"]) == ([[1.0, 2.0]], 0)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: tg.HashTable([1.5], [1], 0), tg.DtypeError, "strings or integers"),
        (lambda: tg.HashTable(["a", "b"], [1], 0), tg.ShapeError, "a value for each key"),
        (lambda: tg.HashTable([["a"]], [[1]], 0), tg.ShapeError, "a value for each key"),
        (lambda: tg.HashTable(["a"], [[1, 2]], 0), tg.ShapeError, "default"),
        (lambda: tg.HashTable(["a", "a"], [1, 2], 0), tg.GraphError, "two values"),
        (lambda: tg.HashTable(["a"], [1.5], 0, value_dtype="int32"), tg.DtypeError, "dtype|fit|int32|string"),
        (lambda: tg.MutableHashTable("float32", "int64", 0), tg.DtypeError, "strings or integers"),
        (lambda: tg.index_table_from_tensor(["a", "a"]), tg.GraphError, "two values"),
        (lambda: tg.index_table_from_tensor([["a"]]), tg.ShapeError, "vector"),
        (lambda: tg.index_table_from_tensor(["a"], num_oov_buckets=-1), tg.GraphError, "num_oov_buckets"),
        (lambda: tg.index_to_string_table_from_tensor([1, 2]), tg.DtypeError, "dtype|fit|int32|string"),
        (lambda: tg.index_table_from_file("a", vocab_size=0), tg.GraphError, "vocab_size"),
        (lambda: tg.HashTable.from_file("a", "string", "int64", 0, delimiter=""), tg.GraphError, "columns"),
    ],
)
def test_what_is_no_table_is_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_key_twice_with_one_value_is_one_key():
    assert looked_up(tg.HashTable(["a", "a", "b"], [1, 1, 2], 0), ["a", "b"]) == ([1, 2], 2)


def test_keys_of_another_dtype_are_refused():
    table = tg.HashTable(["a"], [1], 0)
    with tg.Graph().as_default(), pytest.raises(tg.DtypeError):
        table.lookup(tg.constant([1]))


@EXECUTORS
def test_numbers_of_words_and_back(executor):
    vocabulary = ["the", "rose", "is"]
    numbers, words = tg.index_table_from_tensor(vocabulary), tg.index_to_string_table_from_tensor(vocabulary)
    with tg.Graph().as_default() as graph:
        found = numbers.lookup([["rose", "thorn"], ["is", "the"]])
        back = words.lookup(found)
    with tg.SyncSession(graph, executor=executor) as session:
        assert session.run(found).tolist() == [[1, -1], [2, 0]]
        assert session.run(back).tolist() == [["rose", "UNK"], ["is", "the"]]


@pytest.mark.parametrize("dtype", ["string", "int64", "int32"])
def test_unknown_keys_go_to_buckets(dtype):
    keys = ["7", "8", "9"] if dtype == "string" else [7, 8, 9]
    others = [str(i) if dtype == "string" else i for i in range(100, 200)]
    table = tg.index_table_from_tensor(keys, num_oov_buckets=4, dtype=dtype)
    found, size = looked_up(table, [*keys, *others])
    assert size == 7
    assert found[:3] == [0, 1, 2]
    assert set(found[3:]) == {3, 4, 5, 6}
    assert looked_up(table, [*keys, *others])[0] == found
    with tg.Graph().as_default() as graph:
        bucket = tg.string_to_hash_bucket(list(map(str, others)), 4) + 3
    with tg.SyncSession(graph) as session:
        assert session.run(bucket).tolist() == found[3:]


def test_vocabularies_of_files(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xef\xbb\xbfthe\r\nrose\r\nis\r\n")
    assert looked_up(tg.index_table_from_file(path), ["the", "is", "x"]) == ([0, 2, -1], 3)
    assert looked_up(tg.index_table_from_file(path, 2, vocab_size=2), ["rose"]) == ([1], 4)
    assert looked_up(tg.index_to_string_table_from_file(path, default_value="?"), [1, 3]) == (["rose", "?"], 3)
    (tmp_path / "numbers.txt").write_text("10\n20\n")
    assert looked_up(tg.index_table_from_file(tmp_path / "numbers.txt", key_dtype="int64"), [20, 1]) == ([1, -1], 2)
    (tmp_path / "pairs.csv").write_text("1.5,a,x\n2.5,b,y\n")
    pairs = tg.HashTable.from_file(tmp_path / "pairs.csv", "string", "float32", -1, 2, 0, delimiter=",")
    assert looked_up(pairs, ["y", "z"]) == ([2.5, -1.0], 2)


@pytest.mark.parametrize(
    ("content", "make", "match"),
    [
        (None, lambda path: tg.index_table_from_file(path), "No such file"),
        (b"a\nb\na\n", lambda path: tg.index_table_from_file(path), "two values for key 'a'"),
        (b"a\nb\n", lambda path: tg.index_table_from_file(path, vocab_size=3), "fewer than vocab_size=3"),
        (b"a\n\xff\n", lambda path: tg.index_table_from_file(path), "line 2: this line is not UTF-8"),
        (b"1\nx\n", lambda path: tg.index_table_from_file(path, key_dtype="int64"), "no int64"),
        (b"a\t1\nb\n", lambda path: tg.HashTable.from_file(path, "string", "int64", 0), "line 2: there is no column 1"),
    ],
)
def test_a_file_that_is_none_is_said_and_read_again(tmp_path, content, make, match):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    table = make(path)
    with tg.Graph().as_default() as graph:
        found = table.lookup(tg.constant(["a"] if table.key_dtype is tg.string else [1], table.key_dtype))
    with tg.SyncSession(graph) as session:
        for _ in range(2):
            with pytest.raises(tg.OpError, match=match):
                session.run(found)
        path.write_bytes(b"1\t7\n2\t8\n3\t9\n" if b"\t" in (content or b"") else b"1\n2\n3\n")
        session.run(found)


def test_initializers_are_there_and_need_not_run(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a\nb\n")
    with tg.Graph().as_default() as graph:
        table = tg.index_table_from_file(path)
        found, own, init = table.lookup(["b"]), table.initializer, tg.tables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)
        session.run(own)
        path.unlink()
        assert session.run(found).tolist() == [1]
    with tg.Graph().as_default() as graph:
        init = tg.tables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(init)


def test_a_table_serves_several_graphs_and_functions():
    table = tg.index_table_from_tensor(["a", "b"])
    assert looked_up(table, ["b"]) == looked_up(table, ["b"])
    first, second = tg.function(lambda x: table.lookup(x)), tg.function(lambda x: table.lookup(x) + 1)
    assert (first.sync(np.array(["b"], "T")).tolist(), second.sync(np.array(["b"], "T")).tolist()) == ([1], [2])


@EXECUTORS
def test_steps_change_a_table_in_the_order_of_building(executor):
    with tg.Graph().as_default() as graph:
        table = tg.MutableHashTable("string", "int64", 0)
        before = table.lookup(["a", "b"])
        put = table.insert(["a", "b", "a"], [1, 2, 3])
        between, size = table.lookup(["a", "b"]), table.size()
        drop = table.remove(["a", "nobody"])
        after, left = table.lookup(["a", "b"]), table.export()
    with tg.SyncSession(graph, executor=executor) as session:
        fetches = [before, between, size, after, *left]
        found, _, _ = session.run([fetches, put, drop])
        assert [each.tolist() for each in found] == [[0, 0], [3, 2], 2, [0, 2], ["b"], [2]]
        assert session.run(before).tolist() == [0, 2]


@EXECUTORS
def test_a_table_in_a_loop(executor):
    with tg.Graph().as_default() as graph:
        table = tg.MutableHashTable("int64", "int64", 0)

        def body(i, x):
            put = table.insert([i % 3], table.lookup([i % 3]) + i)
            with tg.control_dependencies([put]):
                return i + 1, tg.identity(x)

        loop = tg.while_loop(lambda i, x: i < 9, body, [tg.constant(0, "int64"), tg.constant(0, "int64")])
        values = table.lookup(tg.constant([0, 1, 2], "int64"))
    with tg.SyncSession(graph, executor=executor) as session:
        assert session.run([loop[0], values])[1].tolist() == [9, 12, 15]


def test_random_changes_are_those_of_a_dict():
    random, wanted = np.random.default_rng(0), {}
    with tg.Graph().as_default() as graph:
        table = tg.MutableHashTable("int64", "float64", [0.0, 0.0])
        keys, values = tg.placeholder("int64", [None]), tg.placeholder("float64", [None, 2])
        put, drop, found = table.insert(keys, values), table.remove(keys), table.lookup(keys)
        everything = table.export()
    with tg.SyncSession(graph) as session:
        for _ in range(60):
            some = random.integers(0, 40, random.integers(0, 12))
            if random.random() < 0.5:
                given = random.random((len(some), 2))
                session.run(put, {keys: some, values: given})
                wanted.update(zip(some.tolist(), given.tolist(), strict=True))
            else:
                session.run(drop, {keys: some})
                for key in some.tolist():
                    wanted.pop(key, None)
            asked = random.integers(0, 40, 10)
            assert session.run(found, {keys: asked}).tolist() == [wanted.get(k, [0.0, 0.0]) for k in asked.tolist()]
            held, rows = session.run(list(everything))
            assert dict(zip(held.tolist(), rows.tolist(), strict=True)) == wanted


def test_values_have_to_fit_their_keys():
    with tg.Graph().as_default() as graph:
        table = tg.MutableHashTable("string", "float32", [0.0, 0.0])
        with pytest.raises(tg.ShapeError):
            table.insert(["a"], [1.0])
        with pytest.raises(tg.DtypeError):
            table.insert(["a"], tg.constant([[1, 2]]))
        keys, values = tg.placeholder("string"), tg.placeholder("float32")
        put = table.insert(keys, values)
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError, match="a value for each key"):
        session.run(put, {keys: ["a", "b"], values: [[1.0, 2.0]]})


async def test_long_lookups_run_in_threads_in_turn_with_changes():
    count = 50_000
    with tg.Graph().as_default() as graph:
        table = tg.MutableHashTable("int64", "int64", -1)
        keys, offset = tg.placeholder("int64", [None]), tg.placeholder("int64", [])
        put, found = table.insert(keys, keys + offset), table.lookup(keys)
    every = np.arange(count)
    async with tg.Session(graph) as session:
        runs = []
        for i in range(4):
            runs.append(asyncio.create_task(session.run(put, {keys: every, offset: i})))
            runs.append(asyncio.create_task(session.run(found, {keys: every})))
        await runs[0]
        snapshot = await session.snapshot()
        await asyncio.gather(*runs)
        for each in runs[1::2]:
            assert len(set((each.result() - every).tolist())) == 1  # no part of one change
        held = snapshot["tables"]["mutable_hash_table"]
        assert len(set((held["values"] - every).tolist())) == 1
        assert len(set((await session.run(found, {keys: every}) - every).tolist())) == 1


def mutable(value="int64", default=0):
    with tg.Graph().as_default() as graph:
        table = tg.MutableHashTable("string", value, default)
        words = tg.placeholder("string", [None])
        count = table.insert(words, table.lookup(words) + 1)
        graph.found = table.lookup(words), *table.export()
        fixed = tg.index_table_from_tensor(["a", "b"]).lookup(words)
    return graph, words, count, fixed


async def test_a_checkpoint_has_what_steps_have_put_in(tmp_path):
    graph, words, count, fixed = mutable()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        for text in ("a", "rose", "a"):
            await session.run(count, {words: [text]})
        await session.run(fixed, {words: ["b"]})
        await (await checkpointer.save(session, 1))
        await session.run(count, {words: ["later"]})
        await checkpointer.restore(session)
        assert (await session.run(graph.found[0], {words: ["a", "later"]})).tolist() == [2, 0]
    graph, words, count, fixed = mutable()
    for is_made in (False, True):
        async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
            if is_made:
                await session.run(count, {words: ["other"]})
            await checkpointer.restore(session)
            found, keys, values = await session.run(list(graph.found), {words: ["a", "rose", "other"]})
            assert (found.tolist(), keys.tolist(), values.tolist()) == ([2, 1, 0], ["a", "rose"], [2, 1])
            await session.run(count, {words: ["new"]})
            assert (await session.run(fixed, {words: ["b"]})).tolist() == [1]


@pytest.mark.parametrize("other", [mutable("float32", 0.0), mutable("int64", [0, 0])], ids=["dtype", "shape"])
async def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(other):
    graph, words, count, _ = mutable()
    async with tg.Session(graph) as session:
        await session.run(count, {words: ["a"]})
        saved = await session.snapshot()
    graph, words, count, _ = other
    async with tg.Session(graph) as session:
        await session.run(graph.found[0], {words: ["a"]})
        for state in (saved, {"tables": {"mutable_hash_table": {"keys": 3}}}):
            with pytest.raises(tg.GraphError, match="no state of table"):
                await session.restore(state)
        assert (await session.run(graph.found[1], {words: ["a"]})).tolist() == []


def test_tables_of_one_shared_name_are_one_and_agree():
    with tg.Graph().as_default() as graph:
        one, other = (tg.MutableHashTable("string", "int64", 0, shared_name="t") for _ in range(2))
        wrong = tg.MutableHashTable("string", "int64", 1, shared_name="t")
        put, found, refused = one.insert(["a"], [5]), other.lookup(["a"]), wrong.lookup(["a"])
    with tg.SyncSession(graph) as session:
        session.run(put)
        assert session.run(found).tolist() == [5]
        with pytest.raises(tg.OpError, match="shared by what differs"):
            session.run(refused)


def test_sessions_have_contents_of_their_own():
    graph, words, count, _ = mutable()
    with tg.SyncSession(graph) as session:
        session.run(count, {words: ["a"]})
    with tg.SyncSession(graph) as session:
        assert session.run(graph.found[0], {words: ["a"]}).tolist() == [0]


def test_a_shape_with_a_value_for_each_key_is_the_wanted_shape():
    with tg.Graph().as_default():
        table = tg.MutableHashTable("int64", "float32", -1.0)
        with pytest.raises(tg.ShapeError, match="contradict") as caught:
            table.insert([1, 2], [1.0])
    assert (list(caught.value.wanted), list(caught.value.got)) == ([2], [1])
