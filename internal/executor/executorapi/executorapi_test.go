package executorapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fixture is a bus with dispatchers' desks and executors that ask.
type fixture struct {
	*bustest.Bus
	locks *lock.Board  // of dispatchers that start now
	step  atomic.Int64 // of the server's clock, as dispatchers see it
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{Bus: bustest.Start(t)}
}

// serve is a desk of a dispatcher of its own, until stop is called.
func (f *fixture) serve(name string) (stop func()) {
	f.T.Helper()
	nc := f.Srv.Connect(f.T)
	js, err := jetstream.New(nc)
	if err != nil {
		f.T.Fatal(err)
	}
	own, err := bus.NewClock(f.T.Context(), js, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	clock, err := bus.NewClockOf(f.T.Context(), func(ctx context.Context) (time.Time, error) {
		now, err := own.Server(ctx)
		return now.Add(time.Duration(f.step.Load())), err
	}, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	pools, err := heartbeat.OpenStore(f.T.Context(), js, time.Second)
	if err != nil {
		f.T.Fatal(err)
	}
	silent := slog.New(slog.DiscardHandler)
	journal := writer.NewJournal(js, name, clock.Now, nonces(name), silent)
	coverage := writer.NewWatermark(js, 1, silent)
	endClock := bustest.Run(f.T, func(ctx context.Context) { clock.Run(ctx, time.Hour) })
	endWatch := bustest.Run(f.T, clock.Watch)
	end := bustest.Run(f.T, journal.Run)
	endCoverage := bustest.Run(f.T, coverage.Run)
	d := &executorapi.Server{
		NC: nc, JS: js, CallLog: f.Log, Clock: clock, Pools: pools, Journal: journal, Watermark: coverage,
		Locks: f.locks,
		Made:  []string{"default"}, Lease: time.Second, Fsync: true, Log: silent,
		Chunks:   streaming.NewStore(js, subjects.ChunksStream),
		Payloads: streaming.NewPayloads(streaming.NewStore(js, subjects.PayloadsStream), envelope.MaxPayload),
	}
	if err := errors.Join(d.Serve(context.WithoutCancel(f.T.Context())), nc.Flush()); err != nil {
		f.T.Fatal(err)
	}
	return func() {
		d.Stop()
		endWatch()
		endClock()
		end()
		endCoverage()
		if err := errors.Join(nc.Flush(), f.NC.Flush()); err != nil { // what it has answered is there
			f.T.Error(err)
		}
	}
}

func nonces(name string) func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprint(name, ".", n.Add(1)) }
}

// client is an executor of a pool.
func (f *fixture) client(pool string) *executorapi.Client {
	f.T.Helper()
	inbox, err := (&rpc.Control{NC: f.Srv.Connect(f.T)}).Inbox(pool, "e")
	if err != nil {
		f.T.Fatal(err)
	}
	clock, err := bus.NewClock(f.T.Context(), f.JS, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	return &executorapi.Client{
		Inbox: inbox, Pool: pool, Instance: "e", NewNonce: nonces("e"), Clock: clock,
		Log: slog.New(slog.DiscardHandler),
	}
}

// An executor reads the log through a dispatcher as that reads it itself: the last event, one at a position, a log that
// ends with what is none of ours, and none at all; but of its own pool only.
func TestLogOfAPool(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	own := kv.NewRemoteLog(f.JS, 1, 1, f.client("default"), kv.LogOptions{})
	other := kv.NewRemoteLog(f.JS, 1, 1, f.client("other"), kv.LogOptions{})
	s := f.Admit(1, envelope.PriorityNormal)
	same := func(what string) {
		t.Helper()
		want, err := f.Log.Read(t.Context(), s.Tool, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		got, err := own.Read(t.Context(), s.Tool, s.ID)
		if err != nil || got.State.Seq != want.State.Seq || got.Kind != want.Kind || !got.Time.Equal(want.Time) ||
			!bytes.Equal(got.Body, want.Body) || got.State.Fingerprint != want.State.Fingerprint {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	same("admitted")
	f.Decide(s)
	same("decided")
	at, err := own.Get(t.Context(), s.Position)
	if err != nil || at.Kind != call.Requested || at.State.Seq != s.Seq {
		t.Errorf("the request: %+v, %v", at, err)
	}
	f.Raw(subjects.Key{Tool: s.Tool, ID: s.ID}.Join(9), "nonsense")
	same("something is behind it")
	if e, err := own.Read(t.Context(), s.Tool, "none"); err != nil || !e.State.Empty() || e.State.Seq != 0 {
		t.Errorf("no log: %+v, %v", e, err)
	}
	if e, err := other.Read(t.Context(), s.Tool, s.ID); err == nil || !e.State.Empty() {
		t.Errorf("the log of another pool: %+v, %v", e, err)
	}
	if e, err := other.Get(t.Context(), s.Position); err == nil || len(e.Body) > 0 {
		t.Errorf("an event of another pool: %+v, %v", e, err)
	}
}

// What fits into a message of the log fits into the answer about it.
func TestLogOfTheLargestEvent(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	own := kv.NewRemoteLog(f.JS, 1, 1, f.client("default"), kv.LogOptions{})
	s := f.Admit(1, envelope.PriorityNormal)
	r := call.Decide(s, 1, s.Last().Admitted, call.Completion{
		Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o." + s.ID, Now: call.At(time.Now()),
	})
	for size := f.NC.MaxPayload(); ; size-- { // the largest that is taken
		_, err := f.Log.Write(t.Context(), r.Event, bytes.Repeat([]byte("x"), int(size)))
		if errors.Is(err, call.ErrTooLarge) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := own.Read(t.Context(), s.Tool, s.ID)
		if err != nil || int64(len(got.Body)) != size || got.Kind != call.Decided {
			t.Errorf("of %d bytes %d come: %v", size, len(got.Body), err)
		}
		return
	}
}

// A late result that is asked for again, of the same dispatcher and of another, is one on record.
func TestLateResultOnce(t *testing.T) {
	f := setup(t)
	s := f.Admit(1, envelope.PriorityNormal)
	f.Decide(s)
	again := func() string { return "the same" }
	for _, name := range []string{"d1", "d2"} {
		stop := f.serve(name)
		for range 3 {
			c := f.client("default")
			c.NewNonce = again
			if err := c.LateResult(t.Context(), s, 1, call.Completion{Fence: 7, Output: "hash"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.client("other").LateResult(t.Context(), s, 1, call.Completion{}); err == nil {
			t.Error("another pool may record it")
		}
		stop()
	}
	var got []audit.Record
	for r, err := range reader.Replay(t.Context(), reader.Streams(f.JS), reader.Filter{Event: audit.LateResult}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(got) != 1 || got[0].Fence != 7 || got[0].Ref != s.Ref() {
		t.Errorf("on record: %+v", got)
	}
}

// A dead letter is one, however often it is asked for, also when the server has forgotten the first; and of the request
// that was made, whatever an executor says of it.
func TestDeadLetterOnce(t *testing.T) {
	f := setup(t)
	stream, err := f.JS.Stream(t.Context(), subjects.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Duplicates = 100 * time.Millisecond
	if _, err := f.JS.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s := f.Admit(1, envelope.PriorityNormal)
	m, err := f.Log.Get(t.Context(), s.Position)
	if err != nil {
		t.Fatal(err)
	}
	forged := m
	forged.Body = []byte(`{"request":{"fn":"another"}}`)
	for _, name := range []string{"d1", "d2"} {
		stop := f.serve(name)
		for _, c := range []*executorapi.Client{f.client("default"), f.client("default")} {
			if err := c.Dead(t.Context(), s, forged, 9, envelope.NewError(envelope.CodeLost, "")); err != nil {
				t.Fatal(err)
			}
			<-time.After(300 * time.Millisecond) // longer than the server remembers
		}
		if err := f.client("other").Dead(t.Context(), s, m, 9, envelope.NewError(envelope.CodeLost, "")); err == nil {
			t.Error("another pool may bury it")
		}
		stop()
	}
	letters, err := deadletter.DeadLetters(t.Context(), reader.Streams(f.JS))
	if err != nil || len(letters) != 1 || letters[0].Deliveries != 9 || string(letters[0].Body) != string(m.Body) {
		t.Errorf("kept: %+v, %v", letters, err)
	}
	gone := s
	gone.ID = "gone"
	stop := f.serve("d3")
	defer stop()
	if err := f.client("default").LateResult(t.Context(), gone, 1, call.Completion{}); !errors.Is(err,
		outcome.ErrAttemptGone) {
		t.Errorf("of a log that is gone: %v", err)
	}
}

// Nobody answers, then one that dies before it does, then one that does: whoever asks gets the answer, and says once
// what it waits for.
func TestWaitsForADispatcher(t *testing.T) {
	f := setup(t)
	var out bytes.Buffer
	c := f.client("default")
	c.Log = slog.New(slog.NewTextHandler(&out, nil))
	short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if _, err := c.Hello(short); !errors.Is(err, executorapi.ErrNoDispatcher) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := c.Last(t.Context(), subjects.Key{Tool: "echo", ID: "x"}); !errors.Is(err, executorapi.ErrNoDispatcher) {
		t.Errorf("nobody reads the log: %v", err)
	}
	asked := make(chan struct{}, 100)
	dying, err := f.NC.QueueSubscribe(subjects.ExecutorRequestWildcard(subjects.OpHello), "dispatchers",
		func(*nats.Msg) { asked <- struct{}{} })
	if err := errors.Join(err, f.NC.Flush()); err != nil {
		t.Fatal(err)
	}
	var h executorapi.HelloResponse
	answered := make(chan error)
	go func() { // ends with the answer
		var err error
		h, err = c.Hello(t.Context())
		answered <- err
	}()
	<-asked
	if err := errors.Join(dying.Unsubscribe(), f.NC.Flush()); err != nil {
		t.Fatal(err)
	}
	defer f.serve("d")()
	err = <-answered
	if err != nil || h.Partitions != 1 || h.Replicas != 1 || h.Lease() != time.Second || !h.Fsync {
		t.Errorf("%+v, %v", h, err)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("said %q", &out)
	}
}

// The clock of an executor is no further off than half of a round trip to a dispatcher, whatever its own says.
func TestClockOfADispatcher(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	c := f.client("default")
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		before := time.Now()
		clock, err := bus.NewClockOf(t.Context(), c.Time, func() time.Time { return time.Now().Add(skew) })
		if err != nil {
			t.Fatal(err)
		}
		off := time.Since(clock.Now()).Abs()
		if most := time.Since(before); off > most {
			t.Errorf("with a skew of %s it is off by %s, more than the %s of the measurement", skew, off, most)
		}
	}
}

// R9: an executor learns from the answers about locks that the server's clock was set, and follows it.
func TestStepOfTheServersClock(t *testing.T) {
	f := setup(t)
	f.locks = lock.NewBoard()
	f.locks.Learn(nil, time.Now().Add(time.Hour))
	defer f.serve("d")()
	c := f.client("default")
	var err error
	if c.Clock, err = bus.NewClockOf(t.Context(), c.Time, nil); err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(ctx context.Context) { c.Clock.Run(ctx, time.Hour) })
	bustest.Run(t, func(ctx context.Context) { c.KeepLocks(ctx, lock.NewBoard()) })
	for _, step := range []time.Duration{15 * time.Minute, -time.Hour} {
		f.step.Store(int64(step))
		off := func() time.Duration { return c.Clock.Now().Sub(time.Now().Add(step)).Abs() }
		for set := time.Now(); off() > time.Second; timer.Sleep(t.Context(), 10*time.Millisecond) {
			if time.Since(set) > 10*time.Second {
				t.Fatalf("set by %s: bus time is %s off", step, off())
			}
		}
	}
}

// A dispatcher makes the consumers of the pools of its tools, also anew, and of no others.
func TestConsumersOfAPool(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	for range 2 {
		all, err := f.client("default").Look(t.Context())
		if err != nil || len(all) != len(subjects.Queues()) || all[0].Created.IsZero() {
			t.Fatalf("%+v, %v", all, err)
		}
		if err := f.JS.DeleteConsumer(t.Context(), all[0].Stream, all[0].Name); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := f.client("elsewhere").Look(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("of a pool without tools: %+v, %v", all, err)
	}
}

// ask publishes a question as an executor does, under a word, "" for none, and with a reply subject of its choice.
func (f *fixture) ask(word, reply, body string) {
	f.T.Helper()
	msg := &nats.Msg{Subject: subjects.ExecutorRequest(subjects.OpHello, "default", "e"), Reply: reply, Data: []byte(body)}
	if word != "" {
		msg.Header = nats.Header{subjects.HeaderAnswer: {word}}
	}
	if err := errors.Join(f.NC.PublishMsg(msg), f.NC.Flush()); err != nil {
		f.T.Fatal(err)
	}
}

// An answer goes below the subject of the executor's own answers, and nowhere else: not to its reply subject, which may
// be any subject of the account.
func TestAnswersGoToWhoeverAsked(t *testing.T) {
	f := setup(t)
	stop := f.serve("d")
	heard, err := f.NC.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	replies := []string{"$JS.API.STREAM.DELETE.CHUNKS", "tb.call.t.a.echo", "tb.ctl.kill.id", "elsewhere", ""}
	for _, reply := range replies {
		for _, word := range []string{"", "a.b", "*", "word"} {
			f.ask(word, reply, `{"form":2}`)
		}
	}
	if _, err := f.client("default").Hello(t.Context()); err != nil { // it has all questions before this one
		t.Fatal(err)
	}
	stop()
	want := map[string]int{"tb.exe.ans.default.e.word": len(replies)}
	got := map[string]int{}
	for n, _, _ := heard.Pending(); n > 0; n-- {
		msg, err := heard.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(msg.Data), `"partitions"`) && !strings.HasPrefix(msg.Subject, "_INBOX.") &&
			(msg.Subject == "tb.exe.ans.default.e.word" || !strings.HasPrefix(msg.Subject, "tb.exe.ans.default.e.")) {
			got[msg.Subject]++
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("answers came at %v, want %v", got, want)
	}
	if _, err := f.JS.Stream(t.Context(), subjects.ChunksStream); err != nil {
		t.Errorf("an answer deleted a stream: %v", err)
	}
}

// An executor does not wait forever for answers that cannot arrive: the server's configuration does not let them
// through, and a dispatcher gets the questions.
func TestAnswersThatDoNotArrive(t *testing.T) {
	f := setup(t)
	silent := func(*nats.Msg) {}
	hello := subjects.ExecutorRequestWildcard(subjects.OpHello)
	if _, err := f.NC.QueueSubscribe(hello, "dispatchers", silent); err != nil {
		t.Fatal(err)
	}
	c := f.client("default")
	c.WaitFor(10 * time.Millisecond)
	if _, err := c.Hello(t.Context()); !errors.Is(err, executorapi.ErrNoAnswers) {
		t.Errorf("got %v, want %v", err, executorapi.ErrNoAnswers)
	}
}

// A question of a newer form is refused by name, and not guessed at.
func TestQuestionsOfANewerForm(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	answers, err := f.NC.SubscribeSync("tb.exe.ans.default.e.word")
	if err != nil {
		t.Fatal(err)
	}
	f.ask("word", "", `{"form":9}`)
	msg, err := answers.NextMsg(10 * time.Second)
	if err != nil || !strings.Contains(string(msg.Data), "form 9") {
		t.Errorf("%+v, %v", msg, err)
	}
}

// Executors take turns: one that asks a thousand questions at once does not keep another waiting for their answers, and
// one of another pool neither.
func TestExecutorsTakeTurns(t *testing.T) {
	const flood = 3000
	f := setup(t)
	defer f.serve("d")()
	answers, err := f.NC.SubscribeSync("tb.exe.ans.>")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(pool, instance string) {
		msg := &nats.Msg{
			Subject: subjects.ExecutorRequest(subjects.OpHello, pool, instance),
			Header:  nats.Header{subjects.HeaderAnswer: {"w"}},
			Data:    []byte(`{"form":2}`),
		}
		if err := f.NC.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	for range flood {
		ask("default", "flooder")
	}
	ask("default", "bystander")
	ask("other", "bystander")
	at := map[string]int{}
	for n := range flood + 2 {
		msg, err := answers.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		at[msg.Subject] = n
	}
	for _, subject := range []string{"tb.exe.ans.default.bystander.w", "tb.exe.ans.other.bystander.w"} {
		if n, ok := at[subject]; !ok || n > flood/2 {
			t.Errorf("%s is answered behind %d of %d questions of another executor", subject, n, flood)
		}
	}
}

// An executor reads the parts and the last frame of its own pool through a dispatcher, and nothing of
// another pool; what is not stored is nil.
func TestNewestOfAPool(t *testing.T) {
	f := setup(t)
	stop := f.serve("d")
	part := subjects.Owner{Tenant: "t", Actor: "a"}.On("default").Payload(strings.Repeat("0", 64), 0)
	frame := subjects.ChunkSource{Tenant: "t", Actor: "a", ID: "x", Attempt: 1, Fence: 7, Pool: "default"}.Subject()
	header := nats.Header{"Tb-Nonce": {"n"}, "Tb-Kind": {"refusal"}}
	for _, subject := range []string{part, frame} {
		msg := &nats.Msg{Subject: subject, Data: []byte(subject)}
		if subject == frame {
			msg.Header = header
		}
		if _, err := f.JS.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	own, other := f.client("default"), f.client("other")
	if m, err := own.Newest(t.Context(), frame); err != nil || m == nil || string(m.Data) != frame || m.Sequence != 1 ||
		m.Header.Get("Tb-Nonce") != "n" || m.Header.Get("Tb-Kind") != "" {
		t.Errorf("the frame is %+v, %v", m, err)
	}
	if m, err := own.Newest(t.Context(), part); err != nil || m == nil || string(m.Data) != part {
		t.Errorf("the part is %+v, %v", m, err)
	}
	if m, err := own.Newest(t.Context(), strings.Replace(part, ".0.", ".1.", 1)); err != nil || m != nil {
		t.Errorf("what is not stored is %+v, %v", m, err)
	}
	for _, subject := range []string{part, frame, "$KV.calls.x"} {
		if m, err := other.Newest(t.Context(), subject); err == nil {
			t.Errorf("another pool reads %+v", m)
		}
	}
	stop()
}

// An executor learns that a log is damaged: it reads and writes it no further.
func TestDamagedLog(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	own := kv.NewRemoteLog(f.JS, 1, 1, f.client("default"), kv.LogOptions{})
	s := f.Admit(1, envelope.PriorityNormal)
	f.Decide(s)
	stream, err := f.JS.Stream(t.Context(), subjects.Partition(0).Stream())
	if err == nil {
		err = stream.DeleteMsg(t.Context(), s.Seq+1)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = own.Read(t.Context(), s.Tool, s.ID)
	if d, ok := errors.AsType[*call.DamagedError](err); !ok || d.Ref != s.Ref() {
		t.Errorf("%v, want a damaged log", err)
	}
}
