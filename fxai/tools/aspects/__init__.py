"""Aspects wrap handlers. Use the ready aspects for caching, logging, limits, retries, and timeouts, or write your own.

>>> from fxai.effects import Schedule
>>> steady = log().and_then(retry(Schedule.exponential(0.1) & Schedule.recurs(3))).and_then(timeout(10))
>>> len(steady.rings)
3
"""

from __future__ import annotations

from fxai.tools.aspects.aspect import Aspect, HookReturn, Invocation, Return
from fxai.tools.aspects.policies import cache, log, rate_limit, retry, timeout

__all__ = ["Aspect", "HookReturn", "Invocation", "Return", "cache", "log", "rate_limit", "retry", "timeout"]
