package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// impatient are options of a gateway that holds answers only shortly.
var impatient = mcp.Options{HTTPHold: 100 * time.Millisecond, HTTPComment: 50 * time.Millisecond}

// inEachEra runs a test with a call as clients of each protocol era send it.
func inEachEra(
	t *testing.T, url string, run func(t *testing.T, call func(tool, text, meta string) (string, http.Header)),
) {
	t.Run("2026-07-28", func(t *testing.T) {
		run(t, func(tool, text, meta string) (string, http.Header) {
			return modern("7", tool, fmt.Sprintf(`{"text":%q}`, text), meta)
		})
	})
	t.Run("2025-11-25", func(t *testing.T) {
		header := begin(t, url)
		run(t, func(tool, text, meta string) (string, http.Header) {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q},`+
				`"_meta":{%s"x/y":1}}}`, tool, text, meta), header
		})
	})
}

// An answer that is ready in time is application/json, in whole, however large it is.
func TestHeldWhole(t *testing.T) {
	s := open(t, mcp.New(t.Context(), start(t).Client, mcp.Options{}))
	inEachEra(t, s.URL, func(t *testing.T, call func(tool, text, meta string) (string, http.Header)) {
		body, header := call("echo", strings.Repeat("x", 1<<20), "")
		resp := send(t, t.Context(), s.URL, body, header)
		defer func() { _ = resp.Body.Close() }() // it was read
		var answer struct {
			ID     int
			Result struct{ StructuredContent text }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.ID != 7 ||
			len(answer.Result.StructuredContent.Text) != 1<<20 {
			t.Errorf("%d bytes of %d: %v", len(answer.Result.StructuredContent.Text), resp.ContentLength, err)
		}
		if kind := resp.Header.Get("Content-Type"); kind != "application/json" || resp.ContentLength < 2<<20 {
			t.Errorf("%s, %d bytes", kind, resp.ContentLength)
		}
	})
}

// raw sends a request over a connection of its own, and returns a reader of all that the gateway answers.
func raw(t *testing.T, url, body string, header http.Header) *bufio.Reader {
	t.Helper()
	to, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() }) // the gateway may have closed it
	var head strings.Builder
	fmt.Fprintf(&head, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nConnection: close\r\n", to.RemoteAddr(), len(body))
	if err := header.Write(&head); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(to, head.String()+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(to)
}

// until reads lines until one begins with a text, and returns them.
func until(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	for all := ""; ; {
		line, err := r.ReadString('\n')
		if all += line; strings.HasPrefix(line, text) {
			return all
		}
		if err != nil {
			t.Fatalf("no %q in %.500q: %v", text, all, err)
		}
	}
}

// A later answer is an event: headers and a comment come when the time is over, then comments, then the answer. A large
// one has its beginning, and a link to the whole, which only the caller can read.
func TestHeldStream(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, impatient))
	inEachEra(t, s.URL, func(t *testing.T, call func(tool, text, meta string) (string, http.Header)) {
		for name, size := range map[string]int{"small": 3, "large": 1 << 20} {
			body, header := call("hold", name+t.Name()+strings.Repeat("x", size), "")
			r := raw(t, s.URL, strings.Replace(body, `"id":7`, fmt.Sprintf(`"id":%d`, 7+size), 1), header)
			<-f.held
			head := until(t, r, ": \n") + until(t, r, ": \n") + until(t, r, ": \n")
			if !strings.Contains(head, "Content-Type: text/event-stream\r\n") || strings.Contains(head, "event: prime") {
				t.Errorf("it begins with %q", head)
			}
			f.hold <- struct{}{}
			event := until(t, r, "data: {")
			primed := strings.Contains(head+event, "\ndata: \n\n") // on a busy machine after more comments
			if primed != strings.Contains(t.Name(), "2025") {
				t.Errorf("it begins with %q", head)
			}
			<-f.ends
			switch {
			case size > 3 && (len(event) > 70<<10 || !strings.Contains(event, "The tool was run and has succeeded") ||
				!strings.Contains(event, `"type":"resource_link","uri":"toolbus://result/hold.`) ||
				!strings.Contains(event, `"isError":true`)):
				t.Errorf("%d bytes: %.900s", len(event), event)
			case size == 3 && !strings.Contains(event, `"structuredContent":{"text":"small`):
				t.Errorf("%d bytes: %.900s", len(event), event)
			}
		}
	})
}

// The first progress begins the stream, before the time is over.
func TestHeldProgress(t *testing.T) {
	s := open(t, mcp.New(t.Context(), start(t).Client, mcp.Options{}))
	body, header := modern("7", "count", `{"input":3}`, `"progressToken":"p",`)
	status, answer := post(t, s.URL, body, header)
	if status != http.StatusOK || !strings.HasPrefix(answer, "event: message\n") ||
		strings.Index(answer, "notifications/progress") > strings.Index(answer, `"result"`) {
		t.Errorf("%d %s", status, answer)
	}
}

// The official client gets a large result that comes late by the link, and nobody else does.
func TestResultRead(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, impatient))
	for _, protocol := range protocols {
		c := over(t, s, protocol, nil)
		began := make(chan struct{})
		go func() {
			defer close(began)
			<-f.held
			time.AfterFunc(2*impatient.HTTPHold, func() { f.hold <- struct{}{} })
		}()
		large := strings.Repeat("x", 1<<20) + protocol
		res := callNamed(t, c, "hold", fmt.Sprintf(`{"text":%q}`, large), nil)
		<-began
		<-f.ends
		if len(res.Content) != 3 || !res.IsError {
			t.Fatalf("%d blocks: %.300s", len(res.Content), words(res))
		}
		link, ok := res.Content[2].(*sdk.ResourceLink)
		if !ok {
			t.Fatalf("%T", res.Content[2])
		}
		read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI})
		if err != nil || len(read.Contents) != 1 {
			t.Fatal(err)
		}
		var whole struct{ StructuredContent text }
		if err := json.Unmarshal([]byte(read.Contents[0].Text), &whole); err != nil || whole.StructuredContent.Text != large {
			t.Errorf("%d bytes: %v", len(read.Contents[0].Text), err)
		}
		other, err := f.Conn.Client(toolbus.ClientOptions{Actor: "agent://other"})
		if err != nil {
			t.Fatal(err)
		}
		theirs := over(t, open(t, mcp.New(t.Context(), other, mcp.Options{})), protocol, nil)
		for _, uri := range []string{link.URI, "toolbus://result/x", "toolbus://result/hold.nothing", "toolbus://result/%"} {
			if _, err := theirs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("%s was read by another caller", uri)
			}
		}
		_ = other.Close()
	}
}
