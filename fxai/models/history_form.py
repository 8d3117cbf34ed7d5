"""History form: convert any history to a form that an API accepts. Providers use this module to write messages.

Histories come from other providers, from models that invent names, from interrupted turns, and from clients. If an API
refuses one part, the whole request fails, now and in every later step. Therefore, each request contains the history in
a form that satisfies the rules of its API. fxai adds a warning for each change. The stored history stays unchanged.

>>> rules = HistoryRules(name="the API of Acme", provider="acme", tool_names=NameRule(64), call_ids=IdRule(longest=8))
>>> turn = AssistantMessage.make(ToolCallPart("1", "net.look", {}))
>>> form = HistoryForm(rules, NameMap({}))
>>> [message.role for message in form.add([turn, ToolMessage.make(ToolResultPart("1", "net.look", 5))])]
['assistant', 'tool']
>>> print(form.warnings[0].message)
the tool name 'net.look' is sent as 'net__look': the tool is not in this request
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from operator import is_
from typing import Any, TypeVar, final

import msgspec

from fxai.messages.calls import PairedCall, Pairing
from fxai.messages.media_type import label_contents, label_file
from fxai.messages.message import (
    AssistantContent,
    AssistantMessage,
    FilePart,
    FileUrl,
    Message,
    SystemMessage,
    ToolCallPart,
    ToolContent,
    ToolMessage,
    ToolResultPart,
    UserMessage,
    WithMetadata,
)
from fxai.messages.part import WarningPart
from fxai.messages.prompt import Prompt
from fxai.messages.reason import InvalidUserInputError
from fxai.messages.think_tag import with_tags
from fxai.models.model_request import ModelRequest
from fxai.models.prepared_tools import PreparationError
from fxai.schema.surrogate import is_whole_text, mend_data, mend_text
from fxai.tools.identity import NameMap, NameRule

_Record = TypeVar("_Record", bound=WithMetadata)

# -- the rules of an API


@final
class IdRule(msgspec.Struct, frozen=True):
    """The ids that an API accepts: one character or more.

    >>> IdRule("a-z0-9_", 8).of("call_1"), IdRule(longest=12).of("call_1_and_more")
    ('call_1', 'cal_77d807ee')
    """

    characters: str | None = None
    """The allowed characters as the content of a character class, or None for any characters."""
    longest: int | None = None
    """Maximum length of an id in characters, or None for no limit."""
    digits: int | None = None
    """Exact number of characters, or None. fxai then sends the digits of a digest."""

    def accepts(self, id_: str) -> bool:
        """Return whether the API accepts an id."""
        least, most = (1, self.longest) if self.digits is None else (self.digits, self.digits)
        if len(id_) < least or (most is not None and len(id_) > most):
            return False
        return is_whole_text(id_) if self.characters is None else not self._others.search(id_)

    def of(self, id_: str) -> str:
        """Return the id on the wire: the id itself, or its valid characters with a digest of the id."""
        if self.accepts(id_):
            return id_
        digest = sha256(id_.encode(errors="surrogatepass")).hexdigest()
        if self.digits is not None:
            return digest[: self.digits]
        plain = mend_text(id_) if self.characters is None else self._others.sub("_", id_)
        return f"{plain if self.longest is None else plain[: self.longest - 9]}_{digest[:8]}"

    @property
    def _others(self) -> re.Pattern[str]:
        return re.compile(f"[^{self.characters}]", re.ASCII)  # Python stores compiled patterns


@final
class HistoryRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of an API for the messages of a request."""

    name: str
    """The name of the API for warnings."""
    provider: str
    """The provider. Its metadata marks reasoning that arrived as `<think>…</think>`."""
    tool_names: NameRule
    """The rule for names of tools."""
    call_ids: IdRule
    """The rule for ids of the calls that fxai answers."""
    hosted_ids: IdRule = IdRule()
    """The rule for ids of the calls that the provider runs."""
    results_follow: bool = True
    """True if the results of a turn must be in the next message. False if a later message can contain them."""
    blank_texts: bool = False
    """True if the API accepts strings with only invisible characters."""
    reasoning_last: bool = False
    """True if reasoning can end a turn with other content. No API accepts a turn with only reasoning."""
    loss: Callable[[AssistantContent, AssistantMessage], str | None] = lambda _part, _turn: None
    """Returns the reason why fxai omits a part of a turn, `""` for a part without content, or None to send the part."""
    is_block: Callable[[AssistantContent], bool] = lambda part: part.type != "tool-approval-request"
    """Returns whether a part is content. Reasoning must precede content."""
    may_wait: Callable[[ToolCallPart], bool] = lambda _call: False
    """Returns whether a call can be sent without a result."""
    keeps_id: Callable[[ToolCallPart], bool] = lambda _call: False
    """Returns whether the server created the id of a call and accepts only this id."""
    adapt: Callable[[Any], Any] = lambda part: part
    """Returns a part with metadata that the API accepts."""


# -- the strings of a request


def mend_request(request: ModelRequest) -> tuple[ModelRequest, tuple[WarningPart, ...]]:
    """Return a request with valid strings in its messages, and a warning if a message changed.

    Use this function for a model that accepts any valid history.
    """
    messages = request.prompt.messages
    mended = [mend_data(message) for message in messages]
    if all(map(is_, mended, messages)):
        return request, ()
    warning = WarningPart("half surrogate pairs in the prompt are sent as U+FFFD", "history")
    return msgspec.structs.replace(request, prompt=Prompt(mended)), (warning,)


# -- the history


@final
class HistoryForm:
    """The form of a growing history for an API. `naming` contains the tool names in the request."""

    def __init__(self, rules: HistoryRules, naming: NameMap) -> None:
        self.warnings: list[WarningPart] = []
        """A warning for each change."""
        self._rules = rules
        self._naming = naming
        self._pairing = Pairing()
        self._calls: dict[str, ToolCallPart] = {}  # by id on the wire
        self._used: set[str] = set()  # the ids on the wire
        self._hosted: dict[str, str] = {}  # ids of calls that a provider ran, with their ids on the wire
        self._names: dict[str, str] = {}

    @property
    def is_extensible(self) -> bool:
        """True if later messages cannot change the form of the messages so far."""
        return not self._pairing.has_strays

    def call(self, id_: str) -> ToolCallPart | None:
        """Return the call with this id on the wire in its form, or None."""
        return self._calls.get(id_)

    def hosted_id(self, id_: str) -> str | None:
        """Return the id on the wire of a call that the provider ran, or None if the call is unknown."""
        return self._hosted.get(id_)

    def add(self, messages: Sequence[Message]) -> list[Message]:
        """Return the form of the messages after earlier ones. Raise `PreparationError` if a call has no result."""
        paired = self._pairing.add(messages)
        for call in paired.calls:
            if call.result is None and not self._rules.may_wait(call.call):
                problem = f"the call {call.call.id!r} of the tool {call.call.name!r} has no result in the prompt"
                remedy = "Add a tool message with the result, or remove the call"
                raise PreparationError(InvalidUserInputError(f"{problem}, but the provider requires one. {remedy}"))
        calls, results = iter(paired.calls), iter(paired.results)
        formed: list[Message] = []
        for message in messages:
            match message.role:
                case "system":
                    formed.append(self._whole(message, "a system message"))
                case "user":
                    formed += self._user(message)
                case "assistant":
                    formed += self._turn(message, calls)
                case "tool":
                    formed += self._answers(message, results)
        return formed

    def _user(self, message: UserMessage) -> list[Message]:
        content = tuple([part for part in map(self._input, message.content) if not self._is_blank(part)])
        if not content:
            if not message.content:
                self._note("fxai omits an empty message of the user")
            return []
        is_same = len(content) == len(message.content) and all(
            a is b for a, b in zip(content, message.content, strict=True)
        )
        whole = message if is_same else msgspec.structs.replace(message, content=content)
        return [self._with_metadata(whole)]

    def _input(self, part: Any) -> Any:
        whole = self._whole(part, "a message of the user")
        return self._label(whole) if whole.type == "file" else whole

    def _is_blank(self, part: Any) -> bool:
        if part.type == "file":
            if part.data == b"":
                self._note(f"fxai omits an empty file ({part.media_type})", part.file_name)
                return True
            return False
        if part.type not in ("text", "reasoning") or part.metadata or part.text.strip():
            return False
        if self._rules.blank_texts and part.type == "text" and part.text:
            return False
        self._note("fxai omits an empty text")
        return True

    def _turn(self, message: AssistantMessage, calls: Iterator[PairedCall]) -> list[Message]:
        """Return the form of a turn from the model, with the results that must be in the next message."""
        message = with_tags(message, self._rules.provider)
        content: list[AssistantContent] = []
        answers: list[ToolResultPart] = []
        for part in message.content:
            formed = self._part(part)
            if formed.type == "tool-call" and not formed.provider_executed:
                paired = next(calls)
                formed = self._call(formed, paired)
                if paired.result is not None and (self._rules.results_follow or paired.is_early):
                    answers.append(self._result(paired.result, formed))
            content.append(formed)
        turn = msgspec.structs.replace(message, content=tuple(content))
        kept = [part for part in content if self._is_sent(part, turn)]
        kept = self._with_closed_reasoning(kept)
        formed_turn: list[Message] = []
        if any(map(self._rules.is_block, kept)) or any(part.metadata for part in kept):
            formed_turn.append(self._with_metadata(msgspec.structs.replace(message, content=tuple(kept))))
        return [*formed_turn, ToolMessage(tuple(answers))] if answers else formed_turn

    def _part(self, part: AssistantContent) -> AssistantContent:
        whole = self._whole(part, "a message of the model")
        formed: AssistantContent = self._rules.adapt(whole)
        if formed is not whole:
            self._note_once(f"fxai changes or omits an item id, because {self._rules.name} refuses it")
        if formed.type == "file":
            return self._label(formed)
        if isinstance(formed, ToolCallPart | ToolResultPart) and formed.provider_executed:
            hosted: AssistantContent = self._hosted_part(formed)
            return hosted
        return formed

    def _hosted_part(self, part: Any) -> Any:
        """Return the part of a call that the provider ran, with a valid id."""
        new = self._hosted.get(part.id)
        if new is None:
            new = self._rules.hosted_ids.of(part.id)
            if new != part.id:
                self._note(f"the id {part.id!r} of a call that a provider ran is sent as {new!r}", part.id)
        if part.type == "tool-call":
            self._hosted[part.id] = new
        return part if new == part.id else msgspec.structs.replace(part, id=new)

    def _is_sent(self, part: AssistantContent, turn: AssistantMessage) -> bool:
        why = self._rules.loss(part, turn)
        if why:
            self._note_once(why)
        return why is None and not self._is_blank(part)

    def _with_closed_reasoning(self, content: list[AssistantContent]) -> list[AssistantContent]:
        """Return a turn without reasoning at its end, because other content must follow reasoning."""
        blocks = [at for at, part in enumerate(content) if part.type != "reasoning" and self._rules.is_block(part)]
        if blocks and self._rules.reasoning_last:
            return content
        end = blocks[-1] + 1 if blocks else 0
        kept = [part for at, part in enumerate(content) if at < end or part.type != "reasoning"]
        if len(kept) < len(content):
            self._note("fxai omits reasoning, because the turn of the model ends with it")
        return kept

    def _call(self, part: ToolCallPart, paired: PairedCall) -> ToolCallPart:
        id_ = self._id(paired.id, part)
        name = part.name if part.name in self._naming else self._name(part.name)
        formed = part if (id_, name) == (part.id, part.name) else msgspec.structs.replace(part, id=id_, name=name)
        paired.id = id_
        self._calls[id_] = formed
        return formed

    def _id(self, own: str, part: ToolCallPart) -> str:
        original, count = part.id, 1
        if own == original and own not in self._used and self._rules.keeps_id(part):
            self._used.add(own)
            return own
        id_ = self._rules.call_ids.of(own)
        while id_ in self._used:
            count += 1
            id_ = self._rules.call_ids.of(f"{own}_{count}")
        self._used.add(id_)
        if not self._rules.call_ids.accepts(original):
            self._note(f"the call id {original!r} is sent as {id_!r}: {self._rules.name} refuses it", original)
        return id_

    def _name(self, name: str) -> str:
        wire = self._names.get(name)
        if wire is None:
            wire = self._names[name] = self._rules.tool_names.of(name) or "_"
            if wire != name:
                why = "the tool is not in this request"
                self._note(f"the tool name {name!r} is sent as {wire!r}: {why}", name)
        return wire

    def _answers(self, message: ToolMessage, results: Iterator[PairedCall | None]) -> list[Message]:
        """Return the results that keep their position, and the answers to approval requests."""
        content: list[ToolContent] = []
        for part in message.content:
            if part.type != "tool-result":
                content.append(self._whole(part, "an approval"))
                continue
            paired = next(results)
            if paired is None:
                self._note(f"fxai omits a result of the call {part.id!r}, because no call needs it", part.id)
            elif not self._rules.results_follow and not paired.is_early:
                content.append(self._result(part, self._calls[paired.id]))
        return [msgspec.structs.replace(message, content=tuple(content))] if content else []

    def _result(self, part: ToolResultPart, call: ToolCallPart) -> ToolResultPart:
        whole = self._whole(part, f"the result of {part.name!r}")
        result = label_contents(whole.result, self._note_label)
        if (whole.id, whole.name) == (call.id, call.name) and result is whole.result:
            return whole
        return msgspec.structs.replace(whole, id=call.id, name=call.name, result=result)

    # -- strings

    def _whole(self, record: _Record, where: str) -> _Record:
        """Return a part, or a message without its content, with valid strings."""
        fields = {name: getattr(record, name) for name in record.__struct_fields__ if name not in ("content", "data")}
        if isinstance(record, SystemMessage):
            fields["content"] = record.content
        elif isinstance(record, FilePart) and isinstance(record.data, FileUrl):
            fields["data"] = record.data
        mended = {name: mend_data(value) for name, value in fields.items() if value}
        changed = {name: value for name, value in mended.items() if value is not fields[name]}
        if not changed:
            return record
        self._note(f"half surrogate pairs in {where} are sent as U+FFFD")
        return msgspec.structs.replace(record, **changed)

    def _with_metadata(self, message: _Record) -> _Record:
        metadata = mend_data(message.metadata) if message.metadata else message.metadata
        return message if metadata is message.metadata else msgspec.structs.replace(message, metadata=metadata)

    # -- files

    def _label(self, part: FilePart) -> FilePart:
        try:
            return label_file(part, self._note_label)
        except ValueError as error:
            raise PreparationError(InvalidUserInputError(str(error))) from None

    def _note_label(self, label: str, media_type: str, name: str | None) -> None:
        file = "a file" if name is None else f"the file {name!r}"
        self._note(f"{file} is labelled {label!r} and sent as {media_type!r}, as its first bytes state", name)

    # -- warnings

    def _note(self, message: str, subject: str | None = None) -> None:
        self.warnings.append(WarningPart(message, "history", subject and mend_text(subject)))

    def _note_once(self, message: str) -> None:
        if all(warning.message != message for warning in self.warnings):
            self._note(message)
