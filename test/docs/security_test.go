package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// placeholder is a token of a subject that stands for any.
var placeholder = regexp.MustCompile(`<[a-z]+>`)

// Each subject on which a role may listen, and each on which dispatchers hear other accounts, has a row that says why
// its receiver acts on a message. Each row has a receiver, a rule and a reason.
func TestMessagesAndTheirSenders(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/security.md"), "\n## Messages, and who may have sent them\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows = append(rows, placeholder.ReplaceAllString(quoted.FindStringSubmatch(cells[1])[1], "*"))
		rule := strings.TrimSpace(cells[3])
		if strings.TrimSpace(cells[2]) == "" || !strings.ContainsAny(rule, "abc") || len(cells[4]) < 20 {
			t.Errorf("a row says too little: %s", line)
		}
	}
	heard := []string{
		subjects.KillWildcard, subjects.LocateWildcard, subjects.JoinerLeft, subjects.DispatcherTools,
		subjects.PoolsAll,
		subjects.ExecutorReplyWildcard,
		subjects.ExecutorRequestWildcard(subjects.OpLog), "$SYS.REQ.USER.AUTH", "$SRV.>",
	}
	for _, role := range []auth.Role{
		auth.Agent, auth.Gateway, auth.Operator, auth.Auditor, auth.Executor,
	} {
		p := auth.Principal{Tenant: "t", Actor: "a", Role: role, Pool: "p", Family: "0123456789ab"}
		heard = append(heard, auth.Permissions(p, auth.PermissionInputs{Instance: "01234567-x"}).Sub.Allow...)
	}
	for _, lines := range auth.Imports() {
		for _, line := range lines {
			subject := strings.Fields(line)[1]
			process := strings.HasPrefix(subject, "tb.svc.") || strings.HasPrefix(subject, "tb.exe.")
			if process || strings.HasPrefix(line, "stream ") {
				heard = append(heard, subject)
			}
		}
	}
	for _, subject := range heard {
		if !slices.ContainsFunc(rows, func(row string) bool { return overlap(row, subject) }) {
			t.Errorf("docs/security.md does not say why a receiver acts on a message on %s", subject)
		}
	}
	for _, row := range rows {
		if !slices.ContainsFunc(heard, func(subject string) bool { return overlap(row, subject) }) {
			t.Errorf("docs/security.md has a row for %s, on which nothing listens", row)
		}
	}
}

// The table of operations that each role may request is that of the code.
func TestOperationsOfRoles(t *testing.T) {
	page := read(t, "docs/security.md")
	for _, role := range auth.Roles() {
		var names []string
		for _, i := range operation.Table() {
			if i.Permits(role) {
				names = append(names, "`"+i.Name+"`")
			}
		}
		if row := "\n| " + string(role) + " | " + strings.Join(names, ", ") + " |\n"; !strings.Contains(page, row) {
			t.Errorf("docs/security.md has no row%s", row)
		}
	}
}

// overlap reports whether some subject matches both patterns.
func overlap(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		switch {
		case as[i] == ">" || bs[i] == ">":
			return true
		case as[i] != "*" && bs[i] != "*" && as[i] != bs[i]:
			return false
		}
	}
	return len(as) == len(bs)
}
