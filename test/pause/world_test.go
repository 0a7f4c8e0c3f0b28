// Package pause stops dispatchers, executors, guardians and cancellers at the points where the
// protocol could go wrong, lets others do their worst meanwhile, and lets the stopped ones go on
// or die there. The call log is a real one; the checker of chaos runs judges.
package pause

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	tenant = "default"
	actor  = "agent://pause"
	lease  = 5 * time.Second
	// patience bounds every wait of a test; nothing in one takes long, but on the slowest machine.
	patience = 2 * time.Minute
)

// base is what the worlds of one test share: a server with the topology on it.
type base struct {
	js       jetstream.JetStream
	url      string
	registry *tool.Set
	allowing allowing
}

func newBase(t *testing.T) *base {
	t.Helper()
	s := natstest.Start(t)
	b := &base{js: s.JetStream(t), url: s.URL}
	if err := bus.Ensure(t.Context(), b.js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tools")
	if err := effects.WriteTools(dir, "/bin/true"); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.registry, err = tool.Load(dir, app.Transports()...); err != nil {
		t.Fatal(err)
	}
	b.allowing = allow(b.registry)
	return b
}

// world is one call and all who have to do with it.
type world struct {
	*base
	t    *testing.T
	log  *kv.Log
	tool string
	key  string

	mu        sync.Mutex
	asks      []*asked
	cancels   []checker.Cancel
	effects   []effects.Line
	denied    []checker.Record
	late      []envelope.Code
	gone      map[string]bool
	executors []*executor.Executor
	runs      int
	nonces    int
	strict    bool // calls wait for the record, of which executors know by coverage
	coverage  executor.Watermark
}

func (b *base) world(t *testing.T, toolID string) *world {
	t.Helper()
	log, err := kv.OpenLog(t.Context(), b.js, kv.LogOptions{Answer: patience})
	if err != nil {
		t.Fatal(err)
	}
	return &world{base: b, t: t, log: log, tool: toolID, key: "key-" + uuid.NewString(), gone: map[string]bool{}}
}

// stop is a point where a process stops once.
type stop struct {
	point   string
	reached chan struct{}
	dies    chan bool // what it does when it is let go
	died    chan struct{}
	once    sync.Once
}

func stopAt(point string) *stop {
	return &stop{point: point, reached: make(chan struct{}), dies: make(chan bool, 1), died: make(chan struct{})}
}

// at is called at every point.
func (s *stop) at(point string) {
	if s == nil || s.point != point {
		return
	}
	s.once.Do(func() {
		close(s.reached)
		if <-s.dies {
			close(s.died)
			runtime.Goexit() // as a process ends that is killed here
		}
	})
}

func (s *stop) step(_ context.Context, o call.TraceEvent) { s.at(string(o.At)) }

// wait waits for the stop to be reached.
func (w *world) wait(s *stop) {
	w.t.Helper()
	select {
	case <-s.reached:
	case <-time.After(patience):
		w.t.Fatalf("%s was not reached", s.point)
	}
}

func (w *world) end(done <-chan struct{}, what string) {
	w.t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		w.t.Fatalf("%s does not end", what)
	}
}

// stopping is a log whose writes can be stopped at: "before-q", "after-q", and so on by kind.
type stopping struct {
	outcome.Log
	stop *stop
}

func (l stopping) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	l.stop.at("before-" + string(e.Kind))
	s, err := l.Log.Write(ctx, e, body)
	l.stop.at("after-" + string(e.Kind))
	return s, err
}

func (w *world) nonce(who string) func() string {
	return func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.nonces++
		return fmt.Sprintf("%s.%d", who, w.nonces)
	}
}

// dispatcher returns a dispatcher that stops at s and writes to log, the real one if nil.
func (w *world) dispatcher(name string, s *stop, log outcome.Log) *dispatcher.Dispatcher {
	return w.dispatcherAt(name, s, log, time.Now)
}

// alone is a dispatcher without peers.
type alone struct{}

func (alone) Answer(string, string, call.Answer) error   { return nil }
func (alone) JoinerLeft(envelope.JoinerLeft)             {}
func (alone) Alive(context.Context, string) (int, error) { return 1, nil }
func (alone) Locate(context.Context, string, string, int) (by string, since time.Time, ok bool) {
	return "", since, false
}

func (w *world) dispatcherAt(name string, s *stop, log outcome.Log, now func() time.Time) *dispatcher.Dispatcher {
	if log == nil {
		log = w.log
	}
	return dispatcher.New(dispatcher.Options{
		CheckOptions: dispatcher.CheckOptions{
			Catalog: w.registry, Policy: w.allowing, Runs: implicit{}, Fsync: true, Strict: w.strict,
		},
		AdmissionOptions: dispatcher.AdmissionOptions{Capacity: well{}},
		Process: dispatcher.Process{
			CallLog: stopping{log, s}, Now: now, Instance: name, NewNonce: w.nonce(name), Trace: call.Trace{Event: s.step},
		},
		Names: w.registry, Replies: callers{w}, Records: gate{w}, Control: killer{w: w}, Pools: alone{},
	})
}

// executor returns an executor that stops at s.
func (w *world) executor(name string, s *stop, log outcome.Log, adapter tool.Adapter) *executor.Executor {
	if log == nil {
		log = w.log
	}
	if adapter == nil {
		adapter = worker{w, s}
	}
	e := executor.New(executor.Options{
		Instance: name, Catalog: w.registry, Adapters: map[string]tool.Adapter{process.Transport: adapter},
		CallLog: stopping{log, s}, Replies: owners{w}, Streams: silent{}, Liveness: peers{w}, Records: records{w},
		Now: time.Now, Watermark: w.coverage, NewNonce: w.nonce(name), Lease: lease, Trace: call.Trace{Event: s.step},
	})
	e.ControlReady()
	ctx, end := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var confirms sync.WaitGroup
	confirms.Go(func() { e.Confirm(ctx) })
	w.t.Cleanup(func() { end(); confirms.Wait() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.executors = append(w.executors, e)
	return e
}

// asked is a request and what comes back.
type asked struct {
	checker.Ask
	done  chan struct{} // the dispatcher is done with it, or died
	reply string
}

// ask sends a request with input n to the dispatcher, which sees to it in its own time.
func (w *world) ask(d *dispatcher.Dispatcher, callID string, n int64, timeout time.Duration) *asked {
	w.t.Helper()
	input, err := json.Marshal(effects.Input{N: n})
	if err != nil {
		w.t.Fatal(err)
	}
	req := &envelope.Request{
		CallID: callID, ToolID: w.tool, ToolVersion: "*", Fn: effects.Fn, Input: input,
		Context: envelope.RequestContext{ActorID: actor, TraceID: callID, Env: "dev", Timezone: "UTC"},
		Constraints: envelope.Constraints{
			TimeoutMS: timeout.Milliseconds(), DeadlineUnixMS: time.Now().Add(timeout).UnixMilli(), IdempotencyKey: w.key,
		},
	}
	body, err := envelope.EncodeRequest(envelope.ContentJSON, req)
	if err != nil {
		w.t.Fatal(err)
	}
	fingerprint, err := envelope.Fingerprint(req)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &asked{
		Ask: checker.Ask{
			Caller: "c", Scene: "pause", Tool: w.tool, Key: w.key, CallID: callID, Ref: w.ref(), Fingerprint: fingerprint, N: n,
			Sent: time.Now(), Due: time.Now().Add(time.Hour),
		},
		done: make(chan struct{}), reply: nats.NewInbox(),
	}
	w.mu.Lock()
	w.asks = append(w.asks, a)
	w.mu.Unlock()
	go func() { // ends by itself, or dies at a stop
		defer close(a.done)
		d.Handle(context.WithoutCancel(w.t.Context()), &call.IncomingRequest{
			Subject: subjects.Call(tenant, actor, w.tool), From: call.Sender{Tenant: tenant, Actor: actor}, Tool: w.tool,
			ContentType: envelope.ContentJSON, Body: body, Reply: a.reply, Received: time.Now(),
		})
	}()
	return a
}

func (w *world) ref() string {
	id := envelope.CallKeyID(tenant, &envelope.Request{
		ToolID: w.tool, Fn: effects.Fn, Context: envelope.RequestContext{ActorID: actor},
		Constraints: envelope.Constraints{IdempotencyKey: w.key},
	})
	return subjects.Key{Tool: w.tool, ID: id}.Ref()
}

// state reads the log.
func (w *world) state() call.State {
	w.t.Helper()
	key, err := subjects.ParseRef(w.ref())
	if err != nil {
		w.t.Fatal(err)
	}
	last, err := w.log.Read(context.WithoutCancel(w.t.Context()), key.Tool, key.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return last.State
}

// message returns the work message of the newest attempt, delivered for the nth time.
func (w *world) message(n int) (executor.Message, *hold) {
	w.t.Helper()
	entry, err := w.log.Get(context.WithoutCancel(w.t.Context()), call.Position{Seq: w.state().Last().Admitted})
	if err != nil {
		w.t.Fatal(err)
	}
	h := &hold{acked: make(chan struct{})}
	return executor.Message{Entry: entry, Deliveries: n, Lease: h}, h
}

// hold is a work message in the hands of an executor.
type hold struct {
	once  sync.Once
	acked chan struct{}
}

func (h *hold) InProgress()                {}
func (h *hold) Ack()                       { h.once.Do(func() { close(h.acked) }) }
func (h *hold) NakWithDelay(time.Duration) {}
func (h *hold) NakUnstarted(time.Duration) {}
func (h *hold) TakeOver(rest func())       { go rest() }

func (h *hold) isAcked() bool {
	select {
	case <-h.acked:
		return true
	default:
		return false
	}
}

// hand gives the executor a message, which it handles in its own time.
func (w *world) hand(e *executor.Executor, m executor.Message) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() { // ends by itself, or dies at a stop
		defer close(ended)
		e.Handle(context.WithoutCancel(w.t.Context()), m)
	}()
	return ended
}

// work hands the newest attempt to the executor and waits until it is done with it.
func (w *world) work(e *executor.Executor, delivery int) (acked bool) {
	w.t.Helper()
	m, h := w.message(delivery)
	w.end(w.hand(e, m), "the executor")
	return h.isAcked()
}

// cancel ends the call as the owner of callID.
func (w *world) cancel(d *dispatcher.Dispatcher, callID string) {
	c := checker.Cancel{Ref: w.ref(), CallID: callID, Sent: time.Now()}
	answer, refusal := d.Cancel(context.WithoutCancel(w.t.Context()),
		call.Sender{Tenant: subjects.Token(tenant), Actor: subjects.Token(actor)}, envelope.CallRef{Ref: w.ref(),
			CallID: callID})
	c.Told, c.Response, c.Done = answer.Phase, answer.Response, time.Now()
	if refusal != nil {
		c.Failed = refusal.String()
		if refusal.Code != envelope.CodeNotFound { // it was not admitted yet
			w.t.Error("cancel: ", c.Failed)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels = append(w.cancels, c)
}

// guard ends the newest attempt as a guardian does whose clock says that its deadline is over,
// and returns what is closed when the guardian has done so, or has died at its stop.
func (w *world) guard(s *stop, log outcome.Log) (done <-chan struct{}) {
	w.t.Helper()
	d := w.dispatcherAt("guardian", s, log, func() time.Time { return time.Now().Add(time.Hour) })
	state := w.state()
	ctx, end := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
	ended := make(chan struct{})
	go func() { // ends with ctx
		_ = d.Run(ctx) // it is only ended by ctx
	}()
	d.Observe(ctx, call.Requested, state.Last().N, state)
	var died chan struct{}
	if s != nil {
		died = s.died
	}
	go func() { // ends when there is nothing left to guard, or nobody
		defer close(ended)
		defer end()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for d.Deadlines.ReplayFrom(0) > 0 {
			select {
			case <-tick.C:
			case <-died:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ended
}

// history is all that was recorded, for the checker.
func (w *world) history() checker.History {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	h := checker.History{Cancels: w.cancels, Effects: w.effects, Kept: checker.Kept{Audit: w.denied}, Log: w.entries()}
	if w.strict {
		h.Segments = w.kept()
	}
	for i, e := range h.Log {
		for _, r := range audit.Project(e.Kind, e.Attempt, e.State, e.State.Seq, e.Time) {
			h.Audit = append(h.Audit, checker.Record{Seq: uint64(i), Record: r})
		}
	}
	for _, a := range w.asks {
		if len(a.Answers) == 0 { // what the client library states then
			a.Answers = []*envelope.Response{envelope.Failure(a.CallID, envelope.NewError(envelope.CodeTimeout, ""),
				envelope.Provenance{}, envelope.Metrics{})}
		}
		h.Asks = append(h.Asks, a.Ask)
	}
	return h
}

// entries reads the whole log of the call.
func (w *world) entries() (entries []call.Entry) {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	key, err := subjects.ParseRef(w.ref())
	if err != nil {
		w.t.Fatal(err)
	}
	last, err := w.log.Read(ctx, key.Tool, key.ID)
	if err != nil || last.State.Empty() {
		w.t.Fatalf("read the log: %v", err)
	}
	stream, err := w.js.Stream(ctx, subjects.Partition(0).Stream())
	if err != nil {
		w.t.Fatal(err)
	}
	for seq := uint64(1); seq <= last.State.Seq; {
		msg, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(key.Filter()))
		if err != nil {
			w.t.Fatal(err)
		}
		e, err := w.log.Get(ctx, call.Position{Seq: msg.Sequence})
		if err != nil {
			w.t.Fatal(err)
		}
		entries, seq = append(entries, e), msg.Sequence+1
	}
	return entries
}

// judge wants no promise broken.
func (w *world) judge() {
	w.t.Helper()
	h := w.history()
	for _, v := range checker.Check(h) {
		w.t.Errorf("%v\n%s", v, h.Story(w.ref()))
	}
}

// convict wants the rule found broken.
func (w *world) convict(rule string) {
	w.t.Helper()
	h := w.history()
	found := checker.Check(h)
	for _, v := range found {
		if v.Rule == rule {
			return
		}
	}
	w.t.Errorf("nothing is found to break %q, only %v\n%s", rule, found, h.Story(w.ref()))
}

// answer waits for the first answer to a.
func (w *world) answer(a *asked) *envelope.Response {
	w.t.Helper()
	w.end(a.done, "the dispatcher")
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(a.Answers) == 0 {
		return nil
	}
	return a.Answers[0]
}

func (w *world) told(reply string, tell func(a *asked)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asks {
		if a.reply == reply {
			tell(a)
			a.Done = time.Now()
		}
	}
}

// The parts that dispatchers and executors are made with.
type (
	callers struct{ w *world }
	owners  struct{ w *world }
	well    struct{}
	gate    struct{ w *world }
	killer  struct {
		alone
		w *world
	}
	peers   struct{ w *world }
	records struct{ w *world }
	silent  struct{}
	worker  struct {
		w    *world
		stop *stop
	}
)

func (c callers) Accepted(to call.ReplyAddress, m *envelope.Accepted) {
	c.w.told(to.Reply, func(a *asked) { a.Accepted = append(a.Accepted, *m) })
}

func (c callers) Outcome(to call.ReplyAddress, r *envelope.Response) {
	c.w.told(to.Reply, func(a *asked) { a.Answers = append(a.Answers, r) })
}

func (o owners) Outcome(to call.ReplyAddress, r *envelope.Response) {
	o.w.told(to.Reply, func(a *asked) { a.Answers = append(a.Answers, r) })
}

func (well) AuditBehind() time.Duration { return 0 }
func (well) LogFull() bool              { return false }

func (well) OverRecord(string) (used, share int64) { return 0, 0 }

func (well) Over(subjects.Owner) (used, share int64) { return 0, 0 }

func (g gate) Denied(_ context.Context, r audit.Refusal) (string, uint64, error) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	id := fmt.Sprint("gate.", len(g.w.denied))
	g.w.denied = append(g.w.denied,
		checker.Record{ID: id, Record: audit.Record{Event: audit.ToolDenied, Code: r.Error.Code}})
	return id, 0, nil
}

func (gate) Note(context.Context, audit.Record) error { return nil }

func (gate) Shared(context.Context, call.State, int, []call.Owner) error { return nil }

func (k killer) Kill(_ context.Context, _, id string, attempt int, due time.Time) (running bool) {
	k.w.mu.Lock()
	executors := append([]*executor.Executor(nil), k.w.executors...)
	k.w.mu.Unlock()
	for _, e := range executors {
		running = e.Kill(id, attempt, due) || running
	}
	return running
}

func (p peers) Expired(_ context.Context, instance string) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.gone[instance]
}

func (w *world) dead(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[instance] = true
}

func (records) Dead(context.Context, call.State, call.Entry, int, *envelope.Error) error {
	return nil
}

func (r records) LateResult(_ context.Context, _ call.State, _ int, said call.Completion) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.late = append(r.w.late, said.Error)
	return nil
}

func (silent) Open(context.Context, call.State, int, uint64, int64) executor.Stream { return silent{} }
func (silent) Emit(context.Context, envelope.ChunkKind, jsontext.Value) error       { return nil }
func (silent) Close(context.Context) (envelope.Chunks, error)                       { return envelope.Chunks{}, nil }

// The tools: each run notes its start and its effect.

func (worker) Validate(*tool.Manifest) error { return nil }

func (a worker) Execute(ctx context.Context, _ *tool.Manifest, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	a.w.mu.Lock()
	a.w.runs++
	pid := a.w.runs
	a.w.mu.Unlock()
	a.w.note(effects.Start, inv, pid)
	a.stop.at("in-tool")
	if ctx.Err() != nil {
		return tool.Result{}, &tool.StoppedError{Cause: context.Cause(ctx)}
	}
	a.w.note(effects.Commit, inv, pid)
	return output(inv, inv.Fence, pid)
}

func (a worker) Lookup(_ context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if !m.Capability.Lookup {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	for _, l := range a.w.effects {
		if l.Op == effects.Commit {
			r, err := output(inv, l.Fence, l.PID)
			return r, true, err
		}
	}
	return tool.Result{}, false, nil
}

func (w *world) note(op effects.Op, inv tool.Invocation, pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects = append(w.effects, effects.Line{
		Op: op, Time: time.Now().UnixNano(), Tool: w.tool, Key: inv.IdempotencyKey, CallID: inv.CallID, Attempt: inv.Attempt,
		Fence: inv.Fence, PID: pid,
	})
}

func output(inv tool.Invocation, fence uint64, pid int) (tool.Result, error) {
	var in effects.Input
	if err := json.Unmarshal(inv.Input, &in); err != nil {
		return tool.Result{}, err
	}
	raw, err := json.Marshal(effects.Output{N: in.N, Run: fmt.Sprintf("%d/%d", fence, pid)})
	return tool.Result{Output: raw}, err
}
