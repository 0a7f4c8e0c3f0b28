package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// question is a question of the attacker.
func (b *beside) question(op, members string) string {
	return rawPublish(subjects.Service(op, b.tenant, b.actor), subjects.Answers(b.tenant, b.actor)+"flood.x",
		rawHeader("Tb-Token: "+b.attacker, "Tb-Answer: flood.x"), `{"form":2,`+members+`}`)
}

// ask sends a message of the attacker and returns the first answer.
func (b *beside) ask(message string) rawMsg {
	b.Helper()
	c, err := b.raw(b.attacker, "asks")
	b.must(err)
	go c.listen()
	defer func() { _ = c.conn.Close(); <-c.done }()
	b.must(c.subscribe(subjects.Answers(b.tenant, b.actor) + "flood.x"))
	b.must(c.send(message))
	m, err := c.await(func(rawMsg) bool { return true })
	b.must(err)
	if strings.Contains(string(m.body), `"code"`) {
		b.Fatalf("the attacker is refused: %s", m.body)
	}
	return m
}

// pages are questions of an auditor for the record of its tenant.
func pages(b *beside) func() string {
	ctx, stop := context.WithTimeout(b.Context(), 3*time.Second)
	defer stop()
	b.send(ctx, 1, 1000, func() string {
		return b.request(asking{tool: "heavy", fn: "wait", key: auth.NewID(), input: "{}", due: time.Now().Add(time.Second)})
	})
	b.actor = auditor
	_, b.attacker = b.Credential(auth.Principal{Tenant: b.tenant, Actor: auditor, Role: auth.Auditor})
	page := b.question(subjects.OpStored, fmt.Sprintf(`"stream":%q`, subjects.AuditStream))
	b.Logf("a page of the record has %d bytes", len(b.ask(page).body))
	return func() string { return page }
}

// parts are questions for a part of a large output.
func parts(b *beside) func() string {
	var made Accepted
	text := strings.Repeat("A paragraph of a text that is long enough to be a chunk.\\n\\n", 10_000)
	r, err := b.client(b.URL, b.attacker).Call(b.Context(), clientlib.Call{
		Tool: "transcript.clean", Input: []byte(`{"text":"` + auth.NewID() + text + `"}`),
		OnChunk: func(envelope.Chunk) error { return nil }, OnAccepted: func(a Accepted) { made = a },
	})
	if b.must(err); r.Provenance.OutputRef == nil {
		b.Fatalf("the output is not with the payloads: %+v", r.Error)
	}
	part := b.question(subjects.OpPayload, fmt.Sprintf(`"ref":%q,"sha256":%q,"part":0`, made.Ref,
		r.Provenance.OutputRef.SHA256))
	b.Logf("a part has %d bytes", len(b.ask(part).body))
	return func() string { return part }
}

// about are questions about a call whose request is large.
func about(op string) maker {
	return func(b *beside) func() string {
		m := b.ask(b.request(asking{tool: "heavy", fn: "wait", key: auth.NewID(), pad: 235_000,
			input: fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 250_000)), due: time.Now().Add(10 * time.Minute)}))
		var made Accepted
		b.must(json.Unmarshal(m.body, &made))
		text := b.question(op, fmt.Sprintf(`"ref":%q`, made.Ref))
		b.ask(text)
		return func() string { return text }
	}
}

// readers connects by four tokens, as often as each may, subscribes to large answers, and never reads them.
func readers(b *beside) func(context.Context) {
	var all []func(context.Context)
	for i := range 4 {
		one := *b
		one.actor = fmt.Sprint(mallory, i)
		_, one.attacker = b.Credential(auth.Principal{Tenant: b.tenant, Actor: one.actor, Role: auth.Agent})
		ask := maker(parts).from(1, 20)(&one)
		for range callout.FamilyConnections - 4 {
			c, err := b.raw(one.attacker, "reader")
			b.must(err)
			b.must(c.subscribe(subjects.Answers(b.tenant, one.actor) + ">"))
			b.Cleanup(func() { _ = c.conn.Close() })
		}
		all = append(all, ask)
	}
	return func(ctx context.Context) {
		var asking sync.WaitGroup
		for _, ask := range all {
			asking.Go(func() { ask(ctx) })
		}
		asking.Wait()
	}
}

// halfOpen keeps 5,000 connections to a gateway that have sent a part of a request, from the address of the bystander,
// who calls through that gateway.
func halfOpen(b *beside) func(context.Context) {
	ready := filepath.Join(b.TempDir(), "ready")
	file, _ := b.Credential(auth.Principal{Tenant: "acme", Actor: door, Role: auth.Gateway})
	processtest.Start(b.T, "are served at", b.Toolbus(), append([]string{"gateway", "mcp", "--listen", "127.0.0.1:0",
		"--credentials", file, "--ready-file", ready}, b.Access()...)...)
	url, err := os.ReadFile(ready)
	b.must(err)
	at := strings.TrimSpace(string(url))
	host, _, _ := strings.Cut(strings.TrimPrefix(at, "http://"), "/")
	_, token := b.Credential(auth.Principal{Tenant: "acme", Actor: bob, Role: auth.Agent})
	b.others = func(ctx context.Context) error { return callOver(ctx, at, token) }
	return func(ctx context.Context) {
		var open [5000]net.Conn
		for i := 0; ctx.Err() == nil; i = (i + 1) % len(open) {
			if open[i] != nil {
				_ = open[i].Close()
			}
			c, err := net.Dial("tcp", host)
			if err != nil {
				continue
			}
			_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: ") // the gateway may have closed it
			open[i] = c
		}
		for _, c := range open {
			if c != nil {
				_ = c.Close()
			}
		}
	}
}

// callOver calls a tool through a gateway, over a connection of its own.
func callOver(ctx context.Context, at, token string) error {
	const name = "transcript_clean"
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"text":"a %s"},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		name, auth.NewID())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Close = true
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "Mcp-Protocol-Version": {"2026-07-28"},
		"Mcp-Method": {"tools/call"}, "Mcp-Name": {name}, "Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if text, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(text), "clean_text") {
		return fmt.Errorf("%s: %s, %w", a.Status, text, err)
	}
	return nil
}
