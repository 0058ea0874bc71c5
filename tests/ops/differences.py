"""Gradients of any function of the API beside finite differences, to second order."""

import tagloom as tg


def check_gradients(function, arrays, known=True, order=2):
    """Fail unless the gradients of a function are its finite differences, and so are those of the gradients.

    Parameters
    ----------
    function : callable
        From tensors to one tensor, or a list.
    arrays : list of array
        In double precision, real or complex.
    known : bool
        Whether the graph knows shapes; if not, not even ranks.
    order : int
    """
    tg.testing.check_gradients(function, arrays, order, known_shapes=known, rtol=2e-5, atol=1e-6)
