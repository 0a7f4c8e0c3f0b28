package executor_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// refOf returns the reference of the call with an id.
func refOf(id string) string { return subjects.Key{Tool: "echo", ID: id}.Ref() }

// asking lets the tool ask for input in each of its runs.
func (w *world) asking() {
	w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		return tool.Result{}, &tool.InputError{Question: envelope.InputQuestion{
			Requests: jsontext.Value(`{"a":{}}`), State: refOf(inv.IdempotencyKey), ServerState: "secret",
		}}
	}
}

// answering is the message of a call whose request answers the call with the reference ref.
func answering(m executor.Message, ref string) executor.Message {
	return bringing(m, `{"state":"`+ref+`","responses":{"a":{}},"capabilities":{"roots":{}}}`)
}

// bringing is the message of a call with mcp_input in its context.
func bringing(m executor.Message, input string) executor.Message {
	m.Entry.Body = []byte(strings.Replace(string(m.Entry.Body), `"context":{`, `"context":{"mcp_input":`+input+`,`, 1))
	return m
}

// A call that asks ends with the effect of its class. An answer gets the state from the log of that call.
func TestAnswer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.asking()
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		effect := envelope.EffectUnknown
		if w.manifest.Class == call.Pure {
			effect = envelope.EffectNone
		}
		if d := w.decided(1); d.Code != envelope.CodeInputRequired || d.Effect != effect ||
			d.Status != envelope.TerminalError {
			t.Fatalf("decision %+v", d)
		}
		question, ok := w.replies[0].Error.Question()
		if !ok || question.State != refOf("id1") || string(question.Requests) != `{"a":{}}` {
			t.Fatalf("%+v", w.replies[0].Error)
		}
		w.ex.Handle(t.Context(), answering(w.admitAs("id2", callB, time.Minute), question.State))
		if len(w.runs) != 2 || w.runs[0].MCPInput.ServerState != "" {
			t.Fatalf("%d runs, the first with %+v", len(w.runs), w.runs[0].MCPInput)
		}
		if in := w.runs[1].MCPInput; in.ServerState != "secret" || string(in.Responses) != `{"a":{}}` ||
			string(in.Capabilities) != `{"roots":{}}` {
			t.Errorf("the tool got %+v", in)
		}
	})
}

// A tool that only reads has changed nothing when it asks, whatever its class is.
func TestReadOnlyAsks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if w.manifest.Class == call.SideEffectful {
			return // such a tool does not only read
		}
		w.manifest.ReadOnly = true
		w.asking()
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		if d := w.decided(1); d.Effect != envelope.EffectNone {
			t.Errorf("decision %+v", d)
		}
	})
}

// An answer that belongs to no question of this caller is refused before its tool is started.
func TestAnswerRefused(t *testing.T) {
	asks := refOf("id1")
	for name, c := range map[string]struct {
		asked func(s *call.State) // how the call that asked is another one
		input string              // mcp_input; "" answers that call
		want  envelope.Code
	}{
		"another tenant":           {asked: func(s *call.State) { s.Tenant = "other" }},
		"another actor":            {asked: func(s *call.State) { s.Attempts[0].Owner.Actor = "b" }},
		"another function":         {asked: func(s *call.State) { s.Fn = "other" }},
		"another input":            {asked: func(s *call.State) { s.ArgsHash = "other" }},
		"a dry run":                {asked: func(s *call.State) { s.DryRun = true }},
		"an open call":             {asked: func(s *call.State) { s.Attempts[0].Decision = nil }},
		"another outcome":          {asked: func(s *call.State) { s.Attempts[0].Decision.Code = "" }},
		"a call that is not there": {input: `{"state":"` + refOf("id9") + `"}`},
		"another tool":             {input: `{"state":"` + subjects.Key{Tool: "other", ID: "id1"}.Ref() + `"}`},
		"a changed state":          {input: `{"state":"` + asks + `x"}`},
		"the state of the server":  {input: `{"state":"secret"}`},
		"no object":                {input: `7`},
		"a log that is not read":   {want: envelope.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.asking()
				w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
				input := cmp.Or(c.input, `{"state":"`+asks+`"}`)
				w.ex.CallLog = edited{w.ex.CallLog, c.asked, c.want != ""}
				w.ex.Handle(t.Context(), bringing(w.admitAs("id2", callB, time.Minute), input))
				last, _ := w.log.Read(t.Context(), "echo", "id2")
				d, want := last.State.Last().Decision, cmp.Or(c.want, envelope.CodeInputState)
				if d == nil || d.Code != want || d.Effect != envelope.EffectNone || len(w.runs) != 1 {
					t.Errorf("%d runs, decision %+v", len(w.runs), d)
				}
			})
		})
	}
}

// edited is a log in which the call that asked is another one, or which cannot be read.
type edited struct {
	executor.Log
	edit func(s *call.State)
	deaf bool
}

func (l edited) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	if l.deaf {
		return call.Entry{}, errors.New("deaf")
	}
	e, err := l.Log.Read(ctx, tool, id)
	if id == "id1" && l.edit != nil {
		e.State.Attempts = slices.Clone(e.State.Attempts)
		decision := *e.State.Attempts[0].Decision
		e.State.Attempts[0].Decision = &decision
		l.edit(&e.State)
	}
	return e, err
}

// A call that brings no state gets none of the server.
func TestWithoutState(t *testing.T) {
	for input, want := range map[string]tool.MCPInput{
		`{"capabilities":{"sampling":{}},"later":1}`: {Capabilities: jsontext.Value(`{"sampling":{}}`)},
		`{"responses":{"q":{}},"state":""}`:          {Responses: jsontext.Value(`{"q":{}}`)},
	} {
		each(t, func(t *testing.T, w *world) {
			w.ex.Handle(t.Context(), bringing(w.admit(callA, time.Minute), input))
			if len(w.runs) != 1 || !reflect.DeepEqual(w.runs[0].MCPInput, want) {
				t.Errorf("%s: %+v", input, w.runs)
			}
		})
	}
}
