"""Records of steps: what a step was asked with, what it did to the state, and whether its request extended the last.

>>> StepRecord(("search",), Prompt.make("Hello")).messages[0].role
'user'
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from typing_extensions import override

from fxai.agents.state import PromptState
from fxai.messages.message import Message
from fxai.messages.part import PrefixBreak
from fxai.messages.prompt import Prompt

if TYPE_CHECKING:
    from fxai.agents.step_patch import StepPatch

_NO_STATE: Final = PromptState()


@final
class Surrounded(msgspec.Struct, frozen=True):
    """A conversation with messages around it, which are put together when they are asked for.

    Steps share the conversation, however long it is.
    """

    conversation: Prompt
    front: tuple[Message, ...]
    """What stands behind the system messages that the conversation begins with."""
    behind: tuple[Message, ...] = ()

    @property
    def messages(self) -> Prompt:
        """All messages, in order."""
        given = self.conversation.messages
        lead = sum(1 for _ in takewhile(lambda message: message.role == "system", given))
        return Prompt((*given[:lead], *self.front, *given[lead:], *self.behind))


@final
class StepRecord(msgspec.Struct, frozen=True):
    """The tools and messages of a step, its patches, and the state before and after it."""

    tools: tuple[str, ...] = ()
    """The active tools: those that the model was offered, which are those that could be executed."""
    asked: Prompt | Surrounded = Prompt.empty
    """What `messages` are put together of."""
    patches: tuple[tuple[str, StepPatch[Any]], ...] = ()
    """The patches, each with the key of the effect that gave it."""
    before: PromptState = _NO_STATE
    """The state when the render began; empty without a stateful prompt."""
    after: PromptState = _NO_STATE
    """The state when the calls of the step had ended; empty without a stateful prompt."""
    prefix_break: PrefixBreak | None = None
    """The reason why the request did not extend the previous request of the conversation. None if it did."""

    @property
    def messages(self) -> Prompt:
        """The messages that the model was shown."""
        return self.asked if isinstance(self.asked, Prompt) else self.asked.messages

    @property
    def is_rendered(self) -> bool:
        """True if a stateful prompt made the step."""
        return self.after is not _NO_STATE

    @override
    def __hash__(self) -> int:
        return hash(self.tools)


NO_RECORD: Final = StepRecord()
"""The record of a step without a request: approvals that the history answers ended the run."""
