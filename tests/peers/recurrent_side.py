"""TensorFlow's recurrent networks: pickled cases on standard input, pickled lists of arrays on standard output."""

import logging
import os
import pickle
import sys


def main():
    """Answer one list of cases."""
    cases = pickle.load(sys.stdin.buffer)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    pickle.dump([results(tf1, case) for case in cases], sys.stdout.buffer)


def cell_of(case, layer, number):
    """Return TensorFlow's cell of a layer; the number is that of all cells."""
    from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

    made = {"basic": cells.BasicRNNCell, "lstm": cells.LSTMCell, "gru": cells.GRUCell}[case["kind"]](
        case["units"], name=f"cell{number}", **case["options"]
    )
    return cells.ResidualWrapper(made) if case["residual"] and layer else made


def stacked(case, first):
    """Return the cells of a case, one upon the other."""
    from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

    layers = [cell_of(case, k, first + k) for k in range(case["layers"])]
    return layers[0] if len(layers) == 1 else cells.MultiRNNCell(layers)


def results(tf1, case):
    """Return outputs, states and gradients of one case, or the text of the error."""
    try:
        with tf1.Graph().as_default():
            return run(tf1, case)
    except Exception as error:  # whatever it is, the test that compares says so
        return f"{type(error).__name__}: {error}"


def run(tf1, case):
    """Build and run a case."""
    x = tf1.placeholder("float32", case["x"].shape)
    common = {"dtype": "float32", "sequence_length": case["lengths"], "time_major": case["time_major"]}
    if case["bidirectional"]:
        cells = [stacked(case, 0), stacked(case, case["layers"])]
        outputs, states = tf1.nn.bidirectional_dynamic_rnn(*cells, x, **common)
    else:
        cells = [stacked(case, 0)]
        outputs, states = tf1.nn.dynamic_rnn(cells[0], x, **common)
    variables = tf1.trainable_variables()  # in the order in which the cells were first called
    found = [*tf1.nest.flatten(outputs), *tf1.nest.flatten(states)]
    loss = tf1.add_n([tf1.reduce_sum(tf1.sin(3.0 * y)) for y in found])
    gradients = tf1.gradients(loss, [x, *variables])
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for variable, value in zip(variables, case["weights"]):
            variable.load(value, session)
        return session.run([*found, *gradients], {x: case["x"]})


if __name__ == "__main__":
    main()
