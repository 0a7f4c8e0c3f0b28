package dispatcher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// world is everything a dispatcher touches, in memory.
type world struct {
	t         *testing.T
	log       *calltest.Log
	broken    error // of each use of the log by a dispatcher; nil if it works
	manifest  *tool.Manifest
	d         *dispatcher.Dispatcher
	payloads  map[string][]byte
	silent    bool   // the payload store does not answer
	inFetch   func() // while the payload store is read; nil: nothing happens
	fetching  atomic.Int64
	fetched   atomic.Int64
	memory    int64 // of dispatchers that start now
	step      func(context.Context, call.TraceEvent)
	garbled   bool // dispatchers that start now cannot read outcomes
	lag       time.Duration
	full      bool
	over      map[subjects.Owner]int64 // bytes that owners keep, twice their share
	record    map[string]int64         // the same of tenants in the record
	gateErr   error
	running   bool // what executors answer to a kill
	executors int
	evidence  poolEvidence    // of dispatchers that start now
	builds    deadline.Builds // the same
	board     *lock.Board     // the same
	policy    check.Policy    // the same
	rules     rules           // of the policy in tests of stages
	runs      runs
	finds     *pool // runs what executors are asked for; nil: none says so
	reads     atomic.Int64
	reading   time.Duration // how long a read takes

	changed             string // the definition that is not the server's any more
	perActor, perTenant int    // calls that may be open; 0: as by default

	mu       sync.Mutex
	accepted map[string][]*envelope.Accepted // by inbox
	outcomes map[string][]*envelope.Response
	denied   []envelope.Code
	refused  []audit.Refusal
	allowed  []string // call ids
	notes    []audit.Record

	answered  []answered
	unasked   bool // no executor has a question
	gateHangs bool
	unstored  time.Duration // for how long the server has stored nothing
	kills     int
	nonce     int
	stop      context.CancelFunc
}

// poolEvidence answers the dispatcher's questions about the executors of a pool.
type poolEvidence interface {
	deadline.PoolEvidence
	admission.Pools
}

// start runs a dispatcher in the present synctest bubble, following the log.
func start(t *testing.T, class call.EffectClass) *world {
	schema, err := jsonschema.Compile("in", []byte(`{"type":"object","required":["n"],"additionalProperties":false,
		"properties":{"n":{"type":"integer"}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, log: &calltest.Log{}, payloads: map[string][]byte{}, accepted: map[string][]*envelope.Accepted{},
		outcomes: map[string][]*envelope.Response{}, runs: runs{stored: map[string]*policy.Run{}},
		manifest: &tool.Manifest{
			ToolID: "echo", Semver: "1.2.3", Status: tool.StatusActive, Class: class, Pool: "default", Retention: 24 * time.Hour,
			Functions: map[string]*tool.Function{"say": {Name: "say", Request: schema, Response: schema}},
			Limits:    envelope.ToolLimits{TimeoutDefaultMS: 1000, TimeoutMaxMS: 60_000, Concurrency: 8},
		},
	}
	w.policy = &everything{w: w}
	w.run("d1")
	return w
}

// run makes w.d a running dispatcher that follows the log.
func (w *world) run(instance string) {
	ctx := w.serve(instance)
	d := w.d
	w.log.Watch(func(e call.Entry) { d.Observe(ctx, e.Kind, e.Attempt, e.State) })
}

// serve makes w.d a running dispatcher that does not follow the log. The context is that of its run.
func (w *world) serve(instance string) context.Context {
	d := w.dispatcher(instance, true)
	if w.garbled {
		d.CallLog = garbled{w.log}
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Run(ctx) }()
	w.d, w.stop = d, func() { cancel(); <-done }
	w.t.Cleanup(w.stop)
	return ctx
}

func (w *world) dispatcher(instance string, fsync bool) *dispatcher.Dispatcher {
	return dispatcher.New(dispatcher.Options{
		CheckOptions: dispatcher.CheckOptions{
			Catalog: catalog{w}, Payloads: payloads{w}, Definitions: w, Fsync: fsync, Locks: w.board, Policy: w.policy,
			Runs: &w.runs, PayloadMemory: w.memory,
		},
		DeadlineOptions: dispatcher.DeadlineOptions{PoolEvidence: w.evidence, Builds: w.builds},
		AdmissionOptions: dispatcher.AdmissionOptions{
			Capacity: w, OpenPerActor: w.perActor, OpenPerTenant: w.perTenant,
		},
		Process: dispatcher.Process{
			CallLog: counting{w.log, w}, Now: time.Now, Instance: instance, Trace: call.Trace{Event: w.step},
			Silent: func() time.Duration { return w.unstored },
			NewNonce: func() string {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.nonce++
				return fmt.Sprint(instance, ".", w.nonce)
			},
		},
		Names: catalog{w}, Replies: w, Records: w, Control: w, Pools: w, Overflow: w.evidence,
	})
}

// counting is a log that counts how often it is read, which takes its time.
type counting struct {
	*calltest.Log
	w *world
}

func (c counting) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	c.w.reads.Add(1)
	<-time.After(c.w.reading)
	if c.w.broken != nil {
		return call.Entry{}, c.w.broken
	}
	return c.Log.Read(ctx, tool, id)
}

func (c counting) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	if c.w.broken != nil {
		return call.State{}, fmt.Errorf("%w: %w", call.ErrUnsure, c.w.broken)
	}
	return c.Log.Write(ctx, e, body)
}

type catalog struct{ w *world }

func (c catalog) Get(id, want string) (*tool.Manifest, *envelope.Error) {
	return tool.NewSet(c.w.manifest).Get(id, want)
}

func (c catalog) Named(token string) (string, bool) {
	return tool.NewSet(c.w.manifest).Named(token)
}

type payloads struct{ w *world }

func (p payloads) Get(ctx context.Context, _ subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error) {
	p.w.fetching.Add(1)
	p.w.fetched.Add(1)
	defer p.w.fetching.Add(-1)
	if p.w.silent { // as streaming.Payloads, which tries until ctx ends
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.w.inFetch != nil {
		p.w.inFetch()
	}
	data, ok := p.w.payloads[ref.SHA256]
	if !ok {
		return nil, fmt.Errorf("no payload %s", ref.SHA256)
	}
	if int64(len(data)) != ref.Bytes {
		return nil, fmt.Errorf("get: %w", damaged{})
	}
	return data, nil
}

// damaged is the error of a payload that is not what its reference names.
type damaged struct{}

func (damaged) Error() string          { return "damaged" }
func (damaged) Fault() *envelope.Error { return envelope.NewError(envelope.CodeChecksum, "") }

func (w *world) AuditBehind() time.Duration { return w.lag }
func (w *world) LogFull() bool              { return w.full }

func (w *world) OverRecord(tenant string) (used, share int64) {
	return w.record[tenant], w.record[tenant] / 2
}

func (w *world) Over(of subjects.Owner) (used, share int64) { return w.over[of], w.over[of] / 2 }

func (w *world) Accepted(to call.ReplyAddress, a *envelope.Accepted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted[to.Reply] = append(w.accepted[to.Reply], a)
}

func (w *world) Outcome(to call.ReplyAddress, r *envelope.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[to.Reply] = append(w.outcomes[to.Reply], r)
}

func (w *world) Denied(ctx context.Context, r audit.Refusal) (string, uint64, error) {
	if w.unstored > 0 {
		<-ctx.Done()
		return "", 0, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied, w.refused = append(w.denied, r.Error.Code), append(w.refused, r)
	return "gate.1", 0, w.gateErr
}

func (w *world) Shared(ctx context.Context, _ call.State, _ int, who []call.Owner) error {
	if w.gateHangs {
		<-ctx.Done()
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range who {
		w.allowed = append(w.allowed, o.CallID)
	}
	return w.gateErr
}

func (w *world) Note(_ context.Context, r audit.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, r)
	return w.gateErr
}

// refusals returns the codes of what was denied.
func (w *world) refusals() []envelope.Code {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.denied)
}

func (w *world) Alive(context.Context, string) (int, error) { return w.executors, nil }

func (w *world) JoinerLeft(l envelope.JoinerLeft) { w.d.Answers.RemoveJoiner(l) }

func (w *world) Kill(context.Context, string, string, int, time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills++
	return w.running
}

func (w *world) Locate(ctx context.Context, pool, id string, attempt int) (by string, since time.Time, ok bool) {
	if w.finds == nil {
		return "", since, false
	}
	return w.finds.Locate(ctx, pool, id, attempt)
}

// uuid makes a call id out of a number.
func uuid(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }

// from is an actor of the tenant of these tests.
func from(actor string) call.Sender { return call.Sender{Tenant: "t", Actor: actor} }

// request is a valid request; edit changes its JSON before it is sent.
func (w *world) request(n int, edit ...string) *call.IncomingRequest {
	body := fmt.Sprintf(`{"call_id":%q,"tool_id":"echo","tool_version":"1.x","fn":"say","input":{"n":1},`+
		`"context":{"actor_id":"agent","trace_id":%q,"timezone":"UTC","env":"dev"},`+
		`"constraints":{"timeout_ms":10000,"deadline_unix_ms":%d,"idempotency_key":"key-0123456789abcdef"}}`,
		uuid(n), uuid(n), time.Now().Add(10*time.Second).UnixMilli())
	return &call.IncomingRequest{
		Subject: "tb.call.t.agent.echo", From: from("agent"), Tool: "echo",
		Body:  []byte(strings.NewReplacer(edit...).Replace(body)),
		Reply: fmt.Sprint("inbox", n), Received: time.Now(),
	}
}

func (w *world) ask(n int, edit ...string) *call.IncomingRequest {
	in := w.request(n, edit...)
	w.d.Handle(w.t.Context(), in)
	synctest.Wait()
	return in
}

// outcome returns the one outcome that inbox n got.
func (w *world) outcome(n int) *envelope.Response {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.outcomes[fmt.Sprint("inbox", n)]
	if len(got) != 1 {
		w.t.Fatalf("inbox %d got %d outcomes", n, len(got))
	}
	return got[0]
}

func (w *world) acceptedBy(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.accepted[fmt.Sprint("inbox", n)])
}

// answers returns how many inboxes got an outcome.
func (w *world) answers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.outcomes)
}

func (w *world) state() call.State {
	entries := w.log.Entries()
	if len(entries) == 0 {
		return call.State{}
	}
	return entries[len(entries)-1].State
}

// decide ends the newest attempt as an executor would: with success, or with code.
func (w *world) decide(code envelope.Code) {
	w.t.Helper()
	a := w.state().Last()
	d := outcome.Draft{Output: []byte(`{"n":1}`)}
	if code != "" {
		d = outcome.Draft{Error: envelope.NewError(code, "")}
	}
	end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: fmt.Sprint("x", a.N),
		Now: call.At(time.Now()), Error: code, Effect: envelope.EffectNone}
	if _, err := outcome.Resolve(w.t.Context(), w.log, w.state(), a.N, a.Admitted, end, d, nil); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// endsAs ends the newest attempt with an error, for a cause.
func (w *world) endsAs(end call.Completion) {
	w.t.Helper()
	a := w.state().Last()
	d := outcome.Draft{Error: envelope.NewError(end.Error, "")}
	if _, err := outcome.Resolve(w.t.Context(), w.log, w.state(), a.N, a.Admitted, end, d, nil); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func pass(d time.Duration) { <-time.After(d); synctest.Wait() }
