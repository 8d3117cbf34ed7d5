"""Approvals that are answered with something else."""

from __future__ import annotations

from fxai import Prompt, Tool, fx
from fxai.messages import Pending
from tests.typing.desk import AGENT, DATABASE, HANDLERS, MODEL, Query, Refund, on_search

answer = fx.run(AGENT.execute("Hello").provide(MODEL | HANDLERS).provide(DATABASE))


def decides(call: Pending) -> bool:
    return True


answer.history.reply(True)  # wrong: a function of a call
answer.history.reply(decides)  # wrong: an answer is a message part
answer.history.reply(lambda call: call.approve)  # wrong: a method that was not called
answer.history.reply(Pending)  # wrong: a class that answers nothing
answer.pending.approve()  # wrong: there can be several
answer.pending[0].approve(reason=3)  # wrong: a reason is a string
answer.pending[0].deny(3)  # wrong: a reason is a string
answer.pending[0].accept()  # wrong: no such answer
AGENT.execute(answer)  # wrong: an answer is not a prompt, its history is one
AGENT.execute(answer.pending)  # wrong: calls are not prompt
Tool.make("pay", parameters=Refund, needs_approval="yes")  # wrong: a bool or a function
Tool.make("pay", parameters=Refund, needs_approval=lambda refund, _: refund.cents > 3)  # wrong: no such field
Tool.make("pay", parameters=Refund, needs_approval=lambda refund: True)  # wrong: the context is missing
Tool.make("pay", parameters=Query).with_options(needs_approval=on_search)  # wrong: it gives no bool
history: Prompt = answer.pending  # wrong: calls are not prompt
