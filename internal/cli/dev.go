package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DevBus is a bus of `toolbus dev` on this machine. The commands of its user find it with an announcement file.
type DevBus struct {
	Server string `json:"server"`
	State  string `json:"state"` // state folder with the credentials of its user
	Tools  string `json:"tools"` // folder of its tools
}

// Announce writes a file by which the user's commands find the bus, and returns a function that removes it. Commands
// follow the file only while the credentials of the bus are valid or renewable. A killed process leaves the file.
func (e Env) Announce(b DevBus) (withdraw func(), err error) {
	file, ok := e.announced(b.Server)
	if !ok {
		return nil, fmt.Errorf("%s is no address on this machine", b.Server)
	}
	data, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	if err := replace(file, append(data, '\n')); err != nil {
		return nil, fmt.Errorf("word of the bus: %w", err)
	}
	return func() { _ = os.Remove(file) }, nil // if this fails, the file remains as after a kill
}

// announced returns the name of the announcement file of a bus. ok is false if the server is not a NATS URL on
// loopback.
func (e Env) announced(server string) (file string, ok bool) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "nats" || u.User != nil || u.Port() == "" || strings.Contains(server, ",") {
		return "", false
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", false
	}
	return filepath.Join(e.Config, "toolbus", "dev", u.Port()+".json"), true
}

// Announced reports whether a bus of `toolbus dev` is announced at server. It may not listen yet.
func (e Env) Announced(server string) bool {
	file, ok := e.announced(server)
	if ok {
		_, err := os.Stat(file)
		ok = err == nil
	}
	return ok
}

// devBus returns the bus of `toolbus dev` that is announced at server, if its operator token is valid.
func (e Env) devBus(server string) (b DevBus, ok bool) {
	file, ok := e.announced(server)
	if !ok {
		return b, false
	}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &b) != nil {
		return b, false
	}
	_, good := goodToken(DevCredential(b.State, operatorOf()))
	return b, good
}

// operatorOf returns the operator of a bus of `toolbus dev`.
func operatorOf() auth.Principal {
	return auth.Principal{Tenant: toolbus.DefaultTenant, Actor: toolbus.DefaultActor, Role: auth.Operator}
}

// devCredentials returns the folder of credentials in the state folder of `toolbus dev`.
func devCredentials(state string) string { return filepath.Join(state, "credentials") }

// DevCredential returns the name of the file with the token of p in the state folder of `toolbus dev`. The name is
// short if p has the default tenant and actor.
func DevCredential(state string, p auth.Principal) string {
	name := string(p.Role)
	if p.Tenant != toolbus.DefaultTenant || p.Actor != toolbus.DefaultActor {
		name += "." + subjects.Token(p.Tenant) + "." + subjects.Token(p.Actor)
	}
	return filepath.Join(devCredentials(state), name)
}

// WriteCredential writes a token to a file atomically.
func WriteCredential(file, token string) error {
	if err := replace(file, []byte(token+"\n")); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	return nil
}

// replace writes a file atomically. Only its owner may read it.
func replace(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// margin is the time for which a token must still be valid, or renewable, for a command to use it.
const margin = time.Minute

// goodToken returns the claims of the token in a file. ok is false if it is neither valid nor renewable for margin.
func goodToken(file string) (p auth.Principal, ok bool) {
	token, err := bus.Files{Token: file}.ReadToken()
	if err == nil {
		p, err = auth.Inspect(token)
	}
	return p, err == nil && max(time.Until(p.Expires), time.Until(p.RenewUntil)) > margin
}

// As returns the Access with which p reaches the bus. On the user's own `toolbus dev` it uses the token of p, and has
// the operator issue that token if necessary. On any other bus it returns a unchanged.
func (a Access) As(ctx context.Context, p auth.Principal) (Access, error) {
	if a.dev == "" {
		return a, nil
	}
	if p.Role == auth.Operator {
		p = operatorOf()
	}
	operator := a
	operator.Credentials, a.Credentials = DevCredential(a.dev, operatorOf()), DevCredential(a.dev, p)
	if _, good := goodToken(a.Credentials); good {
		return a, nil
	}
	return a, operator.issue(ctx, p, renewable, a.Credentials)
}

// Acting is As, except that an operator can act as an agent: it issues a temporary token for p, which the audit record
// shows and which cannot be renewed, and calls told with the name of the operator. done removes the file with that
// token.
func (a Access) Acting(ctx context.Context, p auth.Principal, told func(operator string)) (
	to Access, done func(), err error) {
	done = func() {}
	says, good := goodToken(a.Credentials)
	acts := good && says.Role == auth.Operator && p.Role == auth.Agent && says.Actor != p.Actor
	if a.dev != "" || !acts {
		to, err = a.As(ctx, p)
		return to, done, err
	}
	dir, err := os.MkdirTemp("", "toolbus-")
	if err != nil {
		return a, done, err
	}
	done = func() { _ = os.RemoveAll(dir) } // if removing fails, the token expires
	to = a
	to.Credentials = filepath.Join(dir, "agent")
	if err = a.issue(ctx, p, 0, to.Credentials); err != nil {
		done()
		return to, done, err
	}
	told(says.Actor)
	return to, done, nil
}

// renewable is the time during which an issued token can be renewed.
const renewable = 24 * time.Hour

// issue has a dispatcher issue a token for p, with the operator credentials of a, and writes it to a file.
func (a Access) issue(ctx context.Context, p auth.Principal, renew time.Duration, file string) error {
	token, err := a.issued(ctx, p, renew)
	if err != nil {
		return fmt.Errorf("token of %s in tenant %s: %w", p.Actor, p.Tenant, err)
	}
	return WriteCredential(file, token)
}

// issued asks over the connection itself and not by package admin, which links the NATS server: this runs in production
// executors, too.
func (a Access) issued(ctx context.Context, p auth.Principal, renew time.Duration) (token string, err error) {
	o := toolbus.Options{Name: "toolbus-cli"}
	if err := a.Into(&o); err != nil {
		return "", err
	}
	conn, err := toolbus.Connect(ctx, a.Server, o)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	operator, err := operatorInbox(conn)
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, operator.Close()) }()
	answer, refusal, err := operation.TokenIssue.Ask(ctx, operator, envelope.IssueRequest{
		Tenant: p.Tenant, Actor: p.Actor, Role: string(p.Role), Pool: p.Pool, Scopes: p.Scopes,
		RenewS: int64(renew / time.Second),
	})
	if err == nil && refusal != nil {
		err = toolbus.NewError(refusal, nil)
	}
	return answer.Token, err
}

// operatorInbox returns an inbox for requests with the token of the connection.
func operatorInbox(conn *toolbus.Conn) (*rpc.Inbox, error) {
	c, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		return nil, err
	}
	o := c.Options()
	if err := c.Close(); err != nil {
		return nil, err
	}
	return rpc.OpenInbox(conn.NATS(), o.Tenant, o.Actor, o.Token)
}
