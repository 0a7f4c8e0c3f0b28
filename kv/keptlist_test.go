package kv_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// lister is a process that keeps the list of kept calls.
type lister struct {
	log  *kv.Log
	list *kv.KeptList
	says *strings.Builder
}

func (f *fixture) lister(t *testing.T) lister {
	t.Helper()
	return f.listerBy(t, nil)
}

// listerBy returns a lister with clocks of its own.
func (f *fixture) listerBy(t *testing.T, times func() (now, steady time.Time)) lister {
	t.Helper()
	l := lister{says: &strings.Builder{}}
	var err error
	if l.log, err = kv.OpenLog(t.Context(), f.js, kv.LogOptions{Times: times}); err != nil {
		t.Fatal(err)
	}
	l.list = l.log.OpenKeptList(t.Context(), slog.New(slog.NewTextHandler(l.says, nil)))
	return l
}

// follow passes the events of calls that have ended to the process, and writes its list.
func (l lister) follow(t *testing.T, ended ...call.State) {
	t.Helper()
	l.hear(t, ended...)
	if err := l.list.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// hear passes the events of calls that have ended to the process.
func (l lister) hear(t *testing.T, ended ...call.State) {
	t.Helper()
	for _, s := range ended {
		e, err := l.log.Get(t.Context(), s.Position)
		if err != nil {
			t.Fatal(err)
		}
		l.log.Followed(kv.FollowedEvent{Kind: e.Kind, Attempt: 1, State: s, Seq: s.Seq, Time: e.Time,
			Expires: e.Time.Add(time.Hour)})
	}
}

// A process that starts knows the calls that the log has lost while no process ran, however many steps of the list
// two others have written.
func TestKeptListIsRead(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	a, b := f.lister(t), f.lister(t)
	var all []call.State
	for n := range 3 * kv.KeptSteps / 2 {
		_, ended := f.decided(t, fmt.Sprint(n))
		all = append(all, ended)
		a.follow(t, ended)
		if n%3 == 0 {
			b.follow(t, all[max(0, n-2):]...)
		}
	}
	f.lose(t, all[0].Last().Admitted)
	f.lose(t, all[0].Seq)
	c := f.lister(t)
	for n, s := range all {
		c.wantKnown(t, fmt.Sprint(n), s.Seq)
	}
	_, err := c.log.Read(t.Context(), "web.fetch", "0")
	wantDamaged(t, err)
	if s := a.says.String() + b.says.String() + c.says.String(); s != "" {
		t.Error(s)
	}
}

// Processes die again and again before they have written the slot of a step, the same slot each time. The next one
// writes it, and the list stays complete.
func TestKeptSlotIsOwed(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	a, b := f.lister(t), f.lister(t)
	for n := range 3 * kv.KeptSteps / 2 {
		_, ended := f.decided(t, fmt.Sprint(n))
		if n%(kv.KeptSteps/2) != 5 {
			a.follow(t, ended)
			b.hear(t, ended)
			continue
		}
		a.hear(t, ended)
		if err := a.list.WriteNoSlot(t.Context()); err != nil {
			t.Fatal(err)
		}
		a = b
		b = f.lister(t)
	}
	c := f.lister(t)
	if s := a.says.String() + b.says.String() + c.says.String(); s != "" {
		t.Error(s)
	}
	c.wantKnown(t, "0", 2)
}

// What came after the last step is read from the log.
func TestKeptListIsBehind(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	a := f.lister(t)
	_, before := f.decided(t, "before")
	a.follow(t, before)
	_, after := f.decided(t, "after")
	b := f.lister(t)
	b.wantKnown(t, "before", before.Seq)
	b.wantKnown(t, "after", after.Seq)
	b.follow(t) // writes a step with what it read
	f.lose(t, after.Seq)
	f.lister(t).wantKnown(t, "after", after.Seq)
}

// A list that lacks a message, or is of a log that has lost its end, is made again from the log.
func TestKeptListIsMadeAgain(t *testing.T) {
	for name, harm := range map[string]func(*fixture){
		"lacks a slot": func(f *fixture) {
			f.loseKept(t, subjects.Partition(0).KeptSlot(5))
		},
		"lacks a step": func(f *fixture) {
			f.loseKept(t, subjects.Partition(0).KeptStep(2))
		},
		"rolled back": func(f *fixture) {
			if err := f.js.DeleteStream(t.Context(), subjects.Partition(0).Stream()); err != nil {
				t.Fatal(err)
			}
			if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{}); err != nil {
				t.Fatal(err)
			}
			f.decided(t, "other")
			f.decided(t, "another")
		},
	} {
		f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
		a := f.lister(t)
		for n := range 3 {
			_, ended := f.decided(t, fmt.Sprint(n))
			a.follow(t, ended)
		}
		harm(f)
		b := f.lister(t)
		if !strings.Contains(b.says.String(), "is made from the call log") {
			t.Errorf("%s: the log says %q", name, b.says)
		}
		b.follow(t)
		_, ended := f.decided(t, "new")
		b.follow(t, ended)
		c := f.lister(t)
		c.wantKnown(t, "new", ended.Seq)
		if c.says.String() != "" {
			t.Errorf("%s: then the log says %s", name, c.says)
		}
		want := uint64(0)
		if name != "rolled back" {
			want = 6
		}
		c.wantKnown(t, "2", want)
	}
}

// Of two processes that make the list at once, the second one says nothing: the list is written.
func TestKeptListIsMadeAtOnce(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	a, b := f.lister(t), f.lister(t)
	if !a.list.WriteStep(t.Context()) || b.list.WriteStep(t.Context()) {
		t.Error("both have written a first step, or none has")
	}
	if said := a.says.String() + b.says.String(); said != "" {
		t.Error(said)
	}
	b.follow(t) // it reads the newest step first
	if err := f.js.DeleteStream(t.Context(), subjects.KeptStream); err != nil {
		t.Fatal(err)
	}
	if b.list.WriteStep(t.Context()) || !strings.Contains(b.says.String(), "is not written") {
		t.Errorf("without the stream it says %q", b.says)
	}
}

// Without sync a server loses up to two minutes in a power cut. If the log lacks more, it was deleted or is an old
// backup.
func TestLogLacksSyncedEvents(t *testing.T) {
	for before, refused := range map[time.Duration]bool{time.Minute: false, 3 * time.Minute: true} {
		f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
		a := f.lister(t)
		a.follow(t) // makes the list
		for n, ago := range []time.Duration{before, 0} {
			_, ended := f.decided(t, fmt.Sprint(n))
			a.log.Followed(kv.FollowedEvent{Kind: call.Decided, Attempt: 1, State: ended, Seq: ended.Seq,
				Time: time.Now().Add(-ago), Expires: time.Now().Add(time.Hour)})
			a.follow(t)
		}
		if err := f.js.DeleteStream(t.Context(), subjects.Partition(0).Stream()); err != nil {
			t.Fatal(err)
		}
		if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{}); err != nil {
			t.Fatal(err)
		}
		log, err := kv.OpenLog(t.Context(), f.js, kv.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.OpenKept(t.Context(), slog.New(slog.DiscardHandler), false)
		if refused != (err != nil) || refused && (!strings.Contains(err.Error(), "nats stream purge KEPT") ||
			!strings.Contains(err.Error(), "--nkey DIR/dispatcher.nk")) {
			t.Errorf("the log lacks %s: %v", before, err)
		}
	}
}

// loseKept removes a message of the list.
func (f *fixture) loseKept(t *testing.T, subject string) {
	t.Helper()
	stream, err := f.js.Stream(t.Context(), subjects.KeptStream)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), subject)
	if err == nil {
		err = stream.DeleteMsg(t.Context(), msg.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l lister) wantKnown(t *testing.T, id string, seq uint64) {
	t.Helper()
	if got := l.log.KnownSeq("web.fetch", id); uint64(got) != seq {
		t.Errorf("call %s: the newest known event is %d, want %d", id, got, seq)
	}
}

// BenchmarkOpenKeptList measures what the list of a million calls adds to the start of a dispatcher.
func BenchmarkOpenKeptList(b *testing.B) {
	js := natstest.Start(b).JetStream(b)
	if err := bus.Ensure(b.Context(), js, bus.TopologyOptions{}); err != nil {
		b.Fatal(err)
	}
	open := func() (*kv.Log, *kv.KeptList) {
		log, err := kv.OpenLog(b.Context(), js, kv.LogOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return log, log.OpenKeptList(b.Context(), slog.New(slog.NewTextHandler(b.Output(), nil)))
	}
	const calls = 1_000_000
	log, list := open()
	for n := range uint64(calls) {
		log.Keep(n, n+1, time.Now().Add(time.Hour))
	}
	if err := list.Write(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if log, _ := open(); log.Kept() != calls {
			b.Fatalf("%d calls", log.Kept())
		}
	}
}
