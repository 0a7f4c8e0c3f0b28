package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

// Calls succeed with a collector that refuses connections, never answers, or answers one byte a second. A dispatcher
// and an executor end in time all the same, and say how many spans they have lost.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{
		"refuses": fmt.Sprint("127.0.0.1:", processtest.FreePort(t)), "silent": hanging(t, ""),
		"slow": hanging(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			s, stop := processes(t, log, log, "--otlp-endpoint", "http://"+at+"/v1/traces")
			for range 3 {
				s.must("call", "play", "--input", `{"say":"hi"}`)
			}
			stop()
			if spans := lost(t, log.Name()); len(spans) != 2 || min(spans[0], spans[1]) < 3 {
				t.Errorf("the processes have lost %v spans, and each call has one in each", spans)
			}
		})
	}
}

// The same while nothing reads standard error.
func TestCollectorAndStandardErrorHang(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	fill(t, write)
	s, stop := processes(t, write, write, "--otlp-endpoint", "http://"+hanging(t, "")+"/v1/traces")
	s.must("call", "play", "--input", `{"say":"hi"}`)
	stop()
}

// hanging returns the address of a collector that answers each connection with one byte a second, until the test ends.
func hanging(t *testing.T, answer string) (at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	trickle := func(conn net.Conn) {
		defer conn.Close()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for rest := answer; ; {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
			n := min(1, len(rest))
			if _, err := io.WriteString(conn, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { trickle(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// lost returns the numbers of spans that processes have lost, as their log says.
func lost(t *testing.T, log string) (spans []int) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e struct {
			Msg   string
			Spans int
		}
		if json.Unmarshal(line, &e) == nil && e.Spans > 0 {
			spans = append(spans, e.Spans)
		}
	}
	return spans
}
