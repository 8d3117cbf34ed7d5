"""Targets on the command line. Use `find_tools` to find the tools of a target, and `load` to import another value.

A target is one of these:

- `module:name` or `path.py:name` of a toolkit, a tool, a function tool, the tools of an object, an agent, a stateful
  prompt, or a tool source
- the path of a list of tools in JSON, or `-` for stdin
- `mcp:` and the command or the URL of an MCP server

>>> found = find_tools("fxai.cli.example:agent")
>>> [tool.name for tool in found.tools], found.layer
(['count_lines', 'list_directory', 'read_text_file'], None)

A tool source is open only while fxai shows or calls its tools. All other targets have their tools immediately.

>>> [tool.name for tool in load_tools(find_tools("fxai.cli.example:count_lines")).tools]
['count_lines']

A list in JSON is an object with `tools` (an MCP result, or the whole response with its `result`), an array of tools, or
a single tool. A tool has a `name`, and its schema in `inputSchema`, `input_schema`, or `parameters`.

>>> listed = read_tools('{"tools": [{"name": "add", "inputSchema": {"type": "object"}}, {"title": "Nameless"}]}')
>>> [tool.name for tool in listed.tools]
['add']
>>> print(*listed.findings)
/tools/1/name: error not-a-tool: expected a name, found nothing. Correct the list. fxai ignores this entry.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from ipaddress import ip_address
from pathlib import Path
from sysconfig import get_paths
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final
from urllib.parse import urlsplit

import msgspec
from typing_extensions import TypeVar

from fxai.cli.exit import CliError, require_writable, wrong_use
from fxai.cli.input import read_source
from fxai.cli.prompt_view import agent_of, binding_at_first, is_agent
from fxai.cli.run_program import value_of
from fxai.effects import EffectOf, LayerOf, fx
from fxai.effects.effect import AnyEffect
from fxai.effects.layer import AnyLayer
from fxai.lint.rule import RULES, Finding
from fxai.schema import DecodeError, JsonSchema, SchemaError, parse_json_unsafe
from fxai.schema.data import is_array, is_listed, is_object
from fxai.schema.display import one_line
from fxai.schema.fault import found_in
from fxai.tools import AnyTool, Tool, ToolConflictError, Toolkit, ToolSource
from fxai.tools.annotation import Annotation, Destructive, Idempotent, Meta, OpenWorld, Readonly, Title
from fxai.tools.toolkit import bound_of

if TYPE_CHECKING:
    from fxai.mcp.client import McpServer
    from fxai.mcp.settings import Elicit

TOKEN: Final = "FXAI_MCP_TOKEN_"
"""Prefix of the environment variable with the bearer token of a server. The name of the server in capitals follows."""

_NAMED: Final = re.compile(r"([A-Za-z][\w-]*)=(.*)", re.DOTALL)
_URL: Final = ("http://", "https://")


@final
class ServerFlags(msgspec.Struct, frozen=True, kw_only=True):
    """Options for a server.

    Attributes:
        pins: Path of the file with the pinned tools. None pins the tools in memory when the server opens.
        env: Names of the environment variables that a server program receives.
        token_env: Environment variable with the bearer token of a URL. None selects `FXAI_MCP_TOKEN_` and the name.
        timeout: Seconds to wait for the server to open. None means 30.
        elicit: Function that answers questions for the user. None declines them.
    """

    pins: str | None = None
    env: tuple[str, ...] = ()
    token_env: str | None = None
    timeout: float | None = None
    elicit: Elicit | None = None


def find_server(text: str, wish: ServerFlags = ServerFlags()) -> McpServer:  # noqa: B008  # a frozen value
    """Return the server for a string. The function starts nothing.

    Args:
        text: A command line, which runs without a shell, or a URL. Both can have a name and `=` before them.
        wish: Options for the server.
    """
    require_mcp()
    from fxai.mcp.client import http, stdio

    found = _NAMED.fullmatch(text.strip())
    name, location = (found[1], found[2].strip()) if found else ("", text.strip())
    patience = 30.0 if wish.timeout is None else wish.timeout
    pins: Pins | None = None
    if wish.pins is not None:
        from fxai.mcp.pin import Pins

        require_writable(Path(wish.pins), "pins", wish.pins)
        pins = Pins.file(wish.pins)
    used: Any = {"name": name, "pins": pins, "timeout": patience, "elicit": wish.elicit}
    if location.startswith(_URL):
        try:
            parts = urlsplit(location)
            _ = parts.port  # raises for a port that is not a number
            problem = "" if parts.hostname else "the host is missing"
        except ValueError as error:
            problem = str(error)
        if problem:
            raise wrong_use(f"SERVER is not a valid URL: {location!r}: {problem}", "Correct the URL.")
        token = os.environ.get(TOKEN + name.upper().replace("-", "_")) if name else None
        token = token if wish.token_env is None else read_secret(wish.token_env)
        server = http(location, token=token, **used)
    elif "://" in location.partition(" ")[0]:
        said = f"SERVER must be a command, or a URL that starts with http:// or https://, got {location!r}"
        raise wrong_use(said, "Correct the URL.")
    else:
        if wish.token_env is not None:
            remedy = f"To pass a variable to a program, use --env {wish.token_env}."
            raise wrong_use("--token-env requires a server with a URL", remedy)
        env = {variable: read_secret(variable) for variable in wish.env}
        server = stdio(*_words(location), env=env, **used)
    return server.prefix(f"{name}_") if name else server


def require_mcp() -> None:
    """Raise `CliError` if the extra `mcp` is not installed."""
    if find_spec("mcp") is None:
        raise CliError("MCP requires the extra mcp, which is not installed", "Run pip install 'fxai[mcp]'.")


def read_secret(variable: str) -> str:
    """Return the value of an environment variable that contains a secret."""
    text = os.environ.get(variable, "").strip()
    if not text:
        raise wrong_use(f"environment variable {variable} is not set", "Set it, or name another.")
    return text


def require_guard(option: str, host: str, token_env: str | None, hosts: tuple[str, ...], use: str) -> None:
    """Raise `CliError` if other machines can reach a server on this host without a token or a host name.

    Args:
        option: The option for the host.
        host: The address to listen on.
        token_env: The variable of the token.
        hosts: The host names that clients can use.
        use: The danger, such as `call the tools`.
    """
    if is_local(host):
        return
    if token_env is None:
        problem = f"{option} {host} lets any other machine {use}"
        raise wrong_use(problem, "Name the variable of a token with --token-env NAME.")
    if not hosts:
        remedy = "Pass the host name that clients use: --allow-host NAME.example.org"
        raise wrong_use(f"missing --allow-host for the server on {host}", remedy)


def is_local(host: str) -> bool:
    """Return True if only this machine can reach a server on this host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _words(location: str) -> list[str]:
    remedy = """Pass a command such as "uvx mcp-server-time", or a URL."""
    try:
        words = shlex.split(location, posix=os.name == "posix")
    except ValueError as error:
        raise wrong_use(f"SERVER is not a valid command: {location!r}: {error}", remedy) from None
    if not words or not words[0]:
        raise wrong_use("missing SERVER", remedy)
    return words


_T = TypeVar("_T")
_Fits: TypeAlias = Callable[[object], bool]
_LIBRARIES: Final = tuple(get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep


def load(target: str, kind: type[_T], what: str) -> _T:
    """Return the `kind` of value that `target` names. `what` describes it in messages. A dotted name (`a.b`) works."""
    value: _T = load_matching(target, lambda value: isinstance(value, kind), what)
    return value


def load_matching(target: str, fits: _Fits, what: str) -> Any:
    """Return the value that `target` names if `fits` returns True for it. `what` describes the value in messages."""
    location, _, name = target.rpartition(":")
    if not location or not name or (location.endswith(".py") and "/" in name):
        raise wrong_use(
            f"TARGET must be module:name or path.py:name, got {target!r}", "Name a value, such as app.py:agent."
        )
    module = _module(location, target)
    value: Any = module
    try:
        for part in name.split("."):
            value = _attribute(value, part, target, fits)
        if not fits(value):
            kind = (
                f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
            )
            there = [f"{location}:{name}" for name in vars(module) if _holds(module, name, fits)]
            others = (
                f"Try {', '.join(there[:4])}." if there else f"No value in {location} matches. Name another module."
            )
            raise wrong_use(f"{target} is {kind}, not {what}", others)
    except (KeyboardInterrupt, CliError):
        raise
    except BaseException as raised:  # an attribute can raise any exception
        raise _import_error(target, raised, "cannot read") from raised
    return value


def _attribute(value: Any, part: str, target: str, fits: _Fits) -> Any:
    try:
        return getattr(value, part)
    except AttributeError:
        there = [name for name in dir(value) if not name.startswith("_")]
        near = difflib.get_close_matches(part, there, n=1)
        fitting = [name for name in there if _holds(value, name, fits)]
        hint = f"Did you mean {near[0]!r}?" if near else f"Use one of: {', '.join(fitting or there[:8]) or 'none'}."
        raise wrong_use(f"{target} does not exist: unknown name {part!r}", hint) from None


def _holds(value: Any, name: str, fits: _Fits) -> bool:
    try:
        return fits(getattr(value, name, None))
    except Exception:  # do not suggest an attribute that raises an exception
        return False


def _module(location: str, target: str) -> ModuleType:
    try:
        return _from_file(Path(location)) if location.endswith(".py") else _from_path(location)
    except (KeyboardInterrupt, CliError):
        raise
    except ModuleNotFoundError as missing:
        if missing.name is not None and (location == missing.name or location.startswith(f"{missing.name}.")):
            remedy = "Name a module that Python can import here, or path.py:name."
            raise wrong_use(f"{target}: module {missing.name} does not exist", remedy) from None
        raise _import_error(location, missing) from missing
    except BaseException as raised:  # a module can raise any exception, also SystemExit
        raise _import_error(location, raised) from raised


def _from_path(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        there = Path(name)
        what = "a directory" if there.is_dir() else "not a Python file" if there.exists() else "not a module name"
        raise wrong_use(f"{name!r} is {what}", "Write module:name or path.py:name.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise wrong_use(f"file {path} does not exist", "Pass the path of a Python file.")
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # the file can then import files next to it, like a script
        sys.path.insert(0, folder)
    name, other = path.stem, f"{path.stem}_{abs(hash(path.resolve())):x}"  # `other` if a module has the same name
    for known in (name, other):
        file = getattr(sys.modules.get(known), "__file__", None)
        if file is not None and Path(file).resolve() == path.resolve():
            return sys.modules[known]
    name = other if name in sys.modules else name
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise wrong_use(f"cannot import {path}", "Pass the path of a Python file.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_error(location: str, raised: BaseException, hint: str = "cannot import") -> CliError:
    frames = [f for f in traceback.extract_tb(raised.__traceback__) if "importlib" not in f.filename]
    outside = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    own = [f for f in outside if not f.filename.startswith(_LIBRARIES)]
    where = (own or outside)[-1] if outside else None
    line = getattr(raised, "lineno", None) if isinstance(raised, SyntaxError) else where and where.lineno
    file = getattr(raised, "filename", None) if isinstance(raised, SyntaxError) else where and where.filename
    why = (raised.strerror if isinstance(raised, OSError) else None) or str(raised)
    message = f"{hint} {one_line(location, 200)}: {type(raised).__name__}: {why}"
    return CliError(message, f"Look at {file}:{line}." if file and line else "Correct the code.", cause=raised)


_SCHEMAS: Final = ("inputSchema", "input_schema", "parameters")
_HINTS: Final[dict[str, Annotation[Any]]] = {
    "title": Title,
    "readOnlyHint": Readonly,
    "destructiveHint": Destructive,
    "idempotentHint": Idempotent,
    "openWorldHint": OpenWorld,
}
_LEFT_OUT: Final = "Correct the list. fxai ignores this entry."
_GIVE_LIST: Final = "Pass a list of tools in JSON."
_MISSING: Final = object()


def read_tools(text: bytes | str, target: str = "the list") -> TargetTools:
    """Return the tools of a list in JSON. The schemas in `broken` are invalid, and their tools accept any object."""
    name = "stdin" if target == "-" else target
    try:
        data = parse_json_unsafe(text)
    except DecodeError as error:
        raise wrong_use(f"{name} is not valid JSON: {error.failure}", _GIVE_LIST) from None
    if not text.strip():
        raise wrong_use(f"{name} is empty", _GIVE_LIST)
    return _ListReading().read(target, _entries(data, "", name))


def _entries(data: Any, pointer: str, name: str) -> list[tuple[str, Any]]:
    if is_array(data):
        return [(f"{pointer}/{index}", each) for index, each in enumerate(data)]
    if is_object(data):
        for keyword in ("result", "tools"):
            if isinstance(data.get(keyword), dict | list):
                return _entries(data[keyword], f"{pointer}/{keyword}", name)
        if "name" in data or "function" in data:
            return [(pointer, data)]
    remedy = 'Pass {"tools": […]}, the answer of an MCP server to tools/list, or an array of tools.'
    raise wrong_use(f"{name} must be a list of tools, got {found_in(data)}", remedy)


@final
class _ListReading:
    """A reader of a list, with its findings until now."""

    def __init__(self) -> None:
        self.tools: dict[str, AnyTool] = {}
        self.broken: dict[str, Any] = {}
        self.findings: list[Finding] = []

    def read(self, target: str, entries: list[tuple[str, Any]]) -> TargetTools:
        """Return the tools of the entries."""
        for pointer, entry in entries:
            function = entry.get("function") if is_object(entry) else None
            inner = isinstance(function, dict)
            self._entry(f"{pointer}/function" if inner else pointer, function if inner else entry)
        tools = tuple(self.tools.values())
        return TargetTools(target, tools, broken=self.broken, findings=tuple(self.findings))

    def _not(self, tool: str | None, pointer: str, expected: str, found: Any, remedy: str = _LEFT_OUT) -> None:
        hint = "nothing" if found is _MISSING else found_in(found)
        self.findings.append(RULES["not-a-tool"].finding(tool, pointer, f"expected {expected}, found {hint}", remedy))

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
            self._not(name, "/description", "a string", description, "Correct the list. fxai ignores the description.")
            description = None
        tool: AnyTool = Tool.dynamic(name, description=description, parameters=self._schema(name, entry))
        for key, value in self._annotations(name, entry):
            tool = tool.annotate(key, value)
        self.tools[name] = tool
        return None

    def _schema(self, name: str, entry: dict[str, Any]) -> JsonSchema:
        keyword = next((keyword for keyword in _SCHEMAS if keyword in entry), None)
        if keyword is None:
            remedy = "Add an inputSchema. For a tool without parameters, use an object without properties."
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
            self._not(name, "/annotations", "an object", given, "Correct the list. fxai ignores the annotations.")
        for hint, key in _HINTS.items():
            value = hints.get(hint, entry.get("title") if hint == "title" else None)
            if value is not None:
                yield key, value
        if is_object(entry.get("_meta")):
            yield Meta, entry["_meta"]


_WHAT: Final = "a toolkit, a tool, a function tool, an agent, a stateful prompt, or a tool source"
_SERVER: Final = "mcp:"


@final
class TargetTools(msgspec.Struct, frozen=True):
    """The tools of a target.

    Attributes:
        target: The name of the target.
        tools: The tools, or no tools for a tool source until it is open.
        layer: The layer of the handlers, or None if the target has no handlers.
        source: The effect that opens a tool source, or None for other targets.
        broken: The documents that are not valid JSON Schemas, by the name of their tool.
        findings: The entries of a list that are not tools.
        prompt: The name of a stateful prompt, or None. The tools are the tools of its first step and can change later.
    """

    target: str
    tools: tuple[AnyTool, ...] = ()
    layer: AnyLayer | None = None
    source: AnyEffect | None = None
    broken: Mapping[str, Any] = MappingProxyType({})
    findings: tuple[Finding, ...] = ()
    prompt: str | None = None

    def __hash__(self) -> int:
        return hash((self.target, self.tools))  # documents are not hashable

    @property
    def toolkit(self) -> Toolkit[Any]:
        """The tools as a toolkit."""
        tools: Any = self.tools
        return Toolkit.of(tools)

    def pick(self, names: tuple[str, ...]) -> TargetTools:
        """Return the target with only the tools of these names, in this order. Without names, return all tools."""
        if not names:
            return self
        tools = {tool.name: tool for tool in self.tools}
        return msgspec.structs.replace(self, tools=tuple(tools[self.require(name)] for name in dict.fromkeys(names)))

    def require(self, name: str) -> str:
        """Return the name of a tool. If the name is unknown, raise `CliError` with a similar name."""
        there = [tool.name for tool in self.tools]
        if name in there:
            return name
        from difflib import get_close_matches

        near = get_close_matches(name, there, n=1, cutoff=0.5)
        shown = ", ".join(there[:12]) + (f" and {len(there) - 12} more" if len(there) > 12 else "")
        remedy = f"Did you mean {near[0]!r}?" if near else f"Use one of: {shown or 'none'}."
        raise wrong_use(f"{self.target} has no tool {name!r}", remedy)


def find_tools(target: str) -> TargetTools:
    """Return the tools of a target."""
    if target.startswith(_SERVER):
        return server_tools(target.removeprefix(_SERVER))
    if target == "-" or target.endswith(".json"):
        less = "Pass only the tools, in several files if necessary."
        text = read_source(target, "Pass the path of a JSON file, or pipe a list of tools in.", less)
        return read_tools(text, target)
    return _tools_of(target, load_matching(target, _fits, _WHAT))


def server_tools(text: str, wish: ServerFlags | None = None) -> TargetTools:
    """Return the tools of an MCP server, which `find_server` reads from `text`."""
    from fxai.cli.target import ServerFlags, find_server

    server = find_server(text, wish or ServerFlags())
    return TargetTools(server.name, source=server.source.open)


def with_layer(offer: TargetTools, target: str | None) -> TargetTools:
    """Return the target with its own layer and the layer that another target names."""
    if target is None:
        return offer
    kind: type[AnyLayer] = LayerOf
    layer = load(target, kind, "a layer")
    return msgspec.structs.replace(offer, layer=layer if offer.layer is None else offer.layer | layer)


def _fits(value: object) -> bool:
    if is_listed(value):
        return bool(value) and all(
            isinstance(each, Tool) or (_has_tools(each) and bound_of(each) is not None) for each in value
        )
    return isinstance(value, Toolkit | Tool) or is_agent(value) or _has_tools(value)


def _has_tools(value: object) -> bool:
    return not isinstance(value, type) and hasattr(value, "__fx_bound__")


def _tools_of(target: str, value: Any) -> TargetTools:
    if is_listed(value):
        return _together(target, [_tools_of(target, each) for each in value])
    kind: Any = cast("type[object]", type(value))
    if is_agent(value):
        agent = agent_of(value)
        binding = binding_at_first(agent)
        prompt = None if agent.prompt is None else agent.prompt.name
        if binding.is_plain:
            return TargetTools(target, binding.toolkit.as_tuple, prompt=prompt)
        return TargetTools(target, source=binding.open(), prompt=prompt)
    if kind is Toolkit:
        return TargetTools(target, value.as_tuple)
    if issubclass(kind, Tool):
        return TargetTools(target, (value,))
    bound = bound_of(value)
    if bound is not None:
        return TargetTools(target, bound.toolkit.as_tuple, bound.layer)
    return TargetTools(target, source=ToolSource.of(value).open)


def _together(target: str, parts: list[TargetTools]) -> TargetTools:
    try:
        kit: Toolkit[Any] = Toolkit.of(tool for part in parts for tool in part.tools)
    except ToolConflictError as error:
        raise CliError(f"{target} is not a valid toolkit: {error}", "Correct the code.", cause=error) from error
    merged: AnyLayer | None = None
    for part in parts:
        if part.layer is not None:
            merged = part.layer if merged is None else merged | part.layer
    return TargetTools(target, kit.as_tuple, merged)


def open_tools(offer: TargetTools) -> EffectOf[TargetTools, Any, Any]:
    """Return an effect that opens the tool source of a target until the scope ends."""
    if offer.source is None:
        return fx.succeed(offer)

    def add(bound: Any) -> TargetTools:
        layer = bound.layer if offer.layer is None else bound.layer | offer.layer
        return msgspec.structs.replace(offer, tools=bound.toolkit.as_tuple, layer=layer, source=None)

    return offer.source.map(add)


def load_tools(offer: TargetTools) -> TargetTools:
    """Return the target with the tools of its source, which this function opens and closes."""
    return offer if offer.source is None else value_of(fx.scoped(open_tools(offer)))
