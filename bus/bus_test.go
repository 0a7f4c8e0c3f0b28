package bus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

type fixture struct {
	t   *testing.T
	srv *natstest.Server
	nc  *nats.Conn
	js  jetstream.JetStream
	log *kv.Log
}

func setup(t *testing.T) *fixture {
	t.Helper()
	srv := natstest.Start(t)
	nc := srv.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, srv: srv, nc: nc, js: js, log: log}
}

// admit writes the admission of call n.
func (f *fixture) admit(n int, prio envelope.Priority) call.State {
	f.t.Helper()
	now := time.Now()
	id := fmt.Sprintf("id%05d", n)
	v := call.Admit(call.State{}, call.Ask{
		Owner: call.Owner{CallID: id, Actor: "agent"}, Fingerprint: "fp", Priority: prio, Nonce: "q" + id,
		Facts:    call.Facts{Tenant: "t", Tool: "echo", ID: id, Version: "1.0.0", Class: call.Pure, Pool: "default", Fingerprint: "fp"},
		Deadline: call.At(now.Add(time.Minute)), Now: call.At(now),
	})
	s, err := f.log.Write(f.t.Context(), v.Event, []byte(`{"request":{}}`))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) decide(s call.State) {
	f.t.Helper()
	r := call.Decide(s, 1, s.Last().Admitted, call.Ending{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o" + s.ID, Now: call.At(time.Now())})
	if _, err := f.log.Write(f.t.Context(), r.Event, []byte(`{"response":{}}`)); err != nil {
		f.t.Fatal(err)
	}
}

// start runs f until the test ends, and waits for it.
func start(t *testing.T, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// Ensuring twice changes nothing; a stream that would break a promise is refused by name.
func TestTopology(t *testing.T) {
	f := setup(t)
	if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{CallsBytes: 1 << 20}); err != nil {
		t.Errorf("another size: %v", err)
	}
	for _, name := range []string{subjects.Part(0).Stream(), subjects.AuditStream, subjects.ChunksStream, subjects.DeadStream, subjects.PayloadsStream, subjects.PoolsStream} {
		if _, err := f.js.Stream(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	stream, err := f.js.Stream(t.Context(), subjects.Part(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.AllowDirect, cfg.Discard = true, jetstream.DiscardOld
	if _, err := f.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	err = bus.Ensure(t.Context(), f.js, bus.TopologyOptions{})
	if err == nil || !strings.Contains(err.Error(), "allow_direct") || !strings.Contains(err.Error(), "discard") {
		t.Errorf("got %v", err)
	}
}

// A call log of a version that had no batches learns to take them.
func TestOlderLog(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	batches := func() *jetstream.StreamConfig {
		stream, err := js.Stream(t.Context(), subjects.Part(0).Stream())
		if err != nil {
			t.Fatal(err)
		}
		return &stream.CachedInfo().Config
	}
	older := *batches()
	older.AllowAtomicPublish = false
	if _, err := js.UpdateStream(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if !batches().AllowAtomicPublish {
		t.Error("the log takes no batches")
	}
}

// Heartbeats find room in a bucket that somebody else has filled, also in one of a version in which
// they did not.
func TestFullPools(t *testing.T) {
	f := setup(t)
	stream, err := f.js.Stream(t.Context(), subjects.PoolsStream)
	if err != nil {
		t.Fatal(err)
	}
	older := stream.CachedInfo().Config
	older.Discard, older.MaxAge, older.MaxBytes = jetstream.DiscardNew, 0, 8<<10
	if _, err := f.js.UpdateStream(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	fill := func() {
		for n := range 100 {
			_ = f.nc.Publish(subjects.PoolSubject("default", fmt.Sprint("other", n)), make([]byte, 500))
		}
		if err := f.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	fill()
	pools, err := kv.OpenPools(t.Context(), f.js, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Error(err)
	}
}

// The bucket is readable with the stock KV API.
func TestStockKV(t *testing.T) {
	f := setup(t)
	s := f.admit(1, envelope.PriorityNormal)
	bucket, err := f.js.KeyValue(t.Context(), subjects.Part(0).Bucket())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bucket.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	entry, err := bucket.Get(t.Context(), keys[0])
	if err != nil || entry.Revision() != s.Seq || !strings.Contains(string(entry.Value()), "request") {
		t.Errorf("%+v, %v", entry, err)
	}
}

func TestNoJetStream(t *testing.T) {
	if _, err := bus.Dial("nats://127.0.0.1:1", "x"); err == nil {
		t.Error("connected to nothing")
	}
}

// What is secret in a URL is not shown.
func TestRedacted(t *testing.T) {
	for servers, want := range map[string]string{
		"nats://127.0.0.1:4222":                        "nats://127.0.0.1:4222",
		"nats://user:secret@a:4222,nats://b:4222":      "nats://user:xxxxx@a:4222,nats://b:4222",
		"nats://a:4222, nats://secret@b:4222":          "nats://a:4222,nats://xxxxx@b:4222",
		"user:secret@a:4222":                           "xxxxx@a:4222",
		"nats://user:sec%ret@a:4222":                   "xxxxx@a:4222",
		"garbage":                                      "garbage",
		"nats://user:secret@127.0.0.1:1,tls://u:p@b:1": "nats://user:xxxxx@127.0.0.1:1,tls://u:xxxxx@b:1",
	} {
		if got := bus.Redacted(servers); got != want {
			t.Errorf("%s is shown as %s, want %s", servers, got, want)
		}
	}
	for _, server := range []string{"nats://user:secret@127.0.0.1:1", "user:secret@127.0.0.1:1", "nats://user:secret%@127.0.0.1:1"} {
		if _, err := bus.Dial(server, "x"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// A server that does not take the largest message is refused at the start: calls would hang on it.
func TestSmallMessages(t *testing.T) {
	for most, enough := range map[int32]bool{64 << 10: false, 768<<10 - 1: false, 768 << 10: true, 1 << 20: true} {
		srv := natstest.Start(t, func(o *server.Options) { o.MaxPayload = most })
		nc, err := bus.Dial(srv.URL, "x")
		if enough {
			if err != nil {
				t.Errorf("%d bytes: %v", most, err)
				continue
			}
			nc.Close()
		} else if err == nil || !strings.Contains(err.Error(), "max_payload") {
			t.Errorf("%d bytes: %v", most, err)
		}
	}
}

// A server that may not reserve what the streams can grow to is refused with what to set.
func TestRefuseSmallStore(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 })
	js, err := jetstream.New(srv.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	err = bus.Ensure(t.Context(), js, bus.TopologyOptions{})
	if err == nil || !strings.Contains(err.Error(), "4096 MiB") || !strings.Contains(err.Error(), "max_file_store") {
		t.Errorf("got %v", err)
	}
}

// Workers hold no message without a slot, and low priority does not starve.
func TestWorkers(t *testing.T) {
	f := setup(t)
	const slots, high, low = 8, 300, 20
	for n := range high {
		f.admit(n, envelope.PriorityHigh)
	}
	for n := range low {
		f.admit(high+n, envelope.PriorityLow)
	}
	var mu sync.Mutex
	held, most, highDone, lowDone, highWhenLowDone := 0, 0, 0, 0, 0
	all := make(chan struct{})
	w, err := bus.NewWorkers(t.Context(), f.js, "default", slots, 3*time.Minute, func(_ context.Context, w bus.Work) {
		mu.Lock()
		held++
		most = max(most, held)
		mu.Unlock()
		<-time.After(time.Millisecond)
		w.Ack()
		mu.Lock()
		defer mu.Unlock()
		held--
		if w.Entry.State.Last().Priority == envelope.PriorityLow {
			if lowDone++; lowDone == low {
				highWhenLowDone = highDone
			}
		} else {
			highDone++
		}
		if highDone+lowDone == high+low {
			close(all)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) { w.Run(ctx, ctx, f.nc) })
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%d high and %d low done", highDone, lowDone)
	}
	if most > slots {
		t.Errorf("%d messages held with %d slots", most, slots)
	}
	if highWhenLowDone == high {
		t.Error("low waited for all of high")
	}
}

// Work goes on after the server was restarted.
func TestWorkersSurviveRestart(t *testing.T) {
	f := setup(t)
	got := make(chan string, 10)
	w, err := bus.NewWorkers(t.Context(), f.js, "default", 4, time.Second, func(_ context.Context, w bus.Work) {
		w.Ack()
		got <- w.Entry.State.ID
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) { w.Run(ctx, ctx, f.nc) })
	f.admit(1, envelope.PriorityNormal)
	<-got
	f.srv.Restart()
	f.admit(2, envelope.PriorityNormal)
	select {
	case <-got:
	case <-time.After(time.Minute):
		t.Fatal("no work after the restart")
	}
}

// Two projectors project the same log: every event once, in order, also over a restart of one.
func TestTwoProjectors(t *testing.T) {
	f := setup(t)
	stop := start(t, f.project)
	start(t, f.project)
	const calls = 400
	for n := range calls {
		f.decide(f.admit(n, envelope.PriorityNormal))
		if n == calls/2 {
			stop()
			start(t, f.project)
		}
	}
	var last uint64
	seen := map[string]audit.Event{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for r, err := range bus.ReplayAudit(ctx, f.js, bus.AuditFilter{Follow: true}) {
		if err != nil {
			t.Fatalf("%v after %d records", err, len(seen))
		}
		if r.LogSeq <= last {
			t.Fatalf("record %d after %d", r.LogSeq, last)
		}
		last = r.LogSeq
		if before := seen[r.CallID]; (before == "") != (r.Event == audit.ToolRequested) {
			t.Fatalf("%s: %s after %q", r.CallID, r.Event, before)
		}
		if seen[r.CallID] = r.Event; last == 2*calls {
			break
		}
	}
	if len(seen) != calls {
		t.Errorf("%d calls on record", len(seen))
	}
}

func TestReplayFilters(t *testing.T) {
	f := setup(t)
	for i, r := range []audit.Record{
		{Event: audit.ToolDenied, Actor: "a", ToolName: "x", CallID: "1", Tenant: "t"},
		{Event: audit.ToolExecuted, Actor: "b", ToolName: "y", CallID: "2", Tenant: "u", Ref: "y.ref"},
	} {
		r.Timestamp = time.Now().Add(time.Duration(i-1) * time.Hour) // the first one came to the record late
		if err := bus.Gate(t.Context(), f.js, fmt.Sprint("id", i), r); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		filter bus.AuditFilter
		want   int
	}{
		"all":        {bus.AuditFilter{}, 2},
		"tenant":     {bus.AuditFilter{Tenant: "u"}, 1},
		"late":       {bus.AuditFilter{Since: time.Now().Add(-time.Minute)}, 1},
		"early":      {bus.AuditFilter{Until: time.Now().Add(-time.Minute)}, 1},
		"now on":     {bus.AuditFilter{FromNow: true}, 0},
		"ended":      {bus.AuditFilter{Follow: true, Until: time.Now().Add(-time.Minute)}, 1},
		"ends":       {bus.AuditFilter{Follow: true, Until: time.Now().Add(300 * time.Millisecond)}, 2},
		"ends empty": {bus.AuditFilter{Follow: true, FromNow: true, Until: time.Now().Add(300 * time.Millisecond)}, 0},
		"tool":       {bus.AuditFilter{Tool: "x"}, 1},
		"actor":      {bus.AuditFilter{Actor: "b"}, 1},
		"call":       {bus.AuditFilter{Call: "1"}, 1},
		"ref":        {bus.AuditFilter{Call: "y.ref"}, 1},
		"event":      {bus.AuditFilter{Event: audit.ToolDenied}, 1},
		"since":      {bus.AuditFilter{Since: time.Now().Add(time.Hour)}, 0},
		"until":      {bus.AuditFilter{Until: time.Now().Add(-2 * time.Hour)}, 0},
		"none":       {bus.AuditFilter{Tool: "x", Actor: "b"}, 0},
	} {
		n := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range bus.ReplayAudit(ctx, f.js, c.filter) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != c.want {
			t.Errorf("%s: %d records, want %d", name, n, c.want)
		}
	}
}

// Who follows the record until a time is told of all that had happened by then, also of what came to
// the record afterwards.
func TestFollowUntil(t *testing.T) {
	f := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f.decide(f.admit(1, envelope.PriorityNormal))
	until := time.Now()
	start(t, f.project)
	var n int
	for _, err := range bus.ReplayAudit(ctx, f.js, bus.AuditFilter{Follow: true, Until: until, Since: until.Add(-time.Hour)}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}

// precision is how exactly a test takes the clock to be measured: within half of the quickest round trip,
// which takes its time on a busy machine.
const precision = 500 * time.Millisecond

// A skewed local clock does not move bus time.
func TestClock(t *testing.T) {
	f := setup(t)
	for _, skew := range []time.Duration{0, 30 * time.Second, -30 * time.Second} {
		c, err := bus.NewClock(t.Context(), f.js, func() time.Time { return time.Now().Add(skew) })
		if err != nil {
			t.Fatal(err)
		}
		before, now, after := time.Now(), c.Now(), time.Now()
		if now.Before(before.Add(-precision)) || now.After(after.Add(precision)) {
			t.Errorf("skew %s: bus time is %s off", skew, now.Sub(before))
		}
	}
}

func TestDeadLetters(t *testing.T) {
	f := setup(t)
	if list, err := bus.DeadLetters(t.Context(), f.js); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	letter := bus.DeadLetter{Time: time.Now(), Cause: envelope.NewError(envelope.CodeLost, ""), Attempt: 1, State: f.admit(1, envelope.PriorityNormal), Body: []byte(`{"request":{}}`)}
	for range 2 { // burying twice is burying once
		if err := bus.Bury(t.Context(), f.js, letter); err != nil {
			t.Fatal(err)
		}
	}
	list, err := bus.DeadLetters(t.Context(), f.js)
	if err != nil || len(list) != 1 || list[0].Cause.Code != envelope.CodeLost || list[0].Ref != letter.State.Ref() {
		t.Fatalf("%+v, %v", list, err)
	}
	if d, err := bus.DeadLetterAt(t.Context(), f.js, list[0].Seq); err != nil || d.State.ID != letter.State.ID {
		t.Errorf("%+v, %v", d, err)
	}
	odd := letter
	odd.Attempt, odd.Body = 2, []byte("{\xff")
	odd.State.Attempts = slices.Clone(odd.State.Attempts)
	odd.State.Attempts[0].Owner.Reply = "inbox.\xff"
	if err := bus.Bury(t.Context(), f.js, odd); err != nil {
		t.Errorf("what is no text cannot be buried: %v", err)
	}
	large := letter
	earlier := call.Outcome{Attempt: 1, Response: []byte(`"` + strings.Repeat("x", 1<<20-200) + `"`)}
	body, err := call.RequestBody{Request: []byte(`{"n":1}`), InputRef: "ref", Earlier: []call.Outcome{earlier}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	large.Attempt, large.Body = 3, body
	if err := bus.Bury(t.Context(), f.js, large); err != nil {
		t.Errorf("what is large cannot be buried: %v", err)
	}
	if list, err = bus.DeadLetters(t.Context(), f.js); err != nil || len(list) != 3 {
		t.Fatalf("%d letters, %v", len(list), err)
	}
	if body, err := call.DecodeRequestBody(list[2].Body); err != nil || string(body.Request) != `{"n":1}` || body.InputRef != "ref" || len(body.Earlier) != 0 {
		t.Errorf("kept %.100s, %v", list[2].Body, err)
	}
	if _, err := bus.DeadLetterAt(t.Context(), f.js, 99); err == nil {
		t.Error("found a dead letter that is not there")
	}
}

// Doctor passes on that a dispatcher can read the log and not write it, and does not say of one that
// hangs that there is none.
func TestDiagnoseDispatchers(t *testing.T) {
	f := setup(t)
	find := func(name string) bus.Check {
		for _, c := range bus.Diagnose(t.Context(), f.srv.URL, bus.ClientOptions{}) {
			if c.Name == name {
				return c
			}
		}
		return bus.Check{}
	}
	f.freezeDispatchers()
	if c := find("dispatchers"); c.Status != bus.CheckFailed || !strings.Contains(c.Fix, "does not answer") {
		t.Errorf("a dispatcher that hangs: %+v", c)
	}
	f.serve(bus.Endpoint{Op: subjects.OpDescribe, Handle: func(context.Context, question.Sender, []byte) (any, *envelope.Error) {
		return question.Description{NowUnixMS: time.Now().UnixMilli(), SilentMS: 9000}, nil
	}})
	if c := find("call log"); c.Status != bus.CheckFailed || !strings.Contains(c.Says, "9s") || c.Fix == "" {
		t.Errorf("no write is taken: %+v", c)
	}
}

func TestDiagnose(t *testing.T) {
	f := setup(t)
	failed := map[string]bool{}
	for _, c := range bus.Diagnose(t.Context(), f.srv.URL, bus.ClientOptions{}) {
		failed[c.Name] = c.Status == bus.CheckFailed
		if c.Status == bus.CheckFailed && c.Fix == "" {
			t.Errorf("%s says no fix", c.Name)
		}
	}
	if failed["server"] || failed[subjects.Part(0).Stream()] || !failed["executors"] || !failed["dispatchers"] {
		t.Errorf("failed: %v", failed)
	}
	if checks := bus.Diagnose(t.Context(), "nats://127.0.0.1:1", bus.ClientOptions{}); len(checks) != 1 || checks[0].Status != bus.CheckFailed {
		t.Errorf("%+v", checks)
	}
}
