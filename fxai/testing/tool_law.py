"""The laws of every tool: its schemas say what they take, its wire form loses nothing, strict mode stays true to it.

Those of every toolkit, too: toolkits are joined as values are, and names on the wire lead back.

>>> from fxai.testing.law import Trial
>>> from fxai.tools.tool import Tool
>>> half = Tool.make("half", parameters=int, success=int, failure=str)
>>> [law.name for law in TOOL_LAWS if law.check(Subject(half), "half", Trial(20)) is None][:2]
['decoding undoes encoding', 'the schema takes what the decoder takes']
>>> kit = Toolkit.make(Tool.make("a.b"), Tool.make("a__b"))
>>> TOOLKIT_LAWS[1].check(kit, "the toolkit", Trial())
Traceback (most recent call last):
fxai.testing.law.LawError: the toolkit breaks a law: names on the wire lead back to the tools ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Never, NoReturn, final
from warnings import warn

import msgspec
from returns.result import Failure

from fxai.schema.codec import Schema
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeFailure
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictForm, StrictRules, rule_faults, strict_form
from fxai.testing.law import Break, Law, NoExamplesError, OneSidedLawWarning, Trial
from fxai.tools.identity import NameConflictError, NameMap, NameRule
from fxai.tools.tool import AnyTool
from fxai.tools.tool_options import Annotations, ExplicitNull, Strict
from fxai.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fxai.schema.core_schema import Way


@final
class Subject(msgspec.Struct, frozen=True, eq=False):
    """A tool that laws are tried on, and the data that they are tried with."""

    tool: AnyTool
    given: SearchStrategy[Any] | None = None

    @property
    def document(self) -> JsonSchema:
        """The JSON Schema of the parameters."""
        return _document(self.tool.parameters)

    def parameters(self) -> SearchStrategy[Any]:
        """Valid parameters as plain JSON data: the caller's own, or what the schema takes."""
        from fxai.testing.strategies import instances

        return instances(self.document) if self.given is None else self.given

    def schemas(self) -> Iterator[tuple[str, Schema[Any], SearchStrategy[Any]]]:
        """Each schema of ours: what it is for, and data for it."""
        from fxai.testing.strategies import instances

        if isinstance(self.tool.parameters, Schema):
            yield "parameters", self.tool.parameters, self.parameters()
        for name, schema in (("success", self.tool.success), ("failure", self.tool.failure)):
            if schema.type not in (Never, NoReturn):
                yield name, schema, instances(schema)


def first_fault(failure: DecodeFailure) -> tuple[str, str]:
    """Where a failure is, and what it says there."""
    fault = failure.faults[0]
    return fault.pointer, f"expected {fault.expected}, found {fault.found}"


def _document(schema: Schema[Any] | JsonSchema) -> JsonSchema:
    return schema.document if isinstance(schema, Schema) else schema


# ---- encoding

_CODEC: Final = "make the type's codecs undo each other: decode(encode(value)) must be the value"


def _encoding(subject: Subject, trial: Trial) -> Break | None:
    for name, schema, data in subject.schemas():
        one_sided = _warn(
            subject.tool, name, schema, "encode", "the JSON data that it writes can be data that it refuses"
        )
        found = trial.find_break(data, partial(_undone, name, schema, one_sided=one_sided))
        if found is not None:
            return found
    return None


def _warn(tool: AnyTool, name: str, schema: Schema[Any], way: Way, meaning: str) -> bool:
    """Warn of each caveat of a schema. Return whether the schema has one."""
    caveats = [caveat for caveat in schema.caveats if caveat.way == way]
    for caveat in caveats:
        message = f"the tool {tool.name!r}: one law of the {name} is one-sided: {meaning}, because {caveat.reason}"
        warn(message, OneSidedLawWarning, stacklevel=2)
    return bool(caveats)


def _undone(name: str, schema: Schema[Any], given: Any, *, one_sided: bool = False) -> Break | None:
    result = schema.decode(given)
    if isinstance(result, Failure):
        return None  # another law's
    value = result.unwrap()
    encoded = schema.encode(value)
    if isinstance(encoded, Failure):
        where, fault = first_fault(encoded.failure())
        return Break(given, where, f"the {name} cannot be written again as it was read: {fault}", _CODEC)
    if one_sided:
        return None
    for again in (schema.decode(encoded.unwrap()), schema.decode_json(schema.encode_json(value).unwrap())):
        if isinstance(again, Failure):
            where, fault = first_fault(again.failure())
            return Break(given, where, f"the {name} cannot be read again: {fault}", _CODEC)
        comparable = getattr(value.__class__, "__eq__", None) is not getattr(object, "__eq__", None)
        if again.unwrap() != value and (comparable or schema.encode(again.unwrap()) != encoded):
            return Break(given, "", f"the {name} is {value!r}, and {again.unwrap()!r} once written and read", _CODEC)
    return None


# ---- schema and decoder

_NARROW: Final = (
    "say in the type what its decoder asks (bounds by Meta, Meta(tz=True) for times, json_schema= of a codec), or"
    " decode all that the schema takes"
)


_REFUSES: Final = "the type can refuse data that its JSON Schema accepts"


def _agreement(subject: Subject, trial: Trial) -> Break | None:
    from fxai.testing.strategies import not_instances

    tool, document = subject.tool, subject.document
    one_sided = isinstance(tool.parameters, Schema) and _warn(tool, "parameters", tool.parameters, "decode", _REFUSES)
    taken = trial.find_break(subject.parameters(), partial(_takes, tool, document, one_sided=one_sided))
    if taken is not None:
        return taken
    try:
        return trial.find_break(not_instances(document), partial(_refuses, tool, document))
    except NoExamplesError:
        return None  # it takes everything


def _takes(tool: AnyTool, document: JsonSchema, given: Any, *, one_sided: bool = False) -> Break | None:
    from fxai.testing.strategies import decode_parameters

    if faults := document.validate(given):
        fault = f"the schema refuses it: {faults[0]}"
        return Break(given, faults[0].pointer, fault, "draw what the schema takes, or widen the schema")
    result = decode_parameters(tool, given)
    if isinstance(result, Failure) and not one_sided:
        where, fault = first_fault(result.failure())
        return Break(given, where, f"the schema takes it, the decoder does not: {fault}", _NARROW)
    return None


def _refuses(tool: AnyTool, document: JsonSchema, given: Any) -> Break | None:
    from fxai.testing.strategies import decode_parameters

    if tool.validation == "none" or isinstance(decode_parameters(tool, given), Failure):
        return None
    faults = document.validate(given)
    return Break(given, faults[0].pointer, f"the decoder takes it, the schema does not: {faults[0]}", _NARROW)


# ---- what comes out


def _outcome(subject: Subject, trial: Trial) -> Break | None:
    for name, schema, data in subject.schemas():
        if name == "parameters":
            continue
        one_sided = _warn(subject.tool, name, schema, "decode", _REFUSES)
        found = trial.find_break(data, partial(_fits, name, schema, one_sided=one_sided))
        if found is not None:
            return found
    return None


def _fits(name: str, schema: Schema[Any], given: Any, *, one_sided: bool = False) -> Break | None:
    result = schema.decode(given)
    if isinstance(result, Failure):
        if one_sided:
            return None
        where, fault = first_fault(result.failure())
        return Break(given, where, f"the schema of the {name} takes it, the decoder does not: {fault}", _NARROW)
    encoded = schema.encode(result.unwrap())
    if isinstance(encoded, Failure):
        where, fault = first_fault(encoded.failure())
        return Break(given, where, f"the {name} cannot be written: {fault}", _CODEC)
    if faults := schema.written_document.validate(encoded.unwrap()):
        return Break(given, faults[0].pointer, f"what is written is not what its schema says: {faults[0]}", _NARROW)
    return None


# ---- strict mode


def _strict(rules: StrictRules, subject: Subject, trial: Trial) -> Break | None:
    from fxai.testing.strategies import instances

    result = strict_form(subject.document, rules, explicit_null=subject.tool.get(ExplicitNull))
    if isinstance(result, Failure):
        if subject.tool.get(Strict) is not True:
            return None
        obstacle = result.failure()[0]
        remedy = "change the schema there, or take the annotation Strict off"
        return Break(None, obstacle.pointer, f"Strict is asked for, and {rules.name} has no form: {obstacle}", remedy)
    form = result.unwrap()
    if refused := rule_faults(form.document, rules):
        return Break(form.document.to_dict(), refused[0].pointer, f"{rules.name} refuses it: {refused[0]}", _REPORT)
    try:
        found = trial.find_break(instances(form.document), partial(_goes_back, form))
        return found or trial.find_break(instances(form.original, undeclared=False), partial(_goes_there, form))
    except NoExamplesError:
        return None


_REPORT: Final = (
    "report it, with the schema: the transformation should be true to it; until then annotate(Strict, False)"
)


def _goes_back(form: StrictForm, given: Any) -> Break | None:
    back = form.back(given)
    if faults := form.relaxed.validate(back):
        return Break(given, faults[0].pointer, f"mapped back it is not what the schema takes: {faults[0]}", _REPORT)
    return None


def _goes_there(form: StrictForm, given: Any) -> Break | None:
    there = form.forth(given)
    if isinstance(there, Failure):
        where, fault = first_fault(there.failure())
        return Break(given, where, f"it has no strict form: {fault}", _REPORT)
    if faults := form.document.validate(there.unwrap()):
        return Break(
            given, faults[0].pointer, f"its strict form is not what the strict schema takes: {faults[0]}", _REPORT
        )
    back = form.back(there.unwrap())
    if _exact(back, nulls=form.explicit_null) != _exact(given, nulls=form.explicit_null):
        return Break(given, "", f"it comes back as {Break(back, '', '', '').json}", _REPORT)
    return None


def _exact(value: Any, *, nulls: bool) -> Any:
    """The data, its numbers and booleans distinguished; with its null members, or without."""
    if is_object(value):
        return {name: _exact(item, nulls=nulls) for name, item in value.items() if nulls or item is not None}
    if is_array(value):
        return [_exact(item, nulls=nulls) for item in value]
    return (isinstance(value, bool), value)


# ---- the tool as a value


def _kind(subject: Subject, trial: Trial) -> Break | None:
    from fxai.testing.strategies import annotation_maps

    return trial.find_break(annotation_maps(), partial(_kind_of_changed, subject.tool))


def _kind_of_changed(tool: AnyTool, given: Annotations) -> Break | None:
    changed = tool.annotate_all(given).prefix("x.").with_description("Changed.").annotate(Strict, False)
    drawn = {key.name: repr(given.get(key)) for key in given}
    for what, before, after in (
        ("kind", tool.kind, changed.kind),
        ("schema", tool.json_schema(), changed.json_schema()),
        ("identity", tool.identity, changed.identity),
        ("class", type(tool), type(changed)),
    ):
        if before != after:
            return Break(drawn, "", f"its {what} was {before!r} and is {after!r}", "report it: annotating must keep it")
    lost = next((key.name for key in given if key != Strict and changed.get(key) != given.get(key)), None)
    return None if lost is None else Break(drawn, f"/{lost}", "its value was lost", "report it: annotations are kept")


def _examples(subject: Subject, _: Trial) -> Break | None:
    from fxai.testing.strategies import decode_parameters

    for example in subject.tool.input_examples:
        result = decode_parameters(subject.tool, example.parameters)
        if isinstance(result, Failure):
            where, fault = first_fault(result.failure())
            return Break(example.parameters, where, f"an input example is refused: {fault}", "correct the example")
    return None


TOOL_LAWS: Final = (
    Law("decoding undoes encoding", "what is written is read as what it was", _encoding),
    Law("the schema takes what the decoder takes", "its JSON Schema takes exactly what its decoder takes", _agreement),
    Law("outcomes fit their schemas", "successes and failures are written as their schemas say", _outcome),
    Law("strict at OpenAI", "OpenAI's strict schema says what the tool's own says", partial(_strict, OPENAI)),
    Law("strict at Anthropic", "Anthropic's strict schema says what the tool's own says", partial(_strict, ANTHROPIC)),
    Law("annotations keep the tool", "annotating, renaming and describing keep kind, schema and identity", _kind),
    Law("examples are valid", "its input examples are parameters that it takes", _examples),
)
"""What holds for every tool, each law for itself."""


_NAME_RULES: Final = {"OpenAI": NameRule(64), "Anthropic": NameRule(128)}
_REPORT_JOIN: Final = "report it: toolkits are values, joined in any grouping"


def _monoid(kit: Toolkit[Any], trial: Trial) -> Break | None:
    from hypothesis import strategies as st

    cuts = st.integers(0, len(kit))
    return trial.find_break(st.tuples(cuts, cuts), partial(_joins, kit))


def _joins(kit: Toolkit[Any], cuts: tuple[int, int]) -> Break | None:
    tools, (first, second) = kit.as_tuple, sorted(cuts)
    a, b, c = (Toolkit.of(part) for part in (tools[:first], tools[first:second], tools[second:]))
    for what, one, other in (
        ("(a + b) + c is a + (b + c)", a.merge(b).merge(c), a.merge(b.merge(c))),
        ("its parts together are it", a.merge(b).merge(c), kit),
        ("with the empty one before it", Toolkit.empty().merge(kit), kit),
        ("with the empty one behind it", kit.merge(Toolkit.empty()), kit),
        ("with itself", kit.merge(kit), kit),
    ):
        if one != other:
            names = [[tool.name for tool in part] for part in (a, b, c)]
            return Break(names, "", f"it does not hold that {what}: {one!r} is not {other!r}", _REPORT_JOIN)
    return None


def _names(kit: Toolkit[Any], _: Trial) -> Break | None:
    for provider, rule in _NAME_RULES.items():
        try:
            names = NameMap.of(kit, rule)
        except NameConflictError as error:
            return Break([tool.name for tool in kit], "", f"at {provider}, {error}", "rename or prefix one of them")
        for tool in kit:
            sent = names.sent(tool.name)
            if names.meant(sent) != tool.name:
                found = f"at {provider}, {sent!r} leads back to {names.meant(sent)!r}"
                return Break(tool.name, "", found, "rename one of them")
            if tool.provider is None and re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{rule.length}}}", sent) is None:
                return Break(tool.name, "", f"{provider} does not take the name {sent!r}", "rename it")
    return None


TOOLKIT_LAWS: Final = (
    Law("toolkits join as values", "merge is associative, the empty toolkit changes nothing, nor does itself", _monoid),
    Law("names lead back", "names on the wire lead back to the tools", _names),
)
"""What holds for every toolkit, each law for itself."""
