"""Run the tests with `python3 -m unittest`."""

import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(__file__).with_name("main.py")


def answer(name):
    """Serve one call as an executor does, and return the lines of the answer."""
    call = {"op": "execute", "fn": "run", "input": {"name": name}}
    done = subprocess.run([sys.executable, PROGRAM], input=json.dumps(call), capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}, standard error:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class TestRun(unittest.TestCase):
    def test_success(self):
        self.assertEqual(answer("Ada")[-1], {"type": "output", "output": {"text": "Hello Ada"}})

    def test_error(self):
        self.assertEqual(answer("nobody")[-1]["error"]["code"], "unknown_name")


if __name__ == "__main__":
    unittest.main()
