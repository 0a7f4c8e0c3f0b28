"""A stand-in for the API of a model, on loopback: chat completions and responses, whole or streamed. It refuses a
conversation with status 400 if a tool breaks the rules of such APIs (portable.py). It decides nothing: the first
message of the user is a plan, in JSON a list of turns, each a list of [tool, arguments]. The model asks for all calls of a
turn at once, waits for their outputs, and ends the conversation after the last turn."""

import http.server
import json
import threading

import portable

checked = {}


def refusal(name, schema):
    """Returns why an API would refuse the tool, or None."""
    key = json.dumps([name, schema], sort_keys=True)
    if key not in checked:
        found = [] if portable.API_NAME.match(name or "") else [f"its name breaks {portable.API_NAME.pattern}"]
        checked[key] = found + portable.problems(schema)
    return f"tool {name!r}: {'; '.join(checked[key])}" if checked[key] else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.path.endswith("/chat/completions")
        listed = [t["function"] if chat else t for t in body.get("tools", [])]
        why = next(filter(None, (refusal(t.get("name"), t.get("parameters")) for t in listed)), None)
        if why and self.server.strict:
            return self.reply(400, json.dumps({"error": {"message": why, "type": "invalid_request_error"}}))
        messages = body["messages"] if chat else body["input"]
        with self.server.lock:
            self.server.listed = max(self.server.listed, len(listed))
        said = (self.chat if chat else self.response)(self.decide(messages))
        if not body.get("stream"):
            return self.reply(200, json.dumps(said))
        events = self.chat_events(said) if chat else self.response_events(said)
        self.reply(200, "".join(events), "text/event-stream")

    def decide(self, messages):
        """Returns the calls of the next turn, with their numbers."""
        def text(m):
            content = m.get("content")
            return content if isinstance(content, str) else content[0]["text"]

        plan = json.loads(next(text(m) for m in messages if m.get("role") == "user"))
        done = sum(m.get("role") == "tool" or m.get("type") == "function_call_output" for m in messages)
        begun = 0
        for turn in plan:
            if begun == done:
                return [(begun + i, *call) for i, call in enumerate(turn)]
            begun += len(turn)
        return []

    def chat(self, calls):
        message = {"role": "assistant", "content": "done"}
        if calls:
            message = {"role": "assistant", "content": None, "tool_calls": [{
                "id": f"call_{number}", "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)}} for number, tool, arguments in calls]}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "stand-in", "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}

    def chat_events(self, said):
        choice = said["choices"][0]
        delta = dict(choice["message"])
        for i, one in enumerate(delta.get("tool_calls", [])):
            one["index"] = i
        for d, end in ((delta, None), ({}, choice["finish_reason"])):
            yield "data: " + json.dumps({**said, "object": "chat.completion.chunk", "choices": [
                {"index": 0, "delta": d, "finish_reason": end}]}) + "\n\n"
        yield "data: [DONE]\n\n"

    def response(self, calls):
        items = [{"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": tool,
                  "arguments": json.dumps(arguments), "status": "completed"} for number, tool, arguments in calls]
        items = items or [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                           "content": [{"type": "output_text", "text": "done", "annotations": []}]}]
        return {"id": "r", "object": "response", "created_at": 1, "model": "stand-in", "status": "completed",
                "output": items, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
                "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                          "input_tokens_details": {"cached_tokens": 0},
                          "output_tokens_details": {"reasoning_tokens": 0}}}

    def response_events(self, said):
        events = [("response.created", {"response": {**said, "status": "in_progress", "output": []}})]
        for i, item in enumerate(said["output"]):
            events += [("response.output_item.added", {"output_index": i, "item": item}),
                       ("response.output_item.done", {"output_index": i, "item": item})]
        events.append(("response.completed", {"response": said}))
        for number, (kind, more) in enumerate(events):
            yield f"event: {kind}\ndata: " + json.dumps({"type": kind, "sequence_number": number, **more}) + "\n\n"

    def reply(self, status, text, kind="application/json"):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Model:
    """The stand-in, serving while the context lasts. strict is whether it refuses tools."""

    def __init__(self, strict=True):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.strict, self.server.listed, self.server.lock = strict, 0, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def listed(self):
        """The number of tools in the largest conversation."""
        return self.server.listed
