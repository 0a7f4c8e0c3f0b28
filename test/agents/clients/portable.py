"""The rules of model APIs for the tools of a conversation, checked with a validator that is not the bus's."""

import re

import jsonschema
import referencing.exceptions
import referencing.jsonschema
from jsonschema.validators import validator_for

API_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
BUS_NAME = re.compile(r"[a-zA-Z0-9_-]{1,48}\Z")


def references(schema):
    """Yields the values of $ref and $dynamicRef, and $id below the top."""
    if isinstance(schema, dict):
        for k, v in schema.items():
            if k in ("$ref", "$dynamicRef") and isinstance(v, str):
                yield v
            elif k not in ("const", "enum", "default", "examples"):
                yield from references(v)
    elif isinstance(schema, list):
        for v in schema:
            yield from references(v)


def problems(schema, top="object"):
    """Returns the reasons for which a schema does not stand alone: [] for one that does."""
    if not isinstance(schema, dict) or (top and schema.get("type") != top):
        return [f"the schema is no {top} at its top: {str(schema)[:200]}"]
    found = [f"it refers outside itself: {r}" for r in references(schema) if not r.startswith("#")]
    kind = validator_for(schema, default=None)
    if kind is None:
        if "$schema" in schema:
            return found + [f"no draft is called {schema['$schema']}"]
        kind = jsonschema.Draft202012Validator
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as e:
        return found + [f"it is no schema of {kind.__name__}: {e.message} at {list(e.absolute_path)}"]
    specification = referencing.jsonschema.specification_with(kind.META_SCHEMA["$schema"])
    resource = referencing.Resource(contents=schema, specification=specification)
    resolver = referencing.Registry().with_resource("", resource).resolver()
    for r in references(schema):
        try:
            resolver.lookup(r)
        except referencing.exceptions.Unresolvable:
            found.append(f"it refers to nothing: {r}")
    return found
