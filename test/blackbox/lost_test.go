package blackbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// synced says that all that is in a folder of the server now is on the disk. When the power goes, all
// that came later is lost from it.
func (d *busDeployment) synced(folder string) (lose func()) {
	d.t.Helper()
	disk := d.t.TempDir()
	move := func(from, to string) {
		d.t.Helper()
		d.srv.Stop()
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
			d.t.Fatal(err)
		}
		d.srv.Restart()
	}
	move(folder, disk)
	return func() { move(disk, folder) }
}

// The power goes under a server that had not synced, and comes back: the end of the log is lost,
// and its positions are used again. Dispatchers and executors elsewhere have lived on. What they
// read is gone, and what comes now is guarded, executed and recorded all the same.
func TestLostTail(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{
		"echo": {class: call.Pure, run: echo(&runs)},
	})
	d.unsynced = true
	d.dispatcher()
	d.executor(6)
	c := d.client()
	call := func(key string) *envelope.Response {
		return mustCall(t, c, clientlib.Call{Tool: "echo", Key: "lost-tail-0123456789-" + key, Timeout: 60 * time.Second})
	}
	wantStatus(t, call("kept"), envelope.Success, "")
	d.records(1)
	lose := d.synced(d.srv.Dir())
	for _, key := range []string{"lost 1", "lost 2", "lost 3"} {
		wantStatus(t, call(key), envelope.Success, "")
	}
	d.records(4)
	lose()

	wantStatus(t, call("lost 1"), envelope.Success, "") // runs again: nothing is known of it
	last := call("new")
	wantStatus(t, last, envelope.Success, "")
	if runs.Load() != 6 {
		t.Errorf("%d runs, want 6", runs.Load())
	}
	records := d.records(3)
	if got := records[last.CallID]; !executed(got) {
		t.Errorf("on record is %v", got)
	}
}

// The server comes again with nothing of what it had, as one that keeps its streams where they do not last.
// Dispatchers make them anew, also where nothing had been in them, and calls go on.
func TestLostAll(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{0, 2} {
		var runs atomic.Int64
		d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
		d.unsynced = true
		d.dispatcher()
		d.dispatcher()
		d.executor(6)
		c := d.client()
		for n := range calls {
			wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Input: input(map[string]int{"n": n})}),
				envelope.Success, "")
		}
		empty := t.TempDir()
		d.srv.Restart(func(o *server.Options) { o.StoreDir = empty })
		wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Timeout: 60 * time.Second,
			Input: input(map[string]string{"n": "again"})}), envelope.Success, "")
		d.records(1)
	}
}

// Only the record has lost its end. The log still holds what is missing from it, and it is recorded
// again.
func TestLostRecord(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.unsynced = true
	d.dispatcher()
	d.executor(6)
	c := d.client()
	call := func(key string) string {
		r := mustCall(t, c, clientlib.Call{Tool: "echo", Key: "lost-record-0123456789-" + key, Timeout: 60 * time.Second})
		wantStatus(t, r, envelope.Success, "")
		return r.CallID
	}
	ids := []string{call("kept")}
	d.records(1)
	record := filepath.Join(d.srv.Dir(), "jetstream", "$G", "streams", "AUDIT")
	lose := d.synced(record)
	ids = append(ids, call("1"), call("2"))
	d.records(3)
	lose()
	d.records(3) // nothing more has to happen for that
	ids = append(ids, call("new"))
	records := d.records(4)
	for _, id := range ids {
		if got := records[id]; !executed(got) {
			t.Errorf("%s: on record is %v", id, got)
		}
	}
}

// A server that has lost its end and is gone again while a dispatcher starts over does not end the
// dispatcher.
func TestLostTailAndGoneAgain(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.unsynced = true
	over, goOn := make(chan struct{}), make(chan struct{})
	d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		c.Logger = slog.New(slog.NewTextHandler(onWrite(sync.OnceFunc(func() { close(over); <-goOn })),
			&slog.HandlerOptions{Level: slog.LevelError}))
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", Ready: ready,
		})
	})
	d.executor(6)
	c := d.client()
	call := func(key string) *envelope.Response {
		return mustCall(t, c, clientlib.Call{Tool: "echo", Key: "gone-again-0123456789-" + key, Timeout: 60 * time.Second})
	}
	wantStatus(t, call("kept"), envelope.Success, "")
	d.records(1)
	lose := d.synced(d.srv.Dir())
	wantStatus(t, call("lost"), envelope.Success, "")
	d.records(2)
	lose()
	<-over
	d.srv.Stop()
	close(goOn)
	<-time.After(6 * time.Second) // longer than a start waits for an answer
	d.srv.Restart()
	wantStatus(t, call("new"), envelope.Success, "")
}

// A dispatcher that is told to stop just when it finds that the server has lost its end stops in good
// order.
func TestLostTailAndStopped(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.unsynced = true
	stopped := make(chan struct{})
	p := d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		defer close(stopped)
		ctx, stop := context.WithCancel(ctx)
		c.Logger = slog.New(slog.NewTextHandler(onWrite(stop), &slog.HandlerOptions{Level: slog.LevelError}))
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", Ready: ready,
		})
	})
	d.executor(6)
	c := d.client()
	call := func(key string) {
		wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Key: "stopped-0123456789-" + key,
			Timeout: 60 * time.Second}), envelope.Success, "")
	}
	call("kept")
	d.records(1)
	lose := d.synced(d.srv.Dir())
	call("lost")
	d.records(2)
	lose()
	<-stopped
	p.stop() // says so if it was not
}

// A server that goes away when a dispatcher has just said that it serves, and has not begun to follow the log
// yet, does not end the dispatcher.
func TestGoneWhileADispatcherBegins(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	over, ended := make(chan struct{}), make(chan struct{})
	follow := make(chan struct{})
	d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		defer close(ended)
		c.JS = hesitant{c.JS, follow}
		c.Logger = slog.New(slog.NewTextHandler(onWrite(sync.OnceFunc(func() { close(over) })),
			&slog.HandlerOptions{Level: slog.LevelError}))
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", Ready: ready,
		})
	})
	d.executor(6)
	d.srv.Stop()
	close(follow)
	select {
	case <-over:
	case <-ended:
		t.Error("the dispatcher has ended")
	}
	d.srv.Restart()
	if t.Failed() {
		return
	}
	wantStatus(t, mustCall(t, d.client(), clientlib.Call{Tool: "echo", Timeout: 60 * time.Second}), envelope.Success, "")
	d.records(1)
}

// The server syncs each write, and the call log is deleted or an old backup of it restored, while a dispatcher runs, or
// none. That is no crash: no call is admitted and none runs again, and the dispatcher names the stream and the command
// with which it goes on.
func TestLostSyncedLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runs, backup bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		runs := c.runs
		var ran atomic.Int64
		d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&ran)}})
		d.topology.Partitions = 1
		told := make(chan struct{})
		dispatcher := d.refusing(told)
		d.executor(6)
		log := subjects.Partition(0)
		lose := func() {
			if err := d.srv.JetStream(t).DeleteStream(t.Context(), log.Stream()); err != nil {
				t.Fatal(err)
			}
		}
		records := 1
		if c.backup {
			wantStatus(t, pay(t, d.client(), 0), envelope.Success, "")
			lose, records = d.srv.Backup(log.Stream()), 2
		}
		c := d.client()
		wantStatus(t, pay(t, c, 1), envelope.Success, "")
		if d.records(records); !runs {
			dispatcher.stop()
		}
		lose()
		if !runs {
			d.refusing(told)
		}
		<-told
		r := mustCall(t, c, clientlib.Call{Tool: "pay", Key: "flip-0123456789-1",
			Input: input(map[string]int{"n": 1}), Timeout: 3 * time.Second})
		if r.Status == envelope.Success || int(ran.Load()) != records {
			t.Errorf("%s, %d runs", r.Status, ran.Load())
		}
		kept, err := d.srv.JetStream(t).Stream(t.Context(), subjects.KeptStream)
		if err == nil {
			err = kept.Purge(t.Context(), jetstream.WithPurgeSubject(log.KeptAll()))
		}
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, pay(t, c, 2), envelope.Success, "")
	}
}

// refusing starts a dispatcher, and does not wait until it serves. It closes told when the dispatcher says that it
// admits nothing.
func (d *busDeployment) refusing(told chan struct{}) *process {
	say := sync.OnceFunc(func() { close(told) })
	return d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		c.Logger = slog.New(slog.NewTextHandler(onLine(func(line string) {
			if strings.Contains(line, "purge KEPT") && strings.Contains(line, "KV_calls") {
				say()
			}
		}), nil))
		ready()
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{AllowAll: true, Tools: d.registry, Version: "0.0.1"})
	})
}

// onLine is a function for each line that is written.
type onLine func(line string)

func (w onLine) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

// hesitant is a JetStream whose streams are not followed before the test says so.
type hesitant struct {
	jetstream.JetStream
	follow <-chan struct{}
}

func (h hesitant) OrderedConsumer(ctx context.Context, stream string,
	c jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	<-h.follow
	return h.JetStream.OrderedConsumer(ctx, stream, c)
}

// onWrite calls a function for everything that is written.
type onWrite func()

func (w onWrite) Write(p []byte) (int, error) { w(); return len(p), nil }
