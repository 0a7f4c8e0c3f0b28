package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// An operator sees the executors that run, with their version, load and start. An agent does not.
func TestExecutorsList(t *testing.T) {
	s, operator := deployed(t)
	of := []string{"--credentials", operator}
	list := func(flags ...string) (all []envelope.ExecutorInfo) {
		t.Helper()
		out := s.must(append(append([]string{"executors", "list", "--json"}, of...), flags...)...)
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	ada := s.token(operator, "ada")
	for len(list()) == 0 { // it starts
	}
	s.waiting(ada)
	all := list()
	for all[0].Running == 0 { // its next heartbeat
		all = list()
	}
	e := all[0]
	if len(all) != 1 || e.Pool != "default" || e.Instance == "" || e.Version != toolbus.Version || e.Running != 1 ||
		e.Slots != toolbus.DefaultSlots || time.Since(e.Since) > time.Minute || time.Until(e.Since) > time.Second {
		t.Errorf("%+v", all)
	}
	text := s.must(append([]string{"executors", "list"}, of...)...)
	_, row, _ := strings.Cut(text, "\n")
	host, err := os.Hostname()
	if err != nil || e.Host != host || e.PID != os.Getpid() {
		t.Errorf("%+v: host %q, %v", e, host, err)
	}
	want := []string{e.Instance, "default", host, strconv.Itoa(e.PID), e.Version, "1", "of", "16",
		e.Since.Format(time.RFC3339)}
	if !strings.HasPrefix(text, "ID ") || !slices.Equal(strings.Fields(row), want) {
		t.Error(text)
	}
	var open []envelope.OpenCall
	listed := s.must(append([]string{"calls", "list", "--open", "--json"}, ada...)...)
	if err := json.Unmarshal([]byte(listed), &open); err != nil {
		t.Fatal(err)
	}
	s.must(append([]string{"cancel", open[0].Ref}, ada...)...) // the executor need not wait for it
	if len(list("--pool", "gpu")) != 0 ||
		s.must(append([]string{"executors", "list", "--pool", "gpu"}, of...)...) != "no executor runs\n" {
		t.Error("of another pool")
	}
	if code, out, stderr := s.do(append([]string{"executors", "list"}, ada...)...); code != exitTerminal ||
		strings.Contains(out, e.Instance) || !strings.Contains(stderr, "A-AUTH-FORBIDDEN") {
		t.Errorf("an agent: exit %d: %s%s", code, out, stderr)
	}
}
