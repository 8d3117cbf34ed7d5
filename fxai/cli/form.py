r"""Forms: questions of an MCP server during a call, filled in field by field.

Only what the user typed is sent: an empty answer to a required field declines, and so does a form left empty.

>>> from fxai.cli.line_input import PipedInput
>>> asked = Elicitation("git", "Which branch?", {"properties": {"branch": {"type": "string"}}, "required": ["branch"]})
>>> fill_form(asked, PipedInput(["main\n"])).content
{'branch': 'main'}
>>> fill_form(asked, PipedInput(["\n"])).action
'decline'
"""

from __future__ import annotations

from typing import Any, Final

from fxai.cli.line_input import LineInput
from fxai.mcp.elicitation import ElicitAnswer, Elicitation
from fxai.schema.data import is_listed, is_object
from fxai.schema.display import in_line, one_line
from fxai.schema.fault import DecodeError, SchemaError
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json_unsafe

__all__ = ["fill_form"]

_AGREED: Final = "agreed? [y]es, [n]o: "
_VISITED: Final = "opened and done there? [y]es, [n]o: "
_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_DECLINED: Final = ElicitAnswer("decline")
_LONGEST: Final = 160


def fill_form(asked: Elicitation, lines: LineInput) -> ElicitAnswer:
    """The user's answer; `cancel` where the input has ended.

    Raises:
        KeyboardInterrupt: Ctrl-C was typed in place of an answer.
    """
    if asked.url is not None or not asked.fields:
        said = lines.answer(_AGREED if asked.url is None else _VISITED)
        agreed = ElicitAnswer("accept", {} if asked.url is None else None)
        return agreed if (said or "").strip().lower() in ("y", "yes") else _DECLINED
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
            return _DECLINED
    return ElicitAnswer("accept", content) if content else _DECLINED


def _value(prompt: str, field: Any, lines: LineInput) -> Any:
    """The value of a field, asked for until it is valid; None for an empty answer."""
    said = lines.answer(prompt)
    while said is not None and said.strip():
        value = _read(said.strip(), field)
        wrong = _fault(value, field)
        if wrong is None:
            return value
        said = lines.answer(f"    {wrong}\n{prompt}")
    if said is None:
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
        return None  # a field with a schema that is not valid is left to the server to check
    return one_line(str(faults[0]), _LONGEST) if faults else None


def _prompt(name: str, field: Any, *, needed: bool) -> str:
    said = field if is_object(field) else {}
    type_ = said.get("type", "string")
    choices = _choices(said) or _choices(said.get("items"))
    kind = " | ".join(choices) or ("yes | no" if type_ == "boolean" else str(type_))
    if type_ == "array":
        kind += "; commas between"
    shown = one_line(f"{name} ({kind}{'' if needed else '; may be empty'})", _LONGEST)
    about = said.get("description") or said.get("title")
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
