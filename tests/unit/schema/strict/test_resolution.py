"""The table of strict mode, row by row."""

from __future__ import annotations

from fxai.schema.strict import resolve_strict
from tests.kit.every import every


@every(
    ("scenario", "annotation", "config", "default", "resolved"),
    [
        ("OpenAI default", None, None, True, True),
        ("Anthropic, the model supports structured outputs", None, None, True, True),
        ("Anthropic, the model does not", None, None, None, None),
        ("Anthropic, the model does not, though asked", True, True, None, None),
        ("Anthropic, the model does not, though refused", False, False, None, None),
        ("global non-strict", None, False, True, False),
        ("per-tool override", False, True, True, False),
        ("per-tool strict on non-strict global", True, False, True, True),
        ("a provider that is not strict by itself", None, None, False, False),
        ("configuration over the provider", None, True, False, True),
    ],
)
def test_the_tool_decides_then_the_configuration_then_the_provider(
    scenario: str, annotation: bool | None, config: bool | None, default: bool | None, resolved: bool | None
) -> None:
    """Each scenario resolves as the table says; a model without strict mode is sent no flag whatever is asked."""
    assert resolve_strict(annotation, config, default) is resolved, scenario
