package bus

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// minPayload is the smallest max_payload, in bytes, that a server may have. The largest messages, headers included, are
// an envelope with the state of its log, and an answer of a dispatcher with chunks in base64. Frames of chunks adapt to
// the max_payload of the server.
const minPayload = 768 << 10

const ( // these do not compile if minPayload is too small
	_ = uint(minPayload - maxRequest)
	_ = uint(minPayload - (MaxChunkBytes+2)/3*4 - envelope.MaxHeaders)
)

// MaxChunkBytes is the largest number of bytes of chunks in one answer of a dispatcher.
const MaxChunkBytes = 512 << 10

// DialTime is the default time within which each server must accept a connection. nats.Timeout changes it.
const DialTime = 5 * time.Second

// Dial connects to one of the servers, a list of URLs separated by commas. The server must be at least version 2.15.2
// and have a max_payload of at least 768 KiB. After a loss the connection reconnects without limit, even while a server
// refuses it. Requests that wait for an answer need their own deadline. name is the connection name that the server
// shows.
//
// [Denied], [NotNow] and [IsUnreachable] classify the error, and [ConnectHint] says how to mend it.
func Dial(servers, name string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(servers, name, needs, opts)
}

// DialCaller is [Dial] for a connection that sends no message larger than a request of a caller. It accepts a server
// with a smaller max_payload.
func DialCaller(servers, name string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(servers, name, func(*nats.Conn) int64 { return maxRequest }, opts)
}

func dial(servers, name string, needs func(*nats.Conn) int64, opts []nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.Timeout(DialTime), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(3), nats.IgnoreAuthErrorAbort(),
	}, opts...)
	failed := &dialError{servers: servers}
	nc, err := connect(servers, append(opts, Coalesced, func(o *nats.Options) error {
		failed.keyed, failed.token = o.Nkey != "", o.TokenHandler != nil
		failed.bare = (o.Secure || strings.Contains(servers, "tls://")) && o.TLSCertCB == nil &&
			(o.TLSConfig == nil || len(o.TLSConfig.Certificates) == 0)
		return nil
	}))
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the URL, which may contain a password
		}
		failed.err = err
		return nil, failed
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

// dialError is an error of a connection to one of servers.
type dialError struct {
	servers string
	err     error
	keyed   bool // the connection has a key of the deployment's secrets
	token   bool // the connection shows a token
	bare    bool // it is to use TLS, and has no certificate
}

func (d *dialError) Error() string {
	return fmt.Sprintf("connect to %s: %v", Redacted(d.servers), d.err)
}
func (d *dialError) Unwrap() error { return d.err }

// Coalesced is a [nats.Option] that writes the messages of a burst with one system call; see [CoalescedConn]. Put it
// after other options: it wraps the dialer that they set, and uses their FlusherTimeout as its write timeout. It does
// not change connections to an embedded server (nats.InProcessServer).
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

// keepAlive is the keep-alive interval of the default dialer of nats.go.
const keepAlive = 5 * time.Minute

type dialer struct {
	nats.CustomDialer
	timeout time.Duration // for one write
}

// Dial implements nats.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.CustomDialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return NewCoalescedConn(conn, d.timeout), nil
}

// SkipTLSHandshake reports to nats.go whether the wrapped dialer makes the TLS handshake itself.
func (d dialer) SkipTLSHandshake() bool {
	own, ok := d.CustomDialer.(interface{ SkipTLSHandshake() bool })
	return ok && own.SkipTLSHandshake()
}

// A server with accounts asks a dispatcher about each new connection (auth callout). Without an answer it refuses the
// connection after 2 s. The dispatcher that it asked may have been shutting down, so connect tries connectTries times.
// A dispatcher that refuses a token answers at once: a refusal within refusedWithin came from a dispatcher.
const (
	refusedWithin = time.Second
	connectTries  = 3
)

// ErrUnanswered means that the server refused a connection because no dispatcher answered its auth callout within 2 s,
// in each of three tries, or that none answered in the time that the caller has.
var ErrUnanswered = errors.New("no dispatcher answered the server's question about the token")

// ErrCrowded means that the server or a dispatcher refused a connection because a limit of connections is reached, or
// because the credential made too many connections before. The token itself is valid.
var ErrCrowded = errors.New("a bound of connections is reached: this credential with all that was narrowed from it, " +
	"or all clients together, have as many as they may; or the credential is refused for a minute because it flooded " +
	"the bus")

// Crowded reports whether err, an error of a connection, means that a limit of connections is reached; see
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
		case pinged(err): // no dispatcher has answered yet: try again
		case Crowded(err):
			return nc, fmt.Errorf("%w: %w", ErrCrowded, err)
		case !unauthorized(err), took < refusedWithin:
			return nc, err
		}
	}
	return nc, fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// pinged reports whether the server sent its first PING, 2 s after the start of the connection, before a dispatcher had
// answered. nats.go expects a PONG at that point, and has no error value for this case.
func pinged(err error) bool {
	return err != nil && strings.Contains(err.Error(), "expected 'PONG', got 'PING'")
}

// Denied reports whether err, an error of [Dial], means that the server, or the dispatcher that it asked, refused the
// user or the token.
func Denied(err error) bool { return unauthorized(err) && !NotNow(err) }

// NotNow reports whether err, an error of [Dial], is a refusal that may be temporary: [ErrUnanswered] or [ErrCrowded].
func NotNow(err error) bool { return errors.Is(err, ErrUnanswered) || errors.Is(err, ErrCrowded) }

// maxRequest is the largest message of a caller in bytes, headers included.
const maxRequest = envelope.MaxEnvelope + envelope.MaxHeaders

// needs returns the max_payload that the server must have for nc. A connection with a token may belong to a caller. The
// server reports the limit of the caller's account only after it has accepted the connection, so only a caller's
// largest request is required.
func needs(nc *nats.Conn) int64 {
	if nc.Opts.TokenHandler != nil || nc.Opts.Token != "" {
		return maxRequest
	}
	return minPayload
}

// Redacted returns the URLs in servers with passwords and tokens replaced by xxxxx, for logs and error messages.
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

// IsUnreachable reports whether err, an error of [Dial], means that no server could be reached, or that the server did
// not answer. A later try may succeed.
func IsUnreachable(err error) bool {
	// A *fs.PathError satisfies net.Error, but comes from a file of certificates or credentials.
	return isAs[net.Error](err) && !isAs[*fs.PathError](err) || errors.Is(err, nats.ErrNoServers) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF)
}

// unauthorized reports whether err means that the server refused the credentials, or that they expired or were revoked.
func unauthorized(err error) bool {
	return slices.ContainsFunc([]error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	}, func(of error) bool { return errors.Is(err, of) })
}

// isUnknownKey reports whether the server refused a key. It asks a dispatcher only about a key that it does not know.
func isUnknownKey(err error) bool {
	of, ok := errors.AsType[*dialError](err)
	return ok && of.keyed && (unauthorized(err) || errors.Is(err, ErrUnanswered))
}

// isBare reports whether the server closed a TLS connection of a client without a certificate. The alert of the server
// that says so may be lost: the client has ended its own part of the handshake, and is writing.
func isBare(err error) bool {
	of, ok := errors.AsType[*dialError](err)
	return ok && of.bare && slices.ContainsFunc([]error{net.ErrClosed, io.EOF, syscall.ECONNRESET, syscall.EPIPE},
		func(of error) bool { return errors.Is(err, of) })
}

// ConnectHint returns one sentence for the user that says how to mend err, an error of [Dial]. It names flags of
// commands and options of Go programs.
func ConnectHint(err error) string {
	switch {
	case webScheme(err) != "":
		return "use nats:// in place of " + webScheme(err) + " in the URL of the server"
	case isAs[*tls.CertificateVerificationError](err):
		return "name the certificate of the authority that signed the server's, by --tls-ca or nats.RootCAs, and the " +
			"server as its certificate calls it"
	case errors.Is(err, nats.ErrTLS), strings.Contains(err.Error(), "certificate required"):
		return "the server wants a client certificate that it knows: name it and its key, by --tls-cert and --tls-key or " +
			"nats.ClientCert"
	case isBare(err):
		return "the server ended the connection: if it wants a client certificate, name that and its key, by --tls-cert " +
			"and --tls-key or nats.ClientCert; otherwise its log says why"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server speaks no TLS: leave --tls-ca, --tls-cert and --tls-key out, and tls:// in its URL"
	case errors.Is(err, errServer):
		return "change the server's configuration, or its version"
	case isUnknownKey(err):
		return "the server does not know this key: name the secrets of its deployment, by --secrets-dir or " +
			"Options.SecretsDir, or start it with the configuration that `toolbus keys servers` writes for these secrets"
	case errors.Is(err, ErrUnanswered):
		return "start a dispatcher with the keys of this deployment, or wait until one has started; if one runs, see " +
			"whether the server answers it: its log, and that of the server, say why not"
	case errors.Is(err, ErrCrowded):
		return "close connections of this credential, share the load among several credentials, or try again in a minute; " +
			"the log of the dispatchers has the reason"
	case unauthorized(err):
		return "name the file with your token, by --credentials or Options.CredentialsFile: `toolbus dev` prints its name, " +
			"as export TOOLBUS_CREDENTIALS=…; for another bus, `toolbus credentials issue --actor agent://NAME --out FILE` of " +
			"an operator makes one, and with --role executor --pool POOL that of an executor. Or put a " +
			"user and a password that the server knows into the URL: nats://USER:PASSWORD@HOST:PORT"
	case errors.Is(err, io.EOF), errors.Is(err, nats.ErrNoInfoReceived):
		return "what listens there did not answer as a NATS server does, but may be another program, such as one that " +
			"speaks HTTP: correct the port in --server, TOOLBUS_URL or the context; or the server is about to end: see its log"
	case IsUnreachable(err):
		return unreachableHint(err)
	}
	return "check the URL: --server, TOOLBUS_URL or the URL of Connect"
}

// webScheme returns http:// or https:// if the URL of a server begins so, or "". nats.go connects as with nats://, but
// commands do not find the token for such a URL.
func webScheme(err error) string {
	of, ok := errors.AsType[*dialError](err)
	if !ok {
		return ""
	}
	for server := range strings.SplitSeq(of.servers, ",") {
		scheme, _, _ := strings.Cut(strings.TrimSpace(server), "//")
		if scheme == "http:" || scheme == "https:" {
			return scheme + "//"
		}
	}
	return ""
}

// unreachableHint is the hint for servers that do not answer. On this host the missing server may be that of toolbus
// dev.
func unreachableHint(err error) string {
	of, ok := errors.AsType[*dialError](err)
	if !ok {
		return "start a bus with `toolbus dev`, or name one: by --server, TOOLBUS_URL or the URL of Connect"
	}
	first, _, several := strings.Cut(of.servers, ",")
	check, dev := "see in its log whether it runs", ""
	if u, err := url.Parse(strings.TrimSpace(first)); err == nil && u.Hostname() != "" {
		check = fmt.Sprintf("`nc -zv %s %s` shows whether anything listens there", u.Hostname(), cmp.Or(u.Port(), "4222"))
		ip := net.ParseIP(u.Hostname())
		if local := ip.IsLoopback() || u.Hostname() == "localhost"; local && (!of.token || u.Port() == devPort) {
			dev = "`toolbus dev` starts one, and prints export TOOLBUS_URL=… if its port is not " + devPort + "; otherwise "
		}
	}
	which := "this server does not answer"
	if several {
		which, dev = "these servers do not answer", ""
	}
	const name = "correct its name in --server, TOOLBUS_URL"
	if of.keyed {
		return which + ": " + check + "; start it with `nats-server -c FILE`, its log says why it is down; or " + name +
			" or the context"
	}
	return which + ": " + check + "; " + dev + "start it, or " + name + ", the context or the URL of Connect"
}

// devPort is the port of `toolbus dev`, unless a flag names another one.
const devPort = "4280"

func isAs[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// older reports whether version have is lower than want, both of the form x.y.z. A version that cannot be parsed is
// old.
func older(have, want string) bool {
	var h, w [3]int
	_, err := fmt.Sscanf(have, "%d.%d.%d", &h[0], &h[1], &h[2])
	_, bad := fmt.Sscanf(want, "%d.%d.%d", &w[0], &w[1], &w[2])
	return err != nil || bad != nil || slices.Compare(h[:], w[:]) < 0
}
