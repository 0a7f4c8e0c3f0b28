package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// spoken is a session over lines, of which a test writes each byte.
type spoken struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Scanner
	ended chan error
}

// speak serves a client over a pipe of the operating system, until ctx ends.
func (f *fixture) speak(t *testing.T, ctx context.Context) (s *spoken, hears *os.File) {
	t.Helper()
	in, asks := io.Pipe()
	hears, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s = &spoken{t: t, in: asks, out: bufio.NewScanner(hears), ended: make(chan error, 1)}
	s.out.Buffer(nil, 8<<20)
	door := mcp.New(t.Context(), f.Client, mcp.Options{})
	go func() {
		err := door.Serve(ctx, in, out)
		_ = out.Close()
		s.ended <- err
	}()
	t.Cleanup(func() {
		_ = asks.Close()
		_ = hears.Close()
		door.Close()
	})
	return s, hears
}

// say writes a line.
func (s *spoken) say(format string, parts ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", parts...); err != nil {
		s.t.Fatal(err)
	}
}

// call asks for a call.
func (s *spoken) call(id, tool, meta string) {
	s.t.Helper()
	s.say(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"text":"a"},"_meta":{%s`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		id, tool, meta)
}

// listen asks for notifications.
func (s *spoken) listen(id string) {
	s.t.Helper()
	s.say(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		id)
}

// end ends the input.
func (s *spoken) end() {
	s.t.Helper()
	if err := s.in.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// hear reads answers until there is one for each id, and returns them.
func (s *spoken) hear(ids ...string) map[string][]string {
	s.t.Helper()
	all := map[string][]string{}
	for n := 0; n < len(ids) && s.out.Scan(); {
		var answer struct{ ID json.RawMessage }
		if err := json.Unmarshal(s.out.Bytes(), &answer); err != nil {
			s.t.Fatalf("%s: %v", s.out.Text(), err)
		}
		if answer.ID != nil {
			all[string(answer.ID)] = append(all[string(answer.ID)], s.out.Text())
			n++
		}
	}
	for _, id := range ids {
		if len(all[id]) == 0 {
			s.t.Errorf("%s is not answered: %v", id, all)
		}
	}
	return all
}

// A request before initialize is refused with a code of JSON-RPC, over lines and over HTTP.
func TestBeforeInitialize(t *testing.T) {
	f := start(t)
	const request = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const want = `"error":{"code":-32600,"message":"method \"tools/list\" is invalid during session initialization: ` +
		`send initialize first, and over HTTP the Mcp-Session-Id of its answer with each request"}`
	s, _ := f.speak(t, t.Context())
	s.say(request)
	if answer := s.hear("1")["1"]; len(answer) != 1 || !strings.Contains(answer[0], want) {
		t.Errorf("over lines: %s", answer)
	}
	for _, o := range []mcp.Options{{}, {HTTPHold: time.Nanosecond}} {
		server := open(t, mcp.New(t.Context(), f.Client, o))
		if _, answer := post(t, server.URL, request, http.Header{}); !strings.Contains(answer, want) {
			t.Errorf("over HTTP: %s", answer)
		}
	}
}

// A client that writes its requests and ends its input has all answers, those of calls that run included.
func TestOneShot(t *testing.T) {
	f := start(t)
	s, _ := f.speak(t, t.Context())
	s.call("1", "hold", "")
	s.call(`"2"`, "echo", "")
	s.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	s.listen("4")
	s.say(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"` + strings.Repeat("x", 5<<20) + `"}}`)
	s.say(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"\ud800"}}`)
	s.end()
	<-f.held
	all := s.hear("3", "4", "5", "6", `"2"`)
	close(f.hold)
	for id, answer := range s.hear("1") {
		all[id] = answer
	}
	for id, want := range map[string]string{
		"1": `"structuredContent":`, `"2"`: `"structuredContent":`, "3": `"tools":[`, "4": `"result":`,
		"5": `"code":-32600`, "6": `"code":-32700`,
	} {
		if len(all[id]) != 1 || !strings.Contains(all[id][0], want) {
			t.Errorf("%s: no %s in %.300q", id, want, all[id])
		}
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// A client that has ended its input, and whose output nobody reads, has gone: its calls are cancelled, but for those
// that it can ask for again.
func TestUnread(t *testing.T) {
	f := start(t)
	s, hears := f.speak(t, t.Context())
	s.call("1", "hold", "")
	s.call("2", "hold", `"io.toolbus/idempotency_key":"a-key-to-ask-with-again",`)
	<-f.held
	<-f.held
	if err := hears.Close(); err != nil {
		t.Fatal(err)
	}
	s.end()
	if err := <-f.ends; err == nil {
		t.Error("the work of a plain call went on")
	}
	<-s.ended
	close(f.hold)
	if err := <-f.ends; err != nil {
		t.Error("the work of a call with a key was cancelled:", err)
	}
}

// A gateway that is stopped answers each open request. The calls go on, unless the client has closed its input: then
// the gateway cancels them.
func TestStopped(t *testing.T) {
	for name, ends := range map[string]bool{"while the client asks": false, "behind its input": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			ctx, stop := context.WithCancel(t.Context())
			s, _ := f.speak(t, ctx)
			s.call("1", "hold", "")
			<-f.held
			want := `"code":503`
			if ends {
				s.listen("2")
				s.end()
				s.hear("2") // the door has seen the end
				want = `"code":499`
			}
			stop()
			if all := s.hear("1")["1"]; len(all) != 1 || !strings.Contains(all[0], want) {
				t.Errorf("no %s in %q", want, all)
			}
			if err := <-s.ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if !ends {
				close(f.hold)
			} // else only the cancel ends the work, which may come later than the answer
			if err := <-f.ends; (err != nil) != ends {
				t.Errorf("the work ended with %v", err)
			}
		})
	}
}

// A request that is sent again while its call runs joins it, and both are answered.
func TestResentInFlight(t *testing.T) {
	f := start(t)
	s, _ := f.speak(t, t.Context())
	s.call("1", "hold", "")
	<-f.held
	s.call("1", "hold", "")
	s.call("2", "echo", "") // is read behind it
	s.hear("2")
	close(f.hold)
	all := s.hear("1", "1")["1"]
	if len(all) != 2 || succeeded(strings.Join(all, "")) != 2 {
		t.Errorf("%q", all)
	}
	if more := len(f.held); more > 0 {
		t.Errorf("ran %d times more", more)
	}
	s.end()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
