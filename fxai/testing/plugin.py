"""The pytest plugin has fixtures for models, clocks, and cassettes, and creates one test per law of a toolkit.

pytest loads the plugin if fxai is installed in its environment. Otherwise, load it with `-p fxai.testing.plugin`. The
plugin imports heavy modules only when a test needs them. Under pytest, fxai warns about effects that a test created but
never ran, see `fxai.effects.development`.

The mark `tool_laws` creates one case per law of each tool and, with a layer, of each handler:

    @pytest.mark.tool_laws(kit, handlers)
    def test_my_tools(law):
        law.check()

The fixture `cassette` creates the layer of a cassette that belongs to the test. `pytest --cassettes=record` sends the
requests to the providers and writes the files again. `--cassettes=auto` adds missing exchanges. By default, fxai
replays the files:

    def test_my_agent(cassette):
        assert fx.run(asked.provide(openai.layer("gpt-5.5")).provide(cassette())).text == "Good day."

>>> pytest_configure.__doc__
'Register the mark.'
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

_UNSAFE: Final = re.compile(r"[^\w.-]+")  # a test id can contain any characters
_MARK = (
    "tool_laws(toolkit, layer=None, **settings): one test per law of the toolkit and its handlers, as the argument"
    " `law`. For the settings, see fxai.testing.laws_of"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option `--cassettes`."""
    parser.getgroup("fxai").addoption(
        "--cassettes",
        choices=("replay", "record", "auto"),
        default="replay",
        help="Mode of the fixture `cassette`: replay its files, record them again, or add missing exchanges (auto).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add the cases to a test with the mark `tool_laws`.

    Raises:
        pytest.UsageError: If the test has no argument `law`.
    """
    marks = list(metafunc.definition.iter_markers("tool_laws"))
    if not marks:
        return
    from fxai.testing.check import laws_of

    if "law" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.function.__name__} has the mark tool_laws but no argument `law`. Write"
            f" `def {metafunc.function.__name__}(law): law.check()`"
        )
    cases = [case for mark in marks for case in laws_of(*mark.args, **mark.kwargs)]
    metafunc.parametrize("law", cases, ids=str)


def pytest_runtest_setup() -> None:
    """Tell the development mode that a test starts."""
    if development := sys.modules.get("fxai.effects.development"):
        development.start_test()


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Return a function that creates a scripted model: `scripted_model("Hello.", [call("add", {"a": 1})])`."""
    from fxai.testing.scripted import ScriptedModel

    return lambda *turns: ScriptedModel.make(turns)


@pytest.fixture(name="test_clock")
def standing_clock() -> TestClock:
    """Return a clock that stands still until the test advances it. Its layer is `test_clock.layer`."""
    from fxai.testing.clock import TestClock

    return TestClock()


@pytest.fixture(name="cassette")
def tests_cassette(request: pytest.FixtureRequest) -> Callable[..., LayerOf[Transport]]:
    """Return a function that creates the layer of a cassette next to the test: `cassettes/<its file>/<its name>.json`.

    `cassette("other")` sets another name. For the other arguments, see `fxai.testing.cassette`. The option
    `--cassettes` sets the mode.
    """
    from fxai.testing.recording import cassette

    folder = request.path.parent / "cassettes" / request.path.stem
    mode: Any = request.config.getoption("--cassettes")
    test = cast("Any", request).node  # older versions of pytest do not declare its type

    def make(name: str = test.name, **settings: Any) -> LayerOf[Transport]:
        return cassette(folder / f"{_UNSAFE.sub('-', name).strip('-')}.json", mode, **settings)

    return make
