package writer_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Foreign messages in the streams stop neither projection nor reading. They cannot be removed from AUDIT, so they would
// stop them for good.
func TestForeignMessagesInTheStreams(t *testing.T) {
	f := setup(t)
	subject := subjects.Partition(0).Audit("t")
	intrude := func(n int) {
		t.Helper()
		for range n {
			for _, subject := range []string{
				subject, subjects.JournalSubject("x", "t"), subjects.Denied("x", "t"), subjects.Dead("t", "echo"),
				subjects.Key{Tool: "echo", ID: "none"}.Request(1, "1.0.0", "normal", "default"),
			} {
				if _, err := f.JS.PublishAsync(subject, []byte("{")); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-f.JS.PublishAsyncComplete()
		f.broken(subject)
	}
	intrude(1) // before there is any segment
	stop := bustest.Run(t, f.project)
	f.Decide(f.Admit(1, envelope.PriorityNormal))
	f.recorded("id00001")
	intrude(400) // while a projector runs
	f.Decide(f.Admit(2, envelope.PriorityNormal))
	f.recorded("id00002")
	stop()
	intrude(400) // before a projector starts
	f.broken("$KV.calls.x")
	bustest.Run(t, f.project)
	f.Decide(f.Admit(3, envelope.PriorityNormal))
	f.recorded("id00003")
	intrude(1)
	if err := writer.WaitRecorded(t.Context(), f.JS); err != nil {
		t.Error(err)
	}
	records := 0
	for _, err := range reader.Replay(t.Context(), reader.Streams(f.JS), reader.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		records++
	}
	if records != 9 {
		t.Errorf("%d records of three calls", records)
	}
	// valid JSON, but not a dead letter
	if _, err := f.JS.Publish(t.Context(), subjects.Dead("t", "echo"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if letters, err := deadletter.DeadLetters(t.Context(), reader.Streams(f.JS)); err != nil || len(letters) != 0 {
		t.Errorf("%d dead letters, %v", len(letters), err)
	}
}

// broken publishes a message with invalid headers, which no NATS client library would send or can decode.
func (f *fixture) broken(subject string) {
	f.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.Srv.URL, "nats://"))
	if err != nil {
		f.T.Fatal(err)
	}
	defer conn.Close()
	const header = "NATS/1.0\r\nbroken\r\n\r\n"
	fmt.Fprintf(conn, "CONNECT {\"headers\":true}\r\nHPUB %s %d %d\r\n%s\r\nPING\r\n", subject, len(header), len(header),
		header)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() == "PONG" {
			return
		}
	}
	f.T.Fatal("the server has not taken it")
}
