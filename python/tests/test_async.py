"""Event loops, threads, processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import countersign
from countersign import ApprovalRequired, Call, Gate, Rejected
from countersign.testing import gate


async def test_an_async_tool_runs_with_what_was_decided() -> None:
    call = await gate(allow=["search"]).acheck("c1", "search", {"q": 1})

    async def tool(q: int) -> int:
        return q + 1

    assert await call.arun(tool) == 2


async def test_an_async_refusal_is_raised() -> None:
    with pytest.raises(Rejected):
        await gate().acheck("c1", "search", {})


async def test_an_async_context_gives_the_arguments() -> None:
    async with await gate(allow=["search"]).acheck("c1", "search", {"q": 1}) as args:
        assert args == {"q": 1}


async def test_a_cancelled_tool_ends() -> None:
    call = await gate(allow=["search"]).acheck("c1", "search", {})
    started = asyncio.Event()

    async def tool() -> None:
        started.set()
        await asyncio.sleep(60)

    async def run() -> None:
        await call.arun(tool)

    task = asyncio.create_task(run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thousand_checks_at_once() -> None:
    it = gate(allow=["search"])
    calls = await asyncio.gather(*(it.acheck(f"c{n}", "search", {"n": n}) for n in range(1_000)))
    assert len({call.sequence for call in calls}) == 1_000


def test_one_approval_runs_one_of_many_threads() -> None:
    it = gate(approve=["refund"])
    with pytest.raises(ApprovalRequired) as raised:
        it.check("c1", "refund", {})
    token = it.approve(raised.value.request, "bob", 60)

    def attempt(_: int) -> str:
        try:
            it.check("c1", "refund", {}, approval=token).run(dict)
        except Rejected as error:
            return error.code
        return "ran"

    with ThreadPoolExecutor(64) as pool:
        codes = list(pool.map(attempt, range(1_064)))
    assert codes.count("ran") == 1 and set(codes) <= {"ran", "APPROVAL_SPENT", "CALL_ID_REUSED"}


def test_two_loops_share_a_gate() -> None:
    it = gate(allow=["search"])

    async def once(call_id: str) -> Call:
        return await it.acheck(call_id, "search", {})

    assert {asyncio.run(once(call_id)).call_id for call_id in ("c1", "c2")} == {"c1", "c2"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_refused_at_once() -> None:
    it = gate(allow=["search"])
    held = it.check("c1", "search", {})
    child = os.fork()
    if child == 0:
        try:
            it.check("c2", "search", {})
        except Rejected as error:
            os._exit(7 if error.code == "AUDIT_UNAVAILABLE" else 8)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    held.run(dict)


def _decide(_: int) -> str:
    return gate(allow=["search"]).check("c1", "search", {}).name


def test_a_spawned_process_has_gates_of_its_own() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_decide, [1]) == ["search"]


def test_an_exit_with_calls_in_flight_does_not_hang() -> None:
    program = "from countersign.testing import gate; it = gate(allow=['s']); calls = [it.check(str(n), 's', {}) for n in range(9)]"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_a_dropped_call_is_settled() -> None:
    it: Gate = gate(allow=["search"])
    it.check("c1", "search", {})
    countersign.settle()
