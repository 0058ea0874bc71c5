"""The losses of a graph, noted as they are built, and their sum."""

from __future__ import annotations

import re
from typing import Any

from ..base.errors import GraphError
from ..frontend.function_scope import prefix
from ..frontend.regularizers import regularization_losses
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
        Where; with None nowhere.

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
    """Return the losses that were built in the current graph; in a `function`, by this call of it.

    Parameters
    ----------
    scope : str, optional
        Only those whose names begin with a match of this regular expression; in a function, behind its own.
    loss_collection : str, optional
        Where they were noted.

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
    found = scopes.get_default_graph().collections.get(loss_collection, [])
    own = f"{prefix()}/" if prefix() else ""
    names = [loss.op.name.removeprefix(own) for loss in found]
    return [
        loss
        for loss, name in zip(found, names, strict=True)
        if loss.op.name.startswith(own) and (scope is None or re.match(scope, name))
    ]


@builds
def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """Return what was noted as "regularization_losses": penalties on weights, by ``add_loss(x, that)``.

    Parameters
    ----------
    scope : str, optional
        As for `get_losses`.

    Returns
    -------
    list of Tensor
        Those added to the collection "regularization_losses", then those of regularized variables, as
        `nn.get_regularization_losses` returns them: of the values where it is called.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     w = tg.nn.get_variable("w", [2], regularizer=tg.l2_loss)
    ...     len(tg.losses.get_regularization_losses())
    1
    """
    graph, own = scopes.get_default_graph(), f"{prefix()}/" if prefix() else ""
    noted = get_losses(scope, _REGULARIZATION)
    return noted + regularization_losses(
        graph, lambda name: scope is None or re.match(scope, name.removeprefix(own)) is not None
    )


@builds
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of the losses that `get_losses` returns: what an optimizer is to minimize.

    Parameters
    ----------
    add_regularization_losses : bool, optional
        Whether those of `get_regularization_losses` are among them.
    name : str, optional
    scope : str, optional
        As for `get_losses`.

    Returns
    -------
    Tensor
        A scalar of their dtype; 0.0 if there are none.

    Raises
    ------
    GraphError
        If one of them is no scalar, or was built in a branch or a loop.

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
    found = get_losses(scope) + (get_regularization_losses(scope) if add_regularization_losses else [])
    large = next((loss for loss in found if loss.shape.rank not in (0, None)), None)
    if large is not None:
        raise GraphError(
            "a loss that was noted is not a scalar",
            wanted="[]",
            got=large.shape,
            operation=large.op,
            hint="reduce it, or build it with loss_collection=None",
        )
    return add_n(found, name=name) if found else constant(0.0, name=name)
