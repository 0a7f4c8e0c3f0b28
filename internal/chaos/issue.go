package chaos

import (
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/chaos/executor"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Names of credentials: operator rotates keys and revokes credentials, door calls for other actors.
const (
	operator = "operator"
	door     = "door"
)

// issueAll writes the tokens of all processes and callers.
func issueAll(d *deploymenttest.Deployment, condemned int) error {
	boss := auth.Principal{Actor: operator, Role: auth.Operator}
	if err := d.Issue(operator, tenant, boss, auth.Life); err != nil {
		return err
	}
	for _, name := range append([]string{door}, gatewayNames...) {
		front := auth.Principal{Actor: "agent://" + name, Role: auth.Gateway}
		if err := d.Issue(name, tenant, front, deploymenttest.TokenLife); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(executors, swifts) {
		p := auth.Principal{Actor: "executor://" + name, Role: auth.Executor, Pool: tool.DefaultPool}
		if slices.Contains(swifts, name) {
			p.Pool = executor.Pool
		}
		if err := d.Issue(name, tenant, p, deploymenttest.TokenLife); err != nil {
			return err
		}
	}
	for i := range callers + 2*condemned {
		if behindDoor(i) {
			continue
		}
		p := auth.Principal{Actor: actorOf(i), Role: auth.Agent, Scopes: []string{auth.ScopeAll}}
		if err := d.Issue(callerName(i), tenant, p, deploymenttest.TokenLife); err != nil {
			return err
		}
	}
	return nil
}

// shape returns the configuration of a server.
func (l listener) shape(dir string, all []listener, always bool) deployment.Shape {
	s := deployment.Shape{Server: l.name, Listen: l.addr(), Store: l.store(dir), SyncAlways: always}
	if l.routes != 0 {
		s.Cluster = &deployment.Cluster{Listen: fmt.Sprintf("127.0.0.1:%d", l.routes)}
		for _, other := range all {
			s.Cluster.Routes = append(s.Cluster.Routes, other.route())
		}
	}
	return s
}
