"""Targets of the command line: what `module:name`, a path or a list of tools names, and the tools that it has.

A target is a toolkit, a tool, a function tool, the tools of an object, an agent, a stateful prompt or a tool source, by
`module:name` or `path.py:name`; a list of tools in JSON, by its path, `-` for stdin; or an MCP server, as `mcp:` and a
command or a URL.

>>> found = find_tools("fxai.cli.example:agent")
>>> [tool.name for tool in found.tools], found.layer
(['count_lines', 'list_directory', 'read_text_file'], None)

A tool source is opened for as long as its tools are shown or called; all other targets have their tools at once.

>>> [tool.name for tool in load_tools(find_tools("fxai.cli.example:count_lines")).tools]
['count_lines']

A list in JSON is an object with `tools` (an MCP result, or the whole response with its `result`), an array of tools, or
one tool. A tool has a `name`, and its schema under `inputSchema`, `input_schema` or `parameters`.

>>> listed = read_tools('{"tools": [{"name": "add", "inputSchema": {"type": "object"}}, {"title": "Nameless"}]}')
>>> [tool.name for tool in listed.tools]
['add']
>>> print(*listed.findings)
/tools/1/name: error not-a-tool: expected a name, found nothing; correct the list: this entry is left out
"""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from sysconfig import get_paths
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import msgspec
from typing_extensions import TypeVar

from fxai.cli.exit import WRONG_USE, CliError
from fxai.cli.input import read_at_most
from fxai.cli.prompt_view import AnyAgent, agent_of, binding_at_first, is_agent
from fxai.cli.run_program import value_of
from fxai.effects import fx
from fxai.effects.effect import AnyEffect, EffectOf
from fxai.effects.layer import AnyLayer, LayerOf
from fxai.lint.rule import RULES, Finding
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import one_line
from fxai.schema.fault import DecodeError, SchemaError, found_in
from fxai.schema.json_schema import JsonSchema
from fxai.schema.parsing import parse_json_unsafe
from fxai.tools.identity import ToolConflictError
from fxai.tools.source import ToolSource
from fxai.tools.tool import AnyTool, Tool
from fxai.tools.tool_options import Annotation, Destructive, Idempotent, Meta, OpenWorld, Readonly, Title
from fxai.tools.toolkit import Toolkit, bound_of

if TYPE_CHECKING:
    from fxai.cli.mcp_target import ServerOptions

_T = TypeVar("_T")
_Fits: TypeAlias = Callable[[object], bool]
_LIBRARIES: Final = tuple(get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep


def load(target: str, kind: type[_T], what: str) -> _T:
    """The value that `target` names, which is of `kind`; `what` says so in words. The name may go deeper: `a.b`."""
    value: _T = load_matching(target, lambda value: isinstance(value, kind), what)
    return value


def load_matching(target: str, fits: _Fits, what: str) -> Any:
    """The value that `target` names, for which `fits` is true; `what` says in words what that is."""
    place, _, name = target.rpartition(":")
    if not place or not name or (place.endswith(".py") and "/" in name):
        raise CliError(f"{target!r} names no value", "write module:name or path.py:name", code=WRONG_USE)
    module = _module(place, target)
    value: Any = module
    try:
        for part in name.split("."):
            value = _attribute(value, part, target, fits)
        if not fits(value):
            raise CliError(f"{target} is {_kind_of(value)}, not {what}", _instead(module, fits, place), code=WRONG_USE)
    except (KeyboardInterrupt, CliError):
        raise
    except BaseException as raised:  # an attribute that raises when it is read
        raise _import_error(target, raised, "looked at") from raised
    return value


def _attribute(value: Any, part: str, target: str, fits: _Fits) -> Any:
    try:
        return getattr(value, part)
    except AttributeError:
        there = [name for name in dir(value) if not name.startswith("_")]
        near = difflib.get_close_matches(part, there, n=1)
        fitting = [name for name in there if _holds(value, name, fits)]
        said = f"did you mean {near[0]!r}" if near else f"there is: {', '.join(fitting or there[:8]) or 'nothing'}"
        raise CliError(f"{target} does not exist: {part!r} is not there", said, code=WRONG_USE) from None


def _holds(value: Any, name: str, fits: _Fits) -> bool:
    try:
        return fits(getattr(value, name, None))
    except Exception:  # an attribute that raises when it is read is not offered
        return False


def _kind_of(value: object) -> str:
    return f"a class, {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"


def _instead(module: ModuleType, fits: _Fits, place: str) -> str:
    there = [name for name in vars(module) if _holds(module, name, fits)]
    return (
        f"there is {', '.join(f'{place}:{name}' for name in there[:4])}" if there else f"{place} has none; name another"
    )


def _module(place: str, target: str) -> ModuleType:
    try:
        return _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    except (KeyboardInterrupt, CliError):
        raise
    except ModuleNotFoundError as missing:
        if missing.name is not None and (place == missing.name or place.startswith(f"{missing.name}.")):
            remedy = "give a module that can be imported from here, or path.py:name"
            raise CliError(f"{target}: there is no module {missing.name}", remedy, code=WRONG_USE) from None
        raise _import_error(place, missing) from missing
    except BaseException as raised:  # whatever the module raises, SystemExit too
        raise _import_error(place, raised) from raised


def _from_path(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        there = Path(name)
        what = "a folder" if there.is_dir() else "no Python file" if there.exists() else "no module's name"
        raise CliError(f"{name!r} is {what}", "write module:name or path.py:name", code=WRONG_USE)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CliError(f"there is no file {path}", "give the path of a Python file", code=WRONG_USE)
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # so that it can import its neighbours, as when it is run as a script
        sys.path.insert(0, folder)
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_{abs(hash(path.resolve())):x}"
    if _same(sys.modules.get(path.stem), path):
        return sys.modules[path.stem]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CliError(f"{path} cannot be imported", "give the path of a Python file", code=WRONG_USE)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _same(module: ModuleType | None, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path.resolve()


def _import_error(place: str, raised: BaseException, done: str = "imported") -> CliError:
    frames = [f for f in traceback.extract_tb(raised.__traceback__) if "importlib" not in f.filename]
    outside = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    own = [f for f in outside if not f.filename.startswith(_LIBRARIES)]
    where = (own or outside)[-1] if outside else None
    line = getattr(raised, "lineno", None) if isinstance(raised, SyntaxError) else where and where.lineno
    file = getattr(raised, "filename", None) if isinstance(raised, SyntaxError) else where and where.filename
    why = (raised.strerror if isinstance(raised, OSError) else None) or str(raised)
    said = f"{one_line(place, 200)} cannot be {done}: {type(raised).__name__}: {why}"
    return CliError(said, f"look at {file}:{line}" if file and line else "correct it", cause=raised)


_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters")
_HINTS: Final[dict[str, Annotation[Any]]] = {
    "title": Title,
    "readOnlyHint": Readonly,
    "destructiveHint": Destructive,
    "idempotentHint": Idempotent,
    "openWorldHint": OpenWorld,
}
_LEFT_OUT: Final = "correct the list: this entry is left out"
_MISSING: Final = object()


@final
class ToolList(msgspec.Struct, frozen=True):
    """The tools of a list, each dynamic, and the entries that are no tools.

    `broken` holds, by name, the schemas that are no usable JSON Schemas; the tools in question take nothing instead.
    """

    tools: tuple[AnyTool, ...]
    broken: Mapping[str, Any]
    findings: tuple[Finding, ...]

    def __hash__(self) -> int:
        return hash((self.tools, self.findings))  # documents are plain data


def read_tools(text: bytes | str, name: str = "the list") -> ToolList:
    """Reads a list of tools from JSON text; `name` is its name in messages."""
    try:
        data = parse_json_unsafe(text)
    except DecodeError as error:
        raise CliError(f"{name} is no JSON: {error.failure}", "give a list of tools in JSON", code=WRONG_USE) from None
    if not text.strip():
        raise CliError(f"{name} is empty", "give a list of tools in JSON", code=WRONG_USE)
    return _Reading().read(_entries(data, "", name))


def _entries(data: Any, pointer: str, name: str) -> list[tuple[str, Any]]:
    if is_array(data):
        return [(f"{pointer}/{index}", each) for index, each in enumerate(data)]
    if is_object(data):
        for keyword in ("result", "tools"):
            if isinstance(data.get(keyword), dict | list):
                return _entries(data[keyword], f"{pointer}/{keyword}", name)
        if "name" in data or "function" in data:
            return [(pointer, data)]
    remedy = 'give {"tools": […]}, as an MCP server answers tools/list, or an array of tools'
    raise CliError(f"{name} is no list of tools: there is {found_in(data)}", remedy, code=WRONG_USE)


@final
class _Reading:
    """A list being read, with its findings so far."""

    def __init__(self) -> None:
        self.tools: dict[str, AnyTool] = {}
        self.broken: dict[str, Any] = {}
        self.findings: list[Finding] = []

    def read(self, entries: list[tuple[str, Any]]) -> ToolList:
        for pointer, entry in entries:
            function = entry.get("function") if is_object(entry) else None
            inner = isinstance(function, dict)
            self._entry(f"{pointer}/function" if inner else pointer, function if inner else entry)
        return ToolList(tuple(self.tools.values()), self.broken, tuple(self.findings))

    def _not(self, tool: str | None, pointer: str, expected: str, found: Any, remedy: str = _LEFT_OUT) -> None:
        said = "nothing" if found is _MISSING else found_in(found)
        self.findings.append(RULES["not-a-tool"].finding(tool, pointer, f"expected {expected}, found {said}", remedy))

    def _entry(self, pointer: str, entry: Any) -> None:
        if not is_object(entry):
            return self._not(None, pointer, "a tool", entry)
        name = entry.get("name", _MISSING)
        if not isinstance(name, str) or not name.strip():
            return self._not(None, f"{pointer}/name", "a name", name)
        if name in self.tools:
            return self._not(name, f"{pointer}/name", "a name that no other tool has", name)
        description = entry.get("description")
        if not isinstance(description, str | None):
            self._not(name, "/description", "a text", description, "correct the list: it is passed over")
            description = None
        tool: AnyTool = Tool.dynamic(name, description=description, parameters=self._schema(name, entry))
        for key, value in self._annotations(name, entry):
            tool = tool.annotate(key, value)
        self.tools[name] = tool
        return None

    def _schema(self, name: str, entry: dict[str, Any]) -> JsonSchema:
        keyword = next((keyword for keyword in _SCHEMAS if keyword in entry), None)
        if keyword is None:
            remedy = "say what it takes: an inputSchema; without parameters it is an object without properties"
            self._not(name, "/parameters", "a schema", _MISSING, remedy)
            return JsonSchema.of({"type": "object", "properties": {}})
        try:
            return JsonSchema.of(entry[keyword])
        except (SchemaError, TypeError, ValueError):
            self.broken[name] = entry[keyword]
            return JsonSchema.of({"type": "object"})

    def _annotations(self, name: str, entry: dict[str, Any]) -> Iterator[tuple[Annotation[Any], Any]]:
        given: Any = entry.get("annotations", {})
        hints: dict[str, Any] = given if is_object(given) else {}
        if not is_object(given):
            self._not(name, "/annotations", "an object", given, "correct the list: they are passed over")
        for hint, key in _HINTS.items():
            value = hints.get(hint, entry.get("title") if hint == "title" else None)
            if value is not None:
                yield key, value
        if is_object(entry.get("_meta")):
            yield Meta, entry["_meta"]


_WHAT: Final = "a toolkit, a tool, a function tool, an agent, a stateful prompt or a tool source"
_SERVER: Final = "mcp:"
_LESS: Final = "give the tools alone, in several files if need be"


@final
class TargetTools(msgspec.Struct, frozen=True):
    """The tools of a target.

    Attributes:
        target: the name of the target.
        tools: the tools.
        layer: the layer of their handlers, if the target has one.
        source: opens the target, if it is a tool source; then there are no tools and no layer until it is opened.
        broken: by tool, the documents that are no usable JSON Schemas.
        findings: its entries that are no tools.
        prompt: the name of the stateful prompt whose first step has them; what it offers changes from step to step.
    """

    target: str
    tools: tuple[AnyTool, ...] = ()
    layer: AnyLayer | None = None
    source: AnyEffect | None = None
    broken: Mapping[str, Any] = MappingProxyType({})
    findings: tuple[Finding, ...] = ()
    prompt: str | None = None

    def __hash__(self) -> int:
        return hash((self.target, self.tools))  # documents are plain data

    @property
    def toolkit(self) -> Toolkit[Any]:
        """The tools together."""
        tools: Any = self.tools
        return Toolkit.of(tools)

    def pick(self, names: tuple[str, ...]) -> TargetTools:
        """The same, with the tools of these names alone, in this order; all of them where there are no names."""
        if not names:
            return self
        tools = {tool.name: tool for tool in self.tools}
        return msgspec.structs.replace(self, tools=tuple(tools[self.require(name)] for name in dict.fromkeys(names)))

    def require(self, name: str) -> str:
        """The name, if there is a tool of that name; the error says which is near."""
        there = [tool.name for tool in self.tools]
        if name in there:
            return name
        from difflib import get_close_matches

        near = get_close_matches(name, there, n=1, cutoff=0.5)
        shown = ", ".join(there[:12]) + (f" and {len(there) - 12} more" if len(there) > 12 else "")
        remedy = f"did you mean {near[0]!r}" if near else f"there is: {shown or 'nothing'}"
        raise CliError(f"{self.target} has no tool {name!r}", remedy, code=WRONG_USE)


def find_tools(target: str) -> TargetTools:
    """The tools of a target."""
    if target.startswith(_SERVER):
        return server_tools(target.removeprefix(_SERVER))
    if target == "-" or target.endswith(".json"):
        found = read_tools(_text(target), "stdin" if target == "-" else target)
        return TargetTools(target, found.tools, broken=found.broken, findings=found.findings)
    return _tools_of(target, load_matching(target, _fits, _WHAT))


def server_tools(text: str, wish: ServerOptions | None = None) -> TargetTools:
    """The tools of an MCP server; see `find_server`."""
    from fxai.cli.mcp_target import ServerOptions, find_server

    server = find_server(text, wish or ServerOptions())
    return TargetTools(server.name, source=server.source.open)


def with_layer(offer: TargetTools, target: str | None) -> TargetTools:
    """The same, with the layer that a target names beside its own."""
    if target is None:
        return offer
    kind: type[AnyLayer] = LayerOf
    layer = load(target, kind, "a layer")
    return msgspec.structs.replace(offer, layer=layer if offer.layer is None else offer.layer | layer)


def _text(target: str) -> bytes | str:
    if target == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise CliError("nothing is piped in", "pipe a list of tools in, or name a file", code=WRONG_USE)
        buffer = getattr(sys.stdin, "buffer", sys.stdin)
        text: bytes | str = read_at_most(buffer, "stdin", _LESS)
        return text
    try:
        with Path(target).open("rb") as file:
            data: bytes = read_at_most(file, target, _LESS)
            return data
    except OSError as error:
        remedy = "give the path of a file in JSON"
        raise CliError(f"{target} cannot be read: {error.strerror or error}", remedy, code=WRONG_USE) from None


def _fits(value: object) -> bool:
    if is_listed(value):
        return bool(value) and all(isinstance(each, Tool) or _is_bound(each) for each in value)
    return isinstance(value, Toolkit | Tool) or is_agent(value) or _has(value, "__fx_bound__")


def _is_bound(value: object) -> bool:
    return _has(value, "__fx_bound__") and bound_of(value) is not None


def _has(value: object, name: str) -> bool:
    return not isinstance(value, type) and hasattr(value, name)


def _tools_of(target: str, value: Any) -> TargetTools:
    if is_listed(value):
        return _together(target, [_tools_of(target, each) for each in value])
    kind: Any = cast("type[object]", type(value))
    if is_agent(value):
        return _tools_of_agent(target, agent_of(value))
    if kind is Toolkit:
        return TargetTools(target, value.as_tuple)
    if issubclass(kind, Tool):
        return TargetTools(target, (value,))
    bound = bound_of(value)
    if bound is not None:
        return TargetTools(target, bound.toolkit.as_tuple, bound.layer)
    return TargetTools(target, source=ToolSource.of(value).open)


def _tools_of_agent(target: str, agent: AnyAgent) -> TargetTools:
    binding = binding_at_first(agent)
    prompt = None if agent.prompt is None else agent.prompt.name
    if binding.is_plain:
        return TargetTools(target, binding.toolkit.as_tuple, prompt=prompt)
    return TargetTools(target, source=binding.open(), prompt=prompt)


def _together(target: str, parts: list[TargetTools]) -> TargetTools:
    try:
        kit: Toolkit[Any] = Toolkit.of(tool for part in parts for tool in part.tools)
    except ToolConflictError as error:
        raise CliError(f"{target} is no toolkit: {error}", "correct it", cause=error) from error
    merged: AnyLayer | None = None
    for part in parts:
        if part.layer is not None:
            merged = part.layer if merged is None else merged | part.layer
    return TargetTools(target, kit.as_tuple, merged)


def open_tools(offer: TargetTools) -> EffectOf[TargetTools, Any, Any]:
    """The same with its tool source opened until the scope ends."""
    if offer.source is None:
        return fx.succeed(offer)
    return offer.source.map(lambda bound: _with_bound(offer, bound))


def load_tools(offer: TargetTools) -> TargetTools:
    """The same with the tools of its source, which is opened and closed again."""
    return offer if offer.source is None else value_of(fx.scoped(open_tools(offer)))


def _with_bound(offer: TargetTools, bound: Any) -> TargetTools:
    layer = bound.layer if offer.layer is None else bound.layer | offer.layer
    return msgspec.structs.replace(offer, tools=bound.toolkit.as_tuple, layer=layer, source=None)
