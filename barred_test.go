package toolbus

import (
	"errors"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// Whoever is let in no more is told so by each call, and by what runs on the connection.
func TestLetInNoMore(t *testing.T) {
	conn, err := Connect(t.Context(), natstest.Start(t).URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := conn.Client(ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // its connection is gone
	revoked := errors.New("it was revoked")
	conn.end(revoked)
	r, err := c.Call(t.Context(), Call{Tool: "hi"})
	if err != nil || r.Error == nil || r.Error.Code != envelope.CodeToken || r.Error.Message != revoked.Error() ||
		r.Key == "" {
		t.Errorf("%+v, %v", r, err)
	}
	e, err := conn.Executor(NewToolset(), ExecutorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); !errors.Is(err, revoked) {
		t.Error(err)
	}
	conn.Close()
}
