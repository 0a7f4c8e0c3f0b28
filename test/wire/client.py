"""A client of Toolbus in another language, written from docs/wire.md alone: NATS by hand, no library but Python's own.

It shows what a client has to do, and is not one to use: it does not connect again. checks.py runs it.
"""
import base64, collections, hashlib, json, os, queue, random, re, secrets, socket, struct, threading, time, uuid

Message = collections.namedtuple("Message", "subject headers body")
FORM, PART, PATIENCE = 2, 512 << 10, 60  # PATIENCE, in seconds, is for how long a test waits in vain
NOT_BY_ITSELF = ("P-PRECOND-CANCELLED", "S-TOOL-INTERNAL")  # retryable, but only at the wish of whoever calls


class Nats:
    """One connection. Each subscription is a queue of messages."""

    def __init__(self, url, token=""):
        host, port = url.replace("nats://", "").split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.input, self.lock, self.queues = self.socket.makefile("rb"), threading.Lock(), {}
        assert json.loads(self.input.readline()[len("INFO "):])["headers"]
        connect = {"verbose": False, "headers": True, "no_responders": True, "auth_token": token}
        self.send(f"CONNECT {json.dumps(connect)}\r\nPING\r\n".encode())
        if (line := self.input.readline()) != b"PONG\r\n":
            raise Refused(line.decode().strip())
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def subscribe(self, subject, messages=None):
        messages, sid = messages or queue.Queue(), secrets.token_hex(8)
        self.queues[sid] = messages
        self.send(f"SUB {subject} {sid}\r\n".encode())
        return messages

    def publish(self, subject, body, reply="", **headers):
        head = "NATS/1.0\r\n" + "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        self.send(f"HPUB {subject} {reply} {len(head)} {len(head) + len(body)}\r\n{head}".encode() + body + b"\r\n")

    def read(self):
        for line in self.input:
            verb, *words = line.decode().split()
            if verb == "PING":
                self.send(b"PONG\r\n")
            elif verb in ("MSG", "HMSG"):
                data, head = self.input.read(int(words[-1]) + 2)[:-2], int(words[-2]) if verb == "HMSG" else 0
                first, *fields = data[:head].decode().strip().split("\r\n")
                headers = {name: value.strip() for name, _, value in (field.partition(":") for field in fields)}
                if len(first.split()) > 1:  # NATS/1.0 503
                    headers["Status"] = first.split()[1]
                self.queues[words[1]].put(Message(words[0], headers, data[head:]))
            elif verb == "-ERR" and "Expired" not in line.decode():
                raise RuntimeError(line)


def token(name):
    raw = name.encode()
    text = "".join(chr(b) if re.match("[A-Za-z0-9-]", chr(b)) and b < 128 else f"_{b:02x}" for b in raw)
    if len(text) <= 100:
        return text or "_e"
    cut = 39 if text[39] == "_" else 38 if text[38] == "_" else 40
    return text[:cut] + "_h" + hashlib.sha256(raw).hexdigest()[:32]


def canonical(value):  # RFC 8785, as far as it goes for integers and for names of ASCII
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def stable_key(r):
    parts = (r["tool_id"].encode(), r["fn"].encode(), canonical(r["input"]), r["tool_version"].encode())
    return "sha256-" + hashlib.sha256(b"|".join(parts)).hexdigest()


def call_id_of_key(tenant, r):  # <id>, of which logs and chunks are
    limits, who = r["constraints"], r["context"]
    scope = limits.get("idempotency_scope", "actor")
    value = {"actor": who["actor_id"], "session": who.get("session_id", ""), "global": ""}[scope]
    parts = (tenant, scope, value, r["tool_id"], r["fn"], "1" if r.get("dry_run") else "0", limits["idempotency_key"])
    hashed = hashlib.sha256(b"".join(struct.pack(">I", len(p.encode())) + p.encode() for p in parts)).digest()[:20]
    letters = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghijklmnopqrstuv")
    return base64.b32encode(hashed).decode().translate(letters)


def msgpack(v):
    if isinstance(v, dict):
        return struct.pack(">BI", 0xDF, len(v)) + b"".join(msgpack(k) + msgpack(v[k]) for k in v)
    if isinstance(v, str):
        return struct.pack(">BI", 0xDB, len(v.encode())) + v.encode()
    return struct.pack(">Bq", 0xD3, v)  # the requests here hold nothing else


class Refused(Exception):
    """The service could not answer, or the server accepts no connection; the argument is its error."""


class Nobody(Exception):
    """Nobody listens."""


class Client:
    def __init__(self, url, tenant="default", actor="agent://py", file=None):
        """file is one with a token, which says tenant and actor."""
        self.url, self.file, self.token, self.ears, self.proofs = url, file, "", "", {}  # proofs of chunks, by call
        if file:
            with open(file) as f:
                self.take(f.read().strip())
            tenant, actor, self.ears = self.says["tb_tenant"], self.says["sub"], self.says["tb_family"] + "."
        self.tenant, self.actor, self.me = tenant, actor, token(tenant) + "." + token(actor)
        self.nats = Nats(url, self.token)
        if file and time.time() > self.says["exp"]:
            self.renew()

    def take(self, text):
        body = text.split(".")[1]
        self.token, self.says = text, json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        self.due = time.monotonic() + (self.says["exp"] - self.says["iat"]) * 2 / 3

    def renew(self):
        """Exchanges the token, replaces its file, and connects anew: the server ends a connection with its token."""
        answer = self.ask("token_renew", {})
        with open(os.open(self.file + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(answer["token"] + "\n")
        os.replace(f"{self.file}.new", self.file)
        self.take(answer["token"])
        self.nats = Nats(self.url, self.token)
        return answer

    def inbox(self):
        word = f"tb.ans.{self.me}.{self.ears}{secrets.token_hex(16)}"
        return word, self.nats.subscribe(word)

    def with_token(self, **headers):
        return dict(headers, Tb_Token=self.token) if self.token else headers

    def ask(self, op, question):
        """Asks the service. question is a dict, or a body as it stands."""
        body = question if isinstance(question, bytes) else json.dumps({"form": FORM, **question}).encode()
        reply, inbox = self.inbox()
        answered = reply.split(".", 4)[4]  # between accounts the server replaces the reply subject
        self.nats.publish(f"tb.svc.{op}.{self.me}", body, reply, **self.with_token(Tb_Answer=answered))
        answer = inbox.get(timeout=PATIENCE)  # one that gives up would ask again
        if answer.headers.get("Status") == "503":
            raise Nobody
        said = json.loads(answer.body)
        assert said["form"] == FORM, said
        if answer.headers["Tb-Kind"] == "refusal":
            raise Refused(said)
        return said

    def request(self, fn="up", **input):
        """A request as the page says, with a deadline by the clock of the bus, and a key of its own."""
        now = self.ask("describe", {"tool": "demo.count"})["now_unix_ms"]
        r = {"call_id": str(uuid.uuid4()), "tool_id": "demo.count", "tool_version": "*", "fn": fn, "input": input,
             "context": {"actor_id": self.actor, "trace_id": str(uuid.uuid4()), "timezone": "UTC", "env": "dev"},
             "constraints": {"timeout_ms": PATIENCE * 1000, "deadline_unix_ms": now + PATIENCE * 1000}}
        r["constraints"]["idempotency_key"] = str(uuid.uuid4())  # or stable_key(r)
        return r

    def call(self, r, attempts=3, **options):
        """The outcome of a call: asks again, under another call id, what may be asked again unasked."""
        deadline = time.monotonic() + r["constraints"]["timeout_ms"] / 1000
        for n in range(attempts):
            outcome = self.once(r, deadline, **options)
            p, error = outcome["provenance"], outcome.get("error")
            refused = p["attempt"] == 0 and not p["final"]
            if not error or not error["retryable"] or error["code"] in NOT_BY_ITSELF or not (p["final"] or refused):
                break
            if not self.repeatable(r["tool_id"], p):
                break
            pause = max(random.random() * min(0.2 * 2**n, 2), error["details"].get("retry_after_ms", 0) / 1000)
            left = deadline - time.monotonic() - pause
            if n + 1 == attempts or left <= 0:
                break
            time.sleep(pause)
            limits = dict(r["constraints"], timeout_ms=max(1, int(left * 1000)))
            r = dict(r, call_id=str(uuid.uuid4()), constraints=limits)
        return outcome

    def repeatable(self, tool_id, p):
        """Whether no executor started the call, or the build of the tool that p names may run it twice."""
        if p.get("not_started"):
            return True
        try:
            tools = self.ask("describe", {"tool": tool_id})["tools"]
        except (Nobody, Refused):
            return False
        return any(t["determinism"] in ("pure", "idempotent") and p.get("digest", t["digest"]) == t["digest"] for t in tools)

    def once(self, r, deadline, body=None, accepted=lambda a: None, headers={}):
        """The outcome of one call id: sends copies until it is here, and counts the refusals that do not stand."""
        (reply, inbox), body = self.inbox(), body or json.dumps(r).encode()
        key = call_id_of_key(self.tenant, r)
        self.proofs[key] = hashlib.sha256(f"{reply}\n{key}".encode()).hexdigest()[:32]
        sent, turned_away, taken, started, again = 0, set(), False, False, time.monotonic()
        while time.monotonic() < deadline + 0.1:
            if self.token and time.monotonic() > self.due:
                self.renew()
                self.nats.subscribe(reply, inbox)
                again = 0  # an answer may be lost with the connection
            if time.monotonic() >= again:
                headers = self.with_token(**{"Content_Type": "application/json", **headers})
                self.nats.publish(f"tb.call.{self.me}.{token(r['tool_id'])}", body, reply, **headers)
                sent += 1
                again = self.next_copy(deadline, 2 if taken else min(0.4 * 2**(sent - 1), 2))
            try:
                answer = inbox.get(timeout=max(0, min(again, deadline + 0.1) - time.monotonic()))
            except queue.Empty:
                continue
            kind, said = answer.headers.get("Tb-Kind"), json.loads(answer.body or b"null")
            if kind == "accepted":
                self.proofs[key] = said.get("chunk_proof", self.proofs[key])
                if not taken:
                    accepted(said)
                taken, again = True, self.next_copy(deadline, 2)
            elif kind == "outcome":
                p = said["provenance"]
                if p["attempt"] == 0 and taken:
                    continue  # a copy was refused; what was accepted has an outcome of its own
                if p["attempt"] == 0 and not p["final"]:
                    turned_away.add((p.get("audit_event_id") or object(), p.get("counted")))
                    started = started or not p.get("not_started")
                    if len(turned_away) < sent:
                        continue
                    p["not_started"] = not started  # of all copies
                return said
        return {"call_id": r["call_id"], "status": "retryable_error", "copies": sent, "error": {
            "code": "R-TIMEOUT-001", "retryable": True, "details": {"effect": "unknown"}},
            "provenance": {"tool_id": r["tool_id"], "tool_version": r["tool_version"], "attempt": 0, "final": False}}

    def next_copy(self, deadline, pause):
        now = time.monotonic()
        left = deadline + 0.025 - now
        return now + (pause if pause <= left else max(left, 0.025))

    def put(self, data, pool):
        name = hashlib.sha256(data).hexdigest()
        for part in range(0, len(data), PART):
            reply, inbox = self.inbox()
            self.nats.publish(f"tb.payload.{self.me}.{name}.{part // PART}.{token(pool)}", data[part:part + PART], reply)
            assert json.loads(inbox.get(timeout=PATIENCE).body)["stream"] == "PAYLOADS"
        return f"sha256:{name};{len(data)}"

    def get(self, ref, call):
        """The large output of a call, by the reference of the call."""
        data = b""
        while len(data) < ref["bytes"]:
            answer = self.ask("payload", {"ref": call, "sha256": ref["sha256"], "part": len(data) // PART})
            data += base64.b64decode(answer["body"])
        assert hashlib.sha256(data).hexdigest() == ref["sha256"]
        return data


class Chunks:
    """The chunks of a call: live frames, and what is missing of them by index."""

    def __init__(self, client, r):
        self.client, self.r, self.id = client, r, call_id_of_key(client.tenant, r)
        self.live, self.runs = client.nats.subscribe(f"tb.chunk.{client.me}.{self.id}.>"), {}

    def take(self, run, headers, body):
        assert headers["Tb-Form"] == str(FORM)
        first, last = map(int, headers["Tb-Chunks"].split("-"))
        lines = body.split(b"\n")[:-1]
        assert len(lines) == last - first + 1
        self.runs.setdefault(run, {}).update(enumerate(lines, first))

    def next(self):
        """Takes a live frame, and returns how many chunks of its run are here."""
        m = self.live.get(timeout=PATIENCE)
        while m.headers.get("Tb-Proof") != self.client.proofs[self.id]:  # somebody else has had it sent
            m = self.live.get(timeout=PATIENCE)
        run = tuple(map(int, m.subject.split(".")[5:7]))
        self.take(run, m.headers, m.body)
        return len(self.runs[run])

    def whole(self, outcome):
        """All chunks of the run that the outcome names, whatever came of other runs."""
        p, digest = outcome["provenance"], hashlib.sha256()
        run, count = (p["attempt"], p.get("fence", 0)), p["chunks"]["count"]
        have = self.runs.setdefault(run, {})
        for index in range(count):
            while index not in have:
                a = self.client.ask("chunks", {
                    "ref": token(self.r["tool_id"]) + "." + self.id, "call_id": self.r["call_id"],
                    "attempt": run[0], "fence": run[1], "index": index, "max_bytes": PART})
                if a.get("body"):
                    self.take(run, {k: v[0] for k, v in a["header"].items()}, base64.b64decode(a["body"]))
            data = have[index][1:]
            digest.update(struct.pack(">Q", len(data)) + data)
        assert digest.hexdigest() == p["chunks"]["digest"]
        return [(have[i][:1].decode(), json.loads(have[i][1:])) for i in range(count)]
