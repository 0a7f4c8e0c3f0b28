package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// peer is an MCP server behind a URL. The zero value is none.
type peer struct {
	url string
	cmd *exec.Cmd
}

// startTime is how long a server may take until it listens.
const startTime = 20 * time.Second

// start runs a program that is told by -http where to listen.
func start(ctx context.Context, program string) (*peer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	p := &peer{url: "http://" + address, cmd: exec.Command(program, "-http="+address)}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return p, conn.Close()
		}
		if !timer.Sleep(ctx, 20*time.Millisecond) {
			p.end()
			return nil, fmt.Errorf("%s does not listen: %w", program, err)
		}
	}
}

func (p *peer) end() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // it was killed
	}
}

// imported returns the tools of the server, imported into dir. The suite calls them by the server's names, so the
// manifests give them those.
func (p *peer) imported(ctx context.Context, dir string) (*toolbus.Toolset, error) {
	const name = "peer"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	report, err := importer.Import(ctx, name, client.Server{URL: p.url}, importer.Options{
		Dir: dir, Owner: "@conformance", Version: "test",
	})
	if err != nil {
		return nil, err
	}
	for _, t := range report.Tools {
		if t.State != importer.Added {
			err = errors.Join(err, fmt.Errorf("%s: %s: %s", t.Name, t.State, t.Why))
		}
	}
	files, failed := filepath.Glob(filepath.Join(dir, "mcp_3a_3a"+name+"_3a_3a*", "tool.yaml"))
	err = errors.Join(err, failed)
	for _, file := range files {
		text, failed := os.ReadFile(file)
		text = bytes.Replace(text, []byte("\nmcp_name: "+name+"_"), []byte("\nmcp_name: "), 1)
		err = errors.Join(err, failed, os.WriteFile(file, text, 0o600))
	}
	if err != nil {
		return nil, err
	}
	tools := toolbus.NewToolset()
	return tools, tools.AddFolder(dir)
}
