package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/filewrite"
)

func TestContract(t *testing.T) {
	t.Parallel()
	programtest.Suite{
		Tool: func(_ *testing.T, root string) program.Tool { return filewrite.Tool(root) },
		Invalid: map[string][]string{"write": {
			`{}`, `{"path":"x"}`, `{"content":"x"}`, `{"path":"","content":""}`, `{"path":1,"content":""}`,
			`{"path":"x","content":"","mode":"644"}`, `{"path":"x","content":"","mode":420}`,
			`{"path":"x","content":"","mode":"04755"}`,
			`{"path":"x","content":"","encoding":"hex"}`, `{"path":"x","content":"","append":true}`,
			`{"path":"` + strings.Repeat("x", 1025) + `","content":""}`,
		}},
		Elsewhere: map[string]string{
			"disk_full": "TestDiskFull", "not_writable": "TestClassify", "timeout": "TestStopped", "io_error": "TestRenameFails",
		},
	}.Run(t)
}

// TestProcess runs the built program as an executor does, twice, and asks it afterwards.
func TestProcess(t *testing.T) {
	t.Parallel()
	built, dir := programtest.Build(t), t.TempDir()
	call := programtest.NewCall(t, "write", filewrite.Input{Path: "a/b.txt", Content: "hello\n"})
	for run, created := range []bool{true, false} {
		call.Fence = uint64(run + 1)
		out := programtest.Decode[filewrite.Output](t, programtest.Exec(t, built, dir, nil, call))
		if *out.Created != created || out.Bytes != 6 {
			t.Errorf("run %d: %+v", run, out)
		}
	}
	if got := programtest.ReadFile(t, filepath.Join(dir, "data", "a", "b.txt")); got != "hello\n" {
		t.Errorf("the file holds %q", got)
	}
	call.Op = program.OpLookup
	if out := programtest.Decode[filewrite.Output](t, programtest.Exec(t, built, dir, nil, call)); out.Created != nil {
		t.Errorf("a lookup says %+v", out)
	}
	elsewhere := []string{"FS_WRITE_ROOT=" + t.TempDir()}
	if last := programtest.Exec(t, built, dir, elsewhere, call).Terminal(); last.Type != "absent" {
		t.Errorf("a lookup below another root says %+v", last)
	}
}

// TestDiskFull lets the kernel refuse a file that is too large.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	built, dir := programtest.Build(t), t.TempDir()
	in := filewrite.Input{Path: "a/big", Content: strings.Repeat("x", 1<<20)}
	data, err := json.Marshal(programtest.NewCall(t, "write", in))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -f 8 && exec "$0"`, built)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(data)
	out, err := cmd.Output()
	want := `{"type":"error","error":{"code":"disk_full","message":"the file is larger than allowed","effect":"none"}}` +
		"\n"
	if err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "data")); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
