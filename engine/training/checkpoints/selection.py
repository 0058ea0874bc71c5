"""Selection of the variables that a checkpointer is for, where it is for some only."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...base import nest
from ...base.errors import GraphError
from ...frontend.partitioned import PartitionedVariable
from ...frontend.variables import Variable
from ...ir.graph import Graph


def names_of(variables: Iterable[Variable | PartitionedVariable | str]) -> set[str]:
    """Return the names of variables, those of shards for one in shards; GraphError for one name that is no list."""
    if isinstance(variables, str):
        raise GraphError(
            "variables= is for several variables", wanted="a list", got=repr(variables), hint=f"[{variables!r}]"
        )
    return {each if isinstance(each, str) else each.name for each in nest.flatten(nest.with_shards(list(variables)))}


def check_names(graph: Graph, names: Collection[str] | None) -> None:
    """Raise GraphError for names that no variable of a graph has."""
    known = {v.name for v in graph.collections.get("variables", ())}
    if names is not None and (unknown := sorted(set(names) - known)):
        raise GraphError(
            "a checkpointer is for variables that the graph of the session does not have",
            wanted="names in variables=, as of tagloom.global_variables()",
            got=", ".join(unknown[:5]),
            hint="look for the scopes in front of them, or pass the Variables themselves",
        )
