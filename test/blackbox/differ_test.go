package blackbox

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// While dispatchers have different tools, each says of a refusal that depends on them that it is not final: the other
// one would not give it. Once one of them is gone, refusals are final again.
func TestDispatchersWithDifferentTools(t *testing.T) {
	t.Parallel()
	d := deploy(t, map[string]spec{"both": {class: call.Pure}, "new": {class: call.Pure}})
	older := *d
	older.registry = tool.NewSet(slices.DeleteFunc(slices.Clone(d.registry.List()), func(m *tool.Manifest) bool {
		return m.ToolID == "new"
	})...)
	final := func() bool {
		req := d.request("both", uuid.NewString())
		req.Fn, req.Constraints.TimeoutMS = "none", 10_000
		req.Constraints.DeadlineUnixMS = time.Now().Add(10 * time.Second).UnixMilli()
		r := d.send(req)
		wantStatus(t, r, envelope.InvalidRequest, envelope.CodeFnUnknown)
		return r.Provenance.Final
	}
	first := older.dispatcher()
	if !final() {
		t.Error("the refusal of the only dispatcher is not final")
	}
	d.dispatcher()
	for range 8 { // some of them at each dispatcher
		eventually(t, "a refusal is not final", func() bool { return !final() })
	}
	first.stop()
	eventually(t, "refusals are final again", final)
}
