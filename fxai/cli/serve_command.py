"""The command `fxai serve`. Use it to serve an agent over HTTP with a chat page.

>>> ServeArgs(host="0.0.0.0").app_options("desk")
Traceback (most recent call last):
fxai.cli.exit.CliError: --host 0.0.0.0 lets any other machine use the agent. Name the variable of a token with ...
>>> ServeArgs().app_options("desk").page
True
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, final

import msgspec

from fxai.cli.chat_keeper import OWNER, is_database, store_at
from fxai.cli.exit import CliError, wrong_use
from fxai.cli.run_program import model_error, value_of
from fxai.cli.screen import LoadProgress
from fxai.cli.setting import Setting, open_setting, read_args
from fxai.cli.target import is_local, read_secret, require_guard
from fxai.effects import Gen, Layer, Scope, fx
from fxai.messages import AiError

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

    def app_options(self, title: str) -> AppOptions:
        """Return the options for `chat_app`."""
        from fxai.ui import LOOPBACK, AppOptions, StreamOptions

        if not self.host.strip():
            raise wrong_use("--host is empty", "Pass the address to listen on: --host 127.0.0.1")
        require_guard("--host", self.host, self.token_env, self.hosts, "use the agent")
        plain = StreamOptions()

        def error_text(failure: object) -> str:  # only users of this machine read it, who could also read the log
            return str(model_error(failure)) if isinstance(failure, AiError) else plain.error_text(failure)

        return AppOptions(
            title=title,
            page=True,
            stream=StreamOptions(error_text=error_text) if is_local(self.host) and not self.hosts else plain,
            ag_ui=self.ag_ui,
            hosts=(*LOOPBACK, *self.hosts),
            origins=self.origins,
            on_leave=self.on_leave,
        )

    def identify(self) -> Identify | None:
        """Return the function that identifies users by the token, or None without a token."""
        from fxai.ui import bearer_token

        try:
            return None if self.token_env is None else bearer_token(read_secret(self.token_env), OWNER)
        except ValueError as error:
            raise wrong_use(f"token in {self.token_env} is too short: {error}", "") from None

    @fx.gen
    def stores(self) -> Gen[tuple[Conversations, StreamStore], Any]:
        """Return the stores of conversations and streams, in this process, in a directory, or in a SQLite database."""
        from fxai.ui import Conversations, StreamStore

        if self.store is None:
            return Conversations.in_process(), StreamStore.in_process()
        location, conversations = Path(self.store), store_at(self.store)
        yield from conversations.list(OWNER, limit=1)
        is_file = is_database(location)
        return conversations, StreamStore.sqlite(location) if is_file else StreamStore.files(location / "streams")


def serve(_: TextIO, err: TextIO, *, target: str | None, **chosen: Any) -> bool:
    """Serve an agent until a signal ends the server. Active answers then have time to finish.

    `chosen` are the fields of `ServeArgs` and the parameters of `read_args`.
    """
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise CliError(f"package {name} is not installed", "Install fxai[ui].")
    wish = ServeArgs(**{name: chosen.pop(name) for name in ServeArgs.__struct_fields__})
    options = wish.app_options("")
    questions = _Questions()
    setting, prompts = read_args(agent=target, elicit=questions.elicit, **chosen)
    options = msgspec.structs.replace(options, suggestions=prompts)
    with LoadProgress(err) as loading:
        value_of(fx.scoped(_program(setting, wish, options, questions, loading, err)))
    return True


@fx.gen
def _program(
    setting: Setting, wish: ServeArgs, options: AppOptions, questions: _Questions, loading: LoadProgress, err: TextIO
) -> Gen[None, Any, Scope]:
    from fxai.hosting import serve_app  # requires uvicorn
    from fxai.ui import ChatApp

    identify = wish.identify()
    conversations, streams = yield from wish.stores()  # before the model loads, so that a damaged store is reported
    ready = yield from open_setting(setting, loading, None)
    services: Any = Layer.effect_context(fx.succeed(ready.services))
    app = ChatApp(
        ready.agent, services, conversations=conversations, streams=streams, identify=identify, options=options
    )
    kit = (yield from ready.tools.now).toolkit
    own = {tool.name for tool in setting.agent.binding.toolkit}
    questions.start(app, {tool.name for tool in kit} - own)
    loading.end()

    def tell(url: str) -> None:
        kept = "in memory until the server stops" if wish.store is None else f"in {wish.store}"
        sign_in = "The page requires the token. " if wish.token_env is not None else ""
        err.write(f"fxai: {ready.agent.name} at {url}/. Conversations: {kept}. {sign_in}Press Ctrl-C to stop.\n")

    yield from serve_app(app, host=wish.host, port=wish.port, lifespan=app.lifespan(), on_listening=tell)


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
