"""`fxai tools` and `fxai schema`, asked as a user would, and the lists of tools that they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fxai import Destructive, Meta, Readonly, Title, Tool
from fxai.cli.inspect import type_of
from fxai.cli.target import read_tools
from tests.kit.command_line import Run
from tests.kit.every import every

FAULTY = str(Path(__file__).parents[2] / "kit" / "faulty_tools.py")
CALLABLE = str(Path(__file__).parents[2] / "kit" / "callable_tools.py")
LIST = {
    "tools": [
        {
            "name": "echo",
            "title": "Echo",
            "description": "Says it again.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}},
            "annotations": {"readOnlyHint": True, "destructiveHint": False},
            "_meta": {"team": "core"},
        }
    ]
}


# ---- tools


def test_tools_are_shown_with_their_parameters(fxai: Run) -> None:
    """Name, kind, annotations, description, and a line for each parameter: optional ones marked, defaults told."""
    ended = fxai("tools", f"{FAULTY}:sensible")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[:9] == [
        "search  user-defined, readonly, strict: as configured (default: if possible)",
        "  Looks for documents.",
        "    text    string   Words that must occur.",
        "    limit?  integer  How many at most. (default 10)",
        "",
        "choose  user-defined, readonly, strict: as configured (default: if possible)",
        "  Chooses.",
        '    units?  string            Which units. (default "C")',
        "    tags?   object of string  Anything else. (default {})",
    ]


def test_what_a_tool_says_beside_is_shown(fxai: Run) -> None:
    """Failure modes, approval, strict, and who answers are in the first line."""
    lines = fxai("tools", f"{CALLABLE}:tools").out.splitlines()
    external = fxai("tools", f"{CALLABLE}:external").out

    assert "weather  user-defined, strict: as configured (default: if possible), on failure: return" in lines
    assert "remove  user-defined, strict: as configured (default: if possible), needs approval" in lines
    assert "remove_some  user-defined, strict: as configured (default: if possible), may need approval" in lines
    assert external.startswith("external  user-defined, strict: as configured (default: if possible), no handler\n")
    assert "report  dynamic, strict=false\n" in fxai("tools", f"{FAULTY}:calm").out


def test_tools_are_json_too(fxai: Run) -> None:
    """With --json everything that a tool says is there, its schema whole."""
    data = json.loads(fxai("tools", f"{FAULTY}:choose", "--json").out)
    (choose,) = data["tools"]

    assert (data["target"], data["left_out"]) == (f"{FAULTY}:choose", [])
    assert (choose["name"], choose["kind"], choose["failure_mode"]) == ("choose", "user-defined", "error")
    assert choose["parameters"]["properties"]["tags"]["additionalProperties"] == {"type": "string"}
    assert (choose["input_examples"], choose["needs_approval"], choose["strict"]) == ([{"units": "F"}], False, None)


def test_odd_values_are_shown_all_the_same(fxai: Run, tmp_path: Path) -> None:
    """An annotation that JSON cannot represent, and a type that is too deep for a JSON Schema, do not stop it."""
    file = tmp_path / "odd_tools.py"
    file.write_text(
        "import msgspec\nfrom fxai import Tool, Toolkit\nfrom fxai.annotations import Annotation\n"
        "deep = int\nfor _ in range(130):\n    deep = list[deep]\n"
        "P = msgspec.defstruct('P', [('c', deep)], frozen=True)\n"
        "kit = Toolkit.make(Tool.make('p', parameters=P), Tool.make('q').annotate(Annotation('o', None), object))\n"
    )
    shown = fxai("tools", f"{file}:kit")
    tools = json.loads(fxai("tools", f"{file}:kit", "--json").out)["tools"]

    assert shown.code == 0
    assert "at most 128 levels" in tools[0]["parameters"]["$comment"]
    assert tools[1]["annotations"] == {"o": "<class 'object'>"}


@every(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "array", "items": {"type": "integer"}}, "array of integer"),
        ({"type": "array"}, "array"),
        ({"enum": ["a", None]}, '"a" or null'),
        ({"enum": [f"value {n}" for n in range(9)]}, "one of 9 values"),
        ({"const": 3}, "3"),
        ({"anyOf": [{"$ref": "#/$defs/City"}, {"type": "null"}]}, "City or null"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({"$ref": "#"}, "the whole type"),
        ({}, "anything"),
        (True, "anything"),
        (False, "nothing"),
    ],
    ids=str,
)
def test_a_type_is_told_in_a_few_words(schema: Any, said: str) -> None:
    """What a parameter takes fits in a column."""
    assert type_of(schema) == said


# ---- lists


@every(
    "shape",
    [
        LIST,
        LIST["tools"],
        LIST["tools"][0],
        {"jsonrpc": "2.0", "id": 1, "result": LIST},
        [{"type": "function", "function": {"name": "echo", "parameters": {"type": "object"}}}],
        [{"type": "function", "name": "echo", "parameters": {"type": "object"}}],
        [{"name": "echo", "input_schema": {"type": "object"}}],
    ],
    ids=lambda shape: json.dumps(shape)[:40],
)
def test_a_list_of_any_usual_shape_is_read(fxai: Run, shape: Any) -> None:
    """An MCP result, the whole response, an array, one tool, and the shapes of OpenAI and Anthropic."""
    ended = fxai("tools", "-", piped=json.dumps(shape))

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("echo  dynamic")


def test_a_listed_tool_keeps_what_the_server_said() -> None:
    """Title, hints and _meta become annotations, and the schema stays as it was given."""
    (echo,) = read_tools(json.dumps(LIST)).tools

    assert (echo.get(Title), echo.get(Readonly), echo.get(Destructive)) == ("Echo", True, False)
    assert echo.get(Meta) == {"team": "core"}
    assert echo.json_schema() == LIST["tools"][0]["inputSchema"]
    assert Tool.is_dynamic(echo)


def test_what_is_no_tool_is_left_out_and_said(fxai: Run, tmp_path: Path) -> None:
    """The other tools are shown; a line on stderr for each that is none, and exit code 1."""
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([3, {"name": "ok", "inputSchema": {}}, {"name": "bad", "inputSchema": {"type": "x"}}]))
    ended = fxai("tools", str(file))
    data = json.loads(fxai("schema", str(file), "--provider", "openai", "--json").out)

    assert (ended.code, ended.err.count("\n")) == (1, 2)
    assert ended.out.splitlines()[0].startswith("ok  dynamic")
    assert [tool["name"] for tool in data["tools"]] == ["ok"]
    assert [each["code"] for each in data["left_out"]] == ["not-a-tool", "schema-error"]


RUBBISH: list[tuple[bytes, str]] = [
    (b"", "is empty. Pass a list of tools in JSON."),
    (b" \n", "is empty"),
    (b"{", "is not valid JSON: expected"),
    (bytes(range(256)), "is not valid JSON: expected JSON in UTF-8"),
    (b"3", "must be a list of tools, got integer 3. Pass "),
    (b"{}", "must be a list of tools, got object with 0 properties"),
    (b"[" * 500 + b"]" * 500, "is not valid JSON: expected at most 128 levels"),
    (b"[" + b"1," * 8_400_000 + b"1]", "is larger than 16 MiB. Pass only the tools"),
]


@every(("content", "said"), RUBBISH, ids=lambda value: str(value)[:30])
@every("command", ["tools", "schema", "check"])
def test_rubbish_is_refused_in_one_line(fxai: Run, tmp_path: Path, content: bytes, said: str, command: str) -> None:
    """A file that is no list of tools is wrong use, told in one line, whatever it holds."""
    file = tmp_path / "rubbish.json"
    file.write_bytes(content)
    ended = fxai(command, str(file))

    assert said in ended.err
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


WRONG: list[tuple[list[str], str]] = [
    (["tools", "no/such.json"], "cannot read no/such.json: No such file or directory. Pass the path"),
    (["tools", "-"], "stdin is empty. Pass a list"),
    (["tools", FAULTY], "TARGET must be module:name or path.py:name, got"),
    (
        ["tools", f"{FAULTY}:Query"],
        "is the class Query, not a toolkit, a tool, a function tool, an agent, a stateful prompt, or a tool source",
    ),
    (["tools", f"{FAULTY}:PLANTED"], "is a value of type set, not a toolkit"),
    (["tools", f"{FAULTY}:sensibl"], "Did you mean 'sensible'?"),
    (["tools", "os:path"], "is a value of type module, not a toolkit"),
    (["tools", "no.such.module:kit"], "module no does not exist"),
    (["schema", f"{FAULTY}:sensible", "serch"], "has no tool 'serch'. Did you mean 'search'?"),
    (["schema", f"{FAULTY}:sensible", "--api", "chat"], "Add --provider"),
    (
        ["schema", f"{FAULTY}:sensible", "--provider", "gemini"],
        "unknown provider 'gemini'. Use one of: openai, anthropic.",
    ),
    (
        ["schema", f"{FAULTY}:sensible", "--provider", "local"],
        "unknown provider 'local'. Use one of:",
    ),
    (["schema", f"{FAULTY}:sensible", "--provider", "anthropic", "--api", "chat"], "Remove --api"),
    (
        ["schema", f"{FAULTY}:sensible", "--api", "telegraph"],
        "--api must be one of 'responses', 'chat', got 'telegraph'",
    ),
]


@every(("arguments", "said"), WRONG, ids=lambda value: str(value)[-50:])
def test_wrong_use_is_told_in_one_line_with_the_remedy(fxai: Run, arguments: list[str], said: str) -> None:
    """What cannot be found or is something else ends with 2, one line, nothing on stdout."""
    ended = fxai(*arguments)

    assert said in ended.err
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


# ---- schema


def test_one_schema_alone_is_nothing_but_json(fxai: Run) -> None:
    """A single tool's schema can be piped on; several have their names above them."""
    one = fxai("schema", f"{FAULTY}:sensible", "search")
    several = fxai("schema", f"{FAULTY}:sensible", "search", "choose").out
    data = json.loads(fxai("schema", f"{FAULTY}:sensible", "--json").out)

    assert json.loads(one.out)["required"] == ["text"]
    assert several.startswith("search:\n{\n")
    assert "\n\nchoose:\n{\n" in several
    assert [tool["name"] for tool in data["tools"]] == ["search", "choose", "add", "report"]


def test_what_openai_is_sent_is_shown_with_the_flag(fxai: Run) -> None:
    """A strict tool is shown as it is sent, closed and with every property required."""
    data = json.loads(fxai("schema", f"{FAULTY}:search", "--provider", "openai", "--json").out)
    (search,) = data["tools"]
    shown = fxai("schema", f"{FAULTY}:search", "--provider", "openai").out

    assert (data["provider"], data["ok"]) == ("openai", True)
    assert (search["strict"], search["sent"]["strict"], search["sent_as"]) == (True, True, "search")
    assert search["sent"]["parameters"]["required"] == ["text", "limit"]
    assert shown.startswith("search: strict at openai (gpt-5.5)\n")


def test_why_a_tool_is_not_strict_is_told(fxai: Run) -> None:
    """A tool that cannot be strict is sent as it was given, and the reason stands above it."""
    (report,) = json.loads(fxai("schema", f"{FAULTY}:report", "--provider", "openai", "--json").out)["tools"]
    shown = fxai("schema", f"{FAULTY}:report", "--provider", "openai").out.splitlines()

    assert report["strict"] is False
    assert report["sent"]["parameters"]["additionalProperties"] is True
    assert "additionalProperties" in report["warnings"][0]
    assert shown[0] == "report: not strict at openai (gpt-5.5)"
    assert shown[1].startswith("  ! ")


def test_what_is_weakened_is_told(fxai: Run) -> None:
    """A bound that a provider cannot carry is named with its place."""
    piped = json.dumps(LIST)
    shown = fxai("schema", "-", "--provider", "anthropic", piped=piped).out
    (echo,) = json.loads(fxai("schema", "-", "--provider", "anthropic", "--json", piped=piped).out)["tools"]

    assert "  ~ weakened: /properties/text: minLength" in shown
    assert echo["weakened"][0].startswith("/properties/text: minLength")


def test_what_the_request_form_rewrites_is_told(fxai: Run) -> None:
    """The preview states each rewrite with its place, and shows the schema in the request."""
    listed = {"name": "find", "inputSchema": {"type": "object", "properties": {"$top": {"type": "integer"}}}}
    piped = json.dumps({"tools": [listed]})
    shown = fxai("schema", "-", "--provider", "anthropic", piped=piped).out
    (find,) = json.loads(fxai("schema", "-", "--provider", "anthropic", "--json", piped=piped).out)["tools"]

    assert "  ~ rewritten: /properties/$top: names of properties: as 'top'" in shown
    assert find["rewritten"] == ["/properties/$top: names of properties: as 'top'"]
    assert list(find["sent"]["input_schema"]["properties"]) == ["top"]


def test_a_tool_that_is_left_out_is_shown_as_not_sent(fxai: Run) -> None:
    """The preview of Chat Completions states which tools the request leaves out."""
    tools: list[dict[str, Any]] = [
        {"name": f"t{n}", "inputSchema": {"type": "object", "properties": {}}} for n in range(129)
    ]
    shown = fxai("schema", "-", "--provider", "openai", "--api", "chat", piped=json.dumps({"tools": tools})).out

    assert "t128: not sent at openai chat" in shown
    assert "t127: strict at openai chat" in shown


def test_a_null_that_is_lost_is_told_with_the_way_out(fxai: Run) -> None:
    """Where null is sent for what is left out and would mean something else, its place is named, and the annotation."""
    limit = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 10}
    listed = {"name": "find", "inputSchema": {"type": "object", "properties": {"limit": limit}}}
    shown = fxai("schema", "-", "--provider", "openai", piped=json.dumps({"tools": [listed]})).out

    (line,) = (line for line in shown.splitlines() if "weakened" in line)
    assert line.startswith("  ~ weakened: /properties/limit: default: null means that the property is absent")
    assert line.endswith("annotate the tool with ExplicitNull")
    assert "null means that the property is absent" in shown


@every(
    ("options", "strict"),
    [
        (["--provider", "openai"], True),
        (["--provider", "openai", "--no-strict"], False),
        (["--provider", "openai", "--strict"], True),
        (["--provider", "openai", "--api", "chat"], True),
        (["--provider", "anthropic"], True),
        (["--provider", "anthropic", "--model", "claude-3-haiku-20240307"], None),
    ],
    ids=str,
)
def test_options_decide_what_is_sent(fxai: Run, options: list[str], strict: bool | None) -> None:
    """Model, interface and configuration change the flag as the table of strict mode says."""
    data = json.loads(fxai("schema", f"{FAULTY}:search", "--json", *options).out)

    assert data["tools"][0]["strict"] is strict


def test_a_renamed_tool_says_what_it_is_called(fxai: Run) -> None:
    """A name that a provider refuses is shown with the one that is sent."""
    listed = json.dumps([{"name": "calc.add", "inputSchema": {"type": "object", "properties": {}}}])

    assert ", sent as calc__add\n" in fxai("schema", "-", "--provider", "openai", piped=listed).out


def test_a_request_that_cannot_be_made_shows_each_tool_alone(fxai: Run) -> None:
    """Where tools exclude each other, or one cannot be sent, the others are shown all the same; exit code 1."""
    ended = fxai("schema", f"{FAULTY}:ten", "--provider", "openai")
    data = json.loads(fxai("schema", f"{FAULTY}:ten", "--provider", "openai", "--json").out)
    sent = {tool["name"]: tool for tool in data["tools"]}

    assert (ended.code, data["ok"]) == (1, False)
    assert "cannot create a request for" in ended.err
    assert sent["open"]["sent"] is None
    assert "additionalProperties" in sent["open"]["error"]
    assert sent["shown"]["strict"] is True
    assert "open: not sent at openai (gpt-5.5)" in ended.out


def test_how_many_are_strict_is_summed_up(fxai: Run) -> None:
    """After several tools a line on stderr says how many are strict."""
    ended = fxai("schema", f"{FAULTY}:sensible", "--provider", "anthropic")

    assert ended.err == "fxai: 4 tools for anthropic (claude-sonnet-5): 3 strict, 1 not strict\n"


PROVIDED = """
from fxai import Tool, Toolkit
from fxai.providers import anthropic, openai

kit = Toolkit.of(
    [openai.mcp(server_label="docs", server_url="https://x.org", authorization="s3cret", headers={"X-Key": "s3cret"})]
    + [anthropic.bash(), Tool.make("ping", description="Answers.")]
)
"""


def test_a_providers_own_tools_are_shown_without_their_secrets(fxai: Run, tmp_path: Path) -> None:
    """They say whose they are, are sent to their own provider alone, and no key or token is shown."""
    file = tmp_path / "provided_tools.py"
    file.write_text(PROVIDED)
    tools = fxai("tools", f"{file}:kit")
    sent = fxai("schema", f"{file}:kit", "--provider", "openai")
    data = [fxai(*command, "--json").out for command in (("tools", f"{file}:kit"), ("check", f"{file}:kit"))]

    assert "docs  openai.mcp, no handler" in tools.out
    assert "docs: defined by the provider at openai (gpt-5.5)\n" in sent.out
    assert '"authorization": "(hidden)"' in sent.out
    assert "bash: not sent at openai (gpt-5.5)\n  ! " in sent.out
    assert "s3cret" not in "".join((tools.out, sent.out, *data))
    assert fxai("check", f"{file}:kit").code == 0


def test_what_others_say_does_not_steer_the_terminal(fxai: Run) -> None:
    """Control characters of a server's tools are escaped or left out, in names, descriptions and schemas."""
    odd = {"type": "object", "properties": {"a\x9bb": {"type": "string", "description": "\x1b[31mred\u202e"}}}
    listed = json.dumps([{"name": "x\x9b31m", "description": "y\x1b[31m", "inputSchema": odd}])
    commands = (["tools", "-"], ["schema", "-"], ["schema", "-", "--provider", "openai"], ["check", "-"])
    shown = [fxai(*command, piped=listed) for command in commands]

    assert all(c.isprintable() or c == "\n" for each in shown for c in each.out + each.err)
    assert json.loads(shown[1].out) == odd
