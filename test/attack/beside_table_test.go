package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// flood is a row of TestBystanderOfFloods.
type flood struct {
	name  string
	most  time.Duration // of the 99th percentile of a bystander's calls
	short bool          // also without -full
	// prepare returns what attacks until its context ends
	prepare func(*beside) (attack func(context.Context))
}

// maker prepares an attack, and returns what makes its next message.
type maker func(*beside) (next func() string)

// floods lists the floods of one tenant that has valid credentials.
func floods() []flood {
	const (
		mostBeside4, mostBeside256 = time.Second, 5 * time.Second
		pad                        = 235_000 // of a request of 490 KB
	)
	row := func(name string, rate int, make maker) flood {
		return flood{name: name, most: mostBeside4, prepare: make.from(4, rate)}
	}
	short := func(f flood) flood {
		f.short = true
		return f
	}
	return []flood{
		row("deadlines of 490 KB", 48, waiting(pad, false)),
		row("deadlines of 250 KB", 96, waiting(0, false)),
		row("one deadline", 48, waiting(pad, true)),
		{name: "deadlines by 256", most: mostBeside256, prepare: waiting(pad, false).from(256, 48)},
		row("denied with a large key", 1500, keyed(`"lane_id":"none",`, "")),
		row("another input with a large key", 1500, keyed("", "other")),
		row("joined with a large key", 1500, keyed("", "")),
		row("replays of a large outcome", 200, replays),
		row("a schema of alternatives", 24, costly("alternatives", `{"a":"x"}`)),
		short(row("a schema of 800 alternatives", 24, costly("many", `{"a":"x"}`))),
		row("a schema of values", 24, costly("values", `0.5`)),
		row("a schema of patterns", 24, costly("patterns", `{"aaaaaaaaaaaaaaaaaaaaaaaa":0}`)),
		row("runs", 600, runs),
		row("pages of the record", 160, pages),
		row("parts of an output", 240, parts),
		row("results of a large call", 500, about(subjects.OpResult)),
		row("states of a large call", 500, about(subjects.OpWhy)),
		{name: "idle readers", most: mostBeside256, prepare: readers},
		short(flood{name: "half-open requests", most: mostBeside4, prepare: halfOpen}),
	}
}

// from sends the messages over connections, rate a second in all.
func (m maker) from(connections, rate int) func(*beside) func(context.Context) {
	return func(b *beside) func(context.Context) {
		next := m(b)
		return func(ctx context.Context) { b.send(ctx, connections, rate, next) }
	}
}

// asking is a call of the attacker.
type asking struct {
	tool, fn, key, input string
	more                 string // members of the context
	pad                  int    // bytes in the context
	due                  time.Time
}

func (b *beside) request(a asking) string {
	body := fmt.Sprintf(`{"call_id":%q,"tool_id":%q,"tool_version":"*","fn":%q,"input":%s,"context":{%s"actor_id":%q,`+
		`"trace_id":%q,"timezone":"UTC","env":"prod","pad":%q},"constraints":{"timeout_ms":600000,"deadline_unix_ms":%d,`+
		`"idempotency_key":%q}}`, uuid.NewString(), a.tool, a.fn, a.input, a.more, b.actor, uuid.NewString(),
		strings.Repeat("x", a.pad), a.due.UnixMilli(), a.key)
	return rawPublish(subjects.Call(b.tenant, b.actor, a.tool), subjects.Answers(b.tenant, b.actor)+"flood.x",
		rawHeader("Tb-Token: "+b.attacker), body)
}

// deadline is the time of calls that end during a flood.
func (b *beside) deadline() time.Duration { return min(b.time*3/10, 15*time.Second) }

// waiting are calls with an input of 250 KB whose deadlines pass while others come: each its own, or many the same one.
func waiting(pad int, together bool) maker {
	return func(b *beside) func() string {
		most := b.deadline()
		input := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 250_000))
		return func() string {
			due := time.Now().Add(most)
			if together {
				due = due.Truncate(most).Add(most)
			}
			return b.request(asking{tool: "heavy", fn: "wait", key: auth.NewID(), input: input, pad: pad, due: due})
		}
	}
}

// keyed are small requests with the key of a large call that waits.
func keyed(more, text string) maker {
	return func(b *beside) func() string {
		a := asking{tool: "heavy", fn: "wait", key: auth.NewID(), input: `{"text":""}`, pad: 250_000,
			due: time.Now().Add(10 * time.Minute)}
		b.ask(b.request(a))
		a.pad, a.more, a.input = 0, more, fmt.Sprintf(`{"text":%q}`, text)
		return func() string { return b.request(a) }
	}
}

// replays are requests with the key of a call whose outcome is large.
func replays(b *beside) func() string {
	text := strings.Repeat("A paragraph of a text that is long enough.\\n\\n", 5000)
	a := asking{tool: "transcript.clean", fn: "clean", key: auth.NewID(), input: `{"text":"` + text + `"}`,
		due: time.Now().Add(10 * time.Minute)}
	b.ask(b.request(a))
	return func() string { return b.request(a) }
}

// costly are inputs of 225 KB that are invalid in each of their items.
func costly(fn, item string) maker {
	input := `{"items":[` + strings.Repeat(item+",", 225_000/(len(item)+1)) + item + `]}`
	return func(b *beside) func() string {
		return func() string {
			return b.request(asking{tool: "heavy", fn: fn, key: auth.NewID(), input: input,
				due: time.Now().Add(b.deadline())})
		}
	}
}

// runs are starts of runs as large as runs may be.
func runs(b *beside) func() string {
	var actors []string
	for i := range envelope.MaxRunActors {
		actors = append(actors, fmt.Sprintf("%q", fmt.Sprintf("%s/%02d%s", b.actor, i, strings.Repeat(`"`, 230))))
	}
	return func() string {
		return b.question(subjects.OpRunStart, fmt.Sprintf(`"run_id":%q,"actors":[%s]`, auth.NewID(),
			strings.Join(actors, ",")))
	}
}
