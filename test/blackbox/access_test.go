package blackbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// password makes the server let in those that have it, and nobody else.
func password(secret string) natstest.Option {
	return func(o *server.Options) { o.Username, o.Password = "toolbus", secret }
}

// as returns the URL of a server with a user in it.
func as(user, url string) string { return strings.Replace(url, "nats://", "nats://"+user+"@", 1) }

// Processes that a server turns away for a while, as one with a wrong configuration does, work again
// when it lets them in.
func TestTurnedAwayForAWhile(t *testing.T) {
	var runs atomic.Int64
	srv := natstest.Start(t, password("right"))
	srv.URL = as("toolbus:right", srv.URL)
	d := deployOn(t, srv, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	processes := []*process{d.dispatcher(), d.executor(6)}
	srv.Restart(password("wrong"))
	for _, p := range processes {
		away := 0
		eventually(t, "the server turns it away again and again", func() bool {
			if errors.Is(p.conn.NC.LastError(), nats.ErrAuthorization) {
				away++
			}
			return away > 20 // looks, which is longer than two attempts take
		})
	}
	srv.Restart(password("right"))
	c := d.client()
	eventually(t, "calls are answered", func() bool {
		r, err := c.Call(t.Context(), clientlib.Call{Tool: "echo", Input: []byte(`{}`), Timeout: 10 * time.Second})
		return err == nil && r.Status == envelope.Success
	})
}

// ofCallLog finds the permissions that are of a partition of the call log.
var ofCallLog = regexp.MustCompile(`"([^"\n]*KV[_.])calls([^"\n]*)"`)

// narrow is the name of the executor that has the permissions of the manual.
const narrow = "e-narrow"

// ofTools finds the permissions that are of a tool of the executor.
var ofTools = regexp.MustCompile(`"[^"\n]*TOOL[^"\n]*"`)

// users is the server's configuration in the manual, with passwords filled in, and what stands for names, of tools, the
// pool and the instance of the executor.
func users(t *testing.T, tools ...string) []*server.User {
	t.Helper()
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(manual), "```\nauthorization {")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the manual has no authorization block")
	}
	block = ofTools.ReplaceAllStringFunc(block, func(entry string) (all string) {
		for _, id := range tools {
			all += " " + strings.ReplaceAll(entry, "TOOL", subjects.Token(id)) + ","
		}
		return strings.TrimSuffix(all, ",")
	})
	block = strings.NewReplacer("POOL", "default", "INSTANCE", narrow).Replace(block)
	block = ofCallLog.ReplaceAllString(block, `"${1}calls${2}", "${1}calls_1${2}"`) // for two partitions, as it says
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte("authorization {"+strings.ReplaceAll(block, `"..."`, "secret")),
		0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return o.Users
}

// guarded is a deployment whose processes and callers have the least permissions.
type guarded struct {
	*busDeployment
	url     string // without a user
	mu      sync.Mutex
	refused []error // what the server did not let processes and agents do
}

func (g *guarded) watch(nc *nats.Conn) {
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refused = append(g.refused, err)
	})
}

func (g *guarded) seen() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.refused)
}

func (g *guarded) agent(actor string) *clientlib.Client {
	g.t.Helper()
	g.srv.URL = as("agent:secret", g.url)
	nc := g.srv.Connect(g.t)
	g.watch(nc)
	js, err := jetstream.New(nc)
	if err != nil {
		g.t.Fatal(err)
	}
	c, err := clientlib.New(nc, clientlib.Options{Actor: actor, Payloads: link.OpenPayloads(js)})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

func guard(t *testing.T, tools map[string]spec) *guarded {
	t.Helper()
	return guardBy(t, tools, users(t, slices.Collect(maps.Keys(tools))...))
}

// guardBy is guard with permissions of its own.
func guardBy(t *testing.T, tools map[string]spec, users []*server.User) *guarded {
	t.Helper()
	srv := natstest.Start(t, func(o *server.Options) { o.Users = users })
	g := &guarded{url: srv.URL}
	g.busDeployment = deployOn(t, srv, tools)
	g.strict = true // which takes one permission more
	srv.URL = as("dispatcher:secret", g.url)
	g.watch(g.dispatcher().conn.NC)
	srv.URL, g.instance = as("executor:secret", g.url), narrow
	g.watch(g.executor(6).conn.NC)
	return g
}

// An executor may do nothing that its list does not name: neither with the streams and their consumers, nor in the name
// of others, nor what dispatchers do for it.
func TestExecutorMayDoNothingElse(t *testing.T) {
	g := guard(t, map[string]spec{"echo": {class: call.Pure, run: echo(new(atomic.Int64))}})
	refused := make(chan error, 1)
	nc := g.srv.Connect(t, nats.CustomInboxPrefix("_INBOX."+narrow))
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })
	key := subjects.Key{Tool: "echo", ID: "id"}
	other := subjects.Key{Tool: "other", ID: "id"}
	for _, subject := range []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.KV_calls", "$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.UPDATE.AUDIT",
		"$JS.API.STREAM.DELETE.CHUNKS", "$JS.API.STREAM.MSG.GET.KV_calls", "$JS.API.DIRECT.GET.PAYLOADS",
		"$JS.API.DIRECT.GET.CHUNKS", "$JS.API.CONSUMER.CREATE.KV_calls.x", "$JS.API.CONSUMER.INFO.KV_calls.exec_default_low",
		"$JS.API.CONSUMER.MSG.NEXT.KV_calls.exec_other_low", "$JS.ACK.KV_calls.exec_other_low.1.1.1.1.0",
		key.Request(1, "1.0.0", "low", "default"), key.Join(1), key.Claim(1, "another"), key.Outcome(1, "another"),
		other.Claim(1, narrow), other.Outcome(1, narrow), subjects.PoolSubject("default", "another"),
		subjects.PoolSubject("other", narrow), subjects.JournalSubject("x", "t"), subjects.Denied("x", "t"),
		subjects.Dead("t", "echo"), part0.Audit("t"), subjects.ExecutorRequest(subjects.OpLog, "other", narrow),
		subjects.ExecutorRequest(subjects.OpLog, "default", "another"),
		subjects.ExecutorReply("default", "another", "word"), subjects.Kill("id"), subjects.Locate("id"), subjects.JoinerLeft,
		subjects.Call("default", "agent://a", "echo"), subjects.Service(subjects.OpResult, "default", "agent://a"),
	} {
		if err := errors.Join(nc.Publish(subject, nil), nc.Flush()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !strings.Contains(err.Error(), subject) {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("it may publish to %s", subject)
		}
	}
	for _, subject := range []string{
		"_INBOX.>", "_INBOX.another.>", "tb.>", "tb.ans.>", "tb.call.>", "tb.exe.>", "$KV.>", "$JS.>", "tb.chunk.>",
	} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !strings.Contains(err.Error(), subject) {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("it may subscribe to %s", subject)
		}
	}
}

const part0 = subjects.Partition(0)

// With the permissions that the manual gives, everything works but large payloads: calls, chunks while a tool
// runs, questions, cancels and the record. Nothing that is done is refused by the server.
func TestLeastPermissions(t *testing.T) {
	started, stopped := make(chan struct{}), make(chan struct{})
	g := guard(t, map[string]spec{
		"pay": {class: call.SideEffectful, run: echo(new(atomic.Int64))},
		"count": {class: call.Pure, streaming: true,
			run: func(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
				return tool.Result{Output: inv.Input}, errors.Join(s.Emit(ctx, envelope.ChunkData, []byte("1")),
					s.Emit(ctx, envelope.ChunkData, []byte("2")))
			}},
		"sleep": {class: call.SideEffectful, run: func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result,
			error) {
			close(started)
			<-ctx.Done()
			close(stopped)
			return tool.Result{}, ctx.Err()
		}},
	})
	c := g.agent("agent://a")
	for _, call := range []clientlib.Call{
		{Tool: "pay", Input: []byte(`{}`)},
		{Tool: "count", Input: []byte(`{}`), OnChunk: func(envelope.Chunk) error { return nil }},
	} {
		if r, err := c.Call(t.Context(), call); err != nil || r.Status != envelope.Success {
			t.Fatalf("%s: %v, %v", call.Tool, r, err)
		}
	}
	accepted := make(chan envelope.Accepted, 1)
	go func() { // its answer is looked for below
		_, _ = c.Call(context.WithoutCancel(t.Context()),
			clientlib.Call{Tool: "sleep", Input: []byte(`{}`), OnAccepted: func(a envelope.Accepted) { accepted <- a }})
	}()
	a := <-accepted
	<-started
	q := envelope.CallRef{Ref: a.Ref, CallID: a.CallID}
	if _, err := c.Why(t.Context(), q); err != nil {
		t.Error(err)
	}
	if told, err := c.Cancel(t.Context(), q); err != nil || told.Phase != "running" {
		t.Errorf("cancel: %+v, %v", told, err)
	}
	<-stopped
	if r, err := c.Result(t.Context(), q); err != nil || r.Response == nil ||
		r.Response.Error.Code != envelope.CodeCancelledUnknown {
		t.Errorf("result: %+v, %v", r, err)
	}
	g.srv.URL = as("operator:secret", g.url)
	js := g.srv.JetStream(t)
	eventually(t, "all is on record", func() bool {
		n := 0
		for _, err := range reader.Replay(t.Context(), reader.Streams(js), reader.Filter{}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n >= 6 // requested and ended, of three calls
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.refused) > 0 {
		t.Errorf("the server refused: %v", g.refused)
	}
}

// An executor with the permissions of an older build may not pull what goes behind. It says so, and nothing goes there.
func TestPermissionsBeforeQueuesBehind(t *testing.T) {
	tools := map[string]spec{"echo": {class: call.Pure, run: echo(new(atomic.Int64))}}
	older := users(t, "echo")
	for _, u := range older {
		if may := u.Permissions; may != nil && may.Publish != nil {
			may.Publish.Allow = slices.DeleteFunc(may.Publish.Allow, func(s string) bool {
				return strings.Contains(s, "-behind")
			})
		}
	}
	g := guardBy(t, tools, older)
	eventually(t, "the executor has tried, and again", func() bool {
		tried := map[string]int{}
		for _, err := range g.seen() {
			tried[err.Error()]++
		}
		return len(tried) > 0 && slices.Min(slices.Collect(maps.Values(tried))) > 1
	})
	c := g.agent("agent://a")
	var calls sync.WaitGroup
	for range 10 * admission.DefaultOverflowAfter {
		calls.Go(func() {
			r, err := c.Call(t.Context(), clientlib.Call{
				Tool: "echo", Input: []byte(`{}`), Key: uuid.NewString(), Timeout: 20 * time.Second,
			})
			if err != nil || r.Status != envelope.Success {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	calls.Wait()
}

// Whoever may not speak for an actor is told so, and not that the bus is silent.
func TestNotAllowed(t *testing.T) {
	g := guard(t, map[string]spec{"echo": {class: call.Pure, run: echo(new(atomic.Int64))}})
	c := g.agent("agent://b")
	r, err := c.Call(t.Context(), clientlib.Call{Tool: "echo", Input: []byte(`{}`)})
	if err != nil || r.Status != envelope.TerminalError || r.Error.Code != envelope.CodeForbidden ||
		!strings.Contains(r.Error.Message, "agent://b") {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := c.Tools(t.Context()); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("got %v", err)
	}
}

// Nobody answers a request whose reply is not below the prefix of the actor in its subject: the server might take
// the answer for a request of one of its own processes, and another caller for an answer to its own.
func TestRepliesElsewhere(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	nc := d.srv.Connect(t)
	heard := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("elsewhere.>", heard); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.ChanSubscribe("tb.ans.>", heard); err != nil {
		t.Fatal(err)
	}
	asked := func(reply string) {
		_, body := written("key-" + reply)
		for subject, body := range map[string][]byte{
			subjects.Call("default", "agent://local", "echo"):                 body,
			subjects.Service(subjects.OpDescribe, "default", "agent://local"): []byte(`{"form":2}`),
		} {
			header := nats.Header{subjects.HeaderContentType: {envelope.ContentJSON}}
			if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: body, Header: header}); err != nil {
				t.Fatal(err)
			}
		}
	}
	own := subjects.Answers("default", "agent://local")
	for _, reply := range []string{
		"$JS.API.STREAM.DELETE.CHUNKS", "elsewhere.a", strings.TrimSuffix(own, ".") + "x.a",
		subjects.Answers("default", "agent://other") + "a",
		subjects.Answers("other", "agent://local") + "a",
	} {
		asked(reply)
	}
	for n := range int64(3) { // an answer elsewhere would have come by then
		asked(fmt.Sprint(own, n))
		for range 3 { // accepted, outcome, and what the tool is
			if msg := <-heard; !strings.HasPrefix(msg.Subject, own) {
				t.Errorf("something came to %s: %s", msg.Subject, msg.Data)
			}
		}
	}
	if n := runs.Load(); n != 3 {
		t.Errorf("%d calls ran, want 3", n)
	}
	if _, err := d.srv.JetStream(t).Stream(t.Context(), subjects.ChunksStream); err != nil {
		t.Errorf("an answer deleted a stream: %v", err)
	}
}
