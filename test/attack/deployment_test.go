package attack

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// holdTime is the timeout of the victim's call: longer than any attack on it takes on a busy machine.
const holdTime = 10 * time.Minute

// Who is there: the victim, and those who attack. All have valid credentials.
const (
	alice        = "agent://alice"   // the victim, an agent of the tenant acme
	bob          = "agent://bob"     // another agent of that tenant
	mallory      = "agent://mallory" // an agent of the tenant evil
	door         = "door://front"    // of acme
	auditor      = "auditor://a"     // of acme
	auditorOfAll = "auditor://all"   // of evil, who may read the record of all tenants
	operator     = "operator://o"    // of evil
	insider      = "executor://in"   // a second executor of the pool of the victim's call
	outsider     = "executor://out"  // an executor of another pool
)

// parties says of each what its token says.
func parties() map[string]auth.Principal {
	return map[string]auth.Principal{
		alice:        {Tenant: "acme", Role: auth.Agent},
		bob:          {Tenant: "acme", Role: auth.Agent},
		mallory:      {Tenant: "evil", Role: auth.Agent, Scopes: []string{auth.ScopeAll}},
		door:         {Tenant: "acme", Role: auth.Gateway},
		auditor:      {Tenant: "acme", Role: auth.Auditor},
		auditorOfAll: {Tenant: "evil", Role: auth.Auditor, Scopes: []string{auth.ScopeAudit}},
		operator:     {Tenant: "evil", Role: auth.Operator, Scopes: []string{auth.ScopeAll}},
		insider:      {Tenant: "acme", Role: auth.Executor, Pool: "default"},
		outsider:     {Tenant: "evil", Role: auth.Executor, Pool: "other"},
	}
}

// devDeployment is a server with the configuration that deployments have, a dispatcher and two executors, as processes
// are, and the call of a victim that is running all the time.
type devDeployment struct {
	*testing.T
	dir    string // of keys and configurations
	url    string // of all servers
	tls    *tls.Config
	keys   *deployment.Keys
	signer *auth.Signer
	store  *tokenstore.Store
	admin  *nats.Conn // may see all that happens
	js     jetstream.JetStream
	real   string // the instance that runs the victim's call

	crowd map[string]*party
	log   overheard // of the server
	tap   tap
	paid  payments

	release chan struct{} // closed to let the victim's call end
	gates   sync.Map      // chan struct{} by the input of another held call, closed to let it end
	runs    atomic.Int64  // of the victim's call
	opened  atomic.Int64  // runs of the tool open
	killed  atomic.Int64  // held calls whose run was ended
	died    chan struct{} // has a value then
	subs    []subscription
	victim  *held
}

// gate returns what is closed to let the held call with that input end.
func (d *devDeployment) gate(in string) chan struct{} {
	if in == secret {
		return d.release
	}
	gate, _ := d.gates.LoadOrStore(in, make(chan struct{}))
	return gate.(chan struct{})
}

// secret is the input of the victim's call.
const secret = "secret"

// held is a call that runs until its gate is closed. The chunks are to be read when it is done.
type held struct {
	client *clientlib.Client
	Accepted
	chunks  []string
	count   atomic.Int64  // of chunks, at any time
	comes   chan struct{} // a chunk has come, for each of the first ones
	outcome *envelope.Response
	done    chan error
}

// Accepted is what the victim knows of its call.
type Accepted = envelope.Accepted

func deploy(t *testing.T) *devDeployment {
	t.Helper()
	return deployWith(t, toolbus.DispatcherOptions{})
}

func deployWith(t *testing.T, o toolbus.DispatcherOptions) *devDeployment {
	t.Helper()
	d := &devDeployment{
		T: t, dir: t.TempDir() + "/target", crowd: map[string]*party{}, release: make(chan struct{}),
		died: make(chan struct{}, 1),
	}
	d.serve()
	var err error
	d.signer, err = d.keys.Signer()
	d.ok(err)
	public, err := d.keys.Public()
	d.ok(err)
	d.dispatcher(d.url, o)
	d.administer(public)
	d.real = d.executor(auth.Principal{Tenant: "acme", Actor: "executor://real", Pool: "default"})
	d.executor(auth.Principal{Tenant: "evil", Actor: "executor://vault", Pool: "other"})
	for name := range parties() {
		d.crowd[name] = d.join(name)
	}
	d.tap.listen(d)
	d.hold()
	return d
}

func (d *devDeployment) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// tools are those of the deployment: vault of the pool other, and the rest of the pool default.
func (d *devDeployment) tools() *toolbus.Toolset {
	tools := toolbus.NewToolset()
	d.ok(toolbus.Add(tools, toolbus.Tool{ID: "echo", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { return in, nil }))
	d.ok(toolbus.Add(tools, toolbus.Tool{ID: "vault", Class: toolbus.Pure, Pool: "other"},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { return "gold for " + in, nil }))
	d.ok(toolbus.Add(tools, toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful, AcceptRerun: true}, d.paid.pay))
	d.ok(toolbus.Add(tools, toolbus.Tool{ID: "weigh", Class: toolbus.Idempotent}, d.paid.pay))
	d.ok(toolbus.Add(tools, toolbus.Tool{
		ID: "open", Class: toolbus.Pure,
		Request: []byte(`{"properties":{"path":{"format":"path"},"run":{"format":"command"}}}`),
	}, func(_ context.Context, _ *toolbus.Run, in map[string]any) (bool, error) {
		d.opened.Add(1)
		return true, nil
	}))
	d.ok(toolbus.Add(tools, toolbus.Tool{ID: "look", Class: toolbus.Pure}, d.paid.pay))
	d.ok(toolbus.Add(tools, toolbus.Tool{
		ID: "hold", Class: toolbus.Pure, Streaming: true, Timeout: holdTime, MaxTimeout: holdTime,
		Concurrency: 1000,
	}, func(ctx context.Context, run *toolbus.Run, in string) (string, error) {
		if in == secret {
			d.runs.Add(1)
		}
		d.ok(run.Emit("first"))
		select {
		case <-d.gate(in):
		case <-ctx.Done():
			d.killed.Add(1)
			select {
			case d.died <- struct{}{}:
			default: // no test waits for it
			}
			return "", ctx.Err()
		}
		return "true", run.Emit("last")
	}))
	return tools
}

// quiet loses what processes log, but for what the test itself looks at.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// part runs a part of the bus until the test ends.
func (d *devDeployment) part(conn *toolbus.Conn, err error, run func(context.Context,
	func(string)) error) (name string) {
	d.Helper()
	d.ok(err)
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		defer close(ended) // for the cleanup, after a part that did not start
		ended <- run(context.WithoutCancel(d.Context()), func(name string) { ready <- name })
	}()
	d.Cleanup(func() {
		conn.Close()
		if err := <-ended; err != nil {
			d.Error(err)
		}
	})
	select {
	case name = <-ready:
	case err := <-ended:
		d.Fatal("a part of the bus did not start: ", err)
	}
	return name
}

func (d *devDeployment) dispatcher(at string, o toolbus.DispatcherOptions) {
	d.Helper()
	conn, err := toolbus.Connect(d.Context(), at, toolbus.Options{
		SecretsDir: filepath.Join(d.dir, "keys"), Logger: quiet(), NATS: d.options(),
	})
	d.part(conn, err, func(ctx context.Context, ready func(string)) error {
		o.AllowAll, o.Ready = true, ready
		p, err := conn.Dispatcher(d.tools(), o)
		d.ok(err)
		return p.Run(ctx)
	})
}

func (d *devDeployment) executor(p auth.Principal) (instance string) {
	p.Role = auth.Executor
	token, p := d.token(p)
	o := toolbus.Options{Instance: auth.NewInstanceID(p), NATS: d.options(nats.Token(token)), Logger: quiet()}
	o.Name = auth.ConnectionName(o.Instance)
	conn, err := toolbus.Connect(d.Context(), d.url, o)
	return d.part(conn, err, func(ctx context.Context, ready func(string)) error {
		e, err := conn.Executor(d.tools(), toolbus.ExecutorOptions{Pool: p.Pool, Drain: time.Millisecond, Ready: ready})
		d.ok(err)
		return e.Run(ctx)
	})
}

// administer connects with the key that is in the server's file.
func (d *devDeployment) administer(public deployment.Public) {
	var err error
	d.admin, err = nats.Connect(d.url, d.options(nats.Nkey(public.Dispatcher, d.keys.Dispatcher.Sign))...)
	d.ok(err)
	d.Cleanup(d.admin.Close)
	d.js, err = jetstream.New(d.admin)
	d.ok(err)
	d.store, err = tokenstore.Open(d.Context(), d.js, d.keys, tokenstore.Options{Now: time.Now})
	d.ok(err)
	var done sync.WaitGroup
	ctx, stop := context.WithCancel(context.WithoutCancel(d.Context()))
	done.Go(func() { d.store.Run(ctx) })
	d.Cleanup(func() { stop(); done.Wait() })
	<-d.store.Ready()
}

// token mints a token for a principal, which is completed.
func (d *devDeployment) token(p auth.Principal) (string, auth.Principal) {
	d.Helper()
	p.ID = auth.NewID()
	if p.Family == "" {
		p.Family = auth.NewID()
	}
	if p.Issued.IsZero() {
		p.Issued = time.Now().Add(-time.Minute)
	}
	if p.Expires.IsZero() {
		p.Expires = time.Now().Add(time.Hour)
	}
	text, err := d.signer.Mint(p)
	d.ok(err)
	return text, p
}

// party is somebody with a connection.
type party struct {
	auth.Principal
	token, instance string
	nc              *nats.Conn
	heard           ears
}

// dial connects with a token, under the name that its holder would have.
func (d *devDeployment) dial(token, name string, more ...nats.Option) (*nats.Conn, error) {
	options := append([]nats.Option{
		nats.Token(token), nats.Name(name), nats.NoReconnect(), nats.Timeout(10 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, more...)
	return nats.Connect(d.url, d.options(options...)...)
}

func (d *devDeployment) join(actor string) *party {
	d.Helper()
	p := &party{Principal: parties()[actor]}
	p.Actor = actor
	p.token, p.Principal = d.token(p.Principal)
	inbox, name := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox(), actor
	if p.Role == auth.Executor {
		p.instance = auth.NewInstanceID(p.Principal)
		inbox, name = subjects.InboxOf(p.instance), auth.ConnectionName(p.instance)
	}
	var err error
	p.nc, err = d.dial(p.token, name, nats.CustomInboxPrefix(inbox))
	d.ok(err)
	d.Cleanup(p.nc.Close)
	hears := []string{subjects.Answers(p.Tenant, p.Actor) + ">", inbox + ".>"}
	if p.Role == auth.Agent {
		hears = append(hears, "tb.chunk."+subjects.Token(p.Tenant)+"."+subjects.Token(p.Actor)+".>")
	}
	for _, s := range hears {
		_, err = p.nc.Subscribe(s, p.heard.hear)
		d.ok(err)
	}
	d.ok(p.nc.Flush())
	return p
}

// client is what the library makes of the connection of a party.
func (d *devDeployment) client(p *party) *clientlib.Client {
	d.Helper()
	js, err := jetstream.New(p.nc)
	d.ok(err)
	c, err := clientlib.New(p.nc, clientlib.Options{
		Tenant: p.Tenant, Actor: p.Actor, Token: func() string { return p.token }, Payloads: link.OpenPayloads(js),
	})
	d.ok(err)
	d.Cleanup(func() { _ = c.Close() })
	return c
}

// heldKey is the key of the victim's call, as others may guess it.
const heldKey = "a key that is easy to guess"

// hold starts the victim's call, which runs until it is released.
func (d *devDeployment) hold() {
	d.victim = d.begin(secret, heldKey)
	stream, err := d.js.Stream(d.Context(), subjects.ChunksStream)
	d.ok(err)
	for stored := false; !stored && !d.Failed(); { // it may be heard before
		info, err := stream.Info(d.Context())
		d.ok(err)
		stored = info.State.Msgs > 0
	}
}

// begin starts a call of the victim's with an input, and returns when its first chunk is here.
func (d *devDeployment) begin(in, key string) *held {
	d.Helper()
	v := &held{done: make(chan error, 1), comes: make(chan struct{}, 10)}
	if d.victim == nil {
		v.client = d.client(d.crowd[alice])
	} else {
		v.client = d.victim.client
	}
	accepted := make(chan Accepted, 1)
	go func() {
		var err error
		v.outcome, err = v.client.Call(context.WithoutCancel(d.Context()), clientlib.Call{
			Tool: "hold", Input: []byte(strconv.Quote(in)), Key: key, Timeout: holdTime,
			OnAccepted: func(a Accepted) { accepted <- a },
			OnChunk: func(c envelope.Chunk) error {
				v.count.Add(1)
				if v.chunks = append(v.chunks, string(c.Data)); len(v.chunks) <= cap(v.comes) {
					v.comes <- struct{}{}
				}
				return nil
			},
		})
		v.done <- err
	}()
	v.Accepted = <-accepted
	<-v.comes
	return v
}

// finish lets the victim's call end: it has run once, and ends as it would have. Then somebody else's call works.
func (d *devDeployment) finish() {
	d.Helper()
	d.bystander()
	close(d.release)
	v := d.victim
	d.ok(<-v.done)
	if o := v.outcome; o.Status != envelope.Success || string(o.Output) != `"true"` {
		d.Errorf("the victim's call ended with %+v", o)
	}
	if want := []string{`"first"`, `"last"`}; !slices.Equal(v.chunks, want) {
		d.Errorf("the victim got the chunks %q", v.chunks)
	}
	key, err := subjects.ParseRef(v.Ref)
	d.ok(err)
	log, err := d.js.Stream(d.Context(), subjects.Partition(0).Stream())
	d.ok(err)
	if last, err := log.GetLastMsgForSubject(d.Context(), key.Filter()); err != nil || last.Subject != key.Outcome(1,
		d.real) {
		d.Errorf("the log of the victim's call ends with %v, %v", last, err)
	}
	if n := d.runs.Load(); n != 1 {
		d.Errorf("the victim's call ran %d times", n)
	}
}

// bystander makes a call that has to do with nobody.
func (d *devDeployment) bystander() {
	d.Helper()
	in := fmt.Sprintf(`"%d"`, time.Now().UnixNano())
	for _, tool := range []string{"echo", "vault"} {
		r, err := d.victim.client.Call(d.Context(), clientlib.Call{Tool: tool, Input: []byte(in)})
		if err != nil || r.Status != envelope.Success || !bytes.Contains(r.Output, []byte(strings.Trim(in, `"`))) {
			d.Fatalf("a bystander's call of %s: %+v, %v", tool, r, err)
		}
	}
}

// keyOf is the public half of the key that tokens are signed with.
func (d *devDeployment) keyOf() ed25519.PublicKey {
	d.Helper()
	key, err := d.keys.Signing()
	d.ok(err)
	return key.Public().(ed25519.PublicKey)
}
