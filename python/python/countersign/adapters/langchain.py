"""LangChain and LangGraph. Tested with langchain 1.4.7, langchain-core 1.7.2 and langgraph 1.2.22."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

import countersign
from countersign import ApprovalRequired, Rejected

from ._shared import Host, fresh_id, text_of, tokens_in, warn_if_open

if TYPE_CHECKING:
    from countersign import Gate

Result: TypeAlias = "ToolMessage | Command[Any]"


def tools_json(tools: Iterable[BaseTool]) -> str:
    """Returns the tools as a `tools/list` result with closed schemas, to draft a registry from."""
    return countersign.tools_json(
        {"name": tool.name, "description": tool.description, "inputSchema": _schema(tool)} for tool in tools)


def _schema(tool: BaseTool) -> dict[str, Any]:
    schema: Any = tool.tool_call_schema
    return dict(schema) if isinstance(schema, dict) else dict(schema.model_json_schema())


def gated_tools(tools: Iterable[BaseTool], gate: Gate, *, server: str | None = None,
                reruns: Iterable[str] = ()) -> list[BaseTool]:
    """Returns the tools, each of which runs only what the gate accepted. This is the place to prefer.

    `reruns` names tools that call `interrupt` themselves. Raises `TypeError` for a tool that is gated already.
    """
    host, tools = Host(gate, server, frozenset(reruns)), list(tools)
    host.tell(tools_json(tools))
    return [_gated(tool, host) for tool in tools]


def _gated(tool: BaseTool, host: Host) -> BaseTool:
    if not isinstance(tool, BaseTool) or isinstance(tool, _Gated):
        raise TypeError("not a tool, or gated already")
    kind = type(f"Gated{type(tool).__name__}", (_Gated, type(tool)), {"__module__": __name__})
    copy = tool.model_copy()
    object.__setattr__(copy, "__class__", kind)
    object.__setattr__(copy, "_countersign_host", host)
    return copy


class _Gated:
    """Before a `BaseTool` in the order of its classes."""

    def _attempt(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[str, str, Any], dict[str, Any], Any]:
        tool: Any = self
        members = dict(tool_input) if isinstance(tool_input, dict) else {"__arg1": tool_input}
        sent = tool._filter_injected_args(members)
        injected = {name: value for name, value in members.items() if name not in sent}
        arrived = None
        try:
            _, arrived = tool._to_args_and_kwargs(dict(members), tool_call_id)
        except Exception:
            # The tool itself raises this again, once the call is decided.
            pass
        return (tool_call_id or fresh_id(), tool.name, sent), injected, arrived

    def run(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Any:
        host: Host = getattr(self, "_countersign_host")
        call, injected, arrived = self._attempt(tool_input, tool_call_id)
        inner = super().run  # type: ignore[misc]
        return _answered(call[0], call[1], tool_call_id is not None, lambda tokens: host.run(
            *call, lambda decided: inner({**decided, **injected}, *args, tool_call_id=tool_call_id, **kwargs),
            tokens=tokens, arrived=arrived))

    async def arun(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Any:
        host: Host = getattr(self, "_countersign_host")
        call, injected, arrived = self._attempt(tool_input, tool_call_id)
        inner = super().arun  # type: ignore[misc]
        return await _aanswered(call[0], call[1], tool_call_id is not None, lambda tokens: host.arun(
            *call, lambda decided: inner({**decided, **injected}, *args, tool_call_id=tool_call_id, **kwargs),
            tokens=tokens, arrived=arrived))


class GateMiddleware(AgentMiddleware[Any, Any]):
    """Middleware of `create_agent`. Put it last, so that no other one stands between it and the tool.

    It also sees names that the agent does not have, and notes arguments when the model writes them.
    """

    def __init__(self, gate: Gate, *, server: str | None = None, reruns: Iterable[str] = ()) -> None:
        super().__init__()
        self.host: Host = Host(gate, server, frozenset(reruns))

    def after_model(self, state: Any, runtime: Any) -> None:
        last = state["messages"][-1]
        if isinstance(last, AIMessage):
            for call in last.tool_calls:
                self.host.note(call["id"], call["name"], call["args"])

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        return wrapper(self.host)(request, handler)

    async def awrap_tool_call(self, request: ToolCallRequest,
                              handler: Callable[[ToolCallRequest], Awaitable[Result]]) -> Result:
        return await awrapper(self.host)(request, handler)


def tool_node_wrappers(gate: Gate, *, server: str | None = None, reruns: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the arguments `wrap_tool_call` and `awrap_tool_call` of a LangGraph `ToolNode`."""
    host = Host(gate, server, frozenset(reruns))
    return {"wrap_tool_call": wrapper(host), "awrap_tool_call": awrapper(host)}


def _call(request: ToolCallRequest) -> tuple[str, str, Any]:
    call = request.tool_call
    if request.tool is not None and not isinstance(request.tool, _Gated):
        warn_if_open(call["name"], _schema(request.tool))
    return call["id"] or fresh_id(), call["name"], call["args"]


def _decided(request: ToolCallRequest, id: str, members: dict[str, Any]) -> ToolCallRequest:
    if request.tool is None:
        raise Rejected("UNDISCLOSED_TOOL", "the tool is not available in this session", "never", None, id, None)
    return request.override(tool_call={**request.tool_call, "args": members})


def wrapper(host: Host) -> Callable[[ToolCallRequest, Callable[[ToolCallRequest], Result]], Result]:
    def wrap_tool_call(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        call = _call(request)
        result: Result = _answered(call[0], call[1], True, lambda tokens: host.run(
            *call, lambda members: handler(_decided(request, call[0], members)), tokens=tokens))
        return result

    return wrap_tool_call


def awrapper(host: Host) -> Callable[[ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Result]]], Awaitable[Result]]:
    async def awrap_tool_call(request: ToolCallRequest,
                              handler: Callable[[ToolCallRequest], Awaitable[Result]]) -> Result:
        call = _call(request)
        result: Result = await _aanswered(call[0], call[1], True, lambda tokens: host.arun(
            *call, lambda members: handler(_decided(request, call[0], members)), tokens=tokens))
        return result

    return awrap_tool_call


def _answered(id: str, name: str, is_model: bool, attempt: Callable[[list[str]], Any]) -> Any:
    """Returns the result of a call. A refusal is the host's own kind of error; a missing approval pauses the graph."""
    try:
        try:
            return attempt([])
        except ApprovalRequired as refusal:
            return attempt(_tokens(refusal, id))
    except Rejected as refusal:
        return _refused(refusal, id, name, is_model)


async def _aanswered(id: str, name: str, is_model: bool, attempt: Callable[[list[str]], Awaitable[Any]]) -> Any:
    try:
        try:
            return await attempt([])
        except ApprovalRequired as refusal:
            return await attempt(_tokens(refusal, id))
    except Rejected as refusal:
        return _refused(refusal, id, name, is_model)


def _refused(refusal: Rejected, id: str, name: str, is_model: bool) -> ToolMessage:
    if not is_model:
        raise refusal
    return ToolMessage(text_of(refusal), name=name, tool_call_id=id, status="error",
                       additional_kwargs={"countersign": {"code": refusal.code, "retry": refusal.retry}})


def _tokens(refusal: ApprovalRequired, id: str) -> list[str]:
    """Pauses the graph until someone answers. Outside a graph, the refusal stands."""
    question = {"type": "countersign_approval", "call_id": id, "name": refusal.request.name,
                "request": json.loads(refusal.request.to_json())}
    try:
        get_config()
    except RuntimeError:
        raise refusal from None
    while (tokens := tokens_in(interrupt(question), id)) is None:
        # The answer was for another call of the same step.
        pass
    if not tokens:
        raise refusal
    return tokens
