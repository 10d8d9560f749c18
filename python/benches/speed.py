"""Cost of the Python layer, as ratios within one run.

usage: speed.py [--files FOLDER]

The walk of a dict is compared with `json.dumps`; a check from text with the same calls made in Rust; 1,000 checks at once, in
a log that syncs each, with one. The wait of an event loop is measured idle and while the log syncs. `--files` names a folder
with `registry.json`, `root.json`, `log.key`, an agent `bot` and its tool `search`; without it, the last two are left out.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import countersign
from countersign import Countersign, Gate, Log, Rejected
from countersign._native import testing_rust_calls
from countersign.testing import gate

SMALL = {"query": "T-1001", "limit": 5}
KIB = {f"member-{n}": {"text": "line\nof text", "number": n * 1.5, "flags": [True, None, n]} for n in range(14)}


def micros(work: Callable[[], object], rounds: int = 2_000) -> float:
    """Median time of one call, in microseconds, over blocks of calls."""
    blocks = []
    for _ in range(25):
        begin = time.perf_counter_ns()
        for _ in range(rounds // 25):
            work()
        blocks.append((time.perf_counter_ns() - begin) / (rounds // 25) / 1_000)
    return statistics.median(blocks)


def main() -> None:
    it = gate(allow=["search"])
    text = json.dumps(SMALL).encode()
    calls = iter(range(10**9))

    def refuse() -> None:
        try:
            it.check("c1", "nothing", text)
        except Rejected:
            pass

    for name, value in (("2 members", SMALL), ("1 KiB", KIB)):
        walk, dumps, read = (
            micros(lambda: countersign.digest(value)),
            micros(lambda: json.dumps(value)),
            micros(lambda: countersign.digest(json.dumps(value).encode())),
        )
        encoded = json.dumps(value).encode()
        from_text = micros(lambda: countersign.digest(encoded))
        share = max(walk - from_text, 0) / dumps
        print(f"{name}: the walk takes {share:.2f} of json.dumps; digest of the dict {walk:.1f} us, by way of dumps {read:.1f} us")
    accepted = micros(lambda: it.check(f"c{next(calls)}", "search", text).run(dict))
    rust = micros(lambda: testing_rust_calls(it, f"r{next(calls)}-", "search", text, 1))
    print(f"an accepted call from text, run, recorded: {accepted:.1f} us, made in Rust {rust:.1f} us: "
          f"{accepted / rust:.2f} times (goal: 1.5 times + 0.4 us = {1.5 * rust + 0.4:.1f} us)")
    refused, rust = micros(refuse), micros(lambda: testing_rust_calls(it, "c", "nothing", text, 1))
    print(f"a refusal: {refused:.1f} us, made in Rust {rust:.1f} us: {refused - rust:.1f} us more (goal: 1)")
    if "--files" in sys.argv:
        asyncio.run(over_files(Path(sys.argv[sys.argv.index("--files") + 1])))


async def over_files(folder: Path) -> None:
    cs = Countersign.load(folder / "registry.json", folder / "root.json", state=folder / "state")
    log = Log(folder / "log", key=folder / "log.key", origin="example.com/log", durability="group")
    gate = cs.session("bot", session=f"s-{time.time_ns()}", principal="ada", record=log)
    ones = []
    for number in range(30):
        begin = time.perf_counter()
        await gate.acheck(f"one-{number}", "search", "{}")
        ones.append(time.perf_counter() - begin)
    one, before = statistics.median(ones), threading.active_count()
    begin = time.perf_counter()
    await asyncio.gather(*(gate.acheck(f"many-{number}", "search", "{}") for number in range(1_000)))
    many = time.perf_counter() - begin
    begin = time.perf_counter()
    await asyncio.gather(*(nothing() for _ in range(1_000)))
    floor = time.perf_counter() - begin
    print(f"1,000 checks at once in a log that syncs: {many * 1e3:.0f} ms, one {one * 1e3:.2f} ms: {many / one:.1f} times "
          f"(goal: 20; 1,000 awaits of nothing: {floor / one:.1f} times), threads of ours: {threading.active_count() - before} more")
    idle = await lateness(None)
    busy = await lateness(gate)
    print(f"p99 of a 10 ms heartbeat's lateness: idle {idle:.2f} ms, while the log syncs {busy:.2f} ms (goal: idle + 2 ms)")


async def nothing() -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


async def lateness(gate: Gate | None) -> float:
    """99th percentile of how late a beat of 10 ms is, in milliseconds, over 300 beats."""
    stop = asyncio.Event()

    async def load() -> None:
        number = 0
        while gate is not None and not stop.is_set():
            number += 1
            await gate.acheck(f"load-{number}", "search", "{}")

    loads = asyncio.ensure_future(load())
    late = []
    for _ in range(300):
        begin = time.perf_counter()
        await asyncio.sleep(0.01)
        late.append((time.perf_counter() - begin - 0.01) * 1e3)
    stop.set()
    await loads
    return statistics.quantiles(late, n=100)[98]


if __name__ == "__main__":
    main()
