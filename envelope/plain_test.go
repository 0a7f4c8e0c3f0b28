package envelope

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// leaves returns every field of v that holds no struct itself, and its path.
func leaves(path string, v reflect.Value) map[string]reflect.Value {
	found := map[string]reflect.Value{}
	for n := range v.NumField() {
		name, field := path+"."+v.Type().Field(n).Name, v.Field(n)
		if field.Kind() != reflect.Struct {
			found[name] = field
			continue
		}
		for name, leaf := range leaves(name, field) {
			found[name] = leaf
		}
	}
	return found
}

// trials are values of every kind that a field of a request has, most of them wrong in some field.
func trials(kind reflect.Type) []any {
	switch kind.Kind() {
	case reflect.String:
		return []any{
			"", "a", "*", "A b", "Größe", "a\x00", "a\n", "a\x7f", "\xff", `"\`, "dev", "prod", "low", "high", "urgent",
			"actor", "session",
			"wall", sampleCall, strings.ToUpper(sampleCall), sampleCall[1:], "mcp::github::issues", "::",
			strings.Repeat("k", 15),
			strings.Repeat("k", 16), strings.Repeat("k", 128), strings.Repeat("k", 129), strings.Repeat("k", 256),
			strings.Repeat("k", 257), strings.Repeat("k", 3000),
		}
	case reflect.Int64:
		return []any{int64(-1), int64(0), int64(1), int64(MinMemoryMB), int64(MaxTimeoutMS), int64(MaxTimeoutMS + 1),
			int64(ijson.MaxInteger), int64(ijson.MaxInteger + 1), int64(math.MinInt64)}
	case reflect.Bool:
		return []any{false, true}
	case reflect.Map:
		return []any{
			map[string]string{}, map[string]string{"": "a"}, map[string]string{"a": "b"},
			map[string]jsontext.Value{}, map[string]jsontext.Value{"a": []byte(`1`)},
			map[string]jsontext.Value{"a": []byte(`{`)}, map[string]jsontext.Value{"env": []byte(`"dev"`)},
		}
	case reflect.Pointer:
		return []any{new(float64), new(RetryPolicy), &RetryPolicy{MaxAttempts: 101}}
	}
	return []any{
		jsontext.Value(nil), jsontext.Value{}, jsontext.Value(`{}`), jsontext.Value(`7`), jsontext.Value(`{`),
		[]string{}, []string{"a"}, []string{"\xff"}, []string{strings.Repeat("s", 257)}, make([]string, 128),
		make([]string, 129), make([]string, 300),
	}
}

// What is taken for fine without being looked at closely is fine, whatever a member has, and the
// members that one may have by itself do not hide each other.
func TestPlain(t *testing.T) {
	fine := 0
	for _, sample := range []func() *Request{minimalRequest, fullRequest} {
		for name := range leaves("", reflect.ValueOf(sample()).Elem()) {
			if name == ".Input" {
				continue
			}
			for _, v := range trials(leaves("", reflect.ValueOf(sample()).Elem())[name].Type()) {
				q := sample()
				field := leaves("", reflect.ValueOf(q).Elem())[name]
				if given := reflect.ValueOf(v); given.CanConvert(field.Type()) && given.Kind() == field.Kind() {
					field.Set(given.Convert(field.Type()))
				}
				if !q.plain() {
					continue
				}
				fine++
				if e := q.Check(); e != nil {
					t.Errorf("%s = %.40q is taken for fine, but: %s %v", name, v, e, e.Details.Violations)
				}
			}
		}
	}
	if fine < 50 {
		t.Errorf("only %d requests are plain", fine)
	}
}

// The requests that this is for are plain.
func TestUsualIsPlain(t *testing.T) {
	q := minimalRequest()
	q.Context.Scopes, q.Constraints.Priority, q.Constraints.PreferStreaming, q.DryRun = []string{"read:web"},
		PriorityHigh, true, true
	if !q.plain() {
		t.Error("a usual request is not plain")
	}
	if fullRequest().plain() {
		t.Error("a request with everything is plain")
	}
}
