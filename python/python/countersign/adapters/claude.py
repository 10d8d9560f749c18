"""Claude Agent SDK. Tested with claude-agent-sdk 0.2.187."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import HookMatcher, SdkMcpTool

import countersign
from countersign import ApprovalRequest, ApprovalRequired, Call, Rejected

from ._shared import Host, as_rejected, fresh_id, key_of, text_of

if TYPE_CHECKING:
    from countersign import Gate

Approver = Callable[[ApprovalRequest], "str | None"]
"""Asks a person, and returns the token of an approval, or `None`. It runs in a thread while the host waits."""

OPEN = 1_024
"""Number of accepted or waiting calls that are kept."""


class _Desk:
    """Decides about calls. A call that waits for an approval keeps its id for the model's next try."""

    def __init__(self, gate: Gate, server: str | None, approver: Approver | None) -> None:
        self.host, self.approver = Host(gate, server), approver
        self.waiting: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.open: OrderedDict[str, Call] = OrderedDict()

    async def decide(self, id: str, name: str, args: Any) -> Call:
        """Returns the accepted call. Raises `Rejected` for anything else."""
        key = key_of(id, name, args)[1:]
        id = self.waiting.get(key, id)
        try:
            try:
                call = await self.host.gate.acheck(id, name, args, self.host.server)
            except ApprovalRequired as refusal:
                _put(self.waiting, key, id)
                token = await asyncio.to_thread(self.approver, refusal.request) if self.approver is not None else None
                if token is None:
                    raise
                call = await self.host.gate.acheck(id, name, args, self.host.server, approval=[token])
        except Exception as error:
            raise as_rejected(error, id) from None
        self.waiting.pop(key, None)
        return call

    async def before(self, given: Any, tool_use_id: str | None, _: Any) -> dict[str, Any]:
        id = tool_use_id or fresh_id()
        try:
            call = await self.decide(id, given["tool_name"], given["tool_input"])
            await call.__aenter__()
        except Exception as error:
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                                           "permissionDecisionReason": text_of(as_rejected(error, id))}}
        _put(self.open, id, call)
        # Silence: the host's own permissions still decide.
        return {}

    async def after(self, given: Any, tool_use_id: str | None, _: Any) -> dict[str, Any]:
        call = self.open.pop(tool_use_id or "", None)
        if call is not None:
            failed = given["hook_event_name"] == "PostToolUseFailure"
            await call.__aexit__(*((RuntimeError, RuntimeError("the tool failed"), None) if failed else (None, None, None)))
        return {}


def gate_hooks(gate: Gate, *, server: str | None = None, gated: Iterable[str] = (),
               approver: Approver | None = None) -> dict[Any, list[HookMatcher]]:
    """Returns `hooks` of `ClaudeAgentOptions`: each tool call passes the gate, under the host's own name for the tool.

    Tools of the SDK servers named in `gated` pass: `gated_tools` decides about them.
    """
    desk, inner = _Desk(gate, server, approver), tuple(f"mcp__{name}__" for name in gated)

    async def before(given: Any, tool_use_id: str | None, context: Any) -> Any:
        if inner and str(given["tool_name"]).startswith(inner):
            return {}
        return await desk.before(given, tool_use_id, context)

    async def after(given: Any, tool_use_id: str | None, context: Any) -> Any:
        return await desk.after(given, tool_use_id, context)

    # A hook that fails, or is too late, blocks the call.
    return {"PreToolUse": [HookMatcher(matcher="*", hooks=[before], timeout=600, on_failure="block")],
            "PostToolUse": [HookMatcher(matcher="*", hooks=[after])],
            "PostToolUseFailure": [HookMatcher(matcher="*", hooks=[after])]}


def gated_tools(tools: Iterable[SdkMcpTool[Any]], gate: Gate, *, server: str | None = None,
                approver: Approver | None = None) -> list[SdkMcpTool[Any]]:
    """Returns the tools of an SDK server, each of which runs only what the gate accepted.

    Raises `TypeError` for a tool that is gated already.
    """
    desk, tools = _Desk(gate, server, approver), list(tools)
    desk.host.tell(tools_json(tools))
    return [_gated(tool, desk) for tool in tools]


def tools_json(tools: Iterable[SdkMcpTool[Any]]) -> str:
    """Returns the tools as a `tools/list` result with closed schemas, to draft a registry from. Raises `TypeError` for a tool
    without a JSON Schema."""
    def schema(tool: SdkMcpTool[Any]) -> dict[str, Any]:
        if not isinstance(tool.input_schema, dict) or tool.input_schema.get("type") != "object":
            raise TypeError(f"`{tool.name}` needs a JSON Schema of an object")
        return tool.input_schema

    return countersign.tools_json(
        {"name": tool.name, "description": tool.description, "inputSchema": schema(tool)} for tool in tools)


def _gated(tool: SdkMcpTool[Any], desk: _Desk) -> SdkMcpTool[Any]:
    if not isinstance(tool, SdkMcpTool) or getattr(tool.handler, "__countersign__", False):
        raise TypeError("not a tool, or gated already")

    async def handler(args: Any) -> dict[str, Any]:
        try:
            call = await desk.decide(fresh_id(), tool.name, args)
        except Rejected as refusal:
            return {"content": [{"type": "text", "text": text_of(refusal)}], "is_error": True}
        async with call as decided:
            result: dict[str, Any] = await tool.handler(decided)
        return result

    setattr(handler, "__countersign__", True)
    return replace(tool, handler=handler)


def _put(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    while len(kept) > OPEN:
        kept.popitem(last=False)
