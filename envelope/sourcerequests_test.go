package envelope

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// decisions are the files in docs/decisions that say why requests are refused that fit the schema of the source.
const (
	noEmptyNames  = "0036-names-and-ranges-in-requests-are-checked.md"
	bounded       = "0037-requests-are-bounded.md"
	closedRequest = "0038-constraints-have-no-further-members.md"
)

// refusedOf has a row for each rule that refuses a request which fits the schema of the source: pointer, rule and
// decision.
var refusedOf = map[string]string{
	"/fn minLength": noEmptyNames, "/tool_version minLength": noEmptyNames, "/context/actor_id minLength": noEmptyNames,
	"/context/timezone minLength": noEmptyNames,

	"/constraints/idempotency_key maxLength": bounded, "/constraints/deadline_unix_ms maximum": bounded,
	"/constraints/memory_mb_limit maximum": bounded, "/constraints/net_allowlist maxItems": bounded,
	"/constraints/net_allowlist/0 maxLength": bounded, "/context/scopes/0 maxLength": bounded,
	"/context/scopes maxItems": bounded, "/context/actor_id maxLength": bounded, "/context/locale maxLength": bounded,
	"/context/parent_span_id maxLength": bounded, "/context/timezone maxLength": bounded, "/fn maxLength": bounded,
	"/tool_id maxLength": bounded, "/tool_version maxLength": bounded,

	"/constraints/zz additionalProperties": closedRequest, "/context/confidence type": closedRequest,
	"/context/confidence maximum": closedRequest, "/constraints/retry_policy/max_attempts type": closedRequest,
}

// sourceValues are the values that a test puts at each place of a request.
func sourceValues() map[string]any {
	many := slices.Repeat([]any{"x"}, 300)
	return map[string]any{
		"empty": "", "short": "x", "long": strings.Repeat("x", 3000), "long key": strings.Repeat("k", 257),
		"range": ">=1 <2", "word": "latest", "wall": "wall", "dev": "dev", "true": true, "zero": 0, "one": 1, "most": 600_000,
		"beyond 2^53": 1e300, "empty list": []any{}, "long list": many, "list of long": []any{
			strings.Repeat("x", 3000)}, "empty object": map[string]any{}, "object": map[string]any{"zz": map[string]any{"n": 1}},
		"wrong policy": map[string]any{"max_attempts": "three"},
	}
}

// sourcePlaces are the members of a request in the schema of the source, and further members of its objects.
func sourcePlaces() (all [][]string) {
	for _, path := range []string{
		"tool_id", "tool_version", "fn", "input", "provenance", "provenance/zz", "dry_run", "context/actor_id",
		"context/scopes", "context/parent_span_id", "context/locale", "context/timezone", "context/clock", "context/env",
		"context/zz", "context/confidence", "constraints/timeout_ms", "constraints/deadline_unix_ms",
		"constraints/idempotency_key", "constraints/memory_mb_limit", "constraints/net_allowlist",
		"constraints/retry_policy", "constraints/retry_policy/zz", "constraints/zz",
	} {
		all = append(all, strings.Split(path, "/"))
	}
	return all
}

// with returns the JSON of the source's example with value at path. If value is nil, the member is left out.
func (s sourceExample) with(t *testing.T, path []string, value any) []byte {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(s, &tree); err != nil {
		t.Fatal(err)
	}
	at := tree
	for _, name := range path[:len(path)-1] {
		at = at[name].(map[string]any)
	}
	if at[path[len(path)-1]] = value; value == nil {
		delete(at, path[len(path)-1])
	}
	body, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// sourceExample is the text of the source's example.
type sourceExample []byte

// Each request that fits the schema of the source is accepted, or a decision record says why not. The test puts each
// value at each place, and leaves each member out.
func TestSourceRequests(t *testing.T) {
	raw, err := os.ReadFile("testdata/source_request.json")
	if err != nil {
		t.Fatal(err)
	}
	source, err := jsonschema.Compile("request.json", raw, anything)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/source_example.json")
	if err != nil {
		t.Fatal(err)
	}
	values := sourceValues()
	values["nothing"] = nil
	accepted, met := 0, map[string]bool{}
	for _, path := range sourcePlaces() {
		for name, value := range values {
			body := sourceExample(text).with(t, path, value)
			if source.Validate(body) != nil {
				continue
			}
			_, refusal := DecodeRequest("", body)
			if refusal == nil {
				accepted++
				continue
			}
			for _, rule := range rules(refusal.Details.Violations) {
				if met[rule] = true; refusedOf[rule] == "" {
					t.Errorf("%s with %s is refused by %s, and no decision record says why", strings.Join(path, "/"), name, rule)
				}
			}
		}
	}
	if rows := slices.Sorted(maps.Keys(refusedOf)); !slices.Equal(slices.Sorted(maps.Keys(met)), rows) || accepted < 100 {
		t.Errorf("%d requests are accepted; the others break %q, and not %q", accepted, slices.Sorted(maps.Keys(met)), rows)
	}
}

// Each decision record names the members that it is about.
func TestSourceRequestsAreDecided(t *testing.T) {
	for rule, file := range refusedOf {
		text, err := os.ReadFile(filepath.Join("../docs/decisions", file))
		if err != nil {
			t.Fatal(err)
		}
		pointer, _, _ := strings.Cut(rule, " ")
		names := strings.Split(strings.TrimSuffix(pointer, "/0"), "/")
		if name := fmt.Sprintf("`%s`", names[len(names)-1]); name != "`zz`" && !strings.Contains(string(text), name) {
			t.Errorf("%s does not name %s", file, name)
		}
	}
}
