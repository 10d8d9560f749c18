"""CrewAI. Tested with crewai 1.15.30."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crewai.events import ToolSelectionErrorEvent, crewai_event_bus
from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

import countersign
from countersign import ApprovalRequest, ApprovalRequired, Rejected

from ._shared import Host, fresh_id, text_of, warn_if_open

if TYPE_CHECKING:
    from countersign import Gate

Approver = Callable[[ApprovalRequest], "str | None"]
"""Asks a person, and returns the token of an approval, or `None`. It runs while the crew waits."""


def tools_json(tools: Iterable[BaseTool]) -> str:
    """Returns the tools as a `tools/list` result with closed schemas, to draft a registry from."""
    return countersign.tools_json(
        {"name": sanitize_tool_name(tool.name), "description": tool.description, "inputSchema": _schema(tool)}
        for tool in tools)


def gated_tools(tools: Iterable[BaseTool], gate: Gate, *, server: str | None = None,
                approver: Approver | None = None) -> list[BaseTool]:
    """Returns the tools, each of which runs only what the gate accepted, under the names that the model sees.

    Raises `TypeError` for a tool that is gated already.
    """
    host, tools = Host(gate, server), list(tools)
    for tool in tools:
        if not isinstance(tool, BaseTool) or isinstance(tool, _GatedTool):
            raise TypeError("not a tool, or gated already")
        warn_if_open(tool.name, _schema(tool))
    host.tell(tools_json(tools))
    return [_GatedTool.around(tool, host, approver) for tool in tools]


def gate_hook(gate: Gate, *, server: str | None = None) -> Callable[[Any], bool | None]:
    """Returns a hook for `register_before_tool_call_hook`: it blocks every tool that is not gated, and records the call."""
    host = Host(gate, server)

    def before_tool_call(context: Any) -> bool | None:
        tool = getattr(context.tool, "_original_tool", context.tool)
        if isinstance(tool, _GatedTool):
            return None
        host.block(fresh_id(), sanitize_tool_name(context.tool_name), context.tool_input)
        return False

    return before_tool_call


@contextmanager
def watched_names(gate: Gate, *, server: str | None = None) -> Iterator[None]:
    """Records names that a model asks for in text and that no tool of its agent has, while the block runs: as undisclosed."""
    host, last = Host(gate, server), [None]

    def selection_failed(source: Any, event: Any) -> None:
        # The host tries several times to select a tool for one action.
        if event.tool_name and last[0] is not source:
            last[0] = source
            host.note(fresh_id(), sanitize_tool_name(event.tool_name), {}, is_known=False)

    crewai_event_bus.on(ToolSelectionErrorEvent)(selection_failed)
    try:
        yield
        crewai_event_bus.flush()
    finally:
        crewai_event_bus.off(ToolSelectionErrorEvent, selection_failed)


class _GatedTool(BaseTool):
    _inner: BaseTool = PrivateAttr()
    _host: Host = PrivateAttr()
    _approver: Approver | None = PrivateAttr(default=None)

    @classmethod
    def around(cls, inner: BaseTool, host: Host, approver: Approver | None) -> _GatedTool:
        same = ("name", "description", "args_schema", "result_schema", "cache_function", "result_as_answer", "max_usage_count",
                "tool_failure_policy")
        gated = cls(**{name: getattr(inner, name) for name in same})
        gated._inner, gated._host, gated._approver = inner, host, approver
        return gated

    def _run(self, **kwargs: Any) -> Any:
        def run(decided: dict[str, Any]) -> Any:
            result = self._inner._run(**decided)
            return asyncio.run(result) if asyncio.iscoroutine(result) else result

        id, name = fresh_id(), sanitize_tool_name(self.name)
        try:
            try:
                return self._host.run(id, name, kwargs, run)
            except ApprovalRequired as refusal:
                return self._host.run(id, name, kwargs, run, tokens=self._asked(refusal))
        except Rejected as refusal:
            return text_of(refusal)

    async def _arun(self, **kwargs: Any) -> Any:
        async def run(decided: dict[str, Any]) -> Any:
            if _is_async(self._inner):
                return await self._inner._arun(**decided)
            return await asyncio.to_thread(self._inner._run, **decided)

        id, name = fresh_id(), sanitize_tool_name(self.name)
        try:
            try:
                return await self._host.arun(id, name, kwargs, run)
            except ApprovalRequired as refusal:
                tokens = await asyncio.to_thread(self._asked, refusal)
                return await self._host.arun(id, name, kwargs, run, tokens=tokens)
        except Rejected as refusal:
            return text_of(refusal)

    def _asked(self, refusal: ApprovalRequired) -> list[str]:
        token = self._approver(refusal.request) if self._approver is not None else None
        if token is None:
            raise refusal
        return [token]


def _is_async(tool: BaseTool) -> bool:
    if isinstance(tool, Tool):
        return inspect.iscoroutinefunction(tool.func)
    return type(tool)._arun is not BaseTool._arun


def _schema(tool: BaseTool) -> dict[str, Any]:
    schema: dict[str, Any] = tool.args_schema.model_json_schema()
    return schema
