package flood

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Sizes and rates of floods.
const (
	messages      = 50_000
	rate          = 5_000 // per second
	oversized     = 2_000
	oversizedRate = 500
	oversize      = envelope.MaxEnvelope + 1
	slowCalls     = 4_000
	inputs        = 6 // number of large inputs that are sent at a time
	inputSize     = 50_000_000
	rounds        = 3               // of large inputs
	pause         = time.Second / 2 // between Ready and the first message
)

// Actor is the actor that sends floods, in the default tenant.
const Actor = "flooder"

// Kinds of floods that are named in code. Bursts are sent without pauses.
const (
	burst     = "burst"          // malformed messages
	bulk      = "oversize-burst" // messages that are too large
	rush      = "calls-burst"    // calls that are run
	slow      = "calls-slow"     // calls that take long
	calls     = "calls"
	questions = "questions"
	large     = "large"
)

// Kinds returns all kinds of floods.
func Kinds() []string {
	return []string{"malformed", "denied", "oversize", questions, large, calls, burst, bulk, rush, slow}
}

// Flood describes a flood.
type Flood struct {
	Kind, URL   string
	Credentials string // file with a token of Actor; "" if the deployment has no tokens
	Tool, Fn    string // function that takes Input
	SlowFn      string // slow function that takes Input
	Input       []byte // input of the requests
	Ready       func() // called when the connection is ready, pause before the first message
}

// Send sends the flood, at the rate of its kind.
func (f Flood) Send(ctx context.Context) error {
	c, err := link.Establish(ctx, link.Options{
		URL: f.URL, Name: "bench-flooder", Tenant: client.DefaultTenant, Actor: Actor, Credentials: f.Credentials,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if f.Kind == large {
		return f.calls(ctx, c)
	}
	msg, err := f.message()
	if err != nil {
		return err
	}
	n, each := messages, time.Second/rate
	if strings.HasPrefix(f.Kind, "oversize") {
		n, each = oversized, time.Second/oversizedRate
	}
	if slices.Contains([]string{burst, bulk, rush, slow}, f.Kind) {
		each = 0
	}
	if f.Kind == slow {
		n, f.Fn = slowCalls, f.SlowFn
	}
	f.Ready()
	timer.Sleep(ctx, pause)
	began := time.Now()
	for i := range n {
		if slices.Contains([]string{calls, rush, slow}, f.Kind) {
			msg.Data = f.request("*", uuid.NewString())
		}
		if err := c.NC.PublishMsg(msg); err != nil {
			return err
		}
		if each > 0 && !timer.Sleep(ctx, time.Until(began.Add(time.Duration(i)*each))) {
			return nil
		}
	}
	return c.NC.FlushTimeout(time.Minute)
}

// message returns the message that the flood repeats.
func (f Flood) message() (*nats.Msg, error) {
	const tenant = client.DefaultTenant
	msg := &nats.Msg{
		Subject: subjects.Call(tenant, Actor, f.Tool), Reply: subjects.Answers(tenant, Actor) + "word", Data: []byte("x"),
		Header: nats.Header{subjects.HeaderContentType: {envelope.ContentJSON}, subjects.HeaderAnswer: {"word"}},
	}
	if f.Credentials != "" {
		held, err := tokensource.Read(f.Credentials, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		msg.Header.Set(subjects.HeaderToken, held.Token())
	}
	switch f.Kind {
	case "denied":
		msg.Data = f.request("9.x", "key-0123456789abcdef")
	case "oversize", bulk:
		msg.Data = []byte(`{"input":"` + strings.Repeat("x", oversize) + `"}`)
	case questions:
		msg.Subject, msg.Data = subjects.Service(subjects.OpDescribe, tenant, Actor), []byte(`{"form":2}`)
	}
	return msg, nil
}

// request returns a request for a version of the tool.
func (f Flood) request(version, key string) []byte {
	const timeout = time.Minute
	return fmt.Appendf(nil, `{"call_id":%q,"tool_id":%q,"tool_version":%q,"fn":%q,"input":%s,`+
		`"context":{"actor_id":%q,"trace_id":%q,"timezone":"UTC","env":"dev"},`+
		`"constraints":{"timeout_ms":%d,"deadline_unix_ms":%d,"idempotency_key":%q}}`,
		uuid.NewString(), f.Tool, version, f.Fn, f.Input, Actor, uuid.NewString(),
		timeout.Milliseconds(), time.Now().Add(timeout).UnixMilli(), key)
}

// calls makes calls with large inputs, inputs of them at a time.
func (f Flood) calls(ctx context.Context, conn *link.Link) error {
	c, err := conn.Client(client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	f.Ready()
	timer.Sleep(ctx, pause)
	for n := range rounds {
		var g errgroup.Group
		for i := range inputs {
			in := fmt.Appendf(nil, `{"n":%d,"s":"%s"}`, n*inputs+i, strings.Repeat("x", inputSize))
			g.Go(func() error {
				_, err := c.Call(ctx, client.Call{
					Tool: f.Tool, Function: f.Fn, Input: in, Key: uuid.NewString(), Timeout: time.Minute,
				})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}
