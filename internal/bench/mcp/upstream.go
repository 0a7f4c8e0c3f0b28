package mcp

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is the MCP server that is called. Its tool echo answers at once, and its tool hold when release is closed.
type server struct {
	held    chan struct{} // gets a value for each call of hold that has arrived
	release chan struct{} // closed to let the calls of hold return
}

func (s *server) handler() http.Handler {
	of := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	schema := json.RawMessage(schemaText)
	of.AddTool(&sdk.Tool{Name: "echo", InputSchema: schema, OutputSchema: schema}, answer)
	of.AddTool(&sdk.Tool{Name: "hold", InputSchema: schema, OutputSchema: schema},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			s.held <- struct{}{}
			select {
			case <-s.release:
				return answer(ctx, r)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return of },
		&sdk.StreamableHTTPOptions{Stateless: true})
}

const schemaText = `{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}`

// answer returns the arguments of a call.
func answer(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{
		StructuredContent: r.Params.Arguments, Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}},
	}, nil
}

// manifests writes a folder with the manifests of the server's two tools.
func manifests(dir, at string) error {
	servers, err := json.Marshal(map[string]any{"servers": map[string]any{"bench": map[string]any{"url": at}}})
	if err != nil {
		return err
	}
	files := map[string][]byte{"servers.json": servers}
	for _, name := range []string{"echo", "hold"} {
		folder := "mcp_2e" + name + "/"
		files[folder+"schema.json"] = []byte(schemaText)
		files[folder+"tool.yaml"] = []byte(`tool_id: mcp.` + name + `
semver: 1.0.0
owner: "@bench"
description: Answers with its input.
determinism: pure
transport: mcp
endpoint: {server: bench, tool: ` + name + `}
functions: {call: {request: schema.json, response: schema.json}}
limits: {concurrency_max: 10000}
`)
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// proxy returns a minimal reverse proxy.
func proxy(to string) (http.Handler, error) {
	at, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL, r.Out.Host = at, at.Host },
		FlushInterval: -1,
	}, nil
}

// serve serves h on a loopback port until stop is called, and returns the URL.
func serve(h http.Handler) (at string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // stop waits for it
	return "http://" + l.Addr().String() + "/mcp", func() error {
		err := s.Close()
		<-ended
		return err
	}, nil
}
