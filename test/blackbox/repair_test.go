package blackbox

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// operator returns a client of an operator.
func (d *busDeployment) operator() *admin.Client {
	d.t.Helper()
	c, err := admin.Connect(d.t.Context(), d.srv.URL, admin.Options{Tenant: "default", Actor: "operator://o"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// loseEnds flips a bit of each outcome in the call log while the server is down.
func (d *busDeployment) loseEnds() {
	d.t.Helper()
	d.srv.Stop()
	for _, file := range blocks(d.t, d.srv.Dir(), subjects.Partition(0).Stream()) {
		for _, m := range messages(d.t, file) {
			if strings.Contains(m.subject, ".x.o.") {
				flip(d.t, file, m.at+m.size-9, 3) // the last byte before the checksum
			}
		}
	}
	d.srv.Restart()
}

// decide has an operator decide about a call.
func decide(t *testing.T, o *admin.Client, ref string, r envelope.Repair) (envelope.RepairsResponse, error) {
	t.Helper()
	return o.Repair(t.Context(), envelope.RepairRequest{Ref: ref, Decision: r, Reason: "see INC-7"})
}

func wantLost(t *testing.T, r *envelope.Response, final bool) {
	t.Helper()
	if r.Error == nil || r.Error.Code != envelope.CodeLogDamaged || r.Error.Details.Effect != envelope.EffectUnknown ||
		r.Provenance.Final != final {
		t.Errorf("%s, %+v, final %t; want a damaged log, final %t", r.Status, r.Error, r.Provenance.Final, final)
	}
}

// Operators see the calls whose logs are damaged. An accepted one runs once more, and a refused one ends for good, also
// for dispatchers that did not serve the command, and for those that start later.
func TestRepair(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"pay": {class: call.SideEffectful, run: echo(&runs)}})
	d.topology.Partitions = 1
	dispatchers := []*process{d.dispatcher(), d.dispatcher()}
	d.executor(6)
	c, o := d.client(), d.operator()
	for i := range 3 {
		wantStatus(t, pay(t, c, i), envelope.Success, "")
	}
	d.loseEnds()
	c = d.client() // a copy of a request that is sent while the server is away never gets its refusal
	for i := range 3 {
		wantLost(t, pay(t, c, i), false)
	}
	listed, err := o.Repairs(t.Context())
	if err != nil || len(listed) != 3 {
		t.Fatalf("%+v, %v", listed, err)
	}
	for _, l := range listed {
		if l.Tenant != "default" || l.Tool != "pay" || l.Found.IsZero() || time.Until(l.Expires) < time.Minute ||
			l.Decision != "" {
			t.Errorf("listed: %+v", l)
		}
	}
	accepted, refused := listed[0].Ref, listed[1].Ref
	d.wantDiagnosed(listed)
	for range 2 { // the second one changes nothing
		if _, err := decide(t, o, accepted, envelope.RepairAccept); err != nil {
			t.Fatal(err)
		}
		if _, err := decide(t, o, refused, envelope.RepairRefuse); err != nil {
			t.Fatal(err)
		}
	}
	_, err = decide(t, o, refused, envelope.RepairAccept)
	wantCode(t, err, envelope.CodeMalformed)
	_, err = decide(t, o, "pay.0kd3", envelope.RepairAccept)
	wantCode(t, err, envelope.CodeNotFound)
	for _, restart := range []bool{false, true} {
		if restart {
			for _, p := range dispatchers {
				p.stop()
			}
			d.srv.Stop()
			d.srv.Restart()
			d.dispatcher()
			d.dispatcher()
			c, o = d.client(), d.operator()
		}
		for range 6 { // both dispatchers answer some of them
			wantStatus(t, pay(t, c, 0), envelope.Success, "")
			wantLost(t, pay(t, c, 1), true)
			wantLost(t, pay(t, c, 2), false)
		}
		if runs.Load() != 4 {
			t.Errorf("%d runs, want one more than 3", runs.Load())
		}
	}
	listed, err = o.Repairs(t.Context())
	if err != nil || len(listed) != 3 || listed[0].Decision != envelope.RepairAccept || listed[1].By !=
		"default/operator://o" || listed[2].Decision != "" {
		t.Errorf("%+v, %v", listed, err)
	}
	wantDecisions(t, o, accepted, refused)
}

func wantCode(t *testing.T, err error, want envelope.Code) {
	t.Helper()
	if toolbus.CodeOf(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// wantDecisions wants both decisions on record, each with its intent and its result.
func wantDecisions(t *testing.T, o *admin.Client, accepted, refused string) {
	t.Helper()
	var got []string
	for r, err := range o.AuditRecords(t.Context(), admin.AuditFilter{}) {
		var stored audit.Record
		if err != nil || json.Unmarshal(r.JSON, &stored) != nil {
			t.Fatalf("%s, %v", r.JSON, err)
		}
		if stored.Repair != nil && stored.Event != audit.ToolDenied {
			got = append(got, strings.Join([]string{string(stored.Event), stored.Ref, stored.Actor, stored.Repair.Reason,
				stored.Repair.Tenant, string(stored.Act.State)}, " "))
		}
	}
	want := []string{}
	for _, end := range []string{
		"approval_granted " + accepted, "approval_denied " + refused,
	} {
		for _, state := range []string{"intended", "done"} {
			want = append(want, end+" operator://o see INC-7 default "+state)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	got = slices.Compact(got) // each dispatcher may get a copy of a request
	if !slices.Equal(got, want) {
		t.Errorf("on record:\n%q, want\n%q", got, want)
	}
}

// wantDiagnosed wants that doctor fails, names the calls with their tenants, and says what to do.
func (d *busDeployment) wantDiagnosed(listed []envelope.DamagedCall) {
	d.t.Helper()
	for _, c := range admin.Diagnose(d.t.Context(), d.srv.URL, toolbus.ClientOptions{}) {
		if c.Name != "damaged logs" {
			continue
		}
		for _, l := range listed {
			if !strings.Contains(c.Says, l.Ref+" of tenant "+l.Tenant) {
				d.t.Errorf("doctor does not name %s: %s", l.Ref, c.Says)
			}
		}
		if c.Status != admin.CheckFailed || !strings.Contains(c.Fix, "toolbus repair list") {
			d.t.Errorf("%+v", c)
		}
		return
	}
	d.t.Error("doctor does not look at damaged logs")
}
