package mcpcmd

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// TestRedacted hides values of variables and headers, and a URL but for its host, from what a failing server prints.
func TestRedacted(t *testing.T) {
	s := client.Server{
		URL:     "https://user:canary-user@x.example.com/canary-path?key=canary-query",
		Env:     map[string]string{"A": "canary\nline", "N": "1"},
		Headers: map[string]string{"Authorization": "Bearer ${env:T}", "K": "canary-header"},
	}
	for text, want := range map[string]string{
		`Post "` + s.URL + `": refused`:                                             `Post "https://x.example.com": refused`,
		`Post "https://user:xxxxx@x.example.com/canary-path?key=canary-query": 401`: `Post "https://x.example.com": 401`,
		"wrote: canary line, canary-header, canary-own":                             "wrote: [hidden], [hidden], [hidden]",
		"exit status 1": "exit status 1",
	} {
		got := redacted(text, s, t.TempDir(), []string{"T=old", "T=canary-own"})
		if got = strings.ReplaceAll(got, "[hidden] [hidden]", "[hidden]"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
