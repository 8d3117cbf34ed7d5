"""Patches: hide or add definitions for a step, or remind the model of them. Effects of stateful prompts return them.

A patch applies to the next step only. Patches are a monoid: `+` is associative, and `StepPatch()` is neutral. If any
patch hides a name, the sum hides it, regardless of the order.

>>> patch = StepPatch.hide("refund") + StepPatch.system("mood", "Be friendly.")
>>> patch == StepPatch.hide("refund") + (StepPatch() + StepPatch.system("mood", "Be friendly."))
True
>>> look = Definition("tool", "search")
>>> f"Use {look} first.", look.disable() == StepPatch.hide("search")
('Use <search> first.', True)
"""

# The type variable of the requirements has a default, for patches without requirements.
# pyright: reportInvalidTypeVarUse=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Never, cast, final, overload

import msgspec
from typing_extensions import TypeVar, override

from fxai.agents.run_tools import Binding, Offered
from fxai.agents.section import Kind, Section, reference_to
from fxai.agents.state import RenderError
from fxai.effects import development
from fxai.messages.calls import unpaired_calls
from fxai.messages.message import Message, TextPart, UserMessage
from fxai.messages.prompt import Prompt
from fxai.messages.wire import MessageError
from fxai.schema.parsing import is_plain
from fxai.tools.aspects.aspect import Aspect
from fxai.tools.handler_types import HandlerReturn
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_info import CallContext
from fxai.tools.toolkit import AnyBound

_P = TypeVar("_P")
_S = TypeVar("_S")
_F = TypeVar("_F")
_R = TypeVar("_R", default=None)
_R2 = TypeVar("_R2")
_R_co = TypeVar("_R_co", covariant=True, default=None)


# -- definitions


@final
class StepTool(msgspec.Struct, frozen=True):
    """A tool of a step and its handler, which a render, an origin, or the context provides."""

    tool: AnyTool
    handler: Callable[..., Any] | None = None
    aspect: Aspect[Any] | None = None
    """The aspect around the handler."""
    origin: AnyBound | None = None
    """The toolkit that includes the handler."""

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name

    @property
    def kind(self) -> Kind:
        """The string `"tool"`."""
        return "tool"


def define_tool(tool: object, handler: object, aspect: object) -> StepTool:
    """Return the definition of a tool with its handler.

    Raises:
        RenderError: If `tool` is not a tool or is external, or `handler` is not a function.
    """
    if not isinstance(tool, Tool):
        raise RenderError("value", f"tool must be a Tool, got {tool!r}. Pass tools that include handlers to tools(…).")
    known: AnyTool = cast(Any, tool)
    if not known.requires_handler:
        raise RenderError("value", f"tool {known.name!r} is external and needs no handler. Pass it to tools(…).")
    if not callable(handler):
        raise RenderError("value", f"handler of {known.name!r} must be a function of its parameters, got {handler!r}")
    if not (aspect is None or isinstance(aspect, Aspect)):
        raise RenderError("value", f"aspect must be an Aspect, got {aspect!r} for {known.name!r}. Pass Aspect.make(…).")
    return StepTool(known, handler, cast(Any, aspect))


def define_tools(origins: Iterable[object]) -> tuple[StepTool, ...]:
    """Return the definitions of tools that include their handlers, need no handlers, or need them from the context.

    Raises:
        RenderError: If a value has no tools, or is a source that must be opened.
    """
    definitions: list[StepTool] = []
    for origin in origins:
        try:
            offers = Binding.of((origin,)).offers
        except TypeError as error:
            raise RenderError("value", str(error)) from None
        for offer in offers:
            bound = offer.bound
            if bound is None:
                why = "a render cannot open it. Pass it to the agent as its toolkit"
                raise RenderError("value", f"{offer} cannot be defined in a render: {why}.")
            brings = bound if bound.parts else None
            definitions += [StepTool(tool, origin=brings) for tool in bound.toolkit]
    return tuple(definitions)


def _check_waiting(one: StepTool) -> StepTool:
    """Raise if calls of a tool may need an approval, because the patch with its handler ends before the approval."""
    if one.tool.requires_handler and one.tool.needs_approval is not False:
        why = "its calls may need an approval, but a patch applies to one step only. Define it in the render"
        raise RenderError("value", f"tool {one.name!r} cannot be in a patch: {why}.")
    return one


def define_message(content: object) -> Message:
    """Return a message. A string becomes a user message.

    Raises:
        RenderError: If it is not a message, or contains calls or results, which belong to the conversation.
    """
    if isinstance(content, str):
        return UserMessage((TextPart(content),))
    try:
        (message,) = Prompt.make(cast(Any, content))
    except (MessageError, TypeError, ValueError):
        raise RenderError("value", f"message must be a string or a message, got {content!r}") from None
    if message.role == "tool" or unpaired_calls((message,)):
        raise RenderError("value", "message must not contain calls or results, because they belong to the conversation")
    return message


# -- references


@final
class Definition(msgspec.Struct, frozen=True):
    """A reference to a tool or a section of a step. Its string form is `"<name>"`."""

    kind: Kind
    name: str

    def remind(self) -> StepPatch:
        """Return the patch that reminds the model of this definition once in the step."""
        return StepPatch(reminders=(self,))

    def disable(self) -> StepPatch:
        """Return the patch that hides this definition in the step. A call of a hidden tool fails."""
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
    """A change of the next step. `R` contains the requirements of the handlers of its tools."""

    hidden: frozenset[str] = frozenset()
    """The names of tools and sections to remove from the step."""
    reminders: tuple[Definition, ...] = ()
    """The definitions to remind the model of."""
    tool_definitions: tuple[StepTool, ...] = ()
    """Tools to add to the step."""
    sections: tuple[Section, ...] = ()
    """Sections to add to the step."""
    messages: tuple[Message, ...] = ()
    """Messages to add after the conversation."""
    only: frozenset[str] | None = None
    """The names of the sections of the render to keep. None keeps all sections."""

    if not TYPE_CHECKING and development.ON:
        __post_init__, __del__ = development.make, development.drop

    @staticmethod
    def hide(*what: str | Definition) -> StepPatch:
        """Return the patch that hides tools and sections by name. A name that the step does not have has no effect.

        Raises:
            RenderError: If a value is neither a name nor a definition.
        """
        return StepPatch(_names_of("hide", what))

    @staticmethod
    def only_sections(*what: str | Definition) -> StepPatch:
        """Return the patch that hides all sections of the render except these system and data sections.

        Without arguments, it hides all sections. It hides no tools. Sections that a patch adds stay. If two patches
        name sections, the step has the sections that both name.

        Raises:
            RenderError: If a value is neither a name nor a definition.
        """
        return StepPatch(only=_names_of("only_sections", what))

    @staticmethod
    def remind(*what: Definition) -> StepPatch:
        """Return the patch that reminds the model of tools and sections. It omits definitions that the step lacks.

        Raises:
            RenderError: If a value is not a definition.
        """
        for one in what:
            if not isinstance(cast(object, one), Definition):
                raise RenderError(
                    "value", f"remind requires the results of at.tool(…), at.system(…), and at.data(…), got {one!r}"
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
        """Return the patch that adds a tool with its handler. See `Render.tool`.

        Raises:
            RenderError: If `tool` is not a tool with a handler, `handler` is not a function, or calls of the tool may
                need an approval. In this case, define the tool in a render, because the patch ends before the approval.
        """
        return StepPatch(tool_definitions=(_check_waiting(define_tool(tool, handler, aspect)),))

    @staticmethod
    def tools(*origins: Offered[Never, _R]) -> StepPatch[_R | None]:
        """Return the patch that adds tools that include their handlers or need no handlers here. See `Render.tools`.

        Raises:
            RenderError: If a value has no tools, is a source that must be opened, or calls of a tool may need an
                approval. In this case, define the tool in a render, because the patch ends before the approval.
        """
        return StepPatch(tool_definitions=tuple(map(_check_waiting, define_tools(origins))))

    @staticmethod
    def system(key: str, text: str) -> StepPatch:
        """Return the patch that adds a section to the system prompt.

        Raises:
            RenderError: If the name is invalid, or the text is not a string.
        """
        return StepPatch(sections=(Section("system", key, text).check(),))

    @staticmethod
    def data(key: str, value: Any) -> StepPatch:
        """Return the patch that adds data to the system prompt.

        Raises:
            RenderError: If the name is invalid.
        """
        return StepPatch(sections=(Section("data", key, value).check(),))

    @staticmethod
    def message(content: str | Message) -> StepPatch:
        """Return the patch that adds a message after the conversation. A string becomes a user message.

        Raises:
            RenderError: If it is not a message, or contains calls or results.
        """
        return StepPatch(messages=(define_message(content),))

    def __add__(self, other: StepPatch[_R2]) -> StepPatch[_R_co | _R2]:
        """Return the sum of two patches."""
        if not isinstance(cast(object, other), StepPatch):
            return NotImplemented
        return StepPatch(
            self.hidden | other.hidden,
            self.reminders + other.reminders,
            self.tool_definitions + other.tool_definitions,
            self.sections + other.sections,
            self.messages + other.messages,
            self.only if other.only is None else other.only if self.only is None else self.only & other.only,
        )

    @override
    def __hash__(self) -> int:
        return hash((self.hidden, self.reminders))


def _names_of(method: str, what: tuple[str | Definition, ...]) -> frozenset[str]:
    names = [one.name if isinstance(one, Definition) else one for one in what]
    for name in names:
        if not isinstance(cast(object, name), str):
            raise RenderError("value", f"{method} requires names or definitions, got {name!r}")
    return frozenset(names)


# -- patches as data


def encode_patch(patch: StepPatch[Any] | None) -> Any:
    """Return the patch as a JSON value, or `UNSET` if it has tools or data that is not a JSON value."""
    if patch is None:
        return None
    if patch.tool_definitions or not all(is_plain(one.value) for one in patch.sections):
        return msgspec.UNSET
    return {
        "hidden": sorted(patch.hidden),
        "reminders": [[one.kind, one.name] for one in patch.reminders],
        "sections": [[one.kind, one.name, one.value] for one in patch.sections],
        "messages": Prompt(patch.messages).to_data(),
        "only": None if patch.only is None else sorted(patch.only),
    }


def decode_patch(data: Any) -> StepPatch[Any] | None:
    """Return the patch from a JSON value of `encode_patch`."""
    if data is None:
        return None
    return StepPatch(
        frozenset(data["hidden"]),
        tuple([Definition(kind, name) for kind, name in data["reminders"]]),
        sections=tuple([Section(kind, name, value) for kind, name, value in data["sections"]]),
        messages=tuple(Prompt.from_data(data["messages"]).unwrap()),
        only=None if data["only"] is None else frozenset(data["only"]),
    )
