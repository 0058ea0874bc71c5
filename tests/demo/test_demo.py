import math
import re
import subprocess
import sys

import numpy as np
import pytest
import tagloom as tg
from tagloom.cli import main
from tagloom.demo import Alphabet, CharacterModel, Options, load_text, load_weights, run, save_weights
from tagloom.demo import plot as plotting
from tagloom.demo.model import draw_class, initial_weights
from tagloom.demo.text import cut_epochs, cut_windows, split_held_out, to_printable
from tagloom.demo.training import Program, scale_learning_rate

SMALL = {"units": 8, "embedding": 4, "batch": 4, "length": 6, "steps": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def read(weights, characters, h, c):
    """Run the LSTM in NumPy; return its outputs and its last state."""
    outputs = []
    for row in characters:
        z = weights["embedding"][row] @ weights["input"] + weights["bias"] + h @ weights["recurrent"]
        i, f, o, candidate = np.split(z, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(candidate)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs), h, c


def cross_entropy(weights, outputs, targets):
    logits = outputs @ weights["output"] + weights["output_bias"]
    chosen = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return np.mean(np.log(np.exp(logits).sum(-1)) - chosen)


def test_the_text_is_plain_and_long():
    text = load_text()
    assert len(text) > 300_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    assert to_printable("\u201cit\u2019s\u2026\u201d \u00df") == '"it\'s." ?'
    assert Alphabet.of("banana").characters == "abn"


def test_an_alphabet_names_what_it_does_not_know():
    alphabet = Alphabet("ab")
    assert alphabet.decode(alphabet.encode("abba")) == "abba"
    with pytest.raises(ValueError, match="'xz'"):
        alphabet.encode("azbx")


def test_windows_follow_their_streams_to_the_end():
    found = list(cut_windows(np.arange(101), batch=2, length=20))
    np.testing.assert_array_equal(np.concatenate([w.inputs for w in found])[:, 1], np.arange(50, 100))
    np.testing.assert_array_equal(np.concatenate([w.targets for w in found])[:, 0], np.arange(1, 51))
    assert [(len(w.inputs), w.continues) for w in found] == [(20, False), (20, True), (10, True)]
    with pytest.raises(ValueError, match="too few"):
        list(cut_windows(np.arange(3), batch=4, length=2))


def test_epochs_go_on_for_ever_with_full_windows():
    stream = cut_epochs(np.arange(60), batch=2, length=8, seed=0)
    found = [next(stream) for _ in range(10)]
    assert {w.inputs.shape for w in found} == {(8, 2)}
    assert sum(not w.continues for w in found) == 4, "three windows fit one pass"
    with pytest.raises(ValueError, match="too few"):
        next(cut_epochs(np.arange(50), batch=10, length=8, seed=0))


def test_the_tail_is_held_out():
    training, held_out = split_held_out(np.arange(100))
    assert (training[-1], held_out[0], len(held_out)) == (94, 95, 5)


def test_the_rate_rises_then_falls():
    rates = [scale_learning_rate(i, 100) for i in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert 9 <= int(np.argmax(rates)) <= 10
    assert rates[-1] < 1e-3


@pytest.mark.parametrize("spare", [False, True])
@pytest.mark.parametrize("executor", ["machine", "reference"])
async def test_the_model_computes_what_the_formulas_say(executor, spare):
    weights = {n: w * np.float32(2) for n, w in initial_weights(5, 4, 3, seed=1).items()}
    random = np.random.default_rng(0)
    inputs, targets = random.integers(0, 5, (2, 7, 2)).astype(np.int32)
    state = random.standard_normal((2, 2, 3)).astype(np.float32)
    program = Program(weights, newline=0, batch=2, spare=spare)
    async with tg.Session(program.graph, executor=executor) as session:
        await session.run(program.initialize)
        feeds = dict(zip([program.inputs, program.targets, *program.state], [inputs, targets, *state], strict=True))
        loss, h, c = await session.run([program.loss, *program.next_state], feeds)
    outputs, *wanted = read(weights, inputs, *state)
    np.testing.assert_allclose(loss, cross_entropy(weights, outputs, targets), rtol=1e-5)
    np.testing.assert_allclose([h, c], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("fast_paths")
async def test_a_memory_limit_needs_swapping_for_long_texts():
    small = {**SMALL, "units": 64, "batch": 16, "length": 400, "steps": 1, "memory_limit": "8MB"}
    said = []
    swapped = await run(Options(**small, swap=True), said.append)
    assert any("swapping on" in line and "host out" in line for line in said)
    plain = await run(Options(**{**small, "memory_limit": "100MB"}), said.append)
    assert swapped.losses == plain.losses
    with pytest.raises(tg.DeviceMemoryError, match=r"try: let what loops save .* by Session\(swap=True\)") as caught:
        await run(Options(**small), said.append)
    assert "demo/model.py" in str(caught.value)
    with pytest.raises(ValueError, match="memory limit"):
        Options(swap=True)


def test_draws_fall_by_their_shares():
    with tg.Graph().as_default() as graph:
        number = tg.placeholder("float32", [])
        drawn = draw_class(tg.constant([[0.0, math.log(2.0), 0.0]]), number)
    with tg.SyncSession(graph) as session:
        found = [int(session.run(drawn, {number: u})[0]) for u in (0, 0.2, 0.3, 0.7, 0.8, 0.9999999)]
    assert found == [0, 0, 1, 1, 2, 2]


def written(bias, most, minimum):
    """Return what a model with zero weights writes from these logits (newline is 0) and all draws at 0.5."""
    weights = {n: np.zeros_like(w) for n, w in initial_weights(len(bias), 2, 2, seed=0).items()}
    weights["output_bias"] = np.array(bias, np.float32)
    program = Program(weights, newline=0, batch=1)
    feeds = {
        program.prompt: [1],
        program.draws: np.full(most, 0.5, np.float32),
        program.temperature: 1.0,
        program.minimum: minimum,
    }
    with tg.SyncSession(program.graph) as session:
        session.run(program.initialize)
        return session.run(program.text, feeds).tolist()


def test_writing_ends_at_a_newline_after_the_minimum_or_at_the_most():
    newline, letter = [9, 0], [0, 9]
    assert written(newline, most=20, minimum=5) == [0] * 5
    assert written(newline, most=20, minimum=0) == [0]
    assert written(letter, most=7, minimum=5) == [1] * 7
    assert written(letter, most=0, minimum=0) == []


async def test_it_learns_a_little_and_saves_what_it_learnt(tmp_path, capsys):
    path, picture = tmp_path / "weights.npz", tmp_path / "loss.png"
    result = await run(Options(**{**SMALL, "steps": 40, "rate": 0.05}, save=path, plot=picture))
    assert result.before == pytest.approx(math.log(len(Alphabet.of(load_text()))), abs=0.3)
    assert result.after < result.before - 0.5
    assert len(result.losses) == 40
    assert result.text in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = await run(Options(steps=0, load=path, batch=SMALL["batch"]))
    assert again.before == pytest.approx(result.after, abs=1e-6)


def test_weights_come_back_as_they_were(tmp_path):
    path, alphabet = tmp_path / "w.npz", Alphabet("\nab")
    weights = initial_weights(3, 4, 5, seed=0)
    save_weights(path, alphabet, weights)
    found_alphabet, found = load_weights(path)
    assert found_alphabet == alphabet
    for name, value in weights.items():
        np.testing.assert_array_equal(found[name], value)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("change", [{"recurrent": np.zeros((2, 8))}, {"extra": np.zeros(1)}, {"input": np.zeros(())}])
def test_weights_that_do_not_fit_together_are_refused(tmp_path, change):
    path = tmp_path / "w.npz"
    save_weights(path, Alphabet("\nab"), {**initial_weights(3, 4, 5, seed=0), **change})
    with pytest.raises(tg.CheckpointError, match="does not hold the weights of one model"):
        load_weights(path)


def test_the_command_reports_errors_in_one_place(tmp_path, capsys, monkeypatch):
    (tmp_path / "no.npz").write_text("nothing")
    assert main(["demo", "--load", str(tmp_path / "no.npz")]) == 1
    assert main(["demo", "--units", "0"]) == 1
    assert main(["demo", "--save", str(tmp_path / "nowhere" / "w.npz")]) == 1
    monkeypatch.setattr(plotting, "is_installed", lambda name: False)
    assert main(["demo", "--plot", "loss.png"]) == 1
    errors = capsys.readouterr().err
    assert "cannot read weights" in errors
    assert "units must be at least 1" in errors
    assert "there is no folder" in errors
    assert "matplotlib" in errors


def test_an_interrupt_ends_cleanly(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tagloom.demo.training.load_text", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "tagloom", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tagloom {tg.__version__}\n"


def test_without_rich_the_demo_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("tagloom.base.extras.find_spec", lambda name: None)
    assert main(["demo"]) == 1
    assert 'pip install "tagloom[demo]"' in capsys.readouterr().err


def test_info_says_that_half_precision_is_slow(capsys):
    assert main(["info"]) == 0
    assert "bfloat16" in capsys.readouterr().out


def test_info_names_versions_the_build_and_devices(capsys):
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    assert re.search(rf"^tagloom +{re.escape(tg.__version__)} \(", shown)
    assert np.__version__ in shown
    assert "cpu:0" in shown
    assert "\ncuda   " in shown


def test_info_says_when_pycuda_is_not_there(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda", None)
    assert main(["info"]) == 0
    assert "pycuda is not installed" in capsys.readouterr().out


def test_the_model_is_as_large_as_its_weights():
    with tg.Graph().as_default():
        model = CharacterModel(initial_weights(7, 4, 5, seed=0))
    assert (model.characters, model.units) == (7, 5)
    assert model.variables["recurrent"].shape == [5, 20]
