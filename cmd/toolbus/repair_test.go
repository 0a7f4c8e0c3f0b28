package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Without damage there is nothing to list or to decide, mistakes say what to do, and an agent may do neither.
func TestRepairMistakes(t *testing.T) {
	s, operator := deployed(t)
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"repair list", 0, "no call with a damaged log is known"},
		{"repair list --json", 0, `"calls"`},
		{"repair list hello.x", 2, "no arguments"},
		{"repair accept --reason r", 2, "one call reference"},
		{"repair accept hello.x", 2, "--reason TEXT"},
		{"repair accept hello.x --reason r", exitTerminal, "toolbus repair list"},
		{"repair refuse hello.x --reason r", exitTerminal, "is not damaged"},
		{"repair refuse hello --reason r", exitInvalid, "<tool>.<id>"},
		{"repair accept hello.x --reason " + strings.Repeat("r", envelope.MaxLockReason+1), exitInvalid, "300 bytes"},
	} {
		code, stdout, stderr := s.do(append(strings.Fields(c.line), "--credentials", operator)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%.60s: exit %d, want %d and %q: %s%s", c.line, code, c.code, c.want, stdout, stderr)
		}
	}
	agent := s.token(operator, "a")
	for _, line := range []string{"repair list", "repair accept hello.x --reason mine"} {
		code, _, stderr := s.do(append(strings.Fields(line), agent...)...)
		if code != exitTerminal || !strings.Contains(stderr, "A-AUTH-FORBIDDEN") {
			t.Errorf("an agent: %s: exit %d: %s", line, code, stderr)
		}
	}
}

// The list names tenant, tool and call, when it was found and is forgotten, and the decision.
func TestRepairList(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	c := envelope.DamagedCall{Ref: "pay.0kd3", Tenant: "acme", Tool: "pay", Found: at, Expires: at.Add(time.Hour)}
	decided := c
	decided.Decision, decided.By, decided.Reason = envelope.RepairRefuse, "default/operator://o", "see\nINC-7"
	var out strings.Builder
	if err := writeDamaged(&out, time.UTC, []envelope.DamagedCall{c, decided}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"acme", "pay.0kd3", "2026-11-28T12:00:00Z", "2026-11-28T13:00:00Z", "  -\n", "refuse by default/operator://o: see",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
