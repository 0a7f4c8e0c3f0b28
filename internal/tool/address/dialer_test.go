package address_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
)

// local starts a server on the loopback interface. It counts its requests, and redirects /to?url=URL.
func local(t *testing.T) (at *url.URL, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if to := r.FormValue("url"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return at, requests
}

// get requests a URL over connections of a dialer.
func get(t *testing.T, d address.Dialer, from string) error {
	t.Helper()
	transport := &http.Transport{DialContext: d.DialContext}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func notPublic(err error) bool {
	_, is := errors.AsType[*address.NotPublicError](err)
	return is
}

// TestSpellings tries spellings of the loopback address. Some are names for a resolver, which may not know them.
func TestSpellings(t *testing.T) {
	t.Parallel()
	at, requests := local(t)
	for spelling, literal := range map[string]bool{
		"127.0.0.1": true, "[::ffff:127.0.0.1]": true, "[::ffff:7f00:1]": true, "[0:0:0:0:0:FFFF:127.0.0.1]": true,
		"0.0.0.0": true, "[::]": true, "[::1]": true, "[64:ff9b::127.0.0.1]": true, "[2002:7f00:1::]": true,
		"[::127.0.0.1]": true, "１２７。０。０。１": true, "127.0.0.1.": false, "localhost": false, "LOCALHOST.": false,
		"2130706433": false, "0x7f000001": false, "0x7f.1": false, "0177.0.0.1": false, "017700000001": false,
		"127.1": false,
	} {
		err := get(t, address.Dialer{}, "http://"+spelling+":"+at.Port())
		if err == nil || literal && !notPublic(err) {
			t.Errorf("%s: %v", spelling, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
}

// TestRedirect holds that a redirect leads to no address that a caller could not name.
func TestRedirect(t *testing.T) {
	t.Parallel()
	from, asked := local(t)
	to, requests := local(t)
	over := address.Dialer{Hosts: []string{"localhost"}}
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		err := get(t, over, fmt.Sprintf("http://localhost:%s/?url=http://%s:%s/", from.Port(), host, to.Port()))
		if !notPublic(err) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if asked.Load() != 3 || requests.Load() != 0 {
		t.Errorf("%d and %d requests", asked.Load(), requests.Load())
	}
}

// TestDialerAllows connects to a host that the operator named, and to one in a network that it allows.
func TestDialerAllows(t *testing.T) {
	t.Parallel()
	at, _ := local(t)
	var loopback, other address.Networks
	if err := errors.Join(loopback.Set("127.0.0.0/8"), other.Set("10.0.0.0/8")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		dialer  address.Dialer
		allowed bool
	}{
		"the network":   {address.Dialer{Allowed: loopback}, true},
		"another one":   {address.Dialer{Allowed: other}, false},
		"the host":      {address.Dialer{Hosts: []string{"127.0.0.1"}}, true},
		"another host":  {address.Dialer{Hosts: []string{"localhost", "127.0.0.11"}}, false},
		"an empty host": {address.Dialer{Hosts: []string{""}}, false},
	} {
		if err := get(t, test.dialer, at.String()); (err == nil) != test.allowed || err != nil && !notPublic(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNotIP holds that what has no IP address is refused.
func TestNotIP(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := (address.Dialer{}).DialContext(t.Context(), "unix", path); err == nil {
		_ = c.Close()
		t.Error("a Unix socket was reached")
	} else if _, parsed := netip.ParseAddrPort(path); !strings.Contains(err.Error(), parsed.Error()) {
		t.Error(err)
	}
}
