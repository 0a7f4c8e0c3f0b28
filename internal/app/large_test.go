package app

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The client library does not send a message above the size limit, and the connection stays usable. The server closes a
// connection that sends it anyway.
func TestCallersSendNothingLarger(t *testing.T) {
	const most = envelope.MaxEnvelope + envelope.MaxHeaders
	w := newWalls(t)
	token := w.issue("agent://a").Token
	agent, nc := w.connect("agent://a", token)
	to := subjects.Call("acme", "agent://a", "x")
	if err := errors.Join(nc.Flush(), nc.Publish(to, make([]byte, most))); err != nil {
		t.Error(err)
	}
	if err := nc.Publish(to, make([]byte, most+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("%v", err)
	}
	w.ask(agent, subjects.OpDescribe, envelope.DescribeRequest{}, &envelope.DescribeResponse{}, "")
	if n := nc.Stats().Reconnects; n != 0 {
		t.Errorf("the connection was lost %d times", n)
	}

	raw, err := net.Dial("tcp", strings.TrimPrefix(w.url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }() // the server has closed it
	if err := raw.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(raw, "CONNECT {\"auth_token\":%q,\"verbose\":false}\r\nPING\r\nPUB %s %d\r\n", token, to,
		most+1); err != nil {
		t.Fatal(err)
	}
	for said := bufio.NewScanner(raw); ; {
		if !said.Scan() {
			t.Fatal("the server says nothing of it")
		}
		if strings.HasPrefix(said.Text(), "-ERR 'Maximum Payload") {
			return
		}
	}
}
