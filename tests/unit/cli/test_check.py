"""`fxai check`, asked as a user would: what it reports, how it ends, and what it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fxai.cli.target import find_tools
from fxai.lint import RULES, Subject, lint
from tests.kit import faulty_tools as faulty
from tests.kit.command_line import Run
from tests.kit.every import every

FAULTY = str(Path(__file__).parents[2] / "kit" / "faulty_tools.py")


def test_ten_faults_are_ten_lines_each_with_place_and_remedy(fxai: Run) -> None:
    """A toolkit with ten different faults has ten lines, each with tool, pointer, rule and remedy; exit code 1."""
    ended = fxai("check", f"{FAULTY}:ten")
    lines = [line.split(": ", 2) for line in ended.out.splitlines()]
    found = {(rule.split()[1], *location.split(" ")) for location, rule, _ in lines}

    assert ended.code == 1
    assert found == faulty.PLANTED
    assert len(lines) == 10
    assert all(". " in said for _, _, said in lines)
    assert ended.err == f"fxai: 10 problems (6 errors, 4 warnings) in {FAULTY}:ten\n"


def test_many_faults_of_one_rule_are_one_line(fxai: Run) -> None:
    """The worst faults come first, each in a line; many faults of one rule are one line with examples."""
    inner = {f"p{number}": {"type": "string"} for number in range(40)}
    tools: list[dict[str, Any]] = [
        {"name": f"t{n}", "description": f"T{n}.", "inputSchema": {"type": "object"}} for n in range(129)
    ]
    tools[0]["inputSchema"] = {"type": "object", "properties": inner, "required": ["q"]}
    piped = json.dumps({"tools": tools})
    ended = fxai("check", "-", piped=piped)
    lines = ended.out.splitlines()

    assert "error too-many-tools" in lines[0]
    assert lines[1].startswith("t0 /parameters/required/0: error required-unknown")
    (many,) = (line for line in lines if "parameter-undescribed" in line)
    assert many.startswith("40 locations: warning parameter-undescribed: The parameter has no description. For ")
    assert "t0 /parameters/properties/p2" in many
    assert "t0 /parameters/properties/p3" not in many
    assert ended.err.rstrip().endswith("Pass --json to see every location.")
    faults = json.loads(fxai("check", "-", "--json", piped=piped).out)["faults"]
    assert len([fault for fault in faults if fault["code"] == "parameter-undescribed"]) == 40


def test_json_says_the_same(fxai: Run) -> None:
    """With --json one object holds every fault, with its severity, message and remedy apart."""
    ended = fxai("check", "--json", f"{FAULTY}:ten")
    verdict = json.loads(ended.out)
    found = {(fault["code"], fault["tool"], fault["pointer"]) for fault in verdict["faults"]}

    assert (ended.code, ended.err) == (1, "")
    assert (verdict["ok"], verdict["tools"], verdict["target"]) == (False, 11, f"{FAULTY}:ten")
    assert found == faulty.PLANTED
    assert all(fault["message"] and fault["remedy"] for fault in verdict["faults"])


@every(
    "target", ["sensible", "search", "add", "own_key", "choose", "calm", "source", "bound", "functions", "agent_tools"]
)
def test_a_sensible_target_is_clean_and_silent(fxai: Run, target: str) -> None:
    """A toolkit, a tool, a function tool, a bound toolkit, a source and a list: nothing is printed, exit code 0."""
    assert fxai("check", f"{FAULTY}:{target}") == (0, "", "")


def test_a_clean_target_is_json_too(fxai: Run) -> None:
    """With --json a clean target is an object without faults."""
    ended = fxai("check", "--json", f"{FAULTY}:sensible")

    assert (ended.code, json.loads(ended.out)) == (
        0,
        {"target": f"{FAULTY}:sensible", "ok": True, "tools": 4, "faults": []},
    )


def test_a_source_is_opened_and_closed_again(fxai: Run) -> None:
    """What a tool source has to open is open while its tools are looked at, and closed after."""
    module = "tests.kit.faulty_tools"
    faulty.opened.clear()
    ended = fxai("check", f"{module}:source")

    assert (ended.code, faulty.opened) == (0, ["opened", "closed"])


def test_the_level_says_what_counts(fxai: Run) -> None:
    """With --level error warnings count for nothing; with --level info what is good to know counts as well."""
    counted = [len(fxai("check", f"{FAULTY}:ten", "--level", level).out.splitlines()) for level in ("error", "info")]

    assert counted[0] == 6
    assert counted[1] > 10
    assert fxai("check", f"{FAULTY}:report", "--level", "error").code == 0


def test_a_rule_can_be_ignored(fxai: Run) -> None:
    """A rule that is ignored finds nothing; one that does not exist is wrong use."""
    ended = fxai("check", f"{FAULTY}:report", "--ignore", "strict-impossible")
    wrong = fxai("check", f"{FAULTY}:report", "--ignore", "strict-imposible")

    assert ended == (0, "", "")
    assert wrong == (2, "", "fxai: unknown rule 'strict-imposible'. Did you mean 'strict-impossible'?\n")


def test_one_provider_can_be_asked_for(fxai: Run) -> None:
    """With --provider the rules of that provider alone count; one that does not exist is wrong use."""
    said = fxai("check", f"{FAULTY}:report", "--provider", "openai").out
    wrong = fxai("check", f"{FAULTY}:report", "--provider", "gemini")

    assert "for openai: " in said
    assert "anthropic" not in said
    assert wrong == (2, "", "fxai: unknown provider 'gemini'. Use one of: openai, anthropic.\n")


LAYERS: list[tuple[str, list[str]]] = [
    ("whole", []),
    ("half", ["pong: error handler-missing"]),
    ("checked_half", ["pong: error handler-missing"]),
    ("twice", ["ping: error handler-doubled"]),
    ("checked_twice", ["ping: error handler-doubled"]),
    ("more", ["search: warning handler-extra"]),
    ("checked_more", ["search: warning handler-extra"]),
    ("failing", ["the toolkit: error layer-failed"]),
    ("needy", ["the toolkit: error layer-failed"]),
]


@every(("layer", "found"), LAYERS, ids=[layer for layer, _ in LAYERS])
def test_a_layer_must_answer_each_tool_once(fxai: Run, layer: str, found: list[str]) -> None:
    """A missing, a doubled and an extra handler are found, checked by a toolkit or not, and a layer that fails is."""
    ended = fxai("check", f"{FAULTY}:kit", "--layer", f"{FAULTY}:{layer}")

    assert [line.partition(": the layer")[0] for line in ended.out.splitlines()] == found
    assert ended.code == (1 if found else 0)


def test_a_layer_that_needs_a_service_names_it(fxai: Run) -> None:
    """The service that nothing gives is named, with the option that gives it."""
    said = fxai("check", f"{FAULTY}:kit", "--layer", f"{FAULTY}:needy").out

    assert "service Db is missing" in said
    assert "--layer module:name" in said


REFUSED = """
from fxai import Tool, Toolkit
print("noise")
bad = Tool.dynamic("bad", parameters={"type": "objct"})
"""
CLASH = """
from fxai import Tool, Toolkit
kit = Toolkit.make(Tool.make("a"), Tool.make("a", success=str))
"""


@pytest.mark.parametrize(("program", "said"), [(REFUSED, "/type: expected one of"), (CLASH, "two different tools")])
def test_a_definition_that_is_refused_is_a_fault(fxai: Run, tmp_path: Path, program: str, said: str) -> None:
    """A target that cannot be imported for a schema or a name is a fault with its line, and no traceback."""
    file = tmp_path / f"refused_{len(program)}.py"
    file.write_text(program)
    ended = fxai("check", "--json", f"{file}:kit")
    (fault,) = json.loads(ended.out)["faults"]

    assert (ended.code, fault["code"]) == (1, "definition-refused")
    assert said in fault["message"]
    assert fault["remedy"].startswith(f"Look at {file}:")
    assert "Traceback" not in ended.err


def test_any_other_import_that_fails_is_trouble(fxai: Run, tmp_path: Path) -> None:
    """What is no fault of a tool ends the command, in JSON as well, with one line."""
    file = tmp_path / "raises_at_import.py"
    file.write_text("import json\njson.loads('{')\n")
    ended = fxai("check", "--json", f"{file}:kit")

    assert (ended.code, json.loads(ended.out)["ok"], ended.err.count("\n")) == (1, False, 1)
    assert f"Look at {file}:2." in ended.err


def test_the_rules_are_listed(fxai: Run) -> None:
    """--rules shows each rule with its severity and what it finds; with --json as data."""
    lines = fxai("check", "--rules").out.splitlines()
    data = json.loads(fxai("check", "--rules", "--json").out)["rules"]

    assert [line.split()[0] for line in lines] == list(RULES) == [rule["code"] for rule in data]
    assert all(line.split()[1] in ("info", "warning", "error") for line in lines)


def test_without_a_target_it_is_wrong_use(fxai: Run) -> None:
    """Nothing to look at is an error with the help in its remedy."""
    assert fxai("check") == (2, "", "fxai: missing TARGET. Run fxai check --help to see its options.\n")


def test_wrong_use_is_json_too(fxai: Run) -> None:
    """With --json wrong use of an option is an object on stdout as well."""
    ended = fxai("check", "--json", "--level", "awful", "x:y")

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "awful" in json.loads(ended.out)["error"]["message"]


def test_what_is_read_and_found_is_a_value(fxai: Run) -> None:
    """Offers, entries and findings compare and hash, so that they can be kept and looked up."""
    offers = [find_tools(f"{FAULTY}:ten") for _ in range(2)]
    subjects = [Subject.of(offer.tools, offer.broken) for offer in offers]

    assert (offers[0], subjects[0]) == (offers[1], subjects[1])
    assert len({*offers}) == len({*subjects}) == len({lint(subject) for subject in subjects}) == 1
