"""What cases are made of: keys, evidence files, values, proposals, signed evidence. It all follows from the seed."""

import base64
import hashlib
import json
import os
import random

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from ed25519 import unsound_keys
from pic_standard.canonical import canonicalize, intent_digest_hex, sha256_hex

IMPACTS = ["read", "write", "external", "compute", "money", "privacy", "irreversible"]
HIGH = ["money", "privacy", "irreversible"]
FAR, PAST = "2099-01-01T00:00:00Z", "2001-01-01T00:00:00Z"
FILE_BYTES = 5 * 1024 * 1024
PAYLOAD_BYTES = 16 * 1024
PROPOSAL_BYTES = 64_000
ITEMS = 64

# fmt: off
TEXTS = [
    "", " ", "x", "Pay invoice 17", "naïve café", "nai\u0308ve", "日本語のテキスト", "🙂 emoji 🏳️‍🌈", "tab\tline\nend",
    'quote " back \\ slash /',
    "\u0000nul", "\u001f\u007f\u0080", "\u2028\u2029", "\ufeffmark", "\U0010ffff\ue000", "ﬀ ligature", "a" * 300,
    "<script>&amp;", "__proto__",
    "\u202eright to left", "é", "e\u0301", "0", "null", "-1", "Å", "\u212b",
]
# fmt: on
TOOLS = [
    "payments_send",
    "payments.send",
    "files/read",
    "mail",
    "search",
    "Überweisung",
    "tool with blank",
    "t",
    "T",
    "工具",
    "a" * 129,
    "e\u0301",
]
IDS = [
    "invoice",
    "mail_1",
    "cfo",
    "crm:17",
    "ü",
    "id with blank",
    "a",
    "b",
    "1",
    "x" * 80,
    "\u0000",
    "é",
    "e\u0301",
    "Invoice",
    "invoice ",
    "",
]
# fmt: off
NUMBERS = [
    0, 1, -1, 500, 2**31, -(2**31), 2**53 - 1, -(2**53) + 1, 0.0, -0.0, 1.0, 0.1, -0.5, 1e21, 1e20, 1e-7, 1e-6,
    5e-324, 1.7976931348623157e308,
    123456789.125, 1e300, 4.35, 0.000001, 333333333.3333333, 1e23, 9007199254740992.0, 9007199254740994.0,
    2.2250738585072014e-308, 1e16,
]
# fmt: on
NAMES = [
    "amount",
    "to",
    "note",
    "a",
    "b",
    "",
    "é",
    "e\u0301",
    "\ue000",
    "\U0001f600",
    "é\u0000",
    "10",
    "2",
    "A",
    "__proto__",
    "trust",
    "ß",
    "\u007f",
]


class Key:
    """An Ed25519 key pair whose secret is derived from the seed."""

    def __init__(self, seed, name):
        self.private = ed25519.Ed25519PrivateKey.from_private_bytes(
            hashlib.sha256(f"{seed}/key/{name}".encode()).digest()
        )
        self.raw = self.private.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )

    def sign(self, message):
        return base64.b64encode(self.private.sign(message)).decode()

    def hex(self):
        return self.raw.hex()

    def base64(self):
        return base64.b64encode(self.raw).decode()

    def pem(self):
        return _pem(self.private.public_key())

    def fingerprint(self):
        return fingerprint(self.raw)


def fingerprint(raw):
    """A key's fingerprint as in a keyring's revocations: SHA-256 over a label and the key, each preceded by its length."""
    fields = (b"countersign/ed25519-key-1", raw)
    return hashlib.sha256(b"".join(len(field).to_bytes(8, "big") + field for field in fields)).hexdigest()


def _pem(public):
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


class World:
    """The keys and the evidence folder of one run."""

    def __init__(self, seed):
        self.seed = seed
        self.keys = [Key(seed, n) for n in range(12)]
        secret = x25519.X25519PrivateKey.from_private_bytes(hashlib.sha256(f"{seed}/x25519".encode()).digest())
        self.x25519_pem = _pem(secret.public_key())
        self.unsound = unsound_keys(self.keys[0].raw)
        # fmt: off
        self.files = {
            "invoice.txt": b"Invoice 17: 500 EUR\n", "sub/approval.txt": b"Approved by the CFO\r\n",
            "empty.txt": b"", "mark.bin": b"\xef\xbb\xbfmark\r\n\x00",
            "räksmörgås.txt": b"nfc", "with blank.txt": b"blank", "a%20b.txt": b"percent",
            "semi;colon.txt": b"semi", "[b].txt": b"brackets", "co:lon.txt": b"colon",
            ".hidden": b"hidden", "UPPER.TXT": b"upper", "back\\slash.txt": b"backslash", "at@sign.txt": b"at",
            "sub/deep/er/leaf.txt": b"leaf", "no_extension": b"none",
            "hard_1.txt": b"two names", "tail.": b"tail", "com~1.txt": b"tilde", "plus+.txt": b"plus",
            "a,b='c'.txt": b"punctuation", "e\u0301.txt": b"nfd", "日本.txt": b"unicode",
        }
        # fmt: on

    def digest(self, name):
        data = self.files.get(name)
        if data is None:
            data = b"\0" * {"exact.bin": FILE_BYTES, "over.bin": FILE_BYTES + 1}[name]
        return hashlib.sha256(data).hexdigest()

    def write_files(self, suite):
        root = suite / "artifacts"
        for name, data in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for name, size in (("exact.bin", FILE_BYTES), ("over.bin", FILE_BYTES + 1)):
            with open(root / name, "wb") as file:
                file.truncate(size)
        (suite / "outside.txt").write_bytes(self.files["invoice.txt"])
        os.link(root / "hard_1.txt", root / "hard_2.txt")
        (root / "link.txt").symlink_to("invoice.txt")
        (root / "link_out.txt").symlink_to("../outside.txt")
        (root / "link_sub").symlink_to("sub")
        (root / "link_nowhere.txt").symlink_to("nowhere.txt")


def value(rng, depth=0):
    """A JSON value that both sides can canonicalise."""
    kind = rng.randrange(10 if depth < 3 else 6)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 4:
        return rng.choice(TEXTS)
    if kind == 4:
        return rng.choice([True, False, None])
    if kind == 5:
        return rng.randrange(-(10**6), 10**6) / rng.choice([1, 2, 10, 7, 1000])
    if kind < 8:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(NAMES): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def arguments(rng):
    return {rng.choice(NAMES): value(rng) for _ in range(rng.randrange(5))}


def base(rng, impact=None, tool=None, plain=False):
    """A valid proposal without evidence."""
    ids = rng.sample(IDS[:8] if plain else IDS, rng.randrange(1, 5))
    provenance = []
    for name in ids:
        entry = {"id": name, "trust": rng.choice(["untrusted", "untrusted", "trusted"])}
        if rng.random() < 0.4:
            entry["source"] = rng.choice(TEXTS)
        provenance.append(entry)
    claims = [
        {"text": rng.choice(TEXTS), "evidence": [rng.choice(ids + ["not there"]) for _ in range(rng.randrange(4))]}
        for _ in range(rng.randrange(4))
    ]
    return {
        "protocol": "PIC/1.0",
        "intent": rng.choice(TEXTS),
        "impact": impact or rng.choice(IMPACTS),
        "provenance": provenance,
        "claims": claims,
        "action": {
            "tool": tool if tool is not None else rng.choice(TOOLS[:6] if plain else TOOLS),
            "args": arguments(rng),
        },
    }


def ids_of(proposal):
    return [entry["id"] for entry in proposal["provenance"]]


def cite(rng, proposal, name):
    """Adds the id to a claim, so that trust in it counts."""
    if not proposal["claims"]:
        proposal["claims"].append({"text": "backed", "evidence": []})
    rng.choice(proposal["claims"])["evidence"].append(name)


def attestation(proposal, **changes):
    """The attestation object for a proposal. A change to None leaves the member out."""
    # fmt: off
    members = {
        "attestation_version": "PIC-ATT/1.0",
        "tool": proposal["action"]["tool"],
        "impact": proposal["impact"],
        "args_digest": sha256_hex(proposal["action"]["args"]),
        "claims_digest": sha256_hex(proposal["claims"]),
        "provenance_ids": ids_of(proposal),
        "intent_digest": intent_digest_hex(proposal["intent"]),
        "expires_at": FAR,
    }
    # fmt: on
    members.update(changes)
    return {name: member for name, member in members.items() if member is not None}


def json_text(rng, thing):
    """JSON text of a value in one of the spellings that people write."""
    style = rng.randrange(5)
    if style == 0:
        return json.dumps(thing)
    if style == 1:
        return json.dumps(thing, ensure_ascii=False)
    if style == 2:
        return json.dumps(thing, indent=2, ensure_ascii=False)
    if style == 3:
        return json.dumps(thing, separators=(",", ":"))
    return canonicalize(thing).decode()


def signed(name, payload, signature, key_id, rng=None):
    """A signature entry."""
    entry = {
        "id": name,
        "type": "sig",
        "ref": "inline:attestation",
        "payload": payload,
        "alg": "ed25519",
        "signature": signature,
        "key_id": key_id,
    }
    if rng and rng.random() < 0.2:
        entry["signer"] = rng.choice(TEXTS)
    if rng and rng.random() < 0.1:
        entry["attestor"] = rng.choice(TEXTS)
    return entry


def canonical_entry(rng, proposal, key, key_id, name, **changes):
    members = attestation(proposal, **changes)
    if rng.random() < 0.3:
        members.pop("intent_digest", None)
    if rng.random() < 0.3:
        members.pop("expires_at", None)
    names = list(members)
    rng.shuffle(names)
    members = {member: members[member] for member in names}
    return signed(name, json_text(rng, members), key.sign(canonicalize(members)), key_id, rng)


def legacy_entry(rng, key, key_id, name, payload="approved: 17"):
    return signed(name, payload, key.sign(payload.encode()), key_id, rng)


def hash_entry(world, rng, name, file="invoice.txt", reference=None, sha256=None):
    entry = {
        "id": name,
        "type": "hash",
        "ref": reference or f"file://{file}",
        "sha256": sha256 or world.digest(file),
    }
    if rng.random() < 0.15:
        entry["attestor"] = rng.choice(TEXTS)
    return entry


class Case:
    """A case under construction. `text` replaces the proposal's JSON text if the exact text matters."""

    def __init__(self, world, rng, family):
        self.world, self.rng, self.family = world, rng, family
        self.proposal = None
        self.text = None
        self.options = {}
        self.keyring = None
        self.keyring_text = None
        self.extra = {}

    def evidence_on(self, root="conformance/artifacts"):
        self.options["verify_evidence"] = True
        self.options["evidence_root_dir"] = root
        return self

    def trust(self, key=0, key_id="k"):
        """Adds one of the run's keys to the keyring."""
        if self.keyring is None:
            self.keyring = {"trusted_keys": {}}
        self.keyring["trusted_keys"][key_id] = self.world.keys[key].base64()
        return self.world.keys[key]

    def backed(self, impact=None, mode=None, tool=None, plain=False):
        """A proposal whose evidence verifies and supports its claims, with evidence verification on."""
        rng = self.rng
        self.proposal = proposal = base(rng, impact, tool, plain)
        self.evidence_on()
        name = rng.choice(ids_of(proposal))
        cite(rng, proposal, name)
        key = self.trust()
        if (mode or rng.choice(["canonical", "canonical", "legacy"])) == "canonical":
            proposal["evidence"] = [canonical_entry(rng, proposal, key, "k", name)]
        else:
            proposal["evidence"] = [
                legacy_entry(
                    rng,
                    key,
                    "k",
                    name,
                    rng.choice(["approved: 17", "", '["a", 1]', '{"approved": true}', "17", "ünï"]),
                )
            ]
        return self

    def clean(self):
        """Whether a vector file can hold the proposal as a JSON value."""
        try:
            text = json.dumps(self.proposal, ensure_ascii=False, allow_nan=False)
            text.encode()
            canonicalize(self.proposal)
        except (ValueError, RecursionError, TypeError):
            return False
        return len(text) < 20_000

    def vector(self, name):
        """The vector file's content, without the expected result."""
        options = dict(self.options)
        vector = {"id": name, "mode": "evidence" if options.get("verify_evidence") else "core", "options": options}
        if self.text is not None:
            vector["proposal_text"] = self.text
        elif self.proposal is not None:
            if isinstance(self.proposal, dict) and self.clean() and self.rng.random() < 0.4:
                vector["proposal"] = self.proposal
            else:
                vector["proposal_text"] = as_text(self.proposal)
        if self.keyring_text is not None:
            vector["keyring_text"] = self.keyring_text
        elif self.keyring is not None:
            vector["embedded_keyring"] = self.keyring
        elif options.get("verify_evidence"):
            vector["embedded_keyring"] = {"trusted_keys": {}}
        vector.update(self.extra)
        vector["tags"] = [self.family]
        return vector


def as_text(thing):
    """The text whose size the reference measures; escaped if it is not UTF-8."""
    text = json.dumps(thing, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(thing)
    return text


def rng_for(*parts):
    return random.Random("/".join(map(str, parts)))
