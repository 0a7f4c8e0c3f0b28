package attack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/cli/mcpcmd"
)

// gateway runs `toolbus gateway mcp` with the door's token, and returns its address.
func (d *devDeployment) gateway(flags ...string) (address string) {
	d.Helper()
	var conn *toolbus.Conn
	connect := func(ctx context.Context, _ auth.Role) (*toolbus.Conn, *toolbus.Client, error) {
		p := d.crowd[door]
		var err error
		conn, err = toolbus.Connect(ctx, d.url, toolbus.Options{
			Tenant: p.Tenant, Actor: p.Actor, NATS: d.options(nats.Token(p.token)),
		})
		if err != nil {
			return nil, nil, err
		}
		c, err := conn.Client(toolbus.ClientOptions{Token: func() string { return p.token }})
		return conn, c, err
	}
	ready := filepath.Join(d.TempDir(), "ready")
	r, w := io.Pipe()
	cmd := mcpcmd.Gateway(cli.Env{Stdout: w, Stderr: io.Discard}, connect)
	cmd.SetArgs(append([]string{"mcp", "--listen", "127.0.0.1:0", "--ready-file", ready}, flags...))
	ctx, stop := context.WithCancel(context.WithoutCancel(d.Context()))
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = w.Close()
		ended <- err
	}()
	d.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			d.Error(err)
		}
	})
	_, err := bufio.NewReader(r).ReadString('\n') // it says that it serves
	d.ok(err)
	url, err := os.ReadFile(ready)
	d.ok(err)
	address, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(url)), "http://"), "/")
	return address
}

// connect opens a TCP connection from an address of this machine.
func (d *devDeployment) connect(from, to string) net.Conn {
	d.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(d.Context(), "tcp", to)
	d.ok(err)
	d.Cleanup(func() { _ = c.Close() }) // the other side may have
	d.ok(c.SetDeadline(time.Now().Add(rawTime)))
	return c
}

// answer sends a request over a connection and returns the head and the body of the answer; both are empty if the
// other side has closed it.
func (d *devDeployment) answer(c net.Conn, request string) (head, body string) {
	d.Helper()
	_, _ = io.WriteString(c, request) // the other side may have closed it
	text, _ := io.ReadAll(c)
	h, b, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	return string(h), string(b)
}

// H16: a client without a token finds out from the answer where the metadata of the gateway is.
func TestGatewayNamesItsMetadata(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	at := d.gateway()
	for name, token := range map[string]string{"none": "", "junk": "Authorization: Bearer junk\r\n"} {
		head, _ := d.answer(d.connect("127.0.0.1", at), "POST /mcp HTTP/1.1\r\nHost: "+at+"\r\n"+token+
			"Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		_, said, named := strings.Cut(head, `resource_metadata="http://`+at)
		path, _, _ := strings.Cut(said, `"`)
		if !strings.HasPrefix(head, "HTTP/1.1 401 ") || !named || path != "/.well-known/oauth-protected-resource/mcp" {
			t.Errorf("%s: %s", name, head)
			continue
		}
		head, body := d.answer(d.connect("127.0.0.1", at),
			"GET "+path+" HTTP/1.1\r\nHost: "+at+"\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 200 ") || !strings.Contains(body, `"resource":"http://`+at+`/mcp"`) ||
			strings.Contains(body, "authorization_servers") {
			t.Errorf("%s: %s\n%s", name, head, body)
		}
	}
	d.finish()
}

// H16, S9: connections that send no header, or a part of one, leave room for others, also of the same address.
func TestGatewayIdleConnections(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	const most = 64
	at := d.gateway("--max-connections", "64")
	var idle []net.Conn
	for i := range 3 * most {
		c := d.connect("127.0.0.1", at)
		if i%2 == 0 {
			_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: ") // the other side may have closed it
		}
		idle = append(idle, c)
	}
	ended, before := 0, time.Now().Add(5*time.Second) // a client has ten for the headers
	for _, c := range idle[:3*most-most/2] {
		d.ok(c.SetReadDeadline(before))
		if text, err := io.ReadAll(c); !errors.Is(err, os.ErrDeadlineExceeded) && len(text) == 0 {
			ended++
		}
	}
	if ended != 3*most-most/2 {
		t.Errorf("%d of %d connections beyond the bound were closed", ended, 3*most-most/2)
	}
	ask := "GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: " + at + "\r\nConnection: close\r\n\r\n"
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		if head, _ := d.answer(d.connect(from, at), ask); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
			t.Errorf("%s is answered %q", from, head)
		}
	}
	d.finish()
}
