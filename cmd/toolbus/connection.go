package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// connection is how commands reach the bus: the flags of all commands that say where it is and who calls.
type connection struct {
	env    *environment
	reach  cli.Reach
	tenant string
	actor  string
	dial   time.Duration // time for the connection to a server; 0: default
	stable bool          // calls without a key get a stable one
	// given reports whether one of these flags is on the command line.
	given func(flag string) bool
}

// check refuses an empty identity or server. An unset variable in a shell leaves a flag empty, and the user does not
// mean the default then.
func (c *connection) check() error {
	switch {
	case c.given("tenant") && c.tenant == "":
		return usagef("--tenant is empty: name one, or leave the flag out for %s", toolbus.DefaultTenant)
	case c.given("actor") && c.actor == "":
		return usagef("--actor is empty: name one, or leave the flag out for %s", toolbus.DefaultActor)
	}
	return c.reach.Check(c.given)
}

// isServer refuses the flags for reaching a server, for a command that runs its own server.
func (c *connection) isServer(cmd *cobra.Command) error {
	for _, flag := range []string{"server", "context", "credentials", "tls-ca", "tls-cert", "tls-key"} {
		if c.given(flag) {
			return usagef("%s runs a server of its own: leave --%s out", cmd.Name(), flag)
		}
	}
	return nil
}

// about returns the reference of a call with the flags of this command line that a later command about the call needs:
// other callers cannot see it. It returns "" if there is no reference.
func (c *connection) about(ref string) string {
	if ref == "" {
		return ""
	}
	given := c.reach.Given
	for _, f := range [][2]string{
		{"server", given.Server}, {"context", c.reach.Named}, {"credentials", given.Credentials}, {"tls-ca", given.CA},
		{"tls-cert", given.Cert}, {"tls-key", given.Key}, {"tenant", c.tenant}, {"actor", c.actor},
	} {
		if c.given(f[0]) {
			ref += " --" + f[0] + " " + quoted(f[1])
		}
	}
	return cli.EscapeCell(ref)
}

// sees reports whether to show data of a tenant: of every tenant, unless --tenant names one.
func (c *connection) sees(tenant string) bool { return !c.given("tenant") || tenant == c.tenant }

// ofTenant returns the tenant of the command line, or "" for that of the token.
func (c *connection) ofTenant() string {
	if c.given("tenant") {
		return c.tenant
	}
	return ""
}

// access returns the Access of the command line. Unless flags name a tenant and an actor, it sets them to those of the
// credentials. Without credentials, it sets the tenant to that of the context.
func (c *connection) access() (cli.Access, error) {
	a, err := c.reach.Find()
	if err == nil {
		err = a.CheckCredentials()
	}
	if err != nil {
		return a, err
	}
	who := toolbus.Options{Tenant: a.Tenant}
	if a.Credentials != "" {
		held, err := heldBy(a.Credentials)
		if err != nil {
			return a, err
		}
		who.Tenant, who.Actor = held.Principal().Tenant, held.Principal().Actor
	}
	if who.Tenant != "" && !c.given("tenant") {
		c.tenant = who.Tenant
	}
	if who.Actor != "" && !c.given("actor") {
		c.actor = who.Actor
	}
	return a, nil
}

// self returns the caller that the flags name, in a role.
func (c *connection) self(r auth.Role) auth.Principal {
	p := auth.Principal{Tenant: c.tenant, Actor: c.actor, Role: r}
	if r == auth.Agent {
		p.Scopes = []string{auth.ScopeAll}
	}
	return p
}

// seat connects to the bus in a role, as the caller that the flags name.
func (c *connection) seat(ctx context.Context, r auth.Role) (*toolbus.Conn, *toolbus.Client, error) {
	a, err := c.access()
	if err != nil {
		return nil, nil, err
	}
	as := c.self(r)
	a, done, err := a.Acting(ctx, as, func(operator string) {
		fmt.Fprintf(c.env.stderr, "note: %s acts as %s, with a credential issued for it, which is on record\n",
			cli.EscapeCell(operator), cli.EscapeCell(as.Actor))
	})
	if err != nil {
		return nil, nil, err
	}
	defer done()
	o := toolbus.ClientOptions{Tenant: as.Tenant, Actor: as.Actor, StableKeys: c.stable}
	if err := a.Vouch(&o, as.Role); err != nil {
		return nil, nil, err
	}
	return c.open(ctx, a, o)
}

// open connects to a bus with the credentials of a, and returns the connection with a client.
func (c *connection) open(ctx context.Context, a cli.Access, o toolbus.ClientOptions) (
	*toolbus.Conn, *toolbus.Client, error) {
	conn, err := c.establish(ctx, a, o)
	if err != nil {
		return nil, nil, err
	}
	client, err := conn.Client(o)
	if err != nil {
		conn.Close()
	}
	return conn, client, err
}

// establish connects to a bus with the credentials of a. Tenant and Actor of the caller may be "".
func (c *connection) establish(ctx context.Context, a cli.Access, caller toolbus.ClientOptions) (*toolbus.Conn, error) {
	o := toolbus.Options{Name: connectionName, Timeout: c.dial, Tenant: caller.Tenant, Actor: caller.Actor}
	if err := a.Into(&o); err != nil {
		return nil, err
	}
	return toolbus.Connect(ctx, a.Server, o)
}

// connectionName is the name that the server shows for connections of commands.
const connectionName = "toolbus-cli"

// client connects to the bus as an agent. done ends the connection.
func (c *connection) client(ctx context.Context) (client *toolbus.Client, done func(), err error) {
	return c.clientAs(ctx, auth.Agent)
}

// clientAs is client for another role.
func (c *connection) clientAs(ctx context.Context, r auth.Role) (client *toolbus.Client, done func(), err error) {
	conn, client, err := c.seat(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { closeBoth(conn, client) }, nil
}

// asker connects for a question about a call: as the caller that flags name, and otherwise as the holder of the
// credentials. On a bus of `toolbus dev` that is the operator, who may ask about all calls of the tenant.
func (c *connection) asker(ctx context.Context) (client *toolbus.Client, done func(), err error) {
	if c.given("tenant") || c.given("actor") {
		return c.client(ctx)
	}
	return c.clientAs(ctx, auth.Operator)
}

func closeBoth(conn *toolbus.Conn, c *toolbus.Client) {
	_ = c.Close() // conn.Close follows
	conn.Close()
}

// narrower connects with the credentials of the command line, whatever actor its flags name. On a bus of `toolbus dev`
// it is the agent. done ends the connection.
func (c *connection) narrower(ctx context.Context) (client *toolbus.Client, done func(), err error) {
	a, err := c.access()
	if err != nil {
		return nil, nil, err
	}
	if a, err = a.As(ctx, c.self(auth.Agent)); err != nil {
		return nil, nil, err
	}
	conn, client, err := c.open(ctx, a, toolbus.ClientOptions{})
	if err != nil {
		return nil, nil, err
	}
	return client, func() { closeBoth(conn, client) }, nil
}

// operating calls do with a client that has the credentials of the command line; its flags for the actor do not matter.
// On a bus of `toolbus dev`, the client is an operator.
func (c *connection) operating(ctx context.Context, do func(*admin.Client) error) error {
	return c.operatingAs(ctx, !byFlags, do)
}

// byFlags means that without credentials the flags name the operator.
const byFlags = true

// operatingAs is operating with the operator of the flags, if byFlags is set.
func (c *connection) operatingAs(ctx context.Context, byFlags bool, do func(*admin.Client) error) error {
	a, err := c.access()
	if err != nil {
		return err
	}
	if a, err = a.As(ctx, c.self(auth.Operator)); err != nil {
		return err
	}
	var o toolbus.Options
	if err := a.Into(&o); err != nil {
		return err
	}
	to := admin.Options{Name: connectionName, Timeout: c.dial, CredentialsFile: o.CredentialsFile, NATS: o.NATS}
	if byFlags && a.Credentials == "" {
		to.Tenant, to.Actor = c.tenant, c.actor
	}
	own, err := admin.Connect(ctx, a.Server, to)
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }() // nothing is in flight
	return do(own)
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
	err = do(from)
	if no, ok := errors.AsType[envelope.Fault](err); ok && no.Fault().Code.Class() == envelope.ClassAuth {
		return toolbus.NewError(no.Fault(), nil) // which is printed with its fix
	}
	return err
}

// holder returns the Access with the credentials of the command line, or of the file in args. On a bus of `toolbus dev`
// the user is an agent.
func (c *connection) holder(ctx context.Context, args []string) (cli.Access, error) {
	if len(args) > 0 {
		if c.given("credentials") {
			return cli.Access{}, usagef("name one file: as an argument or by --credentials")
		}
		c.reach.Given.Credentials = args[0]
	}
	a, err := c.access()
	if err != nil {
		return a, err
	}
	return a.As(ctx, c.self(auth.Agent))
}

// dialPause is the time between two attempts to connect.
const dialPause = 200 * time.Millisecond

// dialGrace is how long after its time await ends a connection that has no answer yet. Before that, the connection to a
// single server ends by itself, with an error that says more.
const dialGrace = 50 * time.Millisecond

// await connects to the bus as an agent. If no server is reachable, it tries again until the time until. It returns at
// the latest dialGrace after that time, also if a server waits for dispatchers that do not answer.
func (c *connection) await(ctx context.Context, until time.Time) (client *toolbus.Client, done func(), err error) {
	dialing, cancel := context.WithDeadline(ctx, until.Add(dialGrace))
	defer cancel()
	a, err := c.access()
	if err != nil {
		return nil, nil, err
	}
	for told := false; ; told = true {
		left := time.Until(until)
		if told {
			left = max(left, time.Millisecond) // 0 would mean the default
		}
		c.dial = dialTime(left, a.Server)
		client, done, err = c.client(dialing)
		comes := bus.IsUnreachable(err) || errors.Is(err, bus.ErrUnanswered) && c.reach.Env.Announced(a.Server)
		if !comes || time.Until(until) <= dialPause {
			return client, done, err
		}
		if !told {
			fmt.Fprintf(c.env.stderr, "waiting for the server at %s\n", bus.Redacted(a.Server))
		}
		if !timer.Sleep(ctx, dialPause) {
			return nil, nil, ctx.Err()
		}
	}
}

// dialTime returns the time for the connection to each of the servers, for a call with this timeout. A timeout below 1
// ms is refused later; for it, dialTime returns the default.
func dialTime(timeout time.Duration, servers string) time.Duration {
	if timeout < time.Millisecond {
		return bus.DialTime
	}
	return min(bus.DialTime, timeout/time.Duration(1+strings.Count(servers, ",")))
}

// completeTools completes tool ids, and then functions if the command takes most arguments.
func (c *connection) completeTools(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.toolNames(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
}

// toolNames returns the names that may follow args; none if the bus does not answer within 1 s.
func (c *connection) toolNames(ctx context.Context, args []string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	client, done, err := c.client(ctx)
	if err != nil {
		return nil
	}
	defer done()
	tools, _ := client.Tools(ctx)
	for _, t := range tools {
		if len(args) == 0 {
			names = append(names, t.ToolID+"\t"+t.Title)
			continue
		}
		if len(args) == 1 && t.ToolID == args[0] {
			for fn, info := range t.Functions {
				names = append(names, envelope.NameToCall(fn)+"\t"+info.Description)
			}
		}
	}
	return names
}
