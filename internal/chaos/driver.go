package chaos

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/chaos/executor"
	"github.com/seed-018f16cc/toolbus/internal/chaos/history"
	"github.com/seed-018f16cc/toolbus/internal/chaos/mcpclient"
	"github.com/seed-018f16cc/toolbus/internal/chaos/stall"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const tenant = "default"

// driver makes the calls of a run, and records what callers see.
type driver struct {
	conns   []*link.Link // by caller
	others  []*link.Link
	boxes   []*history.Mailbox // by caller
	visitor *mcpclient.Visitor
	callers []*client.Client
	begun   time.Time
	pulse   *stall.Pulse
	journal *history.Journal
	// operator manages credentials, policies, locks and runs. door is the connection of a gateway that calls for other
	// actors; nil without tokens.
	operator *admin.Client
	door     *link.Link
	wg       sync.WaitGroup

	mu      sync.Mutex
	cancels []checker.Cancel
}

// newDriver connects a number of callers through their proxies.
func newDriver(ctx context.Context, c *cluster, callers int) (*driver, error) {
	j, err := history.NewJournal(filepath.Join(c.dir, "asks.json"))
	if err != nil {
		return nil, err
	}
	d := &driver{journal: j, visitor: mcpclient.New(c.doors)}
	err = d.look(ctx, c)
	for i := range callers {
		if err == nil {
			err = d.join(ctx, c, i)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// look connects operator and, if the deployment has tokens, door.
func (d *driver) look(ctx context.Context, c *cluster) (err error) {
	if d.operator, err = c.connectOperator(ctx); err != nil || c.deployment == nil {
		return err
	}
	d.door, err = link.Establish(ctx, link.Options{
		URL: c.url(lines[0]), Credentials: c.deployment.Credentials(door)})
	if err == nil {
		d.others = append(d.others, d.door)
	}
	return err
}

// join connects one caller. Each has its own connection, because with tokens a connection belongs to one actor. A
// caller behind a gateway uses the connection door.
func (d *driver) join(ctx context.Context, c *cluster, i int) error {
	if behindDoor(i) { // with the token of the caller before it
		client, err := client.New(d.door.NC,
			client.Options{Tenant: tenant, Actor: actorOf(i), Token: d.callers[i-1].Token})
		if err != nil {
			return err
		}
		box, err := history.NewMailbox(d.door.NC, tenant, actorOf(i))
		d.conns, d.boxes, d.callers = append(d.conns, d.door), append(d.boxes, box), append(d.callers, client)
		return err
	}
	line := lines[i/2%len(lines)]
	conn, err := link.Establish(ctx, link.Options{URL: c.url(line), Name: "chaos-" + line,
		Credentials: c.deployment.Credentials(callerName(i))})
	if err != nil {
		return err
	}
	d.conns = append(d.conns, conn)
	client, err := conn.Client(client.Options{
		Tenant: tenant, Actor: actorOf(i), Now: func() time.Time { return time.Now().Add(callerSkew(i)) },
	})
	if err != nil {
		return err
	}
	d.callers = append(d.callers, client)
	box, err := history.NewMailbox(conn.NC, tenant, actorOf(i))
	d.boxes = append(d.boxes, box)
	return err
}

func (d *driver) close() error {
	var errs []error
	closers := []io.Closer{}
	for _, c := range d.callers {
		closers = append(closers, c)
	}
	if d.operator != nil {
		closers = append(closers, d.operator)
	}
	for _, c := range closers {
		if err := c.Close(); !errors.Is(err, nats.ErrConnectionClosed) {
			errs = append(errs, err)
		}
	}
	for _, nc := range append(d.conns, d.others...) {
		nc.Close()
	}
	d.visitor.Close()
	return errors.Join(errs...)
}

// seen returns all asks, and closes the journal.
func (d *driver) seen() (all []checker.Ask, err error) {
	defer func() { err = errors.Join(err, d.journal.Close()) }()
	for a, err := range d.journal.Asks() {
		if err != nil {
			return nil, err
		}
		all = append(all, *a)
	}
	return all, nil
}

// run plays the plan and makes steady calls, and returns when all have ended.
func (d *driver) run(ctx context.Context, plan []play, steady float64, lasts time.Duration) {
	defer d.wg.Wait()
	d.wg.Go(func() { d.steady(ctx, steady, lasts) })
	for _, p := range plan {
		if !timer.Sleep(ctx, time.Until(d.begun.Add(p.at))) {
			return
		}
		d.wg.Go(func() { d.play(ctx, &p) })
	}
}

// steady makes rate calls per second, each with its own key.
func (d *driver) steady(ctx context.Context, rate float64, lasts time.Duration) {
	for n := int64(0); rate > 0; n++ {
		at := time.Duration(float64(n) / rate * float64(time.Second))
		if at > lasts || !timer.Sleep(ctx, time.Until(d.begun.Add(at))) {
			return
		}
		d.wg.Go(func() {
			p := steadyPlay(n)
			d.ask(ctx, p, p.asks[0], p.scene, false)
		})
	}
}

// steadyTime is the timeout of a steady call.
const steadyTime = 5 * time.Second

func steadyPlay(n int64) *play {
	return &play{
		scene: "steady", spec: executor.Spec(), key: fmt.Sprintf("steady-%08d-key", n), input: effects.Input{N: n},
		asks: []ask{{caller: int(n % callers), callID: uuid.NewString(), timeout: steadyTime}},
	}
}

// play makes the requests for one key according to its plan.
func (d *driver) play(ctx context.Context, p *play) {
	var first sync.WaitGroup
	results := make([]*envelope.Response, len(p.asks))
	for i, a := range p.asks {
		first.Go(func() {
			if timer.Sleep(ctx, a.after) {
				results[i] = d.ask(ctx, p, a, p.scene, false)
			}
		})
	}
	if p.cancel > 0 && timer.Sleep(ctx, p.cancel) {
		d.cancel(ctx, p, p.asks[0])
	}
	first.Wait()
	d.retry(ctx, p, results[0])
	for _, g := range p.again {
		if timer.Sleep(ctx, g.after) {
			a := p.asks[g.of]
			d.ask(ctx, p, ask{caller: a.caller, callID: a.callID, timeout: 3 * time.Second}, "again", false)
		}
	}
	if p.other {
		a := p.asks[0]
		d.ask(ctx, p, ask{caller: a.caller, callID: uuid.NewString(), timeout: 3 * time.Second}, "other input", true)
	}
}

// retry repeats the request with the same key while its outcome is retryable or missing.
func (d *driver) retry(ctx context.Context, p *play, r *envelope.Response) {
	for n := range p.retries {
		if r == nil || r.Provenance.Final && r.Status != envelope.RetryableError {
			return
		}
		a := ask{caller: p.asks[0].caller, callID: uuid.NewString(), timeout: 5 * time.Second, stream: p.asks[0].stream,
			mcp: p.asks[0].mcp}
		if p.patience > 0 && n+1 < p.retries {
			a.timeout = p.patience
		}
		r = d.ask(ctx, p, a, fmt.Sprint("retry ", n+1), false)
	}
}

// record returns the entry of an ask in the history, without answers, and its request.
func (d *driver) record(p *play, a ask, scene string, other bool) (checker.Ask, *envelope.Request) {
	req := p.request(a.caller, p.encoded(a.caller, other))
	fingerprint, err := envelope.Fingerprint(req)
	if err != nil {
		panic("unreachable: " + err.Error()) // the input is valid
	}
	return checker.Ask{
		Caller: callerName(a.caller), Actor: actorOf(a.caller), Scene: scene, Run: p.run, Tool: p.spec.ID, Key: p.key,
		CallID:      a.callID,
		Ref:         subjects.Key{Tool: p.spec.ID, ID: envelope.CallKeyID(tenant, req)}.Ref(),
		Fingerprint: fingerprint, N: p.n(other), Streamed: a.stream, Copies: a.raw > 0,
		Door: behindDoor(a.caller),
	}, req
}

// ask makes one request, waits for its answer, and records both.
func (d *driver) ask(ctx context.Context, p *play, a ask, scene string, other bool) *envelope.Response {
	seen, req := d.record(p, a, scene, other)
	seen.Sent = time.Now()
	seen.Due = seen.Sent.Add(a.timeout)
	control := stall.NewControl(seen.Due.Add(waits))
	switch {
	case a.raw > 0:
		d.raw(ctx, &seen, req, a)
	case a.mcp:
		d.visit(ctx, &seen, req, a)
	default:
		d.call(ctx, &seen, req, a)
	}
	seen.Done = time.Now()
	seen.StalledMS = d.stalled(&seen, control)
	if ctx.Err() == nil {
		d.journal.Add(&seen)
	}
	if len(seen.Answers) == 0 {
		return nil
	}
	return seen.Answers[0]
}

// stalled returns the largest delay of control timers around the time of the request and around its deadline, in
// milliseconds: those of the process, and that of the caller. It waits for the current timers.
func (d *driver) stalled(a *checker.Ask, own *stall.Control) int64 {
	if a.Done.Before(a.Due) {
		own.Stop()
		return 0
	}
	<-time.After(2 * stall.Beat)
	const around = 100 * time.Millisecond
	late := max(d.pulse.Late(a.Sent.Add(-around), a.Sent.Add(around)), d.pulse.Late(a.Due.Add(-around), a.Done),
		own.Wait())
	return (late + time.Millisecond - 1).Milliseconds()
}

// call makes the request with the client library.
func (d *driver) call(ctx context.Context, seen *checker.Ask, req *envelope.Request, a ask) {
	c := client.Call{
		Tool: req.ToolID, Function: req.Fn, Input: req.Input, Timeout: a.timeout, Key: req.Constraints.IdempotencyKey,
		KeyScope: req.Constraints.IdempotencyScope, Priority: req.Constraints.Priority, CallID: a.callID,
		Context:    envelope.RequestContext{RunID: req.Context.RunID},
		Retry:      &envelope.RetryPolicy{MaxAttempts: 1},
		OnAccepted: func(accepted envelope.Accepted) { seen.Accepted = append(seen.Accepted, accepted) },
	}
	if req.ToolID == executor.Spec().ID {
		c.OnAccepted = nil // most callers do not set it
	}
	if a.stream {
		c.OnChunk = func(chunk envelope.Chunk) error {
			seen.Chunks = append(seen.Chunks, chunk)
			return nil
		}
	}
	r, err := d.callers[a.caller].Call(ctx, c)
	if err != nil {
		seen.Unsent = err.Error()
	}
	if r != nil {
		seen.Answers = append(seen.Answers, lighten(r))
	}
}

// lighten removes an output that was read from the payload store and has the hash of its reference, to keep histories
// small. The stored outcome contains no such output either.
func lighten(r *envelope.Response) *envelope.Response {
	ref := r.Provenance.OutputRef
	if ref == nil {
		return r
	}
	sum := sha256.Sum256(r.Output)
	if hex.EncodeToString(sum[:]) == ref.SHA256 {
		light := *r
		light.Output = nil
		return &light
	}
	return r
}

// cancel cancels the call of an ask as its owner.
func (d *driver) cancel(ctx context.Context, p *play, a ask) {
	seen, _ := d.record(p, a, "", false)
	c := checker.Cancel{Caller: seen.Caller, Ref: seen.Ref, CallID: a.callID, Sent: time.Now()}
	once, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	answer, err := d.callers[a.caller].Cancel(once, envelope.CallRef{Ref: seen.Ref, CallID: a.callID})
	c.Done, c.Told = time.Now(), answer.Phase
	if answer.Response != nil {
		c.Response = lighten(answer.Response)
	}
	if err != nil {
		c.Failed = err.Error()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancels = append(d.cancels, c)
}

// calm repeats the request of every call that has no outcome yet, after all faults have ended: with the same call id
// and key. Each must now get an outcome.
func (d *driver) calm(ctx context.Context, plan []play) error {
	open, err := d.open()
	plays := map[string]*play{}
	for i, p := range plan {
		plays[p.key] = &plan[i]
	}
	slots := make(chan struct{}, 12*callers)
	for _, a := range open {
		slots <- struct{}{}
		d.wg.Go(func() {
			defer func() { <-slots }()
			p := plays[a.Key]
			if p == nil {
				p = steadyPlay(a.N)
			}
			d.calmly(ctx, p, a)
		})
	}
	d.wg.Wait()
	return err
}

// open returns the first ask of each call that has no outcome yet.
func (d *driver) open() ([]*checker.Ask, error) {
	settled, first := map[string]bool{}, map[string]*checker.Ask{}
	for a, err := range d.journal.Asks() {
		if err != nil {
			return nil, err
		}
		id := a.Ref + a.CallID
		for _, r := range a.Answers {
			settled[id] = settled[id] || r.Provenance.Final
		}
		if a.Scene == condemnedScene || a.Scene == namedScene || settled[id] {
			delete(first, id)
		} else if first[id] == nil {
			first[id] = a
		}
	}
	return slices.SortedFunc(maps.Values(first), func(a, b *checker.Ask) int { return a.Sent.Compare(b.Sent) }), nil
}

func (d *driver) calmly(ctx context.Context, p *play, a *checker.Ask) {
	var caller int
	if _, err := fmt.Sscanf(a.Caller, "caller-%d", &caller); err != nil {
		panic("unreachable: " + err.Error()) // record has written it
	}
	id := cmp.Or(a.CallID, uuid.NewString()) // a gateway that gave up has told its client none
	d.ask(ctx, p, ask{caller: caller, callID: id, timeout: 20 * time.Second}, checker.Calm, a.Scene == "other input")
}
