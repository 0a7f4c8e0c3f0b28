package kv_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// lose removes a message from the log, as a server does that finds it damaged.
func (f *fixture) lose(t *testing.T, seq uint64) {
	t.Helper()
	stream, err := f.js.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
}

// decided writes the log of a call that has ended.
func (f *fixture) decided(t *testing.T, id string) (asked, ended call.State) {
	t.Helper()
	var err error
	if asked, err = f.log.Write(t.Context(), admission(t, call.State{}, id, "A", time.Minute), body); err != nil {
		t.Fatal(err)
	}
	if ended, err = f.log.Write(t.Context(), timeout(asked, "d-1.1"), body); err != nil {
		t.Fatal(err)
	}
	return asked, ended
}

func wantDamaged(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*call.DamagedError](err); !ok {
		t.Errorf("%v, want a damaged log", err)
	}
}

// A log that has lost its last event, or all, can be neither read nor written, and other logs go on.
func TestDamaged(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	asked, ended := f.decided(t, "end")
	gone, goneEnd := f.decided(t, "all")
	f.decided(t, "other")
	for _, seq := range []uint64{ended.Seq, gone.Seq, goneEnd.Seq} {
		f.lose(t, seq)
	}
	for _, id := range []string{"end", "all"} {
		_, err := f.log.Read(t.Context(), "web.fetch", id)
		wantDamaged(t, err)
		_, err = f.log.Head(t.Context(), "web.fetch", id)
		wantDamaged(t, err)
		before, _ := f.js.Stream(t.Context(), subjects.Partition(0).Stream())
		_, err = f.log.Write(t.Context(), admission(t, call.State{}, id, "B", time.Minute), body)
		wantDamaged(t, err)
		after, _ := f.js.Stream(t.Context(), subjects.Partition(0).Stream())
		if was, is := before.CachedInfo().State.LastSeq, after.CachedInfo().State.LastSeq; was != is {
			t.Errorf("the log of %s was written to at %d", id, is)
		}
	}
	_, err := f.log.Write(t.Context(), timeout(asked, "d-1.2"), body)
	wantDamaged(t, err)
	f.free(t, "all")
	f.decided(t, "new")
	if e, err := f.log.Read(t.Context(), "web.fetch", "other"); err != nil || e.State.Last().Open() {
		t.Errorf("%+v, %v", e, err)
	}
}

// A log that has lost an event in its middle, without which the last one is not valid, is damaged, too.
func TestHole(t *testing.T) {
	f := setupFollower(t)
	s := f.bound("id")
	claimed := f.claim(s)
	f.write(call.Decide(claimed, 1, s.Seq, call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "claimer.2",
		Claim: "claimer.1", Now: call.At(time.Now()), Effect: envelope.EffectApplied}).Event)
	stream, err := f.JS.Stream(t.Context(), subjects.Partition(0).Stream())
	if err == nil {
		err = stream.DeleteMsg(t.Context(), claimed.Seq)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Log.Read(t.Context(), s.Tool, s.ID)
	wantDamaged(t, err)
}

// free lets a damaged log begin again, as docs/operations.md says.
func (f *fixture) free(t *testing.T, id string) {
	t.Helper()
	bucket, err := f.js.KeyValue(t.Context(), subjects.Partition(0).Bucket())
	if err == nil {
		err = bucket.Delete(t.Context(), subjects.Key{Tool: "web.fetch", ID: id}.Ref()+".1.x")
	}
	if err != nil {
		t.Fatal(err)
	}
	last, err := f.log.Read(t.Context(), "web.fetch", id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Write(t.Context(), admission(t, last.State, id, "B", time.Minute), body); err != nil {
		t.Errorf("%s: %v", id, err)
	}
}

// A process that only follows the log knows what has been lost, too.
func TestDamagedAsFollowed(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	_, ended := f.decided(t, "id")
	other, err := kv.OpenLog(t.Context(), f.js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour)
	other.Followed(kv.FollowedEvent{Kind: call.Decided, Attempt: 1, State: ended, Seq: ended.Seq, Time: time.Now(),
		Expires: expires})
	other.Followed(kv.FollowedEvent{Kind: call.Requested, Attempt: 1, State: ended, Seq: ended.Seq - 1, Time: time.Now(),
		Expires: expires}) // an older one changes nothing
	f.lose(t, ended.Seq)
	_, err = other.Read(t.Context(), "web.fetch", "id")
	wantDamaged(t, err)
}

// What an operator writes after the last event, and what has expired, is no damage.
func TestNoDamage(t *testing.T) {
	now := time.Now()
	f := setup(t, kv.LogOptions{Times: func() (_, _ time.Time) { return now, now }}, bus.TopologyOptions{})
	_, ended := f.decided(t, "marked")
	bucket, err := f.js.KeyValue(t.Context(), subjects.Partition(0).Bucket())
	if err != nil {
		t.Fatal(err)
	}
	key := ended.Key().Outcome(1, "d-1")[len("$KV.calls."):]
	if err := bucket.Delete(t.Context(), key, jetstream.LastRevision(ended.Seq)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Read(t.Context(), "web.fetch", "marked"); err != nil {
		t.Errorf("a delete marker: %v", err)
	}
	asked, ended := f.decided(t, "expired")
	f.lose(t, asked.Seq)
	f.lose(t, ended.Seq)
	now = now.Add(call.DefaultExpiry.TTL(timeout(asked, "d-1.1")) - 9*time.Second)
	if e, err := f.log.Read(t.Context(), "web.fetch", "expired"); err != nil || !e.State.Empty() {
		t.Errorf("expired: %+v, %v", e, err)
	}
	if _, err := f.log.Write(t.Context(), admission(t, call.State{}, "expired", "B", time.Minute), body); err != nil {
		t.Errorf("expired: %v", err)
	}
}

// A server that has lost the end of the whole log has not damaged the logs in it: the follower finds that.
func TestLostEndIsNoDamage(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	f.decided(t, "id")
	if err := f.js.DeleteStream(t.Context(), subjects.Partition(0).Stream()); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Read(t.Context(), "web.fetch", "id"); !errors.Is(err, kv.ErrStreamRolledBack) {
		t.Errorf("%v, want a lost end", err)
	}
	f.log.Forget()
	f.decided(t, "id")
}

// times are the clocks of a dispatcher: bus time, and the time that has passed.
type times struct{ bus, steady time.Time }

func (c *times) get() (now, steady time.Time) { return c.bus, c.steady }

func (c *times) pass(d time.Duration) { c.bus, c.steady = c.bus.Add(d), c.steady.Add(d) }

// A log that the server drops early, because its clock was set forward, is damaged until it would have expired. Other
// dispatchers that run then, and start later, know that, too.
func TestExpiredByAStep(t *testing.T) {
	now := time.Now()
	clock := &times{now, now}
	f := setup(t, kv.LogOptions{Times: clock.get}, bus.TopologyOptions{})
	asked, ended := f.decided(t, "id")
	life := call.DefaultExpiry.TTL(timeout(asked, "d-1.1"))
	a := f.listerBy(t, clock.get)
	a.follow(t, ended)
	f.lose(t, asked.Seq)
	f.lose(t, ended.Seq)
	clock.bus = clock.bus.Add(life + time.Hour)
	if err := a.list.WriteSlots(t.Context()); err != nil {
		t.Fatal(err)
	}
	started := &times{clock.bus, clock.bus}
	b := f.listerBy(t, started.get)
	logs := map[string]*kv.Log{"wrote it": f.log, "followed it": a.log, "started later": b.log}
	for name, log := range logs {
		_, err := log.Read(t.Context(), "web.fetch", "id")
		t.Log(name)
		wantDamaged(t, err)
		_, err = log.Write(t.Context(), admission(t, call.State{}, "id", "B", time.Minute), body)
		wantDamaged(t, err)
	}
	clock.pass(life - 9*time.Second)
	started.pass(life - 9*time.Second)
	for name, log := range logs {
		if e, err := log.Read(t.Context(), "web.fetch", "id"); err != nil || !e.State.Empty() {
			t.Errorf("%s: when it has expired: %+v, %v", name, e, err)
		}
	}
}

// An event that the server stores after a step that is not noticed yet is not taken to be kept for longer than it is.
func TestFollowedBeforeAStepIsNoticed(t *testing.T) {
	now := time.Now()
	clock := &times{now, now}
	f := setup(t, kv.LogOptions{Times: clock.get}, bus.TopologyOptions{})
	const step, life = 2 * time.Hour, time.Hour
	s := call.State{Pinned: call.Pinned{Tool: "web.fetch", ID: "id"}}
	f.log.Followed(kv.FollowedEvent{Kind: call.Decided, Attempt: 1, State: s, Seq: 1, Time: now.Add(step),
		Expires: now.Add(step + life)})
	clock.bus = clock.bus.Add(step)
	for _, wait := range []time.Duration{life - 11*time.Second, 2 * time.Second} {
		clock.pass(wait)
		if known := f.log.KnownSeq(s.Tool, s.ID) > 0; known != (wait > time.Minute) {
			t.Errorf("known %t %s before it expires", known, now.Add(step+life).Sub(clock.bus))
		}
	}
}

// Ids that have expired are dropped, and an id takes some 24 bytes.
func TestKeptIDs(t *testing.T) {
	now := time.Now()
	k := kv.NewKept(func() (_, _ time.Time) { return now, now })
	const n = 100_000
	for i := range uint64(n) {
		k.Put(i, i+1, now.Add(time.Minute))
	}
	if k.Len() != n {
		t.Errorf("%d ids, want %d", k.Len(), n)
	}
	now = now.Add(time.Hour)
	for i := range uint64(n) {
		k.Put(n+i, n+i+1, now.Add(time.Minute))
	}
	if k.Len() > n*3/2 {
		t.Errorf("%d ids, of which %d have not expired", k.Len(), n)
	}
}

// damageOf returns the damage of a log.
func (f *fixture) damageOf(t *testing.T, id string) *call.DamagedError {
	t.Helper()
	_, err := f.log.Read(t.Context(), "web.fetch", id)
	d, ok := errors.AsType[*call.DamagedError](err)
	if !ok {
		t.Fatalf("%v, want a damaged log", err)
	}
	return d
}

// An accepted log counts as empty for every reader, also where a claim is left in it. A refused one stays damaged. A
// decision about a log that has changed since is not stored.
func TestRepair(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	for _, id := range []string{"accept", "refuse"} {
		_, ended := f.decided(t, id)
		f.lose(t, ended.Seq)
		d := f.damageOf(t, id)
		if d.End != ended.Seq-1 || d.Newest != uint32(ended.Seq) || time.Until(d.Expires) < time.Minute || d.Refused {
			t.Errorf("%s: %+v", id, d)
		}
		if err := f.log.Repair(t.Context(), "web.fetch", id, d, id == "refuse"); err != nil {
			t.Fatal(err)
		}
		if err := f.log.Repair(t.Context(), "web.fetch", id, d, id == "accept"); err == nil {
			t.Errorf("%s: a second decision is stored", id)
		}
	}
	later, err := kv.OpenLog(t.Context(), f.js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range []*kv.Log{f.log, later} {
		_, err := log.Read(t.Context(), "web.fetch", "refuse")
		if d, ok := errors.AsType[*call.DamagedError](err); !ok || !d.Refused {
			t.Errorf("refused: %v", err)
		}
	}
	last, err := later.Read(t.Context(), "web.fetch", "accept")
	if err != nil || !last.State.Empty() {
		t.Fatalf("accepted: %+v, %v", last, err)
	}
	again, err := later.Write(t.Context(), admission(t, last.State, "accept", "B", time.Minute), body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Write(t.Context(), timeout(again, "d-1.3"), body); err != nil {
		t.Fatal(err)
	}
	for _, log := range []*kv.Log{f.log, later} {
		if e, err := log.Read(t.Context(), "web.fetch", "accept"); err != nil || len(e.State.Attempts) != 1 ||
			e.State.Last().Open() {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// A process that opens the log after the damage refuses the call once Expect has told it of the lost event. An executor
// cannot end a key.
func TestExpectedEvent(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	asked, ended := f.decided(t, "id")
	f.lose(t, ended.Seq)
	later, err := kv.OpenLog(t.Context(), f.js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := later.Read(t.Context(), "web.fetch", "id"); err != nil {
		t.Fatal(err)
	}
	later.Expect("web.fetch", "id", uint32(ended.Seq), time.Now().Add(time.Hour))
	_, err = later.Read(t.Context(), "web.fetch", "id")
	wantDamaged(t, err)
	msg := nats.NewMsg(asked.Key().Claim(1, "e-1"))
	msg.Header.Set(subjects.HeaderRepair, "refuse")
	if _, err := f.js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	if _, err := later.Read(t.Context(), "web.fetch", "id"); err != nil {
		d, ok := errors.AsType[*call.DamagedError](err)
		if !ok || d.Refused {
			t.Errorf("%v", err)
		}
	}
}
