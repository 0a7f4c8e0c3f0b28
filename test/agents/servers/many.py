"""A server of MCP with 300 tools, as JSON-RPC over standard input and output without a library, so that each byte is
chosen here. Most tools return their arguments. Names have mixed case, dots, great length, and differ in case alone;
schemas have what servers of today have: lookahead patterns, bounds of int64, tuples of draft-07 without $schema, $defs.
The tools in ANSWERS return results that libraries and validators find hard."""

import json
import sys

INT64 = 2**63 - 1


def schema_of(kind):
    """Returns the input schema of a kind, a valid input, and an invalid one."""
    text = {"type": "string", "description": "any text"}
    return {
        "plain": ({"type": "object", "properties": {"text": text}, "required": ["text"]}, {"text": "a"}, {"text": 1}),
        "lookahead": (
            {"type": "object", "properties": {"word": {"type": "string", "pattern": "^(?!bad)[a-z]+$"}},
             "required": ["word"]},
            {"word": "good"}, {"word": 7}),
        "int64": (
            {"type": "object", "properties": {"n": {"type": "integer", "minimum": -INT64 - 1, "maximum": INT64}},
             "required": ["n"]},
            {"n": 42}, {"n": "42nd"}),
        "tuple": (
            {"type": "object", "properties": {"pair": {
                "type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": False}},
             "required": ["pair"]},
            {"pair": ["a", 1]}, {"pair": "a"}),
        "draft07": (
            {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
             "definitions": {"one": {"type": "object", "properties": {"next": {"$ref": "#/definitions/one"}}}},
             "properties": {"list": {"$ref": "#/definitions/one"}}, "additionalProperties": False},
            {"list": {"next": {"next": {}}}}, {"list": 1}),
        "defs": (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
             "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
             "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/point"}}}},
            {"points": [{"x": 1}, {"x": 2.5}]}, {"points": [{"y": 1}]}),
        "union": (
            {"type": "object", "properties": {"v": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
             "x-vendor": {"a": 1}, "title": "union"},
            {"v": None}, {"v": []}),
        "recursive": (
            {"type": "object", "properties": {"child": {"$ref": "#"}, "ünï": {"const": "ü"}}},
            {"child": {"child": {"ünï": "ü"}}}, {"child": 0}),
    }[kind]


KINDS = ["plain", "lookahead", "int64", "tuple", "draft07", "defs", "union", "recursive"]
# What a name with these parts has: its case, dots, a length beyond every client's limit, and neighbours.
SHAPES = ["getUser{0}", "list_items_{0}", "repo.issues.create{0}", "repo_issues_create{0}", "kebab-case-{0}",
          "Get{0}", "get{0}", "GET{0}",
          "anExceedinglyLongNameOfAToolThatNobodyWouldWriteByHandButGeneratorsDo{0}",
          "anExceedinglyLongNameOfAToolThatNobodyWouldWriteByHandButGeneratorsDo{0}Again"]
OUTPUT = {
    "type": "object", "$defs": {"echo": {"type": "object"}},
    "properties": {"echo": {"$ref": "#/$defs/echo"}, "count": {"type": "integer", "maximum": INT64}},
    "required": ["echo"],
}


def text(t, **more):
    return {"type": "text", "text": t, **more}


def result(*content, **more):
    return {"content": list(content), **more}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg"
COMPILER = "\n".join(f"src/main.rs:{n}:5: error[E0308]: mismatched types\n\texpected `u{n}`" for n in range(1, 400))
ANSWERS = {
    "unpaddedBase64": result({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
    "urlSafeBase64": result({"type": "audio", "data": "-_-_", "mimeType": "audio/wav"}),
    "unknownContent": result(text("a chart"), {"type": "chart", "points": [[0, 1], [1, 4]], "unit": None}),
    "bigIntegers": result(text("big"), structuredContent={
        "n": 2**53 + 1, "least": -INT64 - 1, "most": 2**64 - 1, "more": 2**70, "list": [2**53, 2**53 + 1]}),
    "fractions": result(text("f"), structuredContent={
        "a": 0.1, "b": 1e300, "c": 5e-324, "d": 123456789.12345679, "e": 1.0}),
    "sizeAsText": result({"type": "resource_link", "uri": "file:///a", "name": "a", "size": "12"}),
    "link": result({"type": "resource_link", "uri": "file:///a%20b", "name": "a b", "title": "A", "size": 12,
                    "description": "d", "icons": [{"src": "data:image/png;base64,AA==", "sizes": ["1x1"]}],
                    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}}),
    "embedded": result({"type": "resource", "resource": {"uri": "x://y", "mimeType": "a/b", "blob": "AAEC"},
                        "annotations": {"priority": 1}, "_meta": {"example.com/m": 1}},
                       {"type": "resource", "resource": {"uri": "x://z", "text": "t\n"}}),
    "meta": result(text("m", _meta={"example.com/block": [1, {"a": None}]}),
                   _meta={"example.com/whole": {"b": True}, "plain": "p"}),
    "nulls": result(text("n"), structuredContent={"a": None, "b": [None, {"c": None}], "": ""}),
    "unicode": result(text("\u0000\u2028\ufeff\U0001f600\\\"</script>\r\n"), structuredContent={"ключ": "значение"}),
    "loneSurrogate": result(text("a\ud800b")),
    "longError": result(text(COMPILER), isError=True),
    "wholeError": result(text("first\n\n  second"), {"type": "image", "data": PIXEL + "==", "mimeType": "image/png"},
                         structuredContent={"code": 17, "big": 2**53 + 1}, isError=True, _meta={"example.com/e": "e"}),
    "largeError": result(text("e" * 300_000), isError=True, structuredContent={"tail": "t" * 1000}),
    "hugeError": result(text("h" * 1_500_000), isError=True),
    "emptyError": result(isError=True),
    "noText": result(structuredContent={"only": True}),
    "list": result(text("[1,2]"), structuredContent=[1, 2]),
    "scalar": result(text("7"), structuredContent=7),
    "extraMembers": result(text("x", future={"a": 1}), future={"b": 2}, isError=False),
    "empty": result(),
    "deep": result(text("d"), structuredContent=json.loads('{"a":' * 200 + "1" + "}" * 200)),
    "large": result(text("0123456789abcdef" * 40_000)),
    "duplicates": None,
    "notANumber": None,
    "busy": {"error": {"code": -32000, "message": "Too many requests:\n try later", "data": {"retryAfter": 3}}},
    "invalid": {"error": {"code": -32602, "message": "Invalid arguments: no such city", "data": ["a"]}},
    "missingOutput": result(text("it declares an output schema and returns none")),
    "wrongOutput": result(text("{}"), structuredContent={"count": "three"}),
}
# These are no JSON of I-JSON: a member that stands twice, and a number that JSON has not.
RAW = {
    "duplicates": '{"content":[{"type":"text","text":"d"}],"structuredContent":{"a":1,"a":2}}',
    "notANumber": '{"content":[{"type":"text","text":"n"}],"structuredContent":{"a":NaN}}',
}


def tools():
    """Returns the tools, and their inputs by name."""
    made, inputs = [], {}
    for name in ANSWERS:
        tool = {"name": "answer." + name, "description": f"Answers with {name}.",
                "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        if name.endswith("Output"):
            tool["outputSchema"] = OUTPUT
        made.append(tool)
    annotations = [
        {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": False}, {"idempotentHint": True},
        {"title": "Shown", "readOnlyHint": True, "destructiveHint": True}, {"openWorldHint": False}, {}, None]
    n = 0
    while len(made) < 300:
        kind = KINDS[n % len(KINDS)]
        schema, good, bad = schema_of(kind)
        name = SHAPES[n % len(SHAPES)].format(n // len(SHAPES))
        tool = {"name": name, "description": f"Tool {name}, {kind}.\n\n  It returns its arguments.", "inputSchema": schema}
        if annotations[n % 7] is not None:
            tool["annotations"] = annotations[n % 7]
        if n % 3 == 0:
            tool["outputSchema"] = OUTPUT
        if n % 5 == 0:
            tool["title"] = f"Title {n}"
        if n % 11 == 0:
            tool["icons"] = [{"src": "data:image/svg+xml;base64,PHN2Zy8+", "mimeType": "image/svg+xml", "theme": "dark"}]
        if n % 13 == 0:
            tool["_meta"] = {"example.com/tag": [n, {"a": None}], "ui/resourceUri": "ui://x"}
        made.append(tool)
        inputs[name] = (good, bad)
        n += 1
    return made, inputs


def answer(tool, arguments):
    """Returns the result of a call as JSON, and whether it is an error of JSON-RPC."""
    if tool.startswith("answer."):
        name = tool.removeprefix("answer.")
        if name in RAW:
            return RAW[name], False
        a = ANSWERS[name]
        return (json.dumps(a["error"]), True) if "error" in a else (json.dumps(a), False)
    known = {t["name"]: t for t in TOOLS}.get(tool)
    if known is None:
        return json.dumps({"code": -32602, "message": "Unknown tool: " + tool}), True
    r = result(text(json.dumps(arguments)))
    if "outputSchema" in known:
        r["structuredContent"] = {"echo": arguments, "count": len(arguments)}
    return json.dumps(r), False


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        ok = lambda r: json.dumps(r)
        params = request.get("params") or {}
        failed = False
        match request["method"]:
            case "initialize":
                said = ok({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "Many", "title": "Many tools", "version": "1.0"},
                           "instructions": "Many tools.\n\nNone does a thing."})
            case "ping":
                said = "{}"
            case "tools/list":
                at = int(params.get("cursor", "0"))
                page = {"tools": TOOLS[at:at + 120]}
                if at + 120 < len(TOOLS):
                    page["nextCursor"] = str(at + 120)
                said = ok(page)
            case "tools/call":
                said, failed = answer(params["name"], params.get("arguments") or {})
            case method:
                said, failed = ok({"code": -32601, "message": "Method not found: " + method}), True
        member = "error" if failed else "result"
        print(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"{member}":{said}}}', flush=True)


TOOLS, INPUTS = tools()
if __name__ == "__main__":
    main()
