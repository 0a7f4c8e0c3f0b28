package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Lint returns all problems and warnings of a set and of its fit to the manifests. If documents have problems, it
// judges what they leave to judge. The error is about something else, such as a manifest.
func Lint(d Documents, tools []*tool.Manifest) (all tool.Problems, _ error) {
	p, err := examine(d, [][]byte{d.ToolRegistry})
	if found, ok := errors.AsType[tool.Problems](err); ok {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	all = p.problems()
	var warnings tool.Problems
	if len(p.set.Entries) > 0 || len(all) == 0 { // a registry that cannot be read lacks every tool
		warnings = warningsOf(p.set, tools)
	}
	p.supposeLanes()
	_, unfit := Compile(p.set, tools)
	for _, err := range []error{unfit, Sanitized(p.set, tools)} {
		found, ok := errors.AsType[tool.Problems](err)
		if err != nil && !ok {
			return nil, err
		}
		all = append(all, found...)
	}
	return append(all, warnings...), nil
}

// supposeLanes adds each lane that is named and does not exist, as one that allows everything: an entry that names it
// is wrong about the lane alone.
func (p *parser) supposeLanes() {
	suppose := func(lanes []string) {
		for _, id := range lanes {
			if !p.laneIDs[id] {
				p.laneIDs[id] = true
				p.set.Lanes = append(p.set.Lanes, Lane{ID: id, AllowedTools: []string{"*"}, Write: true})
			}
		}
	}
	for _, r := range p.set.Roles {
		suppose(r.AllowedLanes)
	}
	for _, e := range p.set.Entries {
		suppose(e.AllowedLanes)
	}
}

// warningsOf returns warnings about a set and the tools of a deployment: what is allowed more widely than it has to be,
// and what has no effect.
func warningsOf(set *Set, tools []*tool.Manifest) tool.Problems {
	l := linter{
		set: set, manifests: map[string]*tool.Manifest{}, entries: map[string]bool{}, lanes: map[string]*lane{},
	}
	for _, m := range tools {
		l.manifests[m.ToolID] = m
		l.members = append(l.members, membersOf(m)...)
	}
	for _, one := range set.Lanes {
		l.lanes[one.ID] = newLane(one, 0)
	}
	if len(tools) == 0 && len(set.Entries) > 0 {
		l.warn(set.registry, "", "no tool is there, so the set is checked without its tools",
			"name the folder of the tools with --tools DIR")
	}
	for i, r := range set.Roles {
		if len(r.AllowedLanes) == 0 {
			l.warn(set.roles, jsontext.Pointer(fmt.Sprintf("/roles/%d/allowed_lanes", i)),
				fmt.Sprintf("the role %s has no lane, so no call with it is allowed", r.ID), "add a lane, or remove the role")
		}
	}
	for i, e := range set.Entries {
		l.entries[e.ToolName] = true
		l.entry(jsontext.Pointer(fmt.Sprintf("/tools/%d", i)), e)
	}
	for i, lane := range set.Lanes {
		l.lane(jsontext.Pointer(fmt.Sprintf("/lanes/%d", i)), lane)
	}
	for _, m := range tools {
		if !l.entries[m.ToolID] {
			l.warn(set.registry, "", fmt.Sprintf("the tool %s is not registered, so it cannot be called", m.ToolID),
				"add an entry; `toolbus policy init` writes one for each tool")
		}
	}
	return l.problems
}

type linter struct {
	set       *Set
	manifests map[string]*tool.Manifest
	entries   map[string]bool
	lanes     map[string]*lane
	members   []string // of the inputs of all tools
	problems  tool.Problems
}

func (l *linter) warn(in *tool.Document, at jsontext.Pointer, message, hint string) {
	p := in.Problem(at, message, hint)
	p.Severity = tool.Warning
	l.problems = append(l.problems, p)
}

func (l *linter) entry(at jsontext.Pointer, e Entry) {
	if i := slices.Index(e.WriteTargets, call.AnyTarget); i >= 0 {
		l.warn(l.set.registry, item(at+"/write_targets", i), fmt.Sprintf("%s may write to every target", e.ToolName),
			"name the beginnings of the targets that it needs")
	}
	for i, pointer := range e.Unsanitized {
		l.warn(l.set.registry, item(at+"/unsanitized", i), fmt.Sprintf("%s may be given any text as %s", e.ToolName, pointer),
			"declare what it is in the schema: format path, uri or command")
	}
	switch m := l.manifests[e.ToolName]; {
	case m != nil:
		l.entryOf(m, at, e)
	case len(l.manifests) > 0:
		l.warn(l.set.registry, at+"/tool_name", fmt.Sprintf("the tool %s does not exist here", e.ToolName),
			"load the manifest of the tool, or remove the entry")
	}
}

// entryOf warns of the lanes and flags of an entry that have no effect with the manifest m.
func (l *linter) entryOf(m *tool.Manifest, at jsontext.Pointer, e Entry) {
	for i, id := range e.AllowedLanes {
		if writes(m) && l.allows(id, e, false) && slices.ContainsFunc(e.AllowedLanes, func(other string) bool {
			return l.allows(other, e, true) // otherwise the set is refused, and that says why
		}) {
			l.warn(l.set.registry, item(at+"/allowed_lanes", i),
				fmt.Sprintf("%s writes, so no call of it is allowed in the lane %s, which is not for writes", e.ToolName, id),
				"remove the lane, or add write: true to it; read_only: true in the manifest is for a tool that changes nothing")
		}
	}
	for i, flag := range e.ProhibitedFlags {
		l.flag(l.set.registry, item(at+"/prohibited_flags", i), flag, membersOf(m))
	}
}

func (l *linter) lane(at jsontext.Pointer, lane Lane) {
	for i, allowed := range lane.AllowedTools {
		prefix, open := strings.CutSuffix(allowed, "*")
		found := l.entries[allowed]
		for _, e := range l.set.Entries {
			found = found || open && strings.HasPrefix(e.ToolName, prefix)
		}
		if !found {
			l.warn(l.set.lanes, item(at+"/allowed_tools", i), fmt.Sprintf("%s matches no registered tool", allowed),
				"correct it, or remove it")
		}
	}
	if len(l.manifests) == 0 {
		return
	}
	for i, flag := range lane.ProhibitedFlags {
		switch kind, name := splitFlag(flag); {
		case kind == flagTag && !l.tagged(name):
			l.warn(l.set.lanes, item(at+"/prohibited_flags", i), fmt.Sprintf("no tool has the tag %s", name),
				"correct it, or remove it")
		case kind == flagArgument:
			l.flag(l.set.lanes, item(at+"/prohibited_flags", i), name, l.members)
		}
	}
}

// allows reports whether a lane that is for writes, or is not, has the tool of an entry in its list.
func (l *linter) allows(lane string, e Entry, write bool) bool {
	in := l.lanes[lane]
	return in != nil && in.Write == write && in.knows(e.ToolName)
}

// flag warns of a prohibited argument that is not declared, if it is similar to one that is. Another one may be that of
// a schema that declares no names, or of a later tool.
func (l *linter) flag(in *tool.Document, at jsontext.Pointer, name string, members []string) {
	if near, ok := envelope.Nearest(name, members); ok && flagLike(members, name) == "" {
		l.warn(in, at, fmt.Sprintf("no tool has the argument %s", name), fmt.Sprintf("did you mean %q?", near))
	}
}

// membersOf returns the names that the schemas of a tool's inputs declare.
func membersOf(m *tool.Manifest) (names []string) {
	for _, f := range m.Functions {
		var in struct {
			Properties map[string]jsontext.Value `json:"properties"`
		}
		if f.Request != nil && json.Unmarshal(f.Request.Raw(), &in) == nil {
			names = slices.AppendSeq(names, maps.Keys(in.Properties))
		}
	}
	return names
}

func (l *linter) tagged(tag string) bool {
	for _, m := range l.manifests {
		if slices.Contains(m.Tags, tag) {
			return true
		}
	}
	return false
}
