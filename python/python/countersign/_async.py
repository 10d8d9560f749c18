"""The asynchronous half of gates and calls: work that may wait for a disk runs in threads of its own."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Awaitable, Callable

from ._batches import Batches

if TYPE_CHECKING:
    from ._native import Call, Gate

_THREADS = 8
_pools: dict[int, ThreadPoolExecutor] = {}
_batches: dict[int, Batches] = {}


def _pool() -> ThreadPoolExecutor:
    # A forked process cannot use its parent's threads.
    return _pools.get(os.getpid()) or _pools.setdefault(
        os.getpid(), ThreadPoolExecutor(_THREADS, thread_name_prefix="countersign")
    )


async def in_pool(work: Callable[..., Any], *args: Any, left: Callable[[Any], Any] | None = None,
                  ended: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
    """Runs the work in a thread. If the caller is cancelled, `left` gets the result that no one waits for.

    `ended` is called once the work has ended, or will not begin.
    """
    job: Future[Any] = _pool().submit(work, *args, **kwargs)
    if ended is not None:
        job.add_done_callback(lambda _: ended())
    try:
        return await asyncio.wrap_future(job)
    except asyncio.CancelledError:
        if left is not None:
            job.add_done_callback(lambda done: left(done.result()) if not done.cancelled() and not done.exception() else None)
        raise


async def check(gate: Gate, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Call:
    process = os.getpid()
    batches = _batches.get(process) or _batches.setdefault(process, Batches(_pool(), _THREADS))
    return await batches.check(gate, gate._prepare(*args, **(kwargs or {})))


async def run(call: Call, tool: Callable[..., Awaitable[Any]]) -> Any:
    args = await enter(call)
    try:
        result = await tool(**args)
    except BaseException as error:
        await _end(call, "failed" if isinstance(error, Exception) else "unknown")
        raise
    await _end(call, "returned")
    return result


async def enter(call: Call) -> dict[str, Any]:
    args: dict[str, Any] = await in_pool(call._start, left=lambda _: call._abandon())
    return args


async def leave(call: Call, raised: tuple[Any, ...]) -> bool:
    kind = raised[0]
    await _end(call, "returned" if kind is None else "failed" if issubclass(kind, Exception) else "unknown")
    return False


async def _end(call: Call, outcome: str) -> None:
    if outcome == "unknown":
        # A cancelled caller does not wait.
        call._abandon()
    else:
        # The outcome is recorded, also if the caller is cancelled meanwhile.
        await asyncio.shield(in_pool(call._finish, outcome))
