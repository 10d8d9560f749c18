"""Plain functions: `@gated(gate)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._shared import Host, fresh_id

if TYPE_CHECKING:
    from countersign import Gate

F = TypeVar("F", bound=Callable[..., Any])

_call_id: ContextVar[str | None] = ContextVar("countersign_call_id", default=None)


@contextmanager
def call_id(id: str) -> Iterator[None]:
    """Sets the id of the next gated call: the id that a model gave, or that of a call that was approved meanwhile."""
    outer = _call_id.set(id)
    try:
        yield
    finally:
        _call_id.reset(outer)


def current_call_id() -> str | None:
    """Returns the id that `call_id` set, once: a call inside the tool is another one."""
    id = _call_id.get()
    _call_id.set(None)
    return id


def gated(gate: Gate, *, name: str | None = None, server: str | None = None) -> Callable[[F], F]:
    """Returns a decorator: the function runs only if the gate accepts the call, and raises `Rejected` otherwise.

    The name is the function's own unless `name` is given. Arguments must be JSON values. Raises `TypeError` for a function
    that is gated already, or whose arguments have no names.
    """
    host = Host(gate, server)

    def decorate(tool: F) -> F:
        tool_name, signature = name or tool.__name__, inspect.signature(tool)
        if getattr(tool, "__countersign__", False):
            raise TypeError(f"`{tool_name}` is gated already")
        if inspect.isgeneratorfunction(tool) or inspect.isasyncgenfunction(tool):
            raise TypeError(f"`{tool_name}` is a generator, which has no single result")
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if kinds & {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            raise TypeError(f"`{tool_name}` takes arguments without names")

        def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
            members: dict[str, Any] = {}
            for key, value in signature.bind(*args, **kwargs).arguments.items():
                is_rest = signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD
                members.update(value if is_rest else {key: value})
            return current_call_id() or fresh_id(), tool_name, members

        if inspect.iscoroutinefunction(tool):

            @functools.wraps(tool)
            async def gated_tool(*args: Any, **kwargs: Any) -> Any:
                return await host.arun(*call(args, kwargs), lambda members: tool(**members))
        else:

            @functools.wraps(tool)
            def gated_tool(*args: Any, **kwargs: Any) -> Any:
                return host.run(*call(args, kwargs), lambda members: tool(**members))

        setattr(gated_tool, "__countersign__", True)
        return cast(F, gated_tool)

    return decorate
