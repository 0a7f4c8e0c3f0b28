"""Plans for a model, and what an agent framework shows the model of their results."""

import itertools
import json

import shared

# Directly, these end a conversation in one framework or the other: a client that refuses the result, or a link that has
# no form in the API of the model.
FATAL = {"answer.missingOutput", "answer.wrongOutput", "answer.unknownContent", "answer.embedded", "answer.link",
         "get-resource-links"}
# Each turn sends all outputs again, so these cost seconds and show nothing that a smaller one does not.
LARGE = {"answer.large", "answer.largeError"}


def plans(world, folder):
    """Returns the plan for the direct side, that for the bus, the names of the calls, and the folders of the sides. Of
    servers that keep something a turn has one call each; the calls of the others come many at once, in the last turns."""
    mine, theirs = shared.folders(world, folder)
    calls = [(s, t, a, b) for (s, t, a), (_, _, b) in zip(shared.chosen(mine, folder), shared.chosen(theirs, folder))
             if t not in FATAL | LARGE]
    turns = list(itertools.zip_longest(*([c for c in calls if c[0] == s] for s in ("filesystem", "memory"))))
    turns += itertools.zip_longest(*[(c for c in calls if c[0] not in ("filesystem", "memory"))] * 12)
    turns = [[c for c in turn if c] for turn in turns]
    return ([[[t, a] for _, t, a, _ in turn] for turn in turns],
            [[[shared.behind(s, t), b] for s, t, _, b in turn] for turn in turns],
            [f"{s} {t}" for turn in turns for s, t, _, _ in turn], mine, theirs)


def blocks(output):
    """Returns an output that a model reads as the list of its blocks, without ids that differ in each run."""
    if isinstance(output, str):
        try:
            output = json.loads(output)
        except ValueError:
            output = [{"type": "text", "text": output}]
    if isinstance(output, dict):
        output = [output]
    if not isinstance(output, list):
        output = [output]
    made = []
    for one in output:
        if isinstance(one, str):
            one = {"type": "text", "text": one}
        if isinstance(one, dict):
            one = {k: v for k, v in one.items() if k != "id"}
        made.append(one)
    return made


def compare(report, way, names, direct, through, mine, theirs):
    """Compares the outputs that the model was shown. Below those of a failure the bus may have one block of its own."""
    if not report.expect(len(direct) == len(through) == len(names),
                         f"{way}: {len(names)} calls, {len(direct)} outputs directly, {len(through)} through the bus"):
        return
    for name, a, b in zip(names, direct, through):
        a, b = blocks(a), blocks(b)
        own = b[len(a):]
        if len(own) == 1 and own[0].get("type") in ("text", "input_text"):
            b = b[:-1]
        report.expect(shared.same(a, mine, b, theirs), f"{way}: {name}: the model reads directly {a}, through the bus {b}")
