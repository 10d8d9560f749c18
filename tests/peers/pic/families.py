"""The families of cases: each makes the k-th case of its kind, walking through its variants so that none is left to luck."""

import base64
import copy
import json

from pic_standard.canonical import canonicalize

import rings
import texts
from material import (
    FAR, FILE_BYTES, HIGH, IDS, IMPACTS, ITEMS, PAST, PAYLOAD_BYTES, PROPOSAL_BYTES, TEXTS, TOOLS, Case, as_text, arguments, attestation, base, canonical_entry, cite,
    hash_entry, ids_of, json_text, legacy_entry, signed, value,
)

WRONG = [None, True, False, 0, 1, 1.5, "", "x", [], {}, [1], [""], {"a": 1}, [[]], [None], ["trusted"], "a" * 80, {str(n): n for n in range(70)}, list(range(70))]


def core(case, k):
    """Trust and impact, in every cell of strict_trust and verify_evidence, without evidence."""
    rng = case.rng
    case.proposal = base(rng, IMPACTS[k % 7])
    for name in ("strict_trust", "verify_evidence"):
        choice = rng.choice([None, True, False, False])
        if choice is not None:
            case.options[name] = choice
    if case.options.get("verify_evidence"):
        case.evidence_on()
    if rng.random() < 0.3:
        case.options["expected_tool"] = case.proposal["action"]["tool"]
    if rng.random() < 0.3:
        case.options["limits"] = True
    for entry in case.proposal["provenance"]:
        if rng.random() < 0.5:
            cite(rng, case.proposal, entry["id"])
    if rng.random() < 0.1:
        case.proposal["evidence"] = []


def causal(case, k):
    """The causal rule, one thing away from holding or not."""
    rng = case.rng
    case.backed(HIGH[k % 3])
    proposal, variant = case.proposal, k // 3 % 12
    raised = proposal["evidence"][0]["id"]
    late = {
        0: lambda: None,
        1: lambda: case.options.update(verify_evidence=False),
        2: lambda: case.options.update(verify_evidence=False, strict_trust=False),
        3: lambda: proposal.pop("evidence"),
        4: lambda: case.options.update(strict_trust=False),
    }
    if variant in late:
        late[variant]()
        return
    # The rest is changed before the signature is made, so that only the rule is at stake.
    proposal.pop("evidence")
    key = case.world.keys[0]
    if variant == 5:
        proposal["claims"] = []
    elif variant == 6:
        proposal["claims"] = [{"text": "t", "evidence": []}, {"text": raised, "evidence": ["not there"]}]
    elif variant == 7:
        proposal["claims"] = [{"text": "t", "evidence": [raised + " ", raised.upper() + "x"]}]
    elif variant == 8:
        proposal["provenance"] = []
    elif variant == 9:
        proposal["provenance"] = [entry for entry in proposal["provenance"] if entry["id"] != raised]
    elif variant == 10:
        proposal["provenance"] = [{"id": raised + "\u0301", "trust": "trusted"}]
    elif variant == 11:
        proposal["evidence"] = [hash_entry(case.world, rng, raised)]
        return
    proposal["evidence"] = [canonical_entry(rng, proposal, key, "k", raised)]


def _paths(thing, path=()):
    yield path
    if isinstance(thing, dict):
        for name, member in thing.items():
            yield from _paths(member, (*path, name))
    elif isinstance(thing, list):
        for index, member in enumerate(thing[:2]):
            yield from _paths(member, (*path, index))


def at(thing, path):
    for step in path:
        thing = thing[step]
    return thing


def _rich(case):
    """A proposal with one of everything that the schema knows."""
    case.backed("money", "legacy")
    rng, proposal = case.rng, case.proposal
    proposal["provenance"][0]["source"] = "mail"
    proposal["action"]["args"] = {"amount": 1}
    proposal["claims"] = [{"text": "t", "evidence": [proposal["evidence"][0]["id"]]}, {"text": "u", "evidence": []}]
    case.options["expected_tool"] = proposal["action"]["tool"]
    proposal["evidence"][0].update(signer="s", attestor="a")
    proposal["evidence"].append({**hash_entry(case.world, rng, "file"), "attestor": "a"})


ENUMS = {
    "protocol": ["PIC/1.1", "PIC/1", "pic/1.0", "PIC/1.0 ", " PIC/1.0", "PIC/1.0\n", "1.0", "PIC/1.00"],
    "impact": ["Money", "MONEY", "money ", " money", "money\n", "low", "high", "none", "read,write", "irreversable", "mоney", "money\u0000", "execute"],
    "trust": ["semi_trusted", "TRUSTED", "Trusted", "trusted ", "trusted\n", "unknown", "verified", "none"],
    "type": ["HASH", "Sig", "sig ", "hash\n", "signature", "url", "inline", "sha256"],
    "alg": ["Ed25519", "ED25519", "ed25519 ", "ed448", "EdDSA", "none", "rsa", "ed25519\n"],
    "sha256": ["", "0" * 63, "0" * 65, "A" * 64, "0x" + "0" * 62, "g" * 64, " " + "0" * 64, "0" * 64 + " ", "0" * 64 + "\n", "\n" + "0" * 64, "٠" * 64, "0" * 32, "0" * 64],
}
NEARLY = ["id ", "ID", "Id", "protocol_version", "__pic", "ts", "$schema", "evidence_ids", "ı"]


def schema(case, k):
    """One member missing, added, renamed, or of a wrong type or value, anywhere in a full proposal."""
    _rich(case)
    rng, proposal = case.rng, case.proposal
    jobs = []
    for path in _paths(proposal):
        target = at(proposal, path)
        if path:
            jobs += [("wrong", path, wrong) for wrong in WRONG]
            if isinstance(path[-1], str):
                jobs += [("drop", path, None), ("rename", path, rng.choice(NEARLY)), ("rename", path, path[-1].capitalize())]
                jobs += [("wrong", path, wrong) for wrong in ENUMS.get(path[-1], [])]
        if isinstance(target, dict):
            jobs += [("add", path, rng.choice(NEARLY)), ("add", path, ""), ("add", path, "extra")]
        elif isinstance(target, list):
            jobs += [("push", path, wrong) for wrong in WRONG[:12]]
    jobs += [("whole", (), wrong) for wrong in WRONG]
    job, path, change = jobs[k * 7919 % len(jobs)]
    if job == "whole":
        case.text = json.dumps(change)
    elif job == "wrong":
        at(proposal, path[:-1])[path[-1]] = copy.deepcopy(change)
    elif job == "drop":
        del at(proposal, path[:-1])[path[-1]]
    elif job == "rename":
        holder = at(proposal, path[:-1])
        holder[change] = holder.pop(path[-1])
    elif job == "add":
        at(proposal, path)[change] = rng.choice(WRONG)
    elif job == "push":
        at(proposal, path).append(copy.deepcopy(change))
    if k % 3 == 0:
        case.options["limits"] = True
    if k % 5 == 0:
        case.options["verify_evidence"] = False


def two_faults(case, k):
    """Two or three faults at once: which one is reported follows from the order of the checks."""
    rng = case.rng
    case.backed()
    proposal = case.proposal
    case.options["expected_tool"] = proposal["action"]["tool"]

    def duplicate():
        proposal["provenance"].append(copy.deepcopy(proposal["provenance"][0]))

    def bad_schema():
        proposal.pop(rng.choice(["intent", "protocol", "claims"]), None)

    def over():
        proposal["provenance"] = [{"id": str(n), "trust": "trusted"} for n in range(65)]
        case.options["limits"] = True

    def large():
        proposal["intent"] = "x" * 64_000
        case.options["limits"] = True

    def other_tool():
        case.options["expected_tool"] = "other"

    def bad_evidence():
        proposal["evidence"].append(hash_entry(case.world, rng, "h", sha256="0" * 64))

    def no_evidence():
        proposal.pop("evidence", None)
        case.options["policy"] = {"impact_by_tool": {}, "require_evidence_for_impacts": list(IMPACTS)}

    def no_cause():
        proposal["claims"], proposal["impact"] = [], "money"

    def understated():
        case.options["policy"] = {"impact_by_tool": {proposal["action"]["tool"]: "irreversible", "other": "irreversible"}}

    def keyring():
        case.keyring = {"trusted_keys": {"k": "not a key"}}

    def policy():
        case.options["policy"] = {"impact_by_tool": []} if rng.random() < 0.5 else {"impact_by_tool": [1]}

    faults = [duplicate, bad_schema, over, large, other_tool, bad_evidence, no_evidence, no_cause, understated, keyring, policy]
    pairs = [(a, b) for a in faults for b in faults if a is not b]
    first, second = pairs[k % len(pairs)]
    for fault in (first, second, *rng.sample(faults, rng.choice([0, 0, 1]))):
        try:
            fault()
        except (KeyError, TypeError, AttributeError):
            pass


def text(case, k):
    """JSON texts that differ from the plain ones, or that two readers could read differently."""
    rng = case.rng
    case.backed(plain=rng.random() < 0.5)
    case.options["expected_tool"] = case.proposal["action"]["tool"]
    if rng.random() < 0.25:
        case.proposal["action"]["args"]["odd"] = 12345
        case.options.update(verify_evidence=rng.random() < 0.3)
    case.text = texts.odd(rng, case.proposal, k)
    if k % 2:
        case.options["limits"] = True


def identifiers(case, k):
    """Provenance ids that are the same, nearly the same, or cited wrongly."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS))
    proposal, first = case.proposal, case.proposal["provenance"][0]["id"]
    twins = [first, first + " ", first.upper(), first.lower(), first + "\u0000", "e\u0301", "é", "\u212b", "Å", first + "\n", "", "ﬀ", "ff"]
    variant = k % (len(twins) + 4)
    evidence = proposal.pop("evidence")
    if variant < len(twins):
        entry = {"id": twins[variant], "trust": rng.choice(["trusted", "untrusted"])}
        proposal["provenance"].insert(rng.randrange(len(proposal["provenance"]) + 1), entry)
    elif variant == len(twins):
        proposal["provenance"] *= 2
    elif variant == len(twins) + 1:
        proposal["claims"] = [{"text": "t", "evidence": [first, first, "nowhere"]}]
    elif variant == len(twins) + 2:
        proposal["provenance"] = [{"id": "é", "trust": "untrusted"}, {"id": "e\u0301", "trust": "untrusted"}]
        proposal["claims"] = [{"text": "t", "evidence": ["é"]}]
    name = evidence[0]["id"]
    proposal["evidence"] = [canonical_entry(rng, proposal, case.world.keys[0], "k", name)]
    if variant == len(twins) + 3:
        proposal["evidence"].append(copy.deepcopy(proposal["evidence"][0]))


def sizes(case, k):
    """Proposals around 64,000 bytes as the reference measures them, in spellings that are shorter or longer."""
    rng = case.rng
    case.proposal = proposal = base(rng, "read", "t")
    proposal["action"]["args"] = {"é": rng.choice(["", "ü🙂", "\n\"\\"])}
    target = PROPOSAL_BYTES + [-2, -1, 0, 1, 2, -3000, 3000, -300, 300][k % 9]
    place = k // 9 % 3
    filler = "f" * (target - len(as_text(proposal).encode()))
    if place == 0:
        proposal["intent"] += filler
    elif place == 1:
        proposal["action"]["args"]["é"] += filler
    else:
        proposal["provenance"][0]["id"] += filler
    plain = as_text(proposal)
    off = target - len(plain.encode())
    assert off == 0, off
    style = k // 27 % 6
    case.text = {
        0: plain, 1: plain, 2: json.dumps(proposal, ensure_ascii=False, separators=(",", ":")), 3: json.dumps(proposal, indent=1, ensure_ascii=False),
        4: json.dumps(proposal), 5: plain + " " * rng.randrange(1, 5),
    }[style]
    if k % 4:
        case.options["limits"] = True
    if k % 10 == 0:
        case.proposal.pop("intent")


def lists(case, k):
    """Lists of 63 to 66 entries, with the limits and without."""
    rng = case.rng
    case.backed("read" if k % 2 else "money")
    proposal = case.proposal
    which, count = k % 6, ITEMS + [-1, 0, 1, 2][k // 6 % 4]
    name = proposal.pop("evidence")[0]["id"]
    if which == 0:
        proposal["provenance"] += [{"id": f"p{n}", "trust": "untrusted"} for n in range(count - len(proposal["provenance"]))]
    elif which == 1:
        proposal["claims"] += [{"text": str(n), "evidence": []} for n in range(count - len(proposal["claims"]))]
    elif which == 3:
        proposal["claims"][0]["evidence"] += ["p"] * count
    elif which == 4:
        proposal["action"]["args"] = {str(n): n for n in range(count)}
    key = case.world.keys[0]
    proposal["evidence"] = [canonical_entry(rng, proposal, key, "k", name)]
    if which == 2:
        proposal["evidence"] = [legacy_entry(rng, key, "k", name, str(n)) for n in range(count)]
    elif which == 5:
        proposal["evidence"] = [hash_entry(case.world, rng, f"h{n}") for n in range(count)]
    if k // 24 % 4:
        case.options["limits"] = True
    if k // 24 % 5 == 1:
        proposal["provenance"].append({"id": 5})


def tools(case, k):
    """The tool that the proposal names and the tool that is called."""
    rng = case.rng
    tool = TOOLS[k % len(TOOLS)]
    case.backed(tool=tool)
    expected = [tool, tool + " ", " " + tool, tool.upper(), tool.lower(), "", tool + "\u0000", tool + "\n", "other", "e\u0301", "é", tool[:-1]][k // len(TOOLS) % 12]
    if k % 19 == 0:
        case.proposal["action"]["tool"] = expected
        expected = tool
    style = k % 4
    if style == 3:
        case.options["tool_name"] = expected
    else:
        case.options["expected_tool"] = expected
        if style == 2:
            case.options["tool_name"] = expected
    if k % 7 == 0:
        case.proposal["evidence"][0]["signature"] = case.world.keys[1].sign(b"something else")
    elif k % 7 == 1:
        case.proposal["claims"] = []
        case.proposal.pop("evidence")
    elif k % 7 == 2:
        case.proposal["action"]["tool"] = ""
        case.options["verify_evidence"] = False


def policies(case, k):
    """The operator's policy: impacts by tool, evidence required, and files that are no policy."""
    rng = case.rng
    case.backed(IMPACTS[k % 7])
    proposal, tool = case.proposal, case.proposal["action"]["tool"]
    if rng.random() < 0.5:
        proposal.pop("evidence")
    policy = {"impact_by_tool": {tool: IMPACTS[k // 7 % 7]}}
    variant = k // 49 % 24
    if variant == 1:
        policy = {"impact_by_tool": {tool + " ": "money", tool.swapcase() + "x": "money"}}
    elif variant == 2:
        policy["require_evidence_for_impacts"] = rng.sample(IMPACTS, rng.randrange(1, 7))
    elif variant == 3:
        policy["require_evidence_for_impacts"] = []
    elif variant == 4:
        policy = {}
    elif variant == 5:
        policy = {"require_evidence_for_impacts": list(IMPACTS), "require_pic_for_impacts": ["read"]}
    elif variant == 6:
        policy["impact_by_tool"][tool] = ""
    elif variant == 7:
        policy["impact_by_tool"][tool] = rng.choice(["Money", "critical", "money ", "x"])
    elif variant == 8:
        policy["impact_by_tool"] = rng.choice([[], [tool], "money", 0, 1, None, False, True])
    elif variant == 9:
        policy["require_evidence_for_impacts"] = rng.choice([None, "money", 5, {"money": True}, {}, 0, True])
    elif variant == 10:
        policy["require_evidence_for_impacts"] = rng.choice([["critical"], [None], [1], ["money", "money"], ["money", "Money"], [["money"]]])
    elif variant == 11:
        policy["impact_by_tool"][tool] = rng.choice([None, 5, True, ["money"], {"impact": "money"}])
    elif variant == 12:
        policy["more"] = 1
    elif variant == 13:
        policy["require_pic_for_impacts"] = rng.choice([None, [], "money", ["x"], ["read"], 7])
    elif variant == 14:
        raw = json.dumps(policy)
        case.extra["policy_text"] = rng.choice([raw[:-1], "[]", "null", "5", raw.replace('"impact_by_tool"', '"impact_by_tool":{},"impact_by_tool"'), raw + "x", "", "\ufeff" + raw, "{}"])
        policy = None
    elif variant == 15:
        policy = {"impact_by_tool": {tool: IMPACTS[k // 7 % 7]}, "require_evidence_for_impacts": ["read", "write"], "require_pic_for_impacts": ["read"]}
    elif variant == 16:
        policy = None
    if policy is not None:
        case.options["policy"] = policy
    style = rng.randrange(6)
    if style < 3:
        case.options["expected_tool"] = tool
    elif style == 3:
        case.options["expected_tool"] = case.options["tool_name"] = tool
    elif style == 4:
        case.options["tool_name"] = tool
    if rng.random() < 0.3:
        case.options["verify_evidence"] = False
    if rng.random() < 0.2:
        case.options["strict_trust"] = False


REFERENCES = [
    "file://invoice.txt", "file://sub/approval.txt", "file://./invoice.txt", "file://sub/../invoice.txt", "file://../invoice.txt", "file://../outside.txt", "file:///etc/hostname",
    "file:///invoice.txt", "file:///{root}/invoice.txt", "file://{root}/invoice.txt", "file:invoice.txt", "file:/invoice.txt", "FILE://invoice.txt", "File://invoice.txt",
    "invoice.txt", "", "file://", "file:///", "file://.", "file://..", "file://sub", "file://sub/", "file://nowhere.txt", "http://invoice.txt", "https://example.org/invoice.txt",
    "data:text/plain,Invoice", "inline:invoice.txt", " file://invoice.txt", "file://invoice.txt ", "file:// invoice.txt", "file://invoice.txt?", "file://invoice.txt?a=b",
    "file://invoice.txt#", "file://invoice.txt#part", "file://invoice.txt;v=1", "file://sub//approval.txt", "file://sub/./approval.txt", "file://sub/../sub/approval.txt",
    "file://sub\\approval.txt", "file://sub%2Fapproval.txt", "file://invoice%2Etxt", "file://%69nvoice.txt", "file://invoice.txt\u0000", "file://invoice\u0000.txt", "file://inv\noice.txt",
    "file://invoice.txt\n", "file://\tinvoice.txt", "file://localhost/invoice.txt", "file://user@host/invoice.txt", "file://user:pass@invoice.txt", "file://invoice.txt:80", "file://C:/invoice.txt",
    "file:///C:/invoice.txt", "file://~/invoice.txt", "file://$HOME/invoice.txt", "file:////invoice.txt", "file://invoice.txt/", "file://invoice.txt/.", "file://Invoice.txt", "file://INVOICE.TXT",
    "file://räksmörgås.txt", "file://ra\u0308ksmo\u0308rga\u030as.txt", "file://e\u0301.txt", "file://é.txt", "file://日本.txt", "file://with blank.txt", "file://with%20blank.txt", "file://a%20b.txt", "file://a b.txt",
    "file://semi;colon.txt", "file://[b].txt", "file://co:lon.txt", "file://.hidden", "file://UPPER.TXT", "file://upper.txt", "file://back\\slash.txt", "file://at@sign.txt",
    "file://sub/deep/er/leaf.txt", "file://sub/deep/../deep/er/leaf.txt", "file://no_extension", "file://empty.txt", "file://mark.bin", "file://tail.", "file://com~1.txt", "file://plus+.txt",
    "file://a,b='c'.txt", "file://link.txt", "file://link_out.txt", "file://link_sub/approval.txt", "file://link_nowhere.txt", "file://hard_1.txt", "file://hard_2.txt", "file://invo\u200bice.txt",
    "file://ınvoice.txt", "file://invoice\uff0etxt", "file://sub\uff0fapproval.txt", "file://sub\u2044approval.txt", "file://invoice.txt\u0301", "file://" + "x" * 300, "file://" + "x/" * 100 + "y",
    "file://invoice.txt/../invoice.txt", "file://nowhere/../invoice.txt", "file:///proc/self/environ", "file:///dev/null", "file://invoice.txt|", "file://*.txt", "file://invoice.tx?", "file://\ufeffinvoice.txt",
    "file://invoice.txt\r", "file://\u00a0invoice.txt", "file://invoice.txt&", "file://sub/approval.txt/..", "file://-", "file://\x7f.txt",
]
PLACES = {"sub/approval.txt": ["sub", "approval"], "mark.bin": ["mark"], "empty.txt": ["empty"]}


def _meant(case, reference):
    """The file that a reference means to the most forgiving reader, for its digest."""
    files = case.world.files
    named = reference.removeprefix("file://")
    if named in files:
        return named
    for name in ("sub/deep/er/leaf.txt", "sub/approval.txt", "hard_1.txt", "räksmörgås.txt", "with blank.txt"):
        if name.rsplit("/", 1)[-1].split(".")[0][:5] in named:
            return name
    return "invoice.txt"


def files(case, k):
    """File references, plain and odd, to files that are there, are not, are elsewhere, or are links."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS))
    reference = REFERENCES[k % len(REFERENCES)]
    sha256 = case.world.digest(_meant(case, reference))
    if "{root}" in reference:
        reference = "file:///nowhere/invoice.txt"
    if rng.random() < 0.1:
        sha256 = rng.choice([case.world.digest("empty.txt"), "0" * 64, sha256[::-1], sha256 + "\n"])
    entry = hash_entry(case.world, rng, rng.choice(["h", *ids_of(case.proposal)]), reference=reference, sha256=sha256)
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
    """Spellings and values of signatures, from right to hopeless."""
    raw = key.private.sign(message)
    good = base64.b64encode(raw).decode()
    order = 2**252 + 27742317777372353535851937790883648493
    s = int.from_bytes(raw[32:], "little")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    spare = good[:85] + alphabet[alphabet.index(good[85]) ^ 1] + "=="
    spare_8 = good[:85] + alphabet[alphabet.index(good[85]) ^ 8] + "=="

    def b64(data):
        return base64.b64encode(data).decode()

    return [
        good, b64(bytes([raw[0] ^ 1]) + raw[1:]), b64(raw[:63] + bytes([raw[63] ^ 1])), b64(raw[:32] + (s + order).to_bytes(32, "little")), spare, spare_8,
        good.replace("+", "-").replace("/", "_"), good.rstrip("="), good + "=", good + "====", " " + good, good + "\n", good[:40] + "\n" + good[40:], good + "    ", "", "====", "A", "AAAA",
        b64(raw[:63]), b64(raw + b"\0"), b64(raw * 2), raw.hex(), b64(b"\0" * 64), b64(b"\1" + b"\0" * 63), world.keys[5].sign(message), key.sign(message + b"x"), good.lower(), "ü" * 88,
        good[:-2] + "A=", "data:" + good, "!" * 88, good[:87] + "\u0000", b64(raw[32:] + raw[:32]), "-" * 88, good[:86] + "\u00a0=", "=" + good[:-1],
    ]


def signatures(case, k):
    """Signatures over opaque text: every spelling of the signature, every state of the key."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), plain=True)
    name = case.proposal.pop("evidence")[0]["id"]
    payload = rng.choice(["approved: 17", "", "ü🙂", "line\nline", '["PIC-ATT/1.0"]', '"attestation_version"', "null", "1e5", " x", "a" * 16_384])
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
            ring["trusted_keys"]["k"] = {"public_key": key.hex(), "expires_at": rng.choice(["1969-12-31T23:59:59Z", "1900-01-01T00:00:00Z", "0001-01-01T00:00:00Z"])}
        elif state == 16:
            case.keyring = None
            ring = None
        elif state == 17:
            ring["trusted_keys"]["k"] = {"public_key": key.hex(), "expires_at": rng.choice(["9999-12-31T23:59:59Z", "2300-06-01T12:00:00.5+02:00", "9999-12-31T23:59:59.999999Z"])}
        case.keyring = ring
    case.proposal["evidence"] = [signed(name, payload, signature, key_id, rng)]
    if rng.random() < 0.15:
        case.proposal["evidence"].append(legacy_entry(rng, key, "k", rng.choice(IDS)))


def payloads(case, k):
    """Payloads that are nearly an attestation, nearly JSON, nested, large or duplicated, each with a signature over something."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), plain=True)
    name = case.proposal.pop("evidence")[0]["id"]
    members = attestation(case.proposal)
    payload, message = texts.payload(rng, members, k)
    key = case.world.keys[0]
    if message is None:
        message = payload.encode()
    case.proposal["evidence"] = [signed(name, payload, key.sign(message), "k", rng)]


WRONG_MEMBER = [None, True, 0, 1, 1.5, "", "x", [], {}, ["x"], [1], "trusted", "a" * 64, "A" * 64, "0" * 64, 2**53 - 1, [[]], "0" * 64 + "\n"]
ATTESTED = {
    "tool": ["other", "payments_send ", "\u0000", "e\u0301", "é"],
    "impact": ["read", "money", "Money", "irreversible", "none"],
    "provenance_ids": [["x"], "reverse", "sorted", "short", "long", [1], [""], "text"],
    "args_digest": ["flip", "upper", "short", "long", "prefix", "line"],
    "claims_digest": ["flip", "upper", "short", "long", "prefix", "line"],
    "intent_digest": ["flip", "upper", "short", "long", "prefix", "line", "quoted"],
    "attestation_version": ["PIC-ATT/1.1", "PIC-ATT/1.0 ", "pic-att/1.0", "PIC-ATT/2.0", "PIC/1.0", "1.0", 1.0, ["PIC-ATT/1.0"], "PIC-ATT/1.0\n"],
    "expires_at": [
        PAST, FAR, "2099-01-01T00:00:00+00:00", "2099-01-01T00:00:00-12:30", "2099-01-01T00:00:00.123456789Z", "2099-01-01T00:00:00.5+14:00", "2099-01-01", "2099-01-01T00:00:00", "2099-01-01 00:00:00Z",
        "2099-01-01t00:00:00z", "2099-01-01T00:00:00z", " 2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z ", "2099-01-01T00:00:00Z\n", "2099-13-01T00:00:00Z", "2099-02-29T00:00:00Z", "2096-02-29T00:00:00Z",
        "2099-01-01T24:00:00Z", "2099-01-01T23:60:00Z", "2099-01-01T23:59:60Z", "2099-01-01T00:00:00+24:00", "2099-01-01T00:00:00+23:59", "2099-01-01T00:00:00+00:60", "2099-01-01T00:00:00-00:00",
        "2099-01-01T00:00:00.Z", "2099-01-01T00:00Z", "20990101T000000Z", "2099-W01-1T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "２099-01-01T00:00:00Z", "2099-01-01T00:00:00+0100", "2099-01-01T00:00:00+01", "4070908800", "never",
        "2099-01-01T00:00:00ZZ", "+2099-01-01T00:00:00Z", "2099-1-1T00:00:00Z", "2099-01-01T00:00:00,5Z", "2099-01-01T00:00:00.1Z", "2099-01-01T00:00:00.12Z", "2099-01-01T00:00:00.1234Z", "2099-01-01T00:00:00\u22121:00",
        "2099-01-00T00:00:00Z", "2099-00-01T00:00:00Z", "2100-02-29T00:00:00Z", "2400-02-29T00:00:00Z", "2099-04-31T00:00:00Z", "2099-01-01T00:00:00 Z", "2099-01-01T00:00:00 +01:00",
    ],
}
EXTRA_MEMBERS = ["x_call_id", "x_nonce", "audience", "issued_at", "note", "", "Tool", "tool ", "attestation_Version", "é", "__proto__"]


def _changed(rng, proposal, members, name, change):
    digest = members.get(name)
    ids = ids_of(proposal)
    return {
        "flip": lambda: ("0" if digest[0] != "0" else "1") + digest[1:], "upper": lambda: digest.upper(), "short": lambda: digest[:-1], "long": lambda: digest + "0",
        "prefix": lambda: "sha256:" + digest, "line": lambda: digest + "\n", "quoted": lambda: __import__("hashlib").sha256(json.dumps(proposal["intent"]).encode()).hexdigest(),
    }[change]() if name.endswith("digest") and change in ("flip", "upper", "short", "long", "prefix", "line", "quoted") else {
        "reverse": lambda: ids[::-1], "sorted": lambda: sorted(ids), "short": lambda: ids[:-1], "long": lambda: [*ids, "more"], "text": lambda: ",".join(ids),
    }[change]() if name == "provenance_ids" and isinstance(change, str) else change


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
            members[member] = change[1] if isinstance(change, tuple) else _changed(rng, proposal, members, member, change)
    key = case.trust()
    payload = json_text(rng, members)
    proposal["evidence"] = [signed(name, payload, key.sign(canonicalize(members)), "k", rng)]


def mutated(case, k):
    """A good attestation, and then one thing of the proposal changes after the signature."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), "canonical")
    proposal = case.proposal
    jobs = [
        lambda: proposal.update(intent=proposal["intent"] + " "), lambda: proposal.update(impact=rng.choice(IMPACTS)), lambda: proposal["action"].update(tool=rng.choice(TOOLS)),
        lambda: proposal["action"]["args"].update(more=1), lambda: proposal["action"].update(args={}), lambda: proposal["claims"].append({"text": "", "evidence": []}),
        lambda: proposal["claims"].reverse(), lambda: proposal["provenance"].reverse(), lambda: proposal["provenance"].pop(), lambda: proposal["provenance"].append({"id": "new", "trust": "untrusted"}),
        lambda: proposal["provenance"][0].update(trust="trusted"), lambda: proposal["provenance"][0].update(source="elsewhere"), lambda: proposal["evidence"][0].update(id=rng.choice(IDS)),
        lambda: proposal["evidence"][0].update(ref="file://x"), lambda: proposal["claims"][0].update(text=proposal["claims"][0]["text"] + "\u0301"), lambda: proposal["evidence"].insert(0, proposal["evidence"][0]),
        lambda: proposal["action"].update(args=arguments(rng)), lambda: proposal["evidence"][0].update(payload=proposal["evidence"][0]["payload"] + " "),
        lambda: proposal["evidence"][0].update(payload=proposal["evidence"][0]["payload"].replace(":", " : ", 1)), lambda: proposal["provenance"][0].update(id=proposal["provenance"][0]["id"] + "x"),
    ]
    jobs[k % len(jobs)]()


def odd_numbers(case, k):
    """Numbers in the arguments, with a canonical attestation or live arguments, so that their canonical form is used."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS), "canonical", plain=True)
    number = texts.LITERALS[k % len(texts.LITERALS)]
    proposal = case.proposal
    name = proposal.pop("evidence")[0]["id"]
    proposal["action"]["args"] = {"n": "@@"}
    read = None
    try:
        read = json.loads(number)
        canonicalize(read)
    except ValueError:
        read = 1
    key = case.world.keys[0]
    attested = {**proposal, "action": {**proposal["action"], "args": {"n": read}}}
    proposal["evidence"] = [canonical_entry(rng, attested, key, "k", name)]
    style = k // len(texts.LITERALS) % 4
    if style == 1:
        case.options["verify_evidence"] = False
    elif style == 2:
        _live(case)
        case.extra["live_args_text"] = '{"n":%s}' % number if texts.is_json(number) else '{"n":1}'
    elif style == 3:
        _live(case)
        other = texts.LITERALS[(k * 31 + 7) % len(texts.LITERALS)]
        case.extra["live_args_text"] = '{"n":%s}' % (other if texts.is_json(other) else "1")
    case.text = as_text(proposal).replace('"@@"', number)


def _live(case):
    tool = case.proposal["action"]["tool"]
    case.options.update(tool_name=tool, expected_tool=tool, limits=True)
    case.options.setdefault("policy", {"impact_by_tool": {}})


def live(case, k):
    """Calls with live arguments, through the package's guard for tool calls."""
    rng = case.rng
    case.backed(rng.choice(IMPACTS))
    proposal = case.proposal
    _live(case)
    args = proposal["action"]["args"]
    case.extra["live_args"] = live_args = copy.deepcopy(args)
    first = next(iter(live_args), None)
    variant = k % 30
    if variant == 1:
        live_args["extra"] = None
    elif variant == 2 and first is not None:
        del live_args[first]
    elif variant == 3 and first is not None:
        live_args[first] = value(rng)
    elif variant == 4:
        case.extra["live_args"] = dict(reversed(live_args.items()))
    elif variant == 5:
        live_args["__pic_request_id"] = "r-1"
    elif variant == 6:
        live_args["request_id"] = "r-1"
    elif variant == 7:
        live_args["__pic"] = "another"
    elif variant == 8:
        case.options["tool_name"] = case.options["expected_tool"] = rng.choice(["other", "", proposal["action"]["tool"] + " "])
    elif variant == 9:
        case.proposal = None
        case.options["policy"] = {"impact_by_tool": {proposal["action"]["tool"]: rng.choice(IMPACTS)}}
    elif variant == 10:
        case.proposal = None
        case.options["policy"] = {"impact_by_tool": {proposal["action"]["tool"]: rng.choice(IMPACTS)}, "require_pic_for_impacts": rng.sample(IMPACTS, 3)}
    elif variant == 11:
        case.text = rng.choice(["[]", '"x"', "5", "true", "[{}]", "null", "false", "0", '""', "1.5"])
    elif variant == 12:
        case.text = rng.choice(["{}", "{", "", "nul", '{"protocol":"PIC/1.0"}'])
    elif variant == 13:
        case.extra.pop("live_args")
        case.extra["live_args_text"] = '{"n":%s}' % rng.choice(["9007199254740992", "1e400", "-9007199254740993", "NaN", "123456789012345678901234567890"])
    elif variant == 14:
        proposal["action"]["args"] = {"n": rng.choice([1, 1.0, 0, -0.0, 1e3, 100.0])}
        proposal.pop("evidence")
        case.extra["live_args"] = {"n": rng.choice([1, 1.0, 0, -0.0, 0.0, 1000, 100])}
        proposal["impact"] = "read"
    elif variant == 15:
        proposal["action"]["args"] = {"s": "é"}
        proposal.pop("evidence")
        proposal["impact"] = "read"
        case.extra["live_args"] = {"s": rng.choice(["é", "e\u0301", "E"])}
    elif variant == 16:
        proposal["evidence"][0]["signature"] = case.world.keys[3].sign(b"else")
        live_args["extra"] = 1
    elif variant == 17:
        proposal.pop("evidence")
        live_args["extra"] = 1
    elif variant == 18:
        proposal.pop("evidence")
    elif variant == 19:
        case.options["verify_evidence"] = False
        case.options["strict_trust"] = rng.random() < 0.5
    elif variant == 20:
        case.options["policy"] = {"impact_by_tool": {proposal["action"]["tool"]: rng.choice(IMPACTS)}}
    elif variant == 21:
        proposal["action"]["args"] = {**args, "__pic_request_id": "x"}
        proposal.pop("evidence")
        proposal["impact"] = "read"
        live_args["__pic_request_id"] = "x"
    elif variant == 22:
        live_args["more"] = {"__pic": 1}
        proposal["action"]["args"] = {**args, "more": {"__pic": 1}}
        proposal["impact"] = "compute"
        proposal.pop("evidence")
    elif variant == 23:
        proposal["intent"] = "x" * 64_000
    elif variant == 24:
        proposal["provenance"] = [{"id": str(n), "trust": "untrusted"} for n in range(65)]
    elif variant == 25:
        proposal["provenance"].append(dict(proposal["provenance"][0]))
        live_args["extra"] = 1
    elif variant == 26:
        proposal["action"]["args"] = {"s": "\ud800"}
        case.extra["live_args"] = {}
    elif variant == 27:
        case.options["policy"] = {"impact_by_tool": {}, "require_evidence_for_impacts": list(IMPACTS)}
        if rng.random() < 0.6:
            proposal.pop("evidence")
        live_args["extra"] = 1


def whole(case, k):
    """A valid proposal with one of everything."""
    _rich(case)
    case.options["limits"] = k % 2 == 0


def soup(case, k):
    """Several changes of any kind at once, for what nobody thought of."""
    rng = case.rng
    SOUP[k % len(SOUP)](case, rng.randrange(10**6))
    proposal = case.proposal
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        job = rng.randrange(12)
        try:
            if job == 0:
                holder = at(proposal, rng.choice([path for path in _paths(proposal) if path])[:-1])
                if isinstance(holder, dict):
                    holder.pop(rng.choice(list(holder)))
                else:
                    holder.append(copy.deepcopy(rng.choice(holder)))
            elif job == 1:
                path = rng.choice([path for path in _paths(proposal) if path])
                at(proposal, path[:-1])[path[-1]] = copy.deepcopy(rng.choice(WRONG + TEXTS + IDS))
            elif job == 2:
                proposal["evidence"].append(hash_entry(case.world, rng, rng.choice(IDS), rng.choice([*case.world.files])))
            elif job == 3:
                proposal["evidence"].append(legacy_entry(rng, case.trust(4, "k4"), "k4", rng.choice(IDS), rng.choice(TEXTS)))
            elif job == 4:
                proposal["evidence"].append(canonical_entry(rng, proposal, case.trust(5, "k5"), "k5", rng.choice(ids_of(proposal))))
            elif job == 5 and isinstance(proposal["action"]["tool"], str):
                case.options["expected_tool"] = rng.choice([proposal["action"]["tool"], "other"])
                case.options.pop("tool_name", None)
            elif job == 6:
                case.options["strict_trust"] = rng.random() < 0.5
            elif job == 7 and "live_args" not in case.extra and "live_args_text" not in case.extra:
                case.options["limits"] = True
            elif job == 8:
                proposal["impact"] = rng.choice(IMPACTS)
            elif job == 9 and "policy_text" not in case.extra:
                case.options["policy"] = {"impact_by_tool": {rng.choice([proposal["action"]["tool"], "x"]): rng.choice(IMPACTS)}}
            elif job == 10:
                cite(rng, proposal, rng.choice(ids_of(proposal)))
            elif job == 11:
                proposal["evidence"][0] = {**rng.choice(proposal["evidence"]), "id": rng.choice(ids_of(proposal))}
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            continue
    if case.text is not None and case.options.get("tool_name") != case.options.get("expected_tool") and "live_args" in case.extra:
        case.text = None
    live_call = "live_args" in case.extra or "live_args_text" in case.extra
    if live_call:
        tool = case.options.get("expected_tool", case.options.get("tool_name"))
        case.options.update(tool_name=tool, expected_tool=tool)
    elif "tool_name" in case.options and "expected_tool" in case.options:
        case.options["tool_name"] = case.options["expected_tool"]


SOUP = [core, causal, whole, identifiers, tools, policies, files, signatures, payloads, attestations, mutated, live, rings.keyrings]

# Each family with its share of a run.
FAMILIES = [
    (core, 30), (causal, 12), (schema, 40), (two_faults, 20), (text, 30), (identifiers, 10), (sizes, 7), (lists, 6), (tools, 16), (policies, 30), (files, 26),
    (signatures, 30), (payloads, 26), (attestations, 40), (mutated, 14), (odd_numbers, 20), (live, 26), (rings.keyrings, 34), (soup, 70),
]
