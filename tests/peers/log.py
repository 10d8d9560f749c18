"""Verifies a log of the record from its folder and the log's public key alone: none of this project's code.

Usage: log.py FOLDER VKEY [--known NOTE]... [--json]
       log.py --vectors FOLDER

FOLDER holds a log, VKEY is the key of the log in it as C2SP signed-note writes it: `origin+id+key`. Logs in its subfolders are
verified with it. NOTE is a file with a checkpoint that was kept elsewhere. Prints a line for each log and exits with 0; exits with
1 and names the code of the refusal when a log does not verify, and with 2 when it is used wrongly.

With --vectors it judges every log among the vectors in FOLDER, and exits with 1 if it judges one otherwise than is written.

Needs Python 3.10 or newer and the package `cryptography`. Written from docs/log-format.md; `receipt.py` beside it has notes and keys.
"""

import argparse
import base64
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from receipt import LOG, Key, Refused, no_number, open_checkpoint, sha256

MAX_LINE = 65_535
MAX_TAIL = 16 << 20
MAX_LOGS = 1_024
MAX_TIME = 2**53 - 1
SECTOR = 512
SEGMENT = re.compile(r"[0-9]{12,}\.jsonl")
HEAD = re.compile(rb'\{"segment":\{"first":([1-9][0-9]*),"peaks":\[((?:"[0-9a-f]{64}"(?:,"[0-9a-f]{64}")*)?)\]\},"checkpoint":(".*")\}')
ENTRY = re.compile(rb'\{"seq":(0|[1-9][0-9]*),"type":"[a-z]*","time":([0-9]+)')
CHECKPOINT = b'{"checkpoint":'


class Damage(Exception):
    def __init__(self, code, why):
        super().__init__(f"{code}: {why}")
        self.code = code


class Tree:
    """Number of leaves, and the roots of the full subtrees, the largest first."""

    def __init__(self, size=0, peaks=()):
        self.size, self.peaks = size, list(peaks)

    def add(self, line):
        node, size = sha256(b"\x00" + line), self.size
        while size & 1:
            node, size = sha256(b"\x01" + self.peaks.pop() + node), size >> 1
        self.peaks.append(node)
        self.size += 1

    def root(self):
        if not self.peaks:
            return sha256(b"")
        *rest, root = self.peaks
        for peak in reversed(rest):
            root = sha256(b"\x01" + peak + root)
        return root


def read_note(quoted):
    """Decodes the note from a JSON string in its canonical spelling. A note that a log keeps has one signature."""
    try:
        note = json.loads(quoted)
        same = json.dumps(note, ensure_ascii=False).encode() == quoted
    except (ValueError, UnicodeEncodeError):
        return None
    return note if same and note.count("\n") == 5 else None


def read_checkpoint(line):
    return read_note(line[len(CHECKPOINT) : -1]) if line.startswith(CHECKPOINT) and line.endswith(b"}") else None


def signed(note, vkey):
    """Verifies a note that the log signed and returns its number of entries and its root."""
    try:
        return open_checkpoint(note, vkey)
    except Refused as why:
        raise Damage("AUDIT_SIGNATURE", why) from why


def is_entry(line, seq):
    found = ENTRY.match(line)
    whole = found and line.endswith(b"}") and min(line) >= 0x20
    return bool(whole and int(found[1]) == seq and int(found[2]) <= MAX_TIME)


class Log:
    """Reads the segments of one log in order."""

    def __init__(self, folder, vkey, known=()):
        self.folder, self.vkey, self.tree, self.note, self.first = Path(folder), vkey, None, None, None
        self.known = sorted(signed(note, vkey) for note in known)
        self.tail, self.forked = 0, None

    def segments(self):
        numbers = []
        for path in self.folder.iterdir():
            number = int(path.stem) if SEGMENT.fullmatch(path.name) else 0
            if number and path.name == f"{number:012}.jsonl":
                numbers.append(number)
        return sorted(numbers)

    def verify(self):
        segments = self.segments()
        if not segments:
            raise Damage("AUDIT_UNAVAILABLE", "no log in the folder")
        for number in segments:
            self.segment(number, number == segments[-1])
        if self.tree is None:
            raise Damage("AUDIT_UNAVAILABLE", "the only segment was never finished")
        self.require_same()
        if self.known and self.known[-1][0] > self.tree.size:
            raise Damage("AUDIT_ROLLED_BACK", "the log has fewer entries than a known checkpoint counts")
        return self

    def segment(self, number, is_last):
        data = (self.folder / f"{number:012}.jsonl").read_bytes()
        line, newline, _ = data[: MAX_LINE + 1].partition(b"\n")
        head = HEAD.fullmatch(line) if newline else None
        note = read_note(head[3]) if head else None
        if note is None:
            follows = number == (self.tree.size if self.tree else 0) + 1
            if is_last and follows and len(data) <= MAX_LINE and is_torn_head(data, number):
                self.tail += len(data)
                return
            raise Damage("AUDIT_CORRUPT", f"segment {number} has no head")
        self.head(number, int(head[1]), [bytes.fromhex(peak.decode()) for peak in re.findall(rb'"(\w+)"', head[2])], note)
        self.lines(data, len(line) + 1, is_last)

    def head(self, number, first, peaks, note):
        tree = Tree(first - 1, peaks)
        if first != number or len(peaks) != (first - 1).bit_count():
            raise Damage("AUDIT_CORRUPT", f"the head of segment {number} is of another one")
        if note != self.note and signed(note, self.vkey) != (tree.size, tree.root()):
            raise Damage("AUDIT_CORRUPT", f"the head of segment {number} has the checkpoint of another tree")
        if self.tree is None:
            self.first = first
            if self.known and self.known[0][0] < tree.size:
                raise Damage("AUDIT_ARCHIVED", "a known checkpoint is older than the first segment")
            self.compare(tree)
            self.require_same()
        elif self.tree.size != tree.size:
            raise Damage("AUDIT_CORRUPT", f"entries are missing before segment {number}")
        elif self.tree.root() != tree.root():
            raise Damage("AUDIT_FORK", f"segment {number} goes on from another tree")
        elif self.tree.peaks != tree.peaks:
            raise Damage("AUDIT_CORRUPT", f"the peaks of segment {number} are wrong")
        self.tree, self.note = tree, note

    def compare(self, tree):
        """Notes a difference. It is a fork if a checkpoint of the log follows it; before that, the entries may be damaged."""
        for size, root in self.known:
            if size == tree.size and root != tree.root() and self.forked is None:
                self.forked = size

    def require_same(self):
        if self.forked is not None:
            raise Damage("AUDIT_FORK", f"a known checkpoint has another root at {self.forked} entries")

    def lines(self, data, at, is_last):
        """Reads up to the last checkpoint that follows valid lines; the rest is the tail."""
        tree, kept, trouble = Tree(self.tree.size, self.tree.peaks), at, None
        while at < len(data) and trouble is None:
            end = data.find(b"\n", at, at + MAX_LINE + 1)
            if end < 0:
                trouble = Damage("AUDIT_CORRUPT", f"a line at byte {at} is unfinished or too long")
                break
            line, note = data[at:end], None
            try:
                if is_entry(line, tree.size + 1):
                    tree.add(line)
                    self.compare(tree)
                else:
                    note = self.checkpoint(line, tree, at)
            except Damage as damage:
                trouble = damage
                break
            at = end + 1
            if note is not None:
                self.tree, self.note, kept = Tree(tree.size, tree.peaks), note, at
        tail = data[kept:]
        if not tail:
            return
        if not is_last or len(tail) > MAX_TAIL:
            raise trouble or Damage("AUDIT_CORRUPT", "a segment does not end with a checkpoint")
        is_torn = trouble is None or (at < len(data) and data.find(b"\n", at) < 0 and b"\0" not in tail)
        if not Tail(self.tree.size + 1, self.vkey).is_crash(tail, kept) or not (is_torn or b"\0" in tail):
            raise trouble or Damage("AUDIT_CORRUPT", "what follows the last checkpoint was left by no crash")
        self.tail += len(tail)

    def checkpoint(self, line, tree, at):
        note = read_checkpoint(line)
        if note is None:
            raise Damage("AUDIT_CORRUPT", f"the line at byte {at} is none of a log")
        size, root = signed(note, self.vkey)
        if size == self.tree.size or (size, root) != (tree.size, tree.root()):
            raise Damage("AUDIT_CORRUPT", f"the checkpoint at byte {at} is of another tree")
        self.require_same()
        return note


def runs(data):
    """Runs of zeros and of other bytes: whether it is zeros, begin, end, and whether a newline precedes it."""
    for run in re.finditer(rb"\0+|[^\0]+", data):
        yield data[run.start()] == 0, run.start(), run.end(), data[run.start() - 1 : run.start()] == b"\n"


def are_lost_pages(data, start):
    """Whether every run of zeros begins where a page or a batch does, and ends where a page or the file does."""
    is_signed = data.endswith(b'\\n"}\n')
    return all(
        (begin == 0 or (start + begin) % SECTOR == 0 or (newline and not is_signed))
        and (end == len(data) or (start + end) % SECTOR == 0)
        for zeros, begin, end, newline in runs(data)
        if zeros
    )


def begins_line(text, prefix):
    """Whether the text can be the beginning of a line with this prefix."""
    same = all(due == found for due, found in zip(prefix, text))
    whole = json_prefix(text)
    return same and whole is not None and (not whole or text.endswith(b"}"))


def json_prefix(text):
    """True for a whole JSON text, False for the beginning of one, None for neither."""
    value = rb'(?:"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)'
    token = re.compile(value + rb"|[{}\[\],:]")
    open_, at, due = [], 0, "value"
    while at < len(text):
        found = token.match(text, at)
        if not found:
            rest = text[at:]
            string = re.fullmatch(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?:\\(?:u[0-9a-fA-F]{0,3})?)?', rest)
            number = re.fullmatch(rb"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?)?", rest)
            word = any(w.startswith(rest) for w in (b"true", b"false", b"null"))
            fits = (string and due in ("value", "name", "first name", "first value")) or ((number or word) and due in ("value", "first value"))
            return False if fits else None
        part, at = found[0], found.end()
        if due in ("value", "first value") and part in (b"{", b"["):
            open_.append(part)
            due = "first name" if part == b"{" else "first value"
            continue
        if part in (b"}", b"]"):
            closes = open_ and (open_[-1], part) in ((b"{", b"}"), (b"[", b"]"))
            if not closes or due not in ("first name", "first value", "next"):
                return None
            open_.pop()
        elif part == b",":
            if due != "next" or not open_:
                return None
            due = "name" if open_[-1] == b"{" else "value"
            continue
        elif part == b":":
            if due != "colon":
                return None
            due = "value"
            continue
        elif due in ("name", "first name"):
            if not part.startswith(b'"'):
                return None
            due = "colon"
            continue
        elif due not in ("value", "first value"):
            return None
        due = "next"
    return not open_ and due == "next"


class Tail:
    """The lines after the last checkpoint. `due` is the number of the next entry, or its lower bound after a lost page."""

    def __init__(self, due, vkey):
        self.due, self.is_exact, self.vkey = due, True, vkey

    def is_crash(self, data, start):
        lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", data)
        return are_lost_pages(data, start) and all(
            self.takes(line, at == len(lines) - 1) for at, line in enumerate(lines)
        )

    def takes(self, line, is_last):
        ends, text = line.endswith(b"\n"), line.removesuffix(b"\n")
        if any(0 < byte < 0x20 for byte in text):
            return False
        if b"\0" in text:
            begins = self.begins(text.split(b"\0")[0])
            end = text.split(b"\0")[-1]
            self.is_exact = False
            return begins and (not ends or not end or end.endswith(b"}")) and (is_last or self.signed(end) is None)
        if not ends:
            return self.begins(text)
        read = self.due - 1
        if text.startswith(CHECKPOINT):
            size = self.signed(text)
            return is_last and size is not None and (size == read or (not self.is_exact and size > read))
        seq = entry_number(text)
        if seq is None:
            return False
        follows = seq == self.due or (not self.is_exact and seq > self.due)
        self.due, self.is_exact = seq + 1, True
        return follows

    def begins(self, text):
        entry = f'{{"seq":{self.due},'.encode() if self.is_exact else b'{"seq":'
        return not text or begins_line(text, entry) or begins_line(text, CHECKPOINT)

    def signed(self, text):
        note = read_checkpoint(text)
        try:
            return None if note is None else open_checkpoint(note, self.vkey)[0]
        except Refused:
            return None


def entry_number(text):
    try:
        entry = json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError, Refused):
        return None
    found = ENTRY.match(text)
    return int(found[1]) if found and type(entry) is dict else None


def is_torn_head(data, number):
    text, ends = data.removesuffix(b"\n"), data.endswith(b"\n")
    begin = text.split(b"\0")[0]
    prefix = f'{{"segment":{{"first":{number},"peaks":['.encode()
    return (
        are_lost_pages(data, 0)
        and b"\n" not in text
        and (not ends or b"\0" in text)
        and (not begin or begins_line(begin, prefix))
    )


def key_of(vkey, number):
    """Key of a numbered log, derived from the key of the first one."""
    first = Key(vkey, LOG)
    name, material = f"{first.name}/{number}", bytes([LOG]) + first.bytes
    identity = sha256(name.encode() + b"\n" + material)[:4].hex()
    return f"{name}+{identity}+{base64.b64encode(material).decode()}"


def logs(folder, vkey):
    """The logs of a folder, each with its key."""
    numbers = [str(number) for number in range(1, MAX_LOGS + 1) if os.path.lexists(folder / str(number))]
    for number in numbers:
        if (folder / number).is_symlink():
            raise Damage("AUDIT_UNAVAILABLE", f"`{number}` is a link")
    within = [(folder / number, key_of(vkey, number)) for number in numbers if Log(folder / number, vkey).segments()]
    return [(folder, vkey), *within]


def judge_vectors(folder):
    judged, wrong = 0, []
    for path in sorted(folder.glob("*/*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        if vector["kind"] != "log":
            continue
        judged += 1
        with tempfile.TemporaryDirectory() as scratch:
            for name, content in vector["files"].items():
                (Path(scratch) / name).write_bytes(base64.b64decode(content))
            try:
                log = Log(scratch, vector["key"], vector.get("known", ())).verify()
                said = ("ok", log.first, log.tree.size, log.tree.root().hex(), log.tail)
            except Damage as damage:
                said = (damage.code,)
        due = (vector["expect"],)
        if due == ("ok",):
            due = ("ok", vector["first"], vector["size"], vector["root"], vector["tail"])
        if said != due:
            wrong.append((path.name, said))
    return judged, wrong


def main(args):
    if len(args) == 2 and args[0] == "--vectors":
        judged, wrong = judge_vectors(Path(args[1]))
        print(f"{judged} logs judged, {len(wrong)} otherwise than is written {wrong or ''}".rstrip())
        return 1 if wrong or judged == 0 else 0
    usage = argparse.ArgumentParser(usage=__doc__)
    usage.add_argument("folder", type=Path)
    usage.add_argument("vkey")
    usage.add_argument("--known", action="append", default=[], type=Path)
    usage.add_argument("--json", action="store_true")
    given = usage.parse_args(args)
    known = [path.read_text(encoding="utf-8") for path in given.known]
    try:
        for folder, vkey in logs(given.folder, given.vkey):
            origin = Key(vkey, LOG).name
            log = Log(folder, vkey, [note for note in known if note.split("\n")[0] == origin]).verify()
            facts = {"origin": origin, "first": log.first, "size": log.tree.size, "root": log.tree.root().hex(), "tail": log.tail}
            print(json.dumps(facts) if given.json else f"{origin}: entries {log.first} to {log.tree.size} verified, root {facts['root']}")
    except (Damage, Refused) as why:
        print(f"refused: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
