package rpc

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// The messages with which `toolbus doctor` tries its permissions are dropped in silence. Requests that cannot be
// answered are dropped, and logged.
func TestTrialIsNotLogged(t *testing.T) {
	for subject, logged := range map[string]map[string]bool{
		"tb.call.default.agent://a.x":         {"": false, "body": true},
		"tb.svc.describe.default.agent://a.x": {"": false, "body": true},
	} {
		for body, want := range logged {
			var log bytes.Buffer
			s := replyFilter{log: slog.New(slog.NewTextHandler(&log, nil))}
			if _, ok := s.answerTo(subject, "", "", len(body)); ok {
				t.Errorf("%s: answered to nowhere", subject)
			}
			if strings.Contains(log.String(), "message dropped") != want {
				t.Errorf("%s with %q: %s", subject, body, &log)
			}
		}
	}
	var log bytes.Buffer
	s := replyFilter{log: slog.New(slog.NewTextHandler(&log, nil))}
	if _, ok := s.answerTo("tb.call.default.agent://a.x", "elsewhere", "", 0); ok || log.Len() == 0 {
		t.Errorf("an empty request with a foreign reply subject: %v, %q", ok, &log)
	}
}
