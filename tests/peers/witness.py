"""A witness of C2SP tlog-witness that shares no code with this project, and the command line that has it cosign a log.

Usage: witness.py COUNTERSIGN
       witness.py --vectors FOLDER

COUNTERSIGN is the binary. It decides on calls and so makes a log; `audit witness` has its checkpoints cosigned by the
witness here, by several, and by some that are wrong, slow or lie; and receipts under a cosigned checkpoint are verified
by `receipt.py`. Prints one line a check and ends with a count; exits with 1 when one of them does not hold.

With --vectors the witness answers every request among the vectors in FOLDER; exits with 1 if an answer's status is
another than what is written asks for.

Needs Python 3.10 or newer and the package `cryptography`. Written from C2SP tlog-witness, tlog-cosignature, signed-note
and tlog-checkpoint, and RFC 9162 (section 2.1.4.2).
"""

import base64
import datetime
import http.server
import ipaddress
import json
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import receipt as receipts
from checks import check, told
from receipt import DASH, LOG, WITNESS, Key, Refused, from_base64, need, open_note, sha256

COUNTERSIGN = Path(sys.argv[-1]).resolve()
ORIGIN = "log.example/desk"
STATUS = {"ok": 200, "NOTE_MALFORMED": 400, "WITNESS_OLD_SIZE": 400, "WITNESS_UNSIGNED": 403, "WITNESS_UNKNOWN_LOG": 404,
          "WITNESS_CONFLICT": 409, "WITNESS_PROOF": 422}
TIMES = 60


# A witness's checks.


def verify_consistency(first, first_root, second, second_root, path):
    """Verifies as in RFC 9162, section 2.1.4.2, with the rules of C2SP tlog-witness for equal sizes and an empty tree."""
    if first == 0:
        need(not path, "a proof where none is due")
        return
    if first == second:
        need(not path, "a proof where none is due")
        need(first_root == second_root, "two roots of one size")
        return
    path = list(path)
    if first & (first - 1) == 0:
        path.insert(0, first_root)
    need(path, "the proof is empty")
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = path[0]
    for c in path[1:]:
        need(sn != 0, "the proof is too long")
        if fn & 1 or fn == sn:
            fr, sr = sha256(b"\x01" + c + fr), sha256(b"\x01" + c + sr)
            while not fn & 1 and fn != 0:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = sha256(b"\x01" + sr + c)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0, "the proof is too short")
    need(fr == first_root and sr == second_root, "the proof does not hold")


def decimal(text):
    need(text.isascii() and text.isdigit() and len(text) <= 20 and str(int(text)) == text, "no number")
    return int(text)


def without_strangers(note, log):
    """The note with the log's own signature lines only: those of others must be ignored."""
    text, gap, block = note.rpartition("\n\n")
    need(gap and block.endswith("\n"), "no note")
    mine = [line for line in block[:-1].split("\n") if line.startswith(f"{DASH}{log.name} ")]
    known = [line for line in mine if from_base64(line.rpartition(" ")[2], "no base64")[:4] == log.id]
    return text + gap + "".join(f"{line}\n" for line in known)


class Answer(Exception):
    def __init__(self, status, body="", kind="text/plain"):
        self.status, self.body, self.kind = status, body, kind


class KeptWitness:
    """A witness by the rules: the latest checkpoint of each log is saved before the answer."""

    def __init__(self, name, state, logs=()):
        self.name, self.state, self.key, self.lock = name, state, Ed25519PrivateKey.generate(), threading.Lock()
        self.logs = {log.name: log for log in (Key(vkey, LOG) for vkey in logs)}

    def vkey(self):
        material = bytes([WITNESS]) + self.key.public_key().public_bytes_raw()
        digest = sha256(f"{self.name}\n".encode() + material)[:4]
        return f"{self.name}+{digest.hex()}+{base64.b64encode(material).decode()}"

    def latest(self):
        return json.loads(self.state.read_text()) if self.state.exists() else {}

    def cosign(self, text, seconds=None):
        seconds = int(time.time()) if seconds is None else seconds
        signature = self.key.sign(f"cosignature/v1\ntime {seconds}\n{text}".encode())
        identity = bytes.fromhex(self.vkey().split("+")[1])
        return f"{DASH}{self.name} {base64.b64encode(identity + seconds.to_bytes(8, 'big') + signature).decode()}\n"

    def answer(self, body):
        """The status, the content type and the body of the answer."""
        try:
            with self.lock:
                return 200, "text/plain", self.add_checkpoint(body)
        except Answer as answer:
            return answer.status, answer.kind, answer.body
        except Refused as why:
            return 400, "text/plain", f"{why}\n"

    def add_checkpoint(self, body):
        head, gap, note = body.partition("\n\n")
        need(gap, "no empty line")
        old, *proof = head.split("\n")
        need(old.startswith("old ") and len(proof) <= 63, "no old size, or too many hashes")
        old, proof = decimal(old[4:]), [from_base64(line, "no hash") for line in proof]
        need(all(len(entry) == 32 for entry in proof), "no hash")
        log = self.logs.get(note.split("\n", 1)[0])
        if log is None:
            raise Answer(404)
        try:
            text, _ = open_note(without_strangers(note, log), log, ())
        except Refused as why:
            raise Answer(403) from why
        origin, size, root, *extension = text[:-1].split("\n")
        size, root = decimal(size), from_base64(root, "no root")
        need(len(root) == 32 and old <= size, "no checkpoint, or an old size above its own")
        known, known_root = self.latest().get(origin, (0, None))
        if old != known:
            raise Answer(409, f"{known}\n", "text/x.tlog.size")
        known_root = known_root and base64.b64decode(known_root)
        if size == known and known_root not in (None, root):
            raise Answer(409, f"{known}\n", "text/x.tlog.size")
        try:
            verify_consistency(old, known_root, size, root, proof)
        except Refused as why:
            raise Answer(422) from why
        self.keep(origin, size, root)
        return self.cosign(text)

    def keep(self, origin, size, root):
        kept = self.latest() | {origin: (size, base64.b64encode(root).decode())}
        beside = self.state.with_suffix(".new")
        beside.write_text(json.dumps(kept))
        beside.replace(self.state)


# Transport to a witness.


class Server:
    """Serves a witness's answers on this machine, or treats a request with `act`."""

    def __init__(self, answer=None, act=None, tls=None):
        self.bodies = bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode("utf-8")
                bodies.append((self.path, body))
                if act is not None:
                    self.close_connection = True
                    act(self)
                    return
                status, kind, text = answer(body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_port}/witness"
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def olds(self):
        """The first lines of the requests since the last call."""
        asked = [body.split("\n", 1)[0] for _, body in self.bodies]
        self.bodies.clear()
        return asked


def own_certificate(folder):
    """A self-signed certificate."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    certificate = built.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.pem")
    return context


# The desk whose log is witnessed.


class Desk:
    def __init__(self, folder):
        self.folder = folder
        self.run("keys generate --kind ed25519 --out op.key --public-out op.pub")
        self.run("keys trust --threshold 1 --out root.json op.pub")
        self.run(f"keys generate --kind log --origin {ORIGIN} --out log.key --public-out log.vkey")
        tool = {"server": "desk", "name": "search", "impact": "read", "approval": "not_required", "ask": "not_required",
                "args_schema": {"type": "object"}}
        agent = {"agent": "night-shift-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
                 "tools": [{"server": "desk", "name": "search"}]}
        draft = {"format": "countersign-registry-1", "version": 1, "agents": [agent], "tools": [tool]}
        (folder / "draft.json").write_text(json.dumps(draft))
        self.run("registry sign draft.json --key op.key --ttl 30d --out reg.json")
        self.vkey = (folder / "log.vkey").read_text().strip()

    def call(self, line, text=""):
        return subprocess.run([COUNTERSIGN, *line.split()], cwd=self.folder, input=text, capture_output=True,
                              text=True, timeout=TIMES)

    def run(self, line, text=""):
        done = self.call(line, text)
        if done.returncode != 0:
            raise SystemExit(f"countersign {line}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def decide(self, name, calls, log="log"):
        asked = [{"call_id": f"{name}{at}", "tool": "search", "args": {"secret": "hunter2"}} for at in range(calls)]
        self.run(f"check --registry reg.json --trust-root root.json --agent night-shift-bot --record {log} --record-key log.key "
                 f"--record-origin {ORIGIN}", "".join(json.dumps(call) + "\n" for call in asked))

    def witness(self, *witnesses, log="log", more=""):
        given = " ".join(f"--witness {server.url} --witness-key {witness.vkey()}" for server, witness in witnesses)
        return self.call(f"audit witness {log} --key log.vkey {given} {more}")

    def copy(self, old, new):
        """Replaces a log with another and deletes its state. Only a witness detects an attacker who can do both."""
        shutil.rmtree(self.folder / new, ignore_errors=True)
        (self.folder / f"{new}.state").unlink(missing_ok=True)
        shutil.copytree(self.folder / old, self.folder / new)


def refused(name, done, exit_code, code):
    said = done.stderr.splitlines()
    check(name, done.returncode == exit_code and len(said) == 1 and said[0].startswith(f"error {code}: "), done)


def cosigned_by(note, desk, *witnesses):
    """The size of a cosigned note, verified by this code alone, and the number of these witnesses that cosigned it."""
    text, keys = open_note(note, Key(desk.vkey, LOG), [Key(witness.vkey(), WITNESS) for witness in witnesses])
    return int(text.split("\n")[1]), len(keys)


def follows(desk, folder):
    kept = KeptWitness("w1.example", folder / "w1.json", [desk.vkey])
    server = Server(kept.answer)
    one = (server, kept)
    desk.decide("a", 3)
    done = desk.witness(one)
    check("a first checkpoint is cosigned", done.returncode == 0 and done.stderr == "", done)
    check("the note verifies here", cosigned_by(done.stdout, desk, kept) == (8, 1), done.stdout)
    check("the path is the protocol's", server.bodies[0][0] == "/witness/add-checkpoint", server.bodies)
    check("nothing that entries hold is sent", "hunter2" not in str(server.bodies) and "night-shift" not in str(server.bodies))
    check("one request for a log never seen", server.olds() == ["old 0"])

    for calls in (1, 2, 5, 8, 30):
        desk.decide(f"g{calls}-", calls)
        done = desk.witness(one, more="--state state.note")
        size = json.loads((folder / "w1.json").read_text())[ORIGIN][0]
        check(f"a log that grew to {size} is cosigned", done.returncode == 0
              and cosigned_by(done.stdout, desk, kept) == (size, 1), done)
    asked = server.olds()
    check("once more from the witness's size, then from the state's", asked[:2] == ["old 0", "old 8"]
          and len(asked) == 6, asked)
    check("the state is the last note", (folder / "state.note").read_text() == done.stdout)
    done = desk.witness(one, more="--state state.note --out kept.note")
    check("nothing new is cosigned again", done.returncode == 0 and cosigned_by(
        (folder / "kept.note").read_text(), desk, kept)[1] == 1, done)
    desk.run("audit verify log --key log.vkey --checkpoint kept.note")
    return one


def forks(desk, one):
    desk.copy("log", "old")
    desk.decide("b", 2)
    check("the head that is seen", desk.witness(one).returncode == 0)
    desk.copy("log", "seen")
    desk.copy("old", "log")
    refused("an older copy restored whole", desk.witness(one, more="--out never"), 3, "WITNESS_AHEAD")
    desk.decide("c", 2)
    refused("a fork of the same size", desk.witness(one, more="--out never"), 3, "WITNESS_CONFLICT")
    desk.decide("d", 2)
    refused("a fork that grew", desk.witness(one, more="--out never"), 3, "WITNESS_PROOF")
    refused("a fork, by the state", desk.witness(one, more="--state state.note"), 3, "WITNESS_PROOF")
    check("nothing was written", not (desk.folder / "never").exists())
    check("the head that was seen is still followed", desk.witness(one, log="seen").returncode == 0)
    desk.copy("seen", "log")
    check("and as the log again", desk.witness(one, more="--state state.note").returncode == 0)
    desk.copy("old", "log")
    refused("an older copy, by the state", desk.witness(one, more="--state state.note"), 3, "AUDIT_ROLLED_BACK")
    desk.copy("seen", "log")


def strangers(desk, folder, one):
    other = subprocess.run([COUNTERSIGN, *f"keys generate --kind log --origin {ORIGIN} --out o.key "
                            "--public-out o.vkey".split()], cwd=folder, capture_output=True, check=False)
    check("another key of the origin", other.returncode == 0, other)
    another = (folder / "o.vkey").read_text().strip()
    for name, logs, code in (("no log at all", [], "WITNESS_UNKNOWN_LOG"),
                             ("another key of this log", [another], "WITNESS_UNSIGNED")):
        kept = KeptWitness("w2.example", folder / f"{code}.json", logs)
        refused(f"a witness that knows {name}", desk.witness((Server(kept.answer), kept)), 1, code)
        check(f"a witness that knows {name} keeps nothing", not kept.state.exists())
    server, kept = one
    wrong = KeptWitness(kept.name, folder / "none.json", [desk.vkey])
    refused("a witness with another key than said", desk.witness((server, wrong)), 3, "WITNESS_KEY")
    swapped = KeptWitness("w3.example", folder / "none.json", [desk.vkey])
    swapped.key = kept.key
    refused("a witness under another name than said", desk.witness((server, swapped)), 3, "WITNESS_KEY")


def quorums(desk, folder, one):
    others = [KeptWitness(f"q{at}.example", folder / f"q{at}.json", [desk.vkey]) for at in range(2)]
    all_three = [one, *((Server(kept.answer), kept) for kept in others)]
    done = desk.witness(*all_three)
    check("three witnesses", cosigned_by(done.stdout, desk, one[1], *others)[1] == 3, done)
    down = (Server(lambda _: (503, "text/plain", "")), others[1])
    two = [one, all_three[1], down]
    refused("all have to, and one is down", desk.witness(*two, more="--out never"), 1, "WITNESS_QUORUM")
    done = desk.witness(*two, more="--quorum 2 --state several.note")
    check("two of three do, and the third is told of", done.returncode == 0
          and cosigned_by(done.stdout, desk, one[1], *others)[1] == 2
          and done.stderr.startswith("note: WITNESS_STATUS: `q1.example`"), done)
    desk.decide("e", 1)
    for server, _ in all_three:
        server.olds()
    desk.witness(*all_three, more="--state several.note")
    asked = [len(server.olds()) for server, _ in all_three]
    check("who was down is asked where it stands", asked == [1, 1, 2], asked)
    return all_three


def liars(desk, folder):
    kept = KeptWitness("liar.example", folder / "liar.json", [desk.vkey])
    note = desk.run("audit checkpoint log --key log.vkey")
    text = note.rpartition("\n\n")[0] + "\n"
    size = int(text.split("\n")[1])
    older = text.replace(f"\n{size}\n", f"\n{size - 1}\n")
    good = kept.cosign(text)
    flipped = good[:-9] + ("A" if good[-9] != "A" else "B") + good[-8:]
    for name, status, body, exit_code, code in (
        ("says nothing", 200, "", 3, "WITNESS_KEY"),
        ("cosigns another size", 200, kept.cosign(older), 3, "WITNESS_SIGNATURE"),
        ("signs without a time", 200, good.replace(good.split(" ")[2], base64.b64encode(
            bytes.fromhex(kept.vkey().split("+")[1]) + kept.key.sign(text.encode())).decode() + "\n"), 3,
         "WITNESS_SIGNATURE"),
        ("changes a byte", 200, flipped, 3, "WITNESS_SIGNATURE"),
        ("sends the note back", 200, note, 1, "WITNESS_ANSWER"),
        ("sends a page", 200, "<html></html>\n", 1, "WITNESS_ANSWER"),
        ("leaves out the newline", 200, good[:-1], 1, "WITNESS_ANSWER"),
        ("redirects", 301, good, 1, "WITNESS_STATUS"),
        ("cosigns with an error", 500, good, 1, "WITNESS_STATUS"),
        ("never agrees on a size", 409, "1\n", 1, "WITNESS_ANSWER"),
        ("names no size", 409, "one\n", 1, "WITNESS_ANSWER"),
        ("names a size without end", 409, "9" * 1000 + "\n", 1, "WITNESS_ANSWER"),
        ("has seen more", 409, f"{size + 1}\n", 3, "WITNESS_AHEAD"),
        ("cannot read it", 400, "", 1, "WITNESS_MALFORMED"),
    ):
        server = Server(lambda _, said=(status, "text/plain", body): said)
        refused(f"a witness that {name}", desk.witness((server, kept), more="--out never --state never"), exit_code, code)
        check(f"a witness that {name} is asked twice at most", len(server.bodies) <= 2, server.olds())
    moving = iter(range(1, 100))
    server = Server(lambda _: (409, "text/x.tlog.size", f"{next(moving)}\n"))
    refused("a witness that never stands still", desk.witness((server, kept)), 1, "WITNESS_BUSY")
    strange = f"{DASH}else.example {base64.b64encode(bytes(2432)).decode()}\n"
    done = desk.witness((Server(lambda _: (200, "text/plain", strange + good + strange)), kept))
    check("lines of others are left out", done.returncode == 0 and done.stdout == note + good, done)


def slow(desk, folder):
    kept = KeptWitness("slow.example", folder / "slow.json", [desk.vkey])

    def silent(handler):
        handler.rfile.read(1)

    def drips(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            handler.wfile.write(b"a")
            time.sleep(0.05)

    def endless(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            handler.wfile.write(b"a" * 65536)

    def headers(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            handler.wfile.write(b"x: " + b"a" * 1000 + b"\r\n")

    def refusal_without_end(handler):
        handler.wfile.write(b"HTTP/1.1 422 No\r\n\r\n")
        while True:
            handler.wfile.write(b"a" * 65536)

    for name, act, exit_code, codes in (
        ("says nothing in time", silent, 1, ["WITNESS_TIMEOUT"]),
        ("says a byte at a time", drips, 1, ["WITNESS_TIMEOUT"]),
        ("never ends its answer", endless, 1, ["WITNESS_ANSWER"]),
        ("never ends its headers", headers, 1, ["WITNESS_UNREACHABLE"]),
        ("never ends its refusal", refusal_without_end, 3, ["WITNESS_PROOF"]),
        ("hangs up", lambda handler: handler.connection.shutdown(socket.SHUT_RDWR), 1, ["WITNESS_UNREACHABLE"]),
    ):
        done = desk.witness((Server(act=act), kept), more="--timeout 1s --out never")
        code = done.stderr.split(":")[0].removeprefix("error ")
        check(f"a witness that {name}", done.returncode == exit_code and code in codes, done)
    tls = Server(kept.answer, tls=own_certificate(folder))
    refused("a certificate that nobody vouches for", desk.witness((tls, kept)), 1, "WITNESS_UNREACHABLE")
    check("nothing was sent to it", not tls.bodies and not kept.state.exists())
    far = Server(kept.answer)
    far.url = "http://witness.example"
    refused("clear text to another machine", desk.witness((far, kept)), 2, "WITNESS_PLAIN_HTTP")


def proofs(desk, folder, witnesses):
    """Receipts under a cosigned checkpoint, by the command line and by the verifier that shares no code with it."""
    desk.run("audit witness log --key log.vkey --out wide.note " + " ".join(
        f"--witness {server.url} --witness-key {witness.vkey()}" for server, witness in witnesses))
    desk.decide("late", 1)
    desk.run("audit receipt log --key log.vkey --cosigned wide.note --call-id a1 --out a1.receipt")
    data, keys = (folder / "a1.receipt").read_bytes(), [witness.vkey() for _, witness in witnesses]
    given = " ".join(f"--witness {key}" for key in keys)
    desk.run(f"audit verify-receipt a1.receipt --key log.vkey {given}")
    record = receipts.verify(data, desk.vkey, keys, len(keys))
    check("a cosigned receipt holds here too", record["call_id"] == "a1", record)
    tried, missed = receipts.every_byte(data, desk.vkey, keys, len(keys))
    check(f"no byte of it can be changed unseen ({tried} tried)", not missed, missed[:8])
    stranger = KeptWitness("s.example", folder / "s.json").vkey()
    check("nor held for a witness that did not cosign",
          not receipts.holds(data, desk.vkey, [*keys, stranger], len(keys) + 1)
          and receipts.holds(data, desk.vkey, [*keys, stranger], len(keys)))
    check("nor held without the keys of all who signed", not receipts.holds(data, desk.vkey, keys[:1], 1))
    for more, exit_code in ((f"--witness {stranger}", 3), (f"--witness {stranger} --quorum {len(keys)}", 0)):
        done = desk.call(f"audit verify-receipt a1.receipt --key log.vkey {given} {more}")
        check(f"the command line says the same ({exit_code})", done.returncode == exit_code, done)


def judge_vectors(vectors):
    """Number of requests, and those whose answer is not the expected one."""
    judged, wrong = 0, []
    for path in sorted(vectors.glob("*/*.json")):
        vector = json.loads(path.read_text(encoding="utf-8"))
        if vector["kind"] != "add-checkpoint":
            continue
        judged += 1
        with tempfile.TemporaryDirectory() as folder:
            witness = KeptWitness("w.example", Path(folder) / "state.json", [vector["key"]])
            if vector["latest"] is not None:
                text, _ = open_note(vector["latest"], Key(vector["key"], LOG), ())
                origin, size, root, _ = text.split("\n")
                witness.keep(origin, int(size), from_base64(root, "no root"))
            before = witness.latest()
            status, _, said = witness.answer(vector["body"])
            moved = witness.latest() != before
        conflict = f"{before.get(vector['key'].split('+')[0], (0,))[0]}\n"
        if status != STATUS[vector["expect"]] or (status == 409 and said != conflict) or (moved and status != 200):
            wrong.append((path.name, status))
    return judged, wrong


def main():
    if sys.argv[1] == "--vectors":
        judged, wrong = judge_vectors(COUNTERSIGN)
        print(f"{judged} requests judged, {len(wrong)} otherwise than is written {wrong or ''}".rstrip())
        return 1 if wrong or judged == 0 else 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        desk = Desk(folder)
        one = follows(desk, folder)
        forks(desk, one)
        strangers(desk, folder, one)
        witnesses = quorums(desk, folder, one)
        liars(desk, folder)
        slow(desk, folder)
        proofs(desk, folder, witnesses)
    return told()


if __name__ == "__main__":
    if len(sys.argv) != 2 and sys.argv[1:2] != ["--vectors"]:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main())
