"""Checks of tools and layers that get something else."""

from __future__ import annotations

from fxai import lint
from fxai.testing import TestClock, cassette, check_handler, check_layer, check_tool, check_toolkit, laws_of
from tests.typing.desk import AGENT, DESK, HANDLERS, SEARCH, on_search

check_tool(DESK)  # wrong: a toolkit is not a tool
check_tool(SEARCH, examples=3)  # wrong: no such option
check_tool(SEARCH, max_examples="3")  # wrong: a number
check_handler(SEARCH)  # wrong: no layer
check_handler(SEARCH, on_search)  # wrong: a function is not a layer
check_handler(SEARCH, HANDLERS, seed="x")  # wrong: a number
check_layer(HANDLERS, DESK)  # wrong: the toolkit comes first
check_toolkit([SEARCH])  # wrong: a list is not a toolkit
laws_of("search")  # wrong: a name is not a tool
laws_of(DESK)[0].run()  # wrong: it is `check`
cassette(3)  # wrong: a path
cassette("a.json", "rec")  # wrong: no such mode
TestClock().advance("1")  # wrong: seconds are a number
TestClock().run(AGENT.execute("Hello"))  # wrong: no model, and no handlers
lint.lint(DESK)  # wrong: take a subject
lint.lint(lint.Subject.of(DESK), level="low")  # wrong: no such level
lint.lint(lint.Subject.of(DESK))[0].text  # wrong: no such field
lint.Subject.of([on_search])  # wrong: a function is not a tool
