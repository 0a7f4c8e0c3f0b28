package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
)

// play is the plan for one key: the requests and what follows them.
type play struct {
	at    time.Duration
	scene string
	spec  effects.Spec
	key   string
	scope envelope.KeyScope
	prio  envelope.Priority
	input effects.Input
	asks  []ask
	// The following happens after the answers to all asks.
	cancel   time.Duration // after the first ask; 0 is never
	retries  int           // largest number of further requests
	patience time.Duration // timeout of these except the last; 0 is 5 s
	again    []again
	other    bool   // then ask with another input
	run      string // that it names
	// doomed means that an ask of another actor than the first kills its executor.
	doomed bool
}

// ask is one request.
type ask struct {
	after   time.Duration
	caller  int
	callID  string
	timeout time.Duration
	stream  bool
	raw     int // number of copies to publish without the client library; 0 uses the library
	msgpack bool
	mcp     bool          // over MCP
	cut     time.Duration // time after which the client leaves the first gateway; 0 is never
}

// again repeats an ask with its call id.
type again struct {
	after  time.Duration
	of     int
	caller int
}

// callers is the number of callers without the condemned ones. Callers with the same parity are the same actor on
// different connections. callerSkew returns the skew of their clocks.
const callers = 6

// actorOf returns the actor of a caller. From number callers on they are condemned, two for each actor: one on its own
// connection, and one behind a gateway.
func actorOf(caller int) string {
	if caller >= callers {
		return fmt.Sprint("agent://condemned-", (caller-callers)/2)
	}
	return fmt.Sprintf("agent://chaos-%d", caller%2)
}

func behindDoor(caller int) bool { return caller >= callers && (caller-callers)%2 == 1 }

func callerName(caller int) string { return fmt.Sprint("caller-", caller) }

func callerSkew(caller int) time.Duration {
	if caller >= callers {
		return 0
	}
	return []time.Duration{0, 30 * time.Second, -30 * time.Second, 0, 3 * time.Second, -700 * time.Millisecond}[caller]
}

// planCalls returns the plays of a run: Rate per second, up to Calls.
func planCalls(o Options) (plan []play) {
	d := &drawer{rand.New(rand.NewPCG(o.Seed, 4)), o.tools(), len(o.gateways()) > 0}
	for at := time.Duration(0); ; {
		at += time.Duration(d.ExpFloat64() / o.Rate * float64(time.Second))
		if at > o.Duration || o.Calls > 0 && len(plan) >= o.Calls {
			return plan
		}
		plan = append(plan, d.play(o.Seed, len(plan), at))
	}
}

// drawer draws plays.
type drawer struct {
	*rand.Rand
	tools []effects.Spec
	doors bool // the run has MCP gateways
}

func (d *drawer) within(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)))
}

func (d *drawer) id() string {
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(d.Uint32())
	}
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return uuid.UUID(raw).String()
}

// scenes draw the plays. The weights add up to 100.
var scenes = []struct {
	name   string
	weight int
	draw   func(d *drawer, p *play)
}{
	{"single", 12, func(d *drawer, p *play) { p.asks = d.asks(1, p) }},
	{"poison", 1, func(d *drawer, p *play) {
		p.asks = d.asks(1, p)
		p.asks[0].timeout = 40 * time.Second
		if p.spec.Class.MayRunAgain() { // only these are run again after the executor was killed
			p.input.Fail, p.input.Times = effects.Poison, 9
		}
	}},
	{"twins", 14, func(d *drawer, p *play) { p.asks = d.asks(2+d.IntN(4), p) }},
	{"doubled", 8, func(d *drawer, p *play) {
		p.asks = d.asks(2+d.IntN(2), p)
		for i := range p.asks {
			p.asks[i].callID = p.asks[0].callID
		}
	}},
	{"faulty", 16, func(d *drawer, p *play) {
		p.asks = d.asks(1+d.IntN(2), p)
		p.input.Fail = faultNames[d.IntN(len(faultNames))]
		p.input.Times, p.retries = 1+d.IntN(3), 5
		p.input.WorkMS = d.within(0, 1500*time.Millisecond).Milliseconds()
	}},
	{"cancelled", 10, func(d *drawer, p *play) {
		p.asks = d.asks(1+d.IntN(2), p)
		p.input.WorkMS = d.within(500*time.Millisecond, 3*time.Second).Milliseconds()
		p.cancel, p.retries = d.within(time.Millisecond, time.Second), d.IntN(2)
	}},
	{"hasty", 9, func(d *drawer, p *play) {
		p.asks = d.asks(1+d.IntN(2), p)
		p.input.WorkMS = d.within(500*time.Millisecond, 3*time.Second).Milliseconds()
		for i := range p.asks {
			p.asks[i].timeout = d.within(150*time.Millisecond, time.Second)
		}
		p.retries = d.IntN(2)
	}},
	{"impatient", 3, func(d *drawer, p *play) { // asks more often than a key has attempts
		p.asks = d.asks(1, p)
		p.asks[0].timeout = d.within(150*time.Millisecond, time.Second)
		p.patience, p.retries = p.asks[0].timeout, call.MaxAttempts+2
	}},
	{"slow", 6, func(d *drawer, p *play) {
		p.asks = d.asks(1, p)
		p.input.WorkMS = d.within(time.Second, 5*time.Second).Milliseconds()
		p.asks[0].timeout = 10 * time.Second
	}},
	{"rivals", 3, func(d *drawer, p *play) { // lookup must not find the effect of another actor's call
		p.spec, p.scope = d.looked(), ""
		d.chunks(p)
		p.asks = d.asks(2+d.IntN(2), p)
		for i := range p.asks {
			p.asks[i].caller = (p.asks[0].caller + i) % callers // alternates the actor
			p.asks[i].after = time.Duration(i) * d.within(200*time.Millisecond, 500*time.Millisecond)
		}
		p.doomed = d.IntN(3) == 0
	}},
	{"visit", 8, func(d *drawer, p *play) { // without tokens, gateways call as one actor
		p.scope = ""
		p.asks = d.asks(1+d.IntN(3), p)
		if d.IntN(3) == 0 {
			p.input.Fail = faultNames[d.IntN(len(faultNames))]
			p.input.Times, p.retries = 1+d.IntN(2), 3
		}
		for i := range p.asks {
			a := &p.asks[i]
			a.caller -= a.caller % 2
			a.mcp = d.doors && (i == 0 || d.IntN(2) == 0)
			a.stream = a.stream && !a.mcp
			if d.IntN(2) == 0 {
				a.cut = d.within(time.Millisecond, 400*time.Millisecond)
			}
		}
	}},
	{"raw", 10, func(d *drawer, p *play) {
		p.asks = d.asks(1+d.IntN(2), p)
		for i := range p.asks {
			p.asks[i].raw, p.asks[i].stream, p.asks[i].msgpack = 1+d.IntN(3), false, d.IntN(2) == 0
		}
	}},
}

var faultNames = []effects.Fault{effects.Flaky, effects.Moody, effects.Moody, effects.Refused, effects.Late,
	effects.Crash,
	effects.Garbage, effects.Silent}

func (d *drawer) play(seed uint64, n int, at time.Duration) play {
	p := play{
		at: at, spec: d.tools[d.IntN(len(d.tools))], key: fmt.Sprintf("chaos-%d-%06d-key", seed, n),
		input: effects.Input{
			N: int64(n), WorkMS: d.within(0, 300*time.Millisecond).Milliseconds(),
			TailMS: d.within(0, 60*time.Millisecond).Milliseconds(),
		},
	}
	d.chunks(&p)
	if d.IntN(10) == 0 {
		p.scope = envelope.ScopeGlobal
	}
	p.prio = []envelope.Priority{"", envelope.PriorityLow, envelope.PriorityNormal, envelope.PriorityHigh}[d.IntN(4)]
	d.scene(&p)
	if p.asks[0].raw == 0 && d.IntN(30) == 0 { // input and output go through the payload store
		p.input.Pad, p.input.Out = strings.Repeat("x", envelope.MaxInline), envelope.MaxInline+d.IntN(envelope.MaxInline)
	}
	for range d.IntN(3) {
		p.again = append(p.again, again{after: d.within(0, 4*time.Second), of: d.IntN(len(p.asks)), caller: p.asks[0].caller})
	}
	p.other = d.IntN(8) == 0
	return p
}

// chunks draws the number of chunks of a streaming tool.
func (d *drawer) chunks(p *play) {
	p.input.Chunks = 0
	if p.spec.Streaming {
		p.input.Chunks = 1 + d.IntN(20)
	}
}

// looked draws a tool that has a lookup.
func (d *drawer) looked() effects.Spec {
	specs := slices.DeleteFunc(slices.Clone(d.tools), func(s effects.Spec) bool { return !s.Lookup })
	return specs[d.IntN(len(specs))]
}

func (d *drawer) scene(p *play) {
	n := d.IntN(100)
	for _, s := range scenes {
		if n -= s.weight; n < 0 {
			p.scene = s.name
			s.draw(d, p)
			return
		}
	}
}

// asks draws requests of one actor on any of its connections, or of both actors if the key has global scope.
func (d *drawer) asks(n int, p *play) []ask {
	actor := d.IntN(2)
	asks := make([]ask, n)
	for i := range asks {
		caller := actor + 2*d.IntN(callers/2)
		if p.scope == envelope.ScopeGlobal {
			caller = d.IntN(callers)
		}
		asks[i] = ask{
			caller: caller, callID: d.id(), timeout: d.within(2*time.Second, 8*time.Second),
			stream: p.spec.Streaming && p.scope == "" && d.IntN(4) > 0,
		}
		if i > 0 {
			asks[i].after = d.within(0, 400*time.Millisecond)
		}
	}
	return asks
}

// request returns the request of an ask without call id and deadline.
func (p *play) request(caller int, input jsontext.Value) *envelope.Request {
	return &envelope.Request{
		ToolID: p.spec.ID, ToolVersion: "*", Fn: effects.Fn, Input: input,
		Context:     envelope.RequestContext{ActorID: actorOf(caller), RunID: p.run, Env: "dev", Timezone: "UTC"},
		Constraints: envelope.Constraints{IdempotencyKey: p.key, IdempotencyScope: p.scope, Priority: p.prio},
	}
}

func (p *play) encoded(caller int, other bool) jsontext.Value {
	input := p.input
	input.N = p.n(other)
	if p.doomed && actorOf(caller) != actorOf(p.asks[0].caller) {
		input.Fail, input.Times = effects.Poison, 9
	}
	raw, err := json.Marshal(input)
	if err != nil {
		panic("unreachable: " + err.Error()) // Input has only numbers and strings
	}
	return raw
}

// n returns N of the input, or that of the other input.
func (p *play) n(other bool) int64 {
	if other {
		return -p.input.N - 1
	}
	return p.input.N
}
