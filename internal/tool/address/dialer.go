package address

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Dialer connects to public addresses, and to addresses that the operator allows. Its zero value connects to public
// addresses only. It may be used concurrently, and its fields must not change meanwhile.
type Dialer struct {
	Allowed Networks
	// Hosts are names and addresses in URLs that the operator wrote, as [url.URL.Hostname] returns them. The Dialer
	// connects to them whatever their addresses are.
	Hosts   []string
	Timeout time.Duration // of a connection, including the resolution of the name; 0 is no timeout
}

// DialContext connects to a host and port; it fits [http.Transport]. If it refuses all addresses of the host, the error
// wraps a *[NotPublicError].
func (d Dialer) DialContext(ctx context.Context, network, to string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: d.Timeout, Control: d.control}
	if host, _, err := net.SplitHostPort(to); err == nil && slices.Contains(d.Hosts, host) {
		dialer.Control = nil
	}
	return dialer.DialContext(ctx, network, to)
}

// control refuses an address before the socket connects to it.
func (d Dialer) control(_, at string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(at)
	if err != nil {
		return err
	}
	return d.Allowed.Check(to.Addr())
}
