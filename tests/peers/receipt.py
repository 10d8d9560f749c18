"""Verifies a receipt of the record with the log's public key alone: no connection, none of this project's code.

Usage: receipt.py RECEIPT VKEY [--witness VKEY]... [--quorum N] [--every-byte]
       receipt.py --vectors FOLDER

RECEIPT is a file, VKEY the log's key as C2SP signed-note writes it: `origin+id+key`. Prints the record's call, tool and
verdict, or for another kind of record its type, and exits with 0; exits with 1 and says why when anything is not as it
has to be, and with 2 when it is used wrongly.

A checkpoint may be cosigned, by witnesses whose keys are all given: a signature of anybody else is refused, since it
could be changed unseen. N of the witnesses have to have cosigned; all that are given, without --quorum.

With --every-byte it then changes every byte of the receipt in three ways, and exits with 1 if one of them verifies. With
--vectors it judges every receipt among the vectors in FOLDER, and exits with 1 if it judges one otherwise than is written.

Needs Python 3.10 or newer and the package `cryptography`. Written from RFC 9162 (section 2.1.3.2), C2SP signed-note,
C2SP tlog-checkpoint and C2SP tlog-cosignature. Of a record's members, those that are printed are looked at, and no more.
"""

import argparse
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
MAX_NOTE_BYTES = 256 << 10
MAX_SIGNATURES = 100
LOG, WITNESS = 0x01, 0x04
DASH = "\u2014 "
KINDS = (
    *("decision", "outcome", "session", "server", "gateway"),
    *("recovered", "standing", "answer", "refused", "signal", "began", "archived", "end", "gap"),
)


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


class Key:
    """A key in the form of C2SP signed-note, `name+id+key`: of a log, or of a witness."""

    def __init__(self, vkey, kind):
        parts = vkey.split("+", 2)
        need(len(parts) == 3, "the key is not `name+id+key`")
        self.name, identity, material = parts[0], parts[1], from_base64(parts[2], "the key is not base64")
        need(self.name and not any(c.isspace() for c in self.name), "the key has no name")
        need(len(material) == 33 and material[0] == kind, "unsupported key algorithm")
        self.id, self.kind, self.bytes = sha256(self.name.encode() + b"\n" + material)[:4], kind, material[1:]
        need(self.id.hex() == identity, "the key's id is not that of its name and bytes")

    def signed(self, text, signature):
        """Verifies a signature on a text and returns the time that a witness states."""
        seconds = None
        if self.kind == WITNESS:
            need(len(signature) == 72, "a cosignature is too short or too long")
            seconds, signature = int.from_bytes(signature[:8], "big"), signature[8:]
            need(seconds < 2**63, "the time of a cosignature is out of range")
            text = f"cosignature/v1\ntime {seconds}\n{text}"
        try:
            Ed25519PublicKey.from_public_bytes(self.bytes).verify(signature, text.encode("utf-8"))
        except InvalidSignature as error:
            raise Refused("a signature does not verify") from error
        return seconds


def read_receipt(data):
    """Reads the members from bytes that are their canonical JSON (RFC 8785). Whitespace may follow."""
    need(len(data) <= MAX_BYTES, "the receipt is too long")
    try:
        text = data.decode("utf-8").rstrip(" \t\r\n")
        value = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Refused("the receipt is not JSON") from error
    need(type(value) is dict and value.keys() == MEMBERS.keys(), "the receipt has other members than it should")
    need(all(type(value[name]) is kind for name, kind in MEMBERS.items()), "a member is of another type")
    need(all(type(entry) is str for entry in value["proof"]), "the proof holds something else than hashes")
    # All names are ASCII and the only number is an integer, so this is the form of RFC 8785.
    canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    need(canonical == text, "the receipt is not in its one spelling")
    need(value["receipt"] == "countersign-receipt-1", "the receipt is of another form")
    need(0 <= value["index"] < 2**53, "the index is out of range")
    return value


def signer(line, text, keys):
    """The key that signed the text in that line, and the time that the signature states."""
    name, gap, signature = line.removeprefix(DASH).partition(" ")
    need(line.startswith(DASH) and gap, "a signature line is none")
    signature = from_base64(signature, "a signature is not base64")
    known = [key for key in keys if key.name == name and key.id == signature[:4]]
    need(len(known) == 1, "the note has a signature of nobody known")
    return known[0].kind, known[0].name, known[0].bytes, known[0].signed(text, signature[4:])


def open_note(note, log, witnesses):
    """The text that the log signed, and the public keys of the witnesses that cosigned it."""
    need(len(note.encode("utf-8")) <= MAX_NOTE_BYTES, "the note is too long")
    need(all(c >= " " or c == "\n" for c in note), "the note has control characters")
    text, gap, block = note.rpartition("\n\n")
    need(gap and block.endswith("\n"), "the note is not a text and signatures")
    text, lines = text + "\n", block[:-1].split("\n")
    need(len(lines) <= MAX_SIGNATURES, "the note has too many signatures")
    signers = [signer(line, text, [log, *witnesses]) for line in lines]
    need(len(set(signers)) == len(signers), "the note has a signature twice")
    need(any(kind == LOG for kind, _, _, _ in signers), "the note is not signed by the log")
    return text, {key for kind, _, key, _ in signers if kind == WITNESS}


def open_checkpoint(note, vkey, witnesses=(), quorum=0):
    """The size and the root that the log signed and that at least `quorum` witnesses cosigned."""
    log, witnesses = Key(vkey, LOG), [Key(witness, WITNESS) for witness in dict.fromkeys(witnesses)]
    text, cosigned = open_note(note, log, witnesses)
    need(len(cosigned) >= quorum, "too few witnesses cosigned")
    origin = log.name
    lines = text.split("\n")
    need(len(lines) == 4 and lines[3] == "", "the checkpoint is not three lines")
    need(lines[0] == origin, "the checkpoint belongs to another log")
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
    need(r == root, "root mismatch: the proof leads to another root")


def members_once(pairs):
    members = dict(pairs)
    need(len(members) == len(pairs), "the record says something twice")
    return members


def no_number(_):
    raise Refused("the record is not JSON")


def read_record(line):
    """The record of a line. A text with more than one reading in JSON is refused."""
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


def verify(data, vkey, witnesses=(), quorum=0):
    """Verifies a receipt and returns its record."""
    receipt = read_receipt(data)
    size, root = open_checkpoint(receipt["checkpoint"], vkey, witnesses, quorum)
    path = [from_base64(entry, "a hash is not base64") for entry in receipt["proof"]]
    need(all(len(entry) == 32 for entry in path), "a hash has not 32 bytes")
    leaf = sha256(b"\x00" + receipt["record"].encode("utf-8"))
    verify_inclusion(leaf, receipt["index"], size, path, root)
    record = read_record(receipt["record"])
    need(type(record.get("seq")) is int and record["seq"] == receipt["index"] + 1, "the record is of another place")
    return record


def describe(record):
    """Lines of plain ASCII; the agent's texts are escaped."""
    yield f"record {record['seq']}: {json.dumps(record['type'])}"
    if record["type"] == "decision":
        yield f"call: {json.dumps(record['call_id'])}"
        yield f"tool: {json.dumps(record['tool']['server'])} {json.dumps(record['tool']['name'])}"
        yield f"verdict: {record['verdict']}"
        for name in ("code", "registry_version", "ask", "plan", "plan_step", "approval"):
            if name in record:
                yield f"{name}: {json.dumps(record[name])}"
        if "observed" in record:
            yield f"observed: {json.dumps(record['observed'])}"
        for other in record.get("co_approvals", []):
            yield f"approval: {json.dumps(other.get('approval'))}"
        for piece in record.get("proposal", {}).get("evidence", []):
            yield f"evidence: {json.dumps(piece.get('id'))} {json.dumps(piece.get('digest'))}"


def holds(data, *known):
    try:
        verify(data, *known)
    except Refused:
        return False
    return True


def every_byte(data, *known):
    """Changes every byte. Returns the number of changes, and the positions of those that were accepted."""
    tried, missed = 0, []
    for at, byte in enumerate(data):
        for other in (byte ^ 0x01, byte ^ 0x20, (byte + 13) % 256):
            tried += 1
            if holds(data[:at] + bytes([other]) + data[at + 1 :], *known):
                missed.append(at)
    return tried, missed


def judge_vectors(folder):
    """Number of vectors, and names of those whose verdict is not the expected one."""
    judged, wrong = 0, []
    for path in sorted(folder.glob("*/*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        if vector["kind"] == "receipt":
            judged += 1
            known = (vector["key"], vector.get("witnesses", ()), vector.get("quorum", 0))
            if holds(vector["receipt"].encode("utf-8"), *known) != (vector["expect"] == "ok"):
                wrong.append(path.name)
    return judged, wrong


def main(args):
    if len(args) == 2 and args[0] == "--vectors":
        judged, wrong = judge_vectors(Path(args[1]))
        print(f"{judged} receipts judged, {len(wrong)} otherwise than is written {wrong or ''}".rstrip())
        return 1 if wrong or judged == 0 else 0
    usage = argparse.ArgumentParser(usage=__doc__)
    usage.add_argument("receipt", type=Path)
    usage.add_argument("vkey")
    usage.add_argument("--witness", action="append", default=[])
    usage.add_argument("--quorum", type=int)
    usage.add_argument("--every-byte", action="store_true")
    given = usage.parse_args(args)
    quorum = len(set(given.witness)) if given.quorum is None else given.quorum
    data, known = given.receipt.read_bytes(), (given.vkey, given.witness, quorum)
    try:
        record = verify(data, *known)
    except Refused as why:
        print(f"refused: {why}", file=sys.stderr)
        return 1
    print("\n".join(describe(record)))
    if given.every_byte:
        tried, missed = every_byte(data, *known)
        print(f"{tried} changes of one byte, {len(missed)} not noticed {missed[:8] or ''}".rstrip())
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
