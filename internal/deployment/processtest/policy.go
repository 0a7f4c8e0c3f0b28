package processtest

import (
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// AllowAll puts in force a policy that allows every call of the tools. A dispatcher must run.
func (d *Deployment) AllowAll() {
	d.T.Helper()
	dir := d.T.TempDir()
	Output(d.T, d.Toolbus(), "policy", "init", dir, "--tools", d.Tools)
	operator, _ := d.Credential(auth.Principal{Actor: "operator://policy", Role: auth.Operator})
	Output(d.T, d.Toolbus(), append([]string{"policy", "push", dir, "--credentials", operator}, d.Access()...)...)
}
