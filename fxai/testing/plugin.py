"""The pytest plugin: a scripted model, a test clock and cassettes as fixtures, and a test for each law of a toolkit.

It is there wherever fxai is installed beside pytest; elsewhere `-p fxai.testing.plugin` loads it. It loads nothing
heavy before a test asks for it. Under pytest, effects that were made and
never run are warned of: `fxai.effects.development`.

The mark `tool_laws` gives a test one case for each law of each tool, and with a layer of each handler:

    @pytest.mark.tool_laws(kit, handlers)
    def test_my_tools(law):
        law.check()

The fixture `cassette` makes the layer of a cassette that belongs to the test. `pytest --cassettes=record` asks the
providers and writes the files anew, `--cassettes=auto` adds what they lack; else they are replayed:

    def test_my_agent(cassette):
        assert fx.run(asked.provide(openai.layer("gpt-5.5")).provide(cassette())).text == "Good day."

>>> pytest_configure.__doc__
'Tell pytest of the mark.'
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from fxai.effects.layer import LayerOf
    from fxai.providers.http.transport import Transport
    from fxai.testing.clock import TestClock
    from fxai.testing.scripted import ScriptedModel

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_runtest_setup",
    "scripted_model",
    "standing_clock",
    "tests_cassette",
]

_UNSAFE: Final = re.compile(r"[^\w.-]+")  # in the name of a file; parameters of a test may be anything
_MARK = (
    "tool_laws(toolkit, layer=None, **settings): one test for each law of the toolkit and its handlers, as the argument"
    " `law`; settings as of fxai.testing.laws_of"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Tell pytest of the option `--cassettes`."""
    parser.getgroup("fxai").addoption(
        "--cassettes",
        choices=("replay", "record", "auto"),
        default="replay",
        help="what the fixture `cassette` does: answer from its files, write them anew, or add what they lack",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest of the mark."""
    config.addinivalue_line("markers", _MARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that is marked `tool_laws` its cases.

    Raises:
        pytest.UsageError: the test has no argument `law`.
    """
    marks = list(metafunc.definition.iter_markers("tool_laws"))
    if not marks:
        return
    from fxai.testing.check import laws_of

    if "law" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.function.__name__} is marked tool_laws and never asks for a law: write"
            f" `def {metafunc.function.__name__}(law): law.check()`"
        )
    cases = [case for mark in marks for case in laws_of(*mark.args, **mark.kwargs)]
    metafunc.parametrize("law", cases, ids=str)


def pytest_runtest_setup() -> None:
    """Tell the development mode that a test begins."""
    if development := sys.modules.get("fxai.effects.development"):
        development.begin_test()


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """What makes a scripted model of its turns: `scripted_model("Hello.", [call("add", {"a": 1})])`."""
    from fxai.testing.scripted import ScriptedModel

    return lambda *turns: ScriptedModel.make(turns)


@pytest.fixture(name="test_clock")
def standing_clock() -> TestClock:
    """A clock that stands still until it is advanced; its layer is `test_clock.layer`."""
    from fxai.testing.clock import TestClock

    return TestClock()


@pytest.fixture(name="cassette")
def tests_cassette(request: pytest.FixtureRequest) -> Callable[..., LayerOf[Transport]]:
    """What makes the layer of a cassette beside the test: `cassettes/<its file>/<its name>.json`.

    `cassette("other")` has another name; further arguments are those of `fxai.testing.cassette`. The option
    `--cassettes` says what it does.
    """
    from fxai.testing.recording import cassette

    folder = request.path.parent / "cassettes" / request.path.stem
    mode: Any = request.config.getoption("--cassettes")
    test = cast("Any", request).node  # a type that older versions of pytest do not tell

    def make(name: str = test.name, **settings: Any) -> LayerOf[Transport]:
        return cassette(folder / f"{_UNSAFE.sub('-', name).strip('-')}.json", mode, **settings)

    return make
