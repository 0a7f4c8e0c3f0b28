package chaos

import (
	"context"
	"errors"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// pushPolicy puts in force a policy that allows every call of all tools, unless the bus has it from an earlier run.
func (c *cluster) pushPolicy(ctx context.Context) (err error) {
	tools, err := tool.Load(c.tools(), app.Transports()...)
	if err != nil {
		return err
	}
	if c.policy, err = policy.Generate(tools.List()); err != nil {
		return err
	}
	boss, err := c.connectOperator(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, boss.Close()) }()
	return pushed(ctx, boss, c.policy)
}

func (c *cluster) connectOperator(ctx context.Context) (*admin.Client, error) {
	return admin.Connect(ctx, c.urls(), admin.Options{CredentialsFile: c.deployment.Credentials(operator)})
}
