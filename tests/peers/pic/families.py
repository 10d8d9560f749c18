"""The families of cases: each makes the k-th case of its kind, so that no variant is left to luck."""

import copy
import json

import rings
import texts
from calls import live, odd_numbers, policies, tools
from evidence import attestations, files, mutated, payloads, signatures
from material import (
    HIGH,
    IDS,
    IMPACTS,
    ITEMS,
    PROPOSAL_BYTES,
    TEXTS,
    as_text,
    base,
    canonical_entry,
    cite,
    hash_entry,
    ids_of,
    legacy_entry,
)

WRONG = [
    None,
    True,
    False,
    0,
    1,
    1.5,
    "",
    "x",
    [],
    {},
    [1],
    [""],
    {"a": 1},
    [[]],
    [None],
    ["trusted"],
    "a" * 80,
    {str(n): n for n in range(70)},
    list(range(70)),
]


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
    """The causal rule, one change away from holding or failing."""
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
    # The rest is changed before the signature is made, so that only the rule matters.
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
    """A proposal with one of every member of the schema."""
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
    "impact": [
        "Money",
        "MONEY",
        "money ",
        " money",
        "money\n",
        "low",
        "high",
        "none",
        "read,write",
        "irreversable",
        "mоney",
        "money\u0000",
        "execute",
    ],
    "trust": ["semi_trusted", "TRUSTED", "Trusted", "trusted ", "trusted\n", "unknown", "verified", "none"],
    "type": ["HASH", "Sig", "sig ", "hash\n", "signature", "url", "inline", "sha256"],
    "alg": ["Ed25519", "ED25519", "ed25519 ", "ed448", "EdDSA", "none", "rsa", "ed25519\n"],
    "sha256": [
        "",
        "0" * 63,
        "0" * 65,
        "A" * 64,
        "0x" + "0" * 62,
        "g" * 64,
        " " + "0" * 64,
        "0" * 64 + " ",
        "0" * 64 + "\n",
        "\n" + "0" * 64,
        "٠" * 64,
        "0" * 32,
        "0" * 64,
    ],
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
                jobs += [
                    ("drop", path, None),
                    ("rename", path, rng.choice(NEARLY)),
                    ("rename", path, path[-1].capitalize()),
                ]
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
    """Two or three faults at once: the order of the checks determines the reported one."""
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
        case.options["policy"] = {
            "impact_by_tool": {proposal["action"]["tool"]: "irreversible", "other": "irreversible"}
        }

    def keyring():
        case.keyring = {"trusted_keys": {"k": "not a key"}}

    def policy():
        case.options["policy"] = {"impact_by_tool": []} if rng.random() < 0.5 else {"impact_by_tool": [1]}

    faults = [
        duplicate,
        bad_schema,
        over,
        large,
        other_tool,
        bad_evidence,
        no_evidence,
        no_cause,
        understated,
        keyring,
        policy,
    ]
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
    twins = [
        first,
        first + " ",
        first.upper(),
        first.lower(),
        first + "\u0000",
        "e\u0301",
        "é",
        "\u212b",
        "Å",
        first + "\n",
        "",
        "ﬀ",
        "ff",
    ]
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
    proposal["action"]["args"] = {"é": rng.choice(["", "ü🙂", '\n"\\'])}
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
        0: plain,
        1: plain,
        2: json.dumps(proposal, ensure_ascii=False, separators=(",", ":")),
        3: json.dumps(proposal, indent=1, ensure_ascii=False),
        4: json.dumps(proposal),
        5: plain + " " * rng.randrange(1, 5),
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
        proposal["provenance"] += [
            {"id": f"p{n}", "trust": "untrusted"} for n in range(count - len(proposal["provenance"]))
        ]
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


def whole(case, k):
    """A valid proposal with one of every member."""
    _rich(case)
    case.options["limits"] = k % 2 == 0


def soup(case, k):
    """Several changes of any kind at once, for cases that no other family has."""
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
                proposal["evidence"].append(
                    hash_entry(case.world, rng, rng.choice(IDS), rng.choice([*case.world.files]))
                )
            elif job == 3:
                proposal["evidence"].append(
                    legacy_entry(rng, case.trust(4, "k4"), "k4", rng.choice(IDS), rng.choice(TEXTS))
                )
            elif job == 4:
                proposal["evidence"].append(
                    canonical_entry(rng, proposal, case.trust(5, "k5"), "k5", rng.choice(ids_of(proposal)))
                )
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
                case.options["policy"] = {
                    "impact_by_tool": {rng.choice([proposal["action"]["tool"], "x"]): rng.choice(IMPACTS)}
                }
            elif job == 10:
                cite(rng, proposal, rng.choice(ids_of(proposal)))
            elif job == 11:
                proposal["evidence"][0] = {**rng.choice(proposal["evidence"]), "id": rng.choice(ids_of(proposal))}
        except (KeyError, TypeError, AttributeError, IndexError, ValueError):
            continue
    if (
        case.text is not None
        and case.options.get("tool_name") != case.options.get("expected_tool")
        and "live_args" in case.extra
    ):
        case.text = None
    live_call = "live_args" in case.extra or "live_args_text" in case.extra
    if live_call:
        tool = case.options.get("expected_tool", case.options.get("tool_name"))
        case.options.update(tool_name=tool, expected_tool=tool)
    elif "tool_name" in case.options and "expected_tool" in case.options:
        case.options["tool_name"] = case.options["expected_tool"]


SOUP = [
    core,
    causal,
    whole,
    identifiers,
    tools,
    policies,
    files,
    signatures,
    payloads,
    attestations,
    mutated,
    live,
    rings.keyrings,
]


# Each family with its share of a run.
# fmt: off
FAMILIES = [
    (core, 30), (causal, 12), (schema, 40), (two_faults, 20), (text, 30), (identifiers, 10), (sizes, 7),
    (lists, 6), (tools, 16), (policies, 30), (files, 26),
    (signatures, 30), (payloads, 26), (attestations, 40), (mutated, 14), (odd_numbers, 20), (live, 26),
    (rings.keyrings, 34), (soup, 70),
]
# fmt: on
