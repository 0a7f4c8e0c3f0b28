"""The job of an agent: conduct.py writes it as JSON, and each agent reads it from the file that is its only argument."""

import asyncio
import json
import pathlib
import sys
import time

TIMEOUT = 150  # seconds, longer than a server takes to start


class Job:
    def __init__(self):
        self.__dict__.update(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
        self.message = json.dumps(self.plan)

    @property
    def http(self):
        return bool(self.url)

    async def bus_comes(self, listed):
        """Waits for the tools of a bus that starts after the agent, if the job wants it. listed returns their number."""
        if not self.late:
            return
        if await listed():
            sys.exit("there are tools before the bus is there")
        pathlib.Path(self.late).touch()
        deadline = time.monotonic() + 60
        while not await listed():
            if time.monotonic() > deadline:
                sys.exit("there are no tools a minute after the agent has begun")
            await asyncio.sleep(0.2)


def done(text):
    """Ends the agent with what the model said last."""
    print(f"final: {text}", flush=True)
