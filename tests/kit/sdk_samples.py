"""Every tool that the providers define, with every arg that it may be set up with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from fxai.annotations import (
    AllowedCallers,
    CacheControl,
    DeferLoading,
    EagerInputStreaming,
    Namespace,
    OutputSchema,
    Strict,
    ToolNamespace,
)
from fxai.providers import anthropic, openai
from fxai.schema import JsonSchema
from fxai.tools import Tool

__all__ = ["ANTHROPIC", "OPENAI", "Query", "actions_of", "with_everything"]


class Query(msgspec.Struct, frozen=True):
    """What is looked for."""

    text: str
    limit: int | None = None


ours = Tool.make("search.all", parameters=Query, success=str, input_examples=[{"text": "tea"}])
crm = ToolNamespace("crm", "Customers and what they ordered.")
here = openai.UserLocation(city="Oslo", country="NO", region="Oslo", timezone="Europe/Oslo")
secret = openai.DomainSecret(domain="example.com", name="KEY", value="k")
allowlist = openai.NetworkAllowlist(allowed_domains=("example.com",), domain_secrets=(secret,))
size = openai.ComparisonFilter(key="size", type="gte", value=3)
either = openai.CompoundFilter(type="or", filters=(size, openai.CompoundFilter(type="and", filters=(size,))))
skill = openai.InlineSkill(
    name="pdf", description="Reads PDFs.", source=openai.SkillSource(data="UEs=", media_type="application/zip")
)

OPENAI: Sequence[Tool[Any, Any, Any]] = (
    ours,
    ours.with_options(provider_options={"openai": {"async": True}}),
    ours.annotate(Namespace, crm),
    openai.custom("sql", description="Asks the database.", format=openai.Grammar(syntax="lark", definition="s: /a/")),
    openai.custom("note", provider_options={"openai": {"async": True}}),
    openai.web_search(
        search_context_size="low",
        user_location=here,
        filters=openai.SearchFilters(allowed_domains=("example.com",)),
        external_web_access=False,
    ),
    openai.web_search(version="web_search_2025_08_26"),
    openai.web_search_preview(search_context_size="high", search_content_types=["text"], user_location=here),
    openai.web_search_preview(version="web_search_preview_2025_03_11"),
    openai.file_search(vector_store_ids=["v-1"], filters=size),
    openai.file_search(
        vector_store_ids=["v-1", "v-2"],
        max_num_results=3,
        filters=either,
        ranking_options=openai.Ranking(
            ranker="auto",
            score_threshold=0.5,
            hybrid_search=openai.HybridSearch(embedding_weight=0.5, text_weight=1.0),
        ),
    ),
    openai.code_interpreter(container="c-1"),
    openai.code_interpreter(
        container=openai.Container(file_ids=("f-1",), memory_limit="4g", network_policy=openai.NetworkDisabled())
    ),
    openai.image_generation(
        model="gpt-image-2",
        action="edit",
        background="opaque",
        complexity="low",
        frame_count=3,
        frame_duration_ms=100,
        input_fidelity="high",
        input_image_mask=openai.ImageMask(file_id="f-1", image_url="data:,"),
        moderation="low",
        output_compression=80,
        output_format="svg",
        partial_images=1,
        quality="max",
        size="auto",
        svg=openai.Svg(model="gpt-5.5", reasoning=openai.SvgReasoning(effort="low")),
    ),
    openai.mcp(
        server_label="docs",
        server_url="https://docs.example.com/mcp",
        server_description="The documentation.",
        allowed_tools=["search"],
        authorization="token",
        headers={"X-Team": "a"},
        require_approval=openai.ApprovalRules(
            always=openai.McpTools(tool_names=("write",)), never=openai.McpTools(read_only=True)
        ),
    ),
    openai.mcp(server_label="mail", connector_id="connector_gmail", allowed_tools=openai.McpTools(read_only=True)),
    openai.mcp(server_label="inside", tunnel_id="t-1", require_approval="always"),
    openai.programmatic_tool_calling(),
    openai.shell(),
    openai.shell(
        environment=openai.LocalEnvironment(
            skills=(openai.LocalSkill(name="pdf", description="Reads PDFs.", path="skills/pdf"),)
        )
    ),
    openai.shell(environment=openai.ContainerReference(container_id="c-1")),
    openai.shell(
        environment=openai.ContainerAuto(
            file_ids=("f-1",),
            memory_limit="1g",
            network_policy=allowlist,
            skills=(skill, openai.SkillReference(skill_id="s-1", version="2")),
        )
    ),
    openai.local_shell(),
    openai.apply_patch(),
    openai.computer(),
    openai.computer_use_preview(display_width=800, display_height=600, environment="browser"),
    openai.tool_search(),
    openai.tool_search(parameters=Query, description="Finds tools."),
)

there = anthropic.UserLocation(city="Oslo", country="NO", region="Oslo", timezone="Europe/Oslo")
search = (anthropic.ToolReference(name="web_search"),)
sources = anthropic.UrlSources(
    client_tool_results=anthropic.OnlySources(tools=search),
    server_tool_results=anthropic.ExceptSources(tools=search),
    user_input=anthropic.AllSources(),
)
off = anthropic.ToolsetMember(enabled=False)


def actions_of(configs: Any) -> list[Any]:
    """Return the names of all actions that a toolset can have."""
    return [name for names in get_args(get_args(configs)[0]) for name in get_args(names)]


later = anthropic.ToolsetMember(defer_loading=True)
example = [{"command": "ls"}]

ANTHROPIC: Sequence[Tool[Any, Any, Any]] = (
    ours,
    anthropic.bash(input_examples=example),
    anthropic.text_editor(max_characters=900, input_examples=[{"command": "view", "path": "a"}]),
    anthropic.text_editor(version="20250429", input_examples=[{"command": "view", "path": "a"}]),
    anthropic.text_editor(version="20250124", input_examples=[{"command": "undo_edit", "path": "a"}]),
    anthropic.memory(input_examples=[{"command": "view", "path": "/memories"}]),
    anthropic.computer_toolset(
        configs={**dict.fromkeys(actions_of(anthropic.ComputerConfigs), off), "type": later, "zoom": later}
    ),
    anthropic.browser_toolset(configs=dict.fromkeys(actions_of(anthropic.BrowserConfigs), off)),
    *(anthropic.code_execution(version=version) for version in ("20250522", "20250825", "20260120", "20260521")),
    anthropic.tool_search(),
    anthropic.tool_search(by="regex"),
    anthropic.web_search(max_uses=2, allowed_domains=["example.com"], user_location=there, response_inclusion="full"),
    *(
        anthropic.web_search(version=version, max_uses=2, blocked_domains=["example.com"], user_location=there)
        for version in ("20250305", "20260209", "20260318")
    ),
    *(anthropic.web_search(version=version, allowed_domains=["example.com"]) for version in ("20250305", "20260209")),
    *(
        anthropic.web_fetch(
            version=version,
            max_uses=1,
            allowed_domains=["example.com"],
            citations=anthropic.Citations(enabled=True),
            max_content_tokens=1000,
            url_sources=sources,
        )
        for version in ("20250910", "20260209", "20260309", "20260318")
    ),
    *(
        anthropic.web_fetch(version=version, blocked_domains=["example.com"])
        for version in ("20250910", "20260209", "20260309", "20260318")
    ),
    anthropic.web_fetch(version="20260309", use_cache=False),
    anthropic.web_fetch(version="20260318", use_cache=True, response_inclusion="excluded"),
    anthropic.web_fetch(url_sources=anthropic.UrlSources(user_input=anthropic.NoSources())),
)


def with_everything(tool: Tool[Any, Any, Any]) -> Sequence[Tool[Any, Any, Any]]:
    """The tool with every annotation that says something to a provider, those that exclude each other apart."""
    one = tool.annotate(OutputSchema, JsonSchema.of({"type": "string"})).annotate(EagerInputStreaming, True)
    called = one.annotate(DeferLoading, True).annotate(AllowedCallers, ("direct", "programmatic"))
    return (called, one.annotate(CacheControl, "1h").annotate(Strict, True))
