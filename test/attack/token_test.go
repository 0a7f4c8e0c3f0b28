package attack

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// bad are tokens that say bob, by what is wrong with them.
type bad struct{ name, token string }

// worthless are tokens that nobody believes; revoked ones come last.
func (d *devDeployment) worthless() (all []bad) {
	d.Helper()
	p, now := parties()[bob], time.Now()
	p.Actor = bob
	good, _ := d.token(p)
	part := strings.Split(good, ".")
	stranger, err := deployment.NewKeys("target")
	d.ok(err)
	other, err := stranger.Signer()
	d.ok(err)
	key, err := d.keys.Signing()
	d.ok(err)
	elsewhere, err := auth.NewSigner("elsewhere", deployment.KeyID(d.keyOf()), key)
	d.ok(err)
	strange, err := stranger.Signing()
	d.ok(err)
	posing, err := auth.NewSigner("target", deployment.KeyID(d.keyOf()), strange)
	d.ok(err)
	p.ID, p.Family, p.Issued, p.Expires = auth.NewID(), auth.NewID(), now, now.Add(time.Hour)
	mint := func(s *auth.Signer, p auth.Principal) string {
		token, err := s.Mint(p)
		d.ok(err)
		return token
	}
	expired, early := p, p
	expired.Issued, expired.Expires = now.Add(-2*time.Hour), now.Add(-time.Hour)
	early.Issued, early.Expires = now.Add(time.Hour), now.Add(2*time.Hour)
	coded := base64.RawURLEncoding.EncodeToString
	more, err := base64.RawURLEncoding.DecodeString(part[1])
	d.ok(err)
	return []bad{
		{"no token", ""}, {"garbage", "garbage"}, {"three parts of nothing", ".."},
		{"without a signature", part[0] + "." + part[1] + "."},
		{"with no algorithm", coded([]byte(`{"alg":"none","kid":"`+deployment.KeyID(d.keyOf())+`"}`)) + "." + part[1] + "."},
		{"with another role", part[0] + "." + coded([]byte(strings.ReplaceAll(string(more), "agent\"", "operator\""))) + "." +
			part[2]},
		{"with another signature", part[0] + "." + part[1] + "." + strings.Repeat("A", len(part[2]))},
		{"of another key", mint(other, p)}, {"of another key that poses as this one", mint(posing, p)},
		{"of another deployment", mint(elsewhere, p)},
		{"of the future", mint(d.signer, early)}, {"expired", mint(d.signer, expired)},
		{"revoked", d.revoked(p)}, {"narrowed from one that was revoked", d.orphan(p)}, {"of a barred actor", d.barred(p)},
	}
}

func (d *devDeployment) revoked(p auth.Principal) string {
	d.Helper()
	p.Family = ""
	token, p := d.token(p)
	d.ok(d.store.Revoke(d.Context(), p.Family, "test"))
	return token
}

func (d *devDeployment) orphan(p auth.Principal) string {
	d.Helper()
	p.Family = ""
	_, p = d.token(p)
	child, err := p.Narrow(auth.Narrowing{Scopes: p.Scopes}, time.Now())
	d.ok(err)
	token, _ := d.token(child)
	d.ok(d.store.Revoke(d.Context(), p.Family, "test"))
	return token
}

func (d *devDeployment) barred(p auth.Principal) string {
	d.Helper()
	p.Actor, p.Family = bob+"/barred", ""
	token, _ := d.token(p)
	_, err := d.store.Bar(d.Context(), p.Tenant, p.Actor, "test")
	d.ok(err)
	return token
}

// With a token that is not to be believed nobody is let in.
func TestConnecting(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	strangers := 0
	refused := func(what string, nc *nats.Conn, err error) {
		t.Helper()
		strangers++
		if err == nil {
			t.Error("let in: ", what)
			nc.Close()
		}
	}
	for _, b := range d.worthless() {
		deadline := time.Now().Add(time.Second) // in which a revocation is known
		for {
			nc, err := d.dial(b.token, "x")
			if err == nil && time.Now().Before(deadline) && (strings.Contains(b.name, "revoked") || strings.Contains(b.name,
				"barred")) {
				nc.Close()
				continue
			}
			refused(b.name, nc, err)
			break
		}
	}
	in, out := d.crowd[insider], d.crowd[outsider]
	for what, name := range map[string]string{
		"an executor without an instance": "x", "as the victim's": auth.ConnectionName(d.real),
		"as one of another token": auth.ConnectionName(out.instance), "as an instance of many tokens": "executor *",
		"as no name":             auth.ConnectionName(auth.InstancePrefix(in.Principal)),
		"as a token of subjects": auth.ConnectionName(auth.InstancePrefix(in.Principal) + "x.>"),
	} {
		nc, err := d.dial(in.token, name)
		refused(what, nc, err)
	}
	public, err := d.keys.Public()
	d.ok(err)
	stranger, err := deployment.NewKeys("x")
	d.ok(err)
	for what, o := range map[string]nats.Option{
		"with a key of the file that is another's": nats.Nkey(public.Dispatcher, stranger.Dispatcher.Sign),
		"by the name of a dispatcher":              nats.UserInfo(public.Dispatcher, ""),
		"by the name of a user":                    nats.UserInfo(d.crowd[alice].User(), ""),
		"by name and another's password":           nats.UserInfo("system", "system"),
	} {
		nc, err := d.dial("", "x", o)
		refused(what, nc, err)
	}
	if n := d.log.count("authentication error"); n < strangers {
		t.Errorf("the server's log says of %d strangers, and there were %d", n, strangers)
	}
	d.finish()
}

// Whoever is let in although the token has expired may exchange it, and nothing else.
func TestExpired(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, as := range everybody() {
		p := parties()[as]
		p.Actor, p.Issued, p.Expires = as, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		p.RenewUntil = time.Now().Add(time.Hour)
		token, p := d.token(p)
		nc, err := d.dial(token, as)
		d.ok(err)
		t.Cleanup(nc.Close)
		old := &party{Principal: p, token: token, nc: nc}
		subject := []string{
			subjects.Call(p.Tenant, as, "echo"), subjects.Service(subjects.OpResult, p.Tenant, as),
			subjects.Service(subjects.OpTokenNarrow, p.Tenant, as), subjects.Service(subjects.OpTokenRenew, "acme", alice),
			subjects.Owner{Tenant: p.Tenant, Actor: as}.On("default").Payload("aa", 0), subjects.PoolSubject("default", "x"),
			"$JS.API.CONSUMER.MSG.NEXT.KV_calls.exec_default_normal", "$JS.API.DIRECT.GET.AUDIT",
		}
		for _, s := range subject {
			d.ok(nc.Publish(s, []byte("{}")))
			d.judge("with an expired token, as "+as, old, "Publish", s, byServer)
		}
	}
	d.finish()
}

// A connection with a good token carries no call with one of anybody else, and no question with any other one.
func TestTokensOfMessages(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.bystander()
	codes := map[string]envelope.Code{
		"expired": envelope.CodeExpired, "revoked": envelope.CodeRevoked,
		"narrowed from one that was revoked": envelope.CodeRevoked, "of a barred actor": envelope.CodeRevoked,
	}
	var table []asked
	add := func(a asked) {
		table = append(table, a)
		a.op = subjects.OpResult
		a.q = map[string]string{"ref": d.victim.Ref, "call_id": d.victim.CallID}
		table = append(table, a)
	}
	for _, b := range d.worthless() {
		want := codes[b.name]
		if want == "" {
			want = envelope.CodeToken
		}
		add(asked{name: b.name, as: bob, token: b.token, want: want})
		add(asked{name: b.name + ", through a door", as: door, of: bob, token: b.token, want: want})
	}
	p := d.crowd[bob].Principal
	child, err := p.Narrow(auth.Narrowing{Scopes: p.Scopes}, time.Now())
	d.ok(err)
	narrowed, _ := d.token(child)
	p.Family = ""
	another, p := d.token(p)
	info := `{"acc":"AGENTS","user":"` + p.User() + `"}`
	for _, a := range []asked{
		{name: "the victim's token", as: bob, token: d.crowd[alice].token},
		{name: "a token of another tenant", as: bob, token: d.crowd[mallory].token},
		{name: "the token of a door", as: bob, token: d.crowd[door].token},
		{name: "the token of an operator", as: bob, token: d.crowd[operator].token},
		{name: "the token of an executor", as: bob, token: d.crowd[insider].token},
		{name: "a token of another tenant", as: door, of: mallory, token: d.crowd[mallory].token},
		{name: "a token of another actor", as: door, of: bob, token: d.crowd[alice].token},
		{name: "its own token for an actor", as: door, of: bob, token: d.crowd[door].token},
	} {
		a.want = envelope.CodeIdentity
		add(a)
	}
	for _, a := range []asked{
		{name: "a token for part of it, over this connection", as: bob, token: narrowed},
		{name: "another token of the actor, over this connection", as: bob, token: another},
		{name: "the server's word, forged", as: bob, token: another, header: map[string]string{"Nats-Request-Info": info}},
		{name: "the server's word, in small letters", as: bob, token: another,
			header: map[string]string{"nats-request-info": info}},
		{name: "the server's word, twice", as: bob, token: another,
			header: map[string]string{"Nats-Request-Info": info + "|" + info}},
	} {
		add(a) // the actor is the same, so this is a call of its
		table[len(table)-1].want = envelope.CodeIdentity
	}
	add(asked{name: "two tokens", as: bob, want: envelope.CodeToken,
		header: map[string]string{subjects.HeaderToken: d.crowd[bob].token + "|" + d.crowd[alice].token}})
	add(asked{name: "its own call", as: door, token: d.crowd[door].token, want: envelope.CodeForbidden})
	own := d.crowd[bob].token
	table = append(table,
		asked{name: "another actor in the body", as: bob, token: own, context: map[string]any{"actor_id": alice},
			want: envelope.CodeIdentity},
		asked{name: "a scope that it has not", as: bob, token: own, context: map[string]any{"scopes": []string{"admin"}},
			want: envelope.CodeScope},
		asked{name: "all scopes", as: bob, token: own, context: map[string]any{"scopes": []string{"*"}},
			want: envelope.CodeScope},
		asked{name: "all is well", as: bob, token: own},
		asked{name: "all is well, through a door", as: door, of: bob, token: own},
	)
	d.known()
	d.put(append(table, d.bound()...))
	d.finish()
}

// bound are calls with tokens of bob's that are for one run, or for one lane.
func (d *devDeployment) bound() (table []asked) {
	d.Helper()
	p := d.crowd[bob].Principal
	d.bind(p, "mine", "mine")
	for name, less := range map[string]auth.Narrowing{
		"run_id": {Scopes: p.Scopes, Run: "mine"}, "lane_id": {Scopes: p.Scopes, Lane: "mine"},
	} {
		child, err := p.Narrow(less, time.Now())
		d.ok(err)
		token, _ := d.token(child)
		for _, r := range []struct {
			of   any
			want envelope.Code
		}{{"mine", ""}, {"other", envelope.CodeScope}, {"Mine", envelope.CodeScope}} {
			table = append(table, asked{name: name, as: bob, token: token, context: map[string]any{name: r.of}, want: r.want})
		}
		table = append(table, asked{name: name + " that is filled in from the token", as: bob, token: token})
	}
	return table
}

// known waits until what was revoked is known, which takes less than a second.
func (d *devDeployment) known() {
	d.Helper()
	p := parties()[bob]
	p.Actor = bob
	token := d.revoked(p)
	for end := time.Now().Add(time.Second); ; {
		nc, err := d.dial(token, "x")
		if err != nil {
			return
		}
		if nc.Close(); time.Now().After(end) {
			d.Fatal("a revoked token is let in for a second")
		}
	}
}
