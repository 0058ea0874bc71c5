"""Serve a trained character model over HTTP: each request awaits a step, many at once.

    tagloom demo --save weights.npz
    python examples/serve_async.py weights.npz
    curl -d '{"prompt": "The ", "max_chars": 300, "temperature": 0.5, "seed": 1}' localhost:8000/generate
    curl -N -d '{"prompt": "The ", "max_chars": 300}' localhost:8000/stream
    curl localhost:8000/health

/generate answers with the whole text, /stream with each character as soon as it is written, as server-sent events. A
client that hangs up cancels its own step and no other. When too many ask at once, those who have waited for
`--patience` seconds are told when to come back; a server that ends lets what runs go on for some seconds. Needs
starlette and uvicorn (in the `test` extra).
"""

import argparse
import asyncio
import json
import math
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, fields

import numpy as np
import tagloom as tg
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tagloom.demo import CharacterModel, load_weights

SERVICE_UNAVAILABLE = 503
CHARACTER = "character:0"  # what the model has drawn, in its loop
DRAIN = 5.0  # seconds that running requests have when the server ends
CLIENT_CLOSED_REQUEST = 499  # nobody reads it; it is what the access log shows


@dataclass(frozen=True)
class Wish:
    """What a client asks for: at most `max_chars`, ending with the first line that is longer than half of that."""

    prompt: str = "\n\nThe "
    max_chars: int = 400
    temperature: float = 0.6
    seed: int = 0

    @classmethod
    def parse(cls, body, limit):
        """Check a decoded body; ValueError says what is wrong."""
        unknown = set(body) - {f.name for f in fields(cls)} if isinstance(body, dict) else {"a body that is no object"}
        if unknown:
            raise ValueError(f"not understood: {', '.join(sorted(unknown))}")
        for field in fields(cls):
            kinds = (int, float) if field.type is float else field.type
            if field.name in body and (not isinstance(body[field.name], kinds) or isinstance(body[field.name], bool)):
                raise ValueError(f"{field.name} must be of type {field.type.__name__}")
        wish = cls(**body)
        if not wish.prompt or wish.seed < 0 or not wish.temperature > 0 or not 1 <= wish.max_chars <= limit:
            raise ValueError(f"prompt must not be empty, seed >= 0, temperature > 0, max_chars from 1 to {limit}")
        return wish


class Writer:
    """A model in a session, and one compiled step that all requests share."""

    def __init__(self, alphabet, weights, max_steps, patience):
        self.alphabet = alphabet
        self.limits = {"max_steps": max_steps, "settings": tg.Settings(admission_seconds=patience)}
        with tg.Graph().as_default() as self.graph:
            model = CharacterModel(weights)
            self.feeds = [
                tg.placeholder("int32", [None], name="prompt"),
                tg.placeholder("float32", [None], name="draws"),
                tg.placeholder("float32", [], name="temperature"),
                tg.placeholder("int32", [], name="minimum"),
            ]
            self.text = model.write(*self.feeds, newline=alphabet.encode("\n")[0])
            self.initialize = tg.global_variables_initializer()

    @asynccontextmanager
    async def open(self):
        """Open the session for as long as the server lives."""
        async with tg.Session(self.graph, **self.limits) as self.session:
            await self.session.run(self.initialize)
            self.step = await self.session.compile(self.text, self.feeds, watch=[CHARACTER])
            yield
            await self.session.aclose(drain=DRAIN)

    def inputs(self, wish):
        """Return what a step is fed; the same wish always gives the same text, whatever else runs."""
        draws = np.random.default_rng(wish.seed).random(wish.max_chars, np.float32)
        return self.alphabet.encode(wish.prompt), draws, wish.temperature, wish.max_chars // 2

    async def write(self, wish):
        """Await one step."""
        return self.alphabet.decode(await self.step(*self.inputs(wish)))

    async def stream(self, wish):
        """Yield the characters of one step as they are written; who leaves early ends it."""
        async with self.step.stream(CHARACTER, *self.inputs(wish)) as characters:
            async for number in characters:
                yield self.alphabet.decode([number])


async def unless_disconnected(request, coroutine):
    """Return what a coroutine gives; None, and the coroutine is cancelled, if the client hangs up first."""
    work, gone = asyncio.create_task(coroutine), asyncio.create_task(hang_up(request))
    try:
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        work.cancel()
        gone.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


async def events(first, characters):
    """Yield server-sent events, one for each character."""
    async with aclosing(characters):
        yield f"data: {json.dumps(first)}\n\n"
        async for character in characters:
            yield f"data: {json.dumps(character)}\n\n"


def come_back(error):
    """Tell a client that too many ask."""
    headers = {"Retry-After": str(math.ceil(error.retry_after))}
    return JSONResponse({"error": error.what}, SERVICE_UNAVAILABLE, headers)


async def hang_up(request):
    """Wait until the client has gone; its request was read to the end before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(alphabet, weights, limit=2000, max_steps=64, patience=5.0):
    """Return the ASGI application for a model.

    Parameters
    ----------
    alphabet : tagloom.demo.Alphabet
    weights : dict of str to array
        Both as `tagloom.demo.load_weights` returns them.
    limit : int
        Most characters that one request may ask for.
    max_steps : int
        How many requests are answered at once; the others wait in the order they came.
    patience : float
        Seconds after which a request that still waits is refused.
    """
    writer = Writer(alphabet, weights, max_steps, patience)

    async def generate(request):
        try:
            wish = Wish.parse(await request.json(), limit)
            text = await unless_disconnected(request, writer.write(wish))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except tg.Overloaded as error:
            return come_back(error)
        return Response(status_code=CLIENT_CLOSED_REQUEST) if text is None else JSONResponse({"text": text})

    async def stream(request):
        try:
            characters = writer.stream(Wish.parse(await request.json(), limit))
            first = await anext(characters)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except tg.Overloaded as error:
            return come_back(error)
        return StreamingResponse(events(first, characters), media_type="text/event-stream")

    async def health(request):
        return JSONResponse({"status": "ok", **asdict(writer.session.statistics())})

    routes = [
        Route("/generate", generate, methods=["POST"]),
        Route("/stream", stream, methods=["POST"]),
        Route("/health", health),
    ]
    return Starlette(routes=routes, lifespan=lambda app: writer.open())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="what `tagloom demo --save` wrote")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--max-steps", type=int, default=64, help="requests that are answered at once")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds after which one that waits is refused")
    options = parser.parse_args()
    limits = {"max_steps": options.max_steps, "patience": options.patience}
    uvicorn.run(create_app(*load_weights(options.weights), **limits), host=options.host, port=options.port)


if __name__ == "__main__":
    main()
