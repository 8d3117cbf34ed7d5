"""How laws are tried: no time limit, since how fast a machine is says nothing of a law."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")
