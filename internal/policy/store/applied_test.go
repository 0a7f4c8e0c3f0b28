package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The process that pushes a set applies what it has compiled for the check: it neither reads nor compiles the documents
// again, which would take longer than calls may be stopped.
func TestPushAppliesWhatWasChecked(t *testing.T) {
	b := bustest.Start(t)
	s := open(t, b)
	bucket, err := b.JS.KeyValue(t.Context(), subjects.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	d := set("one")
	s.put(d)
	record := func(context.Context, call.Sender, envelope.PolicyPushRequest) error {
		for _, digest := range d.Versions().All() { // after the check, and before the set is in force
			if err := bucket.Delete(t.Context(), subjects.PolicyPart(digest, 0)); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	service := &store.Service{Store: s.Store, Record: record}
	if _, refusal := service.Push(t.Context(), root, envelope.PolicyPushRequest{Versions: d.Versions()}); refusal != nil {
		t.Fatal(refusal)
	}
	if now, err := s.Current(); err != nil || now.Versions() != d.Versions() {
		t.Errorf("in force is %v, %v", now, err)
	}
}

// A set with more than 2,000 lanes, or more than 2 MiB, is refused at a push with its place and a fix, and it cannot be
// used where a former build has pushed it.
func TestLimitsOfSets(t *testing.T) {
	var lanes strings.Builder
	for i := range 2001 {
		fmt.Fprintf(&lanes, "  - {lane_id: l%d, allowed_tools: []}\n", i)
	}
	for name, c := range map[string]struct {
		lanes string
		says  string
	}{
		"2,001 lanes": {"lanes:\n" + lanes.String(), policy.LanesFile + ":2:3: lanes has too many items (at most 2000)"},
		"2 MiB": {
			"lanes: [] #" + strings.Repeat("x", policy.MaxSet),
			policy.ToolRegistryFile + ": the documents of the set are larger than 2 MiB together (",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, bustest.Start(t))
			d := set("large")
			d.Roles, d.Lanes = []byte("roles: []\n"), []byte(c.lanes)
			s.put(d)
			q := envelope.PolicyPushRequest{Versions: d.Versions()}
			_, refusal := desk(s, nil).Push(t.Context(), root, q)
			if refusal == nil || refusal.Code != envelope.CodeMalformed || !strings.Contains(refusal.Message, c.says) {
				t.Errorf("refused with %.300v, want %s", refusal, c.says)
			}
			if _, err := s.Push(t.Context(), q, "default/operator", "", func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := s.inForce(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("in force: %.300v, want %s", err, c.says)
			}
		})
	}
}
