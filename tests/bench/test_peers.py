"""Libraries of peers are found in the Python that TAGLOOM_PEERS names."""

import sys
import sysconfig

import pytest

from bench import peers, process
from bench.experiment import BenchError, Experiment


@pytest.fixture(autouse=True)
def _forgotten():
    peers.other_packages.cache_clear()
    yield
    peers.other_packages.cache_clear()


def python(path, version, packages):
    """Write a program that answers like a Python of a version with a folder of packages."""
    path.write_text(f"#!/bin/sh\necho {version.replace('.', ' ')} {packages}\n")
    path.chmod(0o755)
    return str(path)


def imported(case, stack):
    import a_peer

    return lambda: [a_peer.VALUE]


def experiment(engine):
    return Experiment(name="tiny", cases=({},), engines={engine: imported}, metric="steps_per_second")


def test_packages_of_this_python_and_of_none(monkeypatch):
    monkeypatch.delenv("TAGLOOM_PEERS", raising=False)
    assert peers.other_packages() == []
    peers.other_packages.cache_clear()
    monkeypatch.setenv("TAGLOOM_PEERS", sys.executable)
    assert sysconfig.get_path("purelib") in peers.other_packages()


def test_a_python_of_another_version_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TAGLOOM_PEERS", python(tmp_path / "python", "3.2", "/packages"))
    with pytest.raises(BenchError, match=r"TAGLOOM_PEERS names a Python 3\.2; wanted 3\."):
        peers.other_packages()


def test_a_peer_imports_from_there_and_tagloom_does_not(monkeypatch, tmp_path):
    (tmp_path / "a_peer.py").write_text("VALUE = 7.0\n")
    version = ".".join(map(str, sys.version_info[:2]))
    monkeypatch.setenv("TAGLOOM_PEERS", python(tmp_path / "python", version, tmp_path))
    monkeypatch.setattr("bench.experiment.PEER_MODULES", {"torch": "a_peer"})
    assert experiment("torch").chosen(["torch"]) == ["torch"]
    peer, ours = (process.EngineProcess(experiment(engine), engine) for engine in ("torch", "tagloom"))
    try:
        process.prepare([peer], {})
        assert peer.call("values") == [7.0]
        with pytest.raises(BenchError, match="No module named 'a_peer'"):
            process.prepare([ours], {})
    finally:
        peer.close()
        ours.close()


def test_a_peer_that_is_nowhere_is_said(monkeypatch):
    monkeypatch.delenv("TAGLOOM_PEERS", raising=False)
    monkeypatch.setattr("bench.experiment.PEER_MODULES", {"torch": "a_peer"})
    with pytest.raises(BenchError, match=r"a_peer, which is not installed; .* TAGLOOM_PEERS"):
        experiment("torch").chosen(["torch"])
