"""Google ADK. Tested with google-adk 2.13.0."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool

import countersign
from countersign import ApprovalRequired, Rejected

from ._shared import Host, as_rejected, fresh_id, text_of, tokens_in, warn_if_open

if TYPE_CHECKING:
    from countersign import Gate


def tools_json(tools: Iterable[BaseTool]) -> str:
    """Returns the tools as a `tools/list` result with closed schemas, to draft a registry from."""
    return countersign.tools_json(
        {"name": tool.name, "description": tool.description, "inputSchema": _schema(tool)} for tool in tools)


def gated_tools(tools: Iterable[Any], gate: Gate, *, server: str | None = None,
                reruns: Iterable[str] = ()) -> list[BaseTool]:
    """Returns the tools, each of which runs only what the gate accepted. Functions become tools.

    Raises `TypeError` for a tool that is gated already, or of another shape than that of the tested version.
    """
    host = Host(gate, server, frozenset(reruns))
    gated = [_gated(tool if isinstance(tool, BaseTool) else FunctionTool(tool), host) for tool in tools]
    host.tell(tools_json(gated))
    return gated


def _gated(tool: BaseTool, host: Host) -> BaseTool:
    if isinstance(tool, _Gated):
        raise TypeError(f"`{tool.name}` is gated already")
    if isinstance(tool, FunctionTool):
        if not callable(getattr(tool, "_preprocess_args_with_validation", None)):
            raise TypeError("google-adk has another shape than in the tested version")
    else:
        warn_if_open(tool.name, _schema(tool))
    kind: Any = type(f"Gated{type(tool).__name__}", (_Gated, type(tool)), {})
    gated = kind.__new__(kind)
    gated.__dict__.update(tool.__dict__, _countersign_host=host)
    return gated  # type: ignore[no-any-return]


class _Gated:
    """First base of a gated tool."""

    name: str

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        host: Host = getattr(self, "_countersign_host")
        id, confirmation = tool_context.function_call_id or fresh_id(), tool_context.tool_confirmation
        inner = super().run_async  # type: ignore[misc]

        async def run(decided: dict[str, Any]) -> Any:
            return await inner(args=decided, tool_context=tool_context)

        try:
            return await host.arun(id, self.name, args, run, tokens=_tokens(confirmation, id),
                                   arrived=_arrived(self, args, tool_context))
        except Rejected as refusal:
            return _refused(refusal, self.name, tool_context)


def _arrived(tool: Any, args: dict[str, Any], tool_context: Any) -> dict[str, Any] | None:
    """Returns the arguments with which the host would call the function: it may convert and drop some."""
    if not isinstance(tool, FunctionTool):
        return None
    converted, errors = tool._preprocess_args_with_validation(args)
    return None if errors else tool._prepare_invocation_args(converted, tool_context)


def _refused(refusal: Rejected, name: str, tool_context: Any) -> dict[str, Any]:
    """Returns the answer to a refused call. If only an approval is missing, the host asks for a confirmation, once."""
    if isinstance(refusal, ApprovalRequired) and tool_context.tool_confirmation is None:
        payload = {"countersign_request": json.loads(refusal.request.to_json())}
        tool_context.request_confirmation(hint=f"Approve {name}", payload=payload)
        tool_context.actions.skip_summarization = True
    return {"error": text_of(refusal)}


class GatePlugin(BasePlugin):
    """Plugin of a runner: refuses tools that are not gated, and records names that the agent does not have.

    With `decides`, it asks the gate about tools that are not gated, before the host runs them. Prefer `gated_tools`: a plugin
    before this one may still answer in a tool's place, and the outcome of a call that is cancelled is unknown.
    """

    def __init__(self, gate: Gate, *, server: str | None = None, decides: bool = False) -> None:
        super().__init__(name="countersign")
        self.host: Host = Host(gate, server)
        self.decides = decides

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        if isinstance(tool, _Gated):
            return None
        id = tool_context.function_call_id or fresh_id()
        if not self.decides:
            return {"error": text_of(self.host.block(id, tool.name, tool_args))}
        try:
            await self.host.begin(id, tool.name, tool_args, tokens=_tokens(tool_context.tool_confirmation, id),
                                  arrived=_arrived(tool, tool_args, tool_context))
        except Exception as error:
            return _refused(as_rejected(error, id), tool.name, tool_context)
        return None

    async def after_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any) -> Any:
        self.host.end(tool_context.function_call_id or "")

    async def on_tool_error_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: Any) -> Any:
        self.host.end(tool_context.function_call_id or "", "failed" if isinstance(error, Exception) else "unknown")


def _tokens(confirmation: Any, id: str) -> list[str]:
    payload = confirmation.payload if confirmation is not None and confirmation.confirmed else None
    return tokens_in(payload.get("countersign_token", []), id) or [] if isinstance(payload, dict) else []


def _schema(tool: BaseTool) -> dict[str, Any]:
    declaration = tool._get_declaration()
    if declaration is None:
        return {"type": "object"}
    if declaration.parameters_json_schema is not None:
        schema: dict[str, Any] = declaration.parameters_json_schema
        return schema
    if declaration.parameters is None:
        return {"type": "object"}
    lowered: dict[str, Any] = _lower(declaration.parameters.model_dump(mode="json", exclude_none=True, by_alias=True))
    return lowered


def _lower(schema: Any) -> Any:
    """Writes the types of the host's schemas as JSON Schema does: `OBJECT` is `object`."""
    if isinstance(schema, dict):
        return {name: value.lower() if name == "type" and isinstance(value, str) else _lower(value)
                for name, value in schema.items()}
    return [_lower(element) for element in schema] if isinstance(schema, list) else schema
