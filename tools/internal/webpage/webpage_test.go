package webpage

import (
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/program"
)

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	var failure *program.Error
	err := classify(t.Context(), &url.Error{Op: "Get", URL: "http://no.such/?key=secret",
		Err: &net.DNSError{Err: "no such host"}})
	if !errors.As(err, &failure) || failure.Details["reason"] != "dns" || strings.Contains(failure.Message, "secret") {
		t.Errorf("%+v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "0": 0, "30": 30 * time.Second, "99999999": maxRetryAfter, "99999999999": 0,
		"Fri, 20 Nov 2026 12:01:00 GMT": time.Minute, "Fri, 20 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

func TestCleanURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://user:secret@example.com/a?b#c": "http://example.com/a?b#c",
		"http://bücher.example/ü?q=a%20b":      "http://xn--bcher-kva.example/%C3%BC?q=a%20b",
		"http://bücher.example:8080/":          "http://xn--bcher-kva.example:8080/",
		"http://[::1]:80/":                     "http://[::1]:80/",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := cleanURL(u); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestEscapeQuery(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "", "q=a+b&c=%20%zz/?:@!$'()*,;=~-._": "q=a+b&c=%20%zz/?:@!$'()*,;=~-._",
		"ü b|c\n[]#": "%C3%BC%20b%7Cc%0A%5B%5D%23",
	} {
		if got := escapeQuery(query); got != want {
			t.Errorf("%q gives %q", query, got)
		}
	}
}

func TestWholeTitle(t *testing.T) {
	t.Parallel()
	for _, test := range [][3]string{
		{"pressure — Relay", "Back-pressure — Relay", "Back-pressure — Relay"},
		{"Sea wall", "Sea wall | Courier", "Sea wall"},
		{"Sea wall", "Courier - Sea\n wall", "Sea wall"},
		{"From metadata", "From the title", "From metadata"},
		{"", "Title", ""},
	} {
		if got := wholeTitle(test[0], test[1]); got != test[2] {
			t.Errorf("%q in %q gives %q", test[0], test[1], got)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"old.html", "list.html", "app.html"} {
		data, err := os.ReadFile("../../web_2efetch/testdata/site/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("text/html", data)
	}
	f.Add("text/plain; charset=utf-16", []byte("\xff\xfea\x00"))
	f.Add("", []byte("<table><svg><p><math><td><frameset>"))
	address := &url.URL{Scheme: "http", Host: "example.com", Path: "/a"}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		p, err := decode(answer{url: address, contentType: contentType, body: body})
		if err != nil {
			return
		}
		a, err := read(p)
		if (err == nil) != (a.text != "") {
			t.Errorf("text %q, error %v", a.text, err)
		}
	})
}
