package tool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// defaultsFile writes a policy/defaults.yaml and returns its name.
func defaultsFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "defaults.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A default replaces that of the manifest, by environment and tool, the last entry wins, and none exceeds a maximum of
// the manifest. The build stays the same.
func TestDefaults(t *testing.T) {
	name := defaultsFile(t, `defaults:
- tools: "*"
  timeout_ms: 9000
  retry_policy: {max_attempts: 2}
- {tools: "web.*", env: [prod, staging], timeout_ms: 100000, concurrency: 100}
- {tools: web.search, timeout_ms: 1, rate_limit: {tokens: 1, interval_ms: 1000}}
`)
	d, err := tool.ReadDefaults(name)
	if err != nil {
		t.Fatal(err)
	}
	limited := minimal + "limits: {timeout_ms_max: 20000, concurrency_max: 4}\n"
	for _, c := range []struct {
		manifest, env string
		timeout       int64
		concurrency   int
	}{
		{minimal, "dev", 9000, 8}, {minimal, "prod", 60000, 100}, {minimal, "staging", 60000, 100},
		{limited, "dev", 9000, 4}, {limited, "prod", 20000, 4},
	} {
		before := mustLoad(t, folder("web.fetch", c.manifest, nil))
		m, err := d.Apply(before, c.env)
		if err != nil {
			t.Fatal(err)
		}
		if m.Limits.TimeoutDefaultMS != c.timeout || m.Limits.Concurrency != c.concurrency || m.Digest != before.Digest {
			t.Errorf("%s: limits %+v, want timeout %d and concurrency %d", c.env, m.Limits, c.timeout, c.concurrency)
		}
		if whole := string(m.Whole); !strings.Contains(whole, `"retry_policy":{"max_attempts":2}`) ||
			!strings.Contains(strings.Join(m.DeclaredOnly, " "), "retry_policy") || strings.Contains(whole, "rate_limit") {
			t.Errorf("described as %s, declared only %v", whole, m.DeclaredOnly)
		}
		if before.Limits.TimeoutDefaultMS != 15000 || len(before.DeclaredOnly) > 0 {
			t.Errorf("the loaded manifest has changed: %+v", before)
		}
	}
}

// Defaults with problems are refused as a whole, with places and fixes.
func TestBadDefaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ":1:1: the document is empty"},
		{"default: []\n", `:1:1: unknown field "default" (did you mean "defaults"?)`},
		{"defaults:\n- {timeout_ms: 1}\n", "defaults[0].tools is required"},
		{"defaults:\n- {tools: \"a*b\"}\n", `:2:11: "a*b" is not a tool id or the beginning of one with a *`},
		{"defaults:\n- {tools: a, env: [production]}\n", `:2:20: "production" is not a value of defaults[0].env[0]`},
		{"defaults:\n- {tools: a, timeout: 1}\n", `unknown field "timeout" (did you mean "timeout_ms"?)`},
		{"defaults:\n- {tools: a, timeout_ms: 15s}\n", "defaults[0].timeout_ms must be a whole number"},
		{"defaults:\n- {tools: a, retry_policy: {max_attempts: 0}}\n", "defaults[0].retry_policy.max_attempts is 0"},
	} {
		_, err := tool.ReadDefaults(defaultsFile(t, c.text))
		var problems tool.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
		for _, p := range problems {
			if p.Line == 0 || p.Hint == "" {
				t.Errorf("%q: %s has no line or no fix", c.text, p)
			}
		}
	}
	if _, err := tool.ReadDefaults(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
