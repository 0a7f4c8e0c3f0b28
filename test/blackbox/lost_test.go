package blackbox

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/tool"
)

// The power goes under a server that had not synced, and comes back: the end of the log is lost,
// and its positions are used again. Dispatchers and executors elsewhere have lived on. What they
// read is gone, and what comes now is guarded, executed and recorded all the same.
func TestLostTail(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{
		"echo": {class: tool.Pure, run: echo(&runs)},
	})
	d.dispatcher()
	d.executor(4)
	c := d.client()
	call := func(key string) *envelope.Response {
		return mustCall(t, c, bus.Call{Tool: "echo", Key: "lost-tail-0123456789-" + key, Timeout: 20 * time.Second})
	}
	wantStatus(t, call("kept"), envelope.Success, "")
	d.records(1)
	d.srv.Stop()
	synced := t.TempDir()
	if err := os.CopyFS(synced, os.DirFS(d.srv.Dir())); err != nil {
		t.Fatal(err)
	}
	d.srv.Restart()
	for _, key := range []string{"lost 1", "lost 2", "lost 3"} {
		wantStatus(t, call(key), envelope.Success, "")
	}
	d.records(4)
	d.srv.Stop()
	if err := os.RemoveAll(d.srv.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(d.srv.Dir(), os.DirFS(synced)); err != nil {
		t.Fatal(err)
	}
	d.srv.Restart()

	wantStatus(t, call("lost 1"), envelope.Success, "") // runs again: nothing is known of it
	last := call("new")
	wantStatus(t, last, envelope.Success, "")
	if runs.Load() != 6 {
		t.Errorf("%d runs, want 6", runs.Load())
	}
	records := d.records(3)
	if got := records[last.CallID]; len(got) != 2 || got[0] != audit.ToolRequested || got[1] != audit.ToolExecuted {
		t.Errorf("on record is %v", got)
	}
}
