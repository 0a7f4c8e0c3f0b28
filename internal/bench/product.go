package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// product is Toolbus itself: a dispatcher, an executor and a client in this process, each with a connection of its own.
type product struct {
	client *client.Client
	caller *nats.Conn // of the client
	watch  *nats.Conn
	js     jetstream.JetStream // on the connection watch
	conns  []counted           // of caller, dispatcher and executor
	tools  int
	stop   func() error
}

// callsBytes is the size limit of the call log. It suffices for the longest row with large inputs.
const callsBytes = 20 << 30

func topology(partitions int) bus.TopologyOptions {
	return bus.TopologyOptions{CallsBytes: callsBytes, Partitions: partitions}
}

func startProduct(ctx context.Context, h *host, o Options, r *tool.Set) (*product, error) {
	p := &product{tools: r.Len()}
	running, cancel := context.WithCancel(ctx)
	parts, running := errgroup.WithContext(running)
	p.stop = func() error {
		err := p.hangUp()
		cancel()
		return errors.Join(err, parts.Wait())
	}
	if err := p.start(running, h, o, r, parts); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, p.ready(ctx)
}

// start starts dispatcher, executor and client. The dispatcher is first, because it answers the auth callout for the
// others.
func (p *product) start(ctx context.Context, h *host, o Options, r *tool.Set, parts *errgroup.Group) error {
	dispatcher, err := app.Connect("bench-dispatcher", app.Options{
		Options: link.Options{URL: h.url, Connect: h.connect}, Fsync: h.always, Topology: topology(o.Partitions),
		Keys: h.secrets.Keys()})
	if err != nil {
		return err
	}
	serves, all := make(chan struct{}), &party{}
	all.add(dispatcher.NC.Stats)
	parts.Go(func() error {
		defer dispatcher.Close()
		return app.RunDispatcher(ctx, dispatcher, app.DispatcherOptions{AllowAll: true, Tools: r, Version: toolbus.Version,
			Ready: func() { close(serves) }, Connected: all.add})
	})
	select {
	case <-serves:
	case <-ctx.Done():
		return ctx.Err()
	}
	executor, err := h.executor(ctx)
	if err != nil {
		return err
	}
	parts.Go(func() error {
		defer executor.Close()
		return app.RunExecutor(ctx, executor, app.ExecutorOptions{Tools: r, Adapters: Adapters(), Slots: o.Slots})
	})
	return p.connect(ctx, h, all, executor.NC)
}

// watchInbox is the inbox prefix of the benchmark's own requests to the server.
const watchInbox = "_WATCH"

// connect opens the connection of the caller, and one for the benchmark itself whose traffic is not counted.
func (p *product) connect(ctx context.Context, h *host, others ...counted) (err error) {
	if p.client, p.caller, err = h.caller(ctx, "bench-caller"); err != nil {
		return err
	}
	p.conns = append([]counted{p.caller}, others...)
	if p.watch, err = h.watch(); err != nil {
		return err
	}
	p.js, err = jetstream.New(p.watch)
	return err
}

// hangUp closes the client and the connections that connect has opened.
func (p *product) hangUp() (err error) {
	if p.client != nil {
		err = p.client.Close()
		p.caller.Close()
	}
	if p.watch != nil {
		p.watch.Close()
	}
	return err
}

// ready waits until a call succeeds.
func (p *product) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := p.call(ctx, "ready-"+nats.NewInbox(), toolID(0), input(minSize))
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// call makes one call with a key.
func (p *product) call(ctx context.Context, key, tool string, input jsontext.Value) error {
	resp, err := p.client.Call(ctx, client.Call{Tool: tool, Function: fnEcho, Input: input, Key: key})
	switch {
	case err != nil:
		return err
	case resp.Status != envelope.Success:
		return fmt.Errorf("call ended as %s", resp.Error)
	case len(resp.Output) != len(input):
		return fmt.Errorf("the output has %d bytes, the input %d", len(resp.Output), len(input))
	}
	return nil
}

// settle waits until every admission and every outcome is in the audit record.
func (p *product) settle(ctx context.Context) error { return settled(ctx, p.js) }

func settled(ctx context.Context, js jetstream.JetStream) error {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return err
	}
	for p := range subjects.Partition(n) {
		if err := settledIn(ctx, js, p); err != nil {
			return err
		}
	}
	return nil
}

func settledIn(ctx context.Context, js jetstream.JetStream, part subjects.Partition) error {
	done, since := uint64(0), time.Now()
	for {
		last, err := lastSeq(ctx, js, part.Stream())
		if err != nil {
			return err
		}
		projected, err := projection(ctx, js, part)
		if err != nil || projected >= last {
			return err
		}
		if projected > done {
			done, since = projected, time.Now()
		}
		if time.Since(since) > standstill {
			return nil
		}
		if !until(ctx, time.Now().Add(settlePoll)) {
			return fmt.Errorf("the log is at %d, its projection at %d: %w", last, projected, ctx.Err())
		}
	}
}

// Claims and joins are not recorded, so the last event of the log may never be. If the record has not grown for
// standstill, it is taken as complete. settlePoll is long, because each check costs CPU time of the server.
const (
	standstill = 2 * time.Second
	settlePoll = 25 * time.Millisecond
)

// projection returns the sequence up to which a partition of the log is recorded.
func projection(ctx context.Context, js jetstream.JetStream, part subjects.Partition) (uint64, error) {
	msg, err := lastMsg(ctx, js, subjects.AuditStream, part.AuditLog())
	if err != nil || msg == nil {
		return 0, err
	}
	s, _, err := audit.Open(msg.Data)
	return s.Through.Seq, err
}

// lastMsg returns the last message on a subject, or nil if the subject has no message.
func lastMsg(ctx context.Context, js jetstream.JetStream, stream, subject string) (*jetstream.RawStreamMsg, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	msg, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return msg, err
}

func lastSeq(ctx context.Context, js jetstream.JetStream, stream string) (uint64, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", stream, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}
