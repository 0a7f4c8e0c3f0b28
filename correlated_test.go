package toolbus_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// correlated fails unless the details of an error name the call of the response and the trace, and the attempt if that
// is known.
func correlated(t *testing.T, what string, r *envelope.Response, trace string) {
	t.Helper()
	if r.Error == nil {
		t.Errorf("%s: %+v", what, r)
		return
	}
	of := r.Error.Details.Extra
	text := func(name string) string { return strings.Trim(string(of[name]), `"`) }
	if text("call_id") != r.CallID || text("trace_id") != trace || text("tool_id") != r.Provenance.ToolID ||
		text("tool_version") != r.Provenance.ToolVersion || (of["attempt"] != nil) != (r.Provenance.Attempt > 0) {
		t.Errorf("%s: details %s of %+v", what, of, r)
	}
}

// Each error says in its details which call it is about: those of tools, for all observers, refusals, and what the
// client says by itself.
func TestErrorsNameTheirCall(t *testing.T) {
	tools, started, release := toolbus.NewToolset(), make(chan struct{}, 10), make(chan struct{})
	about := toolbus.Tool{ID: "fail", Version: "1.2.3", Class: toolbus.Pure, Owner: "@team-fail",
		Errors: []*toolbus.ToolError{errNotFound}}
	must(t, tools, about, func(_ context.Context, _ *toolbus.Run, how string) (any, error) {
		started <- struct{}{}
		if how == "fault" {
			return nil, errors.New("a bug")
		}
		<-release
		failed := errNotFound.Because("gone")
		failed.Details = map[string]any{"item": "x", "owner": "me", "trace_id": 1}
		return nil, failed
	})
	b := toolbustest.Start(t, tools)
	trace, other := uuid.NewString(), uuid.NewString()
	ask := func(call toolbus.Call, trace string) *envelope.Response {
		call.Context.TraceID, call.Retry = trace, once
		r, err := toolbus.Outcome(b.Call(t.Context(), call))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	declared := toolbus.Call{Tool: "fail", Input: []byte(`"declared"`), Key: "a-key-of-this-test-1"}
	first, joined := make(chan *envelope.Response, 1), make(chan *envelope.Response, 1)
	go func() { first <- ask(declared, trace) }()
	<-started
	join := declared
	join.OnAccepted = func(a envelope.Accepted) {
		if a.Joined {
			close(release)
		}
	}
	go func() { joined <- ask(join, other) }()
	owner, joiner := <-first, <-joined
	correlated(t, "the owner", owner, trace)
	correlated(t, "a joiner", joiner, trace)
	again := ask(declared, other)
	correlated(t, "a replay", again, trace)
	if !again.Provenance.Replayed || joiner.CallID == owner.CallID || again.CallID == owner.CallID ||
		string(again.Error.Details.Extra["item"]) != `"x"` || again.Error.Details.Extra["owner"] != nil {
		t.Errorf("%+v, %s", again, again.Error.Details.Extra)
	}
	var said *toolbus.ToolError
	if _, err := b.Call(t.Context(), declared); !errors.As(err, &said) ||
		!slices.Equal(slices.Collect(maps.Keys(detailsOf(t, said))), []string{"item"}) {
		t.Errorf("the error of the tool has %v", said)
	}
	correlated(t, "an unknown tool", ask(toolbus.Call{Tool: "none"}, trace), trace)
	correlated(t, "a bad input", ask(toolbus.Call{Tool: "fail", Input: []byte("1")}, trace), trace)
	unread := ask(toolbus.Call{Tool: "fail", Input: []byte(`"\ud800"`)}, trace) // its trace cannot be read, either
	correlated(t, "a request that cannot be read", unread, "")
	local := ask(toolbus.Call{Tool: "fail", Input: []byte("{")}, trace)
	correlated(t, "of the client", local, trace)
	if !slices.Equal(local.Provenance.PolicyApplied, []string{"client-preflight"}) {
		t.Errorf("a dispatcher refused %+v", local)
	}

	fault := toolbus.Call{Tool: "fail", Input: []byte(`"fault"`), Key: "a-key-of-this-test-2"}
	once, twice := ask(fault, trace), ask(fault, other)
	correlated(t, "a fault", once, trace)
	correlated(t, "a second fault", twice, other)
	if once.Error.Details.Extra["owner"] != nil || twice.Provenance.Attempt != 2 ||
		string(twice.Error.Details.Extra["owner"]) != `"@team-fail"` {
		t.Errorf("owner %s, then %s", once.Error.Details.Extra, twice.Error.Details.Extra)
	}
	if r := ask(fault, trace); string(r.Error.Details.Extra["owner"]) != `"@team-fail"` || !r.Provenance.Replayed {
		t.Errorf("replayed: %+v, %s", r, r.Error.Details.Extra)
	}
}

func detailsOf(t *testing.T, e *toolbus.ToolError) map[string]jsontext.Value {
	t.Helper()
	of, ok := e.Details.(map[string]jsontext.Value)
	if !ok {
		t.Fatalf("%T", e.Details)
	}
	return of
}
