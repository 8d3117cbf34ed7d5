"""The command `fxai serve`: an agent behind HTTP, with a page to chat with it.

>>> ServeArgs(host="0.0.0.0").app_options("desk")
Traceback (most recent call last):
fxai.cli.exit.CliError: 0.0.0.0 can be reached from other machines, which could all use the agent; ...
>>> ServeArgs().app_options("desk").page
True
"""

from __future__ import annotations

from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, final

import msgspec

from fxai.cli.chat_keeper import OWNER, is_database, store_at
from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.job import AgentArgs, read_args
from fxai.cli.mcp_target import read_secret
from fxai.cli.progress import LoadProgress
from fxai.cli.run_program import value_of
from fxai.cli.setting import OpenSetting, Setting, open_setting
from fxai.effects import fx
from fxai.effects.effect import Gen
from fxai.effects.layer import Layer
from fxai.effects.scope import Scope

if TYPE_CHECKING:
    from fxai.effects.effect import EffectOf
    from fxai.mcp.settings import ElicitAnswer, Elicitation
    from fxai.ui import AppOptions, ChatApp, Conversations, OnLeave, StreamStore


@final
class ServeArgs(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is served, as `fxai serve --help` describes its options."""

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
        """Whether only this machine reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def app_options(self, title: str) -> AppOptions:
        """As `chat_app` takes them.

        Raises:
            CliError: other machines reach the server, and nothing says who may use it, or what they call it.
        """
        from fxai.ui import LOOPBACK, AppOptions

        if not self.is_local and self.token_env is None:
            said = f"{self.host} can be reached from other machines, which could all use the agent"
            raise CliError(said, "name the variable of a token with --token-env NAME", code=WRONG_USE)
        if not self.is_local and not self.hosts:
            said = f"it is not known what clients call the server on {self.host}"
            raise CliError(said, "say --allow-host chat.example.org, or any other name", code=WRONG_USE)
        return AppOptions(
            title=title,
            page=True,
            ag_ui=self.ag_ui,
            hosts=(*LOOPBACK, *self.hosts),
            origins=self.origins,
            on_leave=self.on_leave,
        )

    def stores(self) -> tuple[Conversations, StreamStore]:
        """Where conversations and streams are kept: in this process, in a folder, or in a SQLite database.

        Raises:
            CliError: nothing can be kept there.
        """
        from fxai.ui import Conversations, StreamStore

        if self.store is None:
            return Conversations.in_process(), StreamStore.in_process()
        place, conversations = Path(self.store), store_at(self.store)
        return conversations, StreamStore.sqlite(place) if is_database(place) else StreamStore.files(place / "streams")


def serve(target: str | None, chosen: AgentArgs, wish: ServeArgs, err: TextIO) -> bool:
    """Serves an agent until a signal ends it; answers that are being written then have a while to end."""
    _require_ui()
    options = wish.app_options("")
    questions = _Questions()
    setting, _ = read_args(msgspec.structs.replace(chosen, agent=target), questions.elicit)
    with LoadProgress(err) as loading:
        value_of(fx.scoped(_program(setting, wish, options, questions, loading, err)))
    return True


def _require_ui() -> None:
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise CliError(f"{name} is not installed", "install fxai[ui]")


@fx.gen
def _program(
    setting: Setting, wish: ServeArgs, options: AppOptions, questions: _Questions, loading: LoadProgress, err: TextIO
) -> Gen[None, Any, Scope]:
    from fxai.hosting import serve_app  # it needs uvicorn

    ready = yield from open_setting(setting, loading, None)
    app = _app(ready, wish, options)
    kit = (yield from ready.tools.now).toolkit
    own = {tool.name for tool in setting.agent.binding.toolkit}
    questions.begin(app, {tool.name for tool in kit} - own)
    loading.end()

    def tell(url: str) -> None:
        kept = "are kept while it runs" if wish.store is None else f"are kept in {wish.store}"
        sign_in = "; the page asks for the token" if wish.token_env is not None else ""
        err.write(f"fxai: {ready.agent.name} at {url}/ (conversations {kept}{sign_in}; Ctrl-C ends it)\n")
        err.flush()

    yield from serve_app(app, host=wish.host, port=wish.port, lifespan=app.lifespan(), on_listening=tell)


def _app(ready: OpenSetting, wish: ServeArgs, options: AppOptions) -> ChatApp:
    from fxai.ui import ChatApp, bearer_token

    try:
        identify = None if wish.token_env is None else bearer_token(read_secret(wish.token_env), OWNER)
    except ValueError as error:
        raise CliError(f"the token in {wish.token_env} is too short: {error}", "", code=WRONG_USE) from None
    conversations, streams = wish.stores()
    services: Any = Layer.effect_context(fx.succeed(ready.services))
    return ChatApp(
        ready.agent, services, conversations=conversations, streams=streams, identify=identify, options=options
    )


@final
class _Questions:
    """Questions of MCP servers, which go to the page of the turn that has called their tools."""

    def __init__(self) -> None:
        self._app: ChatApp | None = None
        self._tools: frozenset[str] = frozenset()

    def begin(self, app: ChatApp, tools: set[str]) -> None:
        """The application is there; these are the tools of servers."""
        self._app, self._tools = app, frozenset(tools)

    def elicit(self, asked: Elicitation) -> EffectOf[ElicitAnswer]:
        """The user's answer; where no call of a server's goes on, nobody is there to answer."""
        from fxai.mcp import ElicitAnswer
        from fxai.ui import Question

        if self._app is None:
            return fx.succeed(ElicitAnswer("decline"))
        question = Question(asked.message, asked.server, asked.schema, asked.url)
        replied = self._app.pages.ask(question, self._tools)
        return replied.map(lambda reply: ElicitAnswer(reply.action, reply.content))
