package lockstore_test

import (
	"bytes"
	"flag"
	"fmt"
	"testing"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/lockstore"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// flips is the number of bits that TestDamagedLocks flips, each in another byte of the entry.
var flips = flag.Int("flips", 10, "bits of the locks that are flipped")

// damage flips a bit of the stored locks while the server is stopped.
func (o *offices) damage(stream string, offset int) {
	o.Srv.Stop()
	o.Srv.Damage(stream, `"reason":"INC-7"`, offset)
	o.Srv.Restart()
}

// Whichever bit of the locks is flipped at rest, the lock holds, also for a dispatcher that starts then. It can be
// cleared and set again, also after another restart of the server.
func TestDamagedLocks(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	before, _ := o.served()
	for i := range *flips {
		q := request(fmt.Sprint("echo", i))
		o.lock(before, q)
		o.damage(subjects.ControlStream, i%16)
		after, stop := o.served()
		o.holds(q, before, after)
		if i == 0 { // later ones are held by the copy
			o.Srv.Restart()
			o.holds(q, before, after)
		}
		if _, refusal := after.Unlock(t.Context(), ada, q); refusal != nil {
			t.Fatal(refusal)
		}
		if a := o.lock(after, request("echo")); len(a.Locks) != 1 {
			t.Errorf("%+v", a.Locks)
		}
		o.Srv.Restart()
		o.holds(request("echo"), before, after)
		if _, refusal := before.Unlock(t.Context(), ada, request("echo")); refusal != nil {
			t.Fatal(refusal)
		}
		o.becomes(after, false, nil)
		stop()
		o.remake()
	}
}

// holds waits until all know the locks, and checks that a lock is among them.
func (o *offices) holds(q envelope.LockRequest, all ...*lockstore.Service) {
	o.T.Helper()
	for _, s := range all {
		if err := s.Store.Refresh(o.T.Context()); err != nil {
			o.T.Fatal(err)
		}
		if l, err := s.Store.Board.Find(o.T.Context(), q.Tool, ""); err != nil || l == nil || l.Tool != q.Tool {
			o.T.Fatalf("the lock of %s is lost: %+v, %v", q.Tool, l, err)
		}
	}
}

// remake deletes the bucket, as an operator repairs it.
func (o *offices) remake() {
	o.T.Helper()
	if err := o.JS.DeleteStream(o.T.Context(), subjects.ControlStream); err != nil {
		o.T.Fatal(err)
	}
	o.ensure()
}

// The locks hold after the bucket was deleted, and after an old backup of it was restored.
func TestLostLocks(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, _ := o.served()
	o.lock(s, request("echo"))
	restore := o.Srv.Backup(subjects.ControlStream)
	o.lock(s, request("echo1"))
	restore()
	fresh, _ := o.served()
	o.holds(request("echo1"), s, fresh)
	o.remake()
	another, _ := o.served()
	o.holds(request("echo"), s, fresh, another)
	o.holds(request("echo1"), s, fresh, another)
	if e := o.stored(); e == 0 {
		t.Error("the entry was not restored")
	}
}

// If neither the locks nor their copy can be read, everything is locked, until an operator clears that.
func TestUnknownLocks(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, _ := o.served()
	o.lock(s, request("echo"))
	o.Srv.Stop()
	o.Srv.Damage(subjects.CopiesStream, "locks", 2)
	o.damage(subjects.ControlStream, 3)
	fresh, _ := o.served()
	for _, s := range []*lockstore.Service{s, fresh} {
		if err := s.Store.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l, err := s.Store.Board.Find(t.Context(), "echo7", ""); err != nil || l == nil || !l.All {
			t.Errorf("%+v, %v", l, err)
		}
	}
	o.lock(s, request("echo"))
	all := envelope.LockRequest{LockTarget: envelope.LockTarget{All: true}, Reason: "INC-8"}
	if a, refusal := fresh.Unlock(t.Context(), ada, all); refusal != nil || len(a.Locks) != 1 {
		t.Errorf("%+v, %v", a, refusal)
	}
	o.Srv.Restart()
	o.holds(request("echo"), s, fresh)
}

// An entry without a copy, as builds before stored it, gets one.
func TestCopyIsRenewed(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, _ := o.served()
	o.lock(s, request("echo"))
	control, err := o.JS.Stream(t.Context(), subjects.ControlStream)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := control.GetLastMsgForSubject(t.Context(), subjects.Locks)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(stored.Data, []byte("echo"), []byte("echo2"))
	if _, err := o.JS.Publish(t.Context(), subjects.Locks, changed); err != nil {
		t.Fatal(err)
	}
	o.holds(request("echo2"), s)
	o.damage(subjects.ControlStream, 3)
	o.holds(request("echo2"), s)
}

func (o *offices) ensure() {
	o.T.Helper()
	if err := bus.Ensure(o.T.Context(), o.JS, bus.TopologyOptions{}); err != nil {
		o.T.Fatal(err)
	}
}

// stored returns the number of messages of the bucket.
func (o *offices) stored() uint64 {
	s, err := o.JS.Stream(o.T.Context(), subjects.ControlStream)
	if err != nil {
		o.T.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}
