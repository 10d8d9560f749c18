"""Verifies a receipt of the record with the log's public key alone: no connection, none of this project's code.

Usage: receipt.py RECEIPT VKEY [--every-byte]
       receipt.py --vectors FOLDER

RECEIPT is a file, VKEY the log's key as C2SP signed-note writes it: `origin+id+key`. Prints the record's call, tool and
verdict, or for another kind of record its type, and exits with 0; exits with 1 and says why when anything is not as it
has to be, and with 2 when it is used wrongly.

With --every-byte it then changes every byte of the receipt in three ways, and exits with 1 if one of them verifies. With
--vectors it judges every receipt among the vectors in FOLDER, and exits with 1 if it judges one otherwise than is written.

Needs Python 3.10 or newer and the package `cryptography`. Written from RFC 9162 (section 2.1.3.2), C2SP signed-note and
C2SP tlog-checkpoint. A checkpoint that witnesses signed as well is refused: their keys are not known here. Of a record's
members, those that are printed are looked at, and no more.
"""

import base64
import binascii
import hashlib
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MEMBERS = {"checkpoint": str, "index": int, "proof": list, "receipt": str, "record": str}
MAX_BYTES = 1 << 20
DASH = "\u2014 "
KINDS = ("decision", "outcome", "session", "gateway", "recovered", "standing")


class Refused(Exception):
    pass


def need(holds, why):
    if not holds:
        raise Refused(why)


def sha256(data):
    return hashlib.sha256(data).digest()


def from_base64(text, why):
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(why) from error
    need(base64.b64encode(data).decode() == text, why)
    return data


def read_key(vkey):
    """The origin, the four bytes of the id and the public key."""
    parts = vkey.split("+", 2)
    need(len(parts) == 3, "the key is not `origin+id+key`")
    origin, identity, material = parts[0], parts[1], from_base64(parts[2], "the key is not base64")
    need(origin and not any(c.isspace() for c in origin), "the key has no name")
    need(len(material) == 33 and material[0] == 0x01, "the key is no Ed25519 key of a log")
    digest = sha256(origin.encode() + b"\n" + material)[:4]
    need(digest.hex() == identity, "the key's id is not that of its name and bytes")
    return origin, digest, Ed25519PublicKey.from_public_bytes(material[1:])


def read_receipt(data):
    """The members, of bytes that are their canonical JSON (RFC 8785) and one newline."""
    need(len(data) <= MAX_BYTES, "the receipt is too long")
    try:
        text = data.decode("utf-8")
        value = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Refused("the receipt is not JSON") from error
    need(type(value) is dict and value.keys() == MEMBERS.keys(), "the receipt has other members than it should")
    need(all(type(value[name]) is kind for name, kind in MEMBERS.items()), "a member is of another type")
    need(all(type(entry) is str for entry in value["proof"]), "the proof holds something else than hashes")
    # All names are ASCII and the only number is whole, so that this is what RFC 8785 says.
    canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    need(canonical + "\n" == text, "the receipt is not in its one spelling")
    need(value["receipt"] == "countersign-receipt-1", "the receipt is of another form")
    need(0 <= value["index"] < 2**53, "the index is out of range")
    return value


def open_checkpoint(note, vkey):
    """The size and the root that the log signed, of a note with no other signature."""
    origin, identity, key = read_key(vkey)
    need(all(c >= " " or c == "\n" for c in note), "the note has control characters")
    text, gap, line = note.rpartition("\n\n")
    need(gap and line.endswith("\n") and line.count("\n") == 1, "the note has not exactly one signature")
    need(line.startswith(DASH + origin + " "), "the note is not signed under the log's name")
    signed = from_base64(line[len(DASH + origin + " ") : -1], "the signature is not base64")
    need(signed[:4] == identity and len(signed) == 68, "the note is not signed by the log's key")
    text += "\n"
    try:
        key.verify(signed[4:], text.encode("utf-8"))
    except InvalidSignature as error:
        raise Refused("the signature does not verify") from error
    lines = text.split("\n")
    need(len(lines) == 4 and lines[3] == "", "the checkpoint is not three lines")
    need(lines[0] == origin, "the checkpoint is of another log")
    size = lines[1]
    need(size.isascii() and size.isdigit() and len(size) <= 20 and str(int(size)) == size, "the size is no number")
    root = from_base64(lines[2], "the root is not base64")
    need(len(root) == 32 and int(size) <= 2**63, "the checkpoint is of no tree")
    return int(size), root


def verify_inclusion(leaf, index, size, path, root):
    """RFC 9162, section 2.1.3.2."""
    need(index < size, "the tree has no leaf of that index")
    fn, sn, r = index, size - 1, leaf
    for p in path:
        need(sn != 0, "the proof is too long")
        if fn & 1 or fn == sn:
            r = sha256(b"\x01" + p + r)
            while not fn & 1 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = sha256(b"\x01" + r + p)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0, "the proof is too short")
    need(r == root, "the proof does not lead to the root")


def members_once(pairs):
    members = dict(pairs)
    need(len(members) == len(pairs), "the record says something twice")
    return members


def no_number(_):
    raise Refused("the record is not JSON")


def read_record(line):
    """The record of a line: what a reader of JSON could take for one thing or another is refused."""
    try:
        record = json.loads(line, object_pairs_hook=members_once, parse_constant=no_number, parse_float=no_number)
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Refused("the record is not JSON") from error
    need(type(record) is dict and record.get("type") in KINDS, "the record is none")
    if record["type"] == "decision":
        tool, proposal = record.get("tool"), record.get("proposal", {})
        need(type(tool) is dict and all(type(tool.get(name)) is str for name in ("server", "name")), "the tool is none")
        need(type(record.get("call_id")) is str, "the decision is of no call")
        need(record.get("verdict") in ("accept", "reject"), "the decision has no verdict")
        need(type(proposal) is dict and type(proposal.get("evidence", [])) is list, "the proposal is none")
        need(all(type(piece) is dict for piece in proposal.get("evidence", [])), "the evidence is none")
    return record


def verify(data, vkey):
    """The record of a receipt that holds."""
    receipt = read_receipt(data)
    size, root = open_checkpoint(receipt["checkpoint"], vkey)
    path = [from_base64(entry, "a hash is not base64") for entry in receipt["proof"]]
    need(all(len(entry) == 32 for entry in path), "a hash has not 32 bytes")
    leaf = sha256(b"\x00" + receipt["record"].encode("utf-8"))
    verify_inclusion(leaf, receipt["index"], size, path, root)
    record = read_record(receipt["record"])
    need(type(record.get("seq")) is int and record["seq"] == receipt["index"] + 1, "the record is of another place")
    return record


def describe(record):
    """Lines of plain ASCII, whatever the agent called things."""
    yield f"record {record['seq']}: {json.dumps(record['type'])}"
    if record["type"] == "decision":
        yield f"call: {json.dumps(record['call_id'])}"
        yield f"tool: {json.dumps(record['tool']['server'])} {json.dumps(record['tool']['name'])}"
        yield f"verdict: {record['verdict']}"
        for name in ("code", "registry_version", "ask", "plan", "plan_step", "approval"):
            if name in record:
                yield f"{name}: {json.dumps(record[name])}"
        for piece in record.get("proposal", {}).get("evidence", []):
            yield f"evidence: {json.dumps(piece.get('id'))} {json.dumps(piece.get('digest'))}"


def holds(data, vkey):
    try:
        verify(data, vkey)
    except Refused:
        return False
    return True


def every_byte(data, vkey):
    """How many changes were tried, and where one was not noticed."""
    tried, missed = 0, []
    for at, byte in enumerate(data):
        for other in (byte ^ 0x01, byte ^ 0x20, (byte + 13) % 256):
            tried += 1
            if holds(data[:at] + bytes([other]) + data[at + 1 :], vkey):
                missed.append(at)
    return tried, missed


def judge_vectors(folder):
    """How many vectors there are, and which are judged otherwise than is written."""
    judged, wrong = 0, []
    for path in sorted(folder.glob("*/*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        if vector["kind"] == "receipt" and not vector.get("witnesses"):
            judged += 1
            if holds(vector["receipt"].encode("utf-8"), vector["key"]) != (vector["expect"] == "ok"):
                wrong.append(path.name)
    return judged, wrong


def main(args):
    if len(args) == 2 and args[0] == "--vectors":
        judged, wrong = judge_vectors(Path(args[1]))
        print(f"{judged} receipts judged, {len(wrong)} otherwise than is written {wrong or ''}".rstrip())
        return 1 if wrong or judged == 0 else 0
    whole = args[2:] == ["--every-byte"]
    if len(args) != 2 and not whole:
        print(__doc__, file=sys.stderr)
        return 2
    data, vkey = Path(args[0]).read_bytes(), args[1]
    try:
        record = verify(data, vkey)
    except Refused as why:
        print(f"refused: {why}", file=sys.stderr)
        return 1
    print("\n".join(describe(record)))
    if whole:
        tried, missed = every_byte(data, vkey)
        print(f"{tried} changes of one byte, {len(missed)} not noticed {missed[:8] or ''}".rstrip())
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
