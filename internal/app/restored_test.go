package app

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A policy that is deleted while a dispatcher serves is in force again, and that is on record.
func TestRestoredEntryIsOnRecord(t *testing.T) {
	srv := natstest.Start(t)
	c, err := Connect("dispatcher", Options{Options: link.Options{URL: srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- RunDispatcher(ctx, c, DispatcherOptions{
			AllowAll: true, Tools: tool.NewSet(), Version: "0.0.0", Ready: func() { close(ready) },
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	nc := srv.Connect(t)
	records, err := nc.SubscribeSync(subjects.AuditAll)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := srv.JetStream(t).Stream(ctx, subjects.PolicyStream)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.GetLastMsgForSubject(ctx, subjects.PolicySubject)
	if err == nil {
		err = s.DeleteMsg(ctx, lost.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := records.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(m.Data)) {
			var r audit.Record
			if json.Unmarshal([]byte(line), &r) != nil || r.Restored == nil {
				continue
			}
			want := audit.RestoredEntry{Stream: subjects.PolicyStream, Entry: subjects.PolicySubject, Reason: "missing"}
			if *r.Restored != want || r.Event != audit.PolicyApplied || !strings.HasPrefix(r.Actor, "dispatcher://") ||
				r.EventID == "" || r.Tenant == "" {
				t.Errorf("on record: %s", line)
			}
			return
		}
	}
}
