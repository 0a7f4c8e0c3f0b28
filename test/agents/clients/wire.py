"""A client of MCP that interprets nothing: requests and results are JSON as it stands on the wire, so that two servers can
be compared member by member. It speaks both eras, over standard input and output and over HTTP, with the standard
library alone."""

import http.client
import itertools
import json
import subprocess
import threading
import urllib.parse

LEGACY, MODERN = "2025-11-25", "2026-07-28"


class World:
    """The file that the test gives to each script."""

    def __init__(self, file):
        with open(file, encoding="utf-8") as f:
            self.__dict__.update(json.load(f))

    def bearer(self):
        with open(self.token, encoding="utf-8") as f:
            return f.read().strip()


class Client:
    """A connected client. call and list may be used by several threads at once."""

    def __init__(self, era):
        self.era = era
        self.ids = itertools.count(1)
        self.instructions = None
        self.server = None

    def greet(self):
        """Begins the session, and keeps the instructions."""
        if self.era == MODERN:
            said = self.request("server/discover", {})
        else:
            said = self.request("initialize", {
                "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}})
        if "error" in said:
            raise RuntimeError(f"not greeted: {said}")
        self.greeting = said["result"]
        self.instructions = self.greeting.get("instructions")
        if self.era == LEGACY:
            self.notify("notifications/initialized", {})
        return self

    def message(self, method, params, number=None):
        if self.era == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        m = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            m["id"] = number
        return m

    def tools(self):
        """Returns all pages of the list."""
        found, cursor = [], None
        while True:
            said = self.request("tools/list", {"cursor": cursor} if cursor else {})
            if "error" in said:
                raise RuntimeError(f"tools/list: {said}")
            found += said["result"]["tools"]
            cursor = said["result"].get("nextCursor")
            if not cursor:
                return found

    def call(self, name, arguments, **meta):
        """Returns the response: a dictionary with "result" or "error"."""
        params = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stdio(Client):
    """Starts a server and speaks to it over its standard input and output."""

    def __init__(self, era, command, env=None):
        super().__init__(era)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        self.lock, self.waiting, self.notified, self.ended = threading.Lock(), {}, [], False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.greet()

    def read(self):
        for line in self.process.stdout:
            m = json.loads(line)
            if "method" in m:
                self.notified.append(m)
                continue
            with self.lock:
                waiter = self.waiting.pop(m.get("id"), None)
            if waiter is None:
                raise RuntimeError(f"an answer to nothing: {line[:500]}")
            waiter.append(m)
            waiter.event.set()
        with self.lock:
            self.ended, left = True, list(self.waiting.values())
            self.waiting.clear()
        for waiter in left:
            waiter.event.set()

    def send(self, m):
        data = (json.dumps(m) + "\n").encode()
        with self.lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def notify(self, method, params):
        self.send(self.message(method, params))

    def request(self, method, params):
        number, waiter = next(self.ids), Waiter()
        with self.lock:
            if self.ended:
                raise RuntimeError("the server has ended")
            self.waiting[number] = waiter
        self.send(self.message(method, params, number))
        if not waiter.event.wait(60):
            raise RuntimeError(f"no answer to {method} {params} within a minute")
        if not waiter:
            raise RuntimeError(f"the server ended without an answer to {method} {params}")
        return {k: waiter[0][k] for k in ("result", "error") if k in waiter[0]}

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.reader.join(20)
        self.process.stdout.close()


class Waiter(list):
    def __init__(self):
        super().__init__()
        self.event = threading.Event()


class Http(Client):
    """Speaks streamable HTTP. Each request has a connection of its own."""

    def __init__(self, era, url, token):
        super().__init__(era)
        self.url, self.token, self.session = urllib.parse.urlsplit(url), token, None
        self.greet()

    def post(self, m):
        headers = {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "Authorization": "Bearer " + self.token,
        }
        if self.era == MODERN:
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": m["method"]}
            if "name" in m["params"]:
                headers["Mcp-Name"] = m["params"]["name"]
        elif m["method"] != "initialize":
            headers["MCP-Protocol-Version"] = LEGACY
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
        try:
            connection.request("POST", self.url.path, json.dumps(m).encode(), headers)
            response = connection.getresponse()
            self.session = response.headers.get("Mcp-Session-Id") or self.session
            return self.answer(response, m)
        finally:
            connection.close()

    def answer(self, response, m):
        kind = response.headers.get("Content-Type", "")
        if kind.startswith("text/event-stream"):
            for line in response:
                line = line.decode().rstrip("\r\n")
                if line.startswith("data:") and (said := line[5:].strip()):
                    said = json.loads(said)
                    if said.get("id") == m.get("id") and "method" not in said:
                        return said
            raise RuntimeError(f"the stream ended without an answer to {m}")
        body = response.read()
        if "id" not in m:
            if response.status >= 300:
                raise RuntimeError(f"status {response.status}: {body}")
            return None
        try:
            return json.loads(body)
        except ValueError as e:
            raise RuntimeError(f"status {response.status}, {body[:500]!r} to {m}") from e

    def notify(self, method, params):
        self.post(self.message(method, params))

    def request(self, method, params):
        said = self.post(self.message(method, params, next(self.ids)))
        return {k: said[k] for k in ("result", "error") if k in said}

    def close(self):
        if self.session:
            connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
            connection.request("DELETE", self.url.path, headers={
                "Mcp-Session-Id": self.session, "Authorization": "Bearer " + self.token,
                "MCP-Protocol-Version": LEGACY})
            connection.getresponse().read()
            connection.close()


def direct(world, server):
    """Returns a client of a server that this process starts."""
    s = world.servers[server]
    return Stdio(LEGACY, [s["command"], *s["args"]], s["env"])


# The four ways to the bus.
WAYS = [("stdio", LEGACY), ("stdio", MODERN), ("http", LEGACY), ("http", MODERN)]


def through(world, transport, era):
    """Returns a client of the bus."""
    if transport == "stdio":
        return Stdio(era, [world.toolbus, "mcp", "--search-only=false", "--server", world.bus])
    return Http(era, world.door, world.bearer())
