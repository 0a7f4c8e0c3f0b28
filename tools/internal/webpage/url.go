package webpage

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// parseURL checks a URL that a caller gave.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, invalidURL("syntax", "the URL is not valid")
	}
	if reason, message := refuse(u); reason != "" {
		return nil, invalidURL(reason, message)
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	return u, nil
}

// refuse says why a URL is not fetched, or "".
func refuse(u *url.URL) (reason, message string) {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "scheme", "the scheme is neither http nor https"
	case u.Hostname() == "":
		return "host", "the URL has no host"
	case u.User != nil:
		return "credentials", "the URL has a user name or password"
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil && u.Port() != "" {
		return "port", "the URL has a port that no host has"
	}
	return "", ""
}

// cleanURL is the URL of a page in plain ASCII, as RFC 3986 wants it, and without credentials.
func cleanURL(u *url.URL) string {
	clean := *u
	clean.User = nil
	if host, err := idna.Lookup.ToASCII(clean.Hostname()); err == nil && clean.Port() != "" {
		clean.Host = host + ":" + clean.Port()
	} else if err == nil {
		clean.Host = host
	}
	return clean.String()
}

// escapeQuery escapes what may not stand in a query and leaves alone what may. Package url keeps
// queries as they are, and servers redirect to anything.
func escapeQuery(query string) string {
	var b strings.Builder
	for _, c := range []byte(query) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>[\\]^`{|}#", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
