"""The node of `countersign.pic`. Tested with langchain-core 1.7.2 and langgraph 1.2.22."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool

from ._shared import check_gate, fresh_id, text_of
from .langchain import gated_tools

if TYPE_CHECKING:
    from countersign import Gate


class PICToolNode(Runnable[Any, dict[str, Any]]):
    """Node of a LangGraph graph: runs the tool calls of the last message, each with the proposal in its argument `__pic`.

    Takes `{"messages": [..]}` and returns `{"messages": [ToolMessage, ..]}`, one per call. A refused call is a message with
    `status="error"`, and stops no other. A missing approval pauses the graph, as for `countersign.adapters.langchain`.

    Raises `ValueError` for a gate that judges no proposals, and `TypeError` for a tool that is gated already.
    """

    def __init__(self, tools: Iterable[BaseTool], gate: Gate, *, server: str | None = None,
                 reruns: Iterable[str] = ()) -> None:
        self._gated = {tool.name: tool for tool in gated_tools(tools, check_gate(gate), server=server, reruns=reruns)}
        self._gate = gate

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"messages": [
            self._message(id, name, self._unknown(id, name) or self._gated[name].run(args, tool_call_id=id, config=config))
            for id, name, args in _calls(input)]}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"messages": [
            self._message(id, name, self._unknown(id, name) or await self._gated[name].arun(args, tool_call_id=id, config=config))
            for id, name, args in _calls(input)]}

    def _unknown(self, id: str, name: str) -> ToolMessage | None:
        """Records the call of a name that the node does not have, and returns its refusal."""
        if name in self._gated:
            return None
        refusal = self._gate.observe({"id": id, "name": name, "arguments": {}})
        if refusal is None:
            refusal = self._gate._refuse(id, name, "the node has no tool of this name", is_reused=False)
        return ToolMessage(text_of(refusal), name=name, tool_call_id=id, status="error",
                           additional_kwargs={"countersign": {"code": refusal.code, "retry": refusal.retry}})

    @staticmethod
    def _message(id: str, name: str, result: Any) -> ToolMessage:
        return result if isinstance(result, ToolMessage) else ToolMessage(str(result), name=name, tool_call_id=id)


def _calls(state: Any) -> list[tuple[str, str, dict[str, Any]]]:
    messages = state.get("messages") if isinstance(state, dict) else None
    if not messages or not isinstance(messages[-1], AIMessage):
        raise ValueError("the state's last message is not one of the model")
    # A call without a proposal brings an empty one, which the gate refuses: the reference's node needs one for every call.
    return [(call["id"] or fresh_id(), call["name"], {"__pic": None, **call["args"]}) for call in messages[-1].tool_calls]
