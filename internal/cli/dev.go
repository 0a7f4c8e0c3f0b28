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
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DevBus is a bus of `toolbus dev` on this machine, for the commands of the user that has started it.
type DevBus struct {
	Server string `json:"server"`
	State  string `json:"state"` // folder, with the credentials that let its user in
}

// Announce tells the user's commands of the bus, until withdraw. They are let in when the credentials are good, too. A
// process that is killed leaves the word behind, which is worth as much as these.
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
	return func() { _ = os.Remove(file) }, nil // one that stays says what is not true any more, and is not believed
}

// announced is the file that tells of a bus.
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

// Announced reports whether a bus of `toolbus dev` listens there, or is about to.
func (e Env) Announced(server string) bool {
	file, ok := e.announced(server)
	if ok {
		_, err := os.Stat(file)
		ok = err == nil
	}
	return ok
}

// devBus returns the bus of `toolbus dev` that listens there.
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

// operatorOf is the user of a bus of `toolbus dev`, as its operator.
func operatorOf() auth.Principal {
	return auth.Principal{Tenant: toolbus.DefaultTenant, Actor: toolbus.DefaultActor, Role: auth.Operator}
}

// devCredentials is the folder of credentials in the state of `toolbus dev`.
func devCredentials(state string) string { return filepath.Join(state, "credentials") }

// DevCredential is the file with the token of somebody in the state of `toolbus dev`. Those of its user have short
// names.
func DevCredential(state string, p auth.Principal) string {
	name := string(p.Role)
	if p.Tenant != toolbus.DefaultTenant || p.Actor != toolbus.DefaultActor {
		name += "." + subjects.Token(p.Tenant) + "." + subjects.Token(p.Actor)
	}
	return filepath.Join(devCredentials(state), name)
}

// WriteCredential makes token what a file holds, all at once.
func WriteCredential(file, token string) error {
	if err := replace(file, []byte(token+"\n")); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	return nil
}

// replace writes a file all at once that its owner alone may read.
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

// margin is how long a token must still be good, or renewable, to be used for a command.
const margin = time.Minute

// goodToken returns what a file holds, if it is good, or may be renewed, for a while.
func goodToken(file string) (p auth.Principal, ok bool) {
	token, err := bus.Files{Token: file}.ReadToken()
	if err == nil {
		p, err = auth.Inspect(token)
	}
	return p, err == nil && max(time.Until(p.Expires), time.Until(p.RenewUntil)) > margin
}

// As returns how to reach the bus as somebody. On a bus of `toolbus dev` its user may be everybody: a token that there
// is not yet is asked for, as the operator, of whom there is one. Elsewhere the credentials say who one is.
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

// Acting is As, but that an operator may be an agent, with a token that it asks for, which is on record and not
// renewed. done takes it away.
func (a Access) Acting(ctx context.Context, p auth.Principal) (to Access, done func(), err error) {
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
	done = func() { _ = os.RemoveAll(dir) } // what stays ends with its token
	to = a
	to.Credentials = filepath.Join(dir, "agent")
	if err = a.issue(ctx, p, 0, to.Credentials); err != nil {
		done()
	}
	return to, done, err
}

// renewable is for how long a token may be renewed that was asked for.
const renewable = 24 * time.Hour

// issue asks for a token, as an operator whose credentials a has, and writes it to a file.
func (a Access) issue(ctx context.Context, p auth.Principal, renew time.Duration, file string) error {
	token, err := a.issued(ctx, p, renew)
	if err != nil {
		return fmt.Errorf("token of %s in tenant %s: %w", p.Actor, p.Tenant, err)
	}
	return WriteCredential(file, token)
}

func (a Access) issued(ctx context.Context, p auth.Principal, renew time.Duration) (token string, err error) {
	o := toolbus.Options{}
	if err := a.Into(&o); err != nil {
		return "", err
	}
	operator, err := admin.Connect(ctx, a.Server, admin.Options{
		Name: "toolbus-cli", CredentialsFile: o.CredentialsFile, NATS: o.NATS,
	})
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, operator.Close()) }()
	answer, err := operator.IssueToken(ctx, admin.IssueRequest{
		Tenant: p.Tenant, Actor: p.Actor, Role: string(p.Role), Pool: p.Pool, Scopes: p.Scopes,
		RenewS: int64(renew / time.Second),
	})
	return answer.Token, err
}
