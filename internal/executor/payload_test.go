package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// stored is a payload store that has everything.
type stored struct{}

func (stored) Put(context.Context, subjects.PayloadOwner, []byte) (envelope.PayloadRef, error) {
	return envelope.PayloadRef{SHA256: "sum"}, nil
}
func (stored) Get(_ context.Context, _ subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error) {
	return make([]byte, ref.Bytes), nil
}

// withInput returns a run with a deadline in one minute and an input of the given size in bytes.
func withInput(e *Executor, bytes int64) *run {
	state := call.State{Attempts: []call.Attempt{{
		N: 1, At: call.At(time.Now()), Deadline: call.At(time.Now().Add(time.Minute)),
	}}}
	j := &job{state: state, attempt: 1, inputRef: &envelope.PayloadRef{Bytes: bytes}}
	return &run{Options: &e.Options, memory: e.memory, job: j}
}

// An input takes room twice while it is read, and once until its tool has it. Whoever finds none until shortly before
// the deadline is told so, and that it may ask again.
func TestRoomForInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Payloads: stored{}, Now: time.Now, PayloadMemory: 100})
		first, second, third := withInput(e, 40), withInput(e, 30), withInput(e, 21)
		for _, r := range []*run{first, second} { // 80, then 40 and 60
			if _, err := r.fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := third.fetch(t.Context())
		fault, ok := errors.AsType[envelope.Fault](err)
		if !ok || fault.Fault().Code != envelope.CodeCapacity || fault.Fault().Details.RetryAfterMS == 0 {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited < 59*time.Second || waited >= time.Minute {
			t.Errorf("told after %s", waited)
		}
		third = withInput(e, 21)
		done := make(chan error)
		go func() {
			_, err := third.fetch(t.Context())
			done <- err
		}()
		synctest.Wait()
		first.freeInput() // its tool has it, and goes on
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// full is a payload store without room.
type full struct{ stored }

func (full) Put(ctx context.Context, _ subjects.PayloadOwner, _ []byte) (envelope.PayloadRef, error) {
	<-ctx.Done()
	return envelope.PayloadRef{}, errors.New("no room")
}

// A large result of a tool that failed goes through the store. Where that has no room the error stands without, soon,
// and a warning says so.
func TestResultOfFailure(t *testing.T) {
	small := jsontext.Value(`{"content":[]}`)
	large := jsontext.Value(`{"content":["` + strings.Repeat("x", envelope.MaxErrorDetails) + `"]}`)
	for _, c := range []struct {
		result              jsontext.Value
		store               Payloads
		hash, apart, inline bool
		warnings            int
	}{
		{nil, full{}, false, false, false, 0},
		{small, full{}, true, false, true, 0},
		{large, stored{}, true, true, false, 0},
		{large, full{}, false, false, false, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Options{Payloads: c.store, Now: time.Now})
			fault := envelope.NewError(envelope.CodeToolFault, "").WithToolResult(c.result)
			var d outcome.Draft
			began := time.Now()
			hash := withInput(e, 0).keepResult(t.Context(), fault, &d)
			if (hash != "") != c.hash || len(d.Warnings) != c.warnings || (fault.Details.ToolResultRef != nil) != c.apart ||
				(len(fault.Details.ToolResult) > 0) != c.inline {
				t.Errorf("%.20s: hash %q, %q, %+.200v", c.result, hash, d.Warnings, fault.Details)
			}
			if took := time.Since(began); took > resultTime {
				t.Errorf("%.20s: it took %s", c.result, took)
			}
		})
	}
}

// An output over the largest payload fits no store, so no repetition can help.
func TestOutputAboveTheLargestPayload(t *testing.T) {
	e := New(Options{Payloads: full{}, Now: time.Now})
	output := make(jsontext.Value, envelope.MaxPayload+1)
	fault := withInput(e, 0).checkOutput(tool.Result{Output: output}, &outcome.Draft{})
	if fault == nil || fault.Code != envelope.CodeOutputLimit || fault.Details.Effect != envelope.EffectApplied ||
		!strings.Contains(fault.Message, "is 67108865 bytes, at most 67108864") || !strings.Contains(fault.Fix, "in chunks") {
		t.Errorf("%+v", fault)
	}
}
