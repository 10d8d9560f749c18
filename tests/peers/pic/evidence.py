"""The families of cases about evidence: files, signatures, payloads, attestations."""

import base64
import hashlib
import json
import sys

from pic_standard.canonical import canonicalize

import texts
from material import (
    FAR,
    IDS,
    IMPACTS,
    PAST,
    TOOLS,
    arguments,
    attestation,
    hash_entry,
    ids_of,
    json_text,
    legacy_entry,
    signed,
    value,
)

# fmt: off
REFERENCES = [
    "file://invoice.txt", "file://sub/approval.txt", "file://./invoice.txt", "file://sub/../invoice.txt",
    "file://../invoice.txt", "file://../outside.txt", "file:///etc/hostname",
    "file:///invoice.txt", "file:///{root}/invoice.txt", "file://{root}/invoice.txt", "file:invoice.txt",
    "file:/invoice.txt", "FILE://invoice.txt", "File://invoice.txt",
    "invoice.txt", "", "file://", "file:///", "file://.", "file://..", "file://sub", "file://sub/",
    "file://nowhere.txt", "http://invoice.txt", "https://example.org/invoice.txt",
    "data:text/plain,Invoice", "inline:invoice.txt", " file://invoice.txt", "file://invoice.txt ",
    "file:// invoice.txt", "file://invoice.txt?", "file://invoice.txt?a=b",
    "file://invoice.txt#", "file://invoice.txt#part", "file://invoice.txt;v=1", "file://sub//approval.txt",
    "file://sub/./approval.txt", "file://sub/../sub/approval.txt",
    "file://sub\\approval.txt", "file://sub%2Fapproval.txt", "file://invoice%2Etxt", "file://%69nvoice.txt",
    "file://invoice.txt\u0000", "file://invoice\u0000.txt", "file://inv\noice.txt",
    "file://invoice.txt\n", "file://\tinvoice.txt", "file://localhost/invoice.txt", "file://user@host/invoice.txt",
    "file://user:pass@invoice.txt", "file://invoice.txt:80", "file://C:/invoice.txt",
    "file:///C:/invoice.txt", "file://~/invoice.txt", "file://$HOME/invoice.txt", "file:////invoice.txt",
    "file://invoice.txt/", "file://invoice.txt/.", "file://Invoice.txt", "file://INVOICE.TXT",
    "file://räksmörgås.txt", "file://ra\u0308ksmo\u0308rga\u030as.txt", "file://e\u0301.txt", "file://é.txt",
    "file://日本.txt", "file://with blank.txt", "file://with%20blank.txt", "file://a%20b.txt", "file://a b.txt",
    "file://semi;colon.txt", "file://[b].txt", "file://co:lon.txt", "file://.hidden", "file://UPPER.TXT",
    "file://upper.txt", "file://back\\slash.txt", "file://at@sign.txt",
    "file://sub/deep/er/leaf.txt", "file://sub/deep/../deep/er/leaf.txt", "file://no_extension",
    "file://empty.txt", "file://mark.bin", "file://tail.", "file://com~1.txt", "file://plus+.txt",
    "file://a,b='c'.txt", "file://link.txt", "file://link_out.txt", "file://link_sub/approval.txt",
    "file://link_nowhere.txt", "file://hard_1.txt", "file://hard_2.txt", "file://invo\u200bice.txt",
    "file://ınvoice.txt", "file://invoice\uff0etxt", "file://sub\uff0fapproval.txt",
    "file://sub\u2044approval.txt", "file://invoice.txt\u0301", "file://" + "x" * 300,
    "file://" + "x/" * 100 + "y",
    "file://invoice.txt/../invoice.txt", "file://nowhere/../invoice.txt", "file:///proc/self/environ",
    "file:///dev/null", "file://invoice.txt|", "file://*.txt", "file://invoice.tx?", "file://\ufeffinvoice.txt",
    "file://invoice.txt\r", "file://\u00a0invoice.txt", "file://invoice.txt&", "file://sub/approval.txt/..",
    "file://-", "file://\x7f.txt",
]
# fmt: on


def _meant(case, reference):
    """The file that the most lenient reader finds under a reference, for its digest."""
    files = case.world.files
    named = reference.removeprefix("file://")
    if named in files:
        return named
    for name in ("sub/deep/er/leaf.txt", "sub/approval.txt", "hard_1.txt", "räksmörgås.txt", "with blank.txt"):
        if name.rsplit("/", 1)[-1].split(".")[0][:5] in named:
            return name
    return "invoice.txt"


def files(case, k):
    """File references, plain and odd, to files that exist, are missing, are elsewhere, or are links."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS))
    reference = REFERENCES[k % len(REFERENCES)]
    sha256 = case.world.digest(_meant(case, reference))
    if "{root}" in reference:
        reference = "file:///nowhere/invoice.txt"
    if rng.random() < 0.1:
        sha256 = rng.choice([case.world.digest("empty.txt"), "0" * 64, sha256[::-1], sha256 + "\n"])
    entry = hash_entry(
        case.world, rng, rng.choice(["h", *ids_of(case.proposal)]), reference=reference, sha256=sha256
    )
    evidence = case.proposal["evidence"]
    evidence.insert(rng.randrange(2), entry)
    if rng.random() < 0.5:
        del evidence[1 if evidence[0] is entry else 0]
    if rng.random() < 0.1:
        case.options["evidence_root_dir"] = "conformance/artifacts/sub"
    if rng.random() < 0.1:
        case.options["verify_evidence"] = False


def large_files(case, k):
    """Files of the largest size and one byte more, alone and several. Few, since every byte is hashed."""
    case.backed("read")
    names = [["exact.bin"], ["over.bin"], ["exact.bin", "exact.bin", "exact.bin", "exact.bin"]][k % 3]
    case.proposal["evidence"] += [hash_entry(case.world, case.rng, f"h{n}", name) for n, name in enumerate(names)]


def bad_signatures(world, key, message):
    """Spellings and values of signatures, from valid to hopeless."""
    raw = key.private.sign(message)
    good = base64.b64encode(raw).decode()
    order = 2**252 + 27742317777372353535851937790883648493
    s = int.from_bytes(raw[32:], "little")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    spare = good[:85] + alphabet[alphabet.index(good[85]) ^ 1] + "=="
    spare_8 = good[:85] + alphabet[alphabet.index(good[85]) ^ 8] + "=="

    def b64(data):
        return base64.b64encode(data).decode()

    # fmt: off
    return [
        good, b64(bytes([raw[0] ^ 1]) + raw[1:]), b64(raw[:63] + bytes([raw[63] ^ 1])),
        b64(raw[:32] + (s + order).to_bytes(32, "little")), spare, spare_8,
        good.replace("+", "-").replace("/", "_"), good.rstrip("="), good + "=", good + "====", " " + good,
        good + "\n", good[:40] + "\n" + good[40:], good + "    ", "", "====", "A", "AAAA",
        b64(raw[:63]), b64(raw + b"\0"), b64(raw * 2), raw.hex(), b64(b"\0" * 64), b64(b"\1" + b"\0" * 63),
        world.keys[5].sign(message), key.sign(message + b"x"), good.lower(), "ü" * 88,
        good[:-2] + "A=", "data:" + good, "!" * 88, good[:87] + "\u0000", b64(raw[32:] + raw[:32]), "-" * 88,
        good[:86] + "\u00a0=", "=" + good[:-1],
    ]
    # fmt: on


def signatures(case, k):
    """Signatures over opaque text: every spelling of the signature, every state of the key."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), plain=True)
    name = case.proposal.pop("evidence")[0]["id"]
    payload = rng.choice(
        [
            "approved: 17",
            "",
            "ü🙂",
            "line\nline",
            '["PIC-ATT/1.0"]',
            '"attestation_version"',
            "null",
            "1e5",
            " x",
            "a" * 16_384,
        ]
    )
    canonical = k % 3 == 0
    key = case.world.keys[0]
    if canonical:
        members = attestation(case.proposal)
        payload, message = json_text(rng, members), canonicalize(members)
    else:
        message = payload.encode()
    variants = bad_signatures(case.world, key, message)
    signature, key_id = variants[0], "k"
    if k % 5 < 3:
        signature = variants[k // 5 % len(variants)]
    else:
        ring = {"trusted_keys": {"k": key.base64()}}
        state = k // 5 % 22
        if state == 0:
            key_id = "unknown"
        elif state == 1:
            ring["revoked_keys"] = ["k"]
        elif state == 2:
            ring["trusted_keys"]["k"] = {"public_key": key.base64(), "expires_at": PAST}
        elif state == 3:
            ring["trusted_keys"]["k"] = {"public_key": key.base64(), "expires_at": FAR}
        elif state == 4:
            key_id = rng.choice([" k", "k ", "\tk\n", "\u00a0k"])
        elif state == 5:
            key_id = rng.choice(["", " ", "\n", "\u2003"])
        elif state == 6:
            key_id = rng.choice(["K", "k\u0000", "k\u0301", "ｋ"])
        elif state == 7:
            ring["revoked_keys"] = [rng.choice([" k", "k\n"])]
        elif state == 8:
            ring["revoked_keys"] = ["other", "K", ""]
        elif state == 9:
            ring["trusted_keys"]["k"] = case.world.keys[1].base64()
        elif state == 10:
            ring = {"k": key.base64()}
        elif state == 11:
            ring = {}
        elif state == 12:
            ring["trusted_keys"]["other"] = case.world.keys[2].hex()
            key_id = "other"
        elif state == 13:
            ring = {"trusted_keys": {"k": key.base64()}, "revoked_keys": []}
        elif state == 14:
            ring["revoked_keys"] = ["k", "k"]
        elif state == 15:
            ring["trusted_keys"]["k"] = {
                "public_key": key.hex(),
                "expires_at": rng.choice(["1969-12-31T23:59:59Z", "1900-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]),
            }
        elif state == 16:
            case.keyring = None
            ring = None
        elif state == 17:
            ring["trusted_keys"]["k"] = {
                "public_key": key.hex(),
                "expires_at": rng.choice(
                    ["9999-12-31T23:59:59Z", "2300-06-01T12:00:00.500+02:00", "9999-12-31T23:59:59.999999Z"]
                ),
            }
        case.keyring = ring
    case.proposal["evidence"] = [signed(name, payload, signature, key_id, rng)]
    if rng.random() < 0.15:
        case.proposal["evidence"].append(legacy_entry(rng, key, "k", rng.choice(IDS)))


def payloads(case, k):
    """Payloads that are nearly an attestation, nearly JSON, nested, large or repeated, signed over something."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), plain=True)
    name = case.proposal.pop("evidence")[0]["id"]
    members = attestation(case.proposal)
    payload, message = texts.payload(rng, members, k)
    key = case.world.keys[0]
    if message is None:
        message = payload.encode()
    case.proposal["evidence"] = [signed(name, payload, key.sign(message), "k", rng)]


WRONG_MEMBER = [
    None,
    True,
    0,
    1,
    1.5,
    "",
    "x",
    [],
    {},
    ["x"],
    [1],
    "trusted",
    "a" * 64,
    "A" * 64,
    "0" * 64,
    2**53 - 1,
    [[]],
    "0" * 64 + "\n",
]


# fmt: off
ATTESTED = {
    "tool": ["other", "payments_send ", "\u0000", "e\u0301", "é"],
    "impact": ["read", "money", "Money", "irreversible", "none"],
    "provenance_ids": [["x"], "reverse", "sorted", "short", "long", [1], [""], "text"],
    "args_digest": ["flip", "upper", "short", "long", "prefix", "line"],
    "claims_digest": ["flip", "upper", "short", "long", "prefix", "line"],
    "intent_digest": ["flip", "upper", "short", "long", "prefix", "line", "quoted"],
    "attestation_version": ["PIC-ATT/1.1", "PIC-ATT/1.0 ", "pic-att/1.0", "PIC-ATT/2.0", "PIC/1.0", "1.0", 1.0, ["PIC-ATT/1.0"], "PIC-ATT/1.0\n"],
    "expires_at": [
        PAST, FAR, "2099-01-01T00:00:00+00:00", "2099-01-01T00:00:00-12:30", "2099-01-01T00:00:00.123456789Z",
        "2099-01-01T00:00:00.5+14:00", "2099-01-01", "2099-01-01T00:00:00", "2099-01-01 00:00:00Z",
        "2099-01-01t00:00:00z", "2099-01-01T00:00:00z", " 2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z ",
        "2099-01-01T00:00:00Z\n", "2099-13-01T00:00:00Z", "2099-02-29T00:00:00Z", "2096-02-29T00:00:00Z",
        "2099-01-01T24:00:00Z", "2099-01-01T23:60:00Z", "2099-01-01T23:59:60Z", "2099-01-01T00:00:00+24:00",
        "2099-01-01T00:00:00+23:59", "2099-01-01T00:00:00+00:60", "2099-01-01T00:00:00-00:00",
        "2099-01-01T00:00:00.Z", "2099-01-01T00:00Z", "20990101T000000Z", "2099-W01-1T00:00:00Z",
        "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z",
        "２099-01-01T00:00:00Z", "2099-01-01T00:00:00+0100", "2099-01-01T00:00:00+01", "4070908800", "never",
        "2099-01-01T00:00:00ZZ", "+2099-01-01T00:00:00Z", "2099-1-1T00:00:00Z", "2099-01-01T00:00:00,5Z",
        "2099-01-01T00:00:00.1Z", "2099-01-01T00:00:00.12Z", "2099-01-01T00:00:00.1234Z",
        "2099-01-01T00:00:00\u22121:00",
        "2099-01-00T00:00:00Z", "2099-00-01T00:00:00Z", "2100-02-29T00:00:00Z", "2400-02-29T00:00:00Z",
        "2099-04-31T00:00:00Z", "2099-01-01T00:00:00 Z", "2099-01-01T00:00:00 +01:00",
    ],
}
# fmt: on


# fmt: on
EXTRA_MEMBERS = [
    "x_call_id",
    "x_nonce",
    "x_limit",
    "audience",
    "issued_at",
    "note",
    "",
    "Tool",
    "tool ",
    "attestation_Version",
    "é",
    "__proto__",
]


def _changed(proposal, members, name, change):
    """A wrong value for a member. A word of `ATTESTED` names the change to the right one."""
    right = members[name]
    if name.endswith("_digest"):
        changes = {
            "flip": ("0" if right[0] != "0" else "1") + right[1:],
            "upper": right.upper(),
            "short": right[:-1],
            "long": right + "0",
            "prefix": "sha256:" + right,
            "line": right + "\n",
            "quoted": hashlib.sha256(json.dumps(proposal["intent"]).encode()).hexdigest(),
        }
        return changes[change]
    if name == "provenance_ids" and isinstance(change, str):
        lists = {"reverse": right[::-1], "sorted": sorted(right), "short": right[:-1], "long": [*right, "more"]}
        return lists.get(change, ",".join(right))
    return change


if sys.version_info < (3, 11):
    # Its calendar reads seconds with three or six decimal digits only.
    ATTESTED["expires_at"] = [time for time in ATTESTED["expires_at"] if "." not in time]


def attestations(case, k):
    """Canonical attestations with one member missing, of a wrong type, or of another value, signed as they are."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS))
    proposal = case.proposal
    name = proposal.pop("evidence")[0]["id"]
    members = attestation(proposal)
    jobs = [(member, change) for member, changes in ATTESTED.items() for change in changes]
    jobs += [(member, ("set", wrong)) for member in members for wrong in WRONG_MEMBER]
    jobs += [(member, ("drop",)) for member in members] * 2
    jobs += [(extra, ("set", value(rng))) for extra in EXTRA_MEMBERS] + [(None, None)] * 10
    member, change = jobs[k * 7919 % len(jobs)]
    if member is not None:
        if change == ("drop",):
            del members[member]
        else:
            members[member] = (
                change[1] if isinstance(change, tuple) else _changed(proposal, members, member, change)
            )
    key = case.trust()
    payload = json_text(rng, members)
    proposal["evidence"] = [signed(name, payload, key.sign(canonicalize(members)), "k", rng)]


def mutated(case, k):
    """A valid attestation, with one change to the proposal after the signature."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), "canonical")
    proposal = case.proposal
    # fmt: off
    jobs = [
        lambda: proposal.update(intent=proposal["intent"] + " "),
        lambda: proposal.update(impact=rng.choice(IMPACTS)),
        lambda: proposal["action"].update(tool=rng.choice(TOOLS)),
        lambda: proposal["action"]["args"].update(more=1), lambda: proposal["action"].update(args={}),
        lambda: proposal["claims"].append({"text": "", "evidence": []}),
        lambda: proposal["claims"].reverse(), lambda: proposal["provenance"].reverse(),
        lambda: proposal["provenance"].pop(),
        lambda: proposal["provenance"].append({"id": "new", "trust": "untrusted"}),
        lambda: proposal["provenance"][0].update(trust="trusted"),
        lambda: proposal["provenance"][0].update(source="elsewhere"),
        lambda: proposal["evidence"][0].update(id=rng.choice(IDS)),
        lambda: proposal["evidence"][0].update(ref="file://x"),
        lambda: proposal["claims"][0].update(text=proposal["claims"][0]["text"] + "\u0301"),
        lambda: proposal["evidence"].insert(0, proposal["evidence"][0]),
        lambda: proposal["action"].update(args=arguments(rng)),
        lambda: proposal["evidence"][0].update(payload=proposal["evidence"][0]["payload"] + " "),
        lambda: proposal["evidence"][0].update(payload=proposal["evidence"][0]["payload"].replace(":", " : ", 1)),
        lambda: proposal["provenance"][0].update(id=proposal["provenance"][0]["id"] + "x"),
    ]
    # fmt: on
    jobs[k % len(jobs)]()
