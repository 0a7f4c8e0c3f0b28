package store_test

import (
	"context"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A process that removes documents without a version leaves those of a push that is about to put them in force: they
// may be new, or older than the version in force.
func TestRemovedDuringAPush(t *testing.T) {
	for name, before := range map[string]func(s shelf, next policy.Documents) (revision uint64){
		"new": func(s shelf, next policy.Documents) uint64 {
			defer s.put(next)
			return s.mustPush(set("one"), 0)
		},
		"old": func(s shelf, next policy.Documents) uint64 {
			s.put(next)
			return s.mustPush(set("one"), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bustest.Start(t)
			here, there, late := open(t, b), open(t, b), open(t, b)
			next := set("two")
			q := envelope.PolicyPushRequest{Versions: next.Versions(), Expected: before(here, next)}
			service := &store.Service{Store: here.Store, Record: func(
				ctx context.Context, _ call.Sender, _ envelope.PolicyPushRequest,
			) error { // after the check, and before the set is in force
				return there.RemoveUnused(ctx)
			}}
			if _, refusal := service.Push(t.Context(), root, q); refusal != nil {
				t.Fatal(refusal)
			}
			if _, err := late.Documents(t.Context(), q.Versions); err != nil {
				t.Error(err)
			}
			if now, err := late.inForce(); err != nil || now.Versions() != q.Versions {
				t.Errorf("in force is %v, %v", now, err)
			}
		})
	}
}

// A set that is not stored completely is read again: it can be used as soon as it is.
func TestIncompleteSetIsReadAgain(t *testing.T) {
	b := bustest.Start(t)
	here, there := open(t, b), open(t, b)
	d := set("one")
	here.mustPush(d, 0)
	here.delete(subjects.PolicyPart(here.parsed(), 0))
	here.delete(subjects.PolicyPart(policy.Digest(d.Roles), 0))
	if now, err := there.inForce(); err == nil {
		t.Fatalf("in force is %v", now)
	}
	here.put(d)
	if now, err := there.inForce(); err != nil || now.Versions() != d.Versions() {
		t.Errorf("in force is %v, %v", now, err)
	}
}
