"""Conducts the agent of a framework through a scenario: gives it a plan and a stand-in for the API of a model, and checks
what the model was shown. Arguments: the file of the world, the scenario, the framework, and of some scenarios the way."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from standin import StandIn

import shared

# By framework: its environment of Python (none is Node.js), its script, and what it puts before the name of a tool.
AGENTS = {
    "openai-agents": ("two", "openai_agents.py", ""),
    "langchain": ("one", "langchain_agent.py", ""),
    "pydantic-ai": ("pydantic-ai", "pydantic_agent.py", ""),
    "google-adk": ("google-adk", "adk_agent.py", ""),
    "llama-index": ("llama-index", "llama_agent.py", ""),
    "mcp-agent": ("mcp-agent", "mcp_agent_agent.py", "bus_"),
    "ai-sdk": (None, "ai_sdk.mjs", ""),
    "mastra": (None, "mastra.mjs", "bus_"),
}
# This framework makes a file of each link, and then refuses to send it to a model: a link ends the conversation.
LINKLESS = {"langchain"}
LARGE, TWICE = 5_000_000, 3_500_000
world = shared.wire.World(sys.argv[1])
scenario, name = sys.argv[2:4]
environment, script, prefix = AGENTS[name]
report = shared.Report()


def ten(way):
    """Returns a plan of ten steps with the tools of the shop."""
    return [
        ["add", {"a": 40, "b": 2}],
        ["customer", {"name": "Ada"}],
        ["register", {"person": {"name": "Ada", "age": 36, "addresses": [{"street": "1 Main St"}]}, "notify": True}],
        ["prices", {"goods": ["tea", "coffee"]}],
        ["receipt", {"goods": "tea"}],
        ["sell", {"goods": f"{name} {way}"}],
        ["fail", {"reason": "the till"}],
        ["bake", {"steps": 4}],
        ["compile_program", {"lines": 3}],
        ["nothing", {}],
    ]


def converse(way, server, steps, bus=None, late=None):
    """Runs the agent, and returns what the model was shown of each step. An agent that does not end is a failure."""
    names = [prefix + (t if way == "direct" else shared.behind(server, t)) for t, _ in steps]
    job = {"plan": [[[n, a]] for n, (_, a) in zip(names, steps)], "late": late, "url": None, "headers": {}}
    if way == "http":
        job |= {"url": world.door, "headers": shared.headers(world)}
    elif way == "stdio":
        url, credentials = bus or (world.bus, world.token)
        job |= {"command": world.toolbus, "args": ["mcp", "--server", url, "--credentials", credentials],
                "env": dict(os.environ)}
    else:
        job |= world.servers[server]
    with StandIn(strict=way != "direct") as model, tempfile.TemporaryDirectory(dir=world.work) as folder:
        job["model"] = model.url
        run = subprocess.run(command(folder, job), capture_output=True, text=True, timeout=400, cwd=folder, check=False)
        shown = model.shown
    ended = run.returncode == 0 and run.stdout.rstrip().endswith("final: done")
    report.expect(ended, f"{way}: the agent ended with {run.returncode}: {run.stdout[-200:]} {run.stderr[-600:]}")
    report.expect(len(shown) == len(steps), f"{way}: the model was shown {len(shown)} outputs of {len(steps)}")
    return [plain(one) for one in shown] + [""] * (len(steps) - len(shown))


def command(folder, job):
    """Returns the command of the agent. Node.js finds packages only beside the script, so it gets a copy there."""
    here, file = pathlib.Path(__file__).parent, pathlib.Path(folder, "job.json")
    file.write_text(json.dumps(job), encoding="utf-8")
    if environment:
        return [f"{world.pythons}/{environment}/bin/python", str(here / script), str(file)]
    for one in here.glob("*.mjs"):
        shutil.copy(one, folder)
    os.symlink(world.frameworks, pathlib.Path(folder, "node_modules"))
    return [world.node, str(pathlib.Path(folder, script)), str(file)]


def plain(output):
    """Returns an output as text, with line breaks as such, and without the _meta that the bus may add."""
    with contextlib.suppress(TypeError, ValueError):
        output = json.loads(output)
    if isinstance(output, dict):
        output = {k: v for k, v in output.items() if k not in ("_meta", "meta")}
    output = output if isinstance(output, str) else json.dumps(output)
    return re.sub(r"meta=\{[^{}]*\}", "meta=None", output.replace("\\n", "\n").replace('\\"', '"'))


def times(file, line):
    """Returns how often a line is in a file of the servers behind the bus, which make it with the first line."""
    path = pathlib.Path(world.through, file)
    return path.read_text(encoding="utf-8").splitlines().count(line) if path.exists() else 0


def same(way, steps, want, got, differ=()):
    """Compares what the model was shown directly and through the bus."""
    for (tool, _), a, b in zip(steps, want, got):
        report.expect(tool in differ or a == b, f"{way}: {tool}: the model reads directly {a}, through the bus {b}")


def plan():
    """Ten steps. Below the text of a failure the bus has one of its own, and sales are counted on each side."""
    want = converse("direct", "shop", ten("direct"))
    for way in ("stdio", "http"):
        got = converse(way, "shop", ten(way))
        same(way, ten(way), want, got, ("sell", "fail", "compile_program"))
        for n, said in ((6, "because of the till"), (8, "main.c:3: error: 'x3' undeclared")):
            ok = said in got[n] if said in want[n] else want[n] == got[n]  # one framework shows structured content alone
            report.expect(ok, f"{way}: the model reads directly {want[n]}, through the bus {got[n]}")
        sold = times("sold.txt", f"{name} {way}")
        report.expect(sold == 1, f"{way}: it was sold {sold} times")
        print(f"{way}: {len(got)} steps", flush=True)


def large():
    """Results of 5 MB, and of 3.5 MB twice: below the 8 MiB of JSON that the bus keeps of a result."""
    steps = [["large", {"size": LARGE}], ["ledger", {"size": TWICE}], ["large", {"size": 10}]]
    want = converse("direct", "depot", steps)
    report.expect(len(want[0]) >= LARGE, f"directly the model is shown {len(want[0])} bytes")
    for way in ("stdio", "http"):
        got = converse(way, "depot", steps)
        same(way, steps, want, got)
        print(f"{way}: {[len(one) for one in got]} bytes", flush=True)


def idle():
    """A proxy that ends connections on which nothing comes. A large result that comes late is its beginning and a link."""
    size = 500_000 if name in LINKLESS else LARGE
    steps = [["work", {"seconds": 14, "name": name}], ["late", {"seconds": 3, "size": size}], ["large", {"size": 10}]]
    got = converse("http", "depot", steps)
    report.expect(f"{name} is done" in got[0], f"the model reads {got[0]}")
    linked = "toolbus://result/" in got[1] and len(got[1]) < LARGE
    report.expect("000000001" in got[1] and (linked or name in LINKLESS),
                  f"the model reads {len(got[1])} bytes: {got[1][-900:]}")
    report.expect("000000000" in got[2], f"the model reads {got[2]}")
    report.expect(times("depot.txt", name) == 1, f"it was done {times('depot.txt', name)} times")
    print(f"http: {[len(one) for one in got]} bytes", flush=True)


def slow():
    """A server that needs 40 s to start. Each way has its own, which nobody has called before."""
    way = sys.argv[4]
    began, line = time.monotonic(), f"{name} {way}"
    got = converse(way, "slow" + way, [["work", {"seconds": 0, "name": line}]])
    took = time.monotonic() - began
    report.expect(f"{line} is done" in got[0] and took > 40, f"after {took:.1f} s the model reads {got[0]}")
    report.expect(times("depot.txt", line) == 1, f"it was done {times('depot.txt', line)} times")
    print(f"{way}: {took:.1f} s", flush=True)


@contextlib.contextmanager
def running(port, data):
    """Runs a bus of its own, with the tools of the world."""
    ready = pathlib.Path(data, "ready")
    with subprocess.Popen([world.toolbus, "dev", "--port", str(port), "--data-dir", data, "--tools", world.tools,
                           "--ready-file", str(ready)], stdout=subprocess.DEVNULL) as bus:
        report.expect(shared.appears(ready, 60), "the bus does not serve")
        yield
        ready.unlink()
        bus.terminate()


def late():
    """A bus that comes after the agent. It was there before: so the agent has credentials."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(dir=world.work) as data:
        with running(port, data):
            pass
        begun, ended = pathlib.Path(data, "begun"), threading.Event()

        def come():
            if report.expect(shared.appears(begun, 60), "the agent has not begun without a bus"):
                with running(port, data):
                    ended.wait()

        bus = threading.Thread(target=come)
        bus.start()
        steps = [["add", {"a": 40, "b": 2}], ["sell", {"goods": f"{name} late"}]]
        got = converse("stdio", "shop", steps, (f"nats://127.0.0.1:{port}", f"{data}/credentials/agent"), str(begun))
        ended.set()
        bus.join()
    report.expect("42" in got[0], f"the model reads {got[0]}")
    report.expect(times("sold.txt", f"{name} late") == 1, f"it was sold {times('sold.txt', f'{name} late')} times")


{"plan": plan, "large": large, "idle": idle, "slow": slow, "late": late}[scenario]()
if report.failed:
    sys.exit(f"{report.failed} failures")
