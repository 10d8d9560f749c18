"""The families of cases about calls: tools, the operator's policy, numbers, live arguments."""

import copy
import json

from pic_standard.canonical import canonicalize

import texts
from material import IMPACTS, TOOLS, as_text, canonical_entry, value


def tools(case, k):
    """The tool that the proposal names and the tool that is called."""
    tool = TOOLS[k % len(TOOLS)]
    case.backed(tool=tool)
    expected = [
        tool,
        tool + " ",
        " " + tool,
        tool.upper(),
        tool.lower(),
        "",
        tool + "\u0000",
        tool + "\n",
        "other",
        "e\u0301",
        "é",
        tool[:-1],
    ][k // len(TOOLS) % 12]
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
        policy["require_evidence_for_impacts"] = rng.choice(
            [["critical"], [None], [1], ["money", "money"], ["money", "Money"], [["money"]]]
        )
    elif variant == 11:
        policy["impact_by_tool"][tool] = rng.choice([None, 5, True, ["money"], {"impact": "money"}])
    elif variant == 12:
        policy["more"] = 1
    elif variant == 13:
        policy["require_pic_for_impacts"] = rng.choice([None, [], "money", ["x"], ["read"], 7])
    elif variant == 14:
        raw = json.dumps(policy)
        case.extra["policy_text"] = rng.choice(
            [
                raw[:-1],
                "[]",
                "null",
                "5",
                raw.replace('"impact_by_tool"', '"impact_by_tool":{},"impact_by_tool"'),
                raw + "x",
                "",
                "\ufeff" + raw,
                "{}",
            ]
        )
        policy = None
    elif variant == 15:
        policy = {
            "impact_by_tool": {tool: IMPACTS[k // 7 % 7]},
            "require_evidence_for_impacts": ["read", "write"],
            "require_pic_for_impacts": ["read"],
        }
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


def odd_numbers(case, k):
    """Numbers in the arguments, where their canonical form is used: by an attestation or a live call."""
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
        case.options["tool_name"] = case.options["expected_tool"] = rng.choice(
            ["other", "", proposal["action"]["tool"] + " "]
        )
    elif variant == 9:
        case.proposal = None
        case.options["policy"] = {"impact_by_tool": {proposal["action"]["tool"]: rng.choice(IMPACTS)}}
    elif variant == 10:
        case.proposal = None
        case.options["policy"] = {
            "impact_by_tool": {proposal["action"]["tool"]: rng.choice(IMPACTS)},
            "require_pic_for_impacts": rng.sample(IMPACTS, 3),
        }
    elif variant == 11:
        case.text = rng.choice(["[]", '"x"', "5", "true", "[{}]", "null", "false", "0", '""', "1.5"])
    elif variant == 12:
        case.text = rng.choice(["{}", "{", "", "nul", '{"protocol":"PIC/1.0"}'])
    elif variant == 13:
        case.extra.pop("live_args")
        case.extra["live_args_text"] = '{"n":%s}' % rng.choice(
            ["9007199254740992", "1e400", "-9007199254740993", "NaN", "123456789012345678901234567890"]
        )
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
