"""What the clients in Python share: the calls in chosen.json, comparing two results, and waiting for a file."""

import json
import pathlib
import time

import portable
import wire

SERVERS = ("filesystem", "memory", "everything", "shop", "many")


class Report:
    """Prints failures and counts them."""

    def __init__(self):
        self.failed = 0

    def expect(self, ok, text):
        if not ok:
            self.failed += 1
            print("FAIL", text if len(text) < 1000 else text[:600] + " … " + text[-300:], flush=True)
        return ok


def chosen(folder, name):
    """Returns the calls: server, tool, arguments. folder and name are those of a side."""
    text = (pathlib.Path(__file__).parent / "chosen.json").read_text(encoding="utf-8")
    return json.loads(text.replace("{dir}", folder).replace("{name}", name))


def behind(server, tool):
    """Returns the name of a tool at the door."""
    return f"{server}_{tool.replace('.', '_')}"


def without_ours(result):
    """Returns a result without what the bus may add to it."""
    result = json.loads(json.dumps(result))
    meta = result.pop("_meta", None) or {}
    ours = {k: v for k, v in meta.items() if k.startswith("io.toolbus/")}
    rest = {k: v for k, v in meta.items() if k not in ours and k != "io.modelcontextprotocol/serverInfo"}
    if rest:
        result["_meta"] = rest
    result.pop("resultType", None)
    content = result.get("content", [])
    last = content[-1] if content else {}
    if last.get("type") == "text" and ("io.toolbus/code" in ours or last["text"].startswith("Warning: ")):
        result["content"] = content[:-1]
    return result


def same(want, mine, got, theirs):
    """Compares two results, in which mine and theirs are the folders of the sides."""
    return json.loads(json.dumps(want).replace(mine, "")) == json.loads(json.dumps(got).replace(theirs, ""))


def check_names(report, where, names, direct):
    """Checks that the tools of all servers are listed, with names that model APIs take."""
    wrong = [n for n in names if not portable.BUS_NAME.match(n)]
    report.expect(not wrong, f"{where}: {len(wrong)} names that model APIs refuse, as {wrong[:5]}")
    missing = [behind(s, t) for s, tools in direct.items() for t in tools if len(behind(s, t)) <= 48 and "." not in t]
    lower = [n.lower() for n in missing]
    missing = [n for n in missing if lower.count(n.lower()) == 1 and not n.startswith("many_repo_") and n not in names]
    report.expect(not missing, f"{where}: not listed: {missing[:10]} of {len(missing)}")
    want = sum(map(len, direct.values()))
    report.expect(len(set(names) - {"toolbus_search_tools"}) == want, f"{where}: {len(names)} of {want} are listed")


def appears(file, seconds=15):
    """Waits until a file is there."""
    deadline = time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def folders(world, client):
    """Returns the folder of a client on each side, which it makes with its first call."""
    return f"{world.direct}/{client}", f"{world.through}/{client}"


def command(world):
    """Returns the command of the door over standard input and output."""
    return world.toolbus, ["mcp", "--search-only=false", "--server", world.bus]


def headers(world):
    return {"Authorization": "Bearer " + world.bearer()}


__all__ = ["Report", "SERVERS", "appears", "behind", "check_names", "chosen", "command", "folders", "headers", "same",
           "wire", "without_ours"]
