package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// minPayload is what a server must take in one message, headers included: an envelope with the state
// of its log, or chunks as the service answers with them, in base64. Frames of chunks adapt
// to what it takes.
const minPayload = 768 << 10

const ( // neither is larger
	_ = uint(minPayload - maxRequest)
	_ = uint(minPayload - (MaxChunkBytes+2)/3*4 - envelope.MaxHeaders)
)

// MaxChunkBytes is how many bytes of chunks the service answers with at once, at the most.
const MaxChunkBytes = 512 << 10

// DialTime is how long each server may take to accept a connection, unless an option says otherwise.
const DialTime = 5 * time.Second

// Dial connects to servers, one or more URLs with commas between them, and refuses servers that are
// too old or take too small messages. Reconnection is unlimited, also while a server turns the
// connection away, as one with a wrong configuration does: whoever waits for an answer has a deadline of its own.
func Dial(servers, name string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(servers, name, needs, opts)
}

// DialCaller connects as [Dial] does, for a connection that sends nothing larger than a caller's request.
func DialCaller(servers, name string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(servers, name, func(*nats.Conn) int64 { return maxRequest }, opts)
}

func dial(servers, name string, needs func(*nats.Conn) int64, opts []nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.Timeout(DialTime), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(3), nats.IgnoreAuthErrorAbort(),
	}, opts...)
	nc, err := connect(servers, append(opts, Coalesced))
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // it quotes the whole URL otherwise
		}
		return nil, fmt.Errorf("connect to %s: %w", Redacted(servers), err)
	}
	if v := nc.ConnectedServerVersion(); older(v, minServer) {
		nc.Close()
		return nil, fmt.Errorf("%w: nats-server %s at %s is too old, Toolbus needs %s or newer", errServer, v,
			Redacted(servers), minServer)
	}
	if most, least := nc.MaxPayload(), needs(nc); most < least {
		nc.Close()
		return nil, fmt.Errorf("%w: %s takes messages of %d bytes, Toolbus needs %d: set max_payload: 1MB, its default, in "+
			"its configuration", errServer, Redacted(servers), most, least)
	}
	return nc, nil
}

// Coalesced is an option that writes many messages to the server with one system call while they come in bursts. It
// wraps the dialer of the options before it, and takes over their FlusherTimeout. Connections to an embedded server
// (nats.InProcessServer) stay as they are.
func Coalesced(o *nats.Options) error {
	d := dialer{o.CustomDialer, o.FlusherTimeout}
	switch {
	case o.InProcessServer != nil:
		return nil
	case o.CustomDialer != nil:
	case o.Dialer != nil:
		d.CustomDialer = o.Dialer
	default:
		d.CustomDialer = &net.Dialer{Timeout: o.Timeout, KeepAlive: keepAlive}
	}
	o.CustomDialer, o.FlusherTimeout = d, 0
	return nil
}

// keepAlive is that of nats.go's own dialer.
const keepAlive = 5 * time.Minute

type dialer struct {
	nats.CustomDialer
	timeout time.Duration // of a write
}

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.CustomDialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return NewCoalescedConn(conn, d.timeout), nil
}

// SkipTLSHandshake passes on the question of nats.go whether the dialer encrypts.
func (d dialer) SkipTLSHandshake() bool {
	own, ok := d.CustomDialer.(interface{ SkipTLSHandshake() bool })
	return ok && own.SkipTLSHandshake()
}

// A server with accounts asks dispatchers about a connection, waits two seconds for an answer, and refuses it then. If
// it has asked one that was just going away, another one answers the next time.
// A dispatcher that refuses a token answers at once.
const (
	refusedWithin = time.Second
	connectTries  = 3
)

// ErrUnanswered means that the server refused a connection because no dispatcher told it in two seconds whose the
// connection is.
var ErrUnanswered = errors.New("no dispatcher answered the server's question about the token")

// ErrCrowded means that a dispatcher or the server refused a connection for a bound of connections, or a dispatcher for
// a flood of earlier ones. The token is good.
var ErrCrowded = errors.New("a bound of connections is reached: this credential with all that was narrowed from it, " +
	"or all clients together, have as many as they may; or the credential is refused for a minute because it flooded " +
	"the bus")

// Crowded reports whether an error of a connection, or its last error, says that the server had no room for it; see
// [ErrCrowded].
func Crowded(err error) bool {
	return errors.Is(err, ErrCrowded) || errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) ||
		errors.Is(err, nats.ErrMaxConnectionsExceeded)
}

func connect(servers string, opts []nats.Option) (nc *nats.Conn, err error) {
	for range connectTries {
		begun := time.Now()
		nc, err = nats.Connect(servers, opts...)
		took := time.Since(begun)
		switch {
		case pinged(err): // as for a question that nobody answered in time
		case Crowded(err):
			return nc, fmt.Errorf("%w: %w", ErrCrowded, err)
		case !unauthorized(err), took < refusedWithin:
			return nc, err
		}
	}
	return nc, fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// pinged reports whether the server has sent its first PING, two seconds after the start of a connection, while a
// dispatcher had not answered yet. The client library takes no PING then, and has no error of its own for it.
func pinged(err error) bool {
	return err != nil && strings.Contains(err.Error(), "expected 'PONG', got 'PING'")
}

// Denied reports whether an error of [Dial] says that the server does not accept the user or the token, and, if it asks
// dispatchers, that one of them answered so.
func Denied(err error) bool { return unauthorized(err) && !NotNow(err) }

// NotNow reports whether an error of [Dial] says that the server accepts no connection for a reason that may pass:
// [ErrUnanswered] or [ErrCrowded].
func NotNow(err error) bool { return errors.Is(err, ErrUnanswered) || errors.Is(err, ErrCrowded) }

// maxRequest is the largest message of a caller in bytes, headers included.
const maxRequest = envelope.MaxEnvelope + envelope.MaxHeaders

// needs returns the size of the largest message that nc may send. A connection with a token may be a caller's. The
// server reports the limit of its account some time after it has accepted the connection.
func needs(nc *nats.Conn) int64 {
	if nc.Opts.TokenHandler != nil || nc.Opts.Token != "" {
		return maxRequest
	}
	return minPayload
}

// Redacted returns URLs of servers without what is secret in them, to be shown.
func Redacted(servers string) string {
	shown := strings.Split(servers, ",")
	for i, server := range shown {
		switch u, err := url.Parse(strings.TrimSpace(server)); {
		case err == nil && u.User != nil && u.Host != "":
			if _, secret := u.User.Password(); !secret { // a token
				u.User = url.User("xxxxx")
			}
			shown[i] = u.Redacted()
		case strings.Contains(server, "@"): // without a scheme, or no URL
			shown[i] = "xxxxx" + server[strings.LastIndexByte(server, '@'):]
		}
	}
	return strings.Join(shown, ",")
}

var errServer = errors.New("the server does not do")

// IsUnreachable reports whether an error of [Dial] says that no server is there, or that none answers: that may
// pass by itself.
func IsUnreachable(err error) bool {
	// What the system says of a file looks like an error of a network.
	return isAs[net.Error](err) && !isAs[*fs.PathError](err) || errors.Is(err, nats.ErrNoServers) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF)
}

// unauthorized reports whether an error says that the server does not know the user, or not any more.
func unauthorized(err error) bool {
	return slices.ContainsFunc([]error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	}, func(of error) bool { return errors.Is(err, of) })
}

// ConnectHint says what to do about an error of [Dial].
func ConnectHint(err error) string {
	switch {
	case isAs[*tls.CertificateVerificationError](err):
		return "name the certificate of the authority that the server's is of by --tls-ca, and the server as that calls it"
	case errors.Is(err, nats.ErrTLS), strings.Contains(err.Error(), "certificate required"):
		return "the server wants to be shown a certificate that it knows: name it and its key by --tls-cert and --tls-key"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server speaks no TLS: leave --tls-ca, --tls-cert and --tls-key out, and tls:// in its URL"
	case errors.Is(err, errServer):
		return "change the server's configuration, or its version"
	case errors.Is(err, ErrUnanswered):
		return "start a dispatcher with the keys of this deployment, or wait until one has started"
	case errors.Is(err, ErrCrowded):
		return "close connections of this credential, share the load among several credentials, or try again in a minute; " +
			"the log of the dispatchers has the reason"
	case unauthorized(err):
		return "name the file with your token by --credentials, or put a user and a password that the server knows into " +
			"the URL: TOOLBUS_URL=nats://USER:PASSWORD@HOST:PORT"
	case IsUnreachable(err):
		return "start a bus with `toolbus dev`, or name one with --server or TOOLBUS_URL"
	}
	return "check the URL in --server or TOOLBUS_URL"
}

func isAs[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// older compares two versions of the form x.y.z; a version that cannot be read counts as old.
func older(have, want string) bool {
	var h, w [3]int
	_, err := fmt.Sscanf(have, "%d.%d.%d", &h[0], &h[1], &h[2])
	_, bad := fmt.Sscanf(want, "%d.%d.%d", &w[0], &w[1], &w[2])
	return err != nil || bad != nil || slices.Compare(h[:], w[:]) < 0
}

// LogConnection makes a connection log what happens to it; the client library would say some of it on
// standard error, and nothing of the rest.
func LogConnection(log *slog.Logger) []nats.Option {
	lost := false // handlers are called one after the other
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if lost = err != nil; lost { // it was not closed by us
				log.Warn("connection to the bus lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			level := slog.LevelDebug
			if lost {
				level = slog.LevelWarn
			}
			log.Log(context.Background(), level, "connected to the bus again", "server", Redacted(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("the bus complains", "err", err, "subject", subject)
		}),
	}
}
