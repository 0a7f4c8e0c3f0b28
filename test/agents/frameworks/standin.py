"""The stand-in of model.py for all frameworks. It also speaks the API of Gemini, and keeps what it was shown of each call."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "clients"))

import model  # noqa: E402


class Handler(model.Handler):
    def do_POST(self):
        if ":generateContent" not in self.path:
            return super().do_POST()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        listed = [f for t in body.get("tools", []) for f in t.get("functionDeclarations", [])]
        with self.server.lock:
            self.server.listed = max(self.server.listed, len(listed))
        parts = [{"functionCall": {"id": f"call_{number}", "name": tool, "args": arguments}}
                 for number, tool, arguments in self.decide(list(messages(body["contents"])))]
        self.reply(200, json.dumps({
            "candidates": [{"index": 0, "finishReason": "STOP",
                            "content": {"role": "model", "parts": parts or [{"text": "done"}]}}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}))

    def decide(self, messages):
        shown = [m.get("content", m.get("output")) for m in messages
                 if m.get("role") == "tool" or m.get("type") == "function_call_output"]
        with self.server.lock:
            self.server.shown = max(self.server.shown, shown, key=len)
        return super().decide(messages)


def messages(contents):
    """Yields a conversation with Gemini as the messages of chat completions."""
    for content in contents:
        for part in content.get("parts", []):
            if "functionResponse" in part:
                yield {"role": "tool", "content": part["functionResponse"].get("response")}
            elif "text" in part:
                yield {"role": {"model": "assistant"}.get(content.get("role"), "user"), "content": part["text"]}


class StandIn(model.Model):
    def __init__(self, strict=True):
        super().__init__(strict)
        self.server.RequestHandlerClass = Handler
        self.server.shown = []

    @property
    def shown(self):
        """The outputs that the model was shown in the longest conversation, in their order."""
        return self.server.shown
