"""Opening: a tool source is opened for as long as its tools are looked at or called; other offers are there already.

>>> from fxai.cli.offer import named
>>> [tool.name for tool in looked_at(named("fxai.cli.example:count_lines")).tools]
['count_lines']
"""

from __future__ import annotations

from typing import Any

import msgspec

from fxai.cli.offer import Offer
from fxai.cli.program import value_of
from fxai.effects import fx
from fxai.effects.effect import EffectOf

__all__ = ["looked_at", "opened"]


def opened(offer: Offer) -> EffectOf[Offer, Any, Any]:
    """The offer with its tools and its layer, until the scope ends."""
    if offer.source is None:
        return fx.succeed(offer)
    return offer.source.map(lambda bound: _held(offer, bound))


def looked_at(offer: Offer) -> Offer:
    """The offer with its tools; what had to be opened for it is closed again.

    Raises:
        Trouble: it cannot be opened.
    """
    return offer if offer.source is None else value_of(fx.scoped(opened(offer)))


def _held(offer: Offer, bound: Any) -> Offer:
    layer = bound.layer if offer.layer is None else bound.layer | offer.layer
    return msgspec.structs.replace(offer, tools=bound.toolkit.as_tuple, layer=layer, source=None)
