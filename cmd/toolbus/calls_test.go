package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// waiting calls the tool wait, and returns when the call is accepted. ended is closed when the command ends.
func (s shell) waiting(flags []string) (ended <-chan struct{}) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	accepted, done := make(chan struct{}), make(chan struct{})
	said := &until{text: "accepted: ", then: sync.OnceFunc(func() { close(accepted) })}
	env := environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: said, url: s.url, home: s.t.TempDir()}
	go func() {
		defer close(done)
		run(ctx, env, append([]string{"call", "wait", "--timeout", "50s"}, flags...))
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	<-accepted
	return done
}

// An agent lists its own open calls, and an operator those of a tenant, as a table or as JSON. Mistakes say what to do.
func TestCallsList(t *testing.T) {
	s, operator := deployed(t)
	ada, bob := s.token(operator, "ada"), s.token(operator, "bob")
	var all []envelope.OpenCall
	list := func(flags ...string) []envelope.OpenCall {
		t.Helper()
		out := s.must(append([]string{"calls", "list", "--open", "--json"}, flags...)...)
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if said := s.must(append([]string{"calls", "list", "--open"}, ada...)...); said != "no call is open\n" {
		t.Error(said)
	}
	first, second := s.waiting(ada), s.waiting(ada)
	for len(list(ada...)) < 2 || all[0].State != envelope.OpenRunning { // it has to start
	}
	c := all[0]
	if c.Tool != "wait" || c.Actor != "agent://ada" || c.Tenant != "default" || c.Since.After(all[1].Since) ||
		!c.Deadline.After(c.Since) {
		t.Errorf("%+v", c)
	}
	if len(list(bob...)) != 0 || len(list("--tenant", "acme", "--credentials", operator)) != 0 {
		t.Errorf("of others: %+v", all)
	}
	of := []string{"--tenant", "default", "--credentials", operator}
	if len(list(of...)) != 2 || all[0] != c {
		t.Errorf("an operator: %+v", all)
	}
	if said := s.must(append([]string{"calls", "list", "--open"}, of...)...); strings.Count(said, c.Ref) != 1 ||
		!strings.HasPrefix(said, "REF ") || !strings.Contains(said, c.Ref+"  running  wait  agent://ada  20") {
		t.Error(said)
	}
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"calls list": {exitTerminal, "A-AUTH-FORBIDDEN"}, "calls list --open --limit 0": {exitUsage, "--limit"},
		"calls list --open --tool x": {exitUsage, "leave it or --open out"}, "calls list --status x": {exitUsage, "status"},
		"calls list --open --limit 1":          {0, "more than 1 call is open"},
		"calls list --open --tenant default":   {exitTerminal, "A-AUTH-FORBIDDEN"},
		"calls list --open --tenant elsewhere": {exitTerminal, "A-AUTH-FORBIDDEN"},
	} {
		code, out, stderr := s.do(append(strings.Fields(line), ada...)...)
		if code != want.code || !strings.Contains(stderr, want.says) || strings.Contains(out, all[1].Ref) {
			t.Errorf("%s: exit %d: %s%s", line, code, out, stderr)
		}
	}
	for _, c := range list(ada...) {
		s.must(append([]string{"cancel", c.Ref}, ada...)...)
	}
	<-first
	<-second
	if left := list(ada...); len(left) != 0 {
		t.Errorf("after their end: %+v", left)
	}
}
