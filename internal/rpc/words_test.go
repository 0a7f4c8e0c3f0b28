package rpc_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// The words of calls are spread over 64 bits, and two clients of an actor have no word in common: whoever sees one
// learns nothing of the others.
func TestWordsAreUnguessable(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect(t)
	seen, long := map[string]bool{}, 0
	for range 2 {
		in, err := rpc.NewInbox(nc, "acme", "agent://a")
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			reply := in.Open(func(*nats.Msg) {})
			word := reply[strings.LastIndexByte(reply, '.')+1:]
			if seen[word] {
				t.Fatalf("%s comes twice", word)
			}
			if seen[word] = true; len(word) >= 12 { // of 13, which 64 bits take: all but one of 140
				long++
			}
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	if long < 1950 {
		t.Errorf("only %d of 2000 words are long", long)
	}
}

func BenchmarkInboxOpen(b *testing.B) {
	in, err := rpc.NewInbox(natstest.Start(b).Connect(b), "acme", "agent://a")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		in.Drop(in.Open(func(*nats.Msg) {}))
	}
}
