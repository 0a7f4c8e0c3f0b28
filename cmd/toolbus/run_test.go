package main

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	policystore "github.com/seed-018f16cc/toolbus/internal/policy/store"
)

// begin starts a run of an actor, for the policy in force.
func begin(t *testing.T, nc *nats.Conn, tenant, actor, id string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	policies, err := policystore.Open(t.Context(), js, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	now, err := policies.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	runs, err := runstore.Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.Create(t.Context(), envelope.Run{
		ID: id, Tenant: tenant, Actors: []string{actor}, State: "active", Policies: now.Versions, Start: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
}
