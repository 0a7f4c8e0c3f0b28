"""Calls every tool of every server directly and through the bus, over both transports and in both eras, and compares
listings, instructions and answers member by member. What may differ is in differences.txt, each with its reason; a line
there that no difference needs fails the run, too."""

import collections
import concurrent.futures
import base64
import fnmatch
import json
import os
import pathlib
import re
import shutil
import sys

import inputs
import wire

world = wire.World(sys.argv[1])
failures = collections.defaultdict(list)  # texts, by what they are about


def fail(text, about=None):
    failures[about or text].append(text)


class Allowed:
    """The lines of differences.txt: SERVER TOOL PATH # REASON, each a glob."""

    def __init__(self, file):
        self.lines = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            what, _, reason = line.partition("#")
            if what.strip():
                server, tool, path = what.split()
                if not reason.strip():
                    fail(f"{file.name}: no reason for {what}")
                self.lines[server, tool, path] = 0

    def has(self, server, tool, path):
        for line in self.lines:
            if all(fnmatch.fnmatchcase(a, b) for a, b in zip((server, tool, path), line)):
                self.lines[line] += 1
                return True
        return False


allowed = Allowed(pathlib.Path(__file__).parent.parent / "differences.txt")


def differences(path, a, b):
    """Yields (path, direct, through) for each difference. An integer is not a fraction; the order of members is free."""
    if isinstance(a, dict) and isinstance(b, dict):
        for k in {**a, **b}:
            if k not in a:
                yield f"{path}.{k}", "(absent)", b[k]
            elif k not in b:
                yield f"{path}.{k}", a[k], "(absent)"
            else:
                yield from differences(f"{path}.{k}", a[k], b[k])
    elif isinstance(a, list) and isinstance(b, list):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(f"{path}.{i}", x, y)
        if len(a) != len(b):
            yield f"{path}.length", len(a), len(b)
    elif type(a) in (int, float) and type(b) in (int, float):
        if a != b and not (a != a and b != b):
            yield path, a, b
    elif type(a) is not type(b) or a != b:
        yield path, a, b


CLOCK = re.compile(r"\d{1,2}:\d\d:\d\d\s[AP]M")


def timeless(value):
    """Replaces the time of day that a server writes into a resource at each call, also where its bytes are in base64."""
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except ValueError:
        decoded = value
    return CLOCK.sub("{time}", decoded if CLOCK.search(decoded) else value)


def neutral(value, folder):
    """Replaces the folder of a side, which is the only thing that the sides are given differently, and times of day."""
    if isinstance(value, str):
        return timeless(value.replace(folder, "{dir}"))
    if isinstance(value, list):
        return [neutral(v, folder) for v in value]
    if isinstance(value, dict):
        return {neutral(k, folder): neutral(v, folder) for k, v in value.items()}
    return value


def meant(value, folder):
    """Puts the folder of a side into an input."""
    if isinstance(value, str):
        return value.replace("{dir}", folder)
    if isinstance(value, list):
        return [meant(v, folder) for v in value]
    if isinstance(value, dict):
        return {k: meant(v, folder) for k, v in value.items()}
    return value


def without(members, prefix="io.toolbus/"):
    """Splits _meta into the bus's own members and the rest."""
    ours = {k: v for k, v in members.items() if k.startswith(prefix)}
    return ours, {k: v for k, v in members.items() if k not in ours}


def stripped(result, era):
    """Returns a result of the bus without what the bus may add to it, and its own members of _meta."""
    result = dict(result)
    ours, rest = without(result.pop("_meta", {}))
    if era == wire.MODERN:
        rest.pop("io.modelcontextprotocol/serverInfo", None)
        if result.pop("resultType", None) != "complete":
            fail("a result of 2026-07-28 is not complete")
    if rest:
        result["_meta"] = rest
    content = result.get("content", [])
    last = content[-1] if content else {}
    if last.get("type") == "text" and ("io.toolbus/code" in ours or last["text"].startswith("Warning: ")):
        ours["own"], result["content"] = last["text"], content[:-1]
    return result, ours


def short(v):
    v = repr(v)
    return v if len(v) < 400 else f"{v[:300]} … {v[-80:]} ({len(v)} characters)"


class Side:
    """A server, directly, beside the bus in one of the four ways."""

    def __init__(self, name, bus, way, listed):
        self.name, self.bus, self.way = name, bus, way
        self.direct = wire.direct(world, name)
        self.prefix = name + "_"
        self.names = {}
        self.match(self.direct.tools(), listed)

    def report(self, tool, path, a, b, given=None):
        if not allowed.has(self.name, tool, path):
            said = f" of {short(given)}" if given is not None else ""
            fail(f"{' '.join(self.way)}: {self.name} {tool}{said}: {path}: directly {short(a)}, through the bus {short(b)}",
                 (self.name, re.sub(r"\.\d+", ".*", path)))

    def match(self, direct, listed):
        """Finds each tool in the list of the bus: by its name, or where several share that, by its description."""
        self.definitions = {t["name"]: t for t in direct}
        left = dict(listed)
        for tool in direct:
            plain = self.prefix + "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in tool["name"])
            candidates = [plain] if plain in left else []
            candidates += [n for n, t in left.items() if n.lower().startswith(self.prefix.lower()[:-1])]
            same = [n for n in candidates if left[n].get("description") == tool.get("description")]
            if not same:
                fail(f"{' '.join(self.way)}: {self.name} {tool['name']} is not listed with its description",
                     (self.name, "listed"))
                continue
            name = same[0]
            self.names[tool["name"]] = name
            crowded = sum(plain.lower() == (self.prefix + t["name"].replace(".", "_")).lower() for t in direct) > 1
            if name != plain and len(plain) <= 48 and not crowded:
                fail(f"{' '.join(self.way)}: {self.name} {tool['name']} is listed as {name}, not as {plain}",
                     (self.name, "name"))
            self.compare(tool, left.pop(name))

    def compare(self, tool, listed):
        a = neutral({k: v for k, v in tool.items() if k != "name"}, world.direct)
        b = neutral({k: v for k, v in listed.items() if k != "name"}, world.through)
        ours, rest = without(b.pop("_meta", {}))
        if rest:
            b["_meta"] = rest
        for path, x, y in differences("tool", a, b):
            self.report(tool["name"], path, x, y)

    def call(self, tool, given):
        if tool not in self.names:
            return
        a = self.direct.call(tool, meant(given, world.direct))
        b = self.bus.call(self.names[tool], meant(given, world.through))
        a, b = neutral(a, world.direct), neutral(b, world.through)
        if "error" in b:
            if "error" not in a or a["error"] != b["error"]:
                self.report(tool, "error", a, b, given)
            return
        result, ours = stripped(b["result"], self.way[1])
        if ours.get("io.toolbus/code") in ("I-REQ-SCHEMA", "I-REQ-UNSAFE"):
            # The bus has refused the input; the server refuses it, too, or has a schema that is stricter than itself.
            if "error" in a or a["result"].get("isError"):
                self.report(tool, "refused", a, ours, given)
            else:
                self.report(tool, "refused-although-taken", a, ours, given)
            return
        if "error" in a:
            # It is a result of the message, and of the data as JSON.
            want = {"isError": True, "content": [{"type": "text", "text": a["error"]["message"]}]}
            if "data" in a["error"]:
                data = json.loads(result["content"].pop()["text"]) if len(result["content"]) > 1 else "(absent)"
                if data != a["error"]["data"]:
                    self.report(tool, "jsonrpc-data", a, b, given)
            if want == result:
                self.report(tool, "jsonrpc-error", a, b, given)
            else:
                self.report(tool, "jsonrpc-error-lost", a, b, given)
            return
        if "io.toolbus/code" not in ours and ours.keys() - {"own"} != {"io.toolbus/ref"}:
            fail(f"{self.name} {tool}: a success has more of the bus than its reference: {short(ours)}")
        for path, x, y in differences("result", a["result"], result):
            self.report(tool, path, x, y, given)

    def close(self):
        self.direct.close()


def fresh(folder):
    """Empties the folder of a side, but for what its servers keep open."""
    for one in pathlib.Path(folder).iterdir():
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()


def instructions(bus, sides, way):
    """Those of several servers follow each other, each below its server's name."""
    said, at = bus.instructions or "", 0
    for side in sorted(sides, key=lambda s: s.name.lower()):
        if text := side.direct.instructions:
            name = said.find(side.name, at)
            found = said.find(text.strip(), name)
            if name < 0 or found < 0:
                fail(f"{' '.join(way)}: the instructions of {side.name} are not below its name in {short(said)}")
            else:
                at = found + len(text.strip())


def run(way):
    fresh(world.direct)
    fresh(world.through)
    calls = 0
    with wire.through(world, *way) as bus:
        listed = {t["name"]: t for t in bus.tools()}
        sides = [Side(name, bus, way, listed) for name in world.servers]
        known = {name for side in sides for name in side.names.values()}
        for name in listed.keys() - known - {"toolbus_search_tools"}:
            fail(f"{' '.join(way)}: {name} is listed, and no server has it")
        instructions(bus, sides, way)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for side in sides:
                given = inputs.of(side.name, list(side.definitions), world)
                for tool in side.definitions.keys() - {tool for tool, _ in given}:
                    fail(f"{side.name} {tool}: inputs.py has none for it")
                calls += len(given)
                if side.name == "many":  # it keeps nothing, so the order is free
                    list(threads.map(lambda g, s=side: s.call(*g), given))
                else:
                    for g in given:
                        side.call(*g)
        for side in sides:
            side.close()
    left, right = (sorted(str(f.relative_to(d)) + ":" + f.read_text(encoding="utf-8").replace(d, "{dir}")
                          for f in pathlib.Path(d).rglob("*") if f.is_file()) for d in (world.direct, world.through))
    if left != right:
        fail(f"{' '.join(way)}: the sides' files differ: {short(left)}, {short(right)}")
    print(f"{' '.join(way)}: {len(known)} tools, {calls} calls compared", flush=True)


for one in wire.WAYS:
    run(one)
for line, uses in allowed.lines.items():
    if not uses:
        fail(f"differences.txt: nothing needs {' '.join(line)}")
for texts in failures.values():
    where = ", ".join(sorted({t.split(": ")[0] for t in texts}))
    print("FAIL", texts[0], f"(and {len(texts) - 1} more: {where})" if len(texts) > 1 else "", flush=True)
if failures:
    sys.exit(f"{sum(map(len, failures.values()))} differences of {len(failures)} kinds")
