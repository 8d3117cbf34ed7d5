"""The messages that users see most often. Each names the problem and its location, and ends with the remedy."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from returns.result import Success
from starlette.testclient import TestClient

from fxai import (
    Agent,
    Budget,
    LanguageModel,
    Layer,
    Memory,
    Service,
    Tool,
    Toolkit,
    fx,
    mcp,
    tool,
)
from fxai.annotations import Readonly
from fxai.durable import Runs, durable
from fxai.providers import openai
from fxai.testing import ScriptedModel, call, text
from fxai.ui import bearer_token, chat_app
from tests.kit.command_line import Run, runner
from tests.kit.every import every
from tests.kit.prose.measures import VERBS

TARGETS = f"{Path(__file__).parents[1]}/kit/targets.py"


class City(msgspec.Struct, frozen=True):
    """A city."""

    name: str


class Bank:
    """An object with a method."""

    def deposit(self, cents: int) -> int:
        """Deposit an amount."""
        return cents


class Db(Service):
    """A service without a layer."""


class Here(NamedTuple):
    """The command line and the directory of a case."""

    fxai: Run
    path: Path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Here:
    """The command line without API keys, in an empty directory."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Here(runner(monkeypatch, capsys), tmp_path)


# Each case uses these classes and functions in a way that type checkers refuse.
AnyAgent: Any = Agent
AnyBudget: Any = Budget
AnyLayer: Any = Layer
AnyMemory: Any = Memory
AnyTool: Any = Tool
AnyToolkit: Any = Toolkit
any_tool: Any = tool

weather = Tool.make("weather", parameters=City, success=float)
fly = Tool.make("fly", parameters=City, success=str)
kit: Any = Toolkit.make(weather, fly)
agent: Any = Agent.make("clerk")
model = ScriptedModel.make([text("Yes.")])
done: Any = fx.succeed(1)


def on_weather(_: City) -> Success[float]:
    """Return a temperature."""
    return Success(1.0)


def untyped(value: Any) -> Any:
    """Return the value, so that type checkers accept it everywhere."""
    return value


def without_types(city: str) -> str:
    """Return a city."""
    return city


def without_result(city: str) -> str:
    """Return a city."""
    return city


without_types.__annotations__.clear()
del without_result.__annotations__["return"]


def on_bare(_: City) -> float:
    """Return a bare value."""
    return 3.0


def spread(*cities: str) -> str:
    """Join cities."""
    return ", ".join(cities)


def _fails(effect: Any) -> str:
    return str(fx.run_result(effect).failure())


def _calls(handler: Any, **arguments: Any) -> str:
    """Return the result of a call of `weather`."""
    program: Any = kit.call("weather", arguments).provide(weather.handler(handler))
    return str(fx.run(program).result)


def _spends() -> str:
    """Return the failure of a run that needs two rounds, but has one."""
    clerk = Agent.make("clerk", budget=Budget(rounds=1)).with_tools(Toolkit.from_object(Bank()))
    return _fails(clerk.execute("Pay.").provide(ScriptedModel.make([call("deposit", {"cents": 1})]).layer))


def _opens(server: mcp.McpServer) -> str:
    return _fails(fx.scoped(server.open()))


def _responds(status: int, body: str, headers: dict[str, str] | None = None) -> str:
    """Return the failure of a request to a server that responds with an error."""
    carried = httpx2.MockTransport(lambda _: httpx2.Response(status, text=body, headers=headers))
    layer = openai.layer("gpt-5.5", api_key="sk-secret", transport=carried, retry=None)
    return _fails(LanguageModel.generate_text("Hello").provide(layer))


def _disconnects() -> str:
    def refuse(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused")

    layer = openai.layer("gpt-5.5", api_key="sk-secret", transport=httpx2.MockTransport(refuse), retry=None)
    return _fails(LanguageModel.generate_text("Hello").provide(layer))


def _requests(method: str, path: str, headers: dict[str, str] | None = None) -> str:
    """Return the body of a response of the chat application."""
    with TestClient(chat_app(agent, layer=model.layer)) as client:
        return client.request(method, path, headers=headers).text


async def _runs_inside() -> None:
    fx.run(fx.succeed(1))


def _durable(path: Path, prompt: str) -> Any:
    """Return a program of the durable run `order-18`."""
    layer: Any = durable(ScriptedModel.make([text("Paid.")]).layer, run="order-18", store=path / "runs.db")
    return agent.execute(prompt).provide(layer)


def _changes(here: Here) -> str:
    fx.run(_durable(here.path, "Pay."))
    return _fails(_durable(here.path, "Pay twice."))


def _command(*arguments: str) -> Callable[[Here], str]:
    return lambda here: here.fxai(*arguments).err.removeprefix("fxai: ").removesuffix("\n")


CASES: dict[str, tuple[Callable[[Here], object], str]] = {
    # -- tools
    "a tool without a name": (
        lambda _: AnyTool.make(" ", parameters=City, success=int),
        "tool name must be a string that is not blank, got ' '",
    ),
    "a misspelt option of a tool": (
        lambda _: AnyTool.make("weather", parameter=City, success=int),
        (
            "tool 'weather': unknown option 'parameter' (did you mean 'parameters'?). Use one of: parameters,"
            " success, failure, description, failure_mode, annotations, needs_approval, input_examples, "
            "to_model_output, provider_options, dependencies"
        ),
    ),
    "a wrong failure mode": (
        lambda _: AnyTool.make("weather", parameters=City, success=int, failure_mode="raise"),
        "tool 'weather': failure_mode must be 'error' or 'return', got 'raise'",
    ),
    "a JSON Schema for a type": (
        lambda _: AnyTool.make("weather", parameters={"type": "object"}, success=int),
        (
            "tool 'weather': parameters must be a type, got a JSON Schema document. Use "
            "Tool.dynamic('weather', parameters=…)."
        ),
    ),
    "a wrong example": (
        lambda _: AnyTool.make("weather", parameters=City, success=int, input_examples=[{"nam": "Oslo"}]),
        (
            "tool 'weather': input example 1 is invalid: /name: expected string, found nothing. Pass the "
            "parameters of one call as a JSON value."
        ),
    ),
    "a value for a hook of a tool": (
        lambda _: AnyTool.make("weather", parameters=City, success=int, to_model_output=7),
        "tool 'weather': to_model_output must be a function of the success or None, got 7",
    ),
    "a string as an annotation": (
        lambda _: weather.annotate(*untyped(["readonly", True])),
        "annotation must be an Annotation, such as Readonly, got 'readonly'",
    ),
    "a wrong value of an annotation": (
        lambda _: weather.annotate(Readonly, untyped("yes")),
        "annotation 'readonly' must be a bool, got 'yes'",
    ),
    "a parameter without annotation": (
        lambda _: any_tool(without_types).tool,
        ("parameter 'city' of the function 'without_types' has no annotation. Write its type, such as `city: str`."),
    ),
    "a function without a return annotation": (
        lambda _: any_tool(without_result).tool,
        (
            "function 'without_result' has no return annotation. Write the return type, such as `-> str`, or "
            "`-> object` for any JSON value."
        ),
    ),
    "a function with any number of arguments": (
        lambda _: any_tool(spread).tool,
        "function 'spread': a tool cannot have the parameter *cities. Use a list or a dict instead.",
    ),
    "a tool of a tool": (
        lambda _: any_tool(weather),
        "Tool('weather') is already a tool. Use annotate, rename, or with_options to change it.",
    ),
    "the class of an object": (
        lambda _: AnyToolkit.from_object(Bank),
        "cannot create tools from the class Bank. Pass an object: Bank(…).",
    ),
    "a name for a list of names": (
        lambda _: AnyToolkit.from_object(Bank(), only="deposit"),
        "only must be a list of method names, got 'deposit'. Pass only=['deposit'].",
    ),
    "an unknown method": (
        lambda _: AnyToolkit.from_object(Bank(), only=["withdraw"]),
        "Bank has no public method 'withdraw' with a docstring. Use one of: deposit.",
    ),
    "an object without methods": (
        lambda _: AnyToolkit.from_object(object()),
        "object has no public method with a docstring. Write a docstring for each method to offer.",
    ),
    "a name in a toolkit": (
        lambda _: AnyToolkit.make("weather"),
        "toolkit members must be tools, got 'weather'. Decorate a function with @tool.",
    ),
    "two tools with the same name": (
        lambda _: AnyToolkit.make(weather, Tool.make("weather", parameters=int, success=int)),
        (
            "two different tools have the name 'weather': a user-defined tool (A city.) and a user-defined "
            'tool (no description). Rename or prefix one, or set on_conflict to "first" or "last".'
        ),
    ),
    "an unknown name in a toolkit": (
        lambda _: kit.pick("wether"),
        "unknown tool 'wether' (did you mean 'weather'?). Use one of: weather, fly",
    ),
    # -- handlers and services
    "no handlers": (
        lambda _: fx.run(kit.call("weather", {"name": "Oslo"})),
        (
            "no layer provides a handler for the tool 'weather'. Provide tool.handler(f), best with "
            "toolkit.to_layer(…), which checks that each tool has a handler."
        ),
    ),
    "a missing handler": (
        lambda _: fx.run(done.provide(kit.to_layer(weather.handler(on_weather)))),
        ("handlers do not match Toolkit(weather, fly): no handler for: fly. Provide one handler for each tool."),
    ),
    "a value as a handler": (
        lambda _: weather.handler(untyped(7)),
        "handler of 'weather' must be a function of its parameters, got 7",
    ),
    "a handler with a bare value": (
        lambda _: _calls(on_bare, name="Oslo"),
        (
            "handler 'weather' returned 3.0. Return a Result (Success(value) or Failure(error)), an awaitable"
            " of a Result, an Effect, a generator of effects, or a Stream."
        ),
    ),
    "an unknown tool in a call": (
        lambda _: str(fx.run(kit.pick("weather").call("wether", {})).result),
        "unknown tool 'wether' (did you mean 'weather'?). Call one of these tools: weather",
    ),
    "invalid arguments of a call": (
        lambda _: _calls(on_weather, name=7),
        (
            "invalid arguments for 'weather': /name: expected string, found integer 7. Correct them and call "
            "the tool again"
        ),
    ),
    "a missing service": (
        lambda _: fx.run(untyped(fx.service(Db))),
        "the service Db is missing. Add `.provide(…)` with a layer that supplies it.",
    ),
    "a string as a service key": (
        lambda _: AnyLayer.succeed("Db", 7),
        "service key must be a Service class or a Tag, got 'Db'",
    ),
    "a class for a layer": (
        lambda _: done.provide(untyped(Db)),
        (
            "layer must be a Layer, got <class 'tests.unit.test_messages.Db'>. Supply a service with "
            "Layer.succeed(Db, …)."
        ),
    ),
    "a value for an effect": (
        lambda _: fx.run(untyped(7)),
        (
            "expected an effect, got 7. Convert a value to an effect: fx.succeed(…). Inside a generator, "
            "write `return` and the value."
        ),
    ),
    "an effect for its value": (
        lambda _: f"{done}",
        (
            "an effect is not its value. Write `value = yield from effect`, or `value = await effect` in a "
            "coroutine. To show the effect itself, use repr(effect)."
        ),
    ),
    "an effect that did not run": (
        lambda _: fx.run(done.map(fx.succeed)),
        (
            "the program returned an effect that was not run. Write `return (yield from effect)` for `return "
            "effect` in a generator, `flat_map` for `map` (`map_effect` in a stream), `fx.suspend` for `fx.sync`, "
            "or `.flat_map(lambda effect: effect)` to run the returned effect."
        ),
    ),
    "a run inside an event loop": (
        lambda _: asyncio.run(_runs_inside()),
        (
            "an event loop (asyncio) already runs in this thread. Await fx.run_async(effect) or "
            "fx.run_async_exit(effect) instead."
        ),
    ),
    "an unknown backend": (
        lambda _: fx.run(done, backend=untyped("curio")),
        "backend must be 'asyncio', or 'trio' if it is installed, got 'curio'",
    ),
    # -- agents and prompts
    "a number as the name of an agent": (
        lambda _: AnyAgent.make(7),
        "agent name must be a string, got 7",
    ),
    "an agent without a name": (
        lambda _: AnyAgent.make(""),
        "agent name must be a string that is not empty, got ''",
    ),
    "a misspelt option of an agent": (
        lambda _: AnyAgent.make("clerk", instruction="Be brief."),
        (
            "unknown agent option 'instruction'. Use one of: at_limit, budget, changes, compact_at, "
            "compaction, concurrency, deadline, instructions, large_results, max_tokens, on_invalid_call, on_step, "
            "output_retries, parallel_tool_calls, prepare_step, provider_options, reasoning, repair, resolve_tools, "
            "stop, stop_when, temperature, tool_choice, tool_search."
        ),
    ),
    "a list of instructions": (
        lambda _: AnyAgent.make("clerk", instructions=["Be brief."]),
        "instructions must be one string, got ['Be brief.']. Join the strings.",
    ),
    "a number as a budget": (
        lambda _: AnyAgent.make("clerk", budget=3),
        "budget must be a Budget, got 3. Pass Budget(rounds=…, tokens=…, seconds=…, calls=…).",
    ),
    "a budget of nothing": (
        lambda _: AnyBudget(rounds=0),
        "rounds must be at least 1, got 0",
    ),
    "the name of a tool for a tool": (
        lambda _: agent.with_tools("weather"),
        (
            "tools must be tools, toolkits, function tools, bound toolkits, tool sources, servers, or lists "
            "of them, got 'weather'. Pass the tool itself, not its name."
        ),
    ),
    "a path for a memory": (
        lambda _: agent.with_memory("notes.db"),
        "memory must be a Memory, such as Memory.file(path), or a service key, got 'notes.db'",
    ),
    "a value for a hook of an agent": (
        lambda _: agent.on_step(7),
        "on_step must be a function, got 7",
    ),
    "a number as a prompt": (
        lambda _: fx.run(agent.execute(7).provide(model.layer)),
        "prompt must be a string, a message, or a list of messages, got integer 7",
    ),
    "an agent without a model": (
        lambda _: fx.run(agent.execute("Hello")),
        "the service LanguageModel is missing. Add `.provide(…)` with a layer that supplies it.",
    ),
    "a spent budget": (
        lambda _: _spends(),
        ("the run did not finish within 1 round. Allow more with Budget(rounds=…), or continue from `history`."),
    ),
    "an unknown tool choice": (
        lambda _: _fails(LanguageModel.generate_text("Hello", tool_choice=untyped("always")).provide(model.layer)),
        (
            "LanguageModel.prepare: Invalid request: parameter 'tool_choice' must be 'auto', 'none', "
            "'required', or a ToolChoice, got 'always'. The same request will fail again. Change the request"
        ),
    ),
    "a wrong compaction of a memory": (
        lambda here: AnyMemory.file(here.path / "notes.jsonl", compaction=3),
        "compaction must be a Compaction, got 3. Pass Compaction.window(…), or combine stages.",
    ),
    # -- models over HTTP
    "no API key of OpenAI": (
        lambda _: _fails(LanguageModel.generate_text("Hello").provide(openai.layer("gpt-5.5"))),
        (
            "openai.from_env: MissingKey: No API key provided: environment variable OPENAI_API_KEY is not "
            "set. Set the appropriate environment variable"
        ),
    ),
    "a refused API key": (
        lambda _: _responds(401, '{"error": {"message": "wrong key"}}'),
        (
            "openai.ask: InvalidKey: The API key was refused: wrong key. Check that the key is complete and "
            "belongs to this provider"
        ),
    ),
    "too many requests": (
        lambda _: _responds(429, '{"error": {"message": "slow down"}}', {"retry-after": "7"}),
        "openai.ask: Rate limit exceeded: slow down. Wait 7 s and retry, or send fewer requests at a time",
    ),
    "an invalid request": (
        lambda _: _responds(400, '{"error": {"message": "too hot", "param": "temperature"}}'),
        (
            "openai.ask: Invalid request: parameter 'temperature'. too hot. The same request will fail again."
            " Change the request"
        ),
    ),
    "an unknown model": (
        lambda _: _responds(404, '{"error": {"message": "no model gpt-5.5", "code": "model_not_found"}}'),
        (
            "openai.ask: Model 'gpt-5.5' is unavailable: the provider does not know it: no model gpt-5.5. "
            "Check the name of the model and the permissions of the key"
        ),
    ),
    "a broken server": (
        lambda _: _responds(500, "oops"),
        (
            "openai.ask: Internal provider error (status 500): oops. Retry with growing pauses. If the "
            "failure persists, check the status page of the provider"
        ),
    ),
    "a long prompt": (
        lambda _: _responds(400, '{"error": {"message": "too long", "code": "context_length_exceeded"}}'),
        (
            "openai.ask: Context window full: too long. Shorten the history or the tools, or use a model with"
            " a larger window"
        ),
    ),
    "no connection": (
        lambda _: _disconnects(),
        (
            "openai.ask: TransportError: The connection failed: cannot connect to api.openai.com:443: "
            "connection refused. Check the connection to the provider, then retry"
        ),
    ),
    # -- MCP
    "an unknown program of an MCP server": (
        lambda _: _opens(mcp.stdio("no-such-program")),
        (
            "MCP server 'no-such-program': cannot start 'no-such-program': No such file or directory "
            "('no-such-program'). Check that the program is installed and executable"
        ),
    ),
    "an MCP server that ends": (
        lambda _: _opens(mcp.stdio(sys.executable, "-c", "raise SystemExit(3)", name="desk")),
        (
            "MCP server 'desk': the program ended with the exit code 3. Check the command or the URL, and the"
            " requirements of the server"
        ),
    ),
    "a wrong URL of an MCP server": (
        lambda _: mcp.http("ftp://example.org"),
        ("url must start with http:// or https://, got 'ftp://example.org'. For a program, use mcp.stdio(command, …)."),
    ),
    "a wrong timeout of an MCP server": (
        lambda _: mcp.http("https://example.org/mcp", timeout=0),
        "timeout must be greater than 0 seconds, got 0",
    ),
    "an MCP server that does not run": (
        lambda _: _opens(mcp.http("http://127.0.0.1:1/mcp")),
        (
            "MCP server '127.0.0.1': cannot reach 'http://127.0.0.1:1/mcp': ConnectError: All connection "
            "attempts failed. Check that the server runs, and its URL"
        ),
    ),
    # -- durable runs
    "a durable run without a name": (
        lambda _: durable(model.layer, run=""),
        "run must have 1 to 200 characters, got ''",
    ),
    "a number for the store of runs": (
        lambda _: durable(model.layer, run="order-17", store=untyped(7)),
        "store must be a path, a URL of PostgreSQL, or Runs, got 7",
    ),
    "a URL of another database": (
        lambda _: durable(model.layer, run="order-17", store="mysql://localhost/runs"),
        "URL must be postgresql://USER:PASSWORD@HOST/DATABASE, got the scheme 'mysql'",
    ),
    "an unknown run": (
        lambda here: _fails(Runs.sqlite(here.path / "runs.db").show("order-17")),
        "run 'order-17' does not exist in PATH/runs.db. To list the runs, run fxai runs list.",
    ),
    "another program of a run": (
        _changes,
        (
            "the program of the run 'order-18' changed: content of /clerk. Run the program that started it, "
            "or set on_change='continue' to continue with this program."
        ),
    ),
    # -- the chat application
    "a short token": (
        lambda _: bearer_token("short"),
        "token must have at least 16 characters. Create it with secrets.token_urlsafe().",
    ),
    "a foreign host name": (
        lambda _: _requests("GET", "/api/info", {"host": "evil.example"}),
        "unknown host name. Ask the operator to allow it with `hosts`.",
    ),
    # -- the command line
    "an unknown command": (
        _command("rnu"),
        "unknown command 'rnu'. Did you mean 'run'? Run fxai --help to see its options.",
    ),
    "an unknown option": (
        _command("run", "--modle", "local", "Hello"),
        ("unknown option --modle. Did you mean --model or --durable? Run fxai run --help to see its options."),
    ),
    "a number out of range": (
        _command("run", "--rounds", "0", "Hello"),
        "--rounds must be at least 1, got 0. Run fxai run --help to see its options.",
    ),
    "an empty prompt": (
        _command("run", ""),
        "PROMPT is empty. Write fxai run PROMPT.",
    ),
    "options that exclude each other": (
        _command("run", "--json", "--quiet", "Hello"),
        "--json cannot be used with --quiet. Remove one of them.",
    ),
    "an unknown provider": (
        _command("schema", f"{TARGETS}:kit", "--provider", "gemini"),
        "unknown provider 'gemini'. Use one of: openai, anthropic.",
    ),
    "a missing key on the command line": (
        _command("run", "--model", "openai:gpt-5.5", "Hello"),
        "model openai:gpt-5.5 is unavailable: no key. To use it, set OPENAI_API_KEY.",
    ),
    "a missing module": (
        _command("run", "--agent", "nowhere:agent", "Hello"),
        ("nowhere:agent: module nowhere does not exist. Name a module that Python can import here, or path.py:name."),
    ),
    "an unknown name in a module": (
        _command("run", "--agent", f"{TARGETS}:agen", "Hello"),
        "TARGETS:agen does not exist: unknown name 'agen'. Did you mean 'agent'?",
    ),
    "a value that is not an agent": (
        _command("run", "--agent", f"{TARGETS}:number", "Hello"),
        "TARGETS:number is a value of type int, not an agent or a stateful prompt. Try TARGETS:agent.",
    ),
    "an agent without handlers": (
        _command("run", "--agent", f"{TARGETS}:agent", "Hello"),
        (
            "missing handlers for tools of agent 'forecaster': weather, slow. Name the layer of the handlers "
            "with --layer module:name."
        ),
    ),
    "a missing target": (
        _command("check"),
        "missing TARGET. Run fxai check --help to see its options.",
    ),
    "an unknown tool on the command line": (
        _command("call", f"{TARGETS}:kit", "wether", "{}"),
        "TARGETS:kit has no tool 'wether'. Did you mean 'weather'?",
    ),
    "an unknown file of arguments": (
        _command("call", f"{TARGETS}:kit", "weather", "@arguments.json"),
        (
            "cannot read arguments.json: No such file or directory. Pass JSON such as '{\"a\": 1}', @file, or -"
            " for stdin."
        ),
    ),
    "an unknown run on the command line": (
        _command("runs", "show", "order-17"),
        "run 'order-17' does not exist in PATH/fxai-runs.db. To list the runs, run fxai runs list.",
    ),
    "a URL of another scheme on the command line": (
        _command("mcp", "tools", "ftp://example.org"),
        (
            "SERVER must be a command, or a URL that starts with http:// or https://, got 'ftp://example.org'. "
            "Correct the URL."
        ),
    ),
    "a server for other machines": (
        _command("serve", "--host", "0.0.0.0"),
        ("--host 0.0.0.0 lets any other machine use the agent. Name the variable of a token with --token-env NAME."),
    ),
}
"""The trigger and the message of each case. `PATH` is the directory of the case, `TARGETS` a file of the tests."""

_PRONOUN = re.compile(r"(?:it|its|this|that|these|those|there|here|what|which|who|such|nothing)\b", re.IGNORECASE)
_REMEDY = re.compile(r"(?:(?:To|If|For|In|Inside) [^,]+, )?`?(?P<verb>\w+)")


def _message(act: Callable[[Here], object], here: Here) -> str:
    """Return the text of an error, or the value of a case that returns the text of a failure."""
    try:
        found = act(here)
    except Exception as error:
        return str(error.args[0] if isinstance(error, KeyError) else error)
    assert isinstance(found, str), "the case raised no error"
    return found


@every("name", list(CASES))
def test_a_frequent_message_has_exactly_this_text(name: str, here: Here) -> None:
    """The public API and the command line report each mistake with the text of the table."""
    act, message = CASES[name]

    found = _message(act, here).replace(str(here.path), "PATH").replace(TARGETS, "TARGETS")
    assert found == message


def _problems(message: str) -> list[str]:
    """Return the rules that a message breaks."""
    last = re.split(r"(?<=[.?]) ", message)[-1]
    remedy = _REMEDY.match(last)
    is_imperative = remedy is not None and remedy["verb"].lower() in VERBS
    is_requirement = re.search(r"\bmust (?:be|have|start) .+, got ", message) is not None
    checks = {
        "starts with a pronoun": _PRONOUN.match(message) is not None,
        "'must be' without 'got'": " must be " in message and not is_requirement,
        "no remedy": not (is_imperative or is_requirement or last.startswith("Did you mean ")),
        "several lines": "\n" in message,
    }
    return [problem for problem, is_broken in checks.items() if is_broken]


def test_each_message_names_the_problem_and_the_remedy() -> None:
    """No message starts with a pronoun. Each states "must be X, got Y", or ends with an imperative or a suggestion."""
    problems = {name: found for name, (_, message) in CASES.items() if (found := _problems(message))}

    assert len(CASES) >= 60
    assert problems == {}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("it is one of 'auto', 'legacy', got 'x'. Use one of them.", "starts with a pronoun"),
        ("timeout must be greater than 0. Pass another.", "'must be' without 'got'"),
        ("the name of an agent is a string, not 7", "no remedy"),
        ("timeout is 0: it is more than 0 seconds.", "no remedy"),
        ("the tool failed.\nRetry.", "several lines"),
    ],
)
def test_a_message_in_another_form_is_found(message: str, problem: str) -> None:
    """A message that breaks a rule is a problem of this rule."""
    assert problem in _problems(message)
