package tool_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func TestResolveVersion(t *testing.T) {
	tests := []struct {
		have, want string
		code       envelope.Code // "" if it resolves
	}{
		{"1.4.2", "", ""},
		{"1.4.2", "*", ""},
		{"1.4.2", "1.4.2", ""},
		{"1.4.2", "=1.4.2", ""},
		{"1.4.2", "1.x", ""},
		{"1.4.2", "1", ""},
		{"1.4.2", "1.4", ""},
		{"1.4.2", "^1.2", ""},
		{"1.4.2", "~1.4.1", ""},
		{"1.4.2", ">=1 <2", ""},
		{"1.4.2", ">=1, <2", ""},
		{"1.4.2", "2.x || 1.x", ""},
		{"1.4.2", "2.x", envelope.CodeVersion},
		{"1.4.2", "1.4.3", envelope.CodeVersion},
		{"1.4.2", "^1.5", envelope.CodeVersion},
		{"1.4.2", "~1.3.0", envelope.CodeVersion},
		{"1.4.2", ">1.4.2", envelope.CodeVersion},
		{"0.2.1", "^0.1", envelope.CodeVersion},
		{"2.0.0-rc.1", "2.0.0-rc.1", ""},
		{"2.0.0-rc.1", "*", ""},
		{"2.0.0-rc.1", "2.x", envelope.CodeVersion},
		{"2.0.0-rc.1", ">=2.0.0-rc", ""},
		{"1.4.2+build", "1.4.2", ""},
		{"broken", "1.x", envelope.CodeVersion},
		{"1.4.2", "latest", envelope.CodeMalformed},
		{"1.4.2", "1.4.2.1", envelope.CodeMalformed},
		{"1.4.2", strings.Repeat("1", 1000), envelope.CodeMalformed},
	}
	for _, test := range tests {
		m, got := tool.NewSet(&tool.Manifest{ToolID: "a.b", Semver: test.have}).Get("a.b", test.want)
		if m == nil || m.Semver != test.have {
			t.Errorf("%s against %.40q: there is %v", test.have, test.want, m)
		}
		if got == nil && test.code == "" {
			continue
		}
		if got == nil || got.Code != test.code {
			t.Errorf("%s against %.40q: %v, want %q", test.have, test.want, got, test.code)
			continue
		}
		if got.Code == envelope.CodeVersion && !strings.Contains(got.Message, test.have) {
			t.Errorf("%q does not name the candidate %s", got.Message, test.have)
		}
	}
}

// TestVersionsOfOneTool shows which of several versions a request gets.
func TestVersionsOfOneTool(t *testing.T) {
	var all []*tool.Manifest
	for semver, status := range map[string]tool.Status{
		"1.4.2": tool.StatusActive, "1.10.0": tool.StatusDeprecated, "2.0.0-rc.1": tool.StatusActive,
		"3.0.0": tool.StatusPlanned,
	} {
		all = append(all, &tool.Manifest{ToolID: "a.b", Semver: semver, Status: status})
	}
	r := tool.NewSet(append(all, &tool.Manifest{ToolID: "a.c", Semver: "9.0.0"})...)
	for want, version := range map[string]string{
		"": "1.10.0", "*": "1.10.0", "1.x": "1.10.0", "~1.4": "1.4.2", "1.4.2": "1.4.2", ">=1": "1.10.0", ">=2": "3.0.0",
		"3.x": "3.0.0", "2.0.0-rc.1": "2.0.0-rc.1", ">=2.0.0-rc": "2.0.0-rc.1",
	} {
		if m, refusal := r.Get("a.b", want); refusal != nil || m.Semver != version {
			t.Errorf("%q gets %+v, %v", want, m, refusal)
		}
	}
	m, refusal := r.Get("a.b", "4.x")
	if refusal == nil || refusal.Code != envelope.CodeVersion || m.Semver != "1.10.0" ||
		!strings.Contains(refusal.Message, "there is 1.10.0, 1.4.2, 2.0.0-rc.1, 3.0.0") {
		t.Errorf("%+v, %v", m, refusal)
	}
	if ids := r.IDs(); r.Len() != 5 || len(ids) != 2 {
		t.Errorf("%d manifests of %q", r.Len(), ids)
	}
}
