package caller

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// DefaultURL is the address on which `toolbus dev` listens, and the default of [Connect].
const DefaultURL = "nats://127.0.0.1:4280"

// ErrClosed is the error of calls on a [Client] that is closed.
var ErrClosed = rpc.ErrClosed

// Options configures a client and its connection. The zero value suits development.
type Options struct {
	Client ClientOptions
	Name   string        // connection name that the NATS server shows; default: base name of os.Args[0]
	Logger *slog.Logger  // logs events of the connection; nil discards
	NATS   []nats.Option // further options of the connection; they override those of Toolbus
	// CredentialsFile is the file with the token of the caller, which names its tenant and actor; see
	// `toolbus credentials`. The connection renews the token in time and replaces the file.
	CredentialsFile string
	Timeout         time.Duration // within which each server must accept the connection; default 5 s
}

// Connect connects to the bus at url, one or more URLs separated by commas; "" is [DefaultURL]. It waits for a server
// until ctx ends. The error says what to do if no server answered, or if the server is too old. If the bus does not
// accept the credentials, the error is an [Error] with the code A-AUTH-EXPIRED if they have expired and cannot be
// renewed, and otherwise A-AUTH-REVOKED. The client reconnects after a loss of the server, without limit. Close it when
// done.
func Connect(ctx context.Context, url string, o Options) (*Client, error) {
	l, err := link.Establish(ctx, link.Options{
		URL: cmp.Or(url, DefaultURL), Name: o.Name, Logger: o.Logger, Connect: o.NATS, Credentials: o.CredentialsFile,
		Timeout: o.Timeout, Tenant: o.Client.Tenant, Actor: o.Client.Actor,
	})
	if err != nil {
		return nil, ErrorOf(err)
	}
	c, err := New(l, o.Client)
	if err != nil {
		l.Close()
		return nil, err
	}
	c.link = l
	return c, nil
}
