"""The losses of a graph, noted while the graph is built, and their sum."""

from __future__ import annotations

import re
from typing import Any

from ..base.errors import GraphError
from ..frontend.state.regularizers import regularization_losses
from ..frontend.tracing.function_scope import traced_prefix
from ..ir import scopes
from ..ir.apply import constant, convert_to_tensor
from ..ir.entry import builds
from ..ir.tensor import Tensor
from ..ops.math.arithmetic import add_n

LOSSES = "losses"
_REGULARIZATION = "regularization_losses"


@builds
def add_loss(loss: Any, loss_collection: str | None = LOSSES) -> None:
    """Note a loss, for `get_total_loss`.

    Parameters
    ----------
    loss : Tensor
    loss_collection : str, optional
        Collection of the loss; None for no collection.

    Returns
    -------
    None

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     tg.losses.add_loss(tg.constant(2.0, name="mine"))
    ...     tg.losses.get_losses()
    [<Tensor mine:0 float32[]>]
    """
    if loss_collection is not None:
        if not isinstance(loss_collection, str):
            raise GraphError(
                "a collection of a graph has a name",
                wanted="a name, or None to collect nothing",
                got=repr(loss_collection),
                hint="leave loss_collection out for 'losses'",
            )
        loss = convert_to_tensor(loss)
        loss.graph.collections.setdefault(loss_collection, []).append(loss)


@builds
def get_losses(scope: str | None = None, loss_collection: str = LOSSES) -> list[Tensor]:
    """Return the losses built in the current graph; in a `function`, the losses of its current call.

    Parameters
    ----------
    scope : str, optional
        Regular expression matching the beginning of the names; in a function, after the function's own scope.
    loss_collection : str, optional
        Collection of the losses.

    Returns
    -------
    list of Tensor
        In the order in which they were built.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     loss = tg.losses.mean_squared_error([1.0], [3.0])
    ...     tg.losses.get_losses() == [loss], tg.losses.get_losses("other")
    (True, [])
    """
    losses = scopes.get_default_graph().collections.get(loss_collection, [])
    scope_prefix = f"{traced_prefix()}/" if traced_prefix() else ""
    # Graphs collect the losses of all calls of a function: the call's unique name scope tells them apart.
    names = [loss.op.name.removeprefix(scope_prefix) for loss in losses]
    return [
        loss
        for loss, name in zip(losses, names, strict=True)
        if loss.op.name.startswith(scope_prefix) and (scope is None or re.match(scope, name))
    ]


@builds
def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return penalties on weights: the collection "regularization_losses", and regularizers of variables.

    Parameters
    ----------
    scope : str, optional
        As for `get_losses`.

    Returns
    -------
    list of Tensor
        Losses added by ``add_loss(x, "regularization_losses")``, then the regularization of variables by the layers,
        computed from the values at the place of the call, as in `compat.tf1.get_regularization_losses`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     w = tg.compat.tf1.get_variable("w", [2], regularizer=tg.l2_loss)
    ...     len(tg.losses.get_regularization_losses())
    1
    """
    graph, scope_prefix = scopes.get_default_graph(), f"{traced_prefix()}/" if traced_prefix() else ""
    noted = get_losses(scope, _REGULARIZATION)
    # As in TensorFlow 1, a scope is a regular expression for the beginning of a name.
    return noted + regularization_losses(
        graph, lambda name: scope is None or re.match(scope, name.removeprefix(scope_prefix)) is not None
    )


@builds
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of the losses of `get_losses`, for an optimizer to minimize.

    Parameters
    ----------
    add_regularization_losses : bool, optional
        True to add the losses of `get_regularization_losses`.
    name : str, optional
    scope : str, optional
        As for `get_losses`.

    Returns
    -------
    Tensor
        A scalar of their dtype; 0.0 without losses.

    Raises
    ------
    GraphError
        If a loss is no scalar, or was built in a branch or a loop.

    Examples
    --------
    >>> import tagloom as tg
    >>> @tg.function
    ... def total():
    ...     tg.losses.mean_squared_error([1.0], [3.0])
    ...     tg.losses.absolute_difference([1.0], [3.0])
    ...     return tg.losses.get_total_loss()
    >>> float(total.sync())
    6.0
    """
    losses = get_losses(scope) + (get_regularization_losses(scope) if add_regularization_losses else [])
    # An unknown rank may still be 0.
    large = next((loss for loss in losses if loss.shape.rank not in (0, None)), None)
    if large is not None:
        raise GraphError(
            "a loss that was noted is not a scalar",
            wanted="[]",
            got=large.shape,
            operation=large.op,
            hint="reduce it, or build it with loss_collection=None",
        )
    return add_n(losses, name=name) if losses else constant(0.0, name=name)
