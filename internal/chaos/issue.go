package chaos

import (
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/internal/chaos/swift"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/tool"
)

// operator is who rotates keys and revokes credentials, and door who speaks for others.
const (
	operator = "operator"
	door     = "door"
)

// issueAll writes the tokens of all that connect.
func issueAll(d *deployment.Deployment, condemned int) error {
	boss := identity.Principal{Actor: operator, Role: identity.Operator}
	if err := d.Issue(operator, tenant, boss, identity.Life); err != nil {
		return err
	}
	for _, name := range append([]string{door}, doors...) {
		front := identity.Principal{Actor: "agent://" + name, Role: identity.Door}
		if err := d.Issue(name, tenant, front, deployment.TokenLife); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(executors, swifts) {
		p := identity.Principal{Actor: "executor://" + name, Role: identity.Executor, Pool: tool.DefaultPool}
		if slices.Contains(swifts, name) {
			p.Pool = swift.Pool
		}
		if err := d.Issue(name, tenant, p, deployment.TokenLife); err != nil {
			return err
		}
	}
	for i := range callers + 2*condemned {
		if behindDoor(i) {
			continue
		}
		p := identity.Principal{Actor: actorOf(i), Role: identity.Agent, Scopes: []string{identity.ScopeAll}}
		if err := d.Issue(callerName(i), tenant, p, deployment.TokenLife); err != nil {
			return err
		}
	}
	return nil
}

// shape is what one of the servers of a deployment is.
func (l listener) shape(dir string, all []listener, always bool) accounts.Shape {
	s := accounts.Shape{Server: l.name, Listen: l.addr(), Store: l.store(dir), SyncAlways: always}
	if l.routes != 0 {
		s.Cluster = &accounts.Cluster{Listen: fmt.Sprintf("127.0.0.1:%d", l.routes)}
		for _, other := range all {
			s.Cluster.Routes = append(s.Cluster.Routes, other.route())
		}
	}
	return s
}
