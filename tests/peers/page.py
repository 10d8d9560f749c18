"""The approval page in a real browser, before a real gateway and a stock MCP client.

usage: page.py COUNTERSIGN AXE [SCREENSHOTS]

Needs the packages `mcp` and `selenium`, Chromium with its driver, and axe-core's script. With a folder, screenshots are left in it.
"""

import asyncio
import contextlib
import hashlib
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

COUNTERSIGN = Path(sys.argv[1]).resolve()
AXE = Path(sys.argv[2]).read_text()
SCREENSHOTS = Path(sys.argv[3]) if len(sys.argv) > 3 else None
SERVER = [sys.executable, str(Path(__file__).with_name("counting_server.py"))]
PASSWORD = "correct horse battery staple"
PORT = 7599
HOST = f"localhost:{PORT}"
CONFIG = f"""
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "pay-bot"
principal = "user@example.com"
goal = "Pay the open invoices"
ttl = "1h"
[approval]
key_file = "approval.key"
store = "approvals.sqlite"
hold = "5m"
[record]
folder = "log"
key_file = "log.key"
origin = "peers.example/page"
[server]
name = "bank"
[serve]
listen = "127.0.0.1:{PORT}"
users_file = "serve.users"
"""
failed = []


def check(what, holds, shown=""):
    print(("ok    " if holds else "FAILED ") + what)
    if not holds:
        failed.append(what)
        print(f"       {shown}")


def countersign(folder, *args, typed=None):
    done = subprocess.run([COUNTERSIGN, *args], cwd=folder, capture_output=True, text=True, timeout=60, input=typed)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def set_up(folder):
    countersign(folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
    countersign(folder, "keys", "generate", "--kind", "hmac", "--out", "approval.key")
    countersign(folder, "keys", "generate", "--kind", "log", "--origin", "peers.example/page", "--out", "log.key")
    countersign(folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
    command = [*SERVER, str(folder / "paid")]
    draft = json.loads(countersign(folder, "mcp", "inspect", "--name", "bank", "--", *command))
    draft["agents"] = [{
        "agent": "pay-bot", "version": 1, "registered_by": "operator", "output_tags": [], "max_session": "1h",
        "tools": [{"server": "bank", "name": "pay"}],
    }]
    draft["tools"] = [dict(tool, impact="money", approval="required", evidence="not_required", ask="not_required") for tool in draft["tools"]]
    (folder / "draft.json").write_text(json.dumps(draft))
    countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")
    (folder / "gateway.toml").write_text(CONFIG)
    countersign(folder, "user", "add", "ada", "--file", "serve.users", typed=PASSWORD + "\n")
    return [str(COUNTERSIGN), "mcp", "run", "--config", str(folder / "gateway.toml"), "--", *command]


class Client:
    """A stock MCP client in a thread of its own."""

    def __init__(self, command):
        self.loop, self.ready, self.stop = asyncio.new_event_loop(), threading.Event(), None
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=[self.run(command)])
        self.thread.start()
        self.ready.wait(30)

    async def run(self, command):
        self.stop = asyncio.Event()
        parameters = StdioServerParameters(command=command[0], args=command[1:])
        async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as self.session:
            await self.session.initialize()
            self.ready.set()
            await self.stop.wait()

    def pay(self, to):
        async def on_progress(*_):
            pass

        call = self.session.call_tool("pay", {"to": to}, progress_callback=on_progress)
        return asyncio.run_coroutine_threadsafe(call, self.loop)

    def end(self):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(30)


def runs(folder):
    file = folder / "paid"
    return [json.loads(line)["to"] for line in file.read_text().splitlines()] if file.exists() else []


@contextlib.contextmanager
def service(folder):
    process = subprocess.Popen([COUNTERSIGN, "serve", "--config", "gateway.toml"], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        if not process.stdout.readline():
            raise SystemExit("the service does not start")
        yield
    finally:
        process.terminate()
        check("a signal ends the service", process.wait(20) == 143)


def browser():
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=390,844"):
        options.add_argument(option)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def until(driver, what, found):
    try:
        return WebDriverWait(driver, 20, ignored_exceptions=[StaleElementReferenceException, NoSuchElementException]).until(found)
    except TimeoutException:
        raise SystemExit(f"the page shows no {what}: {driver.page_source[:4000]}") from None


def log_in(driver):
    driver.get(f"http://{HOST}/page")
    until(driver, "login", lambda it: it.find_element(By.ID, "name")).send_keys("ada")
    driver.find_element(By.ID, "password").send_keys(PASSWORD + Keys.ENTER)
    until(driver, "queue", lambda it: it.find_element(By.ID, "queue"))


def open_question(driver, to):
    driver.get(f"http://{HOST}/page")
    follow(driver, f"question about {to}", lambda it: f'"{to}"' in it.text)


def follow(driver, what, wanted=lambda _: True):
    """Opens the first wanted question. The queue is live: a link is read while it is there."""
    def address(it):
        return next((a.get_attribute("href") for a in it.find_elements(By.CSS_SELECTOR, ".queue a") if wanted(a)), None)

    driver.get(until(driver, what, address))


def button(driver, text):
    return next(it for it in driver.find_elements(By.TAG_NAME, "button") if it.text == text)


def serious(driver):
    """Serious faults that axe-core finds."""
    # Evaluated by the driver: the page's own policy forbids foreign scripts.
    driver.execute_script(AXE)
    found = driver.execute_async_script("axe.run().then(arguments[0])")
    return [(it["id"], it["nodes"][0]["html"]) for it in found["violations"] if it["impact"] in ("serious", "critical")]


def screens(driver, name):
    for width, height in ((390, 844), (1280, 800)):
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        for scheme in ("light", "dark"):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            check(f"axe-core finds no serious fault: {name}, {width} pixels, {scheme}", not (found := serious(driver)), found)
            overflow = driver.execute_script("return document.documentElement.scrollWidth > innerWidth")
            check(f"nothing is cut off: {name}, {width} pixels", not overflow)
            if SCREENSHOTS:
                driver.save_screenshot(str(SCREENSHOTS / f"page-{name}-{width}-{scheme}.png"))
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def post(path, fields, **headers):
    headers = {"Host": HOST, "Origin": f"http://{HOST}", "Content-Type": "application/x-www-form-urlencoded"} | headers
    return request("POST", path, urlencode(fields), headers)


def request(method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    connection.request(method, path, body, {name: value for name, value in (headers or {"Host": HOST}).items() if value is not None})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


def form_of(driver, verb):
    form = next(it for it in driver.find_elements(By.TAG_NAME, "form") if it.get_attribute("action").endswith(verb))
    fields = {it.get_attribute("name"): it.get_attribute("value") for it in form.find_elements(By.CSS_SELECTOR, "input[type=hidden]")}
    path = form.get_attribute("action").removeprefix(f"http://{HOST}")
    return path, fields, "countersign=" + driver.get_cookie("countersign")["value"]


def live_and_once(driver, folder, client):
    log_in(driver)
    check("an empty queue says so", "Nothing waits" in driver.find_element(By.ID, "queue").text)
    driver.execute_script("window.before = 1")
    call = client.pay("a\u202eb<script>alert(1)</script>")
    text = until(driver, "new question", lambda it: it.find_element(By.CSS_SELECTOR, ".queue a").text)
    check("the queue fills live", driver.execute_script("return window.before") == 1)
    check("markup and bidirectional characters are shown as text", "<script>" in text and "\\u202e" in text and "\u202e" not in text, text)
    screens(driver, "queue")
    follow(driver, "new question")
    until(driver, "question", lambda it: it.find_element(By.CSS_SELECTOR, ".deny"))
    check("deny has the focus", driver.switch_to.active_element.text == "Deny")
    screens(driver, "question")
    path, fields, cookie = form_of(driver, "/approve")
    args = json.dumps({"to": "a\u202eb<script>alert(1)</script>"}, separators=(",", ":"), ensure_ascii=False)
    check("the digest of the arguments is shown", hashlib.sha256(args.encode()).hexdigest() in driver.page_source)
    forged(path, fields, cookie)
    check("nothing has run before the answer", runs(folder) == [] and not call.done())
    button(driver, "Approve exactly this, once").click()
    result = call.result(30)
    check("a click approves, and the call runs once", not result.is_error and len(runs(folder)) == 1, result)
    status, text, _ = post(path, fields, Cookie=cookie)
    check("the same form again approves nothing", status == 409 and "PENDING_DECIDED" in text and len(runs(folder)) == 1, (status, text))


def forged(path, fields, cookie):
    def refused(what, expected, code, answer):
        check(f"{what} is refused", answer[0] == expected and code in answer[1], answer[:2])

    refused("a form without its token", 403, "FORM_FOREIGN", post(path, {"args": fields["args"]}, Cookie=cookie))
    refused("a form with another token", 403, "FORM_FOREIGN", post(path, fields | {"csrf": "0" * 64}, Cookie=cookie))
    refused("a form of other arguments", 409, "FORM_FOREIGN", post(path, fields | {"args": "0" * 64}, Cookie=cookie))
    refused("a form of a foreign origin", 403, "ORIGIN_NOT_ALLOWED", post(path, fields, Cookie=cookie, Origin="http://evil.example"))
    refused("a form of a sandboxed page", 403, "ORIGIN_NOT_ALLOWED", post(path, fields, Cookie=cookie, Origin="null"))
    refused("a form without an origin", 403, "ORIGIN_NOT_ALLOWED", post(path, fields, Cookie=cookie, Origin=None))
    refused("a rebound name", 421, "HOST_NOT_ALLOWED", post(path, fields, Cookie=cookie, Host="evil.example", Origin="http://evil.example"))
    refused("an approval by GET", 405, "METHOD_NOT_ALLOWED", request("GET", path, headers={"Host": HOST, "Cookie": cookie}))
    status, _, headers = post(path, fields)
    check("a form without a login leads to the login", status == 303 and headers["location"] == "/page/login", (status, headers))
    _, _, headers = request("GET", "/page/login")
    check("no page may frame it", "frame-ancestors 'none'" in headers["content-security-policy"] and headers["x-frame-options"] == "DENY", headers)
    status, text, _ = request("POST", "/v1/questions/x/answer", "{}", {"Host": HOST, "Cookie": cookie, "Content-Type": "application/json"})
    check("the cookie opens no other path", status == 401, text)


def second_tab(driver, folder, client):
    call = client.pay("two tabs")
    open_question(driver, "two tabs")
    first = driver.current_window_handle
    address = driver.current_url
    driver.switch_to.new_window("tab")
    driver.get(address)
    driver.find_element(By.ID, "reason").send_keys("ask finance first")
    button(driver, "Deny").click()
    result = call.result(30)
    check("deny with a reason answers the agent", result.is_error and "ask finance first" in result.content[0].text, result)
    driver.switch_to.window(first)
    button(driver, "Approve exactly this, once").click()
    until(driver, "refusal", lambda it: "PENDING_DECIDED" in it.page_source)
    check("an approval in another tab comes too late", "two tabs" not in runs(folder))


def look_alikes(driver, folder, client):
    names = ["paypal", "paypa1", "p\u0430ypal"]
    calls = {name: client.pay(name) for name in names}
    driver.get(f"http://{HOST}/page")
    def three(it):
        texts = [a.text for a in it.find_elements(By.CSS_SELECTOR, ".queue a")]
        return texts if len(texts) == 3 else None

    texts = until(driver, "three questions", three)
    excerpts = {it.splitlines()[1] for it in texts}
    apart = any("p\\u{430}ypal" in it for it in excerpts)
    check("look-alike calls can be told apart", len(excerpts) == 3 and apart, texts)
    open_question(driver, "paypa1")
    button(driver, "Approve exactly this, once").click()
    calls["paypa1"].result(30)
    check("the right one runs", runs(folder)[-1] == "paypa1" and len(runs(folder)) == 2, runs(folder))
    grant(driver, folder, client, calls)


def grant(driver, folder, client, calls):
    open_question(driver, "paypal")
    next(it for it in driver.find_elements(By.TAG_NAME, "summary") if it.text.startswith("Grant")).click()
    uses = driver.find_element(By.ID, "uses")
    uses.clear()
    uses.send_keys("2")
    button(driver, "Grant").click()
    calls["paypal"].result(30)
    second = client.pay("paypal").result(30)
    check("a grant covers the next equal call", not second.is_error and runs(folder).count("paypal") == 2, second)
    for it in ("p\u0430ypal",):
        countersign(folder, "approve", "--deny", next(p["call_id"] for p in json.loads(countersign(folder, "approve", "list", "--json"))["pending"]), "--by", "ada")
        calls[it].result(30)


def edited(driver, folder, client):
    call = client.pay("the wrong one")
    open_question(driver, "the wrong one")
    next(it for it in driver.find_elements(By.TAG_NAME, "summary") if it.text.startswith("Approve with")).click()
    path, fields, cookie = form_of(driver, "/edit")
    status, text, _ = post(path, fields | {"edited": '{"to":1}'}, Cookie=cookie)
    check("an edit that breaks the schema is refused", status == 400 and "ARGS_SCHEMA" in text and not call.done(), (status, text))
    status, text, _ = post(path, fields | {"edited": '{"to":"eve"}', "args": "0" * 64}, Cookie=cookie)
    check("an edit of other arguments than those shown is refused", status == 409 and "FORM_FOREIGN" in text, (status, text))
    area = driver.find_element(By.ID, "edited")
    check("the form has the agent's arguments", json.loads(area.get_attribute("value")) == {"to": "the wrong one"})
    area.clear()
    area.send_keys('{"to": "the right one"}')
    button(driver, "Approve as edited, once").click()
    result = call.result(30)
    check("the call runs as edited", not result.is_error and "the right one" in runs(folder) and "the wrong one" not in runs(folder), result)
    check("the agent is told", "A person edited" in result.content[-1].text and "the right one" in result.content[-1].text, result)


def large_arguments(driver, folder, client):
    call = client.pay("x" * 500_000 + "end")
    driver.get(f"http://{HOST}/page")
    follow(driver, "large question")
    check("long values are folded, and whole", "more characters" in driver.page_source and "xend" in driver.page_source)
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    driver.get(driver.current_url)
    button(driver, "Deny").click()
    check("without JavaScript a person can see and deny", call.result(30).is_error)
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def status_view(driver):
    driver.get(f"http://{HOST}/page/status")
    text = driver.find_element(By.TAG_NAME, "main").text
    check("the status names agent, registry and decisions", all(it in text for it in ("pay-bot", "Version", "bank:pay", "APPROVAL_DENIED")), text)
    screens(driver, "status")


def log_out(driver):
    button(driver, "Log out").click()
    until(driver, "login", lambda it: it.find_element(By.ID, "name"))
    screens(driver, "login")
    driver.get(f"http://{HOST}/page/status")
    check("after the logout the page asks for a login", driver.current_url.endswith("/page/login"))
    answers = [post("/page/login", {"name": "ada", "password": "wrong wrong wrong"})[0] for _ in range(6)]
    check("wrong passwords are limited", answers == [401] * 5 + [429], answers)
    check("the right one waits too", post("/page/login", {"name": "ada", "password": PASSWORD})[0] == 429)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = set_up(folder)
        client, driver = Client(command), browser()
        try:
            with service(folder):
                live_and_once(driver, folder, client)
                second_tab(driver, folder, client)
                look_alikes(driver, folder, client)
                edited(driver, folder, client)
                large_arguments(driver, folder, client)
                status_view(driver)
                log_out(driver)
        finally:
            driver.quit()
            client.end()
        lines = [json.loads(line) for file in sorted((folder / "log").rglob("*.jsonl")) for line in file.read_text().splitlines()]
        given = [line["verdict"] for line in lines if line.get("type") == "answer"]
        check("each answer is recorded under the login's name", given.count("approved") == 3 and given.count("granted") == 1 and all(
            line["approver"] == "ada" for line in lines if line.get("type") == "answer"), given)
    print(f"{len(failed)} failed" if failed else "all hold")
    return 1 if failed else 0


sys.exit(main())
