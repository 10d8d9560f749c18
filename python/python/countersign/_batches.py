"""Checks of event loops, decided together: those that wait share the syncs of their records."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import Executor
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import Call, Gate, _Prepared

    Waiting = tuple[Gate, _Prepared, asyncio.Future[Call]]


class Batches:
    """Checks that wait, and the threads of a pool that decide about them."""

    def __init__(self, pool: Executor, threads: int) -> None:
        self._pool, self._threads = pool, threads
        self._waiting: deque[Waiting] = deque()
        self._lock, self._working = Lock(), 0

    async def check(self, gate: Gate, prepared: _Prepared) -> Call:
        answer: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._working < self._threads:
                self._pool.submit(self._work)
                self._working += 1
            self._waiting.append((gate, prepared, answer))
        return await answer

    def _work(self) -> None:
        while batch := self._take():
            _decide(batch)

    def _take(self) -> list[Waiting]:
        """Takes a fair share of what waits, so that a user check that takes long holds up few others."""
        with self._lock:
            share = -(-len(self._waiting) // self._threads)
            self._working -= not share
            return [self._waiting.popleft() for _ in range(share)]


def _decide(batch: list[Waiting]) -> None:
    gates: dict[int, list[Waiting]] = {}
    for waiting in batch:
        # A call whose caller is cancelled before it is decided is not decided.
        if not waiting[2].cancelled():
            gates.setdefault(id(waiting[0]), []).append(waiting)
    for group in gates.values():
        decided: list[Any]
        try:
            decided = group[0][0]._decide([prepared for _, prepared, _ in group])
        except BaseException as error:
            decided = [error] * len(group)
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Call], Any]]] = {}
        for (_, _, answer), result in zip(group, decided):
            loops.setdefault(answer.get_loop(), []).append((answer, result))
        for loop, answers in loops.items():
            try:
                loop.call_soon_threadsafe(_answer, answers)
            except RuntimeError:
                # The loop is closed: no one waits.
                for _, result in answers:
                    _leave(result)


def _answer(answers: list[tuple[asyncio.Future[Call], Any]]) -> None:
    for answer, result in answers:
        if answer.done():
            _leave(result)
        elif isinstance(result, BaseException):
            answer.set_exception(result)
        else:
            answer.set_result(result)


def _leave(result: Any) -> None:
    if not isinstance(result, BaseException):
        result._abandon()
