package toolbus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// mail is an input with members of several kinds.
type mail struct {
	Text string    `json:"text" jsonschema:"the text"`
	N    int       `json:"n,omitempty"`
	At   time.Time `json:"at"`
	To   []string  `json:"to"`
}

// digestOf returns the digest of a tool with one Go function, as an outcome has it.
func digestOf(t *testing.T, about toolbus.Tool) string {
	t.Helper()
	tools := toolbus.NewToolset()
	must(t, tools, about, func(_ context.Context, _ *toolbus.Run, in mail) (person, error) { return person{in.Text}, nil })
	b := toolbustest.Start(t, tools)
	r := succeeds(t, b.Client, toolbus.Call{
		Tool: about.ID, Input: []byte(`{"text":"x","at":"2026-01-01T00:00:00Z","to":[]}`),
	})
	return r.Provenance.Digest
}

// The digest of a tool of Go functions covers manifest and schemas. Without Build it is that of earlier builds, which
// computed these literals. So executors run calls that a dispatcher of that build admitted.
func TestDigestOfGoFunctions(t *testing.T) {
	const greet = "sha256:b8a4588f5d81a90840352d9c95bd5efa0a5da69b5cc83daa028197dff5e79d70"
	const mail = "sha256:4798efa35b792ae9335725723375f1601dfb438d1f77b7aa3204e0042397897c"
	for want, about := range map[string]toolbus.Tool{
		greet: {ID: "greet", Class: toolbus.Pure},
		mail: {ID: "send.mail", Version: "1.2.3", Class: toolbus.SideEffectful, Title: "T", Tags: []string{"a"},
			Timeout: time.Second, Streaming: true, AcceptRerun: true},
	} {
		if got := digestOf(t, about); got != want {
			t.Errorf("%s has the digest %s, want %s", about.ID, got, want)
		}
	}
}

// Build changes the digest, and nothing else tells one program from another.
func TestBuildChangesTheDigest(t *testing.T) {
	digests := map[string]string{}
	for _, build := range []string{"", "r1", "r2", "r1"} {
		digest := digestOf(t, toolbus.Tool{ID: "greet", Class: toolbus.Pure, Build: build})
		if had, ok := digests[build]; ok && had != digest {
			t.Errorf("build %q has the digests %s and %s", build, had, digest)
		}
		digests[build] = digest
	}
	if digests["r1"] == digests["r2"] || digests["r1"] == digests[""] || digests["r2"] == digests[""] {
		t.Errorf("the digests are %v", digests)
	}
}

func TestBuildIsBounded(t *testing.T) {
	err := toolbus.Add(toolbus.NewToolset(), toolbus.Tool{ID: "greet", Class: toolbus.Pure,
		Build: strings.Repeat("x", 257)}, hello)
	if err == nil || !strings.Contains(err.Error(), "build") {
		t.Errorf("a build of 257 characters: %v", err)
	}
}
