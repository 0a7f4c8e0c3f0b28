//go:build linux

package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// peer is a server that misbehaves, and the adapter that calls it.
type peer struct {
	*testing.T
	adapter  *mcp.Adapter
	manifest *tool.Manifest
	class    call.EffectClass
}

func newPeer(t *testing.T) *peer {
	return &peer{t, newAdapter(t, mcp.Options{}), manifest(t, played(t, "misbehave"), mcp.Endpoint{}), call.SideEffectful}
}

// of returns the manifest of one of its tools.
func (p *peer) of(name string) *tool.Manifest {
	m := *p.manifest
	m.Class, m.Endpoint = p.class, mcp.Endpoint{Server: "test", Tool: name}
	return &m
}

func (p *peer) call(ctx context.Context, name, input string, sink tool.Sink) (tool.Result, error) {
	return p.adapter.Execute(ctx, p.of(name), invocationOf(input), sink)
}

func invocationOf(input string) tool.Invocation {
	return tool.Invocation{
		CallID: "c", Fn: "run", Input: jsontext.Value(input), Attempt: 1, Deadline: time.Now().Add(time.Minute),
	}
}

// echoes fails the test unless the server answers a call correctly.
func (p *peer) echoes(text string) {
	p.Helper()
	input, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
	defer cancel()
	res, err := p.call(ctx, "echo", string(input), &tooltest.Recorder{})
	if err != nil || string(res.Output) != string(input) {
		p.Errorf("echo %s: %s, %v", input, res.Output, err)
	}
}

// fails calls a tool and returns how its error is classified.
func (p *peer) fails(name, input string) *envelope.Error {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
	defer cancel()
	res, err := p.call(ctx, name, input, &tooltest.Recorder{})
	if err == nil {
		p.Fatalf("%s succeeded with %.100s", name, res.Output)
	}
	return p.adapter.ClassifyError(p.of(name), err)
}

func (p *peer) wants(got *envelope.Error, code envelope.Code, effect envelope.Effect) {
	p.Helper()
	if got.Code != code || got.Details.Effect != effect {
		p.Errorf("got %v, effect %s; want %s, %s", got, got.Details.Effect, code, effect)
	}
}

// TestAnswers checks the errors of invalid answers, and that the next call works.
func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		code   envelope.Code
		effect envelope.Effect
	}{
		{"half", envelope.CodeToolProtocol, envelope.EffectUnknown},
		{"task", envelope.CodeToolProtocol, envelope.EffectUnknown},
		{"content", envelope.CodeToolProtocol, envelope.EffectUnknown},
		{"deep", envelope.CodeToolProtocol, envelope.EffectUnknown},
		{"number", envelope.CodeToolProtocol, envelope.EffectUnknown},
		{"input", "P-PRECOND-INPUT_REQUIRED", envelope.EffectUnknown},
		{"missing", "I-REQ-REQUEST_REFUSED", envelope.EffectNone},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPeer(t)
			p.wants(p.fails(test.name, "{}"), test.code, test.effect)
			p.echoes("after " + test.name)
		})
	}
}

func TestAnswersOnce(t *testing.T) {
	p := newPeer(t)
	res, err := p.call(t.Context(), "twice", "{}", &tooltest.Recorder{})
	if err != nil || string(res.Output) != `{"text":"first"}` {
		t.Errorf("%s, %v", res.Output, err)
	}
	p.echoes("after the second answer")
	res, err = p.call(t.Context(), "noise", `{"text":"through noise"}`, &tooltest.Recorder{})
	if err != nil || string(res.Output) != `{"text":"through noise"}` {
		t.Errorf("%s, %v", res.Output, err)
	}
}

// TestTextIDs calls a server that sends back the id of each request as text.
func TestTextIDs(t *testing.T) {
	p := peerOf(t, played(t, "misbehave", "texts"), mcp.Options{})
	p.echoes("hello")
	p.wants(p.fails("missing", "{}"), "I-REQ-REQUEST_REFUSED", envelope.EffectNone)
	p.wants(p.fails("half", "{}"), envelope.CodeToolProtocol, envelope.EffectUnknown)
	p.wants(p.fails("huge", fmt.Sprintf(`{"n":%d}`, 2<<20)), envelope.CodeOutputLimit, envelope.EffectUnknown)
	p.echoes("after all that")
}

// TestLateAnswer gives up a call whose answer comes during the next call.
func TestLateAnswer(t *testing.T) {
	p := newPeer(t)
	p.echoes("before")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.call(ctx, "late", "{}", &tooltest.Recorder{})
	p.wants(p.adapter.ClassifyError(p.of("late"), err), envelope.CodeTimeoutUnknown, envelope.EffectUnknown)
	p.echoes("its own")
}

// TestHuge gets an answer of a hundred megabytes during other calls. The adapter drops it, and the other calls get
// their own answers.
func TestHuge(t *testing.T) {
	for size, code := range map[int]envelope.Code{
		2 << 20:     envelope.CodeOutputLimit, // skipped: the server lives
		100_000_000: "",                       // the server is ended
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := newPeer(t)
			got := p.fails("huge", fmt.Sprintf(`{"n":%d}`, size))
			if code == "" {
				p.wants(got, envelope.CodeToolUnknownState, envelope.EffectUnknown)
			} else {
				p.wants(got, code, envelope.EffectUnknown)
			}
			p.echoes("after it")
		})
	}
}

// TestFlood receives a hundred thousand progress messages. The adapter thins them out, and drops those after the
// answer.
func TestFlood(t *testing.T) {
	p := newPeer(t)
	sink := &tooltest.Recorder{}
	res, err := p.call(t.Context(), "flood", `{"n":100000}`, sink)
	if err != nil || string(res.Output) != `{"text":"flooded"}` {
		t.Fatalf("%s, %v", res.Output, err)
	}
	all := sink.All()
	if n := len(all); n == 0 || n > 1000 {
		t.Errorf("%d of 100000 were passed on", n)
	}
	if last := all[len(all)-1]; last.Data != `{"progress":99999}` || last.Kind != envelope.ChunkProgress {
		t.Errorf("the last one is %v", last)
	}
	p.echoes("after the flood")
	if n := len(sink.All()); n != len(all) {
		t.Errorf("%d more after the end", n-len(all))
	}
}

// TestDies loses a server during several calls. The next call starts it again.
func TestDies(t *testing.T) {
	p := newPeer(t)
	p.echoes("before")
	var others sync.WaitGroup
	begun := make(chan struct{}, 3)
	for range cap(begun) {
		others.Go(func() {
			sink := &tooltest.Recorder{OnEmit: func(tooltest.Emitted) error { begun <- struct{}{}; return nil }}
			_, err := p.call(t.Context(), "begun", "{}", sink)
			p.wants(p.adapter.ClassifyError(p.of("begun"), err), envelope.CodeToolUnknownState, envelope.EffectUnknown)
		})
	}
	for range cap(begun) { // a call that begins after the death has another process
		<-begun
	}
	got := p.fails("die", "{}")
	p.wants(got, envelope.CodeToolUnknownState, envelope.EffectUnknown)
	if !strings.Contains(got.Details.Stderr, "dying as asked") || !strings.Contains(got.Cause, "exit status 3") {
		t.Errorf("cause %q, stderr %q", got.Cause, got.Details.Stderr)
	}
	others.Wait()
	p.class = call.Pure
	p.wants(p.fails("die", "{}"), envelope.CodeToolFault, envelope.EffectNone)
	p.echoes("after it")
}

// TestCut loses a server after every number of bytes of its answer. Only the call with the whole answer succeeds;
// otherwise the effect is unknown.
func TestCut(t *testing.T) {
	p := newPeer(t)
	whole := len(fmt.Sprintf(`{"result":%s,"jsonrpc":"2.0","id":%d}`, text("whole"), 3))
	for n := range whole + 2 {
		p.adapter.Rest() // each call starts a new process
		res, err := p.call(t.Context(), "cut", fmt.Sprintf(`{"n":%d}`, n), &tooltest.Recorder{})
		switch got := p.adapter.ClassifyError(p.of("cut"), err); {
		case err == nil && (n < whole || string(res.Output) != `{"text":"whole"}`):
			t.Fatalf("after %d bytes: %s", n, res.Output)
		case err != nil && n >= whole:
			t.Fatalf("after all %d bytes: %v", n, err)
		case err != nil:
			p.wants(got, envelope.CodeToolUnknownState, envelope.EffectUnknown)
		}
	}
}

// TestHangs calls a server that stops answering. The adapter ends it, and the next call starts another process.
func TestHangs(t *testing.T) {
	p := newPeer(t)
	p.echoes("before")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.call(ctx, "hang", "{}", &tooltest.Recorder{})
	p.wants(p.adapter.ClassifyError(p.of("hang"), err), envelope.CodeTimeoutUnknown, envelope.EffectUnknown)
	p.echoes("after it")
}

// TestDrowns gets twenty thousand requests from a server, each of which needs an answer.
func TestDrowns(t *testing.T) {
	p := newPeer(t)
	got := p.fails("drown", "{}")
	p.wants(got, envelope.CodeToolUnknownState, envelope.EffectUnknown)
	if !strings.Contains(got.Cause, "requests of its own") {
		t.Errorf("cause %q", got.Cause)
	}
	p.echoes("after it")
}
