"""Cases for the profile `strict`: attestations with every member that it asks for, good or with one thing wrong."""

import copy
import datetime

from pic_standard.canonical import canonicalize

from material import (
    HIGH,
    IMPACTS,
    TEXTS,
    attestation,
    base,
    cite,
    hash_entry,
    ids_of,
    json_text,
    legacy_entry,
    signed,
    value,
)

AUDIENCE = "gate.example"
NAMES = ["payments_send", "mail/send", "search", "crm.update"]
NOW = datetime.datetime.now(datetime.timezone.utc)


def moment(seconds):
    return (NOW + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def call_facts(rng, tool):
    call = {
        "tool": tool,
        "server": rng.choice(["bank", "mail", "crm-2"]),
        "call_id": f"call-{rng.randrange(10**9)}",
        "principal": rng.choice(["anna", "ünal@example.org", "team of bo"]),
        "agent": rng.choice(["agent-1", "agent 2"]),
        "session": f"s{rng.randrange(10**6)}",
        "registry_version": rng.choice([0, 1, 17, 2**53 - 1]),
    }
    for name in ("ask", "plan"):
        if rng.random() < 0.5:
            call[name] = f"{rng.getrandbits(256):064x}"
    return call


def signed_members(rng, proposal, call, evidence_id, key_id, files=()):
    members = attestation(
        proposal,
        expires_at=moment(rng.choice([3600, 20_000])),
        audience=AUDIENCE,
        issued_at=moment(-rng.choice([1, 60, 3600])),
        x_call_id=call["call_id"],
        x_principal=call["principal"],
        x_agent=call["agent"],
        x_session=call["session"],
        x_server=call["server"],
        x_registry_version=call["registry_version"],
        x_files=[{"id": file["id"], "sha256": file["sha256"]} for file in files],
        x_evidence_id=evidence_id,
        x_key_id=key_id,
        x_nonce=f"{rng.getrandbits(128):032x}",
    )
    for name, fact in (("x_ask", "ask"), ("x_plan_root", "plan")):
        if fact in call:
            members[name] = call[fact]
    return members


def entry(rng, members, key, evidence_id, key_id):
    return signed(evidence_id, json_text(rng, members), key.sign(canonicalize(members)), key_id, rng)


KINDS = [
    "low without evidence",
    "high attested",
    "low attested",
    "attested beside a file",
    "two keys",
    "listed by the policy",
    "opaque signature",
]
# fmt: off
MEMBERS = [
    "attestation_version", "tool", "impact", "args_digest", "claims_digest", "provenance_ids", "intent_digest",
    "expires_at", "audience", "issued_at", "x_call_id", "x_principal", "x_agent", "x_session",
    "x_server", "x_registry_version", "x_files", "x_evidence_id", "x_key_id", "x_nonce", "x_ask", "x_plan_root",
]
# fmt: on
FACTS = [
    "tool",
    "server",
    "call_id",
    "principal",
    "agent",
    "session",
    "registry_version",
    "ask",
    "plan",
    "impact",
    "audience",
]


def make(case, k):
    rng, world = case.rng, case.world
    kind = KINDS[k % len(KINDS)]
    tool = rng.choice(NAMES)
    low = kind in ("low without evidence", "low attested")
    case.proposal = proposal = base(rng, rng.choice(IMPACTS[:4] if low else HIGH), tool)
    for claim in proposal["claims"]:
        claim["evidence"] = [name for name in claim["evidence"] if name in ids_of(proposal)]
    case.evidence_on()
    case.extra["call"] = call = call_facts(rng, tool)
    case.extra["audience"] = AUDIENCE
    case.options.update(
        tool_name=tool,
        expected_tool=tool,
        limits=True,
        strict_trust=True,
        policy={"impact_by_tool": {tool: proposal["impact"]}},
    )
    if kind != "listed by the policy" and rng.random() < 0.6:
        case.options["policy"] = {"impact_by_tool": {}}
    if rng.random() < 0.5:
        call["impact"] = rng.choice(IMPACTS[: IMPACTS.index(proposal["impact"]) + 1])
    name = rng.choice(ids_of(proposal))
    cite(rng, proposal, name)
    key = case.trust()
    members = None
    # One case in three has a fault, selected by k.
    wrong = k // len(KINDS)
    wrong = wrong // 3 if wrong % 3 == 0 else None
    evidence, files = [], []
    if kind == "attested beside a file":
        files = [hash_entry(world, rng, name + "2", rng.choice(["invoice.txt", "sub/approval.txt"]))]
    if kind == "opaque signature":
        evidence = [legacy_entry(rng, key, "k", name)]
    elif kind != "low without evidence":
        members = signed_members(rng, proposal, call, name, "k", files)
        if wrong is not None:
            _spoil(rng, wrong, members)
        evidence = [entry(rng, members, key, name, "k")]
    if files:
        evidence.insert(rng.randrange(2), files[0])
    if kind == "two keys":
        other = case.trust(1, "l")
        case.keyring["thresholds"] = {impact: 2 for impact in HIGH}
        second = name
        if len(ids_of(proposal)) > 1:
            second = next(other_id for other_id in ids_of(proposal) if other_id != name)
        if rng.random() < 0.8:
            cite(rng, proposal, second)
            members = signed_members(rng, proposal, call, name, "k")
            more = signed_members(rng, proposal, call, second, "l")
            evidence = [entry(rng, members, key, name, "k"), entry(rng, more, other, second, "l")]
    if evidence:
        proposal["evidence"] = evidence
    case.extra["live_args"] = copy.deepcopy(proposal["action"]["args"])
    if wrong is not None:
        _spoil_around(case, rng, wrong, call)
    case.family = kind


def _spoil(rng, wrong, members):
    """Changes one signed member before it is signed."""
    style = wrong % 4
    if style == 3:
        return
    name = MEMBERS[wrong // 4 % len(MEMBERS)]
    if style == 0:
        members.pop(name, None)
    elif style == 1:
        members[name] = {
            "expires_at": moment(-10),
            "issued_at": moment(rng.choice([7200, -200_000])),
            "x_registry_version": 3,
            "x_nonce": rng.choice(["short", "with blank in it and long", "x" * 129, "ü" * 20]),
            "provenance_ids": ["other"],
            "x_files": [{"id": "other", "sha256": "0" * 64}],
        }.get(name, rng.choice(["other", "", "0" * 64]))
    else:
        members["note" if rng.random() < 0.5 else name] = value(rng)


def _spoil_around(case, rng, wrong, call):
    """Changes one thing around the attestation after it is signed."""
    if wrong % 4 != 3:
        return
    proposal, style = case.proposal, wrong // 4 % 16
    if style < len(FACTS):
        fact = FACTS[style]
        if fact == "audience":
            case.extra["audience"] = rng.choice(["other.example", AUDIENCE.upper()])
        elif fact == "tool":
            call["tool"] = case.options["tool_name"] = case.options["expected_tool"] = "other"
        elif fact == "impact":
            call["impact"] = "irreversible"
        elif rng.random() < 0.5:
            call.pop(fact, None)
        else:
            call[fact] = 4 if fact == "registry_version" else "0" * 64
    elif style == 11:
        case.extra["live_args"]["extra"] = 1
    elif style == 12:
        proposal["claims"].append({"text": "t", "evidence": ["not there"]})
    elif style == 13:
        proposal.get("evidence", []).extend(copy.deepcopy(proposal.get("evidence", [])))
    elif style == 14:
        case.options["policy"] = {"impact_by_tool": {"other": "read"}}
    else:
        proposal["intent"] = rng.choice(TEXTS)
