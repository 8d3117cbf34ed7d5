"""Patches of one step: what an effect of a stateful prompt hides, adds, or reminds the model of.

A patch holds for the step that is about to be asked, and for no other. Patches are a monoid: `+` is associative,
`StepPatch()` is neutral, and what one of them hides is hidden, whatever the order.

>>> patch = StepPatch.hide("refund") + StepPatch.system("mood", "Be friendly.")
>>> patch == StepPatch.hide("refund") + (StepPatch() + StepPatch.system("mood", "Be friendly."))
True
>>> look = Definition("tool", "search")
>>> f"Use {look} first.", look.disable() == StepPatch.hide("search")
('Use <search> first.', True)
"""

# The type variable of what is needed has a default: that of a patch that needs nothing.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Never, cast, final, overload

import msgspec
from typing_extensions import TypeVar, override

from fxai.agents.run_tools import Binding, Offered
from fxai.agents.section import Kind, Section, reference_to
from fxai.agents.state import RenderError
from fxai.messages.calls import unpaired_calls
from fxai.messages.message import Message, TextPart, UserMessage
from fxai.messages.prompt import Prompt
from fxai.messages.wire import MessageError
from fxai.schema.parsing import is_plain
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.handler import HandlerReturn
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_options import CallContext
from fxai.tools.toolkit import AnyBound

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_R = TypeVar("_R", default=None)
_R2 = TypeVar("_R2")
_R_co = TypeVar("_R_co", covariant=True, default=None)


# -- what is defined


@final
class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool of a step, and where its handler is from: given with it, brought by its origin, or from outside."""

    tool: AnyTool
    handler: Callable[..., Any] | None = None
    aspect: Aspect[Any] | None = None
    """What happens around the handler."""
    origin: AnyBound | None = None
    """The toolkit that brings the handler."""

    @property
    def name(self) -> str:
        """What the model calls it by."""
        return self.tool.name

    @property
    def kind(self) -> Kind:
        """`"tool"`."""
        return "tool"

    @override
    def __hash__(self) -> int:
        return hash(self.tool)


def define_tool(tool: object, handler: object, aspect: object) -> ToolDefinition:
    """The definition of a tool with its handler.

    Raises:
        RenderError: it is no tool, is answered elsewhere, or the handler is no function.
    """
    if not isinstance(tool, Tool):
        raise RenderError("value", f"{tool!r} is no tool: tools with handlers of their own are given by tools(…)")
    known: AnyTool = cast(Any, tool)
    if not known.requires_handler:
        raise RenderError("value", f"the tool {known.name!r} is answered elsewhere: give it by tools(…)")
    if not callable(handler):
        raise RenderError("value", f"the handler of {known.name!r} is a function of its parameters, not {handler!r}")
    if not (aspect is None or isinstance(aspect, Aspect)):
        raise RenderError("value", f"aspect={aspect!r} of {known.name!r} is no Aspect: say Aspect.make(…)")
    return ToolDefinition(known, handler, cast(Any, aspect))


def define_tools(origins: Iterable[object]) -> tuple[ToolDefinition, ...]:
    """The definitions of tools that bring their handlers, or need none, or those from outside.

    Raises:
        RenderError: something is nothing that gives tools, or would have to be opened first.
    """
    definitions: list[ToolDefinition] = []
    for origin in origins:
        try:
            offers = Binding.of((origin,)).offers
        except TypeError as error:
            raise RenderError("value", str(error)) from None
        for offer in offers:
            bound = offer.bound
            if bound is None:
                why = "it has to be opened, and a render opens nothing: give it to the agent, as its toolkit"
                raise RenderError("value", f"{offer} cannot be defined in a render: {why}")
            brings = bound if bound.parts else None
            definitions += [ToolDefinition(tool, origin=brings) for tool in bound.toolkit]
    return tuple(definitions)


def _check_waiting(one: ToolDefinition) -> ToolDefinition:
    """Refuses a tool whose approved calls would find no handler: the patch that had it is over by then."""
    if one.tool.requires_handler and one.tool.needs_approval is not False:
        why = "its calls may wait for an approval, and a patch holds for one step: define it in the render"
        raise RenderError("value", f"no patch can add the tool {one.name!r}: {why}")
    return one


def define_message(content: object) -> Message:
    """A message; a string is one of the user.

    Raises:
        RenderError: it is no message, or one of calls or results, which belong to the conversation.
    """
    if isinstance(content, str):
        return UserMessage((TextPart(content),))
    try:
        (message,) = Prompt.make(cast(Any, content))
    except (MessageError, TypeError, ValueError):
        raise RenderError("value", f"a message is a string or a message, not {content!r}") from None
    if message.role == "tool" or unpaired_calls((message,)):
        raise RenderError("value", "a message of calls or results belongs to the conversation, and not to a render")
    return message


# -- references


@final
class Definition(msgspec.Struct, frozen=True):
    """A reference to a tool or a section of a step; in texts `"<name>"`."""

    kind: Kind
    name: str

    def remind(self) -> StepPatch:
        """The patch that reminds the model of it, once, in the step."""
        return StepPatch(reminders=(self,))

    def disable(self) -> StepPatch:
        """The patch that hides it in the step; a tool that is hidden cannot be executed either."""
        return StepPatch.hide(self)

    @override
    def __str__(self) -> str:
        return reference_to(self.name)

    @override
    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


# -- patches


@final
class StepPatch(msgspec.Struct, Generic[_R_co], frozen=True):
    """A change of the one step that is about to be asked; `R` is what the handlers of its tools need."""

    hidden: frozenset[str] = frozenset()
    """The names of tools and sections that the step lacks."""
    reminders: tuple[Definition, ...] = ()
    """What the model is reminded of."""
    tool_definitions: tuple[ToolDefinition, ...] = ()
    """Tools that the step has besides."""
    sections: tuple[Section, ...] = ()
    """Sections that the step has besides."""
    messages: tuple[Message, ...] = ()
    """Messages behind the conversation."""

    @staticmethod
    def hide(*what: str | Definition) -> StepPatch:
        """The patch that hides tools and sections, by their names; a name that the step lacks hides nothing.

        Raises:
            RenderError: something is neither a name nor a definition.
        """
        names = [one.name if isinstance(one, Definition) else one for one in what]
        for name in names:
            if not isinstance(cast(object, name), str):
                raise RenderError("value", f"hide takes names and definitions, and not {name!r}")
        return StepPatch(frozenset(names))

    @staticmethod
    def remind(*what: Definition) -> StepPatch:
        """The patch that reminds the model of tools and sections; of those that the step lacks nothing is shown.

        Raises:
            RenderError: something is no definition.
        """
        for one in what:
            if not isinstance(cast(object, one), Definition):
                raise RenderError(
                    "value", f"remind takes what at.tool(…), at.system(…) and at.data(…) give, not {one!r}"
                )
        return StepPatch(reminders=what)

    @overload
    @staticmethod
    def tool(
        tool: Tool[_P, _S, _F],
        handler: Callable[[_P], HandlerReturn[_S, _F, _R]],
        /,
        *,
        aspect: Aspect[_R] | None = ...,
    ) -> StepPatch[_R | None]: ...
    @overload
    @staticmethod
    def tool(
        tool: Tool[_P, _S, _F],
        handler: Callable[[_P, CallContext], HandlerReturn[_S, _F, _R]],
        /,
        *,
        aspect: Aspect[_R] | None = ...,
    ) -> StepPatch[_R | None]: ...
    @staticmethod
    def tool(tool: Any, handler: Any, /, *, aspect: Any = None) -> Any:
        """The patch that adds a tool with its handler; see `Render.tool`.

        Raises:
            RenderError: it is no tool that a handler answers, the handler is no function, or its calls may wait for an
                approval: when that comes the patch is over, so a render has to define it.
        """
        return StepPatch(tool_definitions=(_check_waiting(define_tool(tool, handler, aspect)),))

    @staticmethod
    def tools(*origins: Offered[Never, _R]) -> StepPatch[_R | None]:
        """The patch that adds tools that bring their handlers, or need none here; see `Render.tools`.

        Raises:
            RenderError: something gives no tools, would have to be opened first, or its calls may wait for an approval:
                when that comes the patch is over, so a render has to define it.
        """
        return StepPatch(tool_definitions=tuple(map(_check_waiting, define_tools(origins))))

    @staticmethod
    def system(key: str, text: str) -> StepPatch:
        """The patch that adds a section to the system prompt.

        Raises:
            RenderError: no section can be called so, or the text is no string.
        """
        return StepPatch(sections=(Section("system", key, text).check(),))

    @staticmethod
    def data(key: str, value: Any) -> StepPatch:
        """The patch that adds data to the system prompt.

        Raises:
            RenderError: no section can be called so.
        """
        return StepPatch(sections=(Section("data", key, value).check(),))

    @staticmethod
    def message(content: str | Message) -> StepPatch:
        """The patch that adds a message behind the conversation; a string is one of the user.

        Raises:
            RenderError: it is no message, or one of calls or results.
        """
        return StepPatch(messages=(define_message(content),))

    def __add__(self, other: StepPatch[_R2]) -> StepPatch[_R_co | _R2]:
        """The patch of both."""
        if not isinstance(cast(object, other), StepPatch):
            return NotImplemented
        return StepPatch(
            self.hidden | other.hidden,
            self.reminders + other.reminders,
            self.tool_definitions + other.tool_definitions,
            self.sections + other.sections,
            self.messages + other.messages,
        )

    @override
    def __hash__(self) -> int:
        return hash((self.hidden, self.reminders))


# -- patches as data


def encode_patch(patch: StepPatch[Any] | None) -> Any:
    """The patch as plain JSON data; `UNSET` where it has tools, or data that is none."""
    if patch is None:
        return None
    if patch.tool_definitions or not all(is_plain(one.value) for one in patch.sections):
        return msgspec.UNSET
    return {
        "hidden": sorted(patch.hidden),
        "reminders": [[one.kind, one.name] for one in patch.reminders],
        "sections": [[one.kind, one.name, one.value] for one in patch.sections],
        "messages": Prompt(patch.messages).to_data(),
    }


def decode_patch(data: Any) -> StepPatch[Any] | None:
    """The patch of plain JSON data that `encode_patch` gave."""
    if data is None:
        return None
    return StepPatch(
        frozenset(data["hidden"]),
        tuple([Definition(kind, name) for kind, name in data["reminders"]]),
        sections=tuple([Section(kind, name, value) for kind, name, value in data["sections"]]),
        messages=tuple(Prompt.from_data(data["messages"]).unwrap()),
    )
