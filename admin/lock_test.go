package admin_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// locksmith is a bus with a tool that runs one call at a time, each until the test lets it go.
type locksmith struct {
	*testing.T
	bus    *toolbustest.Bus
	admin  *admin.Client
	runs   atomic.Int64
	letGo  chan struct{}
	ended  chan error // of calls
	starts chan struct{}
}

func newLocksmith(t *testing.T) *locksmith {
	l := &locksmith{T: t, letGo: make(chan struct{}), ended: make(chan error, 8), starts: make(chan struct{}, 8)}
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "hold", Class: toolbus.Idempotent, Timeout: time.Minute, Concurrency: 1},
		func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
			l.runs.Add(1)
			l.starts <- struct{}{}
			select {
			case <-l.letGo:
			case <-ctx.Done():
			}
			return "done", ctx.Err()
		})
	if err != nil {
		t.Fatal(err)
	}
	l.bus = toolbustest.Start(t, tools)
	if l.admin, err = admin.Connect(t.Context(), l.bus.URL, admin.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.admin.Close() })
	return l
}

// call makes a call, and sends its end. accepted receives its reference.
func (l *locksmith) call(accepted chan<- string) {
	_, err := l.bus.Call(l.Context(), toolbus.Call{
		Tool: "hold", Input: []byte(`{}`), Timeout: 50 * time.Second,
		OnAccepted: func(a toolbus.Accepted) { accepted <- a.Ref },
	})
	l.ended <- err
}

func (l *locksmith) lock(reason string) {
	l.Helper()
	q := envelope.LockRequest{LockTarget: envelope.LockTarget{Tool: "hold"}, Reason: reason}
	if a, err := l.admin.Lock(l.Context(), q); err != nil || !a.Changed {
		l.Fatalf("%+v, %v", a, err)
	}
}

// deniedByLock awaits the record of the end of a call. It must say that a lock denied the call.
func (l *locksmith) deniedByLock(ref string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 20*time.Second)
	defer cancel()
	for r, err := range l.admin.AuditRecords(ctx, admin.AuditFilter{Call: ref, Code: envelope.CodeLocked, Follow: true}) {
		if err != nil || r.Event != "tool_denied" || !strings.Contains(string(r.JSON), `"step":8,"rule":"lock"`) {
			l.Errorf("%s, %v", r.JSON, err)
		}
		return
	}
	l.Error("no record of the end of the call")
}

// A call that waits in the queue never starts after a lock. It ends with effect none, `why` says why, and the same key
// runs after the lock is cleared. A running call goes on.
func TestLockedInTheQueue(t *testing.T) {
	l := newLocksmith(t)
	accepted := make(chan string, 2)
	go l.call(accepted)
	<-l.starts
	<-accepted
	<-time.After(300 * time.Millisecond) // so that no executor can have had the next call before
	go l.call(accepted)
	ref := <-accepted
	l.lock("see INC-7")
	err := <-l.ended
	e, ok := errors.AsType[*toolbus.Error](err)
	if !ok || e.Code() != envelope.CodeLocked || e.Effect() != envelope.EffectNone ||
		!strings.Contains(e.Error(), "see INC-7") {
		t.Errorf("%+v", err)
	}
	if says, err := l.bus.Why(t.Context(), toolbus.CallRef{Ref: ref}); err != nil ||
		!strings.Contains(says, "P-PRECOND-LOCKED") || !strings.Contains(says, "see INC-7") {
		t.Errorf("%s, %v", says, err)
	}
	l.deniedByLock(ref)
	close(l.letGo)
	if err := <-l.ended; err != nil || l.runs.Load() != 1 {
		t.Errorf("%d runs, %v", l.runs.Load(), err)
	}
	q := envelope.LockRequest{LockTarget: envelope.LockTarget{Tool: "hold"}, Reason: "all is well"}
	if a, err := l.admin.Unlock(t.Context(), q); err != nil || !a.Changed || len(a.Locks) > 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if all, err := l.admin.Locks(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
