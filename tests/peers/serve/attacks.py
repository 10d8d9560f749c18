"""The attacks on the service, a function each. `attacks.md` calls them *Service and page*."""

import json
import random
import socket
import threading
import time

from checks import check
from world import ADA, HOST, READER, received, status_of, wait_for

HEAD = f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {HOST}\r\nContent-Type: application/json\r\n".encode()


def is_well(world, session):
    return world.call(session, "search", {})["decision"] == "accept"


def timed_end(world, first, slowly=b"", every=1.0, longest=25):
    """Seconds until the service ends a connection that sends `first`, and then a byte of `slowly` each `every` seconds."""
    peer, begun = world.raw(first), time.monotonic()
    peer.settimeout(every)
    sent, got = 0, b""
    while time.monotonic() - begun < longest:
        try:
            part = peer.recv(4096)
            if not part:
                break
            got += part
        except TimeoutError:
            if sent < len(slowly):
                try:
                    peer.sendall(slowly[sent:sent + 1])
                except OSError:
                    break
                sent += 1
        except OSError:
            break
    peer.close()
    return time.monotonic() - begun, got


def slow_peers(world):
    world.start()
    session, ends = world.session(), {}

    def run(name, *args):
        ends[name] = timed_end(world, *args)

    body = HEAD + b"Content-Length: 1000\r\n\r\n{"
    rows = {
        "slow head": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * 100),
        "no head at all": (b"", b""),
        "slow body": (body, b" " * 100),
        "slow chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n \r\n" * 50),
        "idle connection": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
    }
    threads = [threading.Thread(target=run, args=(name, *row)) for name, row in rows.items()]
    [thread.start() for thread in threads]
    check("a good client is served meanwhile", is_well(world, session))
    [thread.join() for thread in threads]
    for name, (seconds, got) in ends.items():
        check(f"{name} is cut off", seconds < 22, (seconds, got[:200]))
    check("a slow body gets an answer", b"BODY_TIMEOUT" in ends["slow body"][1], ends["slow body"])
    check("slow chunks get an answer", b"BODY_TIMEOUT" in ends["slow chunks"][1], ends["slow chunks"])


def malformed_heads(world):
    world.start()
    session = world.session()

    def status(data, timeout=5):
        peer = world.raw(timeout=timeout)
        try:
            peer.sendall(data)
        except OSError:
            pass
        answer = received(peer)
        peer.close()
        return status_of(answer), answer[:300]

    ok = b"{}"
    code, got = status(HEAD + b"".join(b"X-%d: a\r\n" % n for n in range(1000)) + b"\r\n")
    check("1,000 headers are refused", code in (400, 431), (code, got))
    code, got = status(HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n")
    check("a head of 100 kB is refused", code in (400, 431) or not got, (code, got))
    code, got = status(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
    check("a path of 100 kB is refused", code in (400, 414, 431) or not got, (code, got))
    code, got = status(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n" + ok)
    check("conflicting lengths are refused", code == 400, (code, got))
    code, got = status(HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    check("a length beside chunks is refused", code == 400, (code, got))
    code, got = status(HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n")
    check("chunks beside a length are refused", code == 400, (code, got))
    for wrong in (b"-1", b"2, 3", b"0x2", b"99999999999999999999", b"+2"):
        code, got = status(HEAD + b"Content-Length: " + wrong + b"\r\n\r\n" + ok)
        check(f"the length {wrong.decode()} is refused", code in (400, 413) or not got, (code, got))
    code, got = status(HEAD + b"Content-Length: 5000000\r\n\r\n" + ok)
    check("a body over the cap is refused by its length", code == 413, (code, got))
    peer = world.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    piece, sent = b"10000\r\n" + b" " * 65536 + b"\r\n", 0
    try:
        for _ in range(1000):
            peer.sendall(piece)
            sent += 65536
    except OSError:
        pass
    check("endless chunks are cut off", sent < 32 << 20, sent)
    peer.close()
    for first in (b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n"):
        code, got = status(first)
        check(f"no HTTP/1.1 ({first[:8]}) is refused", code is None or 400 <= code < 500 or code == 505, (code, got))
    code, got = status(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", 2)
    check("a second request is checked too", got.count(b"HTTP/1.1 200") <= 1 and b"HOST_NOT_ALLOWED" in got or b"421" in got, got)
    check("a good client is served afterwards", is_well(world, session))


def foreign_pages(world):
    world.start()
    session = world.session()
    body = {"session": session, "tool": "search", "args": {}}
    for name, headers in {
        "a foreign Host": {"Host": "evil.example"},
        "a DNS-rebound Host": {"Host": f"rebound.evil.example:{world.port}"},
        "Origin: null": {"Origin": "null"},
        "a foreign Origin": {"Origin": "http://evil.example"},
        "a cross-site fetch": {"Sec-Fetch-Site": "cross-site"},
    }.items():
        status, _, answer = world.ask("POST", "/v1/check", body, HOST, headers)
        check(f"{name} is refused", status in (403, 421) and answer["code"] in ("HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED"), (status, answer))
        check(f"{name} reads no health", world.ask("GET", "/healthz", headers=headers)[0] in (403, 421))
    waiting = world.call(session, "refund", {"amount": 1})["question"]
    path = f"/v1/questions/{waiting}/answer"
    check("no approval by GET", world.get(f"{path}?answer=approve", ADA)[0] == 405)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    check("no approval by a form", world.ask("POST", path, "answer=approve", ADA, form)[0] == 415)
    text = {"Content-Type": "text/plain"}
    check("no approval by a plain text", world.ask("POST", path, '{"answer":"approve"}', ADA, text)[0] == 415)
    check("no approval without a token", world.ask("POST", path, {"answer": "approve"})[0] == 401)
    check("no preflight is granted", world.ask("OPTIONS", path, headers={"Access-Control-Request-Method": "POST"})[0] in (401, 403, 405))
    check("the question still waits", world.get(f"/v1/questions/{waiting}", ADA)[1]["state"] == "waiting")


def strict_bodies(world):
    world.start()
    session = world.session()
    start = f'{{"session":"{session}","tool":"search","args":'
    for name, rest in {
        "a repeated name": '{"a":1,"a":2}}', "a repeated member": '{},"args":{"a":1}}', "an escaped repeat": '{"a":1,"\\u0061":2}}',
        "an inexact number": '{"a":9007199254740993}}', "a number out of range": '{"a":1e400}}', "a lone surrogate": '{"a":"\\ud800"}}',
        "trailing data": "{}}{}", "a comment": "{}/**/}", "an unknown member": '{},"admin":true}', "depth 1,000": "[" * 1000 + "]" * 1000 + "}",
        "depth 1,000,000": "[" * 1_000_000 + "]" * 1_000_000 + "}", "no value": "}",
    }.items():
        status, answer = world.post("/v1/check", start + rest)
        check(f"{name} is refused", status == 400 and "code" in answer, (status, answer))
    status, answer = world.post("/v1/check", b"\xff\xfe" + start.encode())
    check("bytes that are no text are refused", status == 400, answer)
    for args in ("[]", "1", "null", '"x"'):
        status, answer = world.post("/v1/check", f"{start}{args}}}")
        check(f"arguments {args} are refused and recorded", status == 200 and answer["decision"] == "reject" and answer["record"], answer)
    big = {"text": "x" * 900_000}
    check("large arguments pass", world.call(session, "search", big)["args"] == big)


def crowd(world):
    """1,000 slow connections do not double a good client's p99."""
    world.start()
    session = world.session()

    def p99():
        times = []
        for _ in range(300):
            begun = time.monotonic()
            world.call(session, "delete_all", {})
            times.append(time.monotonic() - begun)
        return sorted(times)[-4]

    p99()
    alone = p99()
    stop, peers = threading.Event(), []
    for n in range(1000):
        try:
            peers.append(world.raw(HEAD + b"Content-Length: 100\r\n\r\n{" if n % 2 else b"GET / HTTP/1.1\r\nX: "))
        except OSError:
            break

    def drip():
        while not stop.wait(1):
            for at, peer in enumerate(peers):
                try:
                    peer.sendall(b" " if at % 2 else b"a")
                except OSError:
                    try:
                        peers[at] = world.raw(b"GET / HTTP/1.1\r\nX: ")
                    except OSError:
                        pass

    dripping = threading.Thread(target=drip)
    dripping.start()
    among = p99()
    stop.set()
    dripping.join()
    [peer.close() for peer in peers]
    print(f"      p99 of a refused call: {alone * 1e3:.2f} ms alone, {among * 1e3:.2f} ms among {len(peers)} slow connections")
    check("1,000 slow connections are held", len(peers) == 1000, len(peers))
    # The other side of the ratio is this script's own threads.
    check("a good client's p99 does not double", among < 2 * alone + 0.01, (alone, among))


def no_descriptors(world):
    world.start(limit=96)
    session = world.session()
    peers = []
    for _ in range(200):
        try:
            peers.append(world.raw())
        except OSError:
            break
    check("a good client is served without free descriptors", wait_for(lambda: is_well_soon(world, session), 20))
    [peer.close() for peer in peers]
    check("and afterwards", is_well(world, session))
    check("the service ends in order", world.stop() == 143)


def is_well_soon(world, session):
    try:
        return world.call(session, "search", {}).get("decision") == "accept"
    except (OSError, KeyError):
        return False


PATHS = ["/v1/sessions", "/v1/sessions/x", "/v1/check", "/v1/outcome", "/v1/observe", "/v1/questions", "/v1/questions/abcd",
         "/v1/questions/abcd/answer", "/v1/registry", "/v1/receipts/1", "/metrics", "/healthz", "/readyz", "/", "/v1/questions/%ff",
         "/v1/questions/" + "a" * 3000, "/v1/sessions/%00", "/v1//check", "/v1/check/../check", "*"]


def fuzz(world, seconds=10):
    """Each path, malformed bodies: no 5xx, and the service goes on."""
    world.start()
    session, chance = world.session(), random.Random(7)
    good = [
        {"session": session, "tool": "search", "args": {"a": [1, "x", None]}}, {"session": session, "handle": "2", "outcome": "returned"},
        {"session": session, "call": {"name": "x", "arguments": "{}"}}, {"answer": "deny", "reason": "no"}, {"agent": "nobody"},
        {"definitions": {"desk": [{"name": "search", "inputSchema": {}}]}, "ttl": "1x"}, {"tools": [], "goal": "x" * 70000},
    ]
    values = [None, True, -1, 1e300, 2**60, "", "\u202e", "x" * 300, [], {}, [[]], {"a": {"a": 1}}, session]
    seen, worst, end = {}, [], time.monotonic() + seconds
    while time.monotonic() < end:
        body = json.loads(json.dumps(chance.choice(good)))
        for _ in range(chance.randrange(3)):
            member = chance.choice([*body, "x"]) if body else "x"
            body[member] = chance.choice(values)
        text = json.dumps(body).encode()
        if chance.random() < 0.4:
            at = chance.randrange(len(text) + 1)
            text = chance.choice([text[:at], text[:at] + bytes([chance.randrange(256)]) + text[at + 1:], text[:at] + text, b""])
        method = chance.choice(["GET", "POST", "POST", "POST", "DELETE", "PUT", "HEAD", "PATCH", "OPTIONS", "BREW"])
        path = chance.choice(PATHS)
        if chance.random() < 0.6:
            path, method = chance.choice(PATHS[2:5] + ["/v1/questions/abcd/answer"]), "POST"
        if body.get("agent") or body.get("definitions"):
            path = chance.choice(PATHS[:2])
        try:
            status, _, _ = world.ask(method, path, text, chance.choice([HOST, HOST, ADA, READER, None]))
        except (ConnectionError, socket.timeout) as error:
            status = type(error).__name__
        except Exception as error:  # noqa: BLE001
            status = repr(error)
        seen[status] = seen.get(status, 0) + 1
        if not isinstance(status, int) or (status >= 500 and status != 503):
            worst.append((status, method, path, text[:200]))
        if sum(seen.values()) % 50 == 0:
            for line in {line["session"] for line in world.entries() if line["type"] == "session"} - {session}:
                world.ask("DELETE", f"/v1/sessions/{line}", token=HOST)
    print(f"      {sum(seen.values())} requests: {dict(sorted(seen.items(), key=str))}")
    check("no malformed request ends in a 5xx", not worst, worst[:5])
    check("many kinds of answers came", len(seen) >= 6, seen)
    check("the service goes on", is_well(world, session))


ALL = (slow_peers, malformed_heads, foreign_pages, strict_bodies, crowd, no_descriptors, fuzz)
