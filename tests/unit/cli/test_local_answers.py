"""The example agents answer each kind of question of the README in ten wordings, on the real model."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from examples import files_agent
from fxai.agents import Agent
from fxai.cli import example
from fxai.effects import fx
from fxai.providers import local
from tests.kit.every import every

pytestmark = [
    pytest.mark.slow,
    pytest.mark.local_model,
    pytest.mark.xdist_group("local_model"),
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason='the extra is not installed: pip install "fxai[local]"'),
]

FILES = {
    "README.md": "# Hello\n\nOne two three.\n",
    "notes.txt": "buy milk\nand bread\n",
    "pyproject.toml": "[project]\nname = 'demo'\n",
    "LICENSE": "MIT License\n",
    "src/main.py": "print(1)\n",
}
README = "README.md has 3 lines and 5 words."
NOTES = "notes.txt has 2 lines and 4 words."
MAIN = "src/main.py has 1 line and 1 word."
LICENSE = "LICENSE has 1 line and 2 words."
PROJECT = "pyproject.toml has 2 lines and 4 words."
HERE = "This folder contains LICENSE, README.md, notes.txt, pyproject.toml, src/."
QUESTIONS: dict[str, list[tuple[str, str]]] = {
    "lines": [
        ("How many lines are in README.md?", README),
        ("Count the lines of README.md", README),
        ("How many lines does notes.txt have?", NOTES),
        ("count lines in pyproject.toml", PROJECT),
        ("What is the number of lines in README.md?", README),
        ("How long is README.md, in lines?", README),
        ("Give me the line count of notes.txt", NOTES),
        ("lines of README.md?", README),
        ("Could you count the lines in README.md?", README),
        ("How many lines are there in src/main.py?", MAIN),
    ],
    "words": [
        ("Count the words of README.md", README),
        ("How many words are in README.md?", README),
        ("How many words does notes.txt have?", NOTES),
        ("count words in LICENSE", LICENSE),
        ("What is the number of words in README.md?", README),
        ("Tell me how many words notes.txt has", NOTES),
        ("What is the word count of pyproject.toml?", PROJECT),
        ("Please count the words in notes.txt.", NOTES),
        ("Number of words in LICENSE?", LICENSE),
        ("How many words are there in src/main.py?", MAIN),
    ],
    "list": [
        ("Which files are here?", HERE),
        ("What files are in this folder?", HERE),
        ("List the files", HERE),
        ("List all the files", HERE),
        ("Which files are in this folder?", HERE),
        ("What files do I have here?", HERE),
        ("List all files here", HERE),
        ("Which files are in src?", "src contains main.py."),
        ("List the folder src", "src contains main.py."),
        ("What does the folder src contain?", "src contains main.py."),
    ],
    "read": [
        ("Read LICENSE", "LICENSE says: MIT License"),
        ("What does notes.txt say?", "notes.txt says: buy milk\nand bread"),
        ("Show me notes.txt", "notes.txt says: buy milk\nand bread"),
        ("Read README.md", "README.md says: # Hello\n\nOne two three."),
        ("Print the file pyproject.toml", "pyproject.toml says: [project]\nname = 'demo'"),
        ("Open notes.txt please", "notes.txt says: buy milk\nand bread"),
        ("What is in README.md?", "README.md says: # Hello\n\nOne two three."),
        ("What is written in LICENSE?", "LICENSE says: MIT License"),
        ("Can you read notes.txt?", "notes.txt says: buy milk\nand bread"),
        ("Read the file src/main.py", "src/main.py says: print(1)"),
    ],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with five text files."""
    location = tmp_path_factory.mktemp("place")
    (location / "src").mkdir()
    for name, text in FILES.items():
        (location / name).write_text(text)
    return location


KITS = (example.tools.toolkit, files_agent.kit)


def test_no_question_is_an_example_of_the_tools() -> None:
    """The model receives the examples, so a question among them would prove nothing, except for the demo's own."""
    examples = {example.request for kit in KITS for tool in kit for example in tool.input_examples}

    assert examples & {question for rows in QUESTIONS.values() for question, _ in rows} == {"Which files are here?"}


def _cases() -> Iterator[str]:
    """The kinds of questions that the agent of `fxai run` answers, and those that the agent of the examples answers."""
    yield from (f"run {kind}" for kind in QUESTIONS if kind != "read")
    yield from (f"files {kind}" for kind in QUESTIONS)


@every("case", _cases)
def test_each_wording_gets_the_right_answer(case: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten wordings of one kind of question have ten right answers."""
    which, kind = case.split()
    module: Any = example if which == "run" else files_agent
    agent: Agent[Any, Any, Any, Any] = module.agent
    monkeypatch.chdir(root)

    @fx.gen
    def ask() -> Any:
        answers: list[str] = []
        for question, _ in QUESTIONS[kind]:
            answers.append((yield from agent.execute(question)).text)
        return answers

    assert fx.run(ask().provide(module.layer | local.layer(quotes_results=True))) == [
        answer for _, answer in QUESTIONS[kind]
    ]
