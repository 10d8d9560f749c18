"""Changes a log in many ways, and holds what `audit verify` says against the independent verifier `log.py`.

Usage: log_differential.py [--cases N] [--seed N] COUNTERSIGN

COUNTERSIGN is the binary; it writes the log. Each case is a copy with some bytes or lines changed, cut, lost or added: verdict, code, number of
entries, root and bytes of the tail have to be the same. Ends with a count; exits with 1 when one case differs, and shows its seed.
"""

import argparse
import base64
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from checks import check, told
from log import Damage, Log
from witness import Desk

SECTOR = 512
SEGMENT = "000000000001.jsonl"


def changed(data, pick):
    """One change of a segment: its kind, and the changed segment."""
    data, at = bytearray(data), pick.randrange(max(0, len(data) - pick.choice([300, 900, 3_000, len(data)])), len(data))
    kind = pick.choice(["bit", "nul", "cut", "page", "zeros behind a cut", "zeros to the end", "line gone", "line twice", "unsigned"])
    sector = at // SECTOR * SECTOR
    lines = bytes(data).splitlines(keepends=True)
    if kind == "bit":
        data[at] ^= 1 << pick.randrange(8)
    elif kind == "nul":
        data[at] = 0
    elif kind == "cut":
        del data[at:]
    elif kind == "page":
        end = min(len(data), sector + SECTOR * pick.randrange(1, 4))
        data[sector:end] = bytes(end - sector)
    elif kind == "zeros behind a cut":
        del data[at:]
        data += bytes(pick.randrange(1, 1_200))
    elif kind == "zeros to the end":
        data[sector:] = bytes(len(data) - sector)
    elif kind == "line gone":
        del lines[pick.randrange(len(lines))]
        data = b"".join(lines)
    elif kind == "line twice":
        lines.insert(pick.randrange(len(lines)), pick.choice(lines))
        data = b"".join(lines)
    else:
        data = b"".join(lines[:-1]) + b'{"seq":'[: pick.randrange(8)]
    return kind, bytes(data)


def of_binary(desk, folder):
    done = desk.call(f"--json audit verify {folder} --key log.vkey")
    said = json.loads(done.stdout)
    if done.returncode != 0:
        return (said["error"]["code"],)
    summary = said["summary"]
    return ("ok", summary["records"], base64.b64decode(summary["root"]).hex(), summary["tail_bytes"])


def of_verifier(desk, folder):
    try:
        log = Log(folder, desk.vkey).verify()
    except Damage as damage:
        return (damage.code,)
    return ("ok", log.tree.size, log.tree.root().hex(), log.tail)


def main(args):
    usage = argparse.ArgumentParser(usage=__doc__)
    usage.add_argument("--cases", type=int, default=600)
    usage.add_argument("--seed", type=int, default=1)
    usage.add_argument("countersign")
    given = usage.parse_args(args)
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        for name in ("a", "b"):
            desk.decide(name, 6)
        desk.decide("c", 6, "log --record-durability system")
        log, copy = desk.folder / "log", desk.folder / "copy"
        check("the log verifies", of_binary(desk, log) == of_verifier(desk, log) and of_binary(desk, log)[0] == "ok", log)
        seen = Counter()
        for case in range(given.cases):
            kind, data = changed((log / SEGMENT).read_bytes(), random.Random(f"{given.seed}-{case}"))
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            (copy / SEGMENT).write_bytes(data)
            binary, verifier = of_binary(desk, copy), of_verifier(desk, copy)
            if binary != verifier:
                check(f"case {case} of seed {given.seed}, {kind}", False, (binary, verifier))
            seen[binary[0]] += 1
        check(f"{given.cases} changed logs: {dict(seen)}", len(seen) > 1, seen)
    return told()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
