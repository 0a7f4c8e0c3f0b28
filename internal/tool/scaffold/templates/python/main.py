"""The tool TOOL_ID. One process serves one call: it reads one JSON object, and writes lines of JSON."""

import json
import sys


def write(line):
    print(json.dumps(line), flush=True)


def run(name):
    """Return the last line of the answer."""
    if name == "nobody":
        # The manifest declares the error. The effect says whether the call has changed anything.
        error = {"code": "unknown_name", "message": "there is nobody of that name", "effect": "none"}
        return {"type": "error", "error": error}
    write({"type": "progress", "data": {"done": 1, "total": 2}})
    write({"type": "chunk", "data": "Hello"})
    return {"type": "output", "output": {"text": f"Hello {name}"}}


if __name__ == "__main__":
    call = json.load(sys.stdin)
    write(run(call["input"]["name"]))
