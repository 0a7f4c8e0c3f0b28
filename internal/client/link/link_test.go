package link

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// After the token was refused for good, each call and each process on the connection returns the reason.
func TestLetInNoMore(t *testing.T) {
	link, err := Establish(t.Context(), Options{URL: natstest.Start(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	c, err := link.Client(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // its connection is already closed
	revoked := errors.New("it was revoked")
	link.end(revoked)
	r, err := c.Call(t.Context(), client.Call{Tool: "hi"})
	if err != nil || r.Error == nil || r.Error.Code != envelope.CodeToken || r.Error.Message != revoked.Error() ||
		r.Key == "" {
		t.Errorf("%+v, %v", r, err)
	}
	started := func(context.Context, Options) error { t.Error("it was run"); return nil }
	if err := link.Run(t.Context(), started); !errors.Is(err, revoked) {
		t.Error(err)
	}
	link.Close()
}
