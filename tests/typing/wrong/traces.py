"""Traces, spans, and aspects that do not fit."""

from __future__ import annotations

from fxai import Aspect, Layer, Return, Schedule, fx, telemetry
from fxai.tools.aspects import cache, log, rate_limit, retry, timeout
from tests.typing.desk import (
    AGENT,
    DATABASE,
    DESK,
    HANDLERS,
    MODEL,
    REFUND,
    SEARCH,
    Database,
    Lost,
    Mailer,
    Offline,
    on_search,
    rows,
)


def is_offline(error: Offline) -> bool:
    return True


telemetry.trace()  # wrong: no layer
telemetry.trace(AGENT)  # wrong: an agent is not a layer
telemetry.trace(MODEL, content="all")  # wrong: no such place
telemetry.trace(MODEL, tracer="x")  # wrong: no such option
telemetry.trace(MODEL, redact=3)  # wrong: a function
telemetry.layer(content=True)  # wrong: no such place
fx.run(rows(1).provide(telemetry.trace(MODEL)))  # wrong: a model is not a database
traced: Layer[Database] = telemetry.trace(MODEL)  # wrong: a model is not a database
fx.succeed(1).span()  # wrong: no name
fx.succeed(1).span("count", order=object())  # wrong: no such attribute value
fx.annotate_span("order", 3)  # wrong: a mapping
log(level="info")  # wrong: a level is a number
log().wrap(SEARCH)  # wrong: a tool is not a layer
log().wrap(on_search)  # wrong: a function is not a layer
log().and_then(cache)  # wrong: a function that was not called
log() | cache()  # wrong: it is `and_then`
cache(ttl="1m")  # wrong: seconds are a number
cache(key=lambda call: call.parameter)  # wrong: no such field
rate_limit(3)  # wrong: no time
rate_limit(3, per=1, tool=REFUND, failure=lambda call, seconds: "busy")  # wrong: another failure
rate_limit(3, per=1, failure=lambda call, seconds: Lost(1))  # wrong: no tool that fails so
timeout(1, tool=REFUND)  # wrong: no failure
timeout(1, tool=REFUND, failure=lambda call: Offline())  # wrong: another failure
retry(3)  # wrong: a number is not a schedule
retry(Schedule.recurs(3).while_input(is_offline), tool=REFUND)  # wrong: another failure
Aspect.make(before=True)  # wrong: a function
Aspect.make(tool=SEARCH, before=lambda call: Return("x"))  # wrong: another success
Aspect.make(tool=DESK, before=lambda call: None)  # wrong: a toolkit is not a tool
Aspect.around(lambda call, proceed: 3)  # wrong: a bare value
Aspect.around(lambda call, proceed: proceed.map(str), tool=REFUND)  # wrong: another success
asking = Aspect.make(before=lambda call: fx.service(Mailer).as_(None))
fx.run(DESK.call("search", {}).provide(asking.wrap(HANDLERS)).provide(DATABASE))  # wrong: the mailer is missing
free: Aspect[None] = asking  # wrong: it needs the mailer
