"""What programs do with the service."""

import hashlib
import http.client
import json
import signal
import ssl
import subprocess
import threading
import time

from checks import check
from world import ADA, HOST, READER, received, wait_for

OTHER, BOT = "o" * 40, "b" * 40


def routes(world):
    """Proceed, fail, require approval; outcomes; observed calls."""
    world.start()
    session = world.session(session="s-1")
    accepted = world.call(session, "search", {"b": 1.0, "a": {"z": [], "y": "\u00e9"}})
    check("a free call is accepted, with the arguments as they were digested",
          accepted["decision"] == "accept" and accepted["args"] == {"a": {"y": "\u00e9", "z": []}, "b": 1}, accepted)
    told = world.post("/v1/outcome", {"session": session, "handle": accepted["handle"], "outcome": "returned"})
    check("an outcome is recorded", told[0] == 200 and told[1]["outcome"] == "returned", told)
    again = world.post("/v1/outcome", {"session": session, "handle": accepted["handle"], "outcome": "failed"})
    check("an outcome is given once", again[0] == 404 and again[1]["code"] == "HANDLE_UNKNOWN", again)
    waits = world.call(session, "refund", {"amount": 5})
    check("a call without its approval names a question", waits["decision"] == "needs_approval" and waits["question"].startswith(waits["short_id"]), waits)
    check("the same call has the same question", world.call(session, "refund", {"amount": 5.0})["question"] == waits["question"])
    refused = world.call(session, "delete_all", {})
    check("an undisclosed tool is refused", (refused["decision"], refused["code"]) == ("reject", "UNDISCLOSED_TOOL"), refused)
    seen = world.post("/v1/observe", {"session": session, "call": {"type": "tool_use", "id": "t", "name": "zap", "input": {}}})
    check("an observed undisclosed call is counted", seen[1]["observed"] == "undisclosed" and seen[1]["record"], seen)
    seen = world.post("/v1/observe", {"session": session, "call": '{"name":"a","name":"b"}'})
    check("an observed text is read as it is", seen[1]["observed"] == "malformed", seen)
    unfinished = world.call(session, "search", {})
    ended = world.ask("DELETE", f"/v1/sessions/{session}", token=HOST)
    check("a session is ended", ended[0] == 200, ended)
    check("no call of an ended session is decided", world.post("/v1/check", {"session": session, "tool": "search", "args": {}})[1]["code"] == "SESSION_UNKNOWN")
    outcomes = {line["decision"]: line["outcome"] for line in world.entries() if line["type"] == "outcome"}
    check("a call without an outcome is unknown at its session's end",
          outcomes == {int(accepted["handle"]): "returned", int(unfinished["handle"]): "unknown"}, outcomes)
    check("the session's end is the last entry", world.entries()[-1]["type"] == "end")
    status, receipt = world.get(f"/v1/receipts/{accepted['record']}")
    made = world.verb("audit", "receipt", "log", "--key", "log.vkey", "--seq", str(accepted["record"])).stdout
    check("a receipt is the command line's", status == 200 and receipt == json.loads(made), (status, receipt))
    for path, code in (("/v1/receipts/9999", "RECEIPT_UNKNOWN"), ("/v1/receipts/1?log=7", "RECEIPT_UNKNOWN"),
                       ("/v1/receipts/x", "PATH_MALFORMED"), ("/v1/receipts/0", "RECEIPT_UNKNOWN"), ("/v1/receipts/1?log=../x", "PATH_MALFORMED")):
        check(f"no receipt: {path}", world.get(path)[1]["code"] == code, world.get(path))
    check("a host gets no receipt", world.get("/v1/receipts/1", HOST)[0] == 403)
    world.stop()


def answers(world):
    """An approval over HTTP, one by the command line, a denial, and who may give them."""
    world.start()
    session = world.session()
    first = world.call(session, "refund", {"amount": 1})["question"]
    asked = world.get("/v1/questions", ADA)[1]["questions"]
    check("the queue lists the question with its arguments", [(q["id"], q["args"]) for q in asked] == [(first, '{"amount":1}')], asked)
    path = f"/v1/questions/{first}/answer"
    for who, token in (("the host that asks", HOST), ("a reader", READER)):
        status, answer = world.post(path, {"answer": "approve"}, token)
        check(f"{who} may not answer", (status, answer["code"]) == (403, "CALLER_NOT_ALLOWED"), answer)
    status, answer = world.post(path, {"answer": "approve"}, BOT)
    check("the agent's own name approves nothing", (status, answer["code"]) == (403, "APPROVAL_SELF") and world.get(f"/v1/questions/{first}", ADA)[1]["state"] == "waiting", (status, answer))
    status, answer = world.post(path, {"answer": "approve", "by": "eve"}, ADA)
    check("no approver is named by the body", (status, answer["code"]) == (400, "BODY_MALFORMED"), answer)
    status, answer = world.post(path, {"answer": "approve"}, ADA)
    check("an approver approves", status == 200 and answer["by"] == "ada", answer)
    check("a second answer is refused", world.post(path, {"answer": "approve"}, ADA)[1]["code"] == "PENDING_DECIDED")
    check("the host reads the state of its question", world.get(f"/v1/questions/{first}", HOST)[1]["state"] == "approved")
    runs = [world.call(session, "refund", {"amount": 1}) for _ in range(2)]
    check("the approved call is accepted once", [run["decision"] for run in runs] == ["accept", "needs_approval"], runs)
    second = world.call(session, "refund", {"amount": 2})["question"]
    world.verb("approve", second, "--config", "gateway.toml", "--by", "bob", "--yes")
    check("the command line's answer counts too", world.call(session, "refund", {"amount": 2})["decision"] == "accept")
    third = world.call(session, "refund", {"amount": 3})["question"]
    status, answer = world.post(f"/v1/questions/{third[:6]}/answer", {"answer": "deny", "reason": "ask \u202efinance"}, ADA)
    check("a beginning of the id names the question", (status, answer.get("state")) == (200, "denied"), answer)
    denied = world.call(session, "refund", {"amount": 3})
    check("the caller reads the denial's reason, escaped", (denied["code"], denied["reason"]) == ("APPROVAL_DENIED", "ask \\u{202e}finance"), denied)
    check("an unknown question is not found", world.post("/v1/questions/zzzzzz/answer", {"answer": "deny"}, ADA)[0] == 404)
    by = {line["approver"] for line in world.entries() if line["type"] == "decision" and line["verdict"] == "accept"}
    check("the record names the approvers", by == {"ada", "bob"}, by)
    check("another host does not see the question", world.get(f"/v1/questions/{third}", OTHER)[0] == 404)
    world.stop()


def edits_and_grants(world):
    """An approval with other arguments; grants given, listed, revoked."""
    world.start()
    session = world.session()
    asked = world.call(session, "refund", {"amount": 50})
    path = f"/v1/questions/{asked['question']}/answer"
    for args in ({"amount": 50}, [1], {"amount": 1, "__pic": {}}):
        status, answer = world.post(path, {"answer": "approve", "args": args}, ADA)
        check(f"no edit: {args}", (status, answer["code"]) == (409, "PENDING_EDIT"), answer)
    status, answer = world.post(path, {"answer": "approve", "args": {"amount": "x"}}, ADA)
    check("an edit that breaks the schema is refused", (status, answer["code"]) == (400, "ARGS_SCHEMA"), answer)
    status, answer = world.post(path, {"answer": "deny", "args": {"amount": 1}}, ADA)
    check("a denial edits nothing", (status, answer["code"]) == (400, "BODY_MALFORMED"), answer)
    status, answer = world.post(path, {"answer": "approve", "args": {"amount": 20}}, ADA)
    check("an approver edits", status == 200 and answer["edited_to"] == hashlib.sha256(b'{"amount":20}').hexdigest(), answer)
    check("a second edit does not replace it", world.post(path, {"answer": "approve", "args": {"amount": 30}}, ADA)[1]["code"] == "PENDING_DECIDED")
    runs = [world.call(session, "refund", {"amount": 50}) for _ in range(2)]
    check("the call comes with the edited arguments, once", [run["decision"] for run in runs] == ["accept", "needs_approval"]
          and runs[0]["args"] == {"amount": 20} and runs[0]["edited_from"] == asked["args_digest"], runs)
    path = f"/v1/questions/{runs[1]['question']}/grant"
    for body, code in (({"uses": 0, "for": "1h"}, "GRANT_USES"), ({"uses": 2, "for": "x"}, "BODY_MALFORMED"), ({"uses": 2, "for": "99d"}, "APPROVAL_TTL"),
                       ({"uses": 2, "for": "1h", "where": [{"kind": "number", "at": "/amount", "max": 1}]}, "GRANT_CONDITIONS")):
        status, answer = world.post(path, body, ADA)
        check(f"no grant: {code}", status in (400, 403) and answer["code"] == code, (status, answer))
    check("the host grants itself nothing", world.post(path, {"uses": 2, "for": "1h"}, HOST)[0] == 403)
    status, answer = world.post(path, {"uses": 3, "for": "1h", "where": [{"kind": "number", "at": "/amount", "min": 0, "max": 60}]}, ADA)
    check("an approver grants", status == 201 and answer["uses"] == 3, answer)
    runs = [world.call(session, "refund", {"amount": amount}) for amount in (50, 60, 61)]
    check("a grant covers what meets its conditions", [run["decision"] for run in runs] == ["accept", "accept", "needs_approval"], runs)
    listed = world.get("/v1/grants", READER)[1]["grants"]
    check("grants are listed with their uses", [(it["used"], it["uses"], it["approver"]) for it in listed] == [(2, 3, "ada")], listed)
    grant = f"/v1/grants/{answer['grant_id']}"
    check("a reader revokes nothing", world.ask("DELETE", grant, token=READER)[0] == 403)
    check("an approver revokes", world.ask("DELETE", grant, token=ADA)[0] == 200)
    check("a revoked grant covers nothing", world.call(session, "refund", {"amount": 50})["decision"] == "needs_approval")
    check("it is not revoked twice", world.ask("DELETE", grant, token=ADA)[0] == 409)
    check("an unknown grant is not found", world.ask("DELETE", "/v1/grants/nope", token=ADA)[0] == 404)
    world.stop()


def credentials(world):
    """Each kind of credential, and what it may not do."""
    world.start()
    session = world.session()
    check("no credential, no answer", world.ask("POST", "/v1/sessions", {})[0] == 401)
    for wrong in ("x" * 40, "", HOST[:-1], HOST + "h", "h" * 39 + "H"):
        check(f"a wrong token is unknown ({len(wrong)})", world.post("/v1/sessions", {}, headers={"Authorization": f"Bearer {wrong}"})[0] == 401)
    check("another scheme is unknown", world.post("/v1/sessions", {}, headers={"Authorization": f"Basic {HOST}"})[0] == 401)
    check("another caller's session is unknown", world.post("/v1/check", {"session": session, "tool": "search", "args": {}}, OTHER)[1]["code"] == "SESSION_UNKNOWN")
    check("another caller does not end it", world.ask("DELETE", f"/v1/sessions/{session}", token=OTHER)[0] == 404)
    check("a caller opens no other agent's session", world.post("/v1/sessions", {"agent": "reader"})[1]["code"] == "CALLER_NOT_ALLOWED")
    check("a caller names no other principal", world.post("/v1/sessions", {"principal": "mallory"})[1]["code"] == "CALLER_NOT_ALLOWED")
    status, answer = world.post("/v1/sessions", {"agent": "reader", "principal": "carol"}, OTHER)
    check("one that may names agent and principal", (status, answer["agent"], answer["principal"]) == (201, "reader", "carol"), answer)
    check("a host reads no queue", world.get("/v1/questions", HOST)[0] == 403)
    check("an approver opens no session", world.post("/v1/sessions", {}, ADA)[0] == 403)
    status, _, answer = world.ask("POST", "/v1/sessions", {"session": "over-unix"}, unix=True)
    check("the own user is known over the Unix socket", (status, answer.get("session")) == (201, "over-unix"), answer)
    status, _, answer = world.ask("POST", "/v1/check", {"session": "over-unix", "tool": "search", "args": {}}, unix=True)
    check("calls are decided over the Unix socket", answer["decision"] == "accept", answer)
    check("the own user answers no question over it", world.ask("POST", "/v1/questions/abcd/answer", {"answer": "deny"}, unix=True)[0] == 403)
    check("the registry's state is read", world.get("/v1/registry")[1]["version"] == 1)
    check("health needs no credential", world.ask("GET", "/healthz")[0] == 200 and world.ask("GET", "/readyz")[0] == 200)
    check("metrics need a build that has them", world.get("/metrics")[1]["code"] == "METRICS_OFF")
    world.stop()
    for text, code in (
        (f'[[token]]\ntoken = "{"s" * 40}"\nname = "x"\nmay = ["check", "answer"]\n', "CALLER_DUTIES"),
        (f'[[token]]\ntoken = "{"s" * 40}"\nname = "x"\nmay = []\n', "CALLER_DUTIES"),
        ('[[token]]\ntoken = "short"\nname = "x"\nmay = ["check"]\n', "TOKEN_TOO_WEAK"),
        ("token = 1\n", "TOKEN_FILE_MALFORMED"), ("", "TOKEN_FILE_MALFORMED"),
    ):
        (world.folder / "tokens").write_text(text)
        done = world.verb("serve", "--config", "gateway.toml", code=1)
        check(f"the start is refused: {code}", code in done.stderr and "short" not in done.stderr, done.stderr)
    (world.folder / "tokens").chmod(0o640)
    check("a token file that others may read stops the start", "FILE_TOO_OPEN" in world.verb("serve", "--config", "gateway.toml", code=1).stderr)
    done = world.verb("serve", "--config", "gateway.toml", "--listen", "0.0.0.0:1", code=None)
    check("a foreign address needs a setting", done.returncode == 1, done.stderr)


def sessions(world):
    """Their number is bounded, and idle ones end."""
    world.start()
    opened = [world.session() for _ in range(4)]
    status, answer = world.post("/v1/sessions", {})
    check("the number of sessions is bounded", (status, answer["code"]) == (503, "SESSIONS_FULL"), answer)
    world.ask("DELETE", f"/v1/sessions/{opened[0]}", token=HOST)
    check("an ended session makes room", world.post("/v1/sessions", {"session": "named"})[0] == 201)
    check("an id in use is refused", world.post("/v1/sessions", {"session": "named"})[1]["code"] == "SESSION_EXISTS")
    check("an idle session ends", wait_for(lambda: sum(line["type"] == "end" for line in world.entries()) == 5, 15))
    check("its place is free", world.post("/v1/sessions", {})[0] == 201)
    check("an unknown tool opens none", world.post("/v1/sessions", {"tools": ["nope"]})[1]["code"] == "CAPABILITY_NOT_LISTED")
    world.stop()


sessions.settings = {"idle": "3s"}


def shutdown(world):
    """A signal amid decisions: each decision that a caller got is recorded, each call has an outcome."""
    for how in (signal.SIGTERM, signal.SIGINT):
        world.start()
        session, got, done = world.session(), [], threading.Event()

        def work():
            while not done.is_set():
                try:
                    got.append(world.call(session, "search", {"n": len(got)}))
                except (OSError, ValueError, KeyError, IndexError):
                    return
                except Exception:  # noqa: BLE001
                    return

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        time.sleep(1)
        code = world.stop(how)
        done.set()
        [thread.join() for thread in threads]
        check(f"{how.name} is the exit code", code == 128 + how, code)
        entries = [line for line in world.entries() if line.get("session") == session]
        decided = {line["seq"] for line in entries if line["type"] == "decision"}
        handles = {int(answer["handle"]) for answer in got if answer.get("decision") == "accept"}
        check(f"no decision is lost at {how.name}", handles and handles <= decided, (len(handles), len(decided)))
        # Beyond 1,024 calls without an outcome the service refuses.
        accepted = {line["seq"] for line in entries if line["type"] == "decision" and line["verdict"] == "accept"}
        ends = {line["decision"] for line in entries if line["type"] == "outcome"}
        check(f"each accepted call has an outcome at {how.name}", ends == accepted and entries[-1]["type"] == "end", (len(ends), len(accepted)))
    verified = world.verb("audit", "verify", "log", "--key", "log.vkey", "--state", "record.state", "--complete", code=None)
    check("the log verifies", verified.returncode == 0, verified.stderr)
    check("the socket's file is gone", not (world.folder / "serve.sock").exists())
    world.start()
    world.process.kill()
    world.process.wait()
    world.start()
    check("a socket that a dead service left is replaced", world.ask("GET", "/healthz", unix=True)[0] == 200)
    world.stop()


def certificates(world):
    """Callers with a certificate: one that is listed, one that is not, one of another authority, none."""
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=world.folder, check=True, capture_output=True)

    def authority(name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN={name}", "-days", "2")

    def signed(name, by, extensions):
        (world.folder / "extensions").write_text(extensions)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
                "-extfile", "extensions")

    client = "extendedKeyUsage=clientAuth\nbasicConstraints=CA:FALSE"
    authority("ours")
    authority("theirs")
    signed("service", "ours", "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE")
    for name, by in (("listed", "ours"), ("unlisted", "ours"), ("foreign", "theirs")):
        signed(name, by, client)
    der = ssl.PEM_cert_to_DER_cert((world.folder / "listed.pem").read_text())
    with (world.folder / "gateway.toml").open("a") as config:
        config.write('[serve.tls]\ncertificate = "service.pem"\nkey = "service.key"\nclient_ca = "ours.pem"\n'
                     f'clients = [{{ sha256 = "{hashlib.sha256(der).hexdigest()}", name = "certified", may = ["check"] }}]\n')
    (world.folder / "service.key").chmod(0o644)
    done = world.verb("serve", "--config", "gateway.toml", code=1)
    check("a private key that others may read stops the start", "FILE_TOO_OPEN" in done.stderr, done.stderr)
    (world.folder / "service.key").chmod(0o600)
    world.start()

    def ask(name=None, token=None, method="POST", path="/v1/sessions", limit=None):
        context = ssl.create_default_context(cafile=world.folder / "ours.pem")
        if limit:
            context.maximum_version = limit
        if name:
            context.load_cert_chain(world.folder / f"{name}.pem", world.folder / f"{name}.key")
        connection = http.client.HTTPSConnection("127.0.0.1", world.port, context=context, timeout=20)
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            connection.request(method, path, "{}", headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (ssl.SSLError, ConnectionError) as error:
            return None, str(error)

    check("a listed certificate is a caller", ask("listed")[0] == 201)
    check("it has its own duties alone", ask("listed", method="GET", path="/v1/questions")[0] == 403)
    check("an unlisted certificate is none", ask("unlisted")[0] == 401)
    check("another authority's certificate does not connect", ask("foreign")[0] is None)
    check("no certificate is no caller", ask()[0] == 401)
    check("a token counts without a certificate", ask(token=HOST)[0] == 201)
    check("TLS 1.2 does not connect", ask("listed", limit=ssl.TLSVersion.TLSv1_2)[0] is None)
    plain = world.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    check("no clear text is answered", b"200" not in received(plain))
    check("the service ends in order", world.stop() == 143)
    (world.folder / "tokens").rename(world.folder / "none")
    (world.folder / "gateway.toml").write_text((world.folder / "gateway.toml").read_text().replace('token_file = "tokens"\n', ""))
    world.start()
    check("without tokens a certificate is required", ask()[0] is None and ask("listed")[0] == 201)
    world.stop()


ALL = (certificates, routes, answers, edits_and_grants, credentials, sessions, shutdown)
