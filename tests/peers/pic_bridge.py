"""The bridge of PIC/1.0 beside the reference's own, request by request.

Usage: pic_bridge.py COUNTERSIGN

Needs the package pic-standard[crypto]==0.9.1. Both get the same policy. Status, members and codes have to be the same, except
where a row says why they differ. Prints one line a check and ends with a count.
"""

import copy
import http.client
import json
import sys
import tempfile
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "serve"))

from checks import check, told  # noqa: E402
from pic_standard.config import policy_from_dict  # noqa: E402
from pic_standard.integrations.http_bridge import PICBridgeServer  # noqa: E402
from world import World, free_port  # noqa: E402

POLICY = {"impact_by_tool": {"pay": "money", "look": "read"}, "require_pic_for_impacts": ["money"]}
PROPOSAL = {
    "protocol": "PIC/1.0", "intent": "Look it up", "impact": "read", "provenance": [{"id": "p", "trust": "untrusted"}],
    "claims": [{"text": "asked", "evidence": ["p"]}], "action": {"tool": "look", "args": {"q": 1}},
}
PROPOSALS = '\n[proposals]\nprofile = "pic-0.9"\npolicy = "policy.json"\n'


def changed(**members):
    proposal = copy.deepcopy(PROPOSAL)
    proposal.update(members)
    return proposal


def call(args, proposal=None, tool="look", **more):
    return {"tool_name": tool, "tool_args": {**args, **({} if proposal is None else {"__pic": proposal})}, **more}


ROWS = {
    "a fitting proposal": call({"q": 1}, PROPOSAL),
    "arguments spelled otherwise": '{"tool_name":"look","tool_args":{"q":1.0,"__pic":%s}}' % json.dumps(PROPOSAL),
    "a name in blanks": call({"q": 1}, PROPOSAL, tool=" look "),
    "a request id among the arguments": call({"q": 1, "__pic_request_id": "r"}, PROPOSAL),
    "no proposal for a listed tool": call({"q": 1}),
    "no proposal for an unlisted tool": call({"q": 1}, tool="other"),
    "no proposal for a high impact": call({"q": 1}, tool="pay"),
    "a null proposal for a high impact": {"tool_name": "pay", "tool_args": {"__pic": None}},
    "a proposal for another tool": call({"q": 1}, PROPOSAL, tool="other"),
    "other arguments": call({"q": 2}, PROPOSAL),
    "one argument more": call({"q": 1, "x": 1}, PROPOSAL),
    "a text for a proposal": call({"q": 1}, "x"),
    "a list for a proposal": call({"q": 1}, []),
    "an unknown member": call({"q": 1}, changed(extra=1)),
    "another protocol": call({"q": 1}, changed(protocol="PIC/2.0")),
    "no claims": call({"q": 1}, changed(claims=[])),
    "an unknown impact": call({"q": 1}, changed(impact="none")),
    "a repeated id": call({"q": 1}, changed(provenance=[{"id": "p", "trust": "untrusted"}] * 2)),
    "money without trust": call({"q": 1}, changed(impact="money")),
    "claimed trust": call({"q": 1}, changed(impact="money", provenance=[{"id": "p", "trust": "trusted"}])),
    "no tool": {"tool_args": {}}, "an empty tool": call({}, tool=" "), "a number for a tool": call({}, tool=1),
    "no arguments": {"tool_name": "look"}, "arguments in a list": {"tool_name": "look", "tool_args": []},
    "further members of the body": call({"q": 1}, PROPOSAL, more=[]),
    "a list for a body": [], "a text for a body": '"x"', "no JSON": "{", "an empty body": "",
}
REQUESTS = [
    ("GET", "/health", {}), ("GET", "/health/", {}), ("GET", "/v1/version", {}), ("GET", "/", {}), ("GET", "/verify", {}),
    ("POST", "/", {}), ("POST", "/health", {}), ("PUT", "/verify", {}), ("DELETE", "/x", {}), ("PATCH", "/health", {}),
    ("GET", "/health", {"X-Request-ID": "abc-1.2:3_4"}), ("GET", "/health", {"X-Request-ID": "a b"}),
    ("GET", "/health", {"X-Request-ID": "a" * 129}), ("GET", "/x", {"X-Request-ID": "\u00e9"}), ("PUT", "/x", {"X-Request-ID": ""}),
]


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    value = json.loads(answer.read())
    connection.close()
    error = value.get("error")
    code = error.get("code") if isinstance(error, dict) else error
    given = (headers or {}).get("X-Request-ID")
    echoed = value["request_id"] == answer.getheader("X-Request-ID"), value["request_id"] == given
    return answer.status, sorted(value), value.get("allowed"), code, answer.getheader("Content-Type"), echoed


def main():
    with tempfile.TemporaryDirectory() as name:
        world = World(str(Path(sys.argv[1]).resolve()), Path(name))
        (world.folder / "policy.json").write_text(json.dumps(POLICY))
        with (world.folder / "gateway.toml").open("a") as config:
            config.write(PROPOSALS)
        ours = free_port()
        world.start(None, "--pic-bridge", f"127.0.0.1:{ours}")
        reference = PICBridgeServer(("127.0.0.1", 0), policy=policy_from_dict(POLICY), verify_evidence=True)
        threading.Thread(target=reference.serve_forever, daemon=True).start()
        theirs = reference.server_address[1]
        kind = {"Content-Type": "application/json"}
        for what, body in ROWS.items():
            body = body if isinstance(body, str) else json.dumps(body)
            answers = [ask(port, "POST", "/verify", body, kind) for port in (ours, theirs)]
            check(f"the same answer: {what}", answers[0] == answers[1], answers)
        for method, path, headers in REQUESTS:
            answers = [ask(port, method, path, None if method == "GET" else "{}", headers) for port in (ours, theirs)]
            check(f"the same answer: {method} {path} {headers}", answers[0] == answers[1], answers)
        text = json.dumps(ROWS["a fitting proposal"])
        for what, headers in {"no type": {}, "a plain type": {"Content-Type": "text/plain"}, "a charset": {"Content-Type": "application/json; charset=utf-8"}}.items():
            answers = [ask(port, "POST", "/verify", text, headers) for port in (ours, theirs)]
            check(f"the same answer: {what}", answers[0] == answers[1], answers)
        # Intended differences: binding before evidence, no repeated members, no pages.
        bound = json.dumps(call({"q": 1}, PROPOSAL, tool="pay"))
        codes = [ask(port, "POST", "/verify", bound, kind)[3] for port in (ours, theirs)]
        check("the binding is checked before evidence", codes == ["PIC_TOOL_BINDING_MISMATCH", "PIC_EVIDENCE_REQUIRED"], codes)
        twice = text[:-1] + ',"tool_name":"look"}'
        check("a repeated member is refused", ask(ours, "POST", "/verify", twice, kind)[3] == "PIC_INVALID_REQUEST")
        connection = http.client.HTTPConnection("127.0.0.1", ours, timeout=20)
        connection.request("POST", "/verify", text, {**kind, "Origin": "http://evil.example"})
        check("a page's request is refused", connection.getresponse().status == 403)
        reference.shutdown()
        check("the service ends in order", world.stop() == 143)
    return told()


sys.exit(main())
