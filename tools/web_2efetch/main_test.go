package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/program/programtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	server := site(t)
	programtest.Suite{
		Tool:    func(*testing.T, string) program.Tool { return newTool() },
		Replace: map[string]string{"{{server}}": server.URL},
		Invalid: map[string][]string{"fetch": {
			`{}`, `{"url":1}`, `{"url":"not a url"}`, `{"url":"http://a/","include_raw_html":"yes"}`,
			`{"url":"http://a/","depth":2}`,
		}},
		Elsewhere: map[string]string{"timeout": "TestTimeout"},
	}.Run(t)
}

// TestSchemasAreThoseOfTheSource holds the schemas to the words of the source contract.
func TestSchemasAreThoseOfTheSource(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"schema/request.json": `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["url"],
			"additionalProperties":false,"properties":{"url":{"type":"string","format":"uri"},
			"include_raw_html":{"type":"boolean","default":false}}}`,
		"schema/response.json": `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
			"required":["final_url","clean_text"],"additionalProperties":false,"properties":{
			"final_url":{"type":"string","format":"uri"},"title":{"type":["string","null"]},"byline":{"type":["string","null"]},
			"published_at":{"type":["string","null"]},"lang":{"type":["string","null"]},
			"clean_text":{"type":"string","minLength":1},"raw_html":{"type":"string"}},
			"allOf":[{"if":{"properties":{"raw_html":{"type":"string"}}},"then":{"required":["raw_html"]}}]}`,
	} {
		var got, wanted any
		if err := errors.Join(
			json.Unmarshal([]byte(programtest.ReadFile(t, name)), &got), json.Unmarshal([]byte(want), &wanted)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func fetchPage(t *testing.T, address string) programtest.Line {
	t.Helper()
	return programtest.Run(t, newTool(), programtest.NewCall(t, "fetch", input{URL: address})).Terminal()
}

// TestText covers encodings and types.
func TestText(t *testing.T) {
	t.Parallel()
	server := site(t)
	for path, want := range map[string]string{
		"/latin-1":       "Grüße aus Köln",
		"/late-utf-8":    "Grüße",
		"/wrong-charset": "Grüße",
		"/bom":           "Grüße",
		"/utf-16-header": "A relay that receives more than it can send",
		"/plain":         "line one\n\nline <two>",
		"/xhtml":         "hallo",
		"/untyped":       "hello",
		"/gzip":          "hello",
		"/headers":       userAgent + " gzip",
		"/broken-type":   `"hello"`,
		"/double-type":   `"hello"`,
		"/bm":            "BMW recalls cars",
		"/odd-language":  "bonjour",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			last := fetchPage(t, server.URL+path)
			if last.Error != nil || !strings.Contains(strings.ReplaceAll(string(last.Output), `\n`, "\n"), want) {
				t.Errorf("%s %+v", last.Output, last.Error)
			}
		})
	}
}

// TestReasons covers the reasons that no golden case shows.
func TestReasons(t *testing.T) {
	t.Parallel()
	server := site(t)
	for path, want := range map[string]string{
		"/json":         `"unsupported_type"`,
		"/bmp":          `"unsupported_type"`,
		"/empty":        `"empty"`,
		"/korean":       `"charset"`,
		"/blank":        `"no_text"`,
		"/brotli":       `"content_encoding"`,
		"/hang-up":      `"connection_lost"`,
		"/to?url=//%25": `"redirect_syntax"`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			last := fetchPage(t, server.URL+path)
			if last.Error == nil || string(last.Error.Details["reason"]) != want {
				t.Errorf("%s %+v", last.Output, last.Error)
			}
		})
	}
}

// TestClasses holds that only what may pass is called fetch_failed, which is retried.
func TestClasses(t *testing.T) {
	t.Parallel()
	server := site(t)
	for code, paths := range map[string][]string{
		"fetch_failed": {"/status/408", "/status/425", "/status/429", "/status/500", "/status/502", "/status/503",
			"/status/504", "/hang-up"},
		"not_fetchable": {
			"/status/400", "/status/401", "/status/403", "/status/404", "/status/410", "/status/451", "/status/304",
			"/to", "/to?url=file:///a", "/to?url=http://a:b@c/", "/to?url=//%25", "/to?url=%3A", "/to?url=http://a:b",
		},
	} {
		for _, path := range paths {
			if last := fetchPage(t, server.URL+path); last.Error == nil || last.Error.Code != code {
				t.Errorf("%s: %s %+v", path, last.Output, last.Error)
			}
		}
	}
}

func TestConnection(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := site(t)
	for name, test := range map[string]struct{ address, reason string }{
		"refused":             {closed.URL, `"refused"`},
		"unknown certificate": {secure.URL, `"tls"`},
		"no TLS":              {"https" + strings.TrimPrefix(plain.URL, "http"), `"transport"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := fetchPage(t, test.address)
			if last.Error == nil || last.Error.Code != "fetch_failed" || string(last.Error.Details["reason"]) != test.reason {
				t.Errorf("%s %+v", last.Output, last.Error)
			}
		})
	}
}

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	var failure *program.Error
	err := classify(t.Context(), &url.Error{Op: "Get", URL: "http://no.such/?key=secret",
		Err: &net.DNSError{Err: "no such host"}})
	if !errors.As(err, &failure) || failure.Details["reason"] != "dns" || strings.Contains(failure.Message, "secret") {
		t.Errorf("%+v", err)
	}
}

// TestTimeout lets a page never end. The tool answers itself, before the deadline.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := site(t)
	call := programtest.NewCall(t, "fetch", input{URL: server.URL + "/slow"})
	call.DeadlineUnixMS = time.Now().Add(time.Second).UnixMilli()
	last := programtest.Run(t, newTool(), call).Terminal()
	if last.Error == nil || last.Error.Code != "timeout" || last.Error.Effect != program.EffectNone {
		t.Errorf("%+v", last)
	}
}

// TestStopped holds that a stopped call ends although its page does not.
func TestStopped(t *testing.T) {
	t.Parallel()
	server := site(t)
	data, err := json.Marshal(programtest.NewCall(t, "fetch", input{URL: server.URL + "/slow"}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	go func() { // the request comes late, so that the stop does too
		_, _ = writer.Write(data)
		stop()
		_ = writer.Close()
	}()
	var stdout bytes.Buffer
	if err := program.Run(ctx, newTool(), reader, &stdout); err != nil ||
		!strings.Contains(stdout.String(), `"code":"timeout"`) {
		t.Errorf("%s, %v", &stdout, err)
	}
}

// TestProcess runs the built program as an executor does.
func TestProcess(t *testing.T) {
	t.Parallel()
	server, built := site(t), programtest.Build(t)
	call := programtest.NewCall(t, "fetch", input{URL: server.URL + "/site/news.html"})
	proxied := []string{"HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1"}
	out := programtest.Decode[output](t, programtest.Exec(t, built, t.TempDir(), proxied, call))
	if *out.Title != "Sea wall to be raised before next winter" || *out.Byline != "Lena Vogel" ||
		*out.PublishedAt != "2025-11-18T22:41:00+01:00" || *out.Lang != "en-GB" {
		t.Errorf("%+v", out)
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

// FuzzRead feeds pages of any kind to everything behind the network.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"old.html", "list.html", "app.html"} {
		data, err := os.ReadFile("testdata/site/" + name)
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
