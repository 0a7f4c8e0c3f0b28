package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// Parts are stored without their headers and answered as JetStream does; a greedy sender, a subject of another form and
// what the stream refuses are refused; and nothing is answered on a subject that a process acts on.
func TestParts(t *testing.T) {
	b := bustest.Start(t)
	of := func(actor, sum string) string { return "tb.part.t." + actor + "." + sum + ".0.default" }
	sum := strings.Repeat("a", 64)
	refusal := &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "full"}
	stored := make(chan string, 10)
	parts, err := rpc.TakeParts(context.WithoutCancel(t.Context()), rpc.PartsOptions{
		NC: b.NC, Log: slog.New(slog.DiscardHandler),
		Store: func(_ context.Context, subject string, body []byte) (uint64, error) {
			if string(body) == "full" {
				return 0, fmt.Errorf("put: %w", refusal)
			}
			stored <- subject + " " + string(body)
			return 7, nil
		},
		OverQuota: func(_, actor string) time.Duration {
			if actor == "greedy" {
				return 3 * time.Second
			}
			return 0
		},
	})
	if err := errors.Join(err, b.NC.Flush()); err != nil {
		t.Fatal(err)
	}
	nc := b.Srv.Connect(t)
	for _, row := range []struct{ subject, body, want string }{
		{of("a", sum), "body", `{"stream":"PAYLOADS","seq":7}`},
		{of("a", sum), "full", `"err_code":10077,"description":"full"`},
		{of("greedy", sum), "body", `10077,"description":"you have filled the payload store: store nothing for 3s"`},
		{of("a", "x"), "body", `"err_code":10060`},
	} {
		msg := &nats.Msg{Subject: row.subject, Data: []byte(row.body), Header: nats.Header{"Nats-Rollup": {"all"}}}
		answer, err := nc.RequestMsg(msg, 10*time.Second)
		if err != nil || !strings.Contains(string(answer.Data), row.want) {
			t.Errorf("%s, %s: %v, %v, want %s", row.subject, row.body, answer, err, row.want)
		}
	}
	heard, err := nc.SubscribeSync("tb.ctl.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(of("a", sum), "tb.ctl.left", []byte("last")); err != nil {
		t.Fatal(err)
	}
	first, last := <-stored, <-stored
	want := strings.Replace(of("a", sum), "part", "payload", 1)
	if first != want+" body" || last != want+" last" || len(stored) > 0 {
		t.Errorf("stored %q, %q and %d more", first, last, len(stored))
	}
	parts.Stop()
	if err := errors.Join(b.NC.Flush(), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	if n, _, err := heard.Pending(); err != nil || n > 0 {
		t.Errorf("%d answers on a subject of others, %v", n, err)
	}
}
