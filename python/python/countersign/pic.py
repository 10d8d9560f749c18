"""Action proposals (PIC/1.0) at the two places where the reference package checks them: a LangGraph node, and MCP tools.

The gate judges the proposal that a call carries in the member `__pic` of its arguments, and the tool never sees that member.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._errors import ApprovalRequired, Rejected
from .adapters._shared import Host, check_gate, fresh_id
from .adapters.functions import current_call_id

if TYPE_CHECKING:
    from . import ApprovalRequest, Gate

    # The node needs LangChain. A type checker does not.
    from .adapters.pic_node import PICToolNode

__all__ = ["PICToolNode", "guard"]


def __getattr__(name: str) -> Any:
    if name == "PICToolNode":
        from .adapters.pic_node import PICToolNode

        return PICToolNode
    raise AttributeError(name)


def guard(gate: Gate, *, name: str | None = None, server: str | None = None,
          approver: Callable[[ApprovalRequest], str | None] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator for an MCP tool function, sync or async, that takes its arguments by name.

    The function returns `{"isError": False, "result": ..}`, or `{"isError": True, "error": {"code": .., "message": ..}}` for a
    refused call. A result that has this form already is returned as it is. A tool that raises is on record as failed, and
    returns `PIC_INTERNAL_ERROR`. `approver` is asked for the token of a call that only lacks an approval.

    Raises `ValueError` for a gate that judges no proposals, and `TypeError` for a function that is guarded already.
    """
    host = Host(check_gate(gate), server)

    def decorate(tool: Callable[..., Any]) -> Callable[..., Any]:
        tool_name = name or tool.__name__
        if getattr(tool, "__countersign__", False):
            raise TypeError(f"`{tool_name}` is guarded already")

        def tokens(refusal: ApprovalRequired) -> list[str]:
            token = approver(refusal.request) if approver is not None else None
            if token is None:
                raise refusal
            return [token]

        if inspect.iscoroutinefunction(tool):

            @functools.wraps(tool)
            async def guarded(**args: Any) -> Any:
                call = (current_call_id() or fresh_id(), tool_name, args)
                try:
                    try:
                        return _returned(await host.arun(*call, lambda members: tool(**members)))
                    except ApprovalRequired as refusal:
                        return _returned(await host.arun(*call, lambda members: tool(**members), tokens=tokens(refusal)))
                except Exception as error:
                    return _refused(error)
        else:

            @functools.wraps(tool)
            def guarded(**args: Any) -> Any:
                call = (current_call_id() or fresh_id(), tool_name, args)
                try:
                    try:
                        return _returned(host.run(*call, lambda members: tool(**members)))
                    except ApprovalRequired as refusal:
                        return _returned(host.run(*call, lambda members: tool(**members), tokens=tokens(refusal)))
                except Exception as error:
                    return _refused(error)

        setattr(guarded, "__countersign__", True)
        return guarded

    return decorate


def _returned(result: Any) -> Any:
    is_wrapped = isinstance(result, Mapping) and "isError" in result and ("error" in result or "result" in result)
    return result if is_wrapped else {"isError": False, "result": result}


def _refused(error: Exception) -> dict[str, Any]:
    if isinstance(error, Rejected):
        code, message = error.code, error.message
    else:
        code, message = "PIC_INTERNAL_ERROR", "the tool failed"
    return {"isError": True, "error": {"code": code, "message": message}}
