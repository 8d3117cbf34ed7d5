"""The style of the code: lengths, docstrings, examples, words, and ignored rules."""

from __future__ import annotations

import ast
import re
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from fxai.providers.anthropic.known_models import TABLE as ANTHROPIC
from fxai.providers.openai.known_models import TABLE as OPENAI
from tests.kit.source import ROOT, Module, definitions, modules, parse, sources

MODULE_LINES = 900
BODY_LINES = 50
IGNORES_PER_1000 = 2

# Functions that exceed the limit, each with the reason why splitting it would make it worse.
LONG = {
    "fxai/effects/fiber.py:step": "the interpreter: one loop, whose locals would turn into attributes if it were cut"
}

# Modules, not packages, that users import from.
MODULES_OF_USERS = {
    "fxai.agents.stateful",
    "fxai.annotations",
    "fxai.effects.fx",
    "fxai.testing.plugin",
    "fxai.testing.recording",
    "fxai.testing.strategies",
}

STUB_WORDS = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K]|not implemented ye[t])\b")
THIS_MACHINE = re.compile(r"/(wor[k]|far[m]|roo[t]|op[t])/|py[p]i\.org|npm[j]s\.|debia[n]\.org|\.librar[y]\b")
VAGUE = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "base"}
IGNORE = re.compile(r"#\s*(?:type|pyright):\s*ignore(\[[\w, -]+\])?")


def _tests() -> list[Module]:
    return [parse(path) for path in sorted((ROOT / "tests").rglob("test_*.py"))]


def _text_files() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = done.stdout.splitlines() or [str(path) for path in ROOT.rglob("*") if path.is_file()]
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ""}
    return [path for name in names if (path := ROOT / name).suffix in kinds and path.is_file()]


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_modules_are_short() -> None:
    """A module has at most 900 lines. It describes one noun with all its parts."""
    long = {module.path: len(module.lines) for module in modules() if len(module.lines) > MODULE_LINES}

    assert long == {}


def test_functions_are_short() -> None:
    """The body of a function has at most 50 lines, except the listed functions."""
    long = {
        f"{module.path}:{node.name}": _body_lines(node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _body_lines(node) > BODY_LINES
    }

    assert {name: lines for name, lines in long.items() if name not in LONG} == {}
    assert set(LONG) <= set(long)


def test_everything_public_has_a_docstring() -> None:
    """Every public module, class, method and function of the package says what it is or what you get."""
    missing = [module.path for module in modules() if not ast.get_docstring(module.tree)]
    missing += [
        f"{module.path}: {name}"
        for module in modules()
        if module.public
        for name, node in definitions(module)
        if not ast.get_docstring(node)
    ]

    assert missing == []


def test_every_noun_shows_an_example() -> None:
    """The docstring of a module whose names a floor offers holds an example that runs."""
    offered = {source for module in modules() if module.path.endswith("__init__.py") for source in sources(module)}
    without = [
        module.path
        for module in modules()
        if module.name in offered
        and not module.path.endswith("__init__.py")
        and ">>> " not in str(ast.get_docstring(module.tree))
    ]

    assert offered
    assert without == []


def test_every_face_lists_its_names() -> None:
    """Each package, and each module that users import from, has `__all__`; elsewhere an underscore means private."""
    lists = {module.name for module in modules() if any(line.startswith("__all__") for line in module.lines)}
    packages = {module.name for module in modules() if module.path.endswith("__init__.py")}

    assert packages - lists == set()
    assert lists - packages == MODULES_OF_USERS


def test_module_names_say_what_they_hold() -> None:
    """No module is called util, common, misc, helper, manager or base."""
    vague = [module.path for module in modules() if VAGUE.intersection(module.name.split("."))]

    assert vague == []


def test_ignores_are_few_and_named() -> None:
    """At most two checker ignores in 1,000 lines of the package and of its tests, each naming its rule."""
    for group in (list(modules()), _tests()):
        found = [match for module in group for line in module.lines if (match := IGNORE.search(line))]
        lines = sum(len(module.lines) for module in group)

        assert all(match.group(1) for match in found)
        assert len(found) * 1000 <= IGNORES_PER_1000 * max(lines, 1000)


def test_every_test_states_its_fact() -> None:
    """Each test function has a docstring that states the fact it holds."""
    silent = [
        f"{module.path}: {node.name}"
        for module in _tests()
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert silent == []


@pytest.mark.parametrize(
    ("pattern", "kinds"), [(STUB_WORDS, {".py"}), (THIS_MACHINE, None)], ids=["stub words", "machine paths and hosts"]
)
def test_no_file_says_it(pattern: re.Pattern[str], kinds: set[str] | None) -> None:
    """Nothing is a stub, and nothing names a path of one machine or the host of a registry."""
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path in _text_files()
        if kinds is None or path.suffix in kinds
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]

    assert found == []


MODEL = re.compile(
    r"\b(?:claude-[a-z0-9][a-z0-9.-]*\d|gpt-\d[a-z0-9.-]*|o[1-9](?:-mini|-pro)?(?=[\"'`]))(?![a-z0-9-])", re.IGNORECASE
)
SERVED = {entry.family for table in (OPENAI, ANTHROPIC) for entry in table.data.families if entry.served}
# Examples of names and snapshots, not advice about models.
ABOUT_NAMES = ("fxai/providers/openai/known_models.py", "fxai/providers/anthropic/known_models.py", "docs/changelog.md")


def test_docs_examples_and_defaults_name_models_that_stay() -> None:
    """No page, example or module names a model that is retired or retires within 60 days of the table's check."""
    tables = {"claude": ANTHROPIC, "gpt": OPENAI, "o": OPENAI}
    leaving: list[str] = []
    for path in _text_files():
        name = str(path.relative_to(ROOT))
        if not name.startswith(("README", "docs/", "examples/", "fxai/")) or name in ABOUT_NAMES:
            continue
        for model in {found.rstrip(".") for found in MODEL.findall(path.read_text(encoding="utf-8"))}:
            table = next(table for start, table in tables.items() if model.lower().startswith(start))
            facts, soon = table.facts(model), table.data.checked + timedelta(days=60)
            is_served = facts.family is None or facts.family in SERVED
            if not is_served or (facts.retires is not None and facts.retires <= soon):
                leaving.append(f"{name}: {model}")

    assert leaving == []
