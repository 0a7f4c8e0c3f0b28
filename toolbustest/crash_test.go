package toolbustest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// letters is a tool that sends letters, with a lookup, and an idempotent one that stores them.
type letters struct {
	mu   sync.Mutex
	sent map[string]string // by idempotency key
	runs map[string]int    // by tool
}

func (l *letters) send(_ context.Context, run *toolbus.Run, to string) (string, error) {
	return l.commit("mail.send", run, to)
}

func (l *letters) store(_ context.Context, run *toolbus.Run, to string) (string, error) {
	return l.commit("mail.store", run, to)
}

func (l *letters) commit(tool string, run *toolbus.Run, to string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[tool]++
	l.sent[run.IdempotencyKey] = "sent to " + to
	return l.sent[run.IdempotencyKey], nil
}

func (l *letters) lookup(_ context.Context, run *toolbus.Run, _ string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answer, ok := l.sent[run.IdempotencyKey]; ok {
		return answer, nil
	}
	return "", toolbus.ErrAbsent
}

// serve starts a bus with both tools.
func (l *letters) serve(t *testing.T) *toolbustest.Bus {
	t.Helper()
	l.sent, l.runs = map[string]string{}, map[string]int{}
	tools := toolbus.NewToolset()
	send := toolbus.Tool{ID: "mail.send", Class: toolbus.SideEffectful}
	store := toolbus.Tool{ID: "mail.store", Class: toolbus.Idempotent}
	_ = toolbus.Add(tools, send, l.send, toolbus.WithLookup(l.lookup)) // the executor returns the error
	_ = toolbus.Add(tools, store, l.store)
	return toolbustest.Start(t, tools)
}

// count returns how often a tool ran.
func (l *letters) count(tool string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[tool]
}

// A run that crashes is not answered; the lookup of its tool is asked, or it runs again.
func TestCrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool  string
		crash func(*toolbustest.Bus, string)
		runs  int
		fails envelope.Code
	}{
		"before a run with a lookup":  {"mail.send", (*toolbustest.Bus).CrashBeforeRun, 0, envelope.CodeToolUnknownState},
		"after a run with a lookup":   {"mail.send", (*toolbustest.Bus).CrashAfterRun, 1, ""},
		"before a run that may again": {"mail.store", (*toolbustest.Bus).CrashBeforeRun, 1, ""},
		"after a run that may again":  {"mail.store", (*toolbustest.Bus).CrashAfterRun, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &letters{}
			bus := l.serve(t)
			c.crash(bus, c.tool)
			call := toolbus.Call{Tool: c.tool, Input: []byte(`"Ada"`)}
			resp, err := bus.Call(t.Context(), call)
			if toolbus.CodeOf(err) != c.fails || l.count(c.tool) != c.runs {
				t.Errorf("%d runs, %v", l.count(c.tool), err)
			}
			if c.fails == "" && string(resp.Output) != `"sent to Ada"` {
				t.Errorf("output %s", resp.Output)
			}
			if _, err := bus.Call(t.Context(), call); err != nil || l.count(c.tool) != c.runs+1 {
				t.Errorf("the call after the crash: %d runs, %v", l.count(c.tool)-c.runs, err)
			}
		})
	}
}

// failing is a test that keeps its errors.
type failing struct {
	testing.TB
	said string
}

// Errorf implements testing.TB.
func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

// A crash of a tool that the bus does not have fails the test, with the name and the one that was meant.
func TestCrashOfUnknownTool(t *testing.T) {
	t.Parallel()
	test := &failing{TB: t}
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "bank.pay", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { return in, nil })
	if err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(test, tools)
	bus.CrashBeforeRun("bank.pay")
	if test.said != "" {
		t.Error(test.said)
	}
	bus.CrashAfterRun("bank.payy")
	if !strings.Contains(test.said, `there is no tool "bank.payy"; did you mean "bank.pay"?`) {
		t.Errorf("the test fails with %q", test.said)
	}
}

// Answer and explanation of a call whose lookup found nothing say that it was asked.
func TestAbsentLookupIsSaid(t *testing.T) {
	t.Parallel()
	bus := (&letters{}).serve(t)
	bus.CrashBeforeRun("mail.send")
	var ref toolbus.CallRef
	call := toolbus.Call{Tool: "mail.send", Input: []byte(`"Ada"`)}
	call.OnAccepted = func(a toolbus.Accepted) { ref.Ref = a.Ref }
	_, answer := bus.Call(t.Context(), call)
	why, err := bus.Why(t.Context(), ref)
	const says = "the lookup of the tool was asked and found no effect"
	if answer == nil || !strings.Contains(answer.Error(), says) || !strings.Contains(why, says) {
		t.Errorf("the answer is %v\nwhy says %q, %v", answer, why, err)
	}
}
