package envelope_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
)

func tool(id, name string, functions ...string) envelope.ToolInfo {
	t := envelope.ToolInfo{ToolID: id, Name: name, Functions: map[string]envelope.FunctionInfo{}}
	for _, fn := range append(functions, "run")[:max(1, len(functions))] {
		t.Functions[fn] = envelope.FunctionInfo{}
	}
	return t
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 47)
	names := envelope.FunctionNames([]envelope.ToolInfo{
		tool("web.fetch", ""), tool("local::fs.write", ""), tool("mcp::git::getuser", "git_getUser"),
		tool("two", "", "a", "b"),
		tool("a.b", ""), tool("a_b", ""), tool("c.d", ""), tool("z", "c_d"), tool(long+".yz", ""), tool("search", ""),
		tool("bad", "no name"),
	}, "search")
	for id, want := range map[string]string{
		"web.fetch": "web_fetch", "local::fs.write": "local__fs_write", "mcp::git::getuser": "git_getUser", "z": "c_d",
		"a_b": "a_b", "bad": "bad",
	} {
		if got := names[envelope.FunctionID{Tool: id, Fn: "run"}]; got != want {
			t.Errorf("%s is named %q, want %q", id, got, want)
		}
	}
	if names[envelope.FunctionID{Tool: "two", Fn: "b"}] != "two_b" {
		t.Errorf("%v", names)
	}
	// Names of others, names that are taken, and long ones get a digest.
	for id, begins := range map[string]string{
		"a.b": "a_b_", "c.d": "c_d_", long + ".yz": long[:39] + "_", "search": "search_",
	} {
		got := names[envelope.FunctionID{Tool: id, Fn: "run"}]
		if !strings.HasPrefix(got, begins) || len(got) != len(begins)+8 {
			t.Errorf("%s is named %q", id, got)
		}
	}
	all := slices.Sorted(maps.Values(names))
	if len(slices.Compact(all)) != len(names) {
		t.Errorf("%q: one name twice", all)
	}
	for _, name := range all {
		if !envelope.IsFunctionName(name) {
			t.Errorf("%q is not a valid name", name)
		}
	}
}

// A tool that comes later never takes a name that a manifest gives, nor one that is another tool's id.
func TestNamesStay(t *testing.T) {
	before := []envelope.ToolInfo{tool("mcp::a::b", "a_b"), tool("x_y", ""), tool("p_q", "")}
	names := envelope.FunctionNames(append(
		before, tool("a.b", ""), tool("a", "", "b", "c"), tool("x.y", ""), tool("p", "", "q", "r"),
	))
	for id, name := range envelope.FunctionNames(before) {
		if names[id] != name {
			t.Errorf("%v was %s and is %s", id, name, names[id])
		}
	}
}
