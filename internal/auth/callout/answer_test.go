package callout

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// asker is a server that asks about a connection.
type asker struct {
	t          testing.TB
	callout    *Callout
	id, xkey   nkeys.KeyPair
	name, user string // public keys
	box        string
}

func newAsker(t testing.TB) *asker {
	t.Helper()
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{t: t, callout: &Callout{Options: Options{
		Keys: keys, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Check: func(token string, now time.Time) (*auth.Principal, error) {
			if token != "good" {
				return nil, errors.New("no token")
			}
			return &auth.Principal{
				Tenant: "t", Actor: "a", Role: auth.Agent, Family: "f", Expires: now.Add(time.Hour),
			}, nil
		},
	}}}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if a.id, err = nkeys.CreateServer(); err != nil {
		t.Fatal(err)
	}
	if a.xkey, err = nkeys.CreateCurveKeys(); err != nil {
		t.Fatal(err)
	}
	a.user, a.name, a.box = public(t, user), public(t, a.id), public(t, a.xkey)
	return a
}

func public(t testing.TB, key nkeys.KeyPair) string {
	t.Helper()
	p, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// question is a good one, as change makes it.
func (a *asker) question(change func(*jwt.AuthorizationRequestClaims)) string {
	a.t.Helper()
	q := jwt.NewAuthorizationRequestClaims(public(a.t, a.callout.Keys.Issuer))
	q.Audience, q.UserNkey = calloutAudience, a.user
	q.Server = jwt.ServerID{ID: a.name, XKey: a.box}
	q.ConnectOptions.Token = "good"
	change(q)
	text, err := q.Encode(a.id)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}

func (a *asker) seal(text []byte) []byte {
	a.t.Helper()
	sealed, err := a.xkey.Seal(text, public(a.t, a.callout.Keys.XKey))
	if err != nil {
		a.t.Fatal(err)
	}
	return sealed
}

// ask returns what the server is told.
func (a *asker) ask(text string) (*jwt.AuthorizationResponseClaims, error) {
	a.t.Helper()
	sealed, err := a.callout.answer(a.seal([]byte(text)), a.box)
	if err != nil {
		return nil, err
	}
	open, err := a.xkey.Open(sealed, public(a.t, a.callout.Keys.XKey))
	if err != nil {
		a.t.Fatal(err)
	}
	told, err := jwt.DecodeAuthorizationResponseClaims(string(open))
	if err != nil {
		a.t.Fatal(err)
	}
	return told, nil
}

func TestAnswer(t *testing.T) {
	a := newAsker(t)
	good := func(*jwt.AuthorizationRequestClaims) {}
	told, err := a.ask(a.question(good))
	if err != nil || told.Jwt == "" || told.Audience != a.name || told.Subject != a.user {
		t.Fatalf("%+v, %v", told, err)
	}
	user, err := jwt.DecodeUserClaims(told.Jwt)
	if err != nil || user.Name != "agent.t.a.f" || user.Audience != auth.Agents || user.Expires == 0 {
		t.Errorf("%+v, %v", user, err)
	}
	bad := func(q *jwt.AuthorizationRequestClaims) { q.ConnectOptions.Token = "bad" }
	if told, err := a.ask(a.question(bad)); err != nil || told.Error != "refused" || told.Jwt != "" {
		t.Errorf("%+v, %v", told, err)
	}
	for name, change := range map[string]func(*jwt.AuthorizationRequestClaims){
		"for somebody else":         func(q *jwt.AuthorizationRequestClaims) { q.Audience = "x" },
		"of another server":         func(q *jwt.AuthorizationRequestClaims) { q.Server.ID = a.user },
		"with another server's box": func(q *jwt.AuthorizationRequestClaims) { q.Server.XKey = a.user },
	} {
		if told, err := a.ask(a.question(change)); err == nil {
			t.Errorf("%s: %+v", name, told)
		}
	}
	if _, err := a.callout.answer([]byte(a.question(good)), ""); err == nil {
		t.Error("a question in the clear was answered")
	}
}

// Whatever comes instead of a question, sealed or not, is not answered with a user, and ends nothing.
func FuzzAnswer(f *testing.F) {
	a := newAsker(f)
	f.Add([]byte(a.question(func(*jwt.AuthorizationRequestClaims) {}))[:40], a.box)
	f.Add([]byte(a.question(func(q *jwt.AuthorizationRequestClaims) { q.ConnectOptions.Token = "x" })), "")
	f.Add([]byte("e30.e30.e30"), a.box)
	f.Add([]byte{}, "X")
	f.Fuzz(func(t *testing.T, text []byte, server string) {
		a := &asker{t: t, callout: a.callout, id: a.id, xkey: a.xkey, name: a.name, user: a.user, box: a.box}
		_, _ = a.callout.answer(text, server)
		if told, err := a.ask(string(text)); err == nil && told.Jwt != "" {
			t.Errorf("let in: %q", text)
		}
	})
}
