package client_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// credential writes a token of an actor to a file.
func credential(t *testing.T) (file string) {
	t.Helper()
	signer, err := auth.NewSigner("test", "k", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	token, err := signer.Mint(auth.Principal{
		Tenant: "default", Actor: "agent://a", Role: auth.Agent, ID: auth.NewID(), Family: "f", Issued: now,
		Expires: now.Add(auth.Life), RenewUntil: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCallOutlivesAToken holds that a call whose token a dispatcher refuses as expired is sent again as long as there
// is time, by a connection that renews its token. The server ends a connection up to a second after its token.
func TestCallOutlivesAToken(t *testing.T) {
	f := setup(t)
	f.Serve(bustest.Describing("count"))
	var asked atomic.Int32
	f.listening(func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies) {
		answer := envelope.Failure(req.CallID, envelope.NewError(envelope.CodeExpired, ""),
			envelope.Provenance{AuditEventID: "gate.1", NotStarted: true}, envelope.Metrics{})
		if asked.Add(1) > 1 {
			answer = &envelope.Response{CallID: req.CallID, Status: envelope.Success, Output: []byte(`{}`),
				Provenance: envelope.Provenance{ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Final: true}}
		}
		replies.Outcome(in.ReplyAddress(), answer)
	})
	conn, err := toolbus.Connect(t.Context(), f.Srv.URL, toolbus.Options{CredentialsFile: credential(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r, err := toolbus.Outcome(c.Call(t.Context(), toolbus.Call{Tool: "count",
		CallID: "390b09c1-a4a8-4a9a-a74c-652cfdbd6ebd"}))
	if err != nil || r.Status != envelope.Success {
		t.Errorf("%+v %+v, %v", r, r.Error, err)
	}
}
