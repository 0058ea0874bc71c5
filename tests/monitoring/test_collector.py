"""Sessions in a registry of prometheus_client."""

import pytest
import tagloom as tg

client = pytest.importorskip("prometheus_client")


def test_a_registry_exposes_what_the_text_says():
    with tg.Graph().as_default() as graph:
        queue = tg.FIFOQueue(3, ["float32"], name="queue")
        put = queue.enqueue([1.0])
    with tg.SyncSession(graph) as session:
        session.run(put)
        registry = client.CollectorRegistry()
        registry.register(tg.monitoring.Collector({"one": session}))
        exposed = client.generate_latest(registry).decode()
        text = tg.monitoring.prometheus_text({"one": session})

    def samples(lines):
        found = {}
        for line in lines.splitlines():
            if not line.startswith("#") and "seconds" not in line:
                found[frozenset(line.rpartition(" ")[0].replace("}", "").replace("{", ",").split(","))] = float(
                    line.rpartition(" ")[2]
                )
        return found

    assert samples(exposed) == samples(text)
    assert samples(text)


def test_a_mapping_is_read_at_each_scrape():
    sessions = {}
    registry = client.CollectorRegistry()
    registry.register(tg.monitoring.Collector(sessions))
    assert list(registry.collect()) == []
    with tg.Graph().as_default() as graph:
        tg.constant(1.0)
    with tg.SyncSession(graph) as sessions["late"]:
        assert registry.get_sample_value("tagloom_steps_running", {"session": "late"}) == 0


def test_what_is_no_session_is_refused():
    with pytest.raises(tg.GraphError, match="no statistics"):
        list(tg.monitoring.Collector(3).collect())
