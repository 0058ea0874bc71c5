"""Compiled code on disk: what is loaded, what is not, and many at once."""

import os
import subprocess
import sys

import pytest
from tagloom.kernels.native.jit import cache

CODE = bytes(range(256)) * 30


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_stored_is_loaded(folder):
    key = cache.key_of("text", "processor")
    assert cache.load_code(key) is None
    cache.store_code(key, CODE)
    assert cache.load_code(key) == CODE
    assert [path.name for path in folder.iterdir()] == [f"{key}.o"]
    assert key != cache.key_of("text", "another") != cache.key_of("textanother", "")


@pytest.mark.parametrize("length", [0, 5, 40, 1000])
def test_a_file_that_was_cut_off_is_not_loaded(folder, length):
    key = cache.key_of("text")
    cache.store_code(key, CODE)
    (folder / f"{key}.o").write_bytes((folder / f"{key}.o").read_bytes()[:length])
    assert cache.load_code(key) is None


def test_a_changed_byte_is_seen(folder):
    key = cache.key_of("text")
    cache.store_code(key, CODE)
    whole = (folder / f"{key}.o").read_bytes()
    for at in range(0, len(whole), 97):
        (folder / f"{key}.o").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.load_code(key) is None


def test_the_code_of_another_name_is_not_loaded(folder):
    one, other = cache.key_of("one"), cache.key_of("other")
    cache.store_code(one, CODE)
    (folder / f"{one}.o").rename(folder / f"{other}.o")
    assert cache.load_code(other) is None


def test_a_file_that_others_may_write_is_not_loaded(folder):
    key = cache.key_of("text")
    cache.store_code(key, CODE)
    (folder / f"{key}.o").chmod(0o666)
    assert cache.load_code(key) is None


def test_where_nothing_can_be_kept_nothing_is(folder, monkeypatch):
    folder.write_text("no directory")
    cache.store_code(cache.key_of("text"), CODE)
    assert cache.load_code(cache.key_of("text")) is None
    monkeypatch.setenv("TAGLOOM_CACHE", "")
    cache.store_code(cache.key_of("text"), CODE)
    assert cache.cache_directory() is None


def test_the_oldest_go(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_FILES", 8)
    keys = [cache.key_of(str(i)) for i in range(9)]
    for age, key in enumerate(keys):
        cache.store_code(key, CODE)
        if (folder / f"{key}.o").exists():
            os.utime(folder / f"{key}.o", (age, age))
    assert [cache.load_code(key) is not None for key in keys] == [False] * 3 + [True] * 6


WORKER = """
import random, sys, threading
from tagloom.kernels.native.jit import cache

def work():
    for _ in range(20):
        number = random.randrange(12)
        key, code = cache.key_of(str(number)), bytes([number]) * 5000
        found = cache.load_code(key)
        assert found in (None, code)
        cache.store_code(key, code)

failed = []
threading.excepthook = lambda each: failed.append(each)
threads = [threading.Thread(target=work) for _ in range(10)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(len(failed))
"""


def test_threads_and_processes_share_a_directory(folder):
    count = int(os.environ.get("TAGLOOM_PROGRAMS", 0)) // 10 or 3
    workers = [subprocess.Popen([sys.executable, "-c", WORKER]) for _ in range(count)]
    assert [worker.wait() for worker in workers] == [0] * count
    for number in range(12):
        assert cache.load_code(cache.key_of(str(number))) in (None, bytes([number]) * 5000)
    assert not [path for path in folder.iterdir() if path.suffix != ".o"]
