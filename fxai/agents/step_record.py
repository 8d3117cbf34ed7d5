"""Records of steps: the tools and messages in a request, the state of a prompt, and the break of the prefix.

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
from fxai.models.cut import Compacted

if TYPE_CHECKING:
    from fxai.agents.step_patch import StepPatch

_NO_STATE: Final = PromptState()


@final
class Surrounded(msgspec.Struct, frozen=True):
    """A conversation and the messages that a prompt adds to it. Steps share the conversation."""

    conversation: Prompt
    front: tuple[Message, ...]
    """Messages after the first system messages of the conversation."""
    behind: tuple[Message, ...] = ()

    @property
    def messages(self) -> Prompt:
        """All messages of the request."""
        given = self.conversation.messages
        lead = sum(1 for _ in takewhile(lambda message: message.role == "system", given))
        return Prompt((*given[:lead], *self.front, *given[lead:], *self.behind))


@final
class StepRecord(msgspec.Struct, frozen=True):
    """The tools and messages of a step, its patches, and the state before and after it."""

    tools: tuple[str, ...] = ()
    """The active tools. The model could call exactly these tools."""
    asked: Prompt | Surrounded = Prompt.empty
    """The messages, or the conversation and its surroundings."""
    patches: tuple[tuple[str, StepPatch[Any]], ...] = ()
    """The patches, each with the key of the effect that returned it."""
    before: PromptState = _NO_STATE
    """The state when the render began; empty without a stateful prompt."""
    after: PromptState = _NO_STATE
    """The state when the calls of the step had ended; empty without a stateful prompt."""
    prefix_break: PrefixBreak | None = None
    """The reason why the request did not extend the previous request of the conversation, or None."""
    compacted: Compacted | None = None
    """The work of a compaction before the request, or None."""

    @property
    def messages(self) -> Prompt:
        """The messages that the model received."""
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
