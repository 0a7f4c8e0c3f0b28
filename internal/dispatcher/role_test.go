package dispatcher_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// carrying returns a change of a token that lets it carry roles.
func carrying(roles ...string) func(*auth.Principal) {
	return func(p *auth.Principal) { p.RoleIDs, p.Family = roles, auth.NewFamily(roles) }
}

// withContext returns an edit of a request that adds members to its context.
func withContext(members string) []string { return []string{`"timezone"`, members + `"timezone"`} }

// A request gets what it leaves out from its token, then from the deployment, and the token must carry its role. The
// log, the stored request and the record of a refusal have what was filled in.
func TestRole(t *testing.T) {
	reads := withContext(`"role_id":"reader","run_id":"r1","lane_id":"l1",`)
	lost := func(p *auth.Principal) { p.Family = auth.NewFamily([]string{"reader"}) }
	for name, test := range map[string]struct {
		open  bool // without tokens
		token func(*auth.Principal)
		edit  []string
		want  [3]string // role, run, lane
		says  string    // of a refusal
	}{
		"no tokens":        {open: true, want: [3]string{"worker", "", "day"}},
		"no tokens, named": {open: true, edit: reads, want: [3]string{"reader", "r1", "l1"}},
		"no roles":         {want: [3]string{"worker", "", "day"}},
		"default named":    {edit: withContext(`"role_id":"worker",`), want: [3]string{"worker", "", "day"}},
		"bound": {token: func(p *auth.Principal) { p.Run, p.Lane = "r1", "l1" },
			want: [3]string{"worker", "r1", "l1"}},
		"another than the default": {edit: reads, want: [3]string{"reader", "r1", "l1"}, says: "worker"},
		"one role":                 {token: carrying("reader"), want: [3]string{"reader", "", "day"}},
		"one of two":               {token: carrying("reader", "writer"), edit: reads, want: [3]string{"reader", "r1", "l1"}},
		"neither of two": {token: carrying("reader", "writer"), want: [3]string{"", "", "day"},
			says: "reader, writer"},
		"not the default": {token: carrying("reader"), edit: withContext(`"role_id":"worker",`),
			want: [3]string{"worker", "", "day"}, says: "reader"},
		"lost": {token: lost, edit: reads, want: [3]string{"reader", "r1", "l1"}, says: "replace all dispatchers"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.d.DefaultRole, w.d.DefaultLane = "worker", "day"
				w.begin("r1")
				in := w.request(1, test.edit...)
				if !test.open {
					p, s := someAgent(), guarded(w)
					if test.token != nil {
						test.token(&p)
					}
					in.Token, in.Reply = mint(w, s, p), p.Answers()+"word"
				}
				w.d.Handle(t.Context(), in)
				synctest.Wait()
				if test.says != "" {
					w.wantRefusal(t, test.want, test.says)
					return
				}
				o := w.state().Last().Owner
				if got := named(o.Role, o.Run, o.Lane); got != test.want {
					t.Errorf("the log has %q, want %q", got, test.want)
				}
			})
		})
	}
}

// named returns a role, a run and a lane, but no implicit run.
func named(role, run, lane string) [3]string {
	if policy.IsImplicitRunID(run) {
		run = ""
	}
	return [3]string{role, run, lane}
}

// wantRefusal checks the one refusal: its code, its fix, and the context on record.
func (w *world) wantRefusal(t *testing.T, want [3]string, says string) {
	t.Helper()
	if len(w.refused) != 1 || len(w.log.Entries()) > 0 {
		t.Fatalf("%d refusals, %d events", len(w.refused), len(w.log.Entries()))
	}
	r := w.refused[0]
	c := r.Req.Context
	if r.Error.Code != envelope.CodeScope || r.Rule != "role" || !strings.Contains(r.Error.Fix, says) ||
		[3]string{c.RoleID, c.RunID, c.LaneID} != want {
		t.Errorf("%s by %s, fix %q, of %+v; want %q, %q", r.Error.Code, r.Rule, r.Error.Fix, c, says, want)
	}
}

// Two requests of one key that differ only in what one leaves out are one call.
func TestLeftOutIsTheSame(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2, withContext(`"role_id":"agent","lane_id":"default",`)...)
		if n := len(w.state().Attempts); n != 1 || len(w.refusals()) > 0 {
			t.Errorf("%d attempts, refused with %v", n, w.refusals())
		}
		if _, joined := w.state().AttemptOf(uuid(2)); !joined {
			t.Error("the second request has not joined the first")
		}
	})
}

// A further copy of a request that was admitted gets its outcome, whatever roles its token carries by now.
func TestRoleOfACopy(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s, p := guarded(w), someAgent()
		p.Scopes = nil
		w.askWith(s, p, 1)
		w.decide("")
		synctest.Wait()
		before := len(w.toldCodes(p, 1))
		p.RoleIDs, p.Family = []string{"reader"}, auth.NewFamily([]string{"reader"})
		w.askWith(s, p, 1, withContext(`"role_id":"agent",`)...)
		if got := w.toldCodes(p, 1); len(got) != before+1 || got[before] != "" {
			t.Errorf("told %q, %d of them before", got, before)
		}
		if len(w.refusals()) > 0 {
			t.Errorf("refused with %v", w.refusals())
		}
	})
}

// A dead letter is called again in the role of its call.
func TestRoleOfAReplay(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s, p := guarded(w), someAgent()
		carrying("reader")(&p)
		w.askWith(s, p, 1)
		letter := dispatcher.DeadLetter{Seq: 1, Attempt: 1, State: w.state(), Body: w.log.Entries()[0].Body}
		if _, refusal := w.d.Replay(t.Context(), "operator", letter, ""); refusal != nil {
			t.Fatal(refusal)
		}
		synctest.Wait()
		var roles []string
		for _, e := range w.log.Entries() {
			roles = append(roles, e.State.Last().Owner.Role)
		}
		if len(roles) != 2 || roles[0] != "reader" || roles[1] != "reader" {
			t.Errorf("roles %q", roles)
		}
		pass(time.Minute)
	})
}

// A call that names no lane is in the only lane that allows its tool, under the policy that is in force by then. With
// two such lanes it is in the default one.
func TestOnlyLane(t *testing.T) {
	only := rules{lanes: "l, m", tools: "other"}
	for name, test := range map[string]struct {
		before *rules // the policy of an earlier request with the same key, which it refuses
		is     rules
		want   string // the lane; "" if the call is refused
	}{
		"one of two": {is: only, want: "m"}, "two": {is: rules{lanes: "l, m", tools: "echo"}},
		"none": {is: rules{lanes: "l", tools: "other"}}, "after a push": {&only, rules{lanes: "l", tools: "echo"}, "l"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				if test.before != nil {
					test.before.disabled = true
					w.d.Policy = test.before.in(w)
					w.ask(1)
				}
				w.d.Policy = test.is.in(w)
				w.ask(2)
				if test.want == "" {
					if n := len(w.log.Entries()); n > 0 || w.outcome(2).Error == nil {
						t.Errorf("%d events, want a refusal", n)
					}
					if e := w.outcome(2).Error; name == "none" && (e.Code != envelope.CodeToolUnknown ||
						w.refused[0].Error.Code != envelope.CodeLane || w.refused[0].Step != policy.StepLane) {
						t.Errorf("told %s, on record %+v", e, w.refused[0])
					}
					return
				}
				if got := w.state().Last().Owner.Lane; got != test.want {
					t.Errorf("the call is in lane %q, want %q", got, test.want)
				}
			})
		})
	}
}
