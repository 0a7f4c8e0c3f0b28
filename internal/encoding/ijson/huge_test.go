package ijson_test

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

func TestWithoutHuge(t *testing.T) {
	for _, c := range []struct {
		v, want string
		dropped []jsontext.Pointer
	}{
		{`{"a": 1, "b": [1e308]}`, `{"a": 1, "b": [1e308]}`, nil},
		{`{"maximum":1e400,"a":1}`, `{"a":1}`, []jsontext.Pointer{"/maximum"}},
		{`{"enum":[1,[-1e999]],"a":{"b/c":1e400}}`, `{"a":{}}`, []jsontext.Pointer{"/enum", "/a/b~1c"}},
		{
			`{"anyOf":[{"minimum":-1E+400},{"maximum":1}]}`, `{"anyOf":[{},{"maximum":1}]}`,
			[]jsontext.Pointer{"/anyOf/0/minimum"},
		},
		{`{"a":1e-400,"b":"1e400"}`, `{"a":1e-400,"b":"1e400"}`, nil},
	} {
		var dropped []jsontext.Pointer
		got := ijson.WithoutHuge(jsontext.Value(c.v), func(at jsontext.Pointer) { dropped = append(dropped, at) })
		if string(got) != c.want || !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s became %s without %q", c.v, got, dropped)
		}
	}
}
