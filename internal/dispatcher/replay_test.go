package dispatcher_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
)

// buried is the letter of a call that was given up, whose request edit changes.
func buried(t *testing.T, w *world, edit ...string) dispatcher.DeadLetter {
	t.Helper()
	body, err := call.RequestBody{Request: w.request(1, edit...).Body}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return dispatcher.DeadLetter{Seq: 3, Attempt: 2, Body: body, State: call.State{
		Pinned: call.Pinned{Tenant: "t", Tool: "echo", ID: "dead", ArgsHash: "hash"}}}
}

func replay(t *testing.T, w *world, l dispatcher.DeadLetter, again string) envelope.ResultResponse {
	t.Helper()
	a, refusal := w.d.Replay(t.Context(), "ops/agent://op", l, again)
	synctest.Wait()
	if refusal != nil {
		t.Fatal(refusal)
	}
	return a
}

// A dead letter is replayed once, as its actor, without a token of it; later questions are told how that stands. Each
// other word makes a further call.
func TestReplayOnce(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		guarded(w)
		w.manifest.Security.RequiredScopes = []string{"say"}
		l := buried(t, w)
		first := replay(t, w, l, "")
		if first.Accepted == nil || first.Tenant != "t" || first.Actor != "agent" || first.Ref != w.state().Ref() {
			t.Fatalf("%+v", first)
		}
		if a := replay(t, w, l, ""); a.Accepted == nil || a.Accepted.CallID != first.Accepted.CallID {
			t.Errorf("while it is open: %+v", a)
		}
		if owner := w.state().Last().Owner; owner.Actor != "agent" || len(w.state().Last().Joined) > 0 {
			t.Errorf("%+v", w.state().Last())
		}
		w.decide("")
		if a := replay(t, w, l, ""); a.Response == nil || a.Response.Status != envelope.Success ||
			!a.Response.Provenance.Replayed || a.Ref != first.Ref {
			t.Errorf("once more: %+v", a)
		}
		if n := len(w.notes); n != 1 {
			t.Errorf("%d records of one replay", n)
		}
		other := replay(t, w, l, "again")
		if other.Accepted == nil || other.Ref == first.Ref || other.Accepted.CallID == first.Accepted.CallID {
			t.Errorf("with another word: %+v", other)
		}
		n := w.notes[0]
		if n.Event != audit.DeadReplayed || n.Actor != "agent" || n.Tenant != "t" || n.Ref != first.Ref ||
			n.CallID != first.Accepted.CallID || n.ArgumentsHash != "hash" ||
			*n.Replay != (audit.Replay{By: "ops/agent://op", Letter: 3, Ref: l.State.Ref(), Attempt: 2}) {
			t.Errorf("on record is %+v, %+v", n, n.Replay)
		}
	})
}

// A replay that is refused says so, as its actor would be told; what is not on record is not made.
func TestReplayRefused(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		a := replay(t, w, buried(t, w, `"fn":"say"`, `"fn":"shout"`), "")
		if a.Response == nil || a.Response.Error.Code != envelope.CodeFnUnknown || a.Response.Provenance.AuditEventID == "" {
			t.Errorf("%+v", a.Response)
		}
		unread := buried(t, w)
		unread.Body = []byte(`"no request"`)
		for name, c := range map[string]struct {
			l     dispatcher.DeadLetter
			again string
			err   error
			want  envelope.Code
		}{
			"unreadable":    {unread, "", nil, envelope.CodeChecksum},
			"long word":     {buried(t, w), strings.Repeat("x", 65), nil, envelope.CodeLimit},
			"not on record": {buried(t, w), "", errors.New("no room"), envelope.CodeAuditLag},
		} {
			w.gateErr = c.err
			if _, refusal := w.d.Replay(t.Context(), "ops", c.l, c.again); refusal == nil || refusal.Code != c.want {
				t.Errorf("%s: %v", name, refusal)
			}
		}
		if !w.state().Empty() {
			t.Errorf("a call was made: %+v", w.state())
		}
	})
}
