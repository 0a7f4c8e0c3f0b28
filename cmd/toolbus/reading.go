package main

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// auditing is reading for a command that fails with a token of another role. It refuses that before it asks the bus.
func (c *connection) auditing(ctx context.Context, command string, do func(reader.Source) error) error {
	a, err := c.access()
	if err != nil {
		return err
	}
	if a, err = a.As(ctx, c.self(auth.Operator)); err != nil {
		return err
	}
	if a.Credentials != "" {
		held, err := heldBy(a.Credentials)
		if err != nil {
			return err
		}
		if role := held.Principal().Role; !operation.Stored.Permits(role) {
			return c.otherRole(role, command)
		}
	}
	return c.reading(ctx, do)
}

// otherRole returns the error for a token of a role that may not read the record. It names where the token came from.
func (c *connection) otherRole(r auth.Role, command string) error {
	from, fix := "the context", "--credentials FILE names one"
	switch {
	case c.given("credentials"):
		from, fix = "--credentials", "name another FILE"
	case c.env.credentials != "":
		from, fix = "TOOLBUS_CREDENTIALS", "unset it, or --credentials FILE"
	}
	return usagef("%s has a token of the role %s; %s needs an auditor's or operator's: %s", from, r, command, fix)
}

// reading connects as operator, and calls do with the source of the audit record and the dead letters.
func (c *connection) reading(ctx context.Context, do func(reader.Source) error) error {
	conn, client, err := c.seat(ctx, auth.Operator)
	if err != nil {
		return err
	}
	defer closeBoth(conn, client)
	js, err := jetstream.New(conn.NATS())
	if err != nil {
		return err
	}
	o := client.Options()
	from, done, err := reader.OpenAs(ctx, js, o.Tenant, o.Actor, o.Token)
	if err != nil {
		return err
	}
	defer done()
	return do(from)
}
