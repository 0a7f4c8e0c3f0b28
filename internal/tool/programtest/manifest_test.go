package programtest

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/seed-018f16cc/toolbus/program"
)

func TestCheckError(t *testing.T) {
	t.Parallel()
	var m manifest
	if err := yaml.Unmarshal([]byte("errors: [{code: known}]"), &m); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ code, detail, say string }{
		{"known", "upstream_status", ""},
		{"unknown", "reason", "undeclared"},
		{"known", "http_status", "Toolbus's own"},
	} {
		err := m.checkError(&Failure{
			Code: test.code, Message: "m", Effect: program.EffectNone,
			Details: map[string]jsontext.Value{test.detail: jsontext.Value("1")},
		})
		if (err == nil) != (test.say == "") || err != nil && !strings.Contains(err.Error(), test.say) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
