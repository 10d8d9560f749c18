"""Pydantic AI. Tested with pydantic-ai-slim 2.68.0."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired as Paused
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset

from countersign import ApprovalRequired, Rejected

from ._shared import Host, fresh_id, text_of, tokens_in

if TYPE_CHECKING:
    from countersign import Gate


def gated_toolset(toolset: AbstractToolset[Any], gate: Gate, *, server: str | None = None) -> AbstractToolset[Any]:
    """Returns the toolset, whose tools run only what the gate accepted. Raises `TypeError` for one that is gated already."""
    if not isinstance(toolset, AbstractToolset) or isinstance(toolset, _GatedToolset):
        raise TypeError("not a toolset, or gated already")
    gated = _GatedToolset(toolset)
    gated.host = Host(gate, server)
    return gated


class _GatedToolset(WrapperToolset[Any]):
    host: Host

    async def for_run(self, ctx: Any) -> AbstractToolset[Any]:
        return self._around(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: Any) -> AbstractToolset[Any]:
        return self._around(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(self, visitor: Any) -> AbstractToolset[Any]:
        return self._around(self.wrapped.visit_and_replace(visitor))

    def _around(self, wrapped: AbstractToolset[Any]) -> AbstractToolset[Any]:
        gated = _GatedToolset(wrapped)
        gated.host = self.host
        return gated

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        async def run(_: dict[str, Any]) -> Any:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)

        # The model's own arguments are in its message; the validated ones run only if they are the same values.
        return await _answered(self.host, ctx, name, _sent(ctx, tool_args), tool_args, run)


class GateCapability(AbstractCapability[Any]):
    """Capability of an agent: decides on the model's own text, sees names that the agent does not have, and notes arguments when
    the model writes them. It also covers tools of toolsets that are not gated.
    """

    def __init__(self, gate: Gate, *, server: str | None = None) -> None:
        self.host: Host = Host(gate, server)

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        offered = request_context.model_request_parameters
        known = {tool.name for tool in [*offered.function_tools, *offered.output_tools]}
        for part in response.parts:
            if getattr(part, "part_kind", None) == "tool-call":
                self.host.note(part.tool_call_id, part.tool_name, part.args or {}, is_known=part.tool_name in known)
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any],
                                handler: Callable[[dict[str, Any]], Awaitable[Any]]) -> Any:
        return await _answered(self.host, ctx, call.tool_name, call.args or {}, args, lambda _: handler(args))


async def _answered(host: Host, ctx: Any, name: str, sent: Any, args: dict[str, Any],
                    run: Callable[[dict[str, Any]], Awaitable[Any]]) -> Any:
    """Returns the result of a call. A refusal is the host's failed tool; a missing approval defers the call."""
    id = ctx.tool_call_id or fresh_id()
    tokens = tokens_in((ctx.tool_call_metadata or {}).get("countersign_token", []), id) or []
    try:
        return await host.arun(id, name, sent, run, tokens=tokens, arrived=args)
    except ApprovalRequired as refusal:
        if ctx.tool_call_approved:
            raise ToolFailed(text_of(refusal)) from None
        raise Paused({"countersign_request": json.loads(refusal.request.to_json())}) from None
    except Rejected as refusal:
        raise ToolFailed(text_of(refusal)) from None


def _sent(ctx: Any, tool_args: dict[str, Any]) -> Any:
    for message in reversed(ctx.messages):
        for part in getattr(message, "parts", ()):
            if getattr(part, "part_kind", None) == "tool-call" and part.tool_call_id == ctx.tool_call_id:
                return part.args or {}
    return tool_args
