"""A stream that an ASGI framework sends ends with its response, when the client hangs up: not with the garbage."""

import asyncio
import gc
from contextlib import aclosing

import pytest
import tagloom as tg
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.support.waiting import until

OLD, NEW = "2.3", "2.4"  # of ASGI: a client that has gone is a message, or an error of `send`


class ClosingResponse(StreamingResponse):
    """The pattern of docs/tutorials/async-service.md."""

    async def __call__(self, scope, receive, send):
        async with aclosing(self.body_iterator):
            await super().__call__(scope, receive, send)


@pytest.fixture
async def served():
    """A session, and a function that makes a stream of many values."""
    inside = []
    with tg.Graph().as_default() as graph:
        n = tg.placeholder("int32", [])
        y = tg.while_loop(lambda i: i < n, lambda i: inside.append(i * i) or i + 1, [0])
    async with tg.Session(graph) as session:
        step = session.make_step(y, feeds=[n])
        await step(1)
        yield session, lambda: step.stream(inside[0], 1_000_000)


async def text_of(stream):
    async for value in stream:
        yield f"{int(value)}\n"


class Client:
    """One who asks over ASGI, and hangs up after some parts; while the next part is sent, or between two."""

    def __init__(self, version, parts=3):
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": version},
            "method": "GET",
            "scheme": "http",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"here")],
            "http_version": "1.1",
        }
        self.parts = parts
        self.is_gone = asyncio.Event()
        self.has_asked = False

    async def receive(self):
        if not self.has_asked:
            self.has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.body":
            self.parts -= 1
        if self.parts == 0:
            self.is_gone.set()
            if self.scope["asgi"]["spec_version"] == NEW:
                raise OSError("the client has gone")
            await asyncio.Event().wait()  # the buffer is full

    async def ask(self, app):
        await app(self.scope, self.receive, self.send)


@pytest.mark.parametrize("through_generator", [False, True])
@pytest.mark.parametrize(
    ("version", "response"), [(OLD, StreamingResponse), (OLD, ClosingResponse), (NEW, ClosingResponse)]
)
async def test_the_stream_ends_with_its_response(served, version, response, through_generator):
    session, stream = served

    async def answer(request):
        return response(text_of(stream()))

    class Direct(response):
        """Sends what a stream gives without a generator between."""

        def __init__(self, content):
            super().__init__(content)
            self.body_iterator = content

    class AsText:
        """An async iterator of the user's own."""

        def __init__(self, source):
            self.source = source

        def __aiter__(self):
            return self

        async def __anext__(self):
            return f"{int(await anext(self.source))}\n"

        async def aclose(self):
            await self.source.aclose()

    async def answer_directly(request):
        return Direct(AsText(stream()))

    app = Starlette(routes=[Route("/", answer if through_generator else answer_directly)])
    gc.disable()
    try:
        asking = asyncio.create_task(Client(version).ask(app))
        await asyncio.wait([asking])
        if version == NEW:
            assert isinstance(asking.exception(), ClientDisconnect)
        for _ in range(20):
            await asyncio.sleep(0)
        assert session.statistics().steps_running == 0
    finally:
        gc.enable()


def fastapi_app(stream):
    """Return an app of FastAPI whose view answers with the closing response."""
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()

    @app.get("/")
    async def answer():
        return ClosingResponse(text_of(stream()))

    return app


def quart_app(stream):
    """Return an app of Quart whose view returns a generator with the stream in an `async with`."""
    quart = pytest.importorskip("quart")
    app = quart.Quart(__name__)

    @app.get("/")
    async def answer():
        async def lines():
            async with stream() as values:
                async for value in values:
                    yield f"{int(value)}\n"

        return lines(), {"content-type": "text/plain"}

    return app


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("make", [fastapi_app, quart_app])
async def test_streams_of_other_frameworks_end_with_their_responses(served, make, version):
    session, stream = served
    app = make(stream)
    client = Client(version)
    gc.disable()
    try:
        await asyncio.wait([asyncio.create_task(client.ask(app))])
        assert client.parts <= 0  # some of the stream was sent
        await until(lambda: session.statistics().steps_running == 0)
    finally:
        gc.enable()
