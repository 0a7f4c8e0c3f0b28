package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
)

// replace revokes the credential in a file, and issues another one into the file.
func (s shell) replace(operator, file string, flags ...string) {
	s.t.Helper()
	s.must("credentials", "revoke", file, "--credentials", operator)
	s.must(append([]string{"credentials", "issue", "--out", file, "--force", "--credentials", operator}, flags...)...)
}

// A program whose credential is revoked goes on with another one that is issued into the same file.
func TestConnectionTakesANewCredential(t *testing.T) {
	s, operator := deployed(t)
	file := filepath.Join(t.TempDir(), "agent.token")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", file, "--credentials", operator)
	conn, err := toolbus.Connect(t.Context(), s.url, toolbus.Options{CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s.replace(operator, file, "--actor", "agent://a")
	began, tick := time.Now(), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		r, err := c.Call(t.Context(), toolbus.Call{Tool: "hello", Input: []byte(`"you"`)})
		if err == nil && r.Status == toolbus.Success {
			return
		}
		if time.Since(began) > tokensource.GiveUp/2 {
			t.Fatalf("it does not take the new credential: %v, %+v", err, r)
		}
	}
}

// lines counts the lines with a text.
type lines struct {
	text string
	mu   sync.Mutex
	all  bytes.Buffer
	seen chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(b)
	if strings.Contains(string(b), l.text) {
		l.seen <- struct{}{}
	}
	return len(b), nil
}

// An executor starts again with another credential that is issued into its file after the first is revoked.
func TestExecutorTakesANewCredential(t *testing.T) {
	s, operator := deployed(t)
	tools, _ := sayTools(t)
	file := filepath.Join(t.TempDir(), "executor.token")
	of := []string{"--role", "executor", "--pool", "default", "--actor", "executor://y"}
	s.must(append([]string{"credentials", "issue", "--out", file, "--credentials", operator}, of...)...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said, code := &lines{text: "works for pool default", seen: make(chan struct{}, 8)}, make(chan int, 1)
	go func() {
		env := environment{stdin: strings.NewReader(""), stdout: said, stderr: said, url: s.url, home: t.TempDir()}
		code <- run(ctx, env, []string{"executor", "--credentials", file, "--tools", tools})
	}()
	works := func(within time.Duration) {
		t.Helper()
		select {
		case <-said.seen:
		case got := <-code:
			t.Fatalf("exit %d: %s", got, &said.all)
		case <-time.After(within):
			t.Fatal("it does not work")
		}
	}
	works(time.Minute)
	s.replace(operator, file, of...)
	works(tokensource.GiveUp / 2)
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit %d: %s", got, &said.all)
	}
}
