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
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/webpage"
)

// loopback allows the sites of these tests.
var loopback = address.Networks{netip.MustParsePrefix("127.0.0.0/8")}

func TestContract(t *testing.T) {
	t.Parallel()
	server := site(t)
	programtest.Suite{
		Tool:    func(*testing.T, string) program.Tool { return webpage.Tool(loopback) },
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
	call := programtest.NewCall(t, "fetch", webpage.Input{URL: address})
	return programtest.Run(t, webpage.Tool(loopback), call).Terminal()
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
		"/headers":       webpage.UserAgent + " gzip",
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

// TestAddresses tries spellings of an address that is not public, and redirects to them.
func TestAddresses(t *testing.T) {
	t.Parallel()
	from, asked := site(t), make(chan string, 100)
	private := httptest.NewUnstartedServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Host }))
	_ = private.Listener.Close() // it is at 127.0.0.1 alone
	all, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	private.Listener = all
	private.Start()
	t.Cleanup(private.Close)
	port := strconv.Itoa(all.Addr().(*net.TCPAddr).Port)
	public := webpage.Tool(nil)
	redirected := webpage.Tool(address.Networks{netip.MustParsePrefix("127.0.0.1/32")})
	for _, host := range []string{
		"127.0.0.2", "[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "[64:ff9b::7f00:2]", "0.0.0.0", "[::]", "[::1]", "127。0。0。2",
		"169.254.169.254", "10.0.0.1", "192.168.0.1", "[fd00:ec2::254]", "[fe80::1]", "[2002:a00:1::]", "[2001::1]",
		"2130706434", "0x7f000002", "0x7f.2", "0177.0.0.2", "127.2", "127.0.0.2.",
	} {
		to := "http://" + host + ":" + port + "/"
		for name, last := range map[string]programtest.Line{
			"named": programtest.Run(t, public, programtest.NewCall(t, "fetch", webpage.Input{URL: to})).Terminal(),
			"redirected": programtest.Run(t, redirected, programtest.NewCall(t, "fetch", webpage.Input{
				URL: from.URL + "/to?url=" + url.QueryEscape(to)})).Terminal(),
		} {
			switch {
			case last.Error == nil:
				t.Errorf("%s, %s: %s", host, name, last.Output)
			case last.Error.Code == "fetch_failed" && string(last.Error.Details["reason"]) == `"dns"`: // it is a name
			case last.Error.Code != "not_fetchable" || string(last.Error.Details["reason"]) != `"address"` ||
				strings.Contains(last.Error.Message, "127"):
				t.Errorf("%s, %s: %+v", host, name, last.Error)
			}
		}
	}
	if len(asked) > 0 {
		t.Errorf("the server was asked as %s", <-asked)
	}
}

// TestTimeout lets a page never end. The tool answers itself, before the deadline.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := site(t)
	call := programtest.NewCall(t, "fetch", webpage.Input{URL: server.URL + "/slow"})
	call.DeadlineUnixMS = time.Now().Add(time.Second).UnixMilli()
	last := programtest.Run(t, webpage.Tool(loopback), call).Terminal()
	if last.Error == nil || last.Error.Code != "timeout" || last.Error.Effect != program.EffectNone {
		t.Errorf("%+v", last)
	}
}

// TestStopped holds that a stopped call ends although its page does not.
func TestStopped(t *testing.T) {
	t.Parallel()
	server := site(t)
	data, err := json.Marshal(programtest.NewCall(t, "fetch", webpage.Input{URL: server.URL + "/slow"}))
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
	if err := program.Run(ctx, webpage.Tool(loopback), reader, &stdout); err != nil ||
		!strings.Contains(stdout.String(), `"code":"timeout"`) {
		t.Errorf("%s, %v", &stdout, err)
	}
}

// TestProcess runs the built program as an executor does.
func TestProcess(t *testing.T) {
	t.Parallel()
	server, built := site(t), programtest.Build(t)
	call := programtest.NewCall(t, "fetch", webpage.Input{URL: server.URL + "/site/news.html"})
	proxied := []string{"HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1"}
	refused := programtest.Exec(t, built, t.TempDir(), proxied, call).Terminal()
	if refused.Error == nil || string(refused.Error.Details["reason"]) != `"address"` {
		t.Errorf("without the flag: %+v", refused)
	}
	out := programtest.Decode[webpage.Output](t,
		programtest.Exec(t, built, t.TempDir(), proxied, call, "--allow-network", "127.0.0.1/32"))
	if *out.Title != "Sea wall to be raised before next winter" || *out.Byline != "Lena Vogel" ||
		*out.PublishedAt != "2025-11-18T22:41:00+01:00" || *out.Lang != "en-GB" {
		t.Errorf("%+v", out)
	}
}

// FuzzRead feeds pages of any kind to everything behind the network.
