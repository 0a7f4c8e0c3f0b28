package policy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The names in a generated set.
const (
	DefaultRole = "agent"
	DefaultLane = "default"
)

// The forms of names that a generated set may have, as in the schemas.
var (
	lanePattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)
	targetPattern = regexp.MustCompile(`^[^*]*[^*\s][^*]*$`)
)

// maxDescription is the largest size of a description in a generated entry, in bytes: 5,000 entries fit into a set.
const maxDescription = 120

// defaultTimeoutMS is the timeout of a tool whose manifest was not loaded from a file.
const defaultTimeoutMS = 15_000

// Generate returns a set that allows each call of the tools: one role, one lane with implicit runs, and an entry for
// each tool. A manifest that names lanes keeps its tool in these, and each of them is made, too.
func Generate(tools []*tool.Manifest) (Documents, error) {
	return GenerateFor(DefaultRole, DefaultLane, tools)
}

// GenerateFor is [Generate] with other names of the role and the lane.
func GenerateFor(roleID, laneID string, tools []*tool.Manifest) (Documents, error) {
	lanes, entries := map[string]bool{laneID: true}, []Entry{}
	for _, m := range slices.SortedFunc(slices.Values(tools), func(a, b *tool.Manifest) int {
		return cmp.Compare(a.ToolID, b.ToolID)
	}) {
		unchecked, err := uncheckedIn(m)
		if err != nil {
			return Documents{}, err
		}
		if last := len(entries) - 1; last >= 0 && entries[last].ToolName == m.ToolID { // another version
			entries[last].Unsanitized = union(entries[last].Unsanitized, pointersOf(unchecked))
			continue
		}
		e, err := entryOf(m, laneID)
		if err != nil {
			return Documents{}, fmt.Errorf("manifest of %s: %w", m.ToolID, err)
		}
		e.Unsanitized = pointersOf(unchecked)
		for _, lane := range e.AllowedLanes {
			lanes[lane] = true
		}
		entries = append(entries, e)
	}
	role := Role{roleID, slices.Sorted(maps.Keys(lanes))}
	all := make([]Lane, len(lanes))
	for i, id := range role.AllowedLanes {
		all[i] = Lane{ID: id, AllowedTools: []string{"*"}, Write: true, Runs: RunsImplicit}
	}
	return Write([]Role{role}, all, entries), nil
}

// entryOf returns an entry that restricts nothing of a manifest. If the manifest names no lanes, it is for laneID.
func entryOf(m *tool.Manifest, laneID string) (Entry, error) {
	declared, err := fieldsOf(m)
	e := Entry{
		ToolName: m.ToolID, Description: cmp.Or(strings.TrimSpace(ijson.Clip(m.Description, maxDescription)), m.ToolID),
		Enabled: true, Idempotent: true,
		TimeoutDefaultMS: cmp.Or(m.Limits.TimeoutDefaultMS, defaultTimeoutMS), AllowedLanes: []string{laneID},
	}
	r := merge(e, m, gatewayFields{})
	e.Enabled, e.Idempotent = r.Enabled, r.Idempotent
	if lanes := slices.DeleteFunc(declared.AllowedLanes, notLane); len(lanes) > 0 {
		e.AllowedLanes = union(lanes, nil)
	}
	if r.Writes {
		e.WriteTargets = []string{call.AnyTarget}
		if all := declared.WriteTargets; len(all) > 0 && !slices.ContainsFunc(all, notTarget) {
			e.WriteTargets = union(all, nil)
		}
	}
	return e, err
}

func notLane(name string) bool     { return !lanePattern.MatchString(name) }
func notTarget(target string) bool { return !targetPattern.MatchString(target) }

// Write returns documents with these roles, lanes and entries.
func Write(roles []Role, lanes []Lane, entries []Entry) Documents {
	var r, l, e writer
	r.start("roles", "The roles of callers, and the lanes of each.", len(roles))
	for _, role := range roles {
		r.line("  - role_id: %s", text(role.ID))
		r.line("    allowed_lanes: %s", list(role.AllowedLanes))
	}
	l.start("lanes", "The lanes in which tools are called, and what each allows.", len(lanes))
	for _, lane := range lanes {
		l.lane(lane)
	}
	const registered = "The registered tools. An entry restricts the manifest of its tool, and never widens it."
	e.start("tools", registered, len(entries))
	for _, entry := range entries {
		e.entry(entry)
	}
	return Documents{[]byte(r.String()), []byte(l.String()), []byte(e.String())}
}

// writer writes a document as YAML.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) start(name, comment string, items int) {
	w.line("# %s", comment)
	if items == 0 {
		name += ": []"
		w.line("%s", name)
		return
	}
	w.line("%s:", name)
}

// some writes a list that is left out if it is empty.
func (w *writer) some(name string, items []string) {
	if len(items) > 0 {
		w.line("    %s: %s", name, list(items))
	}
}

func (w *writer) lane(l Lane) {
	w.line("  - lane_id: %s", text(l.ID))
	w.line("    allowed_tools: %s", list(l.AllowedTools))
	w.some("required_scope_keys", l.RequiredScopeKeys)
	w.some("prohibited_flags", l.ProhibitedFlags)
	if l.Write {
		w.line("    write: true")
	}
	states := make([]string, len(l.AllowedRunStates))
	for i, state := range l.AllowedRunStates {
		states[i] = string(state)
	}
	w.some("allowed_run_states", states)
	if l.Runs != "" {
		w.line("    runs: %s", l.Runs)
	}
	if l.Audit != "" {
		w.line("    audit: %s", l.Audit)
	}
}

func (w *writer) entry(e Entry) {
	w.line("  - tool_name: %s", text(e.ToolName))
	w.line("    description: %s", ijson.Quote(e.Description))
	w.line("    enabled: %t", e.Enabled)
	w.line("    idempotent: %t", e.Idempotent)
	w.line("    timeout_default_ms: %d", e.TimeoutDefaultMS)
	w.line("    allowed_lanes: %s", list(e.AllowedLanes))
	w.line("    required_scope_keys: %s", list(e.RequiredScopeKeys))
	w.line("    prohibited_flags: %s", list(e.ProhibitedFlags))
	w.some("write_targets", e.WriteTargets)
	w.some("unsanitized", e.Unsanitized)
	if e.Versions != "" {
		w.line("    versions: %s", ijson.Quote(e.Versions))
	}
}

// plainText is text that YAML reads as a string without quotes: it begins like no number, and is no word of YAML.
var plainText = regexp.MustCompile(`^[a-z]+[._-][a-z0-9_-]*$|^(agent|default)$`)

func text(s string) string {
	if plainText.MatchString(s) {
		return s
	}
	return string(ijson.Quote(s))
}

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = text(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
