"""Compiles every input and output schema that is listed, over both transports and in both eras, and those that
`toolbus gen mcp` and `toolbus gen openapi` write, with a validator that loads nothing. Checks the names as well."""

import json
import subprocess
import sys

import portable
import wire

world = wire.World(sys.argv[1])
failures = 0


def check(where, tools):
    global failures
    schemas = bad = 0
    for tool in tools:
        found = []
        if not portable.BUS_NAME.match(tool["name"]):
            found.append("the name breaks ^[a-zA-Z0-9_-]{1,48}$")
        for member in ("inputSchema", "outputSchema"):
            if member in tool:
                schemas += 1
                top = "object" if "openapi" not in where and (member == "inputSchema" or wire.LEGACY in where) else None
                found += [f"{member}: {p}" for p in portable.problems(tool[member], top)]
        if found:
            bad += 1
            failures += 1
            if bad <= 5:
                print("FAIL", where, tool["name"], "; ".join(found), flush=True)
    names = [t["name"] for t in tools]
    if len(set(names)) != len(names):
        failures += 1
        print("FAIL", where, "names stand twice")
    print(f"{where}: {len(tools)} tools, {schemas} schemas, {bad} of them wrong", flush=True)
    return names


listed = {}
for way in wire.WAYS:
    with wire.through(world, *way) as bus:
        listed[way] = check(" ".join(way), bus.tools())
if len({tuple(names) for names in listed.values()}) != 1:
    failures += 1
    print("FAIL the ways to the bus list different tools")
counts = {}
for server in world.servers:
    with wire.direct(world, server) as client:
        counts[server] = len(client.tools())
want = sum(counts.values())
if (got := len([n for n in listed[wire.WAYS[0]] if n != "toolbus_search_tools"])) != want:
    failures += 1
    print(f"FAIL {got} tools are listed, and the servers have {want}: {counts}")


def generated(kind):
    return json.loads(subprocess.run(
        [world.toolbus, "gen", kind, "--tools", world.tools], check=True, capture_output=True).stdout)


made = check("gen mcp", generated("mcp")["tools"])
if set(made) != set(listed[wire.WAYS[0]]) - {"toolbus_search_tools"}:
    failures += 1
    print("FAIL gen mcp writes other names than the door lists")


def operations(document):
    """Yields the name and the schemas of each call of an OpenAPI document. References are to the document."""
    def whole(schema):
        return {**schema, "components": document["components"]} if "$ref" in schema else schema

    for path, item in document["paths"].items():
        for operation in item.values():
            tool = {"name": operation["operationId"]}
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "schema" in body:
                tool["inputSchema"] = whole(body["schema"])
            answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
            if "schema" in answer:
                tool["outputSchema"] = whole(answer["schema"])
            yield tool


check("gen openapi", list(operations(generated("openapi"))))
if failures:
    sys.exit(f"{failures} failures")
