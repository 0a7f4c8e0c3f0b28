"""The inputs with which each tool is called, in order. {dir} is the folder of a side."""

import importlib.util
import pathlib

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def filesystem(world):
    d = "{dir}/files"
    shared = world.shared
    return [
        ("create_directory", {"path": d}),
        ("create_directory", {"path": d + "/deep/er"}),
        ("create_directory", {"path": "/nowhere/at/all"}),
        ("write_file", {"path": d + "/a.txt", "content": "one\ntwo\nthree — ünï\n"}),
        ("write_file", {"path": d + "/empty.txt", "content": ""}),
        ("write_file", {"path": "/outside.txt", "content": "x"}),
        ("write_file", {"path": d + "/a.txt"}),
        ("read_text_file", {"path": d + "/a.txt"}),
        ("read_text_file", {"path": d + "/a.txt", "head": 1}),
        ("read_text_file", {"path": d + "/a.txt", "head": 1, "tail": 1}),
        ("read_text_file", {"path": d + "/missing.txt"}),
        ("read_text_file", {"path": 7}),
        ("read_file", {"path": d + "/a.txt", "tail": 2}),
        ("read_file", {}),
        ("read_media_file", {"path": shared + "/fact.txt"}),
        ("read_media_file", {"path": d + "/missing.png"}),
        ("read_multiple_files", {"paths": [d + "/a.txt", d + "/missing.txt", d + "/empty.txt"]}),
        ("read_multiple_files", {"paths": []}),
        ("edit_file", {"path": d + "/a.txt", "edits": [{"oldText": "two", "newText": "zwei"}], "dryRun": True}),
        ("edit_file", {"path": d + "/a.txt", "edits": [{"oldText": "two", "newText": "zwei"}]}),
        ("edit_file", {"path": d + "/a.txt", "edits": [{"oldText": "not there", "newText": "x"}]}),
        ("move_file", {"source": d + "/a.txt", "destination": d + "/deep/b.txt"}),
        ("move_file", {"source": d + "/a.txt", "destination": d + "/deep/b.txt"}),
        ("list_directory", {"path": d}),
        ("list_directory", {"path": d + "/none"}),
        ("list_directory_with_sizes", {"path": d, "sortBy": "size"}),
        ("list_directory_with_sizes", {"path": d, "sortBy": "colour"}),
        ("directory_tree", {"path": d}),
        ("directory_tree", {"path": d, "excludePatterns": ["*.txt"]}),
        ("search_files", {"path": d, "pattern": "**/*.txt"}),
        ("search_files", {"path": "/etc", "pattern": "*"}),
        ("get_file_info", {"path": shared + "/fact.txt"}),
        ("get_file_info", {"path": d + "/none"}),
        ("list_allowed_directories", {}),
    ]


def memory(_):
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes trains", "ünï\n\"quoted\""]}
    bob = {"name": "Bob", "entityType": "person", "observations": []}
    knows = {"from": "Ada", "to": "Bob", "relationType": "knows"}
    return [
        ("read_graph", {}),
        ("create_entities", {"entities": [ada, bob]}),
        ("create_entities", {"entities": [ada]}),
        ("create_entities", {"entities": [{"name": "Ada"}]}),
        ("create_entities", {"entities": "Ada"}),
        ("create_relations", {"relations": [knows]}),
        ("add_observations", {"observations": [{"entityName": "Bob", "contents": ["sings"]}]}),
        ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}),
        ("read_graph", {}),
        ("search_nodes", {"query": "trains"}),
        ("search_nodes", {"query": "zzz"}),
        ("open_nodes", {"names": ["Ada", "Nobody"]}),
        ("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["likes trains"]}]}),
        ("delete_relations", {"relations": [knows, {"from": "x", "to": "y", "relationType": "z"}]}),
        ("delete_entities", {"entityNames": ["Bob", "Nobody"]}),
        ("delete_entities", {}),
        ("read_graph", {"extra": True}),
        ("delete_entities", {"entityNames": ["Ada"]}),
    ]


def everything(_):
    data = "data:text/plain;base64,aGVsbG8="
    return [
        ("echo", {"message": "hello\n\"wörld\""}),
        ("echo", {"message": ""}),
        ("echo", {}),
        ("echo", {"message": "x", "more": 1}),
        *(("get-annotated-message", {"messageType": t, "includeImage": i})
          for t in ("error", "success", "debug", "loud") for i in (True, False)),
        ("get-env", {}),
        ("get-resource-links", {"count": 5}),
        ("get-resource-links", {}),
        ("get-resource-links", {"count": 50}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 2}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
        *(("get-structured-content", {"location": c}) for c in ("New York", "Chicago", "Los Angeles", "Paris")),
        ("get-sum", {"a": 2, "b": 40.5}),
        ("get-sum", {"a": "two", "b": 1}),
        ("get-tiny-image", {}),
        ("gzip-file-as-resource", {"name": "a.gz", "data": data, "outputType": "resource"}),
        ("gzip-file-as-resource", {"name": "a.gz", "data": data}),
        ("gzip-file-as-resource", {"name": "a.gz", "data": "ftp://127.0.0.1/x"}),
        ("toggle-simulated-logging", {}),
        ("toggle-simulated-logging", {}),
        ("toggle-subscriber-updates", {}),
        ("toggle-subscriber-updates", {}),
        ("trigger-long-running-operation", {"duration": 0.1, "steps": 2}),
        ("simulate-research-query", {"topic": "trains"}),
    ]


def shop(_):
    return [
        ("add", {"a": 1}), ("add", {"a": 2**53 + 1, "b": 1}), ("add", {"a": "x"}), ("add", {"a": 1.5}), ("add", {}),
        ("add", {"a": "7", "b": "-2"}), ("customer", {"name": "Ada", "age": "41"}), ("add", {"a": ""}),
        ("register", {"person": {"name": "Ada", "age": "3"}, "notify": "true"}), ("prices", {"goods": '["tea"]'}),
        ("customer", {"name": "Ada"}), ("customer", {"name": "Ada", "age": 2**63 - 1}),
        ("customer", {"name": "A", "age": -1}),
        ("register", {"person": {"name": "Ada", "age": 3}}), ("register", {"person": {"name": "Ada", "age": -3}}),
        ("register", {"person": {"name": "Ada", "age": 3, "addresses": [{"street": "x", "city": None}]}, "notify": True}),
        ("prices", {"goods": ["tea", "coffee"]}), ("prices", {"goods": []}), ("prices", {"goods": "tea"}),
        ("receipt", {"goods": "tea"}), ("receipt", {"goods": ""}), ("shelves", {}), ("nothing", {}),
        ("fail", {"reason": "no tea"}), ("fail", {"reason": "x" * 5000}),
        ("compile_program", {"lines": 3}), ("compile_program", {"lines": 900}), ("compile_program", {"lines": 9000}),
        ("sell", {"goods": "tea"}), ("sell", {"goods": "coffee"}), ("sell", {}),
        ("bake", {"steps": 3}), ("bake", {"steps": 0}), ("wait", {}),
    ]


def many(tools):
    file = pathlib.Path(__file__).parent.parent / "servers" / "many.py"
    spec = importlib.util.spec_from_file_location("many", file)
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    given = []
    for tool in tools:
        good, bad = server.INPUTS.get(tool, ({}, None))
        given.append((tool, good))
        given.append((tool, {**good, "one more": [1.5, None, "\U0001f600", 2**53 - 1]}))
        if bad is not None:
            given.append((tool, bad))
    return given + [("getUser0", {"text": "a", "integer that the bus cannot keep": 2**53 + 1})]


def of(server, tools, world):
    """Returns pairs of a tool and an input."""
    if server == "many":
        return many(tools)
    return globals()[server](world)
