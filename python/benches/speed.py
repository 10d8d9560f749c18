"""Cost of the Python layer, as ratios within one run.

usage: speed.py

The walk of a dict is compared with `json.dumps`; a check from text with one from a dict.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import countersign
from countersign import Rejected
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
    print(f"an accepted call from text, run, recorded: {accepted:.1f} us; a refusal: {micros(refuse):.1f} us")


if __name__ == "__main__":
    main()
