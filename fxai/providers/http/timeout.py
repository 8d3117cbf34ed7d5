"""Timeouts: how long each wait for a provider may take, in seconds.

>>> Timeout(read=30)
Timeout(connect=10.0, read=30, write=60.0, pool=600.0, total=None)
>>> Timeout.of(5)
Timeout(connect=5, read=5, write=5, pool=5, total=None)
"""

from __future__ import annotations

from typing import final

import msgspec

__all__ = ["TIMEOUT", "Timeout"]


@final
class Timeout(msgspec.Struct, frozen=True, kw_only=True):
    """The longest waits of one attempt to get an answer, in seconds; None is without end.

    Attributes:
        connect: For a connection: the name, TCP, TLS.
        read: For the next bytes of an answer: a stream that is silent for so long has stalled.
        write: Until the next bytes of the request are taken.
        pool: For a connection of the pool to become free.
        total: From the first byte of the request to the last one of the answer; of a stream too.

    Raises:
        ValueError: One of them is not above 0.
    """

    connect: float | None = 10.0
    read: float | None = 600.0
    write: float | None = 60.0
    pool: float | None = 600.0
    total: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            seconds: float | None = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"the timeout {name!r} is {seconds} s: give a number above 0, or None for no end")

    @staticmethod
    def of(given: Timeout | float | None) -> Timeout:
        """The timeouts that are meant: a number is for each wait but `total`, None is for no end at all."""
        if isinstance(given, Timeout):
            return given
        return Timeout(connect=given, read=given, write=given, pool=given)


TIMEOUT = Timeout()
"""What a client allows unless told otherwise: ten minutes of silence, since a model that thinks says nothing."""
