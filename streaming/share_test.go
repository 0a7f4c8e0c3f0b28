package streaming

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func TestGreediest(t *testing.T) {
	parts := func(owners ...any) map[string]uint64 { // names and numbers in turns
		all := map[string]uint64{}
		for i := 0; i < len(owners); i += 2 {
			for n := range owners[i+1].(int) {
				all[fmt.Sprintf("tb.payload.%s.hash%d.0", owners[i], n)] = 1
			}
		}
		return all
	}
	many := parts("b.x", 300)
	for i := range 400 {
		many[fmt.Sprintf("tb.payload.a.sybil%d.hash.0", i)] = 1
	}
	for name, c := range map[string]struct {
		parts map[string]uint64
		want  *Cut
	}{
		"nobody":           {nil, nil},
		"nobody has much":  {parts("a.x", 100, "a.y", 100, "b.x", 255), nil},
		"an actor":         {parts("a.x", 1000, "a.y", 10, "b.x", 900), &Cut{"a", "x", 500}},
		"of the tenant":    {parts("a.x", 600, "a.y", 600, "b.x", 900), &Cut{"a", "x", 300}},
		"many of a tenant": {many, &Cut{"a", "", 200}},
		"of no owner":      {map[string]uint64{"tb.payload.hash.0": 1000}, nil},
	} {
		got := greediest(c.parts)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Whoever fills the store loses the older half of its own, and nobody else loses anything: there is room for others.
func TestShare(t *testing.T) {
	t.Parallel()
	_, stream, p := newPayloads(t)
	ctx := testContext(t)
	config := stream.CachedInfo().Config
	config.MaxBytes, config.Discard = 1<<20, jetstream.DiscardNew
	js := p.store.js
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	share := func(want *Cut) {
		t.Helper()
		_, cut, err := Share(ctx, js, "PAYLOADS")
		if err != nil || (cut == nil) != (want == nil) || cut != nil && *cut != *want {
			t.Fatalf("%+v, %v, want %+v", cut, err, want)
		}
	}
	data := content(50 << 10)
	ref, err := p.Put(ctx, mine, data)
	if err != nil {
		t.Fatal(err)
	}
	flood := subjects.Owner{Tenant: "acme", Actor: "agent://flood"}.On("default")
	put := func(i int) (envelope.PayloadRef, error) {
		return p.PutNow(ctx, flood, append(content(2<<10), fmt.Sprint(i)...))
	}
	stored := 0
	for ; stored < 100; stored++ {
		if _, err := put(stored); err != nil {
			t.Fatal(err)
		}
	}
	share(nil) // there is room
	for ; err == nil; stored++ {
		_, err = put(stored)
	}
	stored-- // the store was full
	share(&Cut{"acme", subjects.Token(flood.Actor), uint64(stored) / 2})
	share(nil)
	if got, err := p.Get(ctx, mine, ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("another's: %d bytes, %v", len(got), err)
	}
	if _, err := p.PutNow(ctx, mine, content(100<<10)); err != nil {
		t.Errorf("there is no room: %v", err)
	}
}
