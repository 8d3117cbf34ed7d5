"""Targets on the command line. Use `find_tools` to find the tools of a target, and `load` to import another value.

A target is one of these:

- `module:name` or `path.py:name` of a toolkit, a tool, a function tool, the tools of an object, an agent, a stateful
  prompt, or a tool source
- the path of a list of tools in JSON, or `-` for stdin
- `mcp:` and the command or the URL of an MCP server

>>> found = find_tools("fxai.cli.example:agent")
>>> [tool.name for tool in found.tools], found.layer
(['count_lines', 'list_directory'], None)

A list in JSON is an object with `tools` (an MCP result, or the whole response with its `result`), an array of tools, or
a single tool. A tool has a `name`, and its schema in `inputSchema`, `input_schema`, or `parameters`.

>>> listed = read_tools('{"tools": [{"name": "add", "inputSchema": {"type": "object"}}, {"title": "Nameless"}]}')
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
from collections.abc import Callable, Mapping
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


def find_server(
    text: str,
    *,
    pins: str | None = None,
    env: tuple[str, ...] = (),
    token_env: str | None = None,
    timeout: float | None = None,
    elicit: Elicit | None = None,
) -> McpServer:
    """Return the server for a string. The function starts nothing.

    Args:
        text: A command line, which runs without a shell, or a URL. Both can have a name and `=` before them.
        pins: Path of the file with the pinned tools. None pins the tools in memory when the server opens.
        env: Names of the environment variables that a server program receives.
        token_env: Environment variable with the bearer token of a URL. None selects `FXAI_MCP_TOKEN_` and the name.
        timeout: Seconds to wait for the server to open. None means 30.
        elicit: Function that answers questions for the user. None declines them.
    """
    require_mcp()
    from fxai.mcp.client import http, stdio
    from fxai.mcp.pin import Pins

    found = _NAMED.fullmatch(text.strip())
    name, location = (found[1], found[2].strip()) if found else ("", text.strip())
    if pins is not None:
        require_writable(Path(pins), "pins", pins)
    used: Any = {"name": name, "pins": None if pins is None else Pins.file(pins)}
    used |= {"timeout": 30.0 if timeout is None else timeout, "elicit": elicit}
    if location.startswith(("http://", "https://")):
        try:
            parts = urlsplit(location)
            _ = parts.port  # raises for a port that is not a number
            problem = "" if parts.hostname else "the host is missing"
        except ValueError as error:
            problem = str(error)
        if problem:
            raise wrong_use(f"SERVER is not a valid URL: {location!r}: {problem}", "Correct the URL.")
        token = os.environ.get(TOKEN + name.upper().replace("-", "_")) if name else None
        server = http(location, token=token if token_env is None else read_secret(token_env), **used)
    elif "://" in location.partition(" ")[0]:
        said = f"SERVER must be a command, or a URL that starts with http:// or https://, got {location!r}"
        raise wrong_use(said, "Correct the URL.")
    elif token_env is not None:
        remedy = f"To pass a variable to a program, use --env {token_env}."
        raise wrong_use("--token-env requires a server with a URL", remedy)
    else:
        given = {variable: read_secret(variable) for variable in env}
        server = stdio(*_words(location), env=given, **used)
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

    `option` is the option for the host, `token_env` the variable of the token, and `hosts` are the host names that
    clients can use. `use` states the danger, such as `call the tools`.
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


def load_layer(target: str) -> AnyLayer:
    """Return the layer that `target` names."""
    kind: type[AnyLayer] = LayerOf
    return load(target, kind, "a layer")


def load_matching(target: str, fits: _Fits, what: str) -> Any:
    """Return the value that `target` names if `fits` returns True for it. `what` describes the value in messages."""
    location, _, name = target.rpartition(":")
    if not location or not name or (location.endswith(".py") and "/" in name):
        problem = f"TARGET must be module:name or path.py:name, got {target!r}"
        raise wrong_use(problem, "Name a value, such as app.py:agent.")
    try:
        module = _from_file(Path(location)) if location.endswith(".py") else _from_path(location)
    except (KeyboardInterrupt, CliError):
        raise
    except BaseException as raised:  # a module can raise any exception, also SystemExit
        missing = raised.name if isinstance(raised, ModuleNotFoundError) else None
        if missing is not None and f"{location}.".startswith(f"{missing}."):
            remedy = "Name a module that Python can import here, or path.py:name."
            raise wrong_use(f"{target}: module {missing} does not exist", remedy) from None
        raise _import_error(location, raised) from raised
    value: Any = module
    try:
        for part in name.split("."):
            value = _attribute(value, part, target, fits)
        if not fits(value):
            is_class = isinstance(value, type)
            kind = f"the class {value.__name__}" if is_class else f"a value of type {type(value).__name__}"
            there = ", ".join([f"{location}:{name}" for name in vars(module) if _holds(module, name, fits)][:4])
            others = f"Try {there}." if there else f"No value in {location} matches. Name another module."
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


def see_folder(folder: Path) -> None:
    """Add a directory to the import path."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _from_path(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        there = Path(name)
        what = "a directory" if there.is_dir() else "not a Python file" if there.exists() else "not a module name"
        raise wrong_use(f"{name!r} is {what}", "Write module:name or path.py:name.")
    see_folder(Path.cwd())
    return import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise wrong_use(f"file {path} does not exist", "Pass the path of a Python file.")
    see_folder(path.parent.resolve())  # the file can then import files next to it, like a script
    name, other = path.stem, f"{path.stem}_{abs(hash(path.resolve())):x}"  # `other` if a module has the same name
    for known in (name, other):
        file = getattr(sys.modules.get(known), "__file__", None)
        if file is not None and Path(file).resolve() == path.resolve():
            return sys.modules[known]
    name = other if name in sys.modules else name
    spec: Any = spec_from_file_location(name, path)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_error(location: str, raised: BaseException, hint: str = "cannot import") -> CliError:
    frames: list[Any] = [f for f in traceback.extract_tb(raised.__traceback__) if "importlib" not in f.filename]
    outside = [f for f in frames if not f.filename.startswith(_PACKAGE)]
    own = [f for f in outside if not f.filename.startswith(_LIBRARIES)]
    where = raised if isinstance(raised, SyntaxError) else (own or outside or [None])[-1]
    file, line = getattr(where, "filename", None), getattr(where, "lineno", None)
    why = (raised.strerror if isinstance(raised, OSError) else None) or str(raised)
    message = f"{hint} {one_line(location, 200)}: {type(raised).__name__}: {why}"
    return CliError(message, f"Look at {file}:{line}." if file and line else "Correct the code.", cause=raised)


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
    tools: dict[str, AnyTool] = {}
    broken: dict[str, Any] = {}
    findings: list[Finding] = []

    def refuse(tool: str | None, pointer: str, expected: str, found: Any, remedy: str = _LEFT_OUT) -> None:
        hint = "nothing" if found is _MISSING else found_in(found)
        findings.append(RULES["not-a-tool"].finding(tool, pointer, f"expected {expected}, found {hint}", remedy))

    for at, given in _entries(data, "", name):
        function = given.get("function") if is_object(given) else None
        pointer, entry = (f"{at}/function", function) if is_object(function) else (at, given)
        called = entry.get("name", _MISSING) if is_object(entry) else _MISSING
        if not is_object(entry):
            refuse(None, pointer, "a tool", entry)
        elif not isinstance(called, str) or not called.strip():
            refuse(None, f"{pointer}/name", "a name", called)
        elif called in tools:
            refuse(called, f"{pointer}/name", "a name that no other tool has", called)
        else:
            tools[called] = _listed_tool(called, entry, broken, refuse)
    return TargetTools(target, tuple(tools.values()), broken=broken, findings=tuple(findings))


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


def _listed_tool(name: str, entry: dict[str, Any], broken: dict[str, Any], refuse: Callable[..., None]) -> AnyTool:
    """Return a tool of a list. Add an invalid schema to `broken`, and pass wrong parts to `refuse`."""
    description, given = entry.get("description"), entry.get("annotations", {})
    if not isinstance(description, str | None):
        refuse(name, "/description", "a string", description, "Correct the list. fxai ignores the description.")
        description = None
    keyword = next((keyword for keyword in ("inputSchema", "input_schema", "parameters") if keyword in entry), None)
    schema = JsonSchema.of({"type": "object"} if keyword else {"type": "object", "properties": {}})
    if keyword is None:
        remedy = "Add an inputSchema. For a tool without parameters, use an object without properties."
        refuse(name, "/parameters", "a schema", _MISSING, remedy)
    else:
        try:
            schema = JsonSchema.of(entry[keyword])
        except (SchemaError, TypeError, ValueError):
            broken[name] = entry[keyword]
    if not is_object(given):
        refuse(name, "/annotations", "an object", given, "Correct the list. fxai ignores the annotations.")
        given = {}
    tool: AnyTool = Tool.dynamic(name, description=description, parameters=schema)
    for hint, key in _HINTS.items():
        value = given.get(hint, entry.get("title") if hint == "title" else None)
        tool = tool if value is None else tool.annotate(key, value)
    return tool.annotate(Meta, entry["_meta"]) if is_object(entry.get("_meta")) else tool


_WHAT: Final = "a toolkit, a tool, a function tool, an agent, a stateful prompt, or a tool source"
_SERVER: Final = "mcp:"


@final
class TargetTools(msgspec.Struct, frozen=True):
    """The tools of a target, whose name is `target`.

    A tool source has no tools until the effect `source` opens it. `layer` contains the handlers, if any. `broken`
    contains the documents that are not valid JSON Schemas, by the name of their tool. `findings` are the entries of a
    list that are not tools. `prompt` is the name of a stateful prompt, whose tools are the tools of its first step.
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
        near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
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


def server_tools(text: str, **flags: Any) -> TargetTools:
    """Return the tools of an MCP server, which `find_server` reads from `text` and its options."""
    server = find_server(text, **flags)
    return TargetTools(server.name, source=server.source.open)


def with_layer(offer: TargetTools, target: str | None) -> TargetTools:
    """Return the target with its own layer and the layer that another target names."""
    if target is None:
        return offer
    layer = load_layer(target)
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
