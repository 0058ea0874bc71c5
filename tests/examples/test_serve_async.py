"""The example server, driven over real sockets by a real client."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest
import uvicorn
from tagloom.demo import Alphabet
from tagloom.demo.model import initial_weights

from examples.serve_async import create_app

ALPHABET = Alphabet("\n abcdefgh")
WEIGHTS = {name: 2 * value for name, value in initial_weights(len(ALPHABET), 4, 6, seed=3).items()}
WEIGHTS["output_bias"][0] = -3  # newlines are rare
LIMIT = 10_000_000


@asynccontextmanager
async def serving(**limits):
    """Run the server on a free port of this machine, in this loop; give a client of it."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(ALPHABET, WEIGHTS, LIMIT, **limits)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", ws="none", log_level="warning"))
    task = asyncio.create_task(server.serve([listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=httpx.Limits(max_connections=None)) as client:
            yield client
    finally:
        server.should_exit = True
        await task


async def until(client, **wanted):
    """Wait until the server's statistics have these values, and return them all."""
    async with asyncio.timeout(20):
        while True:
            found = (await client.get("/health")).json()
            if wanted.items() <= found.items():
                return found


def expected(prompt, max_chars, temperature, seed):
    """Return what the model writes, computed in NumPy."""
    draws = np.random.default_rng(seed).random(max_chars, np.float32)
    h = c = np.zeros(6)
    text = prompt
    for character in prompt:
        h, c = advance(character, h, c)
    for i, number in enumerate(draws):
        shares = np.cumsum(np.exp((h @ WEIGHTS["output"] + WEIGHTS["output_bias"]) / temperature))
        text += ALPHABET.characters[int(np.searchsorted(shares, number * shares[-1], side="right"))]
        h, c = advance(text[-1], h, c)
        if text[-1] == "\n" and i + 1 >= max_chars // 2:
            break
    return text[len(prompt) :]


def advance(character, h, c):
    embedded = WEIGHTS["embedding"][ALPHABET.characters.index(character)]
    z = embedded @ WEIGHTS["input"] + WEIGHTS["bias"] + h @ WEIGHTS["recurrent"]
    i, f, o = (1 / (1 + np.exp(-g)) for g in np.split(z[:18], 3))
    c = f * c + i * np.tanh(z[18:])
    return o * np.tanh(c), c


async def test_many_requests_at_once_each_get_their_own_text():
    wishes = [
        {"prompt": "abc"[: 1 + i % 3], "max_chars": 20 + i, "temperature": 0.5 + i / 20, "seed": i} for i in range(24)
    ]
    async with serving() as client:
        answers = await asyncio.gather(*(client.post("/generate", json=wish) for wish in wishes))
        found = await until(client, steps_finished=25)
    assert [a.json()["text"] for a in answers] == [expected(**wish) for wish in wishes]
    assert (found["steps_running"], found["steps_cancelled"], found["cached_steps"]) == (0, 0, 3)


async def test_a_disconnect_cancels_its_own_step_only():
    wish = {"prompt": "ab", "max_chars": 300, "temperature": 1.0, "seed": 7}
    async with serving() as client:
        endless = [
            asyncio.create_task(client.post("/generate", json={"prompt": "a", "max_chars": LIMIT, "seed": i}))
            for i in range(2)
        ]
        await until(client, steps_running=2)
        beside = asyncio.create_task(client.post("/generate", json=wish))
        endless[0].cancel()
        found = await until(client, steps_cancelled=1)
        assert not endless[1].done()
        assert found["steps_running"] >= 1
        assert (await beside).json()["text"] == expected(**wish)
        endless[1].cancel()
        await until(client, steps_cancelled=2, steps_running=0, steps_finished=2)
        assert (await client.post("/generate", json=wish)).json()["text"] == expected(**wish)
        await asyncio.wait(endless)
        assert all(task.cancelled() for task in endless)


async def streamed(client, wish, most=LIMIT):
    """Return the first characters of a stream, and hang up."""
    text = ""
    async with client.stream("POST", "/stream", json=wish) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line:
                text += json.loads(line.removeprefix("data: "))
            if len(text) == most:
                break
    return text


async def test_each_client_gets_the_characters_of_its_own_step():
    wishes = [{"prompt": "abc", "max_chars": 30 + i, "temperature": 1.0, "seed": i} for i in range(5)]
    endless = {"prompt": "abc", "max_chars": LIMIT, "temperature": 1.0, "seed": 9}
    async with serving() as client:
        *texts, start = await asyncio.gather(
            *(streamed(client, wish) for wish in wishes), streamed(client, endless, most=20)
        )
        assert texts == [expected(**wish) for wish in wishes]
        assert start == expected(**{**endless, "max_chars": 300})[:20]
        await until(client, steps_running=0, steps_cancelled=1)
        assert (await client.post("/stream", json={"prompt": ""})).status_code == 400
    async with serving(max_steps=1, patience=0.0) as client, client.stream("POST", "/stream", json=endless):
        assert (await client.post("/stream", json=endless)).status_code == 503


async def test_one_request_too_many_is_told_when_to_come_back():
    async with serving(max_steps=1, patience=0.0) as client:
        endless = asyncio.create_task(client.post("/generate", json={"prompt": "a", "max_chars": LIMIT}))
        await until(client, steps_running=1)
        answer = await client.post("/generate", json={"prompt": "a"})
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert "1 steps are running" in answer.json()["error"]
        endless.cancel()
        await until(client, steps_cancelled=1, steps_running=0, steps_refused=1)
        assert (await client.post("/generate", json={"prompt": "a", "max_chars": 9})).status_code == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"prompt": "xyz"}, "'xyz'"),
        ({"prompt": ""}, "must not be empty"),
        ({"prompt": "a", "max_chars": 0}, "max_chars from 1"),
        ({"prompt": "a", "temperature": "hot"}, "temperature must be of type float"),
        ({"prompt": "a", "length": 3}, "not understood: length"),
        (["a"], "no object"),
    ],
)
async def test_bad_requests_are_told_why(body, reason):
    async with serving() as client:
        answer = await client.post("/generate", json=body)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]
        assert (await client.post("/generate", content="{")).status_code == 400
        assert (await client.get("/health")).json()["status"] == "ok"
