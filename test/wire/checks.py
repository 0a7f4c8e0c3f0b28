"""Runs client.py, for TestPythonClient: checks.py PAGE BUS SILENT SCRIPTED WALLED CREDENTIALS

PAGE is docs/wire.md, BUS the URL of a bus, SILENT of a server with nobody on it, SCRIPTED of one with a dispatcher that
answers each copy of a request as a test wants it to. What the page shows is sent as it stands, and what comes back is
compared with it. WALLED is a bus that asks for tokens, CREDENTIALS a folder with some.
"""
import base64, concurrent.futures, hashlib, json, os, queue, re, sys, time, traceback, uuid

from client import Chunks, Client, Nobody, Refused, call_id_of_key, canonical, msgpack, stable_key, token

page, bus, silent, scripted, walled, credentials = sys.argv[1:]
text = open(page, encoding="utf-8").read()
examples = dict(re.findall(r"```json ([a-z-]+)\n(.*?)```", text, re.S))
exec(re.search(r"```python segments\n(.*?)```", text, re.S)[1])
compared, aside = set(), concurrent.futures.ThreadPoolExecutor()
# What differs from run to run, or with the build.
VARIES = {"now_unix_ms", "deadline_unix_ms", "duration_ms", "cpu_ms", "memory_peak_mb", "queue_ms", "fence", "digest",
          "audit_event_id", "Tb-After", "sentence", "told", "description", "message", "token", "family",
          "expires", "renew_until"}


def shown(name):
    compared.add(name)
    return json.loads(examples[name])


def stands(name):
    compared.add(name)
    return examples[name].encode()


def like(example, real, name=""):
    """What the page shows has come, but for what varies."""
    assert type(example) is type(real), f"{name}: the page has {example!r}, there came {real!r}"
    if name in VARIES and not isinstance(example, dict):
        return
    if isinstance(example, dict):
        for key in example:  # there may be more
            assert key in real, f"{name}: the page has {key}, there came {real}"
            like(example[key], real[key], key)
    elif isinstance(example, list):
        assert len(example) == len(real), f"{name}: the page has {example!r}, there came {real!r}"
        for one, other in zip(example, real):
            like(one, other, name)
    else:
        assert example == real, f"{name}: the page has {example!r}, there came {real!r}"


def is_silent(inbox):
    try:
        return not inbox.get(timeout=0.5)
    except queue.Empty:
        return True


def names():
    for name, wanted in (("demo.count", "demo_2ecount"), ("", "_e"), ("agent://py", "agent_3a_2f_2fpy"), ("ä", "_c3_a4")):
        assert token(name) == wanted, token(name)
    for name in ("a" * 101, "a" * 38 + "." * 40, "a" * 39 + "." * 40):
        assert len(token(name)) <= 40 + 2 + 32
        c = Client(bus, actor=name)
        outcome = c.call(c.request(to=1))
        assert outcome["status"] == "success", outcome  # the dispatcher compares the token with the name


def describe():
    c = Client(bus)
    like(shown("describe-answer"), c.ask("describe", stands("describe-question")))
    tools = c.ask("describe", {})
    assert [t["tool_id"] for t in tools["tools"]] == ["demo.count"] and "more" not in tools, tools
    assert "request" not in tools["tools"][0]["functions"]["up"], tools
    assert c.ask("describe", {"after": "demo.count"})["tools"] == []
    assert c.ask("describe", {"tool": "demo.none"})["tools"] == []


def call():
    c, r, accepted = Client(bus), shown("request"), queue.Queue()
    assert stable_key(r) == r["constraints"]["idempotency_key"], stable_key(r)
    chunks = Chunks(c, r)
    outcome = aside.submit(c.call, r, body=stands("request"), accepted=accepted.put)
    like(shown("accepted"), accepted.get(timeout=60))
    assert shown("accepted")["ref"] == token(r["tool_id"]) + "." + chunks.id
    while chunks.next() < 3:  # live: the call waits
        pass
    ref = {"ref": shown("accepted")["ref"]}
    assert c.ask("result", ref)["accepted"]["call_id"] == r["call_id"]
    like(shown("why-answer"), c.ask("why", stands("why-question")))
    assert c.call(c.request("free", hold="page"))["output"] == {}
    outcome = outcome.result(60)
    like(shown("outcome"), outcome)
    assert outcome["provenance"]["chunks"] == shown("outcome")["provenance"]["chunks"]
    assert chunks.whole(outcome) == [("d", 1), ("d", 2), ("d", 3)]
    chunks.runs.clear()
    assert chunks.whole(outcome) == [("d", 1), ("d", 2), ("d", 3)]  # by index
    like(shown("chunks-answer"), c.ask("chunks", stands("chunks-question")))
    assert c.ask("chunks", dict(shown("chunks-question"), index=1, max_bytes=1))["header"]["Tb-Chunks"] == ["1-1"]
    assert "body" not in c.ask("chunks", dict(shown("chunks-question"), index=3))  # none, as yet
    like(shown("result-answer"), c.ask("result", stands("result-question")))
    again = c.call(dict(r, call_id=str(uuid.uuid4())))  # another asking with the key of the first
    assert again["provenance"]["replayed"] and again["output"] == outcome["output"] and again["call_id"] != r["call_id"]
    for _ in range(2):  # each request has a key of its own
        fresh = c.call(c.request(to=7))
        assert not fresh["provenance"]["replayed"] and fresh["output"] == {"sum": 28}, fresh
    stable = [c.request(to=7), c.request(to=7)]
    for r, replayed in zip(stable, (False, True)):
        r["constraints"]["idempotency_key"] = stable_key(r)
        assert c.call(r)["provenance"]["replayed"] == replayed, r
    shared = c.request(to=8)
    shared["constraints"]["idempotency_scope"] = "global"
    for actor in ("agent://py", "agent://other"):
        r = dict(shared, call_id=str(uuid.uuid4()), context=dict(shared["context"], actor_id=actor))
        told = Client(bus, actor=actor).call(r)
        assert told["provenance"]["replayed"] == (actor != "agent://py") and told["output"] == {"sum": 36}, told


def patience_and_msgpack():
    c = Client(bus)
    assert c.call(c.request(to=2), headers={"Tb_Patient": "1"})["output"] == {"sum": 3}
    reply, inbox = c.inbox()
    c.nats.publish(f"tb.call.{c.me}.demo_2ecount", msgpack(c.request(to=4)), reply, Content_Type="application/msgpack")
    m = inbox.get(timeout=60)
    while m.headers["Tb-Kind"] == "accepted":
        m = inbox.get(timeout=60)
    assert m.headers["Content-Type"] == "application/msgpack" and b"success" in m.body, m
    refused = c.call(c.request(to=5), headers={"Content_Type": "text/plain"})
    assert refused["error"]["code"] == "I-REQ-MALFORMED", refused


def refusal():
    c, example = Client(bus), shown("refusal")
    r = dict(c.request(to="x"), call_id=example["call_id"])
    r["context"]["trace_id"] = example["error"]["details"]["trace_id"]
    refused = c.call(r)
    like(example, refused)
    assert refused["provenance"]["attempt"] == 0 and refused["provenance"]["final"]
    r = c.request(to=6)
    for wrong, code in (
            (dict(r, unknown=1), "I-REQ-SCHEMA"), (dict(r, tool_version="^2"), "C-CONTRACT-VERSION"),
            (dict(r, fn="none"), "I-REQ-FN_UNKNOWN"),
            (dict(r, tool_id="demo.none"), "I-REQ-TOOL_UNKNOWN"), (dict(r, dry_run=True), "P-PRECOND-DRY_RUN"),
            (dict(r, context=dict(r["context"], actor_id="agent://somebody")), "A-AUTH-IDENTITY"),
            (dict(r, constraints=dict(r["constraints"], deadline_unix_ms=1)), "R-TIMEOUT-001")):
        refused = c.call(wrong, attempts=1)
        p, stands_for_all = refused["provenance"], code != "R-TIMEOUT-001"
        assert refused["error"]["code"] == code and p["attempt"] == 0 and p["final"] == stands_for_all, refused
    opened = dict(r, context=dict(r["context"], whatever=[1]), tool_version="^1.0.0")
    assert c.call(opened)["status"] == "success"
    other = c.call(dict(r, call_id=str(uuid.uuid4()), input={"to": 7}))
    assert other["error"]["code"] == "I-REQ-KEY_REUSED", other


def joining():
    c, accepted = Client(bus), queue.Queue()
    r = c.request(to=1, hold="joined")
    chunks, owner = Chunks(c, r), aside.submit(c.call, r)
    chunks.next()
    joiners = [dict(r, call_id=str(uuid.uuid4())) for _ in range(2)]
    leaves, stays = [aside.submit(c.call, j, accepted=accepted.put) for j in joiners]
    for _ in joiners:
        told = accepted.get(timeout=60)
        assert told["joined"] and told["attempt"] == 1, told
    assert c.ask("cancel", {"ref": told["ref"], "call_id": joiners[0]["call_id"]}) == {"form": 2, "told": "detached"}
    left = leaves.result(60)
    assert left["error"]["code"] == "P-PRECOND-CANCELLED", left
    assert left["provenance"]["attempt"] == 1 and not left["provenance"]["final"], left
    c.call(c.request("free", hold="joined"))
    one, other = owner.result(60), stays.result(60)
    assert one["output"] == other["output"] == {"sum": 1} and other["call_id"] == joiners[1]["call_id"], (one, other)


def cancel():
    c, r = Client(bus), shown("cancelled-request")
    chunks, outcome = Chunks(c, r), aside.submit(c.call, r, body=stands("cancelled-request"))
    chunks.next()
    answer = c.ask("cancel", stands("cancel-question"))
    like(shown("cancel-answer"), answer)
    assert answer["told"] in ("running", "queued")
    told = outcome.result(60)
    assert told["error"]["code"] == "P-PRECOND-CANCELLED" and told["provenance"]["final"], told
    assert c.ask("cancel", {"ref": "demo_2ecount." + chunks.id})["response"]["error"]["code"] == "P-PRECOND-CANCELLED"
    c.call(c.request("free", hold="cancelled"))
    again = c.call(dict(r, call_id=str(uuid.uuid4())))  # a retryable outcome lets the key run again
    assert again["provenance"]["attempt"] == 2 and again["output"] == {"sum": 1}, again


def deadline():
    c = Client(bus)
    r = c.request(to=1, hold="late")
    r["constraints"].update(timeout_ms=700, deadline_unix_ms=0)
    late = c.call(r, attempts=1)
    p = late["provenance"]  # of the bus, or the client's own statement where the machine is slow
    assert late["error"]["code"] == "R-TIMEOUT-001" and p["final"] == (p["attempt"] == 1), late


def payloads():
    c, text = Client(bus), "x" * (600 << 10)
    r = c.request(to=1, text=text)
    refused = c.call(r)
    assert refused["error"]["code"] == "I-REQ-LIMIT", refused
    pool = c.ask("describe", {"tool": r["tool_id"]})["tools"][0]["pool"]
    outcome = c.call(dict(r, input=None), headers={"Tb_Input_Ref": c.put(canonical(r["input"]), pool)})
    ref = outcome["provenance"]["output_ref"]
    assert "output" not in outcome and ref["bytes"] > 600 << 10, outcome
    other, call = Client(bus, actor="agent://other"), "demo_2ecount." + call_id_of_key(c.tenant, r)
    assert json.loads(c.get(ref, call)) == {"sum": 1, "text": text}
    assert json.loads(other.get(ref, call)) == {"sum": 1, "text": text}
    question = dict(shown("payload-question"), ref=call, sha256=ref["sha256"])
    assert other.ask("payload", question).keys() == shown("payload-answer").keys()
    wrong = dict(question, sha256=64 * "0")
    assert refusal_of(other, "payload", wrong)["refusal"]["code"] == "P-PRECOND-NOT_FOUND"
    missing = c.call(dict(c.request(to=1), input=None), headers={"Tb_Input_Ref": f"sha256:{64 * '0'};300000"})
    assert missing["error"]["code"] == "R-UPSTREAM-INPUT_MISSING" and not missing["provenance"]["final"], missing


def refusal_of(c, op, question):
    try:
        raise AssertionError(c.ask(op, question))
    except Refused as e:
        return e.args[0]


def service_refusals():
    c, stranger, question = Client(bus), Client(bus, actor="agent://stranger"), shown("result-question")
    for body in (b'{"ref":"demo_2ecount.x"}', b'{"form":99,"ref":"demo_2ecount.x"}', b'{"form":2,"ref":"x"}'):
        assert refusal_of(c, "why", body)["refusal"]["code"] == "I-REQ-MALFORMED"
    like(shown("service-refusal"), refusal_of(c, "result", stands("unknown-question")))
    assert stranger.ask("result", question)["response"]["output"] == {"sum": 6}
    del question["call_id"]
    assert refusal_of(stranger, "result", question)["refusal"]["code"] == "P-PRECOND-NOT_FOUND"


def replies():
    c, r = Client(bus), Client(bus).request(to=9)
    for reply in ("_INBOX.x", "tb.ans.default.agent_3a_2f_2fother.x", f"tb.ans.{c.me}"):
        inbox = c.nats.subscribe(reply)
        c.nats.publish(f"tb.svc.describe.{c.me}", b'{"form":2}', reply)
        c.nats.publish(f"tb.call.{c.me}.demo_2ecount", json.dumps(r).encode(), reply)
        assert is_silent(inbox), reply
    assert c.call(r)["provenance"]["replayed"] is False  # nothing was admitted


def stored(c, stream, subjects):
    """The messages of a stream, by subject."""
    seq, (reply, inbox) = 0, c.inbox()
    while True:
        ask = json.dumps({"seq": seq + 1, "next_by_subj": subjects}).encode()
        c.nats.publish(f"$JS.API.STREAM.MSG.GET.{stream}", ask, reply)
        said = json.loads(inbox.get(timeout=60).body)
        if "error" in said:
            return
        seq = said["message"]["seq"]
        yield said["message"]["subject"], base64.b64decode(said["message"]["data"])


def chained(c, stream, subjects):
    """All records of a stream, whose chains are whole."""
    records, ends = [], {}
    for subject, segment in stored(c, stream, subjects):
        if not segment.endswith(b"\n"):
            continue  # the fence
        chain = subject.rpartition(".")[0]
        said, some, ends[chain] = read(segment, ends.get(chain, ""))
        assert subject.endswith("." + token(some[0]["tenant"])), subject
        records += some
    return records


def segments():  # of what was called above, which may come on record only now
    c = Client(bus)
    news, wanted = c.nats.subscribe("tb.audit.>"), shown("request")["call_id"]
    while not {"tool_requested", "tool_executed"} <= {
            r["event"] for r in chained(c, "AUDIT", "tb.audit.>") if r.get("call_id") == wanted}:
        news.get(timeout=60)
    denied = [r["audit_event_id"] for r in chained(c, "DENIED", "tb.denied.>") if r["event"] == "tool_denied"]
    assert denied and len(set(denied)) == len(denied), denied
    whole = next(s for _, s in stored(c, "AUDIT", "tb.audit.calls.*"))
    for changed in (whole.replace(b"tool_", b"tool-", 1), whole + b"{}\n"):
        try:
            read(changed)
        except AssertionError:
            continue
        raise RuntimeError("a change is not found")


def nobody():
    c = Client(silent)
    try:
        raise AssertionError(c.ask("describe", {}))
    except Nobody:
        pass
    r, began = dict(shown("request")), time.monotonic()
    r["constraints"] = dict(r["constraints"], timeout_ms=3000)
    outcome = c.call(r)
    assert outcome["error"]["code"] == "R-TIMEOUT-001" and not outcome["provenance"]["final"], outcome
    assert outcome["copies"] > 1 and time.monotonic() - began >= 3.1, outcome


def copies():
    c = Client(scripted)
    for tool, attempts, status in (("accepted", 1, "success"), ("refused", 2, "success"),
                                   ("failed", 3, "retryable_error"), ("unproven", 3, "retryable_error")):
        r = dict(shown("request"), call_id=str(uuid.uuid4()), tool_id=tool)
        outcome = c.call(r, attempts=attempts)
        assert outcome["status"] == status, outcome


def tokens():
    agent, brief, late = (f"{credentials}/{name}.token" for name in ("agent", "brief", "late"))
    c = Client(walled, file=agent)
    like(shown("renew-answer"), c.ask("token_renew", stands("renew-question")))
    r = c.request(to=3)
    chunks = Chunks(c, r)
    assert chunks.whole(c.call(r)) == [("d", 1), ("d", 2), ("d", 3)]
    first, family = c.token, c.says["tb_family"]
    c.renew()
    assert c.token != first and c.says["tb_family"] == family and c.call(c.request(to=2))["output"] == {"sum": 3}
    with open(agent) as f:
        assert f.read().strip() == c.token
    assert os.stat(agent).st_mode & 0o777 == 0o600
    c = Client(walled, file=brief)  # it is renewed while the call waits, and the connection is another one
    first, outcome = c.token, aside.submit(c.call, c.request(to=1, hold="renewed"))
    other = Client(walled, file=agent)
    while c.token == first:
        other.ask("describe", {"tool": "demo.count"})
    other.call(other.request("free", hold="renewed"))
    assert outcome.result(60)["output"] == {"sum": 1}, outcome
    c = Client(walled, file=late)
    assert c.call(c.request(to=4))["output"] == {"sum": 10} and c.says["exp"] > time.time()
    with open(f"{credentials}/junk.token", "w") as f:
        f.write(first[:-4] + "AAAA")
    try:
        raise AssertionError(Client(walled, file=f.name))
    except Refused as refused:
        assert "Authorization Violation" in str(refused), refused


for check in (names, describe, call, patience_and_msgpack, refusal, joining, cancel, deadline, payloads, service_refusals,
              segments, replies, nobody, copies, tokens):
    try:
        check()
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # without waiting for calls that are under way
    print("checked:", check.__name__.replace("_", " "), flush=True)
assert compared == set(examples), f"not sent or compared: {set(examples) - compared}"
