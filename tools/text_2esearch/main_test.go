package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/textsearch"
)

func TestContract(t *testing.T) {
	t.Parallel()
	programtest.Suite{
		Tool: func(_ *testing.T, root string) program.Tool { return textsearch.Tool(root) },
		Invalid: map[string][]string{"search": {
			`{}`, `{"pattern":""}`, `{"pattern":1}`, `{"pattern":"a","paths":[]}`, `{"pattern":"a","paths":[""]}`,
			`{"pattern":"a","paths":"b"}`,
			`{"pattern":"a","case":"any"}`, `{"pattern":"a","max_matches":0}`, `{"pattern":"a","context":6}`,
			`{"pattern":"a","regex":"no"}`,
			`{"pattern":"a","glob":[1]}`, `{"pattern":"a","root":"/"}`, `{"pattern":"` + strings.Repeat("a", 1001) + `"}`,
		}},
		Elsewhere: map[string]string{"timeout": "TestTimeout", "io_error": "TestClassify"},
	}.Run(t)
}

// TestProcess runs the built program as an executor does.
func TestProcess(t *testing.T) {
	t.Parallel()
	built := programtest.Build(t)
	dir := t.TempDir()
	files := fstest.MapFS{"a/file": {Data: []byte("needle\n")}, "b/file": {Data: []byte("needle\n")}}
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	call := programtest.NewCall(t, "search", textsearch.Input{Pattern: "needle"})
	if out := programtest.Decode[textsearch.Output](t, programtest.Exec(t, built, dir, nil, call)); out.Matches != 2 {
		t.Errorf("%+v", out)
	}
	if out := programtest.Decode[textsearch.Output](t, programtest.Exec(t, built, dir, []string{"TEXT_SEARCH_ROOT=b"},
		call)); out.Matches != 1 {
		t.Errorf("%+v", out)
	}
}
