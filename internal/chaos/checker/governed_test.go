package checker

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A decision by a policy is reported from a second after another was pushed, unless its request was sent before that
// and was delayed.
func TestOutdated(t *testing.T) {
	second := func(n float64) time.Time { return epoch.Add(time.Duration(n * float64(time.Second))) }
	before, after := envelope.PolicyVersions{Roles: "a"}, envelope.PolicyVersions{Roles: "b"}
	for _, c := range []struct {
		name     string
		sent, at float64
		by       envelope.PolicyVersions
		held     []Span
		broken   int
	}{
		{"by the new one", 2, 2.1, after, nil, 0},
		{"by an earlier build", 2, 2.1, envelope.PolicyVersions{}, nil, 0},
		{"within a second", 0.5, 0.9, before, nil, 0},
		{"within the slack", 0.9, 1.04, before, nil, 0},
		{"later", 1.1, 1.2, before, nil, 1},
		{"later, whatever happened", 1.1, 3, before, []Span{{second(0), second(9)}}, 1},
		{"sent before, and decided later", 0.9, 1.5, before, nil, 1},
		{"sent before, and held up", 0.9, 1.5, before, []Span{{second(1), second(1.2)}}, 0},
		{"by one that was not pushed", 0.5, 0.6, envelope.PolicyVersions{Roles: "c"}, nil, 1},
	} {
		for _, what := range []audit.Event{audit.ToolAllowed, audit.ToolDenied, audit.ToolJoined} {
			w := newWorld(t, call.Pure)
			w.admit("call-1")
			h := w.h
			if what == audit.ToolAllowed {
				h.Log[0].Time = second(c.at)
				h.Log[0].State.Attempts[0].Owner.Policy = call.NotePolicy(c.by)
			} else {
				h.Audit = append(h.Audit, Record{Seq: 99, Record: audit.Record{
					Event: what, CallID: "call-1", Timestamp: second(c.at), Policies: c.by, EventID: "gate.1"}})
			}
			h.Led, h.Held, h.SlackMS = []Span{{second(-9), second(60)}}, c.held, 50
			h.Pushed = []Push{{before, second(-9)}, {after, epoch}}
			h.Asks = []Ask{{Ref: h.Log[0].State.Ref(), CallID: "call-1", Sent: second(c.sent)}}
			x := newIndex(h)
			found := x.outdated(map[string]*Ask{"call-1": &h.Asks[0]})
			if len(found) != c.broken {
				t.Errorf("%s, %s: %v", what, c.name, found)
			}
		}
	}
}

// A request that is sent a second after its tool was locked, or its run stopped, is not admitted.
func TestBarred(t *testing.T) {
	second := func(n float64) time.Time { return epoch.Add(time.Duration(n * float64(time.Second))) }
	for _, c := range []struct {
		name   string
		sent   float64
		g      Governed
		run    string
		broken int
	}{
		{"locked", 1.1, Governed{Locked: []Locked{{"chaos.pay", Span{epoch, second(9)}}}}, "", 1},
		{"within a second", 0.9, Governed{Locked: []Locked{{"chaos.pay", Span{epoch, second(9)}}}}, "", 0},
		{"unlocked before it was admitted", 1.1, Governed{Locked: []Locked{{"chaos.pay", Span{epoch, second(1.15)}}}}, "", 0},
		{"another tool", 1.1, Governed{Locked: []Locked{{"chaos.put", Span{epoch, second(9)}}}}, "", 0},
		{"a stopped run", 1.1, Governed{Stopped: []Stopped{{"r", epoch}}}, "r", 1},
		{"another run", 1.1, Governed{Stopped: []Stopped{{"r", epoch}}}, "s", 0},
		{"no run", 1.1, Governed{Stopped: []Stopped{{"", epoch}}}, "", 0},
	} {
		w := newWorld(t, call.Pure)
		w.admit("call-1")
		w.h.Log[0].Time = second(c.sent + 0.1)
		w.h.Governed = c.g
		w.h.Asks = []Ask{{Ref: w.h.Log[0].State.Ref(), Tool: "chaos.pay", CallID: "call-1", Sent: second(c.sent),
			Run: c.run}}
		if found := governed(newIndex(w.h)); len(found) != c.broken {
			t.Errorf("%s: %v", c.name, found)
		}
	}
}

// A run whose pushes had no effect shows nothing.
func TestPoliciesExercised(t *testing.T) {
	one, two := envelope.PolicyVersions{Roles: "a"}, envelope.PolicyVersions{Roles: "b"}
	for by, broken := range map[envelope.PolicyVersions]int{one: 0, {}: 1} {
		w := newWorld(t, call.Pure)
		w.admit("call-1")
		w.h.Log[0].State.Attempts[0].Owner.Policy = call.NotePolicy(by)
		w.h.Pushed = []Push{{one, epoch}, {two, epoch.Add(time.Hour)}}
		if found := newIndex(w.h).exercisedPolicies(); len(found) != broken {
			t.Errorf("%v: %v", by, found)
		}
	}
}
