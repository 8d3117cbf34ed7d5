"""Conversations: what is said to an agent turn by turn, each kept when it has ended and not before.

A turn may take several runs: where calls wait to be approved, somebody is asked, and it goes on. One that fails or is
stopped leaves the conversation as it was.

>>> from fxai.agents.agent import Agent
>>> from fxai.cli.chat_view import ChatLines
>>> from fxai.cli.typed import Piped
>>> from fxai.effects.context import ContextOf
>>> import io
>>> from fxai.tools.source import BoundToolkit
>>> with Background() as background:
...     ready = Ready(Agent.make("nobody").builder, BoundToolkit.make(), ContextOf({}))
...     conversation = Conversation(background, ready, Memory.in_process(), ChatLines(io.StringIO()), Piped(()))
...     trouble = conversation.say("Hello")
>>> print(trouble)
the service LanguageModel is needed, and no layer gives it; give a layer that supplies it with --layer module:name
"""

from __future__ import annotations

from typing import Any, final

from fxai.agents.memory import Memory
from fxai.cli.background import Background
from fxai.cli.chat_view import ChatView
from fxai.cli.consent import Consent
from fxai.cli.draft import Draft
from fxai.cli.job import Telling
from fxai.cli.remembering import closed
from fxai.cli.setting import Ready
from fxai.cli.trouble import INTERRUPTED, Trouble
from fxai.cli.typed import Typed
from fxai.effects import fx
from fxai.effects.effect import EffectOf
from fxai.messages.message import ToolMessage
from fxai.messages.prompt import Prompt
from fxai.tools.tool import Tool

__all__ = ["Conversation"]


@final
class Conversation:
    """An agent that is talked to; its programs run in the background."""

    def __init__(self, background: Background, ready: Ready, memory: Memory, view: ChatView, lines: Typed) -> None:
        self._background = background
        self._ready = ready
        self._memory = memory
        self._view = view
        self._consent = Consent(lines, view.waits, view.refuses)

    def resume(self) -> int:
        """How many messages it goes on from; calls that were left open there are closed.

        Raises:
            Trouble: the memory cannot be read or written.
        """
        return len(self._background.value_of(closed(self._memory)))

    def history(self) -> Prompt:
        """What was said, as far as the agent is given it.

        Raises:
            Trouble: the memory cannot be read.
        """
        return self._background.value_of(self._memory.load())

    def tools(self) -> tuple[Tool[Any, Any, Any], ...]:
        """The tools that the agent has now.

        Raises:
            Trouble: a signal ended it.
        """
        return self._background.value_of(self._ready.tools.now).toolkit.as_tuple

    def forget(self) -> None:
        """Forgets what was said.

        Raises:
            Trouble: the memory cannot be written.
        """
        self._background.value_of(self._memory.clear())

    def say(self, text: str) -> Trouble | None:
        """Says something, and shows the answer; gives what it stopped at, if not at its end.

        Raises:
            Trouble: nothing more can be said: the process is to end, or nobody reads the output.
        """
        telling = Telling(self._view)
        telling.began(self._ready.name, text)
        try:
            self._turn(text, telling)
        except KeyboardInterrupt:  # in place of an answer to a question
            trouble = Trouble("interrupted", "", code=INTERRUPTED)
        except Trouble as stopped:
            if stopped.is_last:
                raise
            trouble = stopped
        else:
            telling.ended()
            return None
        telling.ended(trouble)
        return trouble

    def _turn(self, text: str, telling: Telling) -> None:
        draft = Draft(self.history())
        said = Prompt.make(text)
        while True:
            self._background.value_of(self._run(said, draft, telling))
            waiting = draft.said.pending
            if not waiting:
                break
            said = Prompt((ToolMessage.make(*map(self._consent.answer, waiting)),))
        self._background.value_of(self._memory.commit(draft.said).uninterruptible())

    def _run(self, said: Prompt, draft: Draft, telling: Telling) -> EffectOf[None, Any, Any]:
        parts = self._ready.agent.with_memory(draft).stream(said)
        shown: EffectOf[None, Any, Any] = parts.for_each(lambda part: fx.sync(lambda: telling.part(part)))
        return shown.provide_context(self._ready.services)
