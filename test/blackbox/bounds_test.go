package blackbox

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// garbage is what a flood is made of: random bytes, truncated and nested JSON, bad UTF-8.
func garbage(r *rand.Rand) []byte {
	switch r.IntN(5) {
	case 0:
		b := make([]byte, r.IntN(2000))
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		return b
	case 1:
		return []byte(strings.Repeat(`{"a":`, 1+r.IntN(2000)))
	case 2:
		return []byte(`{"call_id":"x","call_id":"y","input":{"n":9007199254740993}}`)
	case 3:
		return []byte("{\"call_id\":\"\xff\xfe\"}")
	}
	return nil
}

// foreignEvent is the header of an event that reads well and makes no sense: the subject is of another kind,
// the attempt is not there, an outcome has no decision.
func foreignEvent(r *rand.Rand) string {
	e := call.Event{
		Kind:    []call.Kind{call.Requested, call.Joined, call.Claimed, call.Decided, "?"}[r.IntN(5)],
		Attempt: r.IntN(3),
		Nonce:   "foreign",
		State:   call.State{Pinned: call.Pinned{Tool: "echo", ID: "00000000000000000000000000000000", Pool: "default"}},
	}
	for n := range r.IntN(3) {
		e.State.Attempts = append(e.State.Attempts, call.Attempt{N: n + 1, Claim: &call.Claim{}})
	}
	return kv.EncodeEvent(e)
}

// A flood of malformed messages on every subject harms no other call; those that ask for one are answered.
func TestMalformedFlood(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Key: "before-0123456789ab"}), envelope.Success, "")
	before := heap()
	nc := d.srv.Connect(t)
	r := rand.New(rand.NewPCG(1, 2))
	key := subjects.Key{Tool: "echo", ID: "00000000000000000000000000000000"}
	targets := []string{
		subjects.Call("default", "agent://local", "echo"),
		subjects.Call("x", "y", "z"),
		"tb.call.%%.\xff.é",
		subjects.Service(subjects.OpResult, "default", "a"),
		subjects.Service(subjects.OpCancel, "default", "a"),
		subjects.Service(subjects.OpWhy, "default", "a"),
		subjects.Service(subjects.OpDescribe, "default", "a"),
		subjects.Service(subjects.OpChunks, "default", "a"),
		subjects.Kill("x"),
		key.Request(
			1,
			"1.0.0",
			"normal",
			"default",
		),
		key.Outcome(1, "e"),
		subjects.ChunkSource{Tenant: "default", Actor: "a", ID: "b", Attempt: 1, Fence: 1}.Subject(),
		subjects.Partition(0).Audit("default"),
		subjects.JournalSubject("x", "default"),
		subjects.Denied("x", "default"),
		subjects.Dead("default", "echo"),
		subjects.PoolSubject("default", "x"),
		"tb.payload.x.0",
		subjects.JoinerLeft,
	}
	answers, err := nc.SubscribeSync("tb.ans.>")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for i := range 6000 {
		msg := nats.NewMsg(targets[i%len(targets)])
		msg.Data, msg.Reply = garbage(r), nc.NewInbox()
		if strings.HasPrefix(msg.Subject, "tb.call.") {
			msg.Reply = replyTo(msg.Subject)
			asked++
		}
		if i%3 == 0 {
			msg.Header.Set(subjects.HeaderContentType, envelope.ContentMsgpack)
			msg.Header.Set(subjects.HeaderEvent, foreignEvent(r))
			msg.Header.Set(subjects.HeaderInputRef, "sha256:zz;1")
		}
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 { // kills of what cannot be, which nobody may remember
		kill := fmt.Appendf(nil, `{"id":"%0200000d","attempt":1,"due":%d}`, i, time.Now().Add(time.Hour).UnixMilli())
		if err := nc.Publish(subjects.Kill("x"), kill); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	allMalformed(t, answers, asked)
	ask := clientlib.Call{Tool: "echo", Key: "after-0123456789abc", Timeout: 110 * time.Second}
	wantStatus(t, mustCall(t, c, ask), envelope.Success, "")
	if grown := int64(heap()) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// allMalformed waits for so many answers, which all must say of a request that it cannot be read.
func allMalformed(t *testing.T, answers *nats.Subscription, n int) {
	t.Helper()
	for i := range n {
		msg, err := answers.NextMsg(2 * time.Minute)
		if err != nil {
			t.Fatalf("%d of %d requests were answered: %v", i, n, err)
		}
		r, bad := envelope.DecodeResponse(msg.Header.Get(subjects.HeaderContentType), msg.Data)
		if bad != nil || r.Status != envelope.InvalidRequest || r.Check() != nil {
			t.Fatalf("answer %s, %v", msg.Data, bad)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What is over a limit is refused at the door, with where and why.
func TestRequestLimits(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	for name, in := range map[string]string{
		"duplicate keys":      `{"a":1,"a":2}`,
		"beyond 2^53":         `{"a":9007199254740993}`,
		"deep nesting":        `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		"invalid UTF-8":       "{\"a\":\"\xff\"}",
		"not an object":       `[1]`,
		"larger than payload": `{"a":"` + strings.Repeat("x", envelope.MaxPayload) + `"}`,
	} {
		r := mustCall(t, c, clientlib.Call{Tool: "echo", Input: []byte(in)})
		if r.Status != envelope.InvalidRequest || r.Error.Fix == "" {
			t.Errorf("%s: %s %+v", name, r.Status, r.Error)
		}
	}
	if runs.Load() != 0 {
		t.Errorf("%d runs", runs.Load())
	}
}

// A tool over its output limit, one that emits garbage, and one that panics end precisely, and
// the executor goes on.
func TestBadTools(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{
		"echo": {class: call.Pure, run: echo(&runs)},
		"flood": {class: call.Pure, streaming: true,
			run: func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
				chunk := []byte(`"` + strings.Repeat("x", 200<<10) + `"`)
				for {
					if err := sink.Emit(ctx, envelope.ChunkData, chunk); err != nil {
						return tool.Result{}, err
					}
				}
			}},
		"panic": {class: call.Pure, run: func(context.Context, tool.Invocation, tool.Sink) (tool.Result,
			error) {
			panic("oh")
		}},
		"garbage": {class: call.Pure, run: func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{Output: []byte("{")}, nil
		}},
	})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	before := heap()
	for id, want := range map[string]envelope.Code{"flood": envelope.CodeOutputLimit, "panic": envelope.CodeToolFault,
		"garbage": ""} {
		r := mustCall(
			t,
			c,
			clientlib.Call{Tool: id, Timeout: 110 * time.Second, Retry: &envelope.RetryPolicy{MaxAttempts: 1}},
		)
		if r.Status == envelope.Success || want != "" && r.Error.Code != want {
			t.Errorf("%s: %s %+v", id, r.Status, r.Error)
		}
	}
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo"}), envelope.Success, "")
	if grown := int64(heap()) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// A payload store without room is named, and calls that need none go on. With room again, so do the others.
func TestFullPayloadStore(t *testing.T) {
	var runs atomic.Int64
	large := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 700<<10))
	d := deploy(t, map[string]spec{
		"echo": {class: call.Pure, run: echo(&runs)},
		"large": {class: call.Pure, run: func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{Output: []byte(large)}, nil
		}},
	})
	d.topology.PayloadBytes = 600 << 10
	d.dispatcher()
	d.executor(6)
	c := d.client()
	named := func(r *envelope.Response) {
		t.Helper()
		wantStatus(t, r, envelope.RetryableError, envelope.CodeStoreFull)
		if !strings.Contains(r.Error.Fix, "PAYLOADS") || !r.Provenance.Final {
			t.Errorf("%+v, final %t", r.Error, r.Provenance.Final)
		}
	}
	named(mustCall(t, c, clientlib.Call{Tool: "echo", Input: []byte(large), Timeout: time.Minute,
		Retry: &envelope.RetryPolicy{MaxAttempts: 1}}))
	r := mustCall(t, c, clientlib.Call{Tool: "large", Timeout: 4 * time.Second}) // it ends half a second before
	// a machine may be busy for longer than that
	if r.Error != nil && r.Error.Code == envelope.CodeTimeout {
		d.saidLate(envelope.CodeStoreFull)
	} else {
		named(r)
	}
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo"}), envelope.Success, "")
	js := d.srv.JetStream(t)
	stream, err := js.Stream(t.Context(), subjects.PayloadsStream)
	if err != nil {
		t.Fatal(err)
	}
	roomy := stream.CachedInfo().Config
	roomy.MaxBytes = 10 << 20
	if _, err := js.UpdateStream(t.Context(), roomy); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Input: []byte(large)}), envelope.Success, "")
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "large"}), envelope.Success, "")
}

// saidLate waits until it is on record how a run ended whose deadline was there first.
func (d *busDeployment) saidLate(code envelope.Code) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	for r, err := range reader.Replay(ctx, reader.Streams(d.srv.JetStream(d.t)),
		reader.Filter{Event: audit.LateResult, Follow: true}) {
		if err != nil || r.Code != code {
			d.t.Fatalf("it ended late with %s, want %s: %v", r.Code, code, err)
		}
		return
	}
}

// manifests loads tools that are all run by the native tool echo.
func manifests(t *testing.T, ids []string, files fstest.MapFS) *tool.Set {
	t.Helper()
	for _, id := range ids {
		files[subjects.Token(id)+"/tool.yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"tool_id: %s\nsemver: 1.0.0\nowner: \"@test\"\ndescription: %s\n"+
				"determinism: pure\ntransport: native\nendpoint: {native: echo}\nfunctions:\n  run: {request: any.json, "+
				"response: any.json}\n",
			id, strings.Repeat("long ", 400))}
		if any := subjects.Token(id) + "/any.json"; files[any] == nil {
			files[any] = &fstest.MapFile{Data: []byte(`{"type":"object"}`)}
		}
	}
	registry, err := tool.LoadFS(files, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// A thousand tools are more than one message can list.
func TestManyToolsAreListed(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	var ids []string
	for i := range 1000 {
		ids = append(ids, fmt.Sprintf("tool-%04d", i))
	}
	d.registry = manifests(t, ids, fstest.MapFS{})
	d.dispatcher()
	tools, err := d.client().Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, info := range tools {
		got = append(got, info.ToolID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%d tools: %q", len(got), got)
	}
}

// A caller checks by schemas that lie in several files of the tool.
func TestSchemaInSeveralFiles(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.registry = manifests(t, []string{"parts"}, fstest.MapFS{
		"parts/any.json":   {Data: []byte(`{"properties":{"n":{"$ref":"parts.json#/$defs/number"}}}`)},
		"parts/parts.json": {Data: []byte(`{"$defs":{"number":{"type":"integer"}}}`)},
	})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "parts", Input: []byte(`{"n":1}`)}), envelope.Success, "")
	r := mustCall(t, c, clientlib.Call{Tool: "parts", Input: []byte(`{"n":"x"}`)})
	if r.Status != envelope.InvalidRequest || len(r.Error.Details.Violations) != 1 ||
		r.Error.Details.Violations[0].Pointer != "/input/n" {
		t.Errorf("%s %+v", r.Status, r.Error)
	}
}

// Tools and actors whose names are not tokens work like any others.
func TestOddNames(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"local::fs.write": {class: call.Idempotent, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	for i, actor := range []string{"agent://ü/ p*>", strings.Repeat("a", 100), "a.b.c"} {
		nc := d.srv.Connect(t)
		c, err := clientlib.New(nc, clientlib.Options{Actor: actor})
		if err != nil {
			t.Fatal(err)
		}
		r := mustCall(t, c, clientlib.Call{Tool: "local::fs.write", Key: fmt.Sprint("odd-name-0123456789-", i),
			Input: []byte(`{"ok":true}`)})
		wantStatus(t, r, envelope.Success, "")
		if !bytes.Equal(r.Output, []byte(`{"ok":true}`)) {
			t.Errorf("%s", r.Output)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
