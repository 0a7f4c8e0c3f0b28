package auth

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// everybody is a principal of each role.
func everybody() map[string]Principal {
	all := map[string]Principal{}
	for _, role := range []Role{
		Agent, Gateway, Auditor, Executor, Operator,
	} {
		all[string(role)] = Principal{
			Tenant: "default", Actor: "agent://a", Role: role, Pool: "gpu", Family: "0123456789ab",
		}
	}
	whole := all[string(Auditor)]
	whole.Scopes = []string{ScopeAudit}
	all["auditor of all"] = whole
	bound := all[string(Agent)]
	bound.Run = "r"
	all["bound agent"] = bound
	return all
}

// covers reports whether a subject with wildcards lies within another.
func covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, token := range w {
		switch {
		case token == ">":
			return len(n) > i
		case i >= len(n) || n[i] == ">":
			return false
		case token != "*" && token != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}

// Whatever a role may send is imported by its account, or is heard by another through an export of it: otherwise the
// permission would be for nothing. And whatever it may hear comes from somewhere.
func TestPermissionsLeadSomewhere(t *testing.T) {
	for name, p := range everybody() {
		for _, f := range []PermissionInputs{
			{Partitions: 2, Tools: []string{"web.fetch"}, Instance: "01234567-x"}, {Expired: true, Instance: "01234567-x"},
		} {
			account := Account(p, f)
			at := slices.IndexFunc(ClientAccounts(), func(g ClientAccount) bool { return g.Name == account })
			g, may := ClientAccounts()[at], Permissions(p, f)
			for _, s := range may.Pub.Allow {
				if !slices.ContainsFunc(g.Services, func(i ServiceExport) bool { return covers(cmp.Or(i.As, i.Subject), s) }) &&
					!slices.ContainsFunc(g.Exports, func(e StreamExport) bool { return covers(e.Subject, s) }) {
					t.Errorf("%s may publish %s, which leads nowhere from %s", name, s, account)
				}
			}
			for _, s := range may.Sub.Allow {
				if !strings.HasPrefix(s, "_INBOX.") &&
					!slices.ContainsFunc(g.Streams, func(i StreamExport) bool { return covers(i.Subject, s) }) {
					t.Errorf("%s may hear %s, which nobody sends to %s", name, s, account)
				}
			}
			if len(may.Pub.Allow) == 0 || len(may.Sub.Allow) == 0 {
				t.Errorf("%s may do everything: %+v", name, may)
			}
		}
	}
}

// Nobody may speak for another actor, hear another's answers or reach what is the server's, and a role that nobody
// knows may do nothing.
func TestPermissionsAreNarrow(t *testing.T) {
	f := PermissionInputs{Partitions: 2, Tools: []string{"web.fetch"}, Instance: "01234567-x"}
	for name, p := range everybody() {
		for _, s := range slices.Concat(Permissions(p, f).Pub.Allow, Permissions(p, f).Sub.Allow) {
			if strings.HasPrefix(s, "*") || strings.HasPrefix(s, ">") || strings.HasPrefix(s, "$SYS") ||
				strings.HasPrefix(s, "$SRV") || strings.Contains(s, ".STREAM.") || strings.Contains(s, "CONSUMER.CREATE") {
				t.Errorf("%s: %s", name, s)
			}
			if p.Role != Executor && (strings.HasPrefix(s, "$KV") || strings.HasPrefix(s, "$JS.ACK")) {
				t.Errorf("%s: %s", name, s)
			}
			if p.Role == Agent && !strings.Contains(s, ".default.agent_3a_2f_2fa.") &&
				!strings.HasSuffix(s, ".default.agent_3a_2f_2fa") {
				t.Errorf("%s: %s is not its own", name, s)
			}
		}
	}
	none := Permissions(Principal{Role: "king"}, f)
	if !slices.Equal(none.Pub.Deny, []string{">"}) || !slices.Equal(none.Sub.Deny, []string{">"}) {
		t.Errorf("got %+v", none)
	}
}

// A bound token hears what is sent below its family alone.
func TestBoundHears(t *testing.T) {
	p := everybody()["bound agent"]
	own := []string{"tb.ans.default.agent_3a_2f_2fa.0123456789ab.>", "_INBOX.default.agent_3a_2f_2fa.0123456789ab.>"}
	for _, expired := range []bool{false, true} {
		if got := Permissions(p, PermissionInputs{Expired: expired}).Sub.Allow; !slices.Equal(got, own) {
			t.Errorf("expired: %t: %q", expired, got)
		}
	}
}

func TestUser(t *testing.T) {
	p := everybody()["door"]
	want := User{p.Role, p.Tenant, subjects.Token(p.Actor), p.Family}
	if got, ok := ParseUser(p.User()); !ok || got != want {
		t.Errorf("%s is %+v", p.User(), got)
	}
	if _, ok := ParseUser("UABC"); ok {
		t.Error("a key is a user with a token")
	}
	for name, want := range map[string]bool{
		"executor 01234567-1": true, "executor 01234567-": false, "01234567-1": false, "executor 76543210-1": false,
		"executor 01234567-*": false, "executor 01234567-" + strings.Repeat("x", 60): false,
	} {
		if _, ok := Instance(p, name); ok != want {
			t.Errorf("%q: %v", name, ok)
		}
	}
}
