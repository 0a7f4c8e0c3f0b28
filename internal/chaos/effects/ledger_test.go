package effects

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

func TestToolsLoad(t *testing.T) {
	dir := t.TempDir()
	if err := WriteTools(dir, "/bin/true", "with space", `and "quotes"`); err != nil {
		t.Fatal(err)
	}
	r, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Specs() {
		m, missed := r.Get(s.ID, "")
		if missed != nil {
			t.Errorf("no tool %s: %s", s.ID, missed)
			continue
		}
		if string(m.Class) != string(s.Class) || m.Capability.Lookup != s.Lookup || m.Capability.Streaming != s.Streaming {
			t.Errorf("%s is %s, %+v", s.ID, m.Class, m.Capability)
		}
		if diff := cmp.Diff([]string{"/bin/true", "with space", `and "quotes"`},
			m.Endpoint.(process.Endpoint).Command); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRun(t *testing.T) {
	const head = `{"call_id":"c","tool_id":"chaos.pay","idempotency_key":"k1","attempt":1,"fence":7,"op":`
	for _, tc := range []struct {
		name, in string
		says     string // substring of the answer
		ops      []Op
	}{
		{"success", head + `"execute","input":{"n":3}}`, `"output":{"n":3,"run":"7/`, []Op{Start, Commit}},
		{"chunks", head + `"execute","input":{"n":3,"chunks":2}}`, `{"data":{"i":1,"run":"7/`, []Op{Start, Commit}},
		{"flaky", head + `"execute","input":{"n":3,"fail":"flaky","times":1}}`, `"code":"flaky"`, []Op{Start}},
		{"mended", head + `"execute","input":{"n":3,"fail":"flaky","times":0}}`, `"output":{`, []Op{Start, Commit}},
		{"late", head + `"execute","input":{"n":3,"fail":"late","times":1}}`, `"effect":"applied"`, []Op{Start, Commit}},
		{"garbage", head + `"execute","input":{"n":3,"fail":"garbage","times":1}}`, "not JSON", []Op{Start, Commit}},
		{"silent", head + `"execute","input":{"n":3,"fail":"silent","times":1}}`, "", []Op{Start}},
		{"moody", head + `"execute","input":{"n":3,"fail":"moody","times":9}}`, `"code":"flaky"`, []Op{Start}},
		{"absent", head + `"lookup","input":{"n":3}}`, `{"type":"absent"}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger")
			var out bytes.Buffer
			if err := Run(strings.NewReader(tc.in), &out, path); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tc.says) {
				t.Errorf("it said %s", out.String())
			}
			lines, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			var ops []Op
			for _, l := range lines {
				ops = append(ops, l.Op)
			}
			if diff := cmp.Diff(tc.ops, ops); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnlyTheFirstMoodyRunFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	in := `{"op":"execute","call_id":"c","tool_id":"chaos.put","idempotency_key":"k1","attempt":1,"fence":9,` +
		`"input":{"n":3,"fail":"moody","times":9}}`
	for _, want := range []string{`"code":"flaky"`, `"output":{`, `"output":{`} {
		var out bytes.Buffer
		if err := Run(strings.NewReader(in), &out, path); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("it said %s, want %s", out.String(), want)
		}
	}
}

func TestLookupFindsTheCommittedRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for _, l := range []Line{
		{Op: Commit, Tool: "chaos.pay", Key: "other", Fence: 1, PID: 1},
		{Op: Start, Tool: "chaos.pay", Key: "k1", Fence: 2, PID: 2},
		{Op: Commit, Tool: "chaos.mail", Key: "k1", Fence: 3, PID: 3},
		{Op: Commit, Tool: "chaos.pay", Key: "k1", Fence: 4, PID: 5},
	} {
		if err := Append(path, l); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	in := `{"op":"lookup","call_id":"c","tool_id":"chaos.pay","idempotency_key":"k1","attempt":1,"fence":9,` +
		`"input":{"n":3}}`
	if err := Run(strings.NewReader(in), &out, path); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"run":"4/5"`) {
		t.Errorf("it said %s", out.String())
	}
}

func TestAppendersDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := Append(path, Line{Op: Start, Tool: "chaos.read", Key: strings.Repeat("k", 100)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines, err := Read(path)
	if err != nil || len(lines) != 160 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}
