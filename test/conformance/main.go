package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	ready := flag.String("ready-file", "", "file to write the URL to once it serves")
	program := flag.String("import", "", "an MCP server whose tools are behind the door; the URL that it has itself, "+
		"called with -http=ADDRESS, is the second line of the file")
	compare := flag.Bool("compare", false, "compare what the suite wrote into two folders; the third argument is the "+
		"list of what may differ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("-compare takes two folders and a list")
	switch {
	case !*compare:
		err = run(ctx, *listen, *ready, *program)
	case flag.NArg() == 3:
		err = same(flag.Arg(0), flag.Arg(1), flag.Arg(2))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// provide returns the tools.
func provide(ctx context.Context, dir, program string) (*toolbus.Toolset, *peer, error) {
	if program == "" {
		tools, err := fixtures()
		return tools, &peer{}, err
	}
	p, err := start(ctx, program)
	if err != nil {
		return nil, nil, err
	}
	tools, err := p.imported(ctx, filepath.Join(dir, "tools"))
	if err != nil {
		p.end()
	}
	return tools, p, err
}

// run serves the tools until ctx ends: those of the suite, or those of a program.
func run(ctx context.Context, listen, ready, program string) error {
	state, err := os.MkdirTemp("", "toolbus-conformance-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }() // what stays is in the way of nobody
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	srv, err := natsserver.Start(natsserver.Options{StoreDir: state, Log: log})
	if err != nil {
		return err
	}
	defer srv.Stop()
	conn, err := toolbus.Connect(ctx, srv.URL(), toolbus.Options{Topology: toolbus.Topology{SyncAlways: true},
		Name: "conformance", Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	tools, direct, err := provide(ctx, state, program)
	if err != nil {
		return err
	}
	defer direct.end()
	dispatcher, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		return err
	}
	executor, err := conn.Executor(tools, toolbus.ExecutorOptions{})
	if err != nil {
		return err
	}
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		return err
	}
	at, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	door := mcp.New(ctx, client, mcp.Options{TaskAfter: 100 * time.Millisecond, Logger: log})
	routes := http.NewServeMux()
	routes.Handle("/mcp", door.Handler())
	web := &http.Server{Handler: routes, ReadHeaderTimeout: 10 * time.Second}
	serving := func() {
		url := fmt.Sprintf("http://%s/mcp", at.Addr())
		fmt.Println(url)
		if ready != "" {
			_ = os.WriteFile(ready, []byte(url+"\n"+direct.url+"\n"), 0o644) // whoever waits says that it is not there
		}
		go func() { _ = web.Serve(at) }()
	}
	err = toolbus.Serve(ctx, dispatcher, executor, serving)
	door.Close()
	_ = web.Close()
	return err
}
