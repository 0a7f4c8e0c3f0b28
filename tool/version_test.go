package tool_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/tool"
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
		m := &tool.Manifest{ToolID: "a.b", Semver: test.have}
		got := m.ResolveVersion(test.want)
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
