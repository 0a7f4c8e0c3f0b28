package tool_test

import (
	"fmt"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// A set that was given other manifests still finds the builds that calls were admitted for, the newest of them.
func TestReplace(t *testing.T) {
	build := func(n int) *tool.Manifest {
		return &tool.Manifest{ToolID: "say", Semver: "1.0.0", Digest: fmt.Sprint("sha256:", n)}
	}
	other := &tool.Manifest{ToolID: "other", Semver: "1.0.0", Digest: "sha256:1"}
	s := tool.NewSet(build(1), other)
	first, replaced := s.Digest(), s.Replaced()
	s.Replace(build(2))
	select {
	case <-replaced:
	default:
		t.Error("nobody is told")
	}
	if m, _ := s.Get("say", ""); m.Digest != "sha256:2" || s.Len() != 1 || s.Digest() == first {
		t.Errorf("got %+v of %d", m, s.Len())
	}
	for _, want := range []*tool.Manifest{build(1), build(2), other} {
		if m := s.Build(want.ToolID, want.Digest); m == nil || m.ToolID != want.ToolID || m.Digest != want.Digest {
			t.Errorf("of %s %s it has %+v", want.ToolID, want.Digest, m)
		}
	}
	if m := s.Build("say", "sha256:3"); m != nil {
		t.Errorf("it has %+v", m)
	}
	s.Replace(build(1), other)
	if s.Digest() != first {
		t.Error("the digest of the same builds differs")
	}
	for n := range 100 {
		s.Replace(build(n + 1))
	}
	if s.Build("say", "sha256:99") == nil || s.Build("say", "sha256:1") != nil {
		t.Error("it keeps not the newest")
	}
}
