"""The command `fxai serve`. Use it to serve an agent over HTTP with a chat page.

>>> ServeArgs(host="0.0.0.0").app_options("desk")
Traceback (most recent call last):
fxai.cli.exit.CliError: --host 0.0.0.0 lets any other machine use the agent. Name the variable of a token with ...
>>> ServeArgs().app_options("desk").page
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, final

import msgspec

from fxai.cli.chat_keeper import OWNER, is_database, store_at
from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.failure import model_error
from fxai.cli.job import AgentArgs, read_args
from fxai.cli.mcp_target import read_secret
from fxai.cli.progress import LoadProgress
from fxai.cli.run_program import value_of
from fxai.cli.setting import OpenSetting, Setting, open_setting
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope
from fxai.messages.errors import AiError

if TYPE_CHECKING:
    from fxai.effects.effect import EffectOf
    from fxai.mcp.settings import ElicitAnswer, Elicitation
    from fxai.ui import AppOptions, ChatApp, Conversations, Identify, OnLeave, StreamStore


@final
class ServeArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `fxai serve`. `fxai serve --help` describes them."""

    host: str = "127.0.0.1"
    port: int = 8000
    token_env: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    store: str | None = None
    on_leave: OnLeave = "continue"
    ag_ui: bool = False

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def app_options(self, title: str) -> AppOptions:
        """Return the options for `chat_app`.

        Raises:
            CliError: If other machines can reach the server, and the options name no token or no host name.
        """
        from fxai.ui import LOOPBACK, AppOptions, StreamOptions

        if not self.host.strip():
            raise CliError("--host is empty", "Pass the address to listen on: --host 127.0.0.1", code=WRONG_USE)
        if not self.is_local and self.token_env is None:
            problem = f"--host {self.host} lets any other machine use the agent"
            raise CliError(problem, "Name the variable of a token with --token-env NAME.", code=WRONG_USE)
        if not self.is_local and not self.hosts:
            problem = f"missing --allow-host for the server on {self.host}"
            raise CliError(
                problem, "Pass the host name that clients use: --allow-host chat.example.org", code=WRONG_USE
            )
        return AppOptions(
            title=title,
            page=True,
            stream=StreamOptions(error_text=_error_text) if self.is_local and not self.hosts else StreamOptions(),
            ag_ui=self.ag_ui,
            hosts=(*LOOPBACK, *self.hosts),
            origins=self.origins,
            on_leave=self.on_leave,
        )

    def identify(self) -> Identify | None:
        """Return the function that identifies users by the token, or None without a token.

        Raises:
            CliError: If the variable is not set, or the token is too short.
        """
        from fxai.ui import bearer_token

        try:
            return None if self.token_env is None else bearer_token(read_secret(self.token_env), OWNER)
        except ValueError as error:
            raise CliError(f"token in {self.token_env} is too short: {error}", "", code=WRONG_USE) from None

    def stores(self) -> tuple[Conversations, StreamStore]:
        """Return the stores of conversations and streams, in this process, in a directory, or in a SQLite database.

        Raises:
            CliError: If fxai cannot read this store or write to it.
        """
        from fxai.ui import Conversations, StreamStore

        if self.store is None:
            return Conversations.in_process(), StreamStore.in_process()
        location, conversations = Path(self.store), store_at(self.store)
        value_of(conversations.list(OWNER, limit=1))  # reports a damaged store before the model loads
        return conversations, StreamStore.sqlite(location) if is_database(location) else StreamStore.files(
            location / "streams"
        )


def serve(target: str | None, chosen: AgentArgs, wish: ServeArgs, err: TextIO) -> bool:
    """Serve an agent until a signal ends the server. Active answers then have time to finish."""
    _require_ui()
    options = wish.app_options("")
    questions = _Questions()
    setting, prompts = read_args(msgspec.structs.replace(chosen, agent=target), questions.elicit)
    options = msgspec.structs.replace(options, suggestions=prompts)
    app = partial(_app, identify=wish.identify(), stores=wish.stores(), options=options)
    with LoadProgress(err) as loading:
        value_of(fx.scoped(_program(setting, wish, app, questions, loading, err)))
    return True


def _error_text(failure: object) -> str:
    """Return the words for a failed run. Only users of this machine read them, who could also read the log."""
    from fxai.ui import StreamOptions

    masked = StreamOptions().error_text(failure)
    return str(model_error(failure)) if isinstance(failure, AiError) else masked


def _require_ui() -> None:
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise CliError(f"package {name} is not installed", "Install fxai[ui].")


@fx.gen
def _program(
    setting: Setting,
    wish: ServeArgs,
    app_of: Callable[[OpenSetting], ChatApp],
    questions: _Questions,
    loading: LoadProgress,
    err: TextIO,
) -> Gen[None, Any, Scope]:
    from fxai.hosting import serve_app  # requires uvicorn

    ready = yield from open_setting(setting, loading, None)
    app = app_of(ready)
    kit = (yield from ready.tools.now).toolkit
    own = {tool.name for tool in setting.agent.binding.toolkit}
    questions.start(app, {tool.name for tool in kit} - own)
    loading.end()

    def tell(url: str) -> None:
        kept = "in memory until the server stops" if wish.store is None else f"in {wish.store}"
        sign_in = "The page requires the token. " if wish.token_env is not None else ""
        err.write(f"fxai: {ready.agent.name} at {url}/. Conversations: {kept}. {sign_in}Press Ctrl-C to stop.\n")
        err.flush()

    yield from serve_app(app, host=wish.host, port=wish.port, lifespan=app.lifespan(), on_listening=tell)


def _app(
    ready: OpenSetting,
    identify: Identify | None,
    stores: tuple[Conversations, StreamStore],
    options: AppOptions,
) -> ChatApp:
    from fxai.ui import ChatApp

    conversations, streams = stores
    services: Any = Layer.effect_context(fx.succeed(ready.services))
    return ChatApp(
        ready.agent, services, conversations=conversations, streams=streams, identify=identify, options=options
    )


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
