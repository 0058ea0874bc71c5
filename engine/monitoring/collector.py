"""The metrics of sessions for the registries of prometheus_client, from the table of `prometheus_text`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.extras import import_extra
from ..runtime.observe.prometheus import Sessions, walk_samples


class Collector:
    """Collector for prometheus_client: each scrape of its registry reads the statistics of sessions.

    Names, labels and values equal those of :func:`prometheus_text`. Programs already serving a registry, by
    ``start_http_server`` or ``make_asgi_app``, register a collector for all of their sessions; others need only
    :func:`prometheus_text`, which requires no further package.

    Parameters
    ----------
    sessions : Session, SyncSession, or mapping of str to them
        With a mapping, which is read again at each scrape, each sample has a label ``session``.

    Raises
    ------
    TagloomError
        If prometheus_client is not installed.
    GraphError
        At a scrape, if `sessions` is no session, or has a value that is none.

    Examples
    --------
    >>> import tagloom as tg
    >>> from prometheus_client import CollectorRegistry
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(1.0) + 1.0
    >>> registry = CollectorRegistry()
    >>> with tg.SyncSession(graph) as session:
    ...     registry.register(tg.monitoring.Collector({"demo": session}))
    ...     value = session.run(y)
    ...     registry.get_sample_value("tagloom_steps_started_total", {"session": "demo"})
    1.0
    """

    def __init__(self, sessions: Sessions) -> None:
        self._core = import_extra("prometheus_client.core", "prometheus", "collectors are read by prometheus_client")
        self._sessions = sessions

    def describe(self) -> Iterable[Any]:
        """Return no metrics, so that registering the collector reads no statistics.

        Returns
        -------
        iterable
        """
        return []

    def collect(self) -> Iterable[Any]:
        """Return the metrics with their samples, as a registry asks for them at each scrape.

        Returns
        -------
        iterable of prometheus_client.Metric
        """
        families: dict[str, Any] = {}
        for metric, labels, value in walk_samples(self._sessions):
            name = f"tagloom_{metric.name}"
            if name not in families:
                # OpenMetrics names a counter's family without the suffix of its samples.
                families[name] = self._core.Metric(name.removesuffix("_total"), metric.help, metric.type)
            families[name].add_sample(name + metric.suffix, dict(labels), float(value))
        return families.values()
