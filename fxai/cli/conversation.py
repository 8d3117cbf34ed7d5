"""Conversations: messages to an agent, turn by turn; a turn enters the memory when it has ended, not before.

A turn may take several runs: where calls need approval the user is asked, and the turn goes on. A turn that fails or
is stopped leaves the conversation as it was before.

>>> from fxai.agents.agent import Agent
>>> from fxai.cli.chat_view import ChatLines
>>> from fxai.cli.line_input import PipedInput
>>> from fxai.effects.context import ContextOf
>>> import io
>>> from fxai.tools.source import BoundToolkit
>>> with Background() as background:
...     ready = OpenSetting(Agent.make("nobody"), BoundToolkit.make(), ContextOf({}))
...     conversation = Conversation(background, ready, Memory.in_process(), ChatLines(io.StringIO()), PipedInput(()))
...     trouble = conversation.say("Hello")
>>> print(trouble)
the service LanguageModel is needed, and no layer gives it; give a layer that supplies it with --layer module:name

Until then its messages are in a draft, a memory of its own:

>>> from fxai.effects import fx
>>> draft = Draft(Prompt.make("I am Ann."))
>>> fx.run_sync(draft.commit(Prompt.make("Who am I?")))
>>> [message.role for message in fx.run_sync(draft.load())], len(draft.said)
(['user', 'user'], 1)
"""

from __future__ import annotations

from typing import Any, final

from typing_extensions import override

from fxai.agents.memory import Memory, MemoryFailure
from fxai.cli.background import Background
from fxai.cli.chat_view import ChatView
from fxai.cli.cli_error import INTERRUPTED, CliError
from fxai.cli.consent import Consent
from fxai.cli.job import RunReport
from fxai.cli.line_input import LineInput
from fxai.cli.memory_option import close_calls
from fxai.cli.setting import OpenSetting
from fxai.effects import fx
from fxai.effects.effect import Effect, EffectOf
from fxai.messages.message import ToolMessage
from fxai.messages.prompt import Prompt
from fxai.tools.tool import AnyTool

__all__ = ["Conversation", "Draft"]


@final
class Draft(Memory):
    """A memory that holds the conversation so far and the messages of one turn, which may take several runs."""

    def __init__(self, before: Prompt) -> None:
        self._before = before
        self.said = Prompt.empty
        """The messages of the turn."""

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return fx.sync(lambda: self._before + self.said)

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        def add() -> None:
            self.said = self.said + messages.without_system()

        return fx.sync(add)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return fx.sync(lambda: tuple(part for part in (self._before, self.said) if len(part)))

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def forget() -> None:
            self._before = self.said = Prompt.empty

        return fx.sync(forget)


@final
class Conversation:
    """A conversation with an agent, whose programs run in the background."""

    def __init__(
        self, background: Background, ready: OpenSetting, memory: Memory, view: ChatView, lines: LineInput
    ) -> None:
        self._background = background
        self._ready = ready
        self._memory = memory
        self._view = view
        self._consent = Consent(lines, view.show_pending, view.show_refusal)

    def resume(self) -> int:
        """The number of messages that the memory holds; calls that were left open there are closed.

        Raises:
            CliError: the memory cannot be read or written.
        """
        return len(self._background.value_of(close_calls(self._memory)))

    def history(self) -> Prompt:
        """The messages so far, as the agent is given them.

        Raises:
            CliError: the memory cannot be read.
        """
        return self._background.value_of(self._memory.load())

    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that the agent has now.

        Raises:
            CliError: a signal ended it.
        """
        return self._background.value_of(self._ready.tools.now).toolkit.as_tuple

    def forget(self) -> None:
        """Clears the memory.

        Raises:
            CliError: the memory cannot be written.
        """
        self._background.value_of(self._memory.clear())

    def say(self, text: str) -> CliError | None:
        """Sends a prompt and shows the answer; gives the error that stopped it, or None.

        Raises:
            CliError: the conversation cannot go on: the process is to end, or its output cannot be written.
        """
        telling = RunReport(self._view)
        telling.begin(self._ready.name, text)
        try:
            self._turn(text, telling)
        except KeyboardInterrupt:  # in place of an answer to a question
            trouble = CliError("interrupted", "", code=INTERRUPTED)
        except CliError as stopped:
            if stopped.is_last:
                raise
            trouble = stopped
        else:
            telling.end()
            return None
        telling.end(trouble)
        return trouble

    def _turn(self, text: str, telling: RunReport) -> None:
        draft = Draft(self.history())
        said = Prompt.make(text)
        while True:
            self._background.value_of(self._run(said, draft, telling))
            waiting = draft.said.pending
            if not waiting:
                break
            said = Prompt((ToolMessage.make(*map(self._consent.answer, waiting)),))
        self._background.value_of(self._memory.commit(draft.said).uninterruptible())

    def _run(self, said: Prompt, draft: Draft, telling: RunReport) -> EffectOf[None, Any, Any]:
        parts = self._ready.agent.with_memory(draft).stream(said)
        shown: EffectOf[None, Any, Any] = parts.for_each(lambda part: fx.sync(lambda: telling.part(part)))
        return shown.provide_context(self._ready.services)
