"""What the checkers know of calls that wait for an approval."""

from __future__ import annotations

from typing import assert_type

from fxai import Prompt, Tool, fx
from fxai.messages import Pending
from tests.typing.desk import AGENT, DATABASE, HANDLERS, MODEL, Refund

pay = Tool.make("pay", parameters=Refund, success=int, needs_approval=lambda refund, call: refund.order > 3)
answer = fx.run(AGENT.execute("Hello").provide(MODEL | HANDLERS).provide(DATABASE))
assert_type(answer.pending, tuple[Pending, ...])
assert_type(answer.history.reply(Pending.approve), Prompt)
assert_type(answer.history.reply(lambda call: call.deny("no")), Prompt)
assert_type(answer.history.reply(lambda call: call.approve() if call.name == "pay" else None), Prompt)
AGENT.execute(answer.history.reply(Pending.approve)).provide(MODEL)
