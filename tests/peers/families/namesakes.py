"""Functions that share a name with one of NumPy's and mean something else there, or have edges of their own."""

import numpy as np

from tests.peers.calls import Call, family

X = np.array([[3.0, -1.0, 2.0], [0.5, 2.5, -2.5]])
V = np.array([3, 1, 2, 3, 1])
N = np.array([1.0, -np.inf, 0.0, np.nan])
HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5])
I, J = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
PLAIN = {"differentiable": False}
CALLS = [
    Call("argmax", [X], **PLAIN),
    Call("argmax", [V, 0], **PLAIN),
    Call("argmin", [V, 0], **PLAIN),
    Call("argsort", [V], {"stable": True}, their_keywords={"stable": True}, **PLAIN),
    Call("argsort", [V], {"direction": "DESCENDING"}, **PLAIN),
    Call("bincount", [V.astype(np.int32)], **PLAIN),
    Call("cast", [np.array([1.7, -1.7]), "int32"], **PLAIN),
    Call("clip_by_value", [X, 2.0, 1.0], **PLAIN),
    Call("count_nonzero", [X], **PLAIN),
    Call("cumprod", [X]),
    Call("cumsum", [X]),
    Call("cumsum", [X, 1, True, True]),
    Call("cumsum", [X], {"reverse": True}),
    Call("diag", [X]),
    Call("diag_part", [np.arange(16.0).reshape(2, 2, 2, 2)]),
    Call("expand_dims", [X, -1]),
    Call("floordiv", [I, J]),
    Call("floormod", [I, J]),
    Call("gather", [X, np.array([1, 0])]),
    Call("hamming_window", [4], theirs="signal.hamming_window"),
    Call("hamming_window", [4], {"periodic": False}, theirs="signal.hamming_window"),
    Call("hann_window", [5], theirs="signal.hann_window"),
    Call("histogram_fixed_width", [X, [-3.0, 3.0], 4], **PLAIN),
    Call("l2_loss", [X], theirs="nn.l2_loss"),
    Call("l2_normalize", [X, 1], theirs="nn.l2_normalize"),
    Call("linspace", [0.0, 1.0, 5]),
    Call("maximum", [X, X.T.reshape(2, 3)]),
    Call("mod", [I, J]),
    Call("moments", [X, [0]], theirs="nn.moments"),
    Call("moments", [X, [0, 1]], {"keepdims": True}, theirs="nn.moments"),
    Call("norm", [X]),
    Call("norm", [X, 1]),
    Call("norm", [X, np.inf]),
    Call("norm", [X, 2], {"axis": 1, "keepdims": True}),
    Call("norm", [X, "fro"], {"axis": [0, 1]}, differentiable=False),
    Call("norm", [X, 1], {"axis": [0, 1]}, differentiable=False),
    Call("norm", [X, np.inf], {"axis": [-2, -1]}, differentiable=False),
    Call("one_hot", [np.array([1, -1, 9]), 3], **PLAIN),
    Call("pad", [X, [[1, 1], [0, 2]], "REFLECT"]),
    Call("pad", [X, [[1, 1], [0, 2]], "SYMMETRIC"]),
    Call("pow", [I, np.array([2, 3, 2, 3])], **PLAIN),
    Call("reduce_logsumexp", [np.full((2, 2), -np.inf), 1], **PLAIN),
    Call("reduce_mean", [np.zeros((2, 0)), 1], **PLAIN),
    Call("reduce_prod", [np.array([16, 16], np.int8)], **PLAIN),
    Call("reduce_std", [X], theirs="math.reduce_std"),
    Call("reduce_sum", [np.array([100, 100], np.int8)], **PLAIN),
    Call("reduce_variance", [X, 1], theirs="math.reduce_variance"),
    Call("repeat", [X, 2]),
    Call("repeat", [X, [1, 2]], {"axis": 0}),
    Call("rint", [HALVES], **PLAIN),
    Call("roll", [X, [1, 1], [0, 1]]),
    Call("round", [HALVES], **PLAIN),
    Call("saturate_cast", [np.array([300, -1]), "uint8"], **PLAIN),
    Call("searchsorted", [np.sort(V), np.array([2, 3])], **PLAIN),
    Call("setdiff1d", [V, np.array([1])], **PLAIN),
    Call("sign", [N], **PLAIN),
    Call("sort", [X]),
    Call("sort", [X], {"direction": "DESCENDING"}),
    Call("split", [X, [1, 2], 1]),
    Call("split", [X, 3, 1]),
    Call("tile", [X, [2, 1]]),
    Call("top_k", [np.array([1.0, 3.0, 3.0, 2.0]), 2], theirs="nn.top_k"),
    Call("trace", [np.arange(18.0).reshape(2, 3, 3)]),
    Call("transpose", [X[None]]),
    Call("unique", [V], **PLAIN),
    Call("unique_with_counts", [V], **PLAIN),
    Call("unravel_index", [np.array([3, 4]), np.array([2, 3])], **PLAIN),
    Call("where", [X > 2], **PLAIN),
]


@family
def namesakes(random):
    """Draw one of the calls."""
    return CALLS[int(random.integers(len(CALLS)))]
