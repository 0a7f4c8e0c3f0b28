"""The tool TOOL_ID. One process serves one call: it reads one JSON object, and writes lines of JSON."""

import json
import os
import pathlib
import sys

EFFECTS = pathlib.Path(os.environ["EFFECTS"])  # stands for the service that the tool changes


def find(key):
    """Return the output that a run has committed under the key of its call, or None."""
    effect = EFFECTS / key
    return json.loads(effect.read_text()) if effect.exists() else None


def commit(key, output):
    """Commit the effect and the output under the key of the call: both or neither, also at a power cut."""
    EFFECTS.mkdir(parents=True, exist_ok=True)
    new = EFFECTS / (key + ".new")
    new.write_text(json.dumps(output))
    sync(new)  # before the rename: otherwise a power cut may leave an empty file
    new.rename(EFFECTS / key)
    sync(EFFECTS)


def sync(path):
    """Wait until a file or a folder is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


def run(key, name):
    """Return the last line of the answer."""
    if name == "nobody":
        # The manifest declares the error. The effect says whether the call has changed anything.
        error = {"code": "unknown_name", "message": "there is nobody of that name", "effect": "none"}
        return {"type": "error", "error": error}
    output = find(key)  # of an earlier run
    if output is None:
        output = {"text": f"Hello {name}"}
        commit(key, output)
    return {"type": "output", "output": output}


def lookup(key):
    """Return what a run has committed. A lookup changes nothing."""
    output = find(key)
    return {"type": "output", "output": output} if output is not None else {"type": "absent"}


if __name__ == "__main__":
    call = json.load(sys.stdin)
    key = call["idempotency_key"]
    line = lookup(key) if call["op"] == "lookup" else run(key, call["input"]["name"])
    print(json.dumps(line), flush=True)
