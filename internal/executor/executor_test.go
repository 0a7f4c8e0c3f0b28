package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const lease = 5 * time.Second

// world is everything an executor touches, in memory.
type world struct {
	t        *testing.T
	log      *calltest.Log
	manifest *tool.Manifest
	execute  func(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error)
	lookup   func(inv tool.Invocation) (tool.Result, bool, error)
	refuse   func(inv tool.Invocation) error // nil refuses nothing
	native   *native.Adapter                 // runs the tool in their stead, if not nil
	gone     map[string]bool
	ex       *executor.Executor

	mu           sync.Mutex
	runs         []tool.Invocation
	replies      []*envelope.Response
	late         []envelope.Code
	admitted     call.Lookup // what requests say of the tool
	dead         int
	causeOfDeath envelope.Error
	buried       call.State // as it was when it was
	unkept       error      // why records are not kept
	unstored     error      // why chunks are not stored
	payloads     map[string][]byte
	full         bool // the payload store takes nothing
	silent       bool // and gives nothing
	broken       error
	dryRun       bool     // of what is admitted
	writeTargets []string // the same
	writes       bool     // what is admitted has write targets
	nonce        int
	covered      chan struct{} // attempts are strict, and wait for it to be closed; nil: they are not
	unread       error         // of the record
}

func newWorld(t *testing.T, class call.EffectClass) *world {
	w := &world{t: t, log: &calltest.Log{}, gone: map[string]bool{}, payloads: map[string][]byte{}}
	any, err := jsonschema.Compile("any", []byte(`{"type":"object"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.manifest = &tool.Manifest{
		ToolID: "echo", Semver: "1.0.0", Digest: buildA, Status: tool.StatusActive, Class: class, Transport: native.Transport,
		Functions:  map[string]*tool.Function{"say": {Name: "say", Request: any, Response: any}},
		Limits:     envelope.ToolLimits{TimeoutDefaultMS: 1000, TimeoutMaxMS: 60_000, Concurrency: 8, OutputBytes: 1 << 20},
		Capability: tool.Capabilities{Streaming: true},
	}
	w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		return tool.Result{Output: inv.Input}, nil
	}
	w.ex = w.executor("default/e1")
	pass(time.Second) // so that it has been listening before the first admission
	return w
}

func (w *world) executor(instance string) *executor.Executor {
	ex := executor.New(executor.Options{
		Instance: instance, Catalog: catalog{w}, Adapters: map[string]tool.Adapter{native.Transport: w},
		CallLog: w.log,
		Replies: w, Streams: w, Payloads: payloads{w}, Liveness: w, Records: w, Now: time.Now, Lease: lease, Watermark: w,
		NewNonce: func() string { w.mu.Lock(); defer w.mu.Unlock(); w.nonce++; return fmt.Sprint(instance, ".", w.nonce) },
	})
	ex.ControlReady()
	ctx, stop := context.WithCancel(context.Background())
	var confirms sync.WaitGroup
	confirms.Go(func() { ex.Confirm(ctx) })
	w.t.Cleanup(func() { stop(); confirms.Wait() })
	return ex
}

// cancel decides the attempt that is open, as a dispatcher does before it tells executors.
func (w *world) cancel() {
	w.t.Helper()
	s := w.state()
	a := s.Last()
	r := call.Decide(s, a.N, a.Admitted, call.Completion{
		Cause: call.Cancelled, By: call.ByCanceller, Nonce: fmt.Sprint("k", a.N), Now: call.At(time.Now()),
	})
	if _, err := w.log.Write(w.t.Context(), r.Event, outcomeBody(w.t, r.Code)); err != nil {
		w.t.Fatal(err)
	}
}

type catalog struct{ w *world }

func (c catalog) Get(id, version string) (*tool.Manifest, *envelope.Error) {
	if c.w.manifest == nil {
		return tool.NewSet().Get(id, version)
	}
	return tool.NewSet(c.w.manifest).Get(id, version)
}

func (c catalog) Build(id, digest string) *tool.Manifest {
	if c.w.manifest == nil {
		return nil
	}
	return tool.NewSet(c.w.manifest).Build(id, digest)
}

// Wait is what an executor knows of the record: it holds a request once covered is closed.
func (w *world) Wait(ctx context.Context, p call.Position, at time.Time) error {
	if m := w.state().Last(); p.Seq != m.Admitted || at.IsZero() {
		w.t.Errorf("waits for %d of %s, and not for %d", p.Seq, at, m.Admitted)
	}
	select {
	case <-w.covered:
		return w.unread
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *world) Validate(*tool.Manifest) error            { return nil }
func (w *world) Expired(_ context.Context, i string) bool { return w.gone[i] }
func (w *world) Outcome(_ call.ReplyAddress, r *envelope.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replies = append(w.replies, r)
}

func (w *world) Execute(
	ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink,
) (tool.Result, error) {
	w.mu.Lock()
	w.runs = append(w.runs, inv)
	w.mu.Unlock()
	if w.native != nil {
		return w.native.Execute(ctx, m, inv, sink)
	}
	return w.execute(ctx, inv, sink)
}

func (w *world) ValidateCall(ctx context.Context, m *tool.Manifest, inv tool.Invocation) error {
	switch {
	case w.native != nil:
		return w.native.ValidateCall(ctx, m, inv)
	case w.refuse != nil:
		return w.refuse(inv)
	}
	return nil
}

func (w *world) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if w.native != nil {
		return w.native.Lookup(ctx, m, inv)
	}
	if w.lookup == nil {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	return w.lookup(inv)
}

func (w *world) Open(context.Context, call.State, int, uint64, int64) executor.Stream {
	return &stream{w: w}
}

type stream struct {
	w *world
	n int64
}

func (s *stream) Emit(context.Context, envelope.ChunkKind, jsontext.Value) error { s.n++; return nil }
func (s *stream) Close(context.Context) (envelope.Chunks, error) {
	return envelope.Chunks{Count: s.n}, s.w.unstored
}

type payloads struct{ w *world }

func (p payloads) Put(ctx context.Context, _ subjects.PayloadOwner, data []byte) (envelope.PayloadRef, error) {
	if p.w.full { // as streaming.Payloads, which tries until ctx ends
		<-ctx.Done()
		return envelope.PayloadRef{}, ctx.Err()
	}
	ref := envelope.PayloadRef{SHA256: strings.Repeat("a", 64), Bytes: int64(len(data))}
	p.w.payloads[ref.SHA256] = data
	return ref, nil
}

func (p payloads) Get(ctx context.Context, _ subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error) {
	if p.w.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.w.broken != nil {
		return nil, p.w.broken
	}
	data, ok := p.w.payloads[ref.SHA256]
	if !ok {
		return nil, errors.New("missing")
	}
	return data, nil
}

func (w *world) Dead(_ context.Context, s call.State, _ call.Entry, _ int, cause *envelope.Error) error {
	w.dead++
	w.buried, w.causeOfDeath = s, *cause
	return w.unkept
}

func (w *world) LateResult(_ context.Context, _ call.State, _ int, said call.Completion) error {
	w.late = append(w.late, said.Error)
	return w.unkept
}

// holding records what became of a message.
type holding struct {
	mu              sync.Mutex
	acked, extended int
	declined        int // of those handed back
	handedBack      []time.Duration
	over            chan struct{} // gets a word when another goroutine has handled the message
}

func (h *holding) InProgress()          { h.mu.Lock(); defer h.mu.Unlock(); h.extended++ }
func (h *holding) Ack()                 { h.mu.Lock(); defer h.mu.Unlock(); h.acked++ }
func (h *holding) TakeOver(rest func()) { go func() { rest(); h.over <- struct{}{} }() }
func (h *holding) NakUnstarted(d time.Duration) {
	h.NakWithDelay(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.declined++
}
func (h *holding) NakWithDelay(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handedBack = append(h.handedBack, d)
}

// admit writes an admission as a dispatcher would, and returns its work message.
func (w *world) admit(callID string, timeout time.Duration) executor.Message {
	w.t.Helper()
	return w.admitAs("id1", callID, timeout)
}

// admitAs is admit of a call under an id.
func (w *world) admitAs(id, callID string, timeout time.Duration) executor.Message {
	w.t.Helper()
	last, _ := w.log.Read(w.t.Context(), "echo", id)
	now := time.Now()
	v := call.Admit(last.State, call.AdmitRequest{
		Owner: call.Owner{CallID: callID, Actor: "a", Reply: "inbox"}, Fingerprint: "fp",
		Pinned: call.Pinned{Tool: "echo", ID: id, Fn: "say", Version: "1.0.0", Class: w.manifest.Class,
			Digest: w.manifest.Digest, Pool: "default", Fingerprint: "fp", Tenant: "t", DryRun: w.dryRun, Lookup: w.admitted},
		Deadline: call.At(now.Add(timeout)), Now: call.At(now), Nonce: "d-" + callID, Strict: w.covered != nil,
		Writes: w.writes,
	})
	if v.Do != call.Write {
		w.t.Fatalf("admit %s: %v", callID, v.Do)
	}
	req := map[string]any{
		"call_id": callID, "tool_id": "echo", "tool_version": "*", "fn": "say", "input": map[string]any{"n": 1},
		"context":     map[string]any{"actor_id": "a", "trace_id": callID, "timezone": "UTC", "env": "dev"},
		"constraints": map[string]any{"timeout_ms": 1, "deadline_unix_ms": 1, "idempotency_key": "k"}, "dry_run": w.dryRun,
	}
	raw, err := json.Marshal(req)
	if err != nil {
		w.t.Fatal(err)
	}
	earlier, err := last.Outcomes()
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := json.Marshal(call.RequestBody{Request: raw, Earlier: earlier, WriteTargets: w.writeTargets})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.log.Write(w.t.Context(), v.Event, body); err != nil {
		w.t.Fatal(err)
	}
	entry, _ := w.log.Read(w.t.Context(), "echo", id)
	return executor.Message{Entry: entry, Deliveries: 1, Lease: &holding{over: make(chan struct{}, 2)}}
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }

func (w *world) state() call.State {
	e, _ := w.log.Read(w.t.Context(), "echo", "id1")
	return e.State
}

// decided returns the one decision of attempt n.
func (w *world) decided(n int) call.Decision {
	w.t.Helper()
	a, ok := w.state().Attempt(n)
	if !ok || a.Decision == nil {
		w.t.Fatalf("attempt %d is not decided", n)
	}
	count := 0
	for _, e := range w.log.Entries() {
		if e.Kind == call.Decided && e.Attempt == n {
			count++
		}
	}
	if count != 1 {
		w.t.Errorf("attempt %d has %d outcome events", n, count)
	}
	return *a.Decision
}
