"""Programs as models and as tools, with options that there are not and results of another type."""

from __future__ import annotations

import msgspec

from fxai.effects import Effect
from fxai.providers import host


class Sum(msgspec.Struct, frozen=True):
    a: int
    b: int


host.model("cat", format="xml")  # wrong: text or json
host.model("cat", lifetime="day")  # wrong: scope or request
host.model("cat", takes=["files"])  # wrong: nobody takes these
host.model("cat", colour="red")  # wrong: no such option
host.model("cat", parameters=Sum)  # wrong: that is of a tool
host.model(["cat", "-n"])  # wrong: the program and its arguments, each on its own
host.tool("add", "./add")  # wrong: the parameters are missing
host.tool("add", "./add", parameters=Sum, failure_mode="raise")  # wrong: error or return
adding = host.tool("add", "./add", parameters=Sum, success=int)
never: Effect[object] = adding.use(lambda kit: kit.call("add", {}))  # wrong: opening it may fail
