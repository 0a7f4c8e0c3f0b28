package admin_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// While dispatchers wait for a decision about a call log that was lost, doctor with secrets says so, and looks at the
// streams itself. Commands and calls say that admission has stopped, and where it says why.
func TestLostCallLog(t *testing.T) {
	dir := t.TempDir()
	s := &stage{dir: dir, secrets: filepath.Join(dir, "keys"), sync: true}
	t.Cleanup(s.stop)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if err := s.serve(toolbus.DispatcherOptions{AllowAll: true}); err != nil {
		t.Fatal(err)
	}
	if missing := s.missing(); missing != "" {
		t.Errorf("missing for admission: %q", missing)
	}
	js, err := jetstream.New(s.conn.NATS())
	if err != nil {
		t.Fatal(err)
	}
	listed, err := s.conn.NATS().SubscribeSync(subjects.Partition(0).KeptSteps())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first list may be from before the first call
		s.mustCall("Ada")
		if _, err := listed.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	operator, err := admin.Connect(t.Context(), s.url, admin.Options{CredentialsFile: s.operator})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	log := subjects.Partition(0).Stream()
	if err := js.DeleteStream(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	for late := time.After(time.Minute); ; {
		checks, err := admin.DiagnoseWithSecrets(t.Context(), s.url, s.secrets, "")
		if err != nil {
			t.Fatal(err)
		}
		all := byName(t, checks)
		if c := all["call log"]; strings.Contains(c.Says, "dispatchers admit nothing") && all[log].Says != "" {
			break
		}
		select {
		case <-late:
			t.Fatalf("doctor says %+v", checks)
		case <-time.After(time.Second):
		}
	}
	if missing := s.missing(); !strings.Contains(missing, "decision of an operator") {
		t.Errorf("missing for admission: %q", missing)
	}
	if _, err := operator.Repairs(t.Context()); err == nil || !strings.Contains(err.Error(), "stopped admission") ||
		!strings.Contains(err.Error(), "--secrets-dir") {
		t.Errorf("the list of damaged calls: %v", err)
	}
	file, err := s.credentials("ada", auth.Principal{Actor: "agent://ada", Role: auth.Agent})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := s.client(file)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	r, err := toolbus.Outcome(agent.Call(t.Context(), toolbus.Call{Tool: "greet", Timeout: time.Second}))
	if err != nil || r.Error == nil || !strings.Contains(r.Error.Cause, "stopped admission") ||
		strings.Contains(r.Error.Fix, "timeout") || !strings.Contains(r.Error.Fix, "once a dispatcher admits calls") {
		t.Errorf("a call: %+v, %v", r, err)
	}
}
