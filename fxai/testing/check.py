"""Checks of your own tools. Use them to test a tool, a toolkit, or handlers against every law with generated data.

The laws of tools concern schemas, encoding, strict mode, annotations, and examples. The laws of toolkits concern
merging and reversible names.

>>> import msgspec
>>> from fxai.tools.tool import Tool
>>> class Share(msgspec.Struct, frozen=True):
...     of: int
...     among: int
>>> share = Tool.make("share", parameters=Share, success=int)
>>> check_tool(share, max_examples=20)
>>> from returns.result import Success
>>> check_handler(share, share.handler(lambda given: Success(given.of // given.among)), seed=1)
Traceback (most recent call last):
fxai.testing.law.LawError: the tool 'share' breaks a law: every valid call ends in a success or a declared failure
  with:  {"of":0,"among":0}
  found: the handler crashed: ZeroDivisionError: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Never, NoReturn, TypeVar, cast, final
from warnings import warn

import msgspec
from returns.result import Failure
from typing_extensions import Unpack

from fxai.effects.cancellation import event_loop
from fxai.effects.cause import Cause, Die, Exit, Fail, Succeeded
from fxai.effects.effect import AnyEffect, EffectOf, Succeed
from fxai.effects.layer import AnyLayer
from fxai.effects.runtime import run_exit
from fxai.schema.codec import Schema
from fxai.schema.data import is_array, is_object
from fxai.schema.fault import DecodeFailure
from fxai.schema.json_schema import JsonSchema
from fxai.schema.strict import ANTHROPIC, OPENAI, StrictForm, StrictRules, rule_faults, strict_form
from fxai.testing.law import Break, Law, LawCase, NoExamplesError, OneSidedLawWarning, Trial, TrialOptions
from fxai.tools.annotation import Annotations, ExplicitNull, Strict
from fxai.tools.call import Outcome
from fxai.tools.handler import HandlerError
from fxai.tools.identity import NameConflictError, NameMap, NameRule
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_error import HandlerFailed, InvalidParameters, InvalidResult
from fxai.tools.toolkit import AnyToolkit, Toolkit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fxai.schema.core_schema import Way


@final
class LawSubject(msgspec.Struct, frozen=True, eq=False):
    """A tool and the data for its laws."""

    tool: AnyTool
    given: SearchStrategy[object] | None = None

    @property
    def document(self) -> JsonSchema:
        """The JSON Schema of the parameters."""
        parameters = self.tool.parameters
        return parameters.document if isinstance(parameters, Schema) else parameters

    def parameters(self) -> SearchStrategy[object]:
        """Return a strategy of valid parameters as JSON values: the caller's strategy, or data from the schema."""
        return _instances(self.document) if self.given is None else self.given

    def schemas(self) -> Iterator[tuple[str, Schema[Any], SearchStrategy[object]]]:
        """Yield each typed schema of the tool: its name, the schema, and a strategy of data."""
        if isinstance(self.tool.parameters, Schema):
            yield "parameters", self.tool.parameters, self.parameters()
        for name, schema in (("success", self.tool.success), ("failure", self.tool.failure)):
            if schema.type not in (Never, NoReturn):
                yield name, schema, _instances(schema.document)


@lru_cache(maxsize=64)  # the laws of a tool share the data of a strategy
def _instances(document: JsonSchema, *, undeclared: bool = True) -> SearchStrategy[object]:
    from fxai.testing.strategies import instances

    return instances(document, undeclared=undeclared)


@lru_cache(maxsize=16)
def _misses(document: JsonSchema, data: SearchStrategy[object], trial: Trial) -> SearchStrategy[object]:
    """Return a strategy of invalid data. It changes the data that another law has received."""
    from hypothesis import strategies as st

    from fxai.testing.generation.instance import miss_of

    known = trial.values_of(data)
    return miss_of(document, valid=st.sampled_from(known) if known else None)


def _refusal(given: object, what: str, failure: DecodeFailure, remedy: str) -> Break:
    """Return the break of data that a decoder or an encoder refuses."""
    fault = failure.faults[0]
    return Break(given, fault.pointer, f"{what}: expected {fault.expected}, found {fault.found}", remedy)


# ---- encoding

_CODEC: Final = "make the codecs of the type inverse: decode(encode(value)) must equal the value"


def _encoding(subject: LawSubject, trial: Trial) -> Break | None:
    for name, schema, data in subject.schemas():
        one_sided = _warn(subject.tool, name, schema, "encode", "it can encode data that its decoder rejects")
        found = trial.find_break(data, partial(_undone, name, schema, one_sided=one_sided))
        if found is not None:
            return found
    return None


def _warn(tool: AnyTool, name: str, schema: Schema[Any], way: Way, meaning: str) -> bool:
    """Warn for each caveat of a schema. Return True if the schema has a caveat."""
    caveats = [caveat for caveat in schema.caveats if caveat.way == way]
    for caveat in caveats:
        message = f"tool {tool.name!r}: one law of the {name} is one-sided: {meaning}, because {caveat.reason}"
        warn(message, OneSidedLawWarning, stacklevel=2)
    return bool(caveats)


def _undone(name: str, schema: Schema[Any], given: object, *, one_sided: bool = False) -> Break | None:
    result = schema.decode(given)
    if isinstance(result, Failure):
        return None  # another law checks this
    value = result.unwrap()
    encoded = schema.encode(value)
    if isinstance(encoded, Failure):
        return _refusal(given, f"cannot encode the decoded {name}", encoded.failure(), _CODEC)
    if one_sided:
        return None
    for again in (schema.decode(encoded.unwrap()), schema.decode_json(schema.encode_json(value).unwrap())):
        if isinstance(again, Failure):
            return _refusal(given, f"cannot decode the encoded {name}", again.failure(), _CODEC)
        comparable = getattr(value.__class__, "__eq__", None) is not getattr(object, "__eq__", None)
        if again.unwrap() != value and (comparable or schema.encode(again.unwrap()) != encoded):
            return Break(
                given, "", f"the {name} is {value!r}, but {again.unwrap()!r} after encoding and decoding", _CODEC
            )
    return None


# ---- schema and decoder

_NARROW: Final = (
    "declare the decoder's conditions in the type (bounds by Meta, Meta(tz=True) for times, json_schema= of a codec),"
    " or decode all data that the schema accepts"
)


_REFUSES: Final = "the type can refuse data that its JSON Schema accepts"


def _agreement(subject: LawSubject, trial: Trial) -> Break | None:
    from fxai.testing.strategies import decode_parameters, not_instances

    tool, document = subject.tool, subject.document
    one_sided = isinstance(tool.parameters, Schema) and _warn(tool, "parameters", tool.parameters, "decode", _REFUSES)

    def accept(given: object) -> Break | None:
        if faults := document.validate(given):
            fault = f"the schema rejects it: {faults[0]}"
            return Break(given, faults[0].pointer, fault, "generate data that the schema accepts, or widen the schema")
        result = decode_parameters(tool, given)
        if isinstance(result, Failure) and not one_sided:
            return _refusal(given, "the schema accepts it, but the decoder does not", result.failure(), _NARROW)
        return None

    def reject(given: object) -> Break | None:
        if tool.validation == "none" or isinstance(decode_parameters(tool, given), Failure):
            return None
        faults = document.validate(given)
        return Break(given, faults[0].pointer, f"the decoder accepts it, but the schema does not: {faults[0]}", _NARROW)

    data = subject.parameters()
    taken = trial.find_break(data, accept)
    if taken is not None:
        return taken
    try:
        found = trial.find_break(_misses(document, data, trial), reject)
        return found and (
            trial.find_break(not_instances(document), reject) or found
        )  # the second one finds smaller data
    except NoExamplesError:
        return None  # the schema accepts everything


# ---- results


def _outcome(subject: LawSubject, trial: Trial) -> Break | None:
    for name, schema, data in subject.schemas():
        if name == "parameters":
            continue
        one_sided = _warn(subject.tool, name, schema, "decode", _REFUSES)
        found = trial.find_break(data, partial(_fits, name, schema, one_sided=one_sided))
        if found is not None:
            return found
    return None


def _fits(name: str, schema: Schema[Any], given: object, *, one_sided: bool = False) -> Break | None:
    result = schema.decode(given)
    if isinstance(result, Failure):
        if one_sided:
            return None
        what = f"the schema of the {name} accepts it, but the decoder does not"
        return _refusal(given, what, result.failure(), _NARROW)
    encoded = schema.encode(result.unwrap())
    if isinstance(encoded, Failure):
        return _refusal(given, f"cannot encode the {name}", encoded.failure(), _CODEC)
    if faults := schema.written_document.validate(encoded.unwrap()):
        return Break(given, faults[0].pointer, f"the encoded value does not match its schema: {faults[0]}", _NARROW)
    return None


# ---- strict mode


def _strict(rules: StrictRules, subject: LawSubject, trial: Trial) -> Break | None:
    result = strict_form(subject.document, rules, explicit_null=subject.tool.get(ExplicitNull))
    if isinstance(result, Failure):
        if subject.tool.get(Strict) is not True:
            return None
        feature = result.failure()[0]
        remedy = "change the schema there, or remove the annotation Strict"
        return Break(None, feature.pointer, f"Strict is set, but {rules.name} has no strict form: {feature}", remedy)
    form = result.unwrap()
    if refused := rule_faults(form.document, rules):
        return Break(form.document.to_dict(), refused[0].pointer, f"{rules.name} rejects it: {refused[0]}", _REPORT)

    def go_back(given: object) -> Break | None:
        if faults := form.relaxed.validate(form.back(given)):
            return Break(given, faults[0].pointer, f"the schema rejects the converted data: {faults[0]}", _REPORT)
        return None

    some = trial.part()
    try:
        found = some.find_break(_instances(form.document), go_back)
        return found or some.find_break(_instances(form.original, undeclared=False), partial(_goes_there, form))
    except NoExamplesError:
        return None


_REPORT: Final = (
    "report this bug with the schema: the conversion must preserve its meaning. Until then, use annotate(Strict, False)"
)


def _goes_there(form: StrictForm, given: object) -> Break | None:
    there = form.forth(given)
    if isinstance(there, Failure):
        return _refusal(given, "it has no strict form", there.failure(), _REPORT)
    if faults := form.document.validate(there.unwrap()):
        return Break(given, faults[0].pointer, f"the strict schema rejects the strict form: {faults[0]}", _REPORT)
    back = form.back(there.unwrap())
    if _exact(back, nulls=form.explicit_null) != _exact(given, nulls=form.explicit_null):
        return Break(given, "", f"the round trip returns {Break(back, '', '', '').json}", _REPORT)
    return None


def _exact(value: Any, *, nulls: bool) -> Any:
    """Return the data with numbers and booleans distinguished, with or without null members."""
    if is_object(value):
        return {name: _exact(item, nulls=nulls) for name, item in value.items() if nulls or item is not None}
    if is_array(value):
        return [_exact(item, nulls=nulls) for item in value]
    return (isinstance(value, bool), value)


# ---- the tool as a value


def _kind(subject: LawSubject, trial: Trial) -> Break | None:
    from fxai.testing.strategies import annotation_maps

    tool = subject.tool
    kept = {"kind": tool.kind, "schema": tool.json_schema(), "identity": tool.identity, "class": type(tool)}

    def preserve(given: Annotations) -> Break | None:
        changed = tool.annotate_all(given).prefix("x.").with_description("Changed.").annotate(Strict, False)
        drawn = {key.name: repr(given.get(key)) for key in given}
        after = (changed.kind, changed.json_schema(), changed.identity, type(changed))
        for (what, before), now in zip(kept.items(), after, strict=True):
            if before != now:
                found = f"its {what} was {before!r} and is {now!r}"
                return Break(drawn, "", found, "report this bug: annotations must preserve it")
        lost = next((key.name for key in given if key != Strict and changed.get(key) != given.get(key)), None)
        return None if lost is None else Break(drawn, f"/{lost}", "its value was lost", "report this bug")

    return trial.find_break(annotation_maps(), preserve)


def _examples(subject: LawSubject, _: Trial) -> Break | None:
    from fxai.testing.strategies import decode_parameters

    for example in subject.tool.input_examples:
        result = decode_parameters(subject.tool, example.parameters)
        if isinstance(result, Failure):
            return _refusal(example.parameters, "invalid input example", result.failure(), "correct the example")
    return None


TOOL_LAWS: Final = (
    Law("decoding undoes encoding", "decoding an encoded value returns the value", _encoding),
    Law("the schema takes what the decoder takes", "the JSON Schema accepts the same data as the decoder", _agreement),
    Law("outcomes fit their schemas", "encoded successes and failures match their schemas", _outcome),
    Law("strict at OpenAI", "OpenAI's strict schema means the same as the tool's schema", partial(_strict, OPENAI)),
    Law(
        "strict at Anthropic",
        "Anthropic's strict schema means the same as the tool's schema",
        partial(_strict, ANTHROPIC),
    ),
    Law("annotations keep the tool", "annotations, names, and descriptions preserve kind, schema, and identity", _kind),
    Law("examples are valid", "the tool accepts its input examples", _examples),
)
"""The laws of every tool."""


_NAME_RULES: Final = {"OpenAI": NameRule(64), "Anthropic": NameRule(128)}


def _monoid(kit: AnyToolkit, trial: Trial) -> Break | None:
    from hypothesis import strategies as st

    def join(cuts: tuple[int, int]) -> Break | None:
        tools, (first, second) = kit.as_tuple, sorted(cuts)
        a, b, c = (Toolkit.of(part) for part in (tools[:first], tools[first:second], tools[second:]))
        for what, one, other in (
            ("(a + b) + c is a + (b + c)", a.merge(b).merge(c), a.merge(b.merge(c))),
            ("the merged parts equal the toolkit", a.merge(b).merge(c), kit),
            ("empty + toolkit equals the toolkit", Toolkit.empty().merge(kit), kit),
            ("toolkit + empty equals the toolkit", kit.merge(Toolkit.empty()), kit),
            ("toolkit + toolkit equals the toolkit", kit.merge(kit), kit),
        ):
            if one != other:
                names = [[tool.name for tool in part] for part in (a, b, c)]
                found = f"false: {what}. {one!r} differs from {other!r}"
                return Break(names, "", found, "report this bug: merging toolkits must be associative")
        return None

    cuts = st.integers(0, len(kit))
    return trial.find_break(st.tuples(cuts, cuts), join)


def _names(kit: AnyToolkit, _: Trial) -> Break | None:
    for provider, rule in _NAME_RULES.items():
        try:
            names = NameMap.of(kit, rule)
        except NameConflictError as error:
            return Break([tool.name for tool in kit], "", f"at {provider}, {error}", "rename or prefix one of them")
        for tool in kit:
            sent = names.sent(tool.name)
            if names.meant(sent) != tool.name:
                found = f"at {provider}, {sent!r} leads back to {names.meant(sent)!r}"
                return Break(tool.name, "", found, "rename one tool")
            if tool.provider is None and re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{rule.length}}}", sent) is None:
                return Break(tool.name, "", f"{provider} rejects the name {sent!r}", "rename the tool")
    return None


TOOLKIT_LAWS: Final = (
    Law("toolkits join as values", "merging is associative, with the empty toolkit as neutral element", _monoid),
    Law("names lead back", "names on the wire lead back to the tools", _names),
)
"""The laws of every toolkit."""


_A = TypeVar("_A")


@final
class Handled(msgspec.Struct, frozen=True, eq=False):
    """A tool, the layer with its handler, and the arguments of its calls."""

    tool: AnyTool
    layer: AnyLayer
    given: SearchStrategy[object] | None = None

    def outcome(self, given: object) -> Exit[Outcome, Any]:
        """Call the tool with a JSON value and return the exit. Each call builds the layer again."""
        call: AnyEffect = Toolkit.make(self.tool).call(self.tool.name, given)
        return run_exit(cast("EffectOf[Any, Any]", call.provide(self.layer)))


def apart(check: Callable[[], _A]) -> _A:
    """Run a check and return its result. Use another thread if this thread runs an event loop, which handlers need."""
    if event_loop() is None:
        return check()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(check).result()


def _calls(subject: Handled, trial: Trial) -> Break | None:
    from fxai.testing.strategies import parameters

    def end(given: object) -> Break | None:
        exit_ = subject.outcome(given)
        if not isinstance(exit_, Succeeded):
            return _wrong(exit_.cause, given)
        outcome = exit_.value
        if isinstance(outcome.result, InvalidParameters) and outcome.is_failure:
            where = outcome.result.faults[0].pointer
            return Break(given, where, str(outcome.result), "generate parameters that the tool accepts")
        schema = subject.tool.failure if outcome.is_failure else subject.tool.success
        if faults := schema.written_document.validate(outcome.encoded_result):
            returned = Break(outcome.encoded_result, "", "", "").json
            found = f"it returned {returned}, which its schema rejects: {faults[0]}"
            return Break(given, "", found, "declare the type that the handler returns")
        return None

    data = parameters(subject.tool) if subject.given is None else subject.given
    return apart(lambda: trial.find_break(data, end))


def _wrong(cause: Cause[Any], given: object) -> Break | None:
    """Return the break of a call's exit, or None if the exit is a declared failure."""
    for reason in cause.reasons:
        if isinstance(reason, Die):
            error = reason.defect
            found = f"the handler crashed: {type(error).__name__}: {error}"
            return Break(given, "", found, "return Failure(...) of the tool's failure type, or refuse it in the schema")
        if not isinstance(reason, Fail):
            return Break(given, "", "the handler interrupted itself", "return Failure(...) instead")
        if isinstance(reason.error, InvalidResult):
            return Break(given, "", str(reason.error), "return what the tool declares, or declare what is returned")
        if not isinstance(reason.error, HandlerFailed):
            return Break(given, "", f"the call failed: {reason.error}", "handle the failures of the layer in the layer")
    return None


def _unknown_members(subject: Handled, trial: Trial) -> Break | None:
    from fxai.testing.strategies import invalid_parameters

    def reject(given: object) -> Break | None:
        exit_ = subject.outcome(given)
        if isinstance(exit_, Succeeded) and isinstance(exit_.value.result, InvalidParameters):
            return None
        remedy = "report this bug: fxai must reject invalid parameters before the handler runs"
        return Break(given, "", f"the call ended with {exit_!r}", remedy)

    try:
        return apart(lambda: trial.find_break(invalid_parameters(subject.tool), reject))
    except NoExamplesError:
        return None  # the tool accepts everything


def _complete(subject: tuple[AnyToolkit, AnyLayer], _: Trial) -> Break | None:
    kit, layer = subject
    built: Any = kit.to_layer(layer)
    exit_ = apart(lambda: run_exit(Succeed(None).provide(built)))
    if isinstance(exit_, Succeeded):
        return None
    names = [tool.name for tool in kit]
    error = next((reason.defect for reason in exit_.cause.reasons if isinstance(reason, Die)), None)
    if isinstance(error, HandlerError):
        message = str(error).partition(". ")[0]
        return Break(names, "", message, "provide one handler for each tool, and no other handlers")
    return Break(names, "", f"cannot build the layer: {exit_.cause}", "provide the services that the layer needs")


HANDLER_LAWS: Final = (
    Law("calls end as declared", "every valid call ends in a success or a declared failure", _calls),
    Law("invalid calls are refused", "arguments that the schema rejects never reach the handler", _unknown_members),
)
"""The laws of every handler."""

LAYER_LAWS: Final = (Law("handlers are complete", "the layer has one handler for each tool that needs one", _complete),)
"""The laws of every toolkit with its layer."""


def check_tool(
    tool: AnyTool, *, parameters: SearchStrategy[object] | None = None, **trial: Unpack[TrialOptions]
) -> None:
    """Check a tool against every law of tools. The laws of strict mode receive a quarter of the examples.

    - Decoding an encoded value returns the value.
    - The JSON Schema accepts the same data as the decoder, on each installed validator.
    - Encoded successes and failures match their schemas.
    - The strict schema of each provider accepts the same data as the tool's own schema.
    - Annotations preserve kind, schema, and identity.
    - Input examples are valid.

    A type of pydantic can have validators and serializers that its JSON Schema does not describe. A law is then true in
    one direction only. `check_tool` checks this direction and warns with `OneSidedLawWarning`.

    Args:
        tool: Tool of any kind.
        parameters: Strategy of valid parameters as JSON values. Default: data from the schema.
        trial: Effort per law: `max_examples` (default: 100), `seed`, and `derandomize`, see `TrialOptions`.

    Raises:
        LawError: If a law is false. The error contains the smallest counterexample, its location, and the remedy.
    """
    _check(_cases(TOOL_LAWS, LawSubject(tool, parameters), Trial(**trial)))


def check_toolkit(toolkit: AnyToolkit, **trial: Unpack[TrialOptions]) -> None:
    """Check a toolkit against every law: the laws of each tool, of merging, and of reversible names.

    Raises:
        LawError: As for `check_tool`.
    """
    _check(laws_of(toolkit, **trial))


def check_handler(
    tool: AnyTool, layer: AnyLayer, *, parameters: SearchStrategy[object] | None = None, **trial: Unpack[TrialOptions]
) -> None:
    """Check the handler of a tool. Each valid call must end with a success or a declared failure, without a defect.

    The encoded result must match its schema, and arguments that the schema rejects must never reach the handler. Each
    call builds the layer again. The layer must need nothing, so provide test services if the handler needs services. If
    an event loop already runs, the calls run in another thread.

    Raises:
        LawError: As for `check_tool`.
    """
    _check(_cases(HANDLER_LAWS, Handled(tool, layer, parameters), Trial(**trial)))


def check_layer(
    toolkit: AnyToolkit,
    layer: AnyLayer,
    *,
    parameters: Mapping[str, SearchStrategy[object]] | None = None,
    **trial: Unpack[TrialOptions],
) -> None:
    """Check the layer of a toolkit. It must have one handler for each tool that needs one, as for `check_handler`.

    Args:
        toolkit: The tools.
        layer: The handlers. The layer must need nothing.
        parameters: Strategies of valid parameters as JSON values, by tool name.
        trial: Effort per law: `max_examples` (default: 100), `seed`, and `derandomize`, see `TrialOptions`.

    Raises:
        LawError: As for `check_tool`.
    """
    _check(_layer_cases(toolkit, layer, parameters or {}, Trial(**trial)))


def laws_of(
    toolkit: AnyToolkit | AnyTool,
    layer: AnyLayer | None = None,
    *,
    parameters: Mapping[str, SearchStrategy[object]] | None = None,
    **trial: Unpack[TrialOptions],
) -> list[LawCase]:
    """Return one case per law of a toolkit or tool, of its tools, and, with a layer, of its handlers.

    >>> str(laws_of(Tool.make("ping"))[0])
    'ping: decoding undoes encoding'
    """
    kit: AnyToolkit = Toolkit.of([toolkit]) if isinstance(toolkit, Tool) else toolkit
    how, given = Trial(**trial), parameters or {}
    cases = [case for tool in kit for case in _cases(TOOL_LAWS, LawSubject(tool, given.get(tool.name)), how)]
    if not isinstance(toolkit, Tool):
        cases += [LawCase(law, kit, "toolkit", f"the {kit!r}", how) for law in TOOLKIT_LAWS]
    return cases if layer is None else [*cases, *_layer_cases(kit, layer, given, how)]


def _check(cases: Iterable[LawCase]) -> None:
    for case in cases:
        case.check()


def _cases(laws: Iterable[Law], subject: LawSubject | Handled, trial: Trial) -> list[LawCase]:
    name = subject.tool.name
    return [LawCase(law, subject, name, f"the tool {name!r}", trial) for law in laws]


def _layer_cases(
    kit: AnyToolkit, layer: AnyLayer, given: Mapping[str, SearchStrategy[object]], trial: Trial
) -> list[LawCase]:
    cases = [LawCase(law, (kit, layer), "layer", f"the layer of {kit!r}", trial) for law in LAYER_LAWS]
    for tool in kit:
        if tool.requires_handler:
            cases += _cases(HANDLER_LAWS, Handled(tool, layer, given.get(tool.name)), trial)
    return cases
