r"""Questions to the user. Use `Consent` to approve pending calls, and `fill_form` for the forms of an MCP server.

A user must approve a call explicitly. An empty line, a line typed before the question, or the end of input never
approves it. Piped input answers with `/approve`, `/deny`, or `/answer`. Any other line leaves the call unanswered, so
that the call does not run, and becomes the next prompt.

>>> import io
>>> from fxai.cli.input import PipedInput
>>> call = Pending("c1", "wipe", {"disk": "a"}, "a1")
>>> Consent(PipedInput(io.StringIO("/approve\n")), lambda waiting: None).answer(call).approved
True
>>> Consent(PipedInput(io.StringIO("yes\n")), lambda waiting: None).answer(call).unanswered
'unavailable'

`fill_form` asks for one field at a time. It sends only values that the user typed. An empty answer to a required field
declines the form. A form with only empty answers also declines.

>>> from fxai.mcp import Elicitation
>>> form = Elicitation("git", "Which branch?", {"properties": {"branch": {"type": "string"}}, "required": ["branch"]})
>>> fill_form(form, PipedInput(["main\n"])).content
{'branch': 'main'}
>>> fill_form(form, PipedInput(["\n"])).action
'decline'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, final

from fxai.cli.input import LineInput
from fxai.messages.calls import Pending
from fxai.messages.message import ToolApprovalResponsePart, ToolResultPart
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import in_line, one_line, quote_name
from fxai.schema.fault import DecodeError, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json_unsafe

if TYPE_CHECKING:
    from fxai.mcp.settings import ElicitAnswer, Elicitation

_AGREED: Final = "do you agree? [y]es, [n]o: "
_VISITED: Final = "did you open the page and finish? [y]es, [n]o: "
_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_LONGEST: Final = 160


def fill_form(asked: Elicitation, lines: LineInput) -> ElicitAnswer:
    """Return the user's answer, or `cancel` if the input ended.

    Raises:
        KeyboardInterrupt: If the user pressed Ctrl-C instead of answering.
    """
    from fxai.mcp.settings import ElicitAnswer  # imported only if a server asks a question

    declined = ElicitAnswer("decline")
    if asked.url is not None or not asked.fields:
        typed = lines.answer(_AGREED if asked.url is None else _VISITED)
        agreed = ElicitAnswer("accept", {} if asked.url is None else None)
        return agreed if (typed or "").strip().lower() in ("y", "yes") else declined
    content: dict[str, Any] = {}
    required: Any = asked.schema.get("required", ())
    for name, field in asked.schema["properties"].items():
        try:
            value = _value(_prompt(name, field, needed=name in required), field, lines)
        except EOFError:
            return ElicitAnswer("cancel")
        if value is not None:
            content[name] = value
        elif name in required:
            return declined
    return ElicitAnswer("accept", content) if content else declined


def _value(prompt: str, field: Any, lines: LineInput) -> Any:
    """Return the value of a field, or None for an empty answer. Ask again until the value is valid."""
    typed = lines.answer(prompt)
    while typed is not None and typed.strip():
        value = _read(typed.strip(), field)
        wrong = _fault(value, field)
        if wrong is None:
            return value
        typed = lines.answer(f"    {wrong}\n{prompt}")
    if typed is None:
        raise EOFError
    return None


def _read(text: str, field: Any) -> Any:
    match field.get("type") if is_object(field) else None:
        case "boolean":
            return _YES_NO.get(text.lower(), text)
        case "number" | "integer":
            try:
                return parse_json_unsafe(text)
            except DecodeError:
                return text
        case "array":
            return [part.strip() for part in text.split(",") if part.strip()]
        case _:
            return text


def _fault(value: Any, field: Any) -> str | None:
    try:
        faults = JsonSchema.of(field).validate(value)
    except SchemaError:
        return None  # the server checks a field whose schema is invalid
    return one_line(str(faults[0]), _LONGEST) if faults else None


def _prompt(name: str, field: Any, *, needed: bool) -> str:
    typed = field if is_object(field) else {}
    type_ = typed.get("type", "string")
    choices = _choices(typed) or _choices(typed.get("items"))
    kind = " | ".join(choices) or ("yes | no" if type_ == "boolean" else str(type_))
    if type_ == "array":
        kind += "; separate values with commas"
    shown = one_line(f"{name} ({kind}{'' if needed else '; optional'})", _LONGEST)
    about = typed.get("description") or typed.get("title")
    return f"    {shown}{f', {one_line(str(about), _LONGEST)}' if about else ''}: "


def _choices(field: Any) -> list[str]:
    if not is_object(field):
        return []
    values = field.get("enum")
    if is_listed(values):
        return [value if isinstance(value, str) else in_line(value) for value in values]
    named = field.get("oneOf", field.get("anyOf"))
    return [_choice(each) for each in named if is_object(each) and "const" in each] if is_listed(named) else []


def _choice(each: dict[str, Any]) -> str:
    return f"{each['const']} = {each['title']}" if each.get("title") else str(each["const"])


_QUESTION: Final = "run {}? [y]es, [n]o, [a]lways this tool in this chat: "
_CHOICES: Final = "y runs the call, n denies it (text after n is the reason), a always runs this tool"
_WANTED: Final = "result of the call, JSON or text (empty if it failed): "
_NOBODY: Final = "no user was available to approve it"
_NO: Final = "the user denied it"
_NO_RESULT: Final = {"error": "no user ran it"}


@final
class Consent:
    """A dialog that approves calls and remembers the tools that can always run."""

    def __init__(
        self, lines: LineInput, show: Callable[[Pending], None], refuse: Callable[[str], None] = lambda _: None
    ) -> None:
        """Read answers from `lines`. `show` displays a call, and `refuse` reports an invalid answer."""
        self._lines = lines
        self._show = show
        self._refuse = refuse
        self._always: set[tuple[str, ...]] = set()

    def answer(self, waiting: Pending) -> ToolApprovalResponsePart | ToolResultPart:
        """Return the answer for a call: an approval, a denial, or a result.

        Raises:
            KeyboardInterrupt: If the user pressed Ctrl-C instead of answering.
        """
        if waiting.approval_id is not None and self._always.issuperset(_runs((), waiting.name, waiting.params)):
            return waiting.approve()
        self._show(waiting)
        if not self._lines.by_person:
            return self._from_program(waiting)
        if waiting.approval_id is None:
            return _result_part(waiting, (self._lines.answer(_WANTED) or "").strip())
        return self._approval(waiting)

    def _approval(self, waiting: Pending) -> ToolApprovalResponsePart:
        question = _QUESTION.format(quote_name(waiting.name))
        asked = question
        while True:
            typed = self._lines.answer(asked)
            if typed is None:
                return waiting.abandon(_NOBODY)
            word, _, reason = typed.strip().partition(" ")
            match word.lower():
                case "y" | "yes" if not reason:
                    return waiting.approve()
                case "a" | "always" if not reason:
                    self._always.update(_runs((), waiting.name, waiting.params))
                    return waiting.approve()
                case "n" | "no" | "n," | "no,":
                    return waiting.deny(reason.strip() or _NO)
                case _:
                    asked = f"    {_misunderstanding(typed)}{_CHOICES}\n{question}"

    def _from_program(self, waiting: Pending) -> ToolApprovalResponsePart | ToolResultPart:
        """Return the answer from piped input."""
        line = self._lines.answer("")
        word, _, rest = (line or "").strip().partition(" ")
        if waiting.approval_id is None:
            if word == "/answer":
                return _result_part(waiting, rest.strip())
        elif word == "/deny" or (word == "/approve" and not rest.strip()):
            return waiting.approve() if word == "/approve" else waiting.deny(rest.strip() or _NO)
        if line is not None:
            wanted = "/answer JSON" if waiting.approval_id is None else "/approve or /deny [REASON]"
            self._refuse(f"{_misunderstanding(line)}{quote_name(waiting.name)} does not run. Answer with {wanted}.")
        if line is not None and word != "/approve":
            self._lines.back(line)
        return _result_part(waiting, "") if waiting.approval_id is None else waiting.abandon(_NOBODY)


def _runs(path: tuple[str, ...], name: str, params: Any) -> Iterator[tuple[str, ...]]:
    """Yield the tools that a call runs, each as its path.

    A composite runs the tools in its calls. A server of a provider runs the tool that its arguments name. If other
    arguments look like these, the user must approve the tool more often.
    """
    here = (*path, name)
    calls: object = params.get("calls") if is_object(params) else None
    if is_array(calls) and calls:
        for one in calls:
            called = one if is_object(one) else {}
            yield from _runs(here, str(called.get("name", one)), called.get("args"))
    elif is_object(params) and "name" in params and "arguments" in params:
        yield (*here, str(params["name"]))
    elif path and isinstance(params, str):  # a string can contain calls
        yield (*here, params)
    else:
        yield here


def _misunderstanding(typed: str) -> str:
    return f"{one_line(repr(typed.strip()), 60)} is not a valid answer. " if typed.strip() else ""


def _result_part(waiting: Pending, text: str) -> ToolResultPart:
    if not text:
        return waiting.answer(_NO_RESULT, is_failure=True)
    try:
        result: Any = parse_json_unsafe(text)
    except DecodeError:
        result = text
    return waiting.answer(result)
