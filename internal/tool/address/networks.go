package address

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The flag with which programs take [Networks], and its help.
const (
	Flag  = "allow-network"
	Usage = "allow connections to the network `CIDR`, such as 10.1.0.0/16 or 127.0.0.1/32, although it is not public; " +
		"repeat it for more networks"
)

// Networks are the networks that an operator allows, in addition to all public addresses. The zero value allows public
// addresses only. *Networks is a [flag.Value] for a flag that may be repeated.
type Networks []netip.Prefix

// Set adds a network in CIDR notation. It refuses networks with bits after the prefix, which are probably mistakes.
func (n *Networks) Set(text string) error {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a network: use CIDR notation, such as 10.1.0.0/16, or 10.1.2.3/32 for one address",
			text)
	case network.Addr().Is4In6():
		return fmt.Errorf("%s contains IPv4 addresses: use their IPv4 network", text)
	case network != network.Masked():
		return fmt.Errorf("%s has bits after the prefix: use %s, or /%d for one address",
			text, network.Masked(), network.Addr().BitLen())
	}
	*n = append(*n, network)
	return nil
}

// String returns the networks, separated by commas.
func (n *Networks) String() string {
	texts := make([]string, len(*n))
	for i, network := range *n {
		texts[i] = network.String()
	}
	return strings.Join(texts, ",")
}

// NotPublicError means that an address is not public, and in no network that the operator allows.
type NotPublicError struct{ Addr netip.Addr }

// Error implements error.
func (e *NotPublicError) Error() string {
	return fmt.Sprintf("the address %s is not public, and in no network that the operator allows", e.Addr)
}

// Check returns a *[NotPublicError] unless ip is public or in one of the networks. An IPv6 address that contains an
// IPv4 address is public if the latter is, and in the networks of both.
func (n Networks) Check(ip netip.Addr) error {
	ip = ip.WithZone("").Unmap() // no prefix contains an address with a zone
	inner := translated(ip)
	if public(inner) || contains(n, ip) || contains(n, inner) {
		return nil
	}
	return &NotPublicError{ip}
}

// Prefixes whose addresses contain an IPv4 address: of NAT64 (RFC 6052) and of 6to4 (RFC 3056).
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// translated returns the IPv4 address to which a gateway forwards packets for ip, or ip.
func translated(ip netip.Addr) netip.Addr {
	switch {
	case nat64.Contains(ip):
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

// unicast6 contains all IPv6 addresses that are assigned to hosts of the Internet. So loopback, link-local, unique
// local, multicast and IPv4-compatible addresses are not public.
var unicast6 = netip.MustParsePrefix("2000::/3")

// special are the networks that IANA's registries of special-purpose addresses do not call globally reachable, without
// the IPv6 networks outside unicast6. They do call some parts of 2001::/23 so, but no host of the web is in these.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", // Teredo (2001::/32), among others
	"2001:db8::/32", "3fff::/20",
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func public(ip netip.Addr) bool {
	return (ip.Is4() || unicast6.Contains(ip)) && !contains(special, ip)
}

func contains(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}
