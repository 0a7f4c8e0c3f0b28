//go:build linux

package mcptools_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
)

// service answers as it is told to by a word of what it is asked, and fails the test where it is asked in another way.
type service struct {
	*testing.T
	path, key string
	answer    func(word string) string
}

// words are what a service does for words of any service.
var words = []string{"broken", "busy", "slow", "huge", "nonsense", "elsewhere", "hang-up", "gateway"}

func (s service) start() *httptest.Server {
	server := httptest.NewServer(s)
	s.Cleanup(server.Close)
	return server
}

func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != s.path ||
		r.Header.Get("Authorization") != "Bearer "+s.key || r.Header.Get("Content-Type") != "application/json" {
		s.Errorf("asked %s %s %v: %v", r.Method, r.URL, r.Header, err)
	}
	for _, word := range words {
		if strings.Contains(string(body), word) {
			misbehave(w, r, word)
			return
		}
	}
	_, _ = io.WriteString(w, s.answer(string(body)))
}

func misbehave(w http.ResponseWriter, r *http.Request, how string) {
	switch how {
	case "broken":
		w.WriteHeader(http.StatusInternalServerError)
	case "gateway":
		w.WriteHeader(http.StatusGatewayTimeout)
	case "busy":
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	case "slow":
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "huge":
		_, _ = io.WriteString(w, `{"x":"`+strings.Repeat("x", 5<<20)+`"}`)
	case "nonsense":
		_, _ = io.WriteString(w, `{"results":7,"choices":7}`)
	case "elsewhere":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case "hang-up":
		panic(http.ErrAbortHandler)
	}
}

// badService holds that whatever goes wrong with a service is told as the contract's error, and neither its address nor
// its key are.
func badService(s *tools, code string, ask func(word string) request) {
	for word, reason := range map[string]string{
		"broken": "status", "busy": "status", "huge": "too_large", "nonsense": "malformed", "elsewhere": "status",
		"hang-up": "connection",
	} {
		failure := s.fails(ask(word), code, reason)
		if text := fmt.Sprintf("%+v %+v", failure, failure.Details); strings.Contains(text, "127.0.0.1") ||
			strings.Contains(text, "secret") {
			s.Errorf("it tells where the service is: %s", text)
		}
		if word == "busy" && failure.Details.RetryAfterMS != 7000 {
			s.Errorf("to be tried again after %d ms", failure.Details.RetryAfterMS)
		}
	}
	s.fails(ask("gateway"), "timeout", "")
	slow := ask("slow")
	slow.within = 3 * time.Second
	s.fails(slow, "timeout", "")
}

type results struct {
	Results []struct {
		Title, URL, Snippet string
		Date                *string
	}
}

// engine answers searches.
func engine(t *testing.T) *httptest.Server {
	return service{T: t, path: "/v1/search", key: "secret", answer: func(asked string) string {
		var q struct {
			Query string
			Max   int    `json:"max_results"`
			Tool  string `json:"search_tool_name"`
		}
		if err := json.Unmarshal([]byte(asked), &q); err != nil || q.Tool != "engine" {
			t.Errorf("asked %s: %v", asked, err)
		}
		switch q.Query {
		case "nothing":
			return `{"object":"search","results":[]}`
		case "no list":
			return `{"object":"search"}`
		case "no url":
			return `{"results":[{"title":"a","snippet":"b"}]}`
		case "much":
			return `{"results":[{"url":"http://a/","snippet":"` + strings.Repeat("x", 2<<20) + `"}]}`
		}
		one := `{"title":%q,"url":"http://a/","snippet":null,"date":"2026-01-01","last_updated":null,"more":{}}`
		return `{"object":"search","results":[` + fmt.Sprintf(one, q.Query) +
			`,{"url":"http://b/","title":"b","snippet":""},` + fmt.Sprintf(one, fmt.Sprint(q.Max)) + `]}`
	}}.start()
}

func search(query string) request {
	return request{tool: "search.web", input: map[string]any{"query": query}}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := start(t, "LITELLM_BASE_URL="+engine(t).URL+"/", "LITELLM_API_KEY=secret", "LITELLM_SEARCH_TOOL=engine")
	all := gets[results](s, search("sea wall")).Results
	if len(all) != 3 || all[0].Title != "sea wall" || all[0].Snippet != "" || *all[0].Date != "2026-01-01" ||
		all[1].URL != "http://b/" || all[1].Date != nil || all[2].Title != "0" {
		t.Errorf("found %+v", all)
	}
	two := gets[results](s, request{tool: "search.web", input: map[string]any{"query": "x", "max_results": 2}}).Results
	if len(two) != 2 {
		t.Errorf("found %+v", two)
	}
	if none := gets[results](s, search("nothing")).Results; none == nil || len(none) > 0 {
		t.Errorf("found %+v", none)
	}
	s.fails(search(" \n"), "invalid_query", "blank")
	s.fails(search("no list"), "upstream_failure", "malformed")
	s.fails(search("no url"), "upstream_failure", "malformed")
	s.fails(search("much"), "upstream_failure", "too_large")
	badService(s, "upstream_failure", search)
	if _, failure := s.asks(request{tool: "search.web", input: map[string]any{"query": 1}}); failure == nil ||
		failure.Code != "I-REQ-REQUEST_REFUSED" {
		t.Errorf("a query that is no text: %v", failure)
	}
}

// A query that the engine refuses is the caller's to mend.
func TestSearchRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		start(t, "LITELLM_BASE_URL="+server.URL).fails(search("x"), "invalid_query", "status")
	}
}

func TestSearchUnconfigured(t *testing.T) {
	t.Parallel()
	start(t).fails(search("x"), "upstream_failure", "configuration")
	start(t, "LITELLM_BASE_URL=http://a b/").fails(search("x"), "upstream_failure", "configuration")
	start(t, "LITELLM_BASE_URL=http://127.0.0.1:1").fails(search("x"), "upstream_failure", "connection")
}

func TestFetch(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/site/", http.StripPrefix("/site/", http.FileServer(http.Dir("../web_2efetch/testdata/site"))))
	mux.HandleFunc("/pdf", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "%PDF-1.7\n") })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) { misbehave(w, r, "busy") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { misbehave(w, r, "slow") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	fetch := func(url string) request { return request{tool: "web.fetch", input: map[string]any{"url": url}} }
	kind := string(start(t).fails(fetch(server.URL+"/site/news.html"), "fetch_failed", "address").Details.Extra["kind"])
	if kind != `"not_fetchable"` {
		t.Errorf("a private address is %s", kind)
	}
	dir := install(t)
	file := filepath.Join(dir, mcp.ServersFile)
	edit(t, file, file, `web-fetch/web-fetch",`, `web-fetch/web-fetch", "args": ["--allow-network", "127.0.0.1/32"],`)
	s := startIn(t, dir)
	page := gets[struct {
		Byline string
		Text   string  `json:"clean_text"`
		Raw    *string `json:"raw_html"`
	}](s, fetch(server.URL+"/site/news.html"))
	if page.Byline != "Lena Vogel" || page.Text == "" || page.Raw == nil || *page.Raw != "" {
		t.Errorf("fetched %+v", page)
	}
	s.fails(fetch(server.URL+"/pdf"), "parse_failed", "unsupported_type")
	if busy := s.fails(fetch(server.URL+"/busy"), "fetch_failed", "status"); busy.Details.RetryAfterMS != 7000 ||
		busy.Details.HTTPStatus != http.StatusBadGateway || busy.Details.Extra["kind"] != nil {
		t.Errorf("of a server that is busy: %+v", busy.Details)
	}
	for url, want := range map[string][2]string{
		server.URL + "/none": {"not_fetchable", "status"}, "ftp://example.com/": {"invalid_url", "scheme"},
	} {
		kind := string(s.fails(fetch(url), "fetch_failed", want[1]).Details.Extra["kind"])
		if kind != `"`+want[0]+`"` {
			t.Errorf("%s is %s", url, kind)
		}
	}
	slow := fetch(server.URL + "/slow")
	slow.within = 2 * time.Second
	s.fails(slow, "timeout", "")
}
