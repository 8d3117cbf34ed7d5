"""The command `fxai serve`. Use it to serve an agent over HTTP with a chat page.

>>> app_options(host="0.0.0.0")
Traceback (most recent call last):
fxai.cli.exit.CliError: --host 0.0.0.0 lets any other machine use the agent. Name the variable of a token with ...
>>> app_options().page
True
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, final

import msgspec

from fxai.cli.chat_keeper import OWNER, is_database, store_at
from fxai.cli.exit import CliError, wrong_use
from fxai.cli.run_program import model_error, value_of
from fxai.cli.screen import LoadProgress
from fxai.cli.setting import open_setting, read_args
from fxai.cli.target import is_local, read_secret, require_guard
from fxai.effects import Gen, Layer, Scope, fx
from fxai.messages import AiError

if TYPE_CHECKING:
    from fxai.effects.effect import EffectOf
    from fxai.mcp.settings import ElicitAnswer, Elicitation
    from fxai.ui import AppOptions, ChatApp, Conversations, OnLeave, StreamStore


def app_options(
    *, host: str = "127.0.0.1", token_env: str | None = None, hosts: tuple[str, ...] = (), **more: Any
) -> AppOptions:
    """Return the options for `chat_app`, with `more` options of the application.

    If other machines can reach the server, `token_env` and `hosts` are required.
    """
    from fxai.ui import LOOPBACK, AppOptions, StreamOptions

    if not host.strip():
        raise wrong_use("--host is empty", "Pass the address to listen on: --host 127.0.0.1")
    require_guard("--host", host, token_env, hosts, "use the agent")
    plain = StreamOptions()

    def error_text(failure: object) -> str:  # only users of this machine read it, who could also read the log
        return str(model_error(failure)) if isinstance(failure, AiError) else plain.error_text(failure)

    stream = StreamOptions(error_text=error_text) if is_local(host) and not hosts else plain
    return AppOptions(page=True, stream=stream, hosts=(*LOOPBACK, *hosts), **more)


def serve(
    _: TextIO,
    err: TextIO,
    *,
    target: str | None,
    host: str,
    port: int,
    token_env: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    store: str | None,
    on_leave: OnLeave,
    ag_ui: bool,
    **chosen: Any,
) -> bool:
    """Serve an agent until a signal ends the server. Active answers then have time to finish.

    `chosen` are parameters of `read_args`.
    """
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise CliError(f"package {name} is not installed", "Install fxai[ui].")
    from fxai.hosting import serve_app
    from fxai.ui import ChatApp, bearer_token

    options = app_options(
        host=host, token_env=token_env, hosts=hosts, title="", origins=origins, on_leave=on_leave, ag_ui=ag_ui
    )
    questions = _Questions()
    setting, prompts = read_args(agent=target, elicit=questions.elicit, **chosen)
    options = msgspec.structs.replace(options, suggestions=prompts)
    try:
        identify = None if token_env is None else bearer_token(read_secret(token_env), OWNER)
    except ValueError as error:
        raise wrong_use(f"token in {token_env} is too short: {error}", "") from None

    def tell(agent: str, url: str) -> None:
        kept = "in memory until the server stops" if store is None else f"in {store}"
        sign_in = "The page requires the token. " if token_env is not None else ""
        err.write(f"fxai: {agent} at {url}/. Conversations: {kept}. {sign_in}Press Ctrl-C to stop.\n")

    @fx.gen
    def program() -> Gen[None, Any, Scope]:
        conversations, streams = yield from _stores(store)  # first, so that a damaged store is reported
        ready = yield from open_setting(setting, loading, None)
        services: Any = Layer.effect_context(fx.succeed(ready.services))
        shared: Any = {"conversations": conversations, "streams": streams, "identify": identify, "options": options}
        app = ChatApp(ready.agent, services, **shared)
        kit = (yield from ready.tools.now).toolkit
        own = {tool.name for tool in setting.agent.binding.toolkit}
        questions.start(app, {tool.name for tool in kit} - own)
        loading.end()
        hear = partial(tell, ready.agent.name)
        yield from serve_app(app, host=host, port=port, lifespan=app.lifespan(), on_listening=hear)

    with LoadProgress(err) as loading:
        value_of(fx.scoped(program()))
    return True


@fx.gen
def _stores(path: str | None) -> Gen[tuple[Conversations, StreamStore], Any]:
    """Return the stores of conversations and streams, in this process, in a directory, or in a SQLite database."""
    from fxai.ui import Conversations, StreamStore

    if path is None:
        return Conversations.in_process(), StreamStore.in_process()
    location, conversations = Path(path), store_at(path)
    yield from conversations.list(OWNER, limit=1)
    is_file = is_database(location)
    return conversations, StreamStore.sqlite(location) if is_file else StreamStore.files(location / "streams")


@final
class _Questions:
    """The questions of MCP servers. They go to the page of the turn that called the tool."""

    def __init__(self) -> None:
        self._app: ChatApp | None = None
        self._tools: frozenset[str] = frozenset()

    def start(self, app: ChatApp, tools: set[str]) -> None:
        """Set the application, and the names of the tools of servers."""
        self._app, self._tools = app, frozenset(tools)

    def elicit(self, asked: Elicitation) -> EffectOf[ElicitAnswer]:
        """Return the user's answer. If no call of a server is active, decline the question."""
        from fxai.mcp import ElicitAnswer
        from fxai.ui import Question

        if self._app is None:
            return fx.succeed(ElicitAnswer("decline"))
        question = Question(asked.message, asked.server, asked.schema, asked.url)
        replied = self._app.pages.ask(question, self._tools)
        return replied.map(lambda reply: ElicitAnswer(reply.action, reply.content))
