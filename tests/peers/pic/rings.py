"""The family of keyrings: spellings of keys, of times and of the file, and members of our own."""

import base64
import json
import string
import sys


from material import FAR, IMPACTS, PAST, canonical_entry, hash_entry, ids_of, legacy_entry, signed


ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"


def _spellings(key, other, world):
    plain, raw = key.base64(), key.raw
    spare = plain[:42] + ALPHABET[ALPHABET.index(plain[42]) ^ 1] + "="
    der = base64.b64decode("".join(key.pem().splitlines()[1:-1]))

    def pem(data, label="PUBLIC KEY"):
        return f"-----BEGIN {label}-----\n{base64.b64encode(data).decode()}\n-----END {label}-----\n"

    # fmt: off
    return [
        plain, plain.rstrip("="), plain.replace("+", "-").replace("/", "_"),
        plain.replace("+", "-").replace("/", "_").rstrip("="), spare, plain + "=", plain + "==", f" {plain}\n",
        plain[:20] + "\n" + plain[20:], plain[:20] + " " + plain[20:],
        key.hex(), key.hex().upper(), "0x" + key.hex(), "0X" + key.hex(), "0x" + key.hex().upper(),
        f" {key.hex()} ", key.hex()[:-1], key.hex() + "00", key.hex()[:-2], "0x" + key.hex()[2:],
        key.hex()[:-1] + "g", ":".join(key.hex()[n:n + 2] for n in range(0, 64, 2)),
        key.pem(), key.pem().strip(), key.pem().replace("\n", "\r\n"), "\n" + key.pem(),
        "text before\n" + key.pem(), key.pem() + "text after\n", key.pem() + other.pem(), pem(der + b"\0"),
        pem(der[:-1]), pem(raw), pem(der, "ED25519 PUBLIC KEY"), pem(der, "CERTIFICATE"),
        key.pem().replace("-----END", "----END"), key.pem().replace("\n", " "), key.pem().replace("\n", ""),
        world.x25519_pem, pem(der.replace(b"\x2b\x65\x70", b"\x2b\x65\x71")), pem(b"\x30\x81" + der[1:]),
        key.pem().lower(),
        base64.b64encode(raw[:31]).decode(), base64.b64encode(raw + b"\0").decode(),
        base64.b64encode(der).decode(), "", " ", "x", "not a key", "=", "ü" * 43, "A" * 43, "/" * 43, "0" * 64,
        "f" * 64, None, 5, True, [], [plain], {}, {"public_key": None}, {"public_key": ""}, {"public_key": 5},
        {"key": plain}, {"public_key": plain, "alg": "ed25519"}, {"public_key": plain, "comment": "of the CFO"},
        {"public_key": {"k": plain}}, plain.lower(), plain[:43] + "\u00a0", "ssh-ed25519 " + plain,
        "\ufeff" + plain,
    ]
    # fmt: on


# fmt: off
TIMES = [
    FAR, PAST, "2099-01-01T00:00:00+00:00", "2099-01-01T00:00:00", "2001-01-01T00:00:00", "2099-01-01T00:00:00z",
    "2099-01-01 00:00:00", "2099-01-01 00:00:00+00:00", "2099-01-01", "2001-01-01", "20990101T000000Z", "20990101",
    "2099-W01-1", "2099-001",
    "2099-01-01T00", "2099-01-01T00:00", "2099-01-01T00:00Z", " 2099-01-01T00:00:00Z ", "2099-01-01T00:00:00.5Z",
    "2099-01-01T00:00:00.123456789Z", "2099-01-01T00:00:00,5Z", "2099-01-01T00:00:00+01",
    "2099-01-01T00:00:00+0100", "2099-01-01T00:00:00+01:00",
    "2099-01-01T00:00:00+01:00:30", "2099-01-01T00:00:00-23:59", "2099-01-01T00:00:00+24:00",
    "2099-13-01T00:00:00Z", "2099-02-29T00:00:00Z", "2099-01-01T24:00:00Z", "2099-01-01T23:59:60Z", "", " ",
    "never", "Z", None, 0, 4070908800, True, [], {"t": FAR}, "4070908800",
    "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z", "2099-01-01T00:00:00ZZ", "2099-01-01T00:00:00Z+00:00",
    "2099-01-01T00:00:00 Z", "2099-1-1T0:0:0Z", "2099-01-01T00:00:00\u2212:00",
    "2099-01-01x00:00:00Z", "2099-01-01T00:00:00-00:00", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z",
    "２099-01-01T00:00:00Z", "2099-01-01T000000Z", "2099-01-01T00:00:00.Z",
]
# fmt: on


if sys.version_info < (3, 11):
    TIMES = [time for time in TIMES if not isinstance(time, str) or "." not in time]


def _files(key, other):
    good, second = key.base64(), other.base64()
    # fmt: off
    return [
        "{}", "[]", "null", "5", '"x"', "", " ", "{", json.dumps({"k": good}),
        json.dumps({"k": good, "l": second}), json.dumps({"k": good, "revoked_keys": ["k"]}),
        json.dumps({"k": good, "revoked_keys": []}), json.dumps({"k": {"public_key": good}}),
        json.dumps({"trusted_keys": [good], "k": good}), json.dumps({"trusted_keys": None}),
        json.dumps({"trusted_keys": None, "k": good}), json.dumps({"trusted_keys": good}),
        json.dumps({"trusted_keys": {}}), json.dumps({"trusted_keys": {"k": good}, "k": second}),
        json.dumps({"trusted_keys": {"k": good}, "version": 1}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": None}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": "k"}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": [1]}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": {"k": True}}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": [""]}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": [" k "]}), json.dumps({"revoked_keys": ["k"]}),
        json.dumps({"trusted_keys": {"k": good, "l": good}}),
        json.dumps({"trusted_keys": {"k": good, "l": key.hex()}}),
        json.dumps({"trusted_keys": {"k": good, " k ": second}}), json.dumps({"trusted_keys": {" k ": good}}),
        json.dumps({"trusted_keys": {"k\n": good}}),
        json.dumps({"trusted_keys": {"": good}}), json.dumps({"trusted_keys": {" ": good}}),
        json.dumps({"trusted_keys": {"k": good, "\u200b": second}}),
        json.dumps({"trusted_keys": {"k": good, "K": second}}),
        json.dumps({"trusted_keys": {"k": good, "x" * 256: second}}),
        json.dumps({"trusted_keys": {"k": good, "x" * 257: second}}),
        json.dumps({"trusted_keys": {"k": good, "k\u0000": second}}),
        json.dumps({"trusted_keys": {"k": good, "with blank": second}}),
        json.dumps({"trusted_keys": {"k": good, "ключ": second}}),
        '{"trusted_keys": {"k": "%s", "k": "%s"}}' % (second, good),
        '{"trusted_keys": {"k": "%s", "k": "%s"}}' % (good, good),
        '{"trusted_keys": {"k": "%s"}, "trusted_keys": {"k": "%s"}}' % (second, good),
        '{"trusted_keys": {"k": "%s", "\\u006b": "%s"}}' % (second, good),
        '{"trusted_keys": {"k": {"public_key": "%s", "public_key": "%s"}}}' % (second, good),
        "\ufeff" + json.dumps({"k": good}), json.dumps({"k": good}) + "x", json.dumps({"k": good})[:-1] + ",}",
        " \n" + json.dumps({"trusted_keys": {"k": good}}, indent=4) + "\n",
        '{"trusted_keys": {"k": "%s"}, "n": NaN}' % good,
        '{"trusted_keys": {"k": "%s"}, "revoked_keys": ["\\ud800"]}' % good,
        '{"trusted_keys": {"k": "%s", "\\ud800": "%s"}}' % (good, second), "// keys\n" + json.dumps({"k": good}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": ["k"]}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": ["l", "k"]}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_keys": [f"old{n}" for n in range(100)]}),
        json.dumps({"trusted_keys": {"k": good}, "revoked_fingerprint": []}),
    ]
    # fmt: on


def _own(key, other, tool):
    """Members that only this implementation has; the last of each pair of cases has no effect."""
    good = key.base64()

    def one(**members):
        return {"trusted_keys": {"k": {"public_key": good, **members}}}

    # fmt: off
    return [
        one(tools=["elsewhere"]), one(tools=[tool, "more"]), one(impacts=["compute"]), one(impacts=list(IMPACTS)),
        one(not_before=FAR), one(not_before=PAST), one(principals=["anna"]),
        one(tools=[tool], impacts=list(IMPACTS), not_before=PAST, expires_at=FAR),
        one(tools=[]), one(impacts=[]), one(impacts=["Money"]), one(principals=[]), one(tools="x"), one(tools=[1]),
        one(not_before="never"), one(not_before=5), one(tools=None), one(impacts=None),
        {"trusted_keys": {"k": good}, "thresholds": {"money": 2}},
        {"trusted_keys": {"k": good, "l": other.base64()}, "thresholds": {impact: 2 for impact in ("money", "privacy", "irreversible", "read")}},
        {"trusted_keys": {"k": good, "l": other.base64()}, "thresholds": {"irreversible": 1}},
        {"trusted_keys": {"k": good}, "thresholds": {"money": 0}},
        {"trusted_keys": {"k": good}, "thresholds": {"all": 1}}, {"trusted_keys": {"k": good}, "thresholds": []},
        {"trusted_keys": {"k": good}, "revoked_fingerprints": ["0" * 64]},
        {"trusted_keys": {"k": good}, "revoked_fingerprints": [key.fingerprint()]},
        {"trusted_keys": {"k": good, "l": other.base64()}, "revoked_fingerprints": [other.fingerprint()]},
        {"trusted_keys": {"k": good}, "revoked_fingerprints": ["x"]},
        {"trusted_keys": {"k": good}, "revoked_fingerprints": []},
        {"trusted_keys": {"k": good}, "revoked_fingerprints": "x"},
        {"trusted_keys": {"k": good, "l": other.base64()}, "thresholds": {"money": 1.5}},
        {"trusted_keys": {"k": good, "l": other.base64()}, "thresholds": {"money": True}},
    ]
    # fmt: on


def keyrings(case, k):
    rng, world = case.rng, case.world
    case.backed(rng.choice(IMPACTS), plain=True)
    key, other = world.keys[0], world.keys[1]
    unsound = world.unsound
    spellings, texts = _spellings(key, other, world), _files(key, other)
    own = _own(key, other, case.proposal["action"]["tool"])
    n = k % (len(spellings) + len(TIMES) + len(texts) + len(own) + len(unsound) + 12)
    if rng.random() < 0.1:
        case.options["verify_evidence"] = False
    if n < len(spellings):
        case.keyring = {"trusted_keys": {"k": spellings[n]}}
        if rng.random() < 0.3 and isinstance(spellings[n], str):
            case.keyring = {"trusted_keys": {"k": {"public_key": spellings[n]}}}
        return
    n -= len(spellings)
    if n < len(TIMES):
        case.keyring = {"trusted_keys": {"k": {"public_key": key.base64(), "expires_at": TIMES[n]}}}
        return
    n -= len(TIMES)
    if n < len(texts):
        case.keyring_text = texts[n]
        return
    n -= len(texts)
    if n < len(own):
        case.keyring = own[n]
        return
    n -= len(own)
    if n < len(unsound):
        case.keyring = {"trusted_keys": {"k": key.base64(), "odd": unsound[n][1].hex()}}
        if rng.random() < 0.5:
            name = case.proposal["evidence"][0]["id"]
            zero = base64.b64encode(b"\1" + b"\0" * 63).decode()
            case.proposal["evidence"] = [signed(name, "approved", zero, "odd", rng)]
        return
    # Several keys, some of which sign.
    case.keyring = {"trusted_keys": {f"k{n}": world.keys[n].base64() for n in range(6)}, "revoked_keys": ["k4"]}
    case.keyring["trusted_keys"]["k5"] = {"public_key": world.keys[5].base64(), "expires_at": PAST}
    name = case.proposal.pop("evidence")[0]["id"]
    signers = rng.sample(range(6), rng.randrange(1, 4))
    make = (
        canonical_entry
        if rng.random() < 0.6
        else (lambda r, proposal, signer, key_id, id_: legacy_entry(r, signer, key_id, id_))
    )
    case.proposal["evidence"] = [
        make(rng, case.proposal, world.keys[s], f"k{s}", rng.choice([name, *ids_of(case.proposal)]))
        for s in signers
    ]
    if rng.random() < 0.3:
        case.proposal["evidence"].append(hash_entry(world, rng, name))
