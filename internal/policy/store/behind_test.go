package store

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// late is a bucket whose history comes from a server that does not have the newest version yet.
type late struct{ jetstream.KeyValue }

func (l late) History(ctx context.Context, key string, o ...jetstream.WatchOpt) ([]jetstream.KeyValueEntry, error) {
	all, err := l.KeyValue.History(ctx, key, o...)
	return all[:max(0, len(all)-1)], err
}

// Nothing is removed by a history that lacks the version in force, whose documents it does not name.
func TestHistoryIsBehind(t *testing.T) {
	s, err := Open(t.Context(), bustest.Start(t).JS, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := policy.Documents{
		Roles: []byte("roles: [{role_id: agent, allowed_lanes: [main]}]\n"),
		Lanes: []byte("lanes: [{lane_id: main, allowed_tools: []}]\n"), ToolRegistry: []byte("tools: []\n"),
	}
	revision := uint64(0)
	for n := range 2 {
		d.Roles = append(d.Roles, '#')
		for _, document := range d.All() {
			if err := s.put(t.Context(), document); err != nil {
				t.Fatal(err)
			}
		}
		q := envelope.PolicyPushRequest{Versions: d.Versions(), Expected: revision}
		if err := s.Check(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if revision, err = s.Push(t.Context(), q, "operator", "", func() error { return nil }); err != nil {
			t.Fatal(n, err)
		}
	}
	s.bucket = late{s.bucket}
	if err := s.RemoveUnused(t.Context()); !errors.Is(err, errBehind) {
		t.Error(err)
	}
	if _, err := s.Documents(t.Context(), d.Versions()); err != nil {
		t.Error(err)
	}
}
