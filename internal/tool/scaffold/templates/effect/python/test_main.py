"""Run the tests with `python3 -m unittest`."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).with_name("main.py")


class TestRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def answer(self, name, op="execute"):
        """Serve one call as an executor does, and return the last line of the answer."""
        call = {"op": op, "fn": "run", "input": {"name": name}, "idempotency_key": "key1"}
        command, variables = [sys.executable, PROGRAM], {"EFFECTS": self.folder}
        done = subprocess.run(command, input=json.dumps(call), capture_output=True, text=True, env=variables)
        self.assertEqual(done.returncode, 0, f"standard error:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def test_success(self):
        want = {"type": "output", "output": {"text": "Hello Ada"}}
        self.assertEqual(self.answer("Ada", "lookup"), {"type": "absent"})
        self.assertEqual(self.answer("Ada"), want)
        self.assertEqual(self.answer("Ada"), want)
        self.assertEqual(self.answer("Ada", "lookup"), want)
        self.assertEqual(len(list(pathlib.Path(self.folder).iterdir())), 1)

    def test_error(self):
        self.assertEqual(self.answer("nobody")["error"]["code"], "unknown_name")


if __name__ == "__main__":
    unittest.main()
