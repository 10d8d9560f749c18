"""OpenAI Agents SDK. Tested with openai-agents 0.24.0."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents import (
    FunctionTool,
    RunHooks,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)

import countersign
from countersign import ApprovalRequest, ApprovalRequired, Rejected

from ._shared import Host, as_rejected, text_of

if TYPE_CHECKING:
    from countersign import Gate


GUARDRAIL = "countersign"
"""Name of our guardrails."""


def tools_json(tools: Iterable[FunctionTool]) -> str:
    """Returns the tools as a `tools/list` result with closed schemas, to draft a registry from."""
    return countersign.tools_json(
        {"name": tool.name, "description": tool.description, "inputSchema": tool.params_json_schema} for tool in tools)


def gated_tools(tools: Iterable[FunctionTool], gate: Gate, *, server: str | None = None,
                pauses: Iterable[str] = ()) -> list[FunctionTool]:
    """Returns the tools, each of which runs only what the gate accepted. Raises `TypeError` for a tool that is gated already.

    A run pauses before the tools named in `pauses`, as for `needs_approval`; the host's approval alone lets nothing run.
    """
    host, tools, paused = Host(gate, server), list(tools), set(pauses)
    host.tell(tools_json(tools))
    return [replace(_gated(tool, host), needs_approval=tool.name in paused or tool.needs_approval) for tool in tools]


def guarded_tools(tools: Iterable[FunctionTool], gate: Gate, *, server: str | None = None,
                  pauses: Iterable[str] = ()) -> list[FunctionTool]:
    """Returns the tools with guardrails that ask the gate, for a host that wraps its tools itself.

    Prefer `gated_tools`: a guardrail does not see how a tool fails, so a failed call is on record as returned, and the outcome
    of a cancelled one is unknown. Raises `TypeError` for a tool that is gated already.
    """
    host, tools, paused = Host(gate, server), list(tools), set(pauses)
    host.tell(tools_json(tools))
    return [replace(_guarded(tool, host), needs_approval=tool.name in paused or tool.needs_approval) for tool in tools]


def _guarded(tool: FunctionTool, host: Host) -> FunctionTool:
    if not isinstance(tool, FunctionTool) or _is_gated(tool):
        raise TypeError("not a function tool, or gated already")

    async def decide(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        id = data.context.tool_call_id
        try:
            await host.begin(id, tool.name, data.context.tool_arguments or "{}")
        except Exception as error:
            return ToolGuardrailFunctionOutput.reject_content(text_of(as_rejected(error, id)))
        return ToolGuardrailFunctionOutput.allow()

    async def record(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        host.end(data.context.tool_call_id)
        return ToolGuardrailFunctionOutput.allow()

    # Ours is the last before the tool, and the first behind it.
    before = [*(tool.tool_input_guardrails or []), ToolInputGuardrail(decide, name=GUARDRAIL)]
    return replace(tool, tool_input_guardrails=before,
                   tool_output_guardrails=[ToolOutputGuardrail(record, name=GUARDRAIL), *(tool.tool_output_guardrails or [])])


def _is_gated(tool: FunctionTool) -> bool:
    names = [guardrail.name for guardrail in tool.tool_input_guardrails or []]
    return GUARDRAIL in names or bool(getattr(tool.on_invoke_tool, "__countersign__", False))


def approval_request(gate: Gate, interruption: Any, *, server: str | None = None) -> ApprovalRequest:
    """Returns the request for a person's approval of a call before which a run paused. Raises `Rejected`.

    Present the token with `gate.present`, then approve the interruption in the run's state.
    """
    call = interruption.raw_item
    Host(gate, server).note(call.call_id, call.name, call.arguments)
    try:
        gate.check(call.call_id, call.name, call.arguments, server)
    except ApprovalRequired as refusal:
        return refusal.request
    raise ValueError("the call needs no approval of the gate")


def _gated(tool: FunctionTool, host: Host) -> FunctionTool:
    if not isinstance(tool, FunctionTool) or _is_gated(tool):
        raise TypeError("not a function tool, or gated already")

    async def invoke(context: Any, text: str) -> Any:
        # The tool reads the text that was decided, in its canonical form.
        async def run(members: dict[str, Any]) -> Any:
            return await tool.on_invoke_tool(context, json.dumps(members))

        try:
            return await host.arun(context.tool_call_id, tool.name, text or "{}", run)
        except Rejected as refusal:
            return text_of(refusal)

    setattr(invoke, "__countersign__", True)
    return replace(tool, on_invoke_tool=invoke)


class GateHooks(RunHooks[Any]):
    """Hooks of a run: see names that the agent does not have, and note arguments when the model writes them."""

    def __init__(self, gate: Gate, *, server: str | None = None) -> None:
        self.host: Host = Host(gate, server)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        known = {tool.name for tool in await agent.get_all_tools(context)} | {
            getattr(handoff, "tool_name", "") for handoff in agent.handoffs}
        for item in response.output:
            if getattr(item, "type", None) == "function_call":
                self.host.note(item.call_id, item.name, item.arguments or "{}", is_known=item.name in known)
