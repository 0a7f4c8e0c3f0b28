package blackbox

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// fullSize is the largest size of a file while the disk is full. Other files than those of the call log are smaller.
const fullSize = 2 << 20

// fillDisk makes writes beyond fullSize fail until the test ends.
func fillDisk(t *testing.T) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // the write returns an error then
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: soft, Max: before.Max}); err != nil {
			t.Error(err)
		}
	}
	set(fullSize)
	t.Cleanup(func() { set(before.Cur); signal.Reset(syscall.SIGXFSZ) })
}

var full = flag.Bool("full", false, "run TestFullDisk in this process, where the disk is full for large files then")

// If the server cannot store a call, its caller learns before the deadline that the disk may be full. The test runs in
// a process of its own: the limit holds for all files of a process, and the log of a test run is larger.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !*full {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.timeout=2m", "-full")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: func(context.Context, tool.Invocation,
		tool.Sink) (tool.Result, error) {
		runs.Add(1)
		return tool.Result{Output: []byte("{}")}, nil
	}}})
	d.topology.Partitions = 1
	d.dispatcher()
	d.executor(6)
	c := d.client()
	fillDisk(t)
	large := func(n int) *envelope.Response {
		return mustCall(t, c, clientlib.Call{Tool: "pay", Key: fmt.Sprintf("full-0123456789-%d", n), Timeout: time.Minute,
			Input: input(map[string]string{"x": strings.Repeat("x", 200<<10)})})
	}
	n, r, began := 0, large(0), time.Now()
	for ; r.Status == envelope.Success && n < 20; r = large(n) {
		n, began = n+1, time.Now()
	}
	if took := time.Since(began); r.Error == nil || r.Error.Code != envelope.CodeStoreFull || r.Provenance.Final ||
		r.Error.Details.Effect != envelope.EffectUnknown || took > 30*time.Second {
		t.Errorf("call %d, after %s: %s %+v", n, took, r.Status, r.Error)
	}
	if runs.Load() != int64(n) {
		t.Errorf("%d runs, want %d", runs.Load(), n)
	}
}
