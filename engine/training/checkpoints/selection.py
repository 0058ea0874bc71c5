"""Selection of variables for a checkpointer of some variables only."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...base import nest
from ...base.errors import GraphError
from ...frontend.state.partitioned import PartitionedVariable
from ...frontend.state.variables import Variable
from ...ir.graph import Graph


def names_of(variables: Iterable[Variable | PartitionedVariable | str]) -> set[str]:
    """Return the names of variables, of all shards for a sharded variable; raise GraphError for a single string."""
    if isinstance(variables, str):
        raise GraphError(
            "variables= is for several variables", wanted="a list", got=repr(variables), hint=f"[{variables!r}]"
        )
    return {each if isinstance(each, str) else each.name for each in nest.flatten(nest.with_shards(list(variables)))}


def check_names(graph: Graph, names: Collection[str] | None) -> None:
    """Raise GraphError for names of no variable of a graph."""
    known = {v.name for v in graph.collections.get("variables", ())}
    if names is not None and (unknown := sorted(set(names) - known)):
        raise GraphError(
            "a checkpointer is for variables that the graph of the session does not have",
            wanted="names in variables=, as of tagloom.global_variables()",
            got=", ".join(unknown[:5]),
            hint="look for the scopes that begin their names, or pass the Variables themselves",
        )
