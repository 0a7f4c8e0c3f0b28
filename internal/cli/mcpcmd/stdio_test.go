package mcpcmd

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// calling is a call of the tool hold in the protocol 2026-07-28.
const calling = `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"hold","arguments":{},"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"

// listening is a request that only the end of the input ends.
const listening = `{"jsonrpc":"2.0","id":"listen","method":"subscriptions/listen","params":{"notifications":{` +
	`"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"

// process is a bus with a tool that waits, and a process that serves a client.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	held chan struct{} // tells that a run waits
	hold chan struct{} // what it waits for
	ends chan error    // how its context ended
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{held: make(chan struct{}, 1), hold: make(chan struct{}), ends: make(chan error, 1)}
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure},
		func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
			p.held <- struct{}{}
			select {
			case <-p.hold:
			case <-ctx.Done():
			}
			p.ends <- ctx.Err()
			return "done", ctx.Err()
		}); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	p.cmd = exec.CommandContext(t.Context(), os.Args[0], "serve", bus.URL)
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // and been waited for
	})
	return p
}

func (p *process) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p.in, text); err != nil {
		t.Fatal(err)
	}
}

// The process answers all requests of a pipe before it ends.
func TestPiped(t *testing.T) {
	p := startProcess(t)
	p.write(t, `{"jsonrpc":"2.0","id":"long","method":"`+strings.Repeat("x", 5<<20)+"\"}\n"+
		`{"jsonrpc":"2.0","id":"broken","method":"`+"\n"+calling)
	<-p.held
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	close(p.hold)
	said, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	lines := bytes.Split(bytes.TrimSpace(said), []byte{'\n'})
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for i, want := range []string{
		`"id":"long","error":{"code":-32600`, `"id":"broken","error":{"code":-32700`, `"id":"call","result"`,
	} {
		if !strings.Contains(string(lines[i]), want) {
			t.Errorf("no %s in %s", want, lines[i])
		}
	}
}

// When a client has closed its input, and has then ended or sent SIGTERM, its running call is cancelled.
func TestPipedGone(t *testing.T) {
	for name, leave := range map[string]func(*process) error{
		"gone": func(p *process) error { return p.out.Close() },
		"told": func(p *process) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t)
			p.write(t, calling+listening)
			<-p.held
			if err := p.in.Close(); err != nil {
				t.Fatal(err)
			}
			for said := bufio.NewScanner(p.out); said.Scan() && !strings.Contains(said.Text(), `"id":"listen"`); {
			}
			if err := leave(p); err != nil {
				t.Fatal(err)
			}
			if err := <-p.ends; err == nil {
				t.Error("the work went on")
			}
			_ = p.cmd.Wait() // with what the bus said of the cancel
		})
	}
}
