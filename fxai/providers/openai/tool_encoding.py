"""Tools in requests to OpenAI's two APIs. Use `prepare_tools` to encode tools and to find the tools of calls.

>>> from fxai.tools.tool import Tool
>>> prepared = prepare_tools([Tool.make("Calculator.add")], model="gpt-5.5", tool_choice="required")
>>> prepared.tools[0]["name"], prepared.tools[0]["strict"], prepared.tool_choice
('Calculator__add', True, 'required')
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from returns.result import Success

from fxai.messages.part import ToolCall
from fxai.models.model_facts import ModelFacts
from fxai.models.model_request import ToolChoice, ToolChoices
from fxai.models.prepared_tools import (
    Notes,
    PreparationError,
    PreparedTools,
    ToolForm,
    choice_mode,
    choose_tools,
    form_of,
    narrow_choice,
    option_names,
    options_of,
    refuse_approval,
    shorten,
    within_number,
    without_nulls,
)
from fxai.providers.openai.known_models import facts as known_facts
from fxai.schema.data import JsonObject
from fxai.schema.parsing import parse_json
from fxai.schema.request_form import CHAT, RESPONSES, RequestRules
from fxai.schema.strict import OPENAI
from fxai.tools.annotation import (
    AllowedCallers,
    CacheControl,
    Caller,
    DeferLoading,
    EagerInputStreaming,
    FindsTools,
    Namespace,
    OutputSchema,
    Strict,
    ToolNamespace,
)
from fxai.tools.identity import NameMap, NameRule
from fxai.tools.tool import AnyTool

Api: TypeAlias = Literal["responses", "chat"]
"""Responses, or Chat Completions, which other servers also support."""

_LOCATIONS: Final[Mapping[str, str]] = {"responses": "OpenAI's Responses API", "chat": "OpenAI's Chat Completions API"}

# the fields of each type of tool on Responses, from the parameter types of the official SDK
_CARRIED: Final[Mapping[str, frozenset[str]]] = {
    "function": frozenset({"defer_loading", "allowed_callers", "output_schema", "async", "namespace"}),
    "custom": frozenset({"defer_loading", "allowed_callers", "async", "namespace"}),
    "mcp": frozenset({"defer_loading", "allowed_callers"}),
    "code_interpreter": frozenset({"allowed_callers"}),
    "shell": frozenset({"allowed_callers"}),
    "apply_patch": frozenset({"allowed_callers"}),
}
_OF_SERVER: Final = "server_tool"  # a tool that a server of Chat Completions runs
_DESCRIBED: Final = frozenset({"custom", "tool_search"})


class _Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of `provider_options["openai"]` of a tool. They replace annotations with the same meaning."""

    defer_loading: bool | None = None
    allowed_callers: tuple[Caller, ...] | None = None
    output_schema: JsonObject | None = None
    namespace: ToolNamespace | None = None
    asynchronous: bool | None = msgspec.field(default=None, name="async")


def kind_of(tool: AnyTool) -> str:
    """Return the OpenAI type of a tool: `"function"`, or the type of the provider's own tool."""
    return "function" if tool.provider is None else tool.provider.id.partition(".")[2]


@final
class Writer:
    """A writer of tools for one of the two APIs. It adds a warning for each unsupported field."""

    def __init__(
        self, api: Api, rules: RequestRules, notes: Notes, *, cache_marks: bool = False, searches: bool = True
    ) -> None:
        self._api = api
        self._rules = rules
        self._searches = searches
        self._notes = notes
        self._cache_marks = cache_marks

    def takes(self, tool: AnyTool) -> bool:
        """Return True if the API supports the tool. Otherwise, add a warning.

        Raises:
            PreparationError: If a tool that the provider runs needs an approval.
        """
        if tool.provider is None:
            return True
        ours = tool.provider.id.startswith("openai.")
        if ours and kind_of(tool) == "tool_search" and not self._searches:
            self._notes.warn(
                "unsupported-tool", tool.name, "the model cannot search tools; fxai sends all tools at once"
            )
            return False
        where: Api | None = "chat" if kind_of(tool) == _OF_SERVER else "responses"
        if ours and (self._api == where or kind_of(tool) == "custom"):
            refuse_approval(tool)
            return True
        location = "Chat Completions" if where == "chat" else "the Responses API"
        why = f"runs only on {location}" if ours else "is another provider's"
        self._notes.refuse(tool, why, _LOCATIONS[self._api])
        return False

    def extras(self, tool: AnyTool) -> JsonObject:
        """Return the supported fields of a tool except its name, description, and schema."""
        carried = _CARRIED.get(kind_of(tool), frozenset()) if self._api == "responses" else frozenset[str]()
        options, schema = options_of(tool, "openai", _Options), tool.get(OutputSchema)
        annotated: dict[str, Any] = {
            "defer_loading": tool.get(DeferLoading) or None,
            "allowed_callers": tool.get(AllowedCallers) or None,
            "output_schema": None if schema is None else schema.to_dict(),
            "namespace": tool.get(Namespace),
        }
        plain = {name: getattr(options, attribute) for name, attribute in option_names(_Options).items()}
        given = {**annotated, **{name: value for name, value in plain.items() if value is not None}}
        extras = {name: value for name, value in given.items() if value is not None}
        provided = tool.provider is not None
        missing = {
            "input examples": bool(tool.input_examples),
            "cache control": tool.get(CacheControl) is not None,
            "eager input streaming": bool(tool.get(EagerInputStreaming)),
            "description": provided and kind_of(tool) not in _DESCRIBED and tool.given_description is not None,
            "strict mode": provided and bool(tool.get(Strict)),
        }
        if not self._searches:  # a deferred tool requires a tool search, which is not sent
            extras.pop("defer_loading", None)
        time = tool.get(CacheControl)
        if time is not None and self._cache_marks and self._api == "chat" and kind_of(tool) == "function":
            carried, missing = carried | {"cache_control"}, {**missing, "cache control": False}
            extras["cache_control"] = {"type": "ephemeral", **({} if time == "default" else {"ttl": time})}
        return self._notes.carry(tool, extras, carried, missing, _LOCATIONS[self._api])

    def write(self, forms: ToolForm, wire: str, extras: Mapping[str, Any]) -> JsonObject:
        """Encode a local tool or a tool of OpenAI, with its OpenAI name."""
        tool, kind, is_chat = forms.tool, kind_of(forms.tool), self._api == "chat"
        description = shorten(tool, self._rules, self._notes)
        about = {} if description is None else {"description": description}
        if tool.provider is None:
            schema = {"name": wire, **about, "parameters": forms.document}
            if is_chat:
                flag = {} if forms.strict is None else {"strict": forms.strict}
                return {"type": kind, "function": {**schema, **flag}, **extras}
            # Responses enables strict mode if the flag is missing
            return {"type": kind, **schema, "strict": bool(forms.strict), **extras}
        args: JsonObject = without_nulls(msgspec.to_builtins(tool.provider.args))
        if kind == _OF_SERVER:
            return {"type": args["type"], **args.get("fields", {})}
        args = {**about, **args} if kind in _DESCRIBED else args
        if kind != "custom":
            return {"type": kind, **args, **extras}
        if not is_chat:
            return {"type": kind, "name": wire, **args, **extras}
        if "format" in args:
            form = dict(args["format"])
            args["format"] = {"type": form.pop("type"), "grammar": form}
        return {"type": kind, "custom": {"name": wire, **args}}


# the types that a tool choice on Responses can name directly; a choice of another type uses a list of allowed tools
_BY_TYPE: Final = frozenset(
    (
        *("apply_patch", "code_interpreter", "computer", "computer_use_preview", "file_search", "image_generation"),
        *("programmatic_tool_calling", "shell", "web_search", "web_search_preview", "web_search_preview_2025_03_11"),
    )
)


def entry(tool: AnyTool, wire: str, api: Api) -> JsonObject:
    """Return the object that names a tool in a choice.

    >>> from fxai.tools.tool import Tool
    >>> entry(Tool.make("add"), "add", "chat")
    {'type': 'function', 'function': {'name': 'add'}}
    """
    kind = kind_of(tool)
    if kind == _OF_SERVER and tool.provider is not None:
        return {"type": getattr(tool.provider.args, "type", kind)}
    if kind in ("function", "custom"):
        return {"type": kind, "name": wire} if api == "responses" else {"type": kind, kind: {"name": wire}}
    label = {"server_label": getattr(tool.provider.args, "server_label", "")} if tool.provider and kind == "mcp" else {}
    return {"type": kind, **label}


def choice_on_wire(choice: ToolChoices | None, sent: Sequence[AnyTool], naming: NameMap, api: Api, notes: Notes) -> Any:
    """Return the tool choice of a request, or None to omit the field.

    Raises:
        PreparationError: If the request does not contain the chosen tool.
    """
    if not (isinstance(choice, ToolChoice) and choice.mode == "tool"):
        return choice_mode(choice, sent, notes)
    name = choice.names[0]
    for tool in sent:
        if tool.name == name:
            named = entry(tool, naming.sent(name), api)
            direct = kind_of(tool) in ("function", "custom", "mcp", _OF_SERVER) or kind_of(tool) in _BY_TYPE
            return named if direct else _list("required", [named], api)
    raise PreparationError.of("tool_choice", f"tool {name!r} must be called, but fxai cannot send it to this API")


def allow_list(
    allowed: ToolChoice, sent: Sequence[AnyTool], deferred: Container[str], naming: NameMap, api: Api, notes: Notes
) -> JsonObject:
    """Return the choice that allows some of the tools. The request contains all tools.

    Raises:
        PreparationError: If it allows no tool. A deferred tool is unavailable before the model searches for it.
    """
    entries: list[JsonObject] = []
    for tool in sent:
        if allowed.allows(tool.name) and tool.name in deferred:
            message = f"tool {tool.name!r} is deferred, so it cannot be an allowed tool"
            notes.warn("unsupported-option", tool.name, message)
        elif allowed.allows(tool.name):
            entries.append(entry(tool, naming.sent(tool.name), api))
    if not entries:
        names = ", ".join(map(repr, allowed.names))
        raise PreparationError.of("allowed_tools", f"cannot allow any of {names}: each is deferred or not sent")
    return _list("auto" if allowed.mode == "auto" else "required", entries, api)


def _list(mode: str, entries: list[JsonObject], api: Api) -> JsonObject:
    allowed = {"mode": mode, "tools": entries}
    return {"type": "allowed_tools", **(allowed if api == "responses" else {"allowed_tools": allowed})}


NAMES: Final = NameRule(RESPONSES.longest_name)
"""OpenAI's rules for the names of tools."""

_FORMS: Final[Mapping[str, RequestRules]] = {"responses": RESPONSES, "chat": CHAT}


def strict_keywords_of(facts: ModelFacts) -> tuple[str, ...]:
    """Return the keywords that strict mode accepts for a model in addition to the common keywords.

    >>> strict_keywords_of(known_facts("gpt-5.5")), strict_keywords_of(known_facts("ft:gpt-5.5:acme"))
    (('minLength', 'maxLength'), ())
    """
    own = facts.strict_keywords
    return tuple(sorted(OPENAI.model_keywords)) if own is None else own


def prepare_tools(
    toolkit: Iterable[AnyTool],
    *,
    model: str,
    api: Api = "responses",
    facts: ModelFacts | None = None,
    strict_json_schema: bool | None = None,
    supports_strict: bool | None = None,
    tool_choice: ToolChoices | None = None,
    allowed_tools: ToolChoice | None = None,
    parallel_tool_calls: bool | None = None,
    cache_marks: bool = False,
    request_rules: RequestRules | None = None,
    strict_keywords: Iterable[str] | None = None,
) -> PreparedTools:
    """Prepare the tool fields of a request. This function is pure and sends nothing.

    Args:
        toolkit: A toolkit or any tools.
        model: The name of the model.
        api: Responses or Chat Completions.
        facts: The facts of the model. By default the facts of the table.
        strict_json_schema: True if tools that lack the annotation `Strict` are strict. By default True.
        supports_strict: True if the model has strict mode. By default from the facts.
        tool_choice: The tools that the model can or must call. `ToolChoice.one_of` sends only its tools. None omits the
            field.
        allowed_tools: The tools that the model can call, while the request contains all tools. The provider's cache
            therefore remains valid. This choice replaces `tool_choice`.
        parallel_tool_calls: True if the model can call several tools per turn. None omits the field.
        cache_marks: True to send the annotation `CacheControl`. Only on Chat Completions, for servers that support it.
        request_rules: The rules of the server for every tool. By default OpenAI's rules for the API.
        strict_keywords: The additional keywords of strict mode. By default the keywords of the model on OpenAI's host.

    Raises:
        PreparationError: If a tool with the annotation `Strict` cannot be strict. If a choice names an unknown tool. If
            a namespace has two descriptions. If `provider_options["openai"]` of a tool are invalid. If a tool that the
            provider runs needs an approval. If the model accepts no function tools.
        NameConflictError: If two tools would have the same OpenAI name.
    """
    if api not in ("responses", "chat"):
        raise PreparationError.of("api", f"must be 'responses' or 'chat', got {api!r}")
    known, notes, tools = facts or known_facts(model), Notes(), tuple(toolkit)
    rules = request_rules or _FORMS[api]
    choose_tools(tools, allowed_tools, "allowed_tools")
    is_local = any(tool.get(FindsTools) for tool in tools) and all(kind_of(tool) != "tool_search" for tool in tools)
    searches = known.tool_search is not False and not is_local
    writer = Writer(api, rules, notes, cache_marks=cache_marks, searches=searches)
    takes = [tool for tool in choose_tools(tools, tool_choice) if writer.takes(tool)]
    if known.function_calls is False and any(kind_of(tool) in ("function", "custom") for tool in takes):
        raise PreparationError.of("tools", f"model {known.model!r} accepts no function tools. Remove them.")
    able = known.strict_tools if supports_strict is None else supports_strict
    strict = {"config": strict_json_schema, "default": able or None}
    held = OPENAI.with_keywords(strict_keywords_of(known) if strict_keywords is None else strict_keywords)
    found = [ToolForm(one, None) if one.provider else form_of(one, rules, held, notes=notes, **strict) for one in takes]
    forms = within_number([one for one in found if one is not None], rules, allowed_tools or tool_choice, notes)
    sent = tuple(one.tool for one in forms)
    naming = NameMap.of(sent, NAMES)
    extras = {tool.name: writer.extras(tool) for tool in sent}
    deferred = [name for name, given in extras.items() if given.get("defer_loading")]
    if deferred and not any(kind_of(tool) == "tool_search" for tool in sent):
        remedy = "OpenAI rejects deferred tools without a tool search. Add openai.tool_search() for "
        notes.warn("other", None, remedy + ", ".join(map(repr, deferred)))
    spaces = [extras[tool.name].pop("namespace", None) for tool in sent]
    wires = [writer.write(one, naming.sent(one.tool.name), extras[one.tool.name]) for one in forms]
    tool_choice, allowed = narrow_choice(tool_choice, notes), narrow_choice(allowed_tools, notes)
    if isinstance(allowed, ToolChoice):
        choice = allow_list(allowed, sent, deferred, naming, api, notes)
    else:
        choice = choice_on_wire(allowed or tool_choice, sent, naming, api, notes)
    grouped = _in_namespaces(zip(spaces, wires, strict=True))
    fields = {"tools": grouped, "tool_choice": choice, "parallel_tool_calls": parallel_tool_calls if sent else None}
    return PreparedTools.make(fields, naming, notes=notes, forms=forms)


def _in_namespaces(wires: Iterable[tuple[ToolNamespace | None, JsonObject]]) -> list[JsonObject]:
    """Group the tools of each namespace at the position of its first tool."""
    sent: list[JsonObject] = []
    spaces: dict[str, JsonObject] = {}
    for space, wire in wires:
        if space is None:
            sent.append(wire)
            continue
        if space.name not in spaces:
            about = {"type": "namespace", "name": space.name, "description": space.description}
            spaces[space.name] = {**about, "tools": []}
            sent.append(spaces[space.name])
        description = spaces[space.name]["description"]
        if description != space.description:
            problem = f"namespace {space.name!r} has two descriptions: {description!r} and {space.description!r}"
            raise PreparationError.of("tools", f"{problem}. Use a single description.")
        spaces[space.name]["tools"].append(wire)
    return sent


# the item types for calls of the provider's own tools on Responses; a call of any other tool is a `function_call`
_ITEMS: Final = {
    "apply_patch": "apply_patch_call",
    "code_interpreter": "code_interpreter_call",
    "computer": "computer_call",
    "computer_use_preview": "computer_call",
    "custom": "custom_tool_call",
    "file_search": "file_search_call",
    "image_generation": "image_generation_call",
    "local_shell": "local_shell_call",
    "programmatic_tool_calling": "program",
    "shell": "shell_call",
    "tool_search": "tool_search_call",
    "web_search": "web_search_call",
    "web_search_2025_08_26": "web_search_call",
    "web_search_preview": "web_search_call",
    "web_search_preview_2025_03_11": "web_search_call",
}


_Location: TypeAlias = tuple[Any, Any, Any]
"""The key of a tool in a request: its type, its name, and the label of its server. A missing value is None."""


def _location_of(wire: Mapping[str, Any]) -> _Location:
    return wire.get("type"), wire.get("name"), wire.get("server_label")


@final
class RequestTools(msgspec.Struct, frozen=True, dict=True):
    """The tools of a request, and their prepared form."""

    prepared: PreparedTools
    tools: tuple[AnyTool, ...] = ()

    def item(self, name: str) -> str:
        """Return the item type of a call of the tool `name` on Responses. An unknown tool is a function."""
        tool = self._by_name.get(name)
        return "function_call" if tool is None else _ITEMS.get(kind_of(tool), "function_call")

    def tool_of_item(self, item: str) -> str:
        """Return the name of the tool whose calls have this item type. By default return the provider's own name."""
        for tool in self.tools:
            if item == _ITEMS.get(kind_of(tool)):
                return tool.name
        return next(kind for kind, known in _ITEMS.items() if known == item)

    def definition(self, name: str) -> JsonObject | None:
        """Return the tool in the form of the request, in its namespace, or None if the request does not contain it."""
        tool = self._by_name.get(name)
        locations = () if tool is None else self._locations_of(tool)
        return next((self._definitions[location] for location in locations if location in self._definitions), None)

    def without(self, names: Container[str], wires: Iterable[JsonObject]) -> list[JsonObject]:
        """Return the tools in the form of the request, except the tools with these names."""
        gone = {location for tool in self.tools if tool.name in names for location in self._locations_of(tool)}
        left: list[JsonObject] = []
        for wire in wires:
            if wire.get("type") == "namespace":
                inside = [one for one in wire["tools"] if _location_of(one) not in gone]
                left += [{**wire, "tools": inside}] if inside else []
            elif _location_of(wire) not in gone:
                left.append(wire)
        return left

    def _locations_of(self, tool: AnyTool) -> tuple[_Location, _Location]:
        """Return the keys of a tool in the request: with its name, or with only its type if the API uses no name."""
        label = None if tool.provider is None else getattr(tool.provider.args, "server_label", None)
        return (kind_of(tool), self.prepared.naming.sent(tool.name), label), (kind_of(tool), None, label)

    @cached_property
    def _definitions(self) -> dict[_Location, JsonObject]:
        """The tools in the form of the request. Each tool of a namespace has its own namespace object."""
        known: dict[_Location, JsonObject] = {}
        for wire in self.prepared.plain_fields.get("tools", ()):
            if wire.get("type") == "namespace":
                for one in wire["tools"]:
                    known.setdefault(_location_of(one), {**wire, "tools": [one]})
            else:
                known.setdefault(_location_of(wire), wire)
        return known

    def runs(self, item: str) -> bool:
        """Return True if the request shows that the provider runs the tool with this item type."""
        tool = self._by_name.get(self.tool_of_item(item))
        return tool is not None and not tool.requires_handler

    def name(self, wire: str) -> str:
        """Return the name of the tool with the OpenAI name `wire`."""
        return self.prepared.naming.meant(wire)

    def dynamic(self, name: str) -> bool:
        """Return True if the tool `name` is a dynamic tool."""
        tool = self._by_name.get(name)
        return tool is not None and tool.identity.kind == "dynamic"

    def call(self, wire: str, id_: str, text: str, metadata: Mapping[str, Any] | None = None) -> ToolCall:
        """Return the call of a function with the model's arguments.

        `params_text` contains arguments that are not JSON. Blank text means `{}`.
        """
        read = parse_json(text)
        if not isinstance(read, Success):
            name = self.name(wire)
            return ToolCall(id_, name, None, dynamic=self.dynamic(name), params_text=text, metadata=metadata or {})
        return self.parsed_call(wire, id_, read.unwrap(), metadata or {})

    def parsed_call(self, wire: str, id_: str, params: Any, metadata: Mapping[str, Any]) -> ToolCall:
        """Return the call of a tool with these arguments. Convert the arguments of a strict tool back."""
        name, mapped = self.prepared.call(wire, params)
        return ToolCall(id_, name, mapped, dynamic=self.dynamic(name), metadata=metadata)

    @cached_property
    def _by_name(self) -> dict[str, AnyTool]:
        return {tool.name: tool for tool in reversed(self.tools)}  # the first tool with a name has priority
