"""A target of a worker whose replies are none: what another version of fxai, or another program, could send."""

from __future__ import annotations

import itertools
from typing import Any

from fxai.distributed import dask_worker
from tests.kit.hostile_desk import desk

__all__ = ["desk"]

_REPLIES = itertools.cycle(
    [b"", b"\xff\xfe", b'{"type":"else"}', b'{"type":"gave"}', None, 3, b'{"type":"gave","value":[]}']
)


async def _run_rubbish(data: bytes) -> Any:
    return next(_REPLIES)


dask_worker.run_call = _run_rubbish
