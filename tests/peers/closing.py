"""Verifies a folder of logs that was closed, or an archive's manifests: none of this project's code.

Usage: closing.py FOLDER VKEY
       closing.py --archive FOLDER
       closing.py --vectors FOLDER

FOLDER was closed by `audit retire` or `audit rotate-key`, VKEY is the key of its first log as C2SP signed-note writes it: `origin+id+key`. The note's
signature is verified, and every file is held to its sum. With --archive every manifest in FOLDER is held to the files in it; that a manifest is the
log's own, its entry `archived` says. Exits with 0, with 1 and the code of the refusal, and with 2 when it is used wrongly.

With --vectors it judges every closed folder among the vectors in FOLDER, and exits with 1 if it judges one otherwise than is written.

Needs Python 3.10 or newer and the package `cryptography`. Written from docs/log-format.md, sections 12 and 13.
"""

import base64
import hashlib
import json
import os
import re
import sys
import tempfile
import unicodedata
from pathlib import Path

from log import Damage
from receipt import LOG, Key, Refused, open_note

MAX_LOGS = 1_024
OWN = ("closing", "closing.sha256")
DRAWN_AS_NOTHING = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]")


def sha256_of(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_number(name):
    return name.isascii() and name.isdigit() and str(int(name)) == name and 1 <= int(name) <= MAX_LOGS


def escaped(name):
    """Escapes a name as in section 6.1 of docs/log-format.md."""
    hidden = lambda c: unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") or DRAWN_AS_NOTHING.match(c)
    return "".join("\\\\" if c == "\\" else f"\\u{{{ord(c):x}}}" if hidden(c) else c for c in name)


def names_in(folder, prefix=""):
    """Paths within the folder: of the files with a sum, and, escaped, of all others."""
    files, others = [], []
    for entry in os.scandir(os.fsencode(folder)):
        name = entry.name.decode("utf-8", errors="replace")
        is_file, is_folder = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
        if name.encode("utf-8") != entry.name or any(c in name for c in "\n\r\\"):
            others.append(prefix + escaped(name))
        elif is_folder and not prefix and is_number(name):
            inner = names_in(folder / name, f"{name}/")
            files, others = files + inner[0], others + inner[1]
        elif not is_file:
            others.append(prefix + escaped(name))
        elif name != "lock" and not name.endswith((".part", ".side")) and (prefix or name not in OWN):
            files.append(prefix + name)
    return sorted(files), sorted(others)


def sums_of(folder):
    """The expected file of sums."""
    files, others = names_in(folder)
    return "".join([f"{sha256_of(folder / name)}  {name}\n" for name in files] + [f"# no sum: {name}\n" for name in others])


def verify_closing(folder, vkey):
    """Verifies the closing note and returns it."""
    path = folder / "closing"
    if not path.exists():
        raise Damage("AUDIT_UNAVAILABLE", "the folder has no closing note")
    try:
        text, _ = open_note(path.read_text(encoding="utf-8"), Key(vkey, LOG), ())
    except Refused as why:
        raise Damage("AUDIT_SIGNATURE", why) from why
    try:
        note = json.loads(text)
        same = json.dumps(note, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n" == text
    except ValueError:
        note, same = None, False
    if not same or type(note) is not dict or note.get("format") != "countersign-closing-1" or note.get("origin") != Key(vkey, LOG).name:
        raise Damage("AUDIT_CORRUPT", "the closing note is none")
    sums = (folder / "closing.sha256").read_bytes()
    if hashlib.sha256(sums).hexdigest() != note.get("sums"):
        raise Damage("AUDIT_CORRUPT", "the file of sums is another one")
    if sums.decode("utf-8") != sums_of(folder):
        raise Damage("AUDIT_CORRUPT", "a file changed since the folder was closed")
    return note


def verify_manifests(folder):
    """Verifies the sums in each manifest and returns the names of the manifests."""
    names = []
    for path in sorted(folder.glob("archive-*.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != "countersign-archive-1" or path.name != f"archive-{manifest['first']:012}-{manifest['last']:012}.json":
            raise Damage("AUDIT_CORRUPT", f"{path.name} is no manifest")
        for file in manifest["files"]:
            there = folder / file["name"]
            if not there.is_file() or there.stat().st_size != file["bytes"] or sha256_of(there) != file["sha256"]:
                raise Damage("AUDIT_CORRUPT", f"{file['name']} is not as it was archived")
        names.append(f"{path.name} sha-256 {sha256_of(path)}")
    if not names:
        raise Damage("AUDIT_UNAVAILABLE", "the folder has no manifest")
    return names


def judge_vectors(folder):
    judged, wrong = 0, []
    for path in sorted(folder.glob("*/*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        if vector["kind"] != "closing":
            continue
        judged += 1
        with tempfile.TemporaryDirectory() as scratch:
            for name, content in vector["files"].items():
                (Path(scratch) / name).write_bytes(base64.b64decode(content))
            try:
                verify_closing(Path(scratch), vector["key"])
                said = "ok"
            except Damage as damage:
                said = damage.code
        if said != vector["expect"]:
            wrong.append((path.name, said))
    return judged, wrong


def main(args):
    if len(args) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if args[0] == "--vectors":
        judged, wrong = judge_vectors(Path(args[1]))
        print(f"{judged} closed folders judged, {len(wrong)} otherwise than is written {wrong or ''}".rstrip())
        return 1 if wrong or judged == 0 else 0
    try:
        if args[0] == "--archive":
            print("\n".join(verify_manifests(Path(args[1]))))
        else:
            note = verify_closing(Path(args[0]), args[1])
            print(f"{note['origin']}: closed with {note['files']} files, {note['next']} goes on")
    except (Damage, Refused) as why:
        print(f"refused: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
