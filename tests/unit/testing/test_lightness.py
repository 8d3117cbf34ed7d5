"""What needs Hypothesis and what does not: the model and the clock work where it is not installed."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("hypothesis", "pytest", "_pytest"):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)


sys.meta_path.insert(0, Missing())
"""

WITHOUT = """
from fxai import LanguageModel, fx
from fxai.testing import ScriptedModel, TestClock, check_tool, laws_of
from fxai import Tool

model = ScriptedModel.make(["Hello."])
print(fx.run(LanguageModel.generate_text("Hi").provide(model.layer)).text, TestClock(now=3).now())
print(len(laws_of(Tool.make("ping"))))
try:
    check_tool(Tool.make("ping"))
except ImportError as error:
    print(error)
"""


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_scripted_model_and_the_clock_need_neither_hypothesis_nor_pytest() -> None:
    """Only a check that draws data does, and says what to install."""
    said = _run(BLOCKED + WITHOUT).splitlines()

    assert said[:2] == ["Hello. 3.0", "7"]
    assert "pip install 'fxai[testing]'" in said[2]


def test_importing_the_kit_loads_nothing_heavy() -> None:
    """Neither the kit nor its plugin, which pytest loads for everybody who has fxai."""
    heavy = "{'hypothesis', 'jsonschema', 'regex', 'referencing', 'rich', 'click'}"
    said = _run(f"import sys, fxai.testing, fxai.testing.plugin; print(sorted({heavy} & set(sys.modules)))")

    assert said == "[]\n"
