package address_test

import (
	"net/netip"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
)

// TestCheck holds the first and the last address of each range that is not public, and their public neighbours.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		refused, taken []string
	}{
		{"this network", []string{"0.0.0.0", "0.255.255.255"}, []string{"1.0.0.0"}},
		{"private A", []string{"10.0.0.0", "10.255.255.255"}, []string{"9.255.255.255", "11.0.0.0"}},
		{"carriers", []string{"100.64.0.0", "100.127.255.255"}, []string{"100.63.255.255", "100.128.0.0"}},
		{"loopback", []string{"127.0.0.0", "127.0.0.1", "127.255.255.255"}, []string{"126.255.255.255", "128.0.0.0"}},
		{"link-local", []string{"169.254.0.0", "169.254.169.254", "169.254.255.255"},
			[]string{"169.253.255.255", "169.255.0.0"}},
		{"private B", []string{"172.16.0.0", "172.31.255.255"}, []string{"172.15.255.255", "172.32.0.0"}},
		{"protocols", []string{"192.0.0.0", "192.0.0.255"}, []string{"191.255.255.255", "192.0.1.0"}},
		{"relays", []string{"192.88.99.1"}, []string{"192.88.98.255", "192.88.100.0"}},
		{"private C", []string{"192.168.0.0", "192.168.255.255"}, []string{"192.167.255.255", "192.169.0.0"}},
		{"benchmarks", []string{"198.18.0.0", "198.19.255.255"}, []string{"198.17.255.255", "198.20.0.0"}},
		{"documentation", []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"}, nil},
		{"multicast", []string{"224.0.0.0", "239.255.255.255", "ff00::", "ff02::1"}, []string{"223.255.255.255"}},
		{"reserved", []string{"240.0.0.0", "255.255.255.255"}, nil},
		{"IPv6", []string{"::", "::1", "100::1", "1fff::1", "4000::1", "5f00::1"},
			[]string{"2000::1", "2606:4700::6810:84e5", "3ffe::1"}},
		{"unique local", []string{"fc00::", "fd00:ec2::254", "fdff::1"}, nil},
		{"link-local 6", []string{"fe80::", "fe80::1%eth0", "febf::1", "fec0::1"}, nil},
		{"mapped", []string{"::ffff:127.0.0.1", "::ffff:0.0.0.0", "::ffff:10.1.2.3", "::ffff:169.254.169.254",
			"::ffff:7f00:1"}, []string{"::ffff:8.8.8.8"}},
		{"compatible", []string{"::127.0.0.1", "::10.1.2.3", "::8.8.8.8"}, nil},
		{"translated by SIIT", []string{"::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8"}, nil},
		{"translated by NAT64", []string{"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::192.168.0.1",
			"64:ff9b:1::8.8.8.8"}, []string{"64:ff9b::8.8.8.8"}},
		{"6to4", []string{"2002:7f00:1::1", "2002:a00:1::", "2002:c0a8:1:2::3"}, []string{"2002:808:808::1"}},
		{"Teredo", []string{"2001::1", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:0:808:808::f7f7:f7f7"},
			[]string{"2001:200::1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, text := range test.refused {
				if err := address.Networks(nil).Check(netip.MustParseAddr(text)); !notPublic(err) {
					t.Errorf("%s: %v", text, err)
				}
			}
			for _, text := range test.taken {
				if err := address.Networks(nil).Check(netip.MustParseAddr(text)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestZeroAddr(t *testing.T) {
	t.Parallel()
	if err := address.Networks(nil).Check(netip.Addr{}); !notPublic(err) {
		t.Error(err)
	}
}

// TestAllowed holds that a network allows its addresses, also where they are contained in others, and no more.
func TestAllowed(t *testing.T) {
	t.Parallel()
	var allowed address.Networks
	for _, text := range []string{"10.1.0.0/16", "::1/128", "fe80::/10", "2002:c0a8::/32"} {
		if err := allowed.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if got := allowed.String(); got != "10.1.0.0/16,::1/128,fe80::/10,2002:c0a8::/32" {
		t.Error(got)
	}
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "2002:a01:203::": true, "::1": true,
		"fe80::1%eth0": true, "2002:c0a8::1": true, "8.8.8.8": true,
		"10.2.0.0": false, "127.0.0.1": false, "::2": false, "192.168.0.1": false, "64:ff9b::10.2.0.0": false,
	} {
		if err := allowed.Check(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	const use = "use CIDR notation, such as 10.1.0.0/16, or 10.1.2.3/32 for one address"
	for text, want := range map[string]string{
		"":              `"" is not a network: ` + use,
		"127.0.0.1":     `"127.0.0.1" is not a network: ` + use,
		"10.1.2.3/16":   "10.1.2.3/16 has bits after the prefix: use 10.1.0.0/16, or /32 for one address",
		"fd00::1/8":     "fd00::1/8 has bits after the prefix: use fd00::/8, or /128 for one address",
		"::ffff:0:0/96": "::ffff:0:0/96 contains IPv4 addresses: use their IPv4 network",
	} {
		var n address.Networks
		if err := n.Set(text); err == nil || err.Error() != want || len(n) > 0 {
			t.Errorf("%s: %v, %v", text, err, n)
		}
	}
}
